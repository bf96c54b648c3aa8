"""Connections to MCP servers: the standard streams of a program, and streamable HTTP.

What a server sends is measured before it is parsed, so that no answer can fill the memory or hold up the event loop.
A program gets a short list of variables, is the leader of a process group of its own, and ends with all of that group.
"""

from __future__ import annotations

import logging
import os
import signal
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self, cast

import anyio
import httpx2
import mcp_types
from anyio.abc import ByteReceiveStream, ByteSendStream, ObjectReceiveStream, Process
from anyio.streams.memory import MemoryObjectSendStream
from mcp.client._transport import ReadStream, TransportStreams
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from wavewright.config.redaction import Redactor
from wavewright.planner.diagnostics.rendering import printable_lines
from wavewright.tools.functions.tool import ToolError
from wavewright.tools.mcp.outputs import cut
from wavewright.tools.mcp.settings import McpServerSettings

MAX_MESSAGE_BYTES: Final = 8 * 2**20
"""Of one message from a program, or of one response over HTTP."""
MAX_OBJECTS: Final = 10_000
"""JSON objects in one message: parsing and validating each takes several microseconds of the event loop."""
INHERITED_VARIABLES: Final = ("PATH", "HOME", "LANG", "TMPDIR")
"""Variables that each program gets, beside those of its settings."""
EXIT_SECONDS: Final = 2.0
"""What a program gets to end after its input is closed, and again after SIGTERM."""

_MAX_LINE_BYTES = 8000
_KEPT_LINES = 5
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
        line = printable_lines(self.redactor.redact(cut(text))).replace("\n", " ")
        _logger.log(level, "MCP server %s: %s", self.server, line)


class OversizedMessageError(httpx2.StreamError):
    """A server sends more than is read."""


class _Meter:
    """Counts the bytes and the JSON objects of one message while it arrives."""

    __slots__ = ("_bytes", "_objects")

    def __init__(self) -> None:
        self._bytes = self._objects = 0

    def add(self, chunk: bytes) -> None:
        """Count a chunk.

        Raises:
            OversizedMessageError: the message is too large.
        """
        self._bytes += len(chunk)
        # Braces before an escaped quote belong to JSON within a text, which costs nothing to parse.
        self._objects += chunk.count(b"{") - chunk.count(b'{\\"')
        if self._bytes > MAX_MESSAGE_BYTES:
            raise OversizedMessageError(f"it sent a message of more than {MAX_MESSAGE_BYTES // 2**20} MiB")
        if self._objects > MAX_OBJECTS:
            raise OversizedMessageError(f"it sent a message of more than {MAX_OBJECTS:,} items")


def open_transport(
    server: McpServerSettings, state: ConnectionState
) -> AbstractAsyncContextManager[TransportStreams]:
    """Return the connection to a server, which opens when it is entered.

    Raises:
        OSError: the program cannot be started.
    """
    return _http_transport(server, state) if server.url is not None else _stdio_transport(server, state)


def _leave_out_faulty_tools(message: mcp_types.JSONRPCMessage, state: ConnectionState) -> None:
    """Take tools that are not well-formed out of a list of tools: the library would refuse the whole list."""
    if isinstance(message, mcp_types.JSONRPCResponse) and isinstance(
        tools := message.result.get("tools"), list
    ):
        faulty = [tool for tool in cast("list[object]", tools) if not _is_well_formed(tool)]
        for tool in faulty:
            state.log(f"left out a tool without a proper name or schema: {tool!r}", logging.WARNING)
        message.result["tools"] = [tool for tool in cast("list[object]", tools) if tool not in faulty]


def _is_well_formed(tool: object) -> bool:
    try:
        parsed = mcp_types.Tool.model_validate(tool, by_name=False)
    except ValidationError:
        return False
    schemas = (parsed.input_schema, parsed.output_schema or {"type": "object"})
    return all(schema.get("type") == "object" for schema in schemas)


# -- streamable HTTP


@asynccontextmanager
async def _http_transport(
    server: McpServerSettings, state: ConnectionState
) -> AsyncGenerator[TransportStreams]:
    """Connect over HTTP; the library follows no redirect to another origin, and reconnects with `Last-Event-ID`."""
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


class _SiftedStream:
    """The messages of a stream, without tools that no client can call."""

    def __init__(self, stream: ReadStream[SessionMessage | Exception], state: ConnectionState) -> None:
        self._stream = stream
        self._state = state

    async def receive(self) -> SessionMessage | Exception:
        return self._sifted(await self._stream.receive())

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._sifted(await self._stream.__anext__())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()

    def _sifted(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        if isinstance(item, SessionMessage):
            _leave_out_faulty_tools(item.message, self._state)
        return item


class _MeteredTransport(httpx2.AsyncHTTPTransport):
    """Measures each response but the stream of notifications, which has no end."""

    def __init__(self, state: ConnectionState) -> None:
        super().__init__()
        self._state = state

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.RemoteProtocolError("the response is compressed, which was not asked for")
        if request.method == "POST":
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _MeteredStream(response.stream, self._state)
        return response


class _MeteredStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, state: ConnectionState) -> None:
        self._stream = stream
        self._state = state

    async def __aiter__(self) -> AsyncIterator[bytes]:
        meter = _Meter()
        async for chunk in self._stream:
            try:
                meter.add(chunk)
            except OversizedMessageError as error:
                self._state.end(str(error))
                raise
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


