"""The HTTP endpoints of a daemon and of a worker of the fleet: liveness, readiness and metrics.

`/live` answers while the event loop runs; `/ready` is 200 while every *part* (broker, store) works
and the daemon accepts work, and 503 with the reasons otherwise; `/metrics` is in Prometheus'
format. The endpoints only read and show nothing secret, so there is no login; they listen on
loopback by default.

`http_served` runs any HTTP server beside other tasks of a process and leaves signals to them.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from wavewright.config import WavewrightError, exit_codes
from wavewright.engine.service.operations.bounded_http import bounded_protocol

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp


class PortTakenError(WavewrightError):
    """A daemon cannot listen on an address of its settings."""

    exit_code = exit_codes.MISUSE


class MetricsText(Protocol):
    """Metrics that can be scraped."""

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        ...


@dataclass(slots=True)
class HealthStatus:
    """The state of the parts; a part does not work until it is marked as working."""

    faults: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    """By part, why it does not work; None if it does."""

    def expect(self, part: str) -> None:
        """Add a part, which does not work until it is marked as working."""
        self.faults.setdefault(part, "not there yet")

    def mark_working(self, part: str) -> None:
        """Mark a part as working."""
        self.faults[part] = None

    def mark_failing(self, part: str, reason: str) -> None:
        """Mark a part as not working, with the reason."""
        self.faults[part] = reason

    @property
    def is_ready(self) -> bool:
        """Whether every part works."""
        return bool(self.faults) and all(reason is None for reason in self.faults.values())


def health_app(health: HealthStatus, metrics: MetricsText) -> Starlette:
    """Return the HTTP application."""
    from prometheus_client.exposition import CONTENT_TYPE_LATEST  # not loaded for other servers

    async def live(_: Request) -> Response:
        return JSONResponse({"live": True})

    async def ready(_: Request) -> Response:
        parts = {part: reason or "ok" for part, reason in sorted(health.faults.items())}
        return JSONResponse(
            {"ready": health.is_ready, "parts": parts}, status_code=200 if health.is_ready else 503
        )

    async def metrics_page(_: Request) -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return Starlette(
        routes=[Route("/live", live), Route("/ready", ready), Route("/metrics", metrics_page)]
    )


@asynccontextmanager
async def serve_health(
    health: HealthStatus,
    metrics: MetricsText,
    place: str = "127.0.0.1:0",
    setting: str = "daemon.health",
) -> AsyncGenerator[int]:
    """Serve at `HOST:PORT` for the block, and yield the port; 0 takes a free one.

    Raises:
        PortTakenError: the port is in use, or the address is not this machine's.
    """
    with open_listener(place, "health and metrics", setting) as listener:
        # Answers are short, and a scraper may keep its connection open.
        async with http_served(health_app(health, metrics), listener, grace=0):
            yield listener.getsockname()[1]


def open_listener(place: str, what: str, setting: str) -> socket.socket:
    """Return a socket that listens at `HOST:PORT`.

    Raises:
        PortTakenError: the port is in use, or the address is not this machine's; says what cannot
            be served, and which setting names the address.
    """
    try:
        return listening_socket(place)
    except OSError as error:
        raise PortTakenError(
            f"{what} cannot be served at {place}: {error.strerror}",
            f"set `{setting}` to another place",
        ) from error


def listening_socket(place: str) -> socket.socket:
    """Return a socket that listens at `HOST:PORT`; port 0 takes a free one.

    Raises:
        OSError: it cannot listen there; the reason names the process that has the port, where that
            is known.
    """
    host, _, port = place.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, int(port)))
        listener.listen(64)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        reason = error.strerror or str(error)
        holder = _process_at(int(port)) if error.errno == errno.EADDRINUSE else None
        raise OSError(error.errno, f"{reason} by {holder}" if holder else reason) from error
    return listener


def _process_at(port: int) -> str | None:
    """Return the process that listens on a port of this machine, where Linux shows it to this user."""
    sockets = set[str]()
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        with suppress(OSError):  # not on this system, or not shown
            for row in table.read_text().splitlines()[1:]:
                _, local, _, state, *others = row.split()
                if state == _LISTENING and int(local.rpartition(":")[2], 16) == port:
                    sockets.add(f"socket:[{others[5]}]")
    for process in Path("/proc").glob("[0-9]*") if sockets else ():
        with suppress(OSError):  # of another user, or ended meanwhile
            for opened in process.joinpath("fd").iterdir():
                if _target_of(opened) in sockets:
                    name = process.joinpath("comm").read_text().strip()
                    return f"{name}, process {process.name}"
    return None


def _target_of(opened: Path) -> str:
    """Return what a process has open; empty where it has closed it meanwhile."""
    try:
        return str(opened.readlink())
    except FileNotFoundError:
        return ""


_LISTENING: Final = "0A"
"""State of a listening socket in the kernel's tables."""


@asynccontextmanager
async def http_served(
    app: ASGIApp,
    listener: socket.socket,
    *,
    grace: int,
    is_proxy: Callable[[str], bool] | None = None,
) -> AsyncGenerator[None]:
    """Serve an application on a listening socket for the block; connections are bounded.

    Args:
        app: The application.
        listener: The socket; it stays open.
        grace: Seconds for which answers may go on after the block; with 0 they are not waited for.
        is_proxy: Whether connections from an address are other people's, which are not counted.
    """
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
            app,
            http=bounded_protocol(is_proxy),
            log_config=None,
            access_log=False,
            lifespan="off",
            # Who a proxy names is read where it is known which proxy is trusted.
            proxy_headers=False,
            timeout_graceful_shutdown=grace or None,
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
