"""Connections to MCP servers: what becomes of one, what a server may send, and streamable HTTP.

What a server sends is measured before it is parsed, so that no answer can fill the memory or hold
up the event loop. Structured content is a tool's output as it is; without it the output is `{text,
parts}`: the texts, and what is no text as records that name their kind.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

import anyio
import httpx2
import mcp_types
from anyio.abc import ObjectReceiveStream
from mcp.client._transport import ReadStream, TransportStreams
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic import ValidationError

from wavewright.config.errors import WavewrightError
from wavewright.config.redaction import Redactor
from wavewright.planner.diagnostics.rendering import printable_lines
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.mcp.tools import McpServerSettings
from wavewright.tools.network import kept_tls_context

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_types import CallToolResult, ContentBlock

    from wavewright.planner.types import Json, JsonObject

MAX_ERROR_CHARS = 2000
"""Of what a server says of a failure."""


def output_of(result: CallToolResult, *, is_typed: bool) -> Json:
    """Return the output that a result holds: structured content only of a tool that declares its
    schema.
    """
    if is_typed and result.structured_content is not None:
        return cast("Json", result.structured_content)
    others = [block for block in result.content if not isinstance(block, TextContent)]
    return {"text": _text_of(result.content), "parts": [_part(block) for block in others]}


def failure_of(tool: str, result: CallToolResult, redactor: Redactor) -> ToolError:
    """Return the error of a result that says it is one; its text is cut, and redacted before that."""
    text = redactor.redact(_text_of(result.content)).strip() or "it gives no reason"
    return ToolError(
        f"{tool} failed: {cut(text)}",
        hint=f"compare the parameters with those that {tool} declares",
    )


def cut(text: str) -> str:
    """Return the beginning of what a server says."""
    return text if len(text) <= MAX_ERROR_CHARS else f"{text[: MAX_ERROR_CHARS - 1]}…"


def _text_of(content: Iterable[ContentBlock]) -> str:
    return "\n".join(block.text for block in content if isinstance(block, TextContent))


def _part(block: ContentBlock) -> JsonObject:
    match block:
        case ImageContent() | AudioContent():
            return {"type": block.type, "mime_type": block.mime_type, "data": block.data}
        case ResourceLink():
            link: JsonObject = {"type": "link", "uri": block.uri, "name": block.name}
            return link | _given(mime_type=block.mime_type, description=block.description)
        case EmbeddedResource(resource=resource):
            body: JsonObject = (
                {"text": resource.text}
                if isinstance(resource, TextResourceContents)
                else {"data": resource.blob}
            )
            return (
                {"type": "document", "uri": resource.uri}
                | _given(mime_type=resource.mime_type)
                | body
            )
        case TextContent():
            return {"type": "text", "text": block.text}


def _given(**fields: str | None) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}


MAX_MESSAGE_BYTES: Final = 8 * 2**20
"""Of one message from a program, or of one response over HTTP."""
MAX_OBJECTS: Final = 10_000
"""JSON objects in one message: parsing and validating each takes several microseconds of the event
loop.
"""

_KEPT_LINES = 5
_MAX_RAW_CHARS = 4 * MAX_ERROR_CHARS
_EVENT_END = re.compile(rb"\r?\n\r?\n|\r\r")
_SSE_READ_SECONDS = 300.0

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class ConnectionState:
    """What became of a connection."""

    server: str
    redactor: Redactor
    fault: str = ""
    """Why it can no longer be used; empty where no reason is known."""
    ended: anyio.Event = field(default_factory=anyio.Event)
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))
    """The last lines that the program wrote and that are no messages."""

    def end(self, fault: str) -> None:
        """Keep the first reason why the connection cannot be used."""
        self.fault = self.fault or fault
        self.ended.set()

    def error(self, reason: str, hint: str | None = None, *, transient: bool = False) -> ToolError:
        """Return the error of a call; the fault of the connection, if there is one, is its reason."""
        wrote = "; it last wrote: " + " | ".join(self.lines) if self.lines else ""
        text = cut(self.redactor.redact((self.fault or reason) + wrote))
        return ToolError(f"MCP server {self.server!r}: {text}", hint=hint, transient=transient)

    def log(self, text: str, level: int = logging.INFO) -> None:
        """Write a text of the server to the log."""
        # The first cut bounds the time; the second one removes a secret that the first has split.
        line = printable_lines(cut(self.redactor.redact(text[:_MAX_RAW_CHARS]))).replace("\n", " ")
        _logger.log(level, "MCP server %s: %s", self.server, line)


class OversizedMessageError(WavewrightError):
    """A server sends more than is read."""


class MessageMeter:
    """Counts the bytes and the JSON objects of one message while it arrives."""

    __slots__ = ("_bytes", "_objects")

    def __init__(self) -> None:
        self._bytes = self._objects = 0

    def restart_objects(self) -> None:
        """Begin another message of the same response."""
        self._objects = 0

    def add(self, chunk: bytes) -> None:
        """Count a chunk.

        Raises:
            OversizedMessageError: the message is too large.
        """
        self._bytes += len(chunk)
        # JSON has a backslash only within a text, so a brace before one begins no object of the
        # message.
        self._objects += chunk.count(b"{") - chunk.count(b"{\\")
        if self._bytes > MAX_MESSAGE_BYTES:
            raise OversizedMessageError(
                f"it sent a message of more than {MAX_MESSAGE_BYTES // 2**20} MiB"
            )
        if self._objects > MAX_OBJECTS:
            raise OversizedMessageError(f"it sent a message of more than {MAX_OBJECTS:,} items")


def leave_out_faulty_tools(message: mcp_types.JSONRPCMessage, state: ConnectionState) -> None:
    """Take tools that are not well-formed out of a list of tools: the library would refuse the
    whole list.
    """
    if isinstance(message, mcp_types.JSONRPCResponse) and isinstance(
        tools := message.result.get("tools"), list
    ):
        faulty = [tool for tool in cast("list[object]", tools) if not _is_well_formed(tool)]
        for tool in faulty:
            state.log(f"left out a tool without a proper name or schema: {tool!r}", logging.WARNING)
        message.result["tools"] = [
            tool for tool in cast("list[object]", tools) if tool not in faulty
        ]


def _is_well_formed(tool: object) -> bool:
    try:
        parsed = mcp_types.Tool.model_validate(tool, by_name=False)
    except ValidationError:
        return False
    schemas = (parsed.input_schema, parsed.output_schema or {"type": "object"})
    return all(schema.get("type") == "object" for schema in schemas)


@asynccontextmanager
async def http_transport(
    server: McpServerSettings, state: ConnectionState
) -> AsyncGenerator[TransportStreams]:
    """Connect over HTTP; the library follows no redirect to another origin, and reconnects with
    `Last-Event-ID`.
    """
    assert server.url is not None
    client = httpx2.AsyncClient(
        # A compressed body could be small here and huge once it is decompressed.
        headers={**server.headers, "Accept-Encoding": "identity"},
        transport=_MeteredTransport(state),
        timeout=httpx2.Timeout(server.timeout, read=max(server.timeout, _SSE_READ_SECONDS)),
        trust_env=False,
    )
    async with (
        client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
        ) as streams,
    ):
        received, outgoing = streams
        yield _SiftedStream(received, state), outgoing


class _SiftedStream(ObjectReceiveStream[SessionMessage | Exception]):
    """The messages of a stream, without tools that no client can call."""

    def __init__(
        self, stream: ReadStream[SessionMessage | Exception], state: ConnectionState
    ) -> None:
        self._stream = stream
        self._state = state

    async def receive(self) -> SessionMessage | Exception:
        item = await self._stream.receive()
        if isinstance(item, SessionMessage):
            leave_out_faulty_tools(item.message, self._state)
        return item

    async def aclose(self) -> None:
        await self._stream.aclose()


class _MeteredTransport(httpx2.AsyncHTTPTransport):
    """Measures each response but the stream of notifications, which has no end."""

    def __init__(self, state: ConnectionState) -> None:
        super().__init__(verify=kept_tls_context())
        self._state = state

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.RemoteProtocolError("the response is compressed, which was not asked for")
        if request.method == "POST":
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            has_events = response.headers.get("content-type", "").startswith("text/event-stream")
            response.stream = _MeteredStream(response.stream, self._state, has_events=has_events)
        return response


class _MeteredStream(httpx2.AsyncByteStream):
    def __init__(
        self, stream: httpx2.AsyncByteStream, state: ConnectionState, *, has_events: bool
    ) -> None:
        self._stream = stream
        self._state = state
        self._has_events = has_events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        meter = MessageMeter()
        async for chunk in self._stream:
            try:
                for place, part in enumerate(
                    _EVENT_END.split(chunk) if self._has_events else (chunk,)
                ):
                    if place:
                        meter.restart_objects()
                    meter.add(part)
            except OversizedMessageError as error:
                self._state.end(str(error))
                raise
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
