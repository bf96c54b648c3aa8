"""MCP servers that are reached over streamable HTTP.

The library sends and resumes; this reads what comes back before it does. A bad response is the
fault of its own request: the library would end the session, and every other call with it, and tell
no status from another.
"""

from __future__ import annotations

import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Final, cast
from urllib.parse import quote

import anyio
import anyio.lowlevel
import httpx2
import mcp_types
from anyio.abc import ObjectReceiveStream
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import RequestId
from pydantic_core import from_json

from wavewright.planner.language.call_outcomes import is_unknown_by_status
from wavewright.tools.functions.errors import retry_after_seconds
from wavewright.tools.mcp.connection import (
    CallFault,
    ConnectionState,
    MessageStreams,
    RateAllowance,
)
from wavewright.tools.mcp.results import correct_result
from wavewright.tools.mcp.tools import McpServerSettings
from wavewright.tools.mcp.wire import (
    MAX_MESSAGE_BYTES,
    NotAMessage,
    corrected,
    messages_in,
)
from wavewright.tools.network import kept_tls_context


@asynccontextmanager
async def http_transport(
    server: McpServerSettings, state: ConnectionState
) -> AsyncGenerator[MessageStreams]:
    """Connect over HTTP; the library follows no redirect to another origin, and reconnects with
    `Last-Event-ID`.
    """
    assert server.url is not None
    transport = _CheckingTransport(state)
    client = httpx2.AsyncClient(
        # A compressed body could be small here and huge once it is decompressed.
        headers={**server.headers, "Accept-Encoding": "identity"},
        transport=transport,
        timeout=httpx2.Timeout(server.timeout, read=max(server.timeout, _SSE_READ_SECONDS)),
        trust_env=False,
    )
    async with (
        client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
        ) as streams,
    ):
        # They are memory streams, though the library names only what it needs of them.
        received, outgoing = cast("MessageStreams", streams)
        yield _SiftedStream(received, state, transport), outgoing


_SSE_READ_SECONDS: Final = 300.0
_MAX_ERROR_BODY: Final = 64 * 2**10
_SIDE_SECONDS: Final = 3.0
"""What a server gets to write the body of an error, and to take what has no answer."""


class _SiftedStream(ObjectReceiveStream[SessionMessage | Exception]):
    """The messages of a stream, without tools that no client can call, and with the faults that
    were found.
    """

    def __init__(
        self,
        stream: ObjectReceiveStream[SessionMessage | Exception],
        state: ConnectionState,
        transport: _CheckingTransport,
    ) -> None:
        self._stream = stream
        self._state = state
        self._faults = transport.faults
        self._methods = transport.methods

    async def receive(self) -> SessionMessage | Exception:
        try:
            item = await self._stream.receive()
        except anyio.EndOfStream:
            self._state.end("")  # the library sends nothing more
            raise
        if not isinstance(item, SessionMessage):
            return item
        self._state.hear()
        match item.message:
            case mcp_types.JSONRPCError(id=int() | str() as id_) as error:
                self._methods.pop(id_, None)
                if (fault := self._faults.pop(id_, None)) is not None:
                    # The code and the data of a handshake decide which protocol is spoken.
                    error.error.message = fault.reason
                    if error.error.data is None:
                        error.error.data = fault
            case mcp_types.JSONRPCResponse():
                self._faults.pop(item.message.id, None)
                method = self._methods.pop(item.message.id, "")
                correct_result(item.message, method, self._state)
            case _:
                self._state.count_unasked(item.message)
        return item

    async def aclose(self) -> None:
        await self._stream.aclose()


