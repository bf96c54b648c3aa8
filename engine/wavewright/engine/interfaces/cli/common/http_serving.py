"""What a command serves over HTTP: its socket, and pages for clients with the token of the printed
address.
"""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias

import anyio

from wavewright.config import exit_codes
from wavewright.config.sections import valid_host_port
from wavewright.engine.interfaces.cli.common.output import CommandError, print_line
from wavewright.engine.service.operations.trace_export import export_traces

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from wavewright.engine.interfaces.view.guard import RoleOfPath
    from wavewright.engine.interfaces.view.people import PageAccess

OpenPage: TypeAlias = "Callable[[], AbstractAsyncContextManager[ASGIApp]]"


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
    # Not above: other commands need a socket only, and may lack the extra with these.
    from sse_starlette.sse import AppStatus

    from wavewright.engine.interfaces.view.guard import LOOPBACK, AccessGuard, role_of_view
    from wavewright.engine.interfaces.view.people import PageAccess
    from wavewright.engine.service.operations.bounded_http import BoundedRequests
    from wavewright.engine.service.operations.health import http_served

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
                    import webbrowser

                    webbrowser.open(url)
                await anext(signals)

    with contextlib.closing(listener_at(place, "--listen")) as listener, export_traces():
        anyio.run(serve)
    return exit_codes.OK


def listener_at(place: str, option: str) -> socket.socket:
    """Return a socket that listens at `HOST:PORT`; port 0 takes a free one.

    Raises:
        CommandError: the address is not HOST:PORT, or cannot be used; names the option.
    """
    try:
        host, _, port = valid_host_port(place).rpartition(":")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host.strip("[]"), int(port)), family=family)
    except ValueError as error:
        raise CommandError(f"{option} {place!r}: {error}") from error
    except OSError as error:
        message = f"{option} {place!r} cannot be used: {error.strerror}"
        hint = "name another address; port 0 takes a free one"
        raise CommandError(message, hint=hint, exit_code=exit_codes.ENVIRONMENT) from error


def listener_address(listener: socket.socket) -> str:
    """Return `HOST:PORT` of a socket, as it stands in addresses of pages."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
