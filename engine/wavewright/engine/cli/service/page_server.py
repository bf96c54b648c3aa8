"""Pages that a command serves to whoever has the token of the printed address."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import webbrowser
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import FrameType
from typing import TypeAlias

import anyio
import uvicorn
from starlette.types import ASGIApp

from wavewright.config import exit_codes
from wavewright.engine.cli.common.listening import listener_address, listener_at
from wavewright.engine.cli.common.output import print_line
from wavewright.engine.operations.trace_export import export_traces
from wavewright.engine.view.access import LOOPBACK, TokenAccess

TOKEN_VARIABLE = "WAVEWRIGHT_VIEW_TOKEN"  # noqa: S105 - the name of the variable

OpenPage: TypeAlias = Callable[[], AbstractAsyncContextManager[ASGIApp]]


def serve_page(open_page: OpenPage, what: str, place: str, *, opens: bool) -> int:
    """Serve a page at `HOST:PORT` until a signal, and return the exit code.

    Args:
        open_page: Opens what the page works on and yields its application.
        what: What the line with the address calls it.
        place: The address; port 0 takes a free one.
        opens: Whether the page is opened in a browser.

    Raises:
        CommandError: the address is not HOST:PORT or cannot be used.
    """
    token = os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(32)

    async def serve() -> None:
        async with open_page() as app:
            hosts = {address, *(f"{name}:{address.rpartition(':')[2]}" for name in LOOPBACK)}
            config = uvicorn.Config(
                TokenAccess(app, token, hosts),
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=2,
            )
            print_line(f"{what}: http://{address}/?token={token}")
            if opens:
                webbrowser.open(f"http://{address}/?token={token}")
            # The server repeats the signal that ended it; then what is open here could not be closed.
            signal.signal(signal.SIGTERM, _ignore_signal)
            await uvicorn.Server(config).serve(sockets=[listener])

    with contextlib.closing(listener_at(place, "--listen")) as listener:
        address = listener_address(listener)
        with export_traces():
            anyio.run(serve)
    return exit_codes.OK


def _ignore_signal(number: int, frame: FrameType | None) -> None:
    del number, frame