class _CheckingTransport(httpx2.AsyncHTTPTransport):
    """Turns what cannot be used into the fault of the request that it answers."""

    def __init__(self, state: ConnectionState) -> None:
        super().__init__(verify=kept_tls_context())
        self._state = state
        self.faults: dict[RequestId, CallFault] = {}
        """Request → why it has no answer, until the library has told so."""
        self.methods: dict[RequestId, str] = {}
        """Request → its method, until it is answered."""
        self._streams = RateAllowance(20, 1)
        self._session_ids: dict[str, bytes] = {}
        """What stands for the id of a session → the id, where the library could not send it."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if (sent := self._session_ids.get(request.headers.get(_SESSION, ""))) is not None:
            raw = [
                (name, sent if name.lower() == _SESSION.encode() else value)
                for name, value in request.headers.raw
            ]
            request.headers = httpx2.Headers(raw)
        if request.method == "GET":
            return await self._stream_of(request)
        asked = await _asked_request(request)
        if asked is None:
            return await self._accepted(request)
        id_, method = asked
        self.methods[id_] = method
        is_handshake = method in _HANDSHAKE
        try:
            response = await super().handle_async_request(request)
        except httpx2.TransportError as error:
            if is_handshake:
                raise
            self.faults[id_] = _fault_of_connection(error)
            return _nothing(request)
        try:
            return await self._checked(response, request, id_, is_handshake=is_handshake)
        except NotAMessage as error:
            self.faults[id_] = CallFault("unreadable", str(error))
        except httpx2.TransportError as error:
            self.faults[id_] = _fault_of_connection(error)
        finally:
            if id_ in self.faults:
                await response.aclose()
        return _nothing(request)

    async def _stream_of(self, request: httpx2.Request) -> httpx2.Response:
        """Open a stream of events that answers no request of its own; one that is opened again and
        again is waited for.
        """
        if not self._streams.take():
            await anyio.sleep(1.0)
        response = await super().handle_async_request(request)
        if _is_compressed(response):
            await response.aclose()
            return _nothing(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _NotificationStream(response.stream, self._state)
        return response

    async def _accepted(self, request: httpx2.Request) -> httpx2.Response:
        """Send what has no answer: a notification, the answer of a request of the server, or the end
        of the session. The library sends nothing else meanwhile, so it is not waited for long, and of
        the response only the head counts.
        """
        response: httpx2.Response | None = None
        with anyio.move_on_after(_SIDE_SECONDS):
            response = await super().handle_async_request(request)
            await _read(response, _MAX_ERROR_BODY)
        if response is None:
            return httpx2.Response(HTTPStatus.ACCEPTED, request=request)
        return _replaced(response, b"", request, response.status_code)

    async def _checked(
        self,
        response: httpx2.Response,
        request: httpx2.Request,
        id_: RequestId,
        *,
        is_handshake: bool,
    ) -> httpx2.Response:
        """Return a response that the library can read.

        Raises:
            NotAMessage: its body is none.
            httpx2.TransportError: the connection breaks.
        """
        if is_handshake:
            self._name_session(response)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.status_code >= HTTPStatus.BAD_REQUEST:
            body = await _body_of_error(response)
            has_session = _SESSION in request.headers
            self.faults[id_] = _fault_of_status(response, body, has_session=has_session)
            # That of a handshake decides which protocol is spoken.
            shown = body if is_handshake else b""
            return _replaced(response, shown, request, response.status_code)
        if _is_compressed(response):
            raise NotAMessage("the response is compressed, which was not asked for")
        if kind == "text/event-stream":
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _AnswerStream(response.stream, self._state, self.faults, id_)
            response.headers["content-type"] = kind  # events are UTF-8, whatever it says
            return response
        if not response.is_success and (response.has_redirect_location or is_handshake):
            return response
        if not response.is_success:
            raise NotAMessage(f"it answered with {_named_status(response.status_code)}")
        body = _in_utf_8(await _read(response, MAX_MESSAGE_BYTES), response.charset_encoding)
        if not body.strip():
            raise NotAMessage(
                f"it answered with {_named_status(response.status_code)} and an empty body"
            )
        messages = messages_in(body, self._state.warn)
        answer = _answer_among(messages, id_)
        if answer is None:
            # Some servers name another type than that of JSON, or none: only the body tells.
            fault = next((one for one in messages if isinstance(one, NotAMessage)), None)
            is_json = fault is not None and _LOOKS_LIKE_JSON.match(body) is not None
            status = _named_status(response.status_code)
            reason = str(fault) if is_json else f"it answered with {status} and {kind or 'no type'}"
            quoted = " ".join(body[:200].decode(errors="replace").split())
            raise NotAMessage(f"{reason}, which holds no answer: {quoted}")
        written = answer.model_dump_json(by_alias=True, exclude_unset=True)
        return _replaced(response, written.encode(), request)

    def _name_session(self, response: httpx2.Response) -> None:
        """Have ASCII stand for the id of a session that has other characters."""
        written = response.headers.get(_SESSION, "")
        if not written.isascii():
            name = quote(written)
            self._session_ids[name] = next(
                value
                for header, value in response.headers.raw
                if header.lower() == _SESSION.encode()
            )
            response.headers[_SESSION] = name


_SESSION: Final = "mcp-session-id"
_COMPRESSIONS: Final = frozenset({"gzip", "x-gzip", "deflate", "compress", "br", "zstd"})


def _is_compressed(response: httpx2.Response) -> bool:
    named = response.headers.get("content-encoding", "").split(",")
    return any(encoding.strip().lower() in _COMPRESSIONS for encoding in named)


def _in_utf_8(body: bytes, charset: str | None) -> bytes:
    """Return a body in UTF-8; where it is in the charset that it names, it is written anew."""
    if charset is None or _CHARSETS.fullmatch(charset) is None:
        return body
    try:
        body.decode()
        is_utf_8 = b"\0" not in body
    except UnicodeDecodeError:
        is_utf_8 = False
    return body if is_utf_8 else body.decode(charset, errors="replace").encode()


# Others take long to decode: a server could name them for that.
_CHARSETS: Final = re.compile(
    r"iso-?8859-1?\d|latin-?1|windows-125\d|cp125\d|utf-?(?:16|32)(?:-?[lb]e)?|shift_jis|euc-(?:jp|kr)"
    r"|gbk|gb2312|gb18030|big5|koi8-[ru]",
    re.IGNORECASE,
)
_LOOKS_LIKE_JSON: Final = re.compile(rb"\s*[{\[]")


_HANDSHAKE: Final = frozenset({"initialize", "server/discover"})


async def _asked_request(request: httpx2.Request) -> tuple[RequestId, str] | None:
    """Return id and method of the JSON-RPC request that an HTTP request sends, if it sends one."""
    if request.method != "POST":
        return None
    match from_json(await request.aread()):
        case {"id": int() | str() as id_, "method": str() as method}:
            return id_, method
        case _:
            return None


def _nothing(request: httpx2.Request) -> httpx2.Response:
    """Return a response that says only that there is a fault."""
    return httpx2.Response(HTTPStatus.BAD_GATEWAY, request=request)


def _replaced(
    response: httpx2.Response, body: bytes, request: httpx2.Request, status: int = HTTPStatus.OK
) -> httpx2.Response:
    # As bytes: what is no ASCII could not be written again.
    headers = [
        (name, value) for name, value in response.headers.raw if name.lower() not in _OF_THE_BODY
    ]
    headers.append((b"content-type", b"application/json"))
    return httpx2.Response(status, headers=headers, content=body, request=request)


_OF_THE_BODY: Final = frozenset(
    {b"content-length", b"content-encoding", b"transfer-encoding", b"content-type"}
)


def _answer_among(
    messages: list[mcp_types.JSONRPCMessage | NotAMessage], id_: RequestId
) -> mcp_types.JSONRPCMessage | None:
    """Return the answer of a request; None where there is none."""
    for message in messages:
        if isinstance(message, (mcp_types.JSONRPCResponse, mcp_types.JSONRPCError)):
            # A server that answers this request answers it, whichever id it writes.
            message.id = id_
            return message
    return None


async def _read(response: httpx2.Response, limit: int) -> bytes:
    """Return the body of a response.

    Raises:
        NotAMessage: it is too large.
        httpx2.TransportError: the connection breaks.
    """
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    body = bytearray()
    async for chunk in response.stream:
        body += chunk
        if len(body) > limit:
            break
        # Chunks of one byte are read without a wait, and leave others their turn.
        await anyio.lowlevel.checkpoint()
    await response.aclose()
    return bytes(body[: limit + 1])


async def _body_of_error(response: httpx2.Response) -> bytes:
    """Return the body of an error; nothing where it cannot be read soon, since its status says the
    most.
    """
    if not _is_compressed(response):
        with suppress(httpx2.TransportError), anyio.move_on_after(_SIDE_SECONDS):
            return await _read(response, _MAX_ERROR_BODY)
    await response.aclose()
    return b""


def _fault_of_status(response: httpx2.Response, body: bytes, *, has_session: bool) -> CallFault:
    """Return what an error's status and body say."""
    status = response.status_code
    text = _words_of(body)
    named = _named_status(status)
    reason = f"{named}: {text}" if text else named
    # Of a bad request any word of the session is enough: the call did not reach its tool.
    is_of_session = status == HTTPStatus.BAD_REQUEST and "session" in text.casefold()
    if has_session and (status in _GONE or is_of_session or is_expired_session(text)):
        return CallFault("expired", f"it does not know the session any more ({reason})")
    return CallFault(
        "failed",
        reason,
        hint=_STATUS_HINTS.get(status),
        # As docs/reference/retries.md says of HTTP.
        transient=status in _TRANSIENT or status >= HTTPStatus.INTERNAL_SERVER_ERROR,
        retry_after=retry_after_seconds(response.headers.get("retry-after", ""), time.time()),
        is_unclear=is_unknown_by_status(status, has_retry_after="retry-after" in response.headers),
    )


