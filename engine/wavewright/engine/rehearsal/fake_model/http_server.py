"""The HTTP side of the fake model: uvicorn in a thread, and answers sent piece by piece.

The server accepts requests once `start` returns and has ended when `stop` returns; a client that
waits for a silent answer does not delay its end.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TypeAlias

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from wavewright.engine.rehearsal.fake_model.replies import (
    Answer,
    ApiError,
    ClaimedUsage,
    NoReply,
    RawBody,
    Reply,
    pieces,
    resolve_reply,
)
from wavewright.engine.rehearsal.fake_model.request import FakeModelRequest, Wire, read_request
from wavewright.engine.rehearsal.fake_model.wires import (
    anthropic_error,
    chat_body,
    chat_frames,
    messages_body,
    messages_frames,
    openai_error,
    responses_body,
    responses_frames,
)
from wavewright.planner import Json

Decide: TypeAlias = Callable[[FakeModelRequest], tuple[Answer, int]]
Track: TypeAlias = Callable[[int], None]

_BODIES = {"chat": chat_body, "responses": responses_body, "messages": messages_body}
_FRAMES = {"chat": chat_frames, "responses": responses_frames, "messages": messages_frames}
_PATHS: dict[str, Wire] = {
    "/v1/chat/completions": "chat",
    "/v1/responses": "responses",
    "/v1/messages": "messages",
}


class _StartableServer(uvicorn.Server):
    """A server that sets `is_up` once it accepts requests."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = threading.Event()
        self.loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.loop = asyncio.get_running_loop()
        self.is_up.set()


class ServerThread:
    """A server in a thread of its own."""

    def __init__(self, listener: socket.socket, decide: Decide, track: Track) -> None:
        self._listener = listener
        self._decide = decide
        self._track = track
        self._waiting: set[anyio.Event] = set()
        routes = [
            Route(path, partial(self._endpoint, wire), methods=["POST"])
            for path, wire in _PATHS.items()
        ]
        config = uvicorn.Config(
            Starlette(routes=routes),
            loop="asyncio",
            lifespan="off",
            log_level="critical",
            access_log=False,
            timeout_graceful_shutdown=1,
        )
        self._server = _StartableServer(config)
        self._thread = threading.Thread(target=self._run, name="fake model", daemon=True)

    def start(self) -> None:
        """Serve from now on."""
        self._thread.start()
        if not self._server.is_up.wait(10):
            raise RuntimeError("the fake model server did not start within 10 s")

    def stop(self) -> None:
        """End every answer and the server."""
        self.release()
        self._server.should_exit = True
        self._thread.join(10)
        self._listener.close()

    def release(self) -> None:
        """End whatever answer is still being sent, or is never sent."""
        assert self._server.loop is not None
        self._server.loop.call_soon_threadsafe(self._release)

    def _release(self) -> None:
        for event in tuple(self._waiting):
            event.set()

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._listener]))

    async def _endpoint(self, wire: Wire, http: Request) -> Response:
        try:
            body: Json = json.loads(await http.body())
        except ValueError:
            body = None
        if not isinstance(body, dict):
            return JSONResponse(
                {"error": {"message": "the body is no JSON object"}}, status_code=400
            )
        request = read_request(wire, body, dict(http.headers))
        answer, number = self._decide(request)
        return _AnswerResponse(answer, request, number, self._track, self._waiting)


