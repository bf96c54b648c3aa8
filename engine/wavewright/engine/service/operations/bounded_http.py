"""What one client may take of an HTTP server: connections, and time for what it has begun to say.

The server itself waits for ever for the end of a request's head, and counts no connections by
address. Bodies are bounded by `BoundedRequests`, an application in front of another.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Final, cast

import anyio
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

SECONDS_TO_SAY: Final = 10.0
"""For which the head of a request, or the next part of its body, is waited for."""
MAX_CONNECTIONS: Final = 100
"""Of one address at once."""
MAX_BODY: Final = 2**20
"""Bytes of a request's body."""
_FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class _ServerBounds:
    """What all connections of one server share."""

    is_proxy: Callable[[str], bool] | None
    seconds: float
    open_connections: Counter[str] = field(default_factory=Counter[str])

    def is_full(self, address: str) -> bool:
        """Whether an address may open no more connections."""
        is_counted = self.is_proxy is None or not self.is_proxy(address)
        return is_counted and self.open_connections[address] >= MAX_CONNECTIONS


def bounded_protocol(
    is_proxy: Callable[[str], bool] | None = None, seconds: float = SECONDS_TO_SAY
) -> type[H11Protocol]:
    """Return the protocol of one server, which closes connections that take too much.

    Args:
        is_proxy: Whether an address is that of a proxy, whose connections are other people's and
            are not counted.
        seconds: For which a connection may stay without a whole head of a request.
    """

    class ServedProtocol(_BoundedProtocol):
        bounds = _ServerBounds(is_proxy, seconds)

    return ServedProtocol


class _BoundedProtocol(H11Protocol):
    """A connection that is closed where the head of a request does not come in time."""

    bounds: ClassVar[_ServerBounds]
    _address: str | None = None
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A transport of uvloop is no subclass of asyncio's.
        transport = cast("asyncio.Transport", transport)
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        if self.bounds.is_full(address):
            transport.write(_FULL)
            transport.close()
            return
        self._address = address
        self.bounds.open_connections[address] += 1
        self._time_head()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._time_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # What is left of a body that was not read counts like the head of the next request.
        self._time_head()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
        if self._address is not None:
            self.bounds.open_connections[self._address] -= 1
        super().connection_lost(exc)

    def _time_head(self) -> None:
        """Time the wait for a request's head; an answer that is under way takes as long as it takes."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        is_answering = cycle is not None and not cycle.response_complete
        if is_answering and self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        elif not is_answering and self._head_timer is None:
            self._head_timer = self.loop.call_later(self.bounds.seconds, self.transport.close)


class BoundedRequests:
    """An ASGI application in front of another, which bounds the bodies of requests."""

    def __init__(
        self, app: ASGIApp, max_body: int = MAX_BODY, seconds: float = SECONDS_TO_SAY
    ) -> None:
        """Bound the bodies that an application is given.

        Args:
            app: The application.
            max_body: Bytes of a body, at most.
            seconds: For which the next part of a body is waited for.
        """
        self._app = app
        self._max_body = max_body
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; answer 413 where its body is too long, 408 where it does not come."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length, has_ended, has_begun = 0, False, False

        async def receive_bounded() -> Message:
            nonlocal length, has_ended
            if has_ended:
                return await receive()
            try:
                with anyio.fail_after(self._seconds):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, "the rest of the request did not come in time") from None
            length += len(message.get("body", b""))
            has_ended = not message.get("more_body", False)
            if length > self._max_body:
                raise HTTPException(413, self._too_long())
            return message

        async def send_noting(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        if _declared_length(scope) > self._max_body:
            await PlainTextResponse(self._too_long(), 413)(scope, receive, send)
            return
        try:
            await self._app(scope, receive_bounded, send_noting)
        except HTTPException as error:
            if has_begun:
                raise
            await PlainTextResponse(error.detail, error.status_code)(scope, receive, send)

    def _too_long(self) -> str:
        return f"a request has at most {self._max_body:,} bytes"


def _declared_length(scope: Scope) -> int:
    declared = dict(scope["headers"]).get(b"content-length", b"0")
    return int(declared) if declared.isdigit() else 0