def _named_status(status: int) -> str:
    return f"HTTP {status} {httpx2.codes.get_reason_phrase(status)}".rstrip()


_GONE: Final = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.GONE})
_TRANSIENT: Final = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
)
_STATUS_HINTS: Final[Mapping[int, str]] = {
    HTTPStatus.UNAUTHORIZED: "check its token in mcp.servers.NAME.headers",
    HTTPStatus.FORBIDDEN: "check what its token in mcp.servers.NAME.headers may do",
    HTTPStatus.NOT_FOUND: "check the path of mcp.servers.NAME.url",
    HTTPStatus.METHOD_NOT_ALLOWED: "check mcp.servers.NAME.url: it may speak the older HTTP with SSE",
}
_EXPIRED_SESSION: Final = re.compile(
    r"session.{0,40}(?:not found|unknown|expired|terminated|closed|invalid|does not exist|required)"
    r"|(?:no valid|invalid|unknown|missing|expired|no such|no) session"
    r"|server (?:is )?not initialized",
    re.IGNORECASE | re.DOTALL,
)


def is_expired_session(text: str) -> bool:
    """Return whether a server's words say that it does not know a session any more."""
    return _EXPIRED_SESSION.search(text[:_MAX_ERROR_BODY]) is not None


def _words_of(body: bytes) -> str:
    """Return what an error's body says in words: the message of JSON-RPC, or its beginning."""
    try:
        value: object = from_json(body)
    except ValueError:
        return " ".join(body[:1_000].decode(errors="replace").split())
    match value:
        case {"error": {"message": str() as message}} | {"message": str() as message}:
            return " ".join(message[:1_000].split())
        case {"error_description": str() as message} | {"error": str() as message}:
            return " ".join(message[:1_000].split())
        case _:
            return ""