# -- the standard streams of a program


def child_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of a program whose settings have these variables."""
    inherited = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
    return inherited | dict(variables)


@asynccontextmanager
async def _stdio_transport(
    server: McpServerSettings, state: ConnectionState
) -> AsyncGenerator[TransportStreams]:
    assert server.command is not None
    process = await anyio.open_process(
        [server.command, *server.args],
        env=child_environment(server.env),
        cwd=server.cwd,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stderr is not None
    delivered, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, sent = anyio.create_memory_object_stream[SessionMessage](0)
    grace = 0.0
    async with incoming, outgoing, anyio.create_task_group() as group:
        group.start_soon(_read_stdout, process, delivered, state)
        group.start_soon(_write_stdin, process.stdin, sent, state)
        group.start_soon(_read_stderr, process.stderr, state)
        try:
            yield incoming, outgoing
            grace = 0.0 if state.fault else EXIT_SECONDS
        finally:
            with anyio.CancelScope(shield=True):
                incoming.close()
                await _stop(process, grace)
            group.cancel_scope.cancel()


async def _read_stdout(
    process: Process, delivered: MemoryObjectSendStream[SessionMessage | Exception], state: ConnectionState
) -> None:
    assert process.stdout is not None
    async with delivered:
        try:
            async for line in _lines(process.stdout):
                if (message := _parse(line, state)) is not None:
                    await delivered.send(message)
        except (OversizedMessageError, ValueError) as error:
            state.end(str(error))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return
        else:
            with anyio.move_on_after(EXIT_SECONDS):
                await process.wait()
            state.end(_ending(process.returncode))


async def _lines(stream: ByteReceiveStream) -> AsyncGenerator[bytes]:
    """Yield the lines of a stream.

    Raises:
        OversizedMessageError: a line is too long.
    """
    parts, meter = list[bytes](), _Meter()
    async for chunk in stream:
        *ended, rest = chunk.split(b"\n")
        for line in ended:
            meter.add(line)
            yield b"".join((*parts, line))
            parts, meter = [], _Meter()
        meter.add(rest)
        parts.append(rest)


def _parse(line: bytes, state: ConnectionState) -> SessionMessage | None:
    """Return the message of a line; None where the line is none, as what a program prints.

    Raises:
        ValueError: it looks like a message, but breaks the protocol.
    """
    if not line.startswith(b"{"):
        _keep_line(line, state)
        return None
    try:
        message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        raise ValueError("it broke the protocol: it sent a message that is not JSON-RPC 2.0") from None
    if isinstance(message, mcp_types.JSONRPCError) and message.id is None:
        raise ValueError(f"it broke the protocol: an error without an id: {message.error.message}")
    _leave_out_faulty_tools(message, state)
    return SessionMessage(message)


async def _write_stdin(
    stdin: ByteSendStream, sent: ObjectReceiveStream[SessionMessage], state: ConnectionState
) -> None:
    try:
        async with sent:
            async for item in sent:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await stdin.send(text.encode() + b"\n")
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        state.end("it closed its standard input")


async def _read_stderr(stderr: ByteReceiveStream, state: ConnectionState) -> None:
    rest = b""
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for chunk in stderr:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                _keep_line(line, state)
            rest = rest[-_MAX_LINE_BYTES:]


def _keep_line(line: bytes, state: ConnectionState) -> None:
    text = line[:_MAX_LINE_BYTES].decode(errors="replace").strip()
    if text:
        state.lines.append(text)
        state.log(text)


def _ending(status: int | None) -> str:
    if status is None:
        return "it closed its standard output"
    return f"it exited with status {status}" if status >= 0 else f"{signal.Signals(-status).name} ended it"


async def _stop(process: Process, grace: float) -> None:
    """End a program and its process group: by its closed input, then SIGTERM, then SIGKILL."""
    assert process.stdin is not None
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.aclose()
    if not await _has_exited(process, grace):
        _signal_group(process, signal.SIGTERM)
        await _has_exited(process, EXIT_SECONDS)
    _signal_group(process, signal.SIGKILL)
    await process.aclose()


async def _has_exited(process: Process, seconds: float) -> bool:
    # `wait` would also wait for the pipes, which a child of the program may hold open.
    with anyio.move_on_after(seconds):
        while process.returncode is None:  # noqa: ASYNC110 - a process ends by itself
            await anyio.sleep(0.01)
    return process.returncode is not None


def _signal_group(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
