"""Pages that a command serves over HTTP, for clients with the token of the printed address.

A page streams what changes, which the extra `view` brings: a command that may serve one and need
not, such as `daemon`, loads this module only then.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import webbrowser
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TypeAlias

import anyio
from sse_starlette.sse import AppStatus
from starlette.types import ASGIApp

from wavewright.config import Settings, exit_codes
from wavewright.engine.interfaces.cli.common.http_serving import listener_address, listener_at
from wavewright.engine.interfaces.cli.common.output import print_line
from wavewright.engine.interfaces.view.app import open_view
from wavewright.engine.interfaces.view.guard import (
    AccessGuard,
    RoleOfPath,
    role_of_view,
)
from wavewright.engine.interfaces.view.people import LOOPBACK, PageAccess
from wavewright.engine.service.operations.bounded_http import BoundedRequests
from wavewright.engine.service.operations.health import http_served
from wavewright.engine.service.operations.trace_export import export_traces

OpenPage: TypeAlias = Callable[[], AbstractAsyncContextManager[ASGIApp]]


def live_page_served(
    settings: Settings, listener: socket.socket
) -> AbstractAsyncContextManager[str]:
    """Serve the live page of a project for the block to whom its settings name, and yield its
    address.
    """
    access = PageAccess.from_settings(settings)
    return page_served(partial(open_view, settings, access.prefix), listener, access)


@asynccontextmanager
async def page_beside_run(settings: Settings, *, grace: int) -> AsyncGenerator[str]:
    """Serve the live page of a project on a free port of this machine for the block, and yield its
    address; streams may go on for so many seconds after the block.
    """
    with contextlib.closing(listener_at("127.0.0.1:0", "--view")) as listener:
        async with page_served(lambda: open_view(settings), listener, grace=grace) as url:
            yield url


@asynccontextmanager
async def page_served(
    open_page: OpenPage,
    listener: socket.socket,
    access: PageAccess | None = None,
    *,
    role_of_path: RoleOfPath | None = None,
    grace: int | None = None,
) -> AsyncGenerator[str]:
    """Serve a page on a listening socket for the block, and yield its address, with the common
    token where there is one.

    Args:
        open_page: Opens what the page works on and yields its application.
        listener: The socket; it stays open.
        access: Who may use it; whoever has the common token where absent.
        role_of_path: Returns the role that a change at a path needs; that of the live page where
            absent.
        grace: Seconds for which streams may go on to their ends after the block; by default the
            block's end cuts them off.
    """
    access = access or PageAccess()
    token = access.common_token()
    address = listener_address(listener)
    hosts = {address, *(f"{name}:{address.rpartition(':')[2]}" for name in LOOPBACK)}
    async with open_page() as app:
        # What a page streams ends with this.
        AppStatus.should_exit = False
        guard = AccessGuard(app, access, token, hosts, role_of_path or role_of_view)
        served = http_served(
            BoundedRequests(guard), listener, grace=grace or 2, is_proxy=access.is_proxy
        )
        with contextlib.closing(guard):
            async with served:
                try:
                    place = access.public_url or f"http://{address}/"
                    yield place if token is None else f"{place.rstrip('/')}/?token={token}"
                finally:
                    AppStatus.should_exit = grace is None


def serve_page(
    open_page: OpenPage,
    what: str,
    place: str,
    access: PageAccess,
    *,
    opens: bool,
    role_of_path: RoleOfPath | None = None,
) -> int:
    """Serve a page at `HOST:PORT` until a signal, and return the exit code.

    Args:
        open_page: Opens what the page works on and yields its application.
        what: What the line with the address calls it.
        place: The address; port 0 takes a free one.
        access: Who may use it.
        opens: Whether the page is opened in a browser.
        role_of_path: Returns the role that a change at a path needs; that of the live page where
            absent.

    Raises:
        CommandError: the address is not HOST:PORT or cannot be used.
    """

    async def serve() -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            served = page_served(open_page, listener, access, role_of_path=role_of_path)
            async with served as url:
                print_line(f"{what}: {url}")
                if opens:
                    webbrowser.open(url)
                await anext(signals)

    with contextlib.closing(listener_at(place, "--listen")) as listener, export_traces():
        anyio.run(serve)
    return exit_codes.OK
