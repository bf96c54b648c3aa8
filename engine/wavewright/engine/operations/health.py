"""Whether a daemon lives and can work, and its metrics, over HTTP.

`/live` answers as long as the event loop turns; `/ready` is 200 while every *part* (broker, store) works and the
daemon takes work, and 503 with the reasons otherwise; `/metrics` is Prometheus'. Nothing here changes anything and
nothing is secret, so there is no login; it listens on loopback unless told otherwise.
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
    """The health endpoint cannot listen where it should."""

    exit_code = exit_codes.MISUSE


@dataclass(slots=True)
class HealthStatus:
    """What is known of the parts; a part that nobody has spoken for yet does not work."""

    faults: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    """By part: why it does not work; None where it does."""

    def expect(self, part: str) -> None:
        """Count a part in from now on; it does not work until it is said to."""
        self.faults.setdefault(part, "not there yet")

    def mark_working(self, part: str) -> None:
        """Note that a part works."""
        self.faults[part] = None

    def mark_failing(self, part: str, reason: str) -> None:
        """Note that a part does not work, and why."""
        self.faults[part] = reason

    @property
    def is_ready(self) -> bool:
        """Whether everything works that must."""
        return bool(self.faults) and all(reason is None for reason in self.faults.values())


def health_app(health: HealthStatus, metrics: Metrics) -> Starlette:
    """Return the application that answers."""
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
    """Answer at `HOST:PORT` while the block runs, and give the port; 0 is a free one.

    Raises:
        PortTakenError: somebody else listens there, or the address is not this machine's.
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
                # Nobody's answer takes long enough to be waited for, and a scraper may hold its connection for ever.
                server.should_exit = server.force_exit = True


def open_listener(place: str) -> socket.socket:
    """Return a socket that listens at `HOST:PORT`.

    Raises:
        PortTakenError: somebody else listens there, or the address is not this machine's.
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
