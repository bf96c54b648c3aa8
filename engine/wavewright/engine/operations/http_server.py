"""An HTTP server that runs beside other tasks of a process and leaves signals to them."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Generator

    from starlette.types import ASGIApp


@asynccontextmanager
async def http_served(app: ASGIApp, listener: socket.socket, *, grace: int) -> AsyncGenerator[None]:
    """Serve an application on a listening socket for the block.

    Args:
        app: The application.
        listener: The socket; it stays open.
        grace: Seconds for which answers may go on after the block; with 0 they are not waited for.
    """
    import uvicorn

    is_listening = anyio.Event()

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Generator[None]:
            yield

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            is_listening.set()

    server = Server(
        uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=grace or None
        )
    )
    async with anyio.create_task_group() as group:
        group.start_soon(server.serve, [listener])
        await is_listening.wait()
        try:
            yield
        finally:
            server.should_exit = True
            server.force_exit = not grace
