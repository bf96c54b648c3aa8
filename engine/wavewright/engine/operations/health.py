"""The HTTP endpoints of a daemon: liveness, readiness and metrics.

`/live` answers while the event loop runs; `/ready` is 200 while every *part* (broker, store) works and the daemon
accepts work, and 503 with the reasons otherwise; `/metrics` is in Prometheus' format. The endpoints only read and show
nothing secret, so there is no login; they listen on loopback by default.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError
from wavewright.engine.operations.metrics import CONTENT_TYPE_LATEST, Metrics

if TYPE_CHECKING:
    from collections.abc import Generator

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response


class PortTakenError(WavewrightError):
    """The health endpoint cannot listen on its address."""

    exit_code = exit_codes.MISUSE


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


def health_app(health: HealthStatus, metrics: Metrics) -> Starlette:
    """Return the HTTP application."""
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    async def live(_: Request) -> Response:
        return JSONResponse({"live": True})

    async def ready(_: Request) -> Response:
        parts = {part: reason or "ok" for part, reason in sorted(health.faults.items())}
        return JSONResponse(
            {"ready": health.is_ready, "parts": parts}, status_code=200 if health.is_ready else 503
        )

    async def told(_: Request) -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return Starlette(routes=[Route("/live", live), Route("/ready", ready), Route("/metrics", told)])


@asynccontextmanager
async def serve_health(
    health: HealthStatus, metrics: Metrics, place: str = "127.0.0.1:0"
) -> AsyncGenerator[int]:
    """Serve at `HOST:PORT` for the block, and yield the port; 0 takes a free one.

    Raises:
        PortTakenError: the port is in use, or the address is not this machine's.
    """
    import uvicorn

    is_listening = anyio.Event()

    class Server(uvicorn.Server):
        """A server that leaves signals to the daemon."""

        @contextmanager
        def capture_signals(self) -> Generator[None]:
            yield

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            is_listening.set()

    listener = open_listener(place)
    app = health_app(health, metrics)
    server = Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))
    with listener:
        async with anyio.create_task_group() as group:
            group.start_soon(server.serve, [listener])
            await is_listening.wait()
            try:
                yield listener.getsockname()[1]
            finally:
                # Answers are short, and a scraper may keep its connection open, so shutdown waits for neither.
                server.should_exit = server.force_exit = True


def open_listener(place: str) -> socket.socket:
    """Return a socket that listens at `HOST:PORT`.

    Raises:
        PortTakenError: the port is in use, or the address is not this machine's.
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
        raise PortTakenError(
            f"health and metrics cannot be served at {place}: {reason}",
            "set `daemon.health` to another place",
        ) from error
    return listener