def _fault_of_connection(error: httpx2.TransportError) -> CallFault:
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)):
        return CallFault("unsent", reason, hint=proxy_hint(), transient=True)
    return CallFault("lost", reason)


def proxy_hint() -> str | None:
    """Return what a variable that names a proxy does here, where one is set."""
    names = (
        name
        for proxy in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
        for name in (proxy, proxy.lower())
    )
    found = next((name for name in names if os.environ.get(name)), None)
    if found is None:
        return None
    return (
        f"{found} is set, but MCP servers are reached directly: start one that is near it instead"
    )


_EVENT_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r|\n\r\n")


class _EventStream(httpx2.AsyncByteStream, ABC):
    """Events, each measured and corrected before it is parsed."""

    def __init__(self, stream: httpx2.AsyncByteStream, state: ConnectionState) -> None:
        self._stream = stream
        self._state = state

    async def __aiter__(self) -> AsyncIterator[bytes]:
        waiting = bytearray()
        async for chunk in self._stream:
            await anyio.lowlevel.checkpoint()
            self._count(len(chunk))
            searched = max(0, len(waiting) - 3)
            waiting += chunk
            while (end := _EVENT_END.search(waiting, searched)) is not None:
                event = bytes(waiting[: end.end()])
                del waiting[: end.end()]
                searched = 0
                yield self._readable(event.removeprefix(b"\xef\xbb\xbf"))
                if self._state.ended.is_set():
                    return
            _refuse_longer(len(waiting))
        if waiting:
            yield self._last(bytes(waiting))

    @abstractmethod
    def _count(self, size: int) -> None:
        """Count what has come.

        Raises:
            NotAMessage: it is too much.
        """

    def _pass_by(self, message: NotAMessage, data: bytes) -> None:
        """Log what is no message."""
        self._state.skip(data, str(message))

    def _last(self, text: bytes) -> bytes:
        """Return what comes after the last event: an event without an end, or a message alone.

        Half of an event may come whole once the library has the stream sent again.
        """
        data = b"data: " if text.lstrip().startswith(b"{") else b""
        try:
            return self._readable(data + text)
        except NotAMessage:
            return text

    def _readable(self, event: bytes) -> bytes:
        """Return an event with the messages of its data; what is none is passed by.

        Raises:
            NotAMessage: it was to answer the request of the stream.
        """
        lines = event.splitlines()
        data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line[:5] == b"data:")
        if not data.strip():
            self._state.count_unasked(None)
            return corrected(event, self._state.warn)
        # A message is one, whatever its event is called.
        others = [
            corrected(line, self._state.warn)
            for line in lines
            if line and line[:5] != b"data:" and line[:6] != b"event:"
        ]
        written = list[bytes]()
        for message in messages_in(data, self._state.warn):
            if isinstance(message, NotAMessage):
                self._pass_by(message, data)
            else:
                written.append(message.model_dump_json(by_alias=True, exclude_unset=True).encode())
        if not written:
            return b"\n".join((*others, b"", b""))
        return b"".join(b"\n".join((*others, b"data: " + text, b"", b"")) for text in written)

    async def aclose(self) -> None:
        await self._stream.aclose()