class _AnswerResponse(Response):
    """Sends an answer with its delays and cuts, until it ends or the client disconnects."""

    def __init__(
        self,
        answer: Answer,
        request: FakeModelRequest,
        number: int,
        track: Track,
        waiting: set[anyio.Event],
    ) -> None:
        super().__init__()
        self._answer = answer
        self._request = request
        self._number = number
        self._track = track
        self._waiting = waiting
        self._is_under_way = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI
        released = anyio.Event()
        self._waiting.add(released)
        self._is_under_way = True
        self._track(1)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(
                    self._end_with, partial(_wait_disconnect, receive), group.cancel_scope
                )
                group.start_soon(self._end_with, released.wait, group.cancel_scope)
                await self._send_answer(send)
                group.cancel_scope.cancel()
        finally:
            self._waiting.discard(released)
            self._finish_early()

    async def _end_with(
        self, wait: Callable[[], Awaitable[None]], scope: anyio.CancelScope
    ) -> None:
        await wait()
        scope.cancel()

    def _finish_early(self) -> None:
        # Before the last byte: a client that has its answer may ask again at once, and is still one
        # client.
        if self._is_under_way:
            self._is_under_way = False
            self._track(-1)

    async def _send_answer(self, send: Send) -> None:
        match self._answer:
            case NoReply():
                await anyio.sleep_forever()
            case ApiError() as failure:
                await self._fail(send, failure)
            case RawBody() as raw:
                await self._send_raw(send, raw)
            case Reply() as reply:
                await anyio.sleep(reply.delay)
                await self._reply(send, resolve_reply(reply, self._request))

    async def _fail(self, send: Send, failure: ApiError) -> None:
        error = anthropic_error if self._request.wire == "messages" else openai_error
        content = json.dumps(error(failure)).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(content)))]
        if failure.retry_after is not None:
            headers.append(("retry-after", f"{failure.retry_after:g}"))
        await _send_headers(send, headers, failure.status)
        await self._end_body(send, content)

    async def _send_raw(self, send: Send, raw: RawBody) -> None:
        await _send_headers(send, list(raw.headers))
        await _send_piece(send, raw.body)
        for _ in range(raw.times):
            await _send_piece(send, raw.repeated)
            await anyio.lowlevel.checkpoint()
        await self._end_body(send)

    async def _reply(self, send: Send, reply: Reply) -> None:
        tokens = _tokens(reply, self._request)
        kind = "text/event-stream" if self._request.is_stream else "application/json"
        await _send_headers(send, [("content-type", kind)])
        sent = self._frames(reply, tokens) if self._request.is_stream else self._body(reply, tokens)
        held: bytes | None = None
        async for piece in sent:
            if held is not None:
                await _send_piece(send, held)
            held = piece
        if reply.cut == "connection":
            # An answer that is left unfinished closes its connection.
            await _send_piece(send, held or b"")
            return
        await self._end_body(send, held or b"")

    async def _frames(self, reply: Reply, tokens: ClaimedUsage | None) -> AsyncIterator[bytes]:
        for frame in _FRAMES[self._request.wire](reply, self._request, tokens, self._number):
            yield frame.encoded
            if reply.interval:
                await anyio.sleep(reply.interval)

    async def _body(self, reply: Reply, tokens: ClaimedUsage | None) -> AsyncIterator[bytes]:
        content = json.dumps(
            _BODIES[self._request.wire](reply, self._request, tokens, self._number)
        )
        if reply.cut == "connection":
            content = content[: len(content) // 2]
        if not reply.interval:
            yield content.encode()
            return
        for piece in pieces(content, reply.piece):
            yield piece.encode()
            await anyio.sleep(reply.interval)

    async def _end_body(self, send: Send, content: bytes = b"") -> None:
        self._finish_early()
        await send({"type": "http.response.body", "body": content, "more_body": False})


async def _wait_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_headers(send: Send, headers: list[tuple[str, str]], status: int = 200) -> None:
    raw = [(name.encode(), value.encode()) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": raw})


async def _send_piece(send: Send, content: bytes) -> None:
    await send({"type": "http.response.body", "body": content, "more_body": True})


def _tokens(reply: Reply, request: FakeModelRequest) -> ClaimedUsage | None:
    """Return the count to claim: four characters make a token, unless the reply says otherwise."""
    if isinstance(reply.tokens, ClaimedUsage):
        return reply.tokens
    if reply.tokens == "missing":
        return None
    written = len(reply.text) + sum(len(call.arguments) for call in reply.calls)
    return ClaimedUsage(max(1, request.character_count // 4), max(1, written // 4))