class _AnswerStream(_EventStream):
    """The events of the response of a request: what is wrong with them is the fault of that."""

    def __init__(
        self,
        stream: httpx2.AsyncByteStream,
        state: ConnectionState,
        faults: dict[RequestId, CallFault],
        id_: RequestId,
    ) -> None:
        super().__init__(stream, state)
        self._faults = faults
        self._id = id_
        self._received = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for event in super().__aiter__():
                yield event
        except NotAMessage as error:
            self._faults[self._id] = CallFault("unreadable", str(error))
        except httpx2.TransportError as error:
            self._faults[self._id] = _fault_of_connection(error)

    def _count(self, size: int) -> None:
        self._received += size
        _refuse_longer(self._received)

    def _pass_by(self, message: NotAMessage, data: bytes) -> None:
        if message.is_answer:
            raise message  # the stream answers this request, whichever id is written
        super()._pass_by(message, data)


class _NotificationStream(_EventStream):
    """The stream of notifications, which has no end, with a limit on its rate."""

    def __init__(self, stream: httpx2.AsyncByteStream, state: ConnectionState) -> None:
        super().__init__(stream, state)
        self._bytes = RateAllowance(64 * 2**20, 2**20)

    def _count(self, size: int) -> None:
        if not self._bytes.take(size):
            self._state.end("it floods the stream of notifications")


def _refuse_longer(received: int) -> None:
    if received > MAX_MESSAGE_BYTES:
        raise NotAMessage(f"it sent a response of more than {MAX_MESSAGE_BYTES // 2**20} MiB")
