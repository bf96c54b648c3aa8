"""MCP servers that are programs: started, spoken to over their standard streams, and ended.

A program gets a short list of variables and leads a process group of its own, which ends with it,
as does what it has started beside that group. A line that is no message is passed by: it is the
fault of at most one call. The library's own transport reads lines of any length, inherits other
variables and leaves standard error to the terminal.
"""

from __future__ import annotations

import codecs
import os
import re
import secrets
import signal
from collections.abc import AsyncGenerator, AsyncIterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.abc import ByteReceiveStream, ByteSendStream, ObjectReceiveStream, Process
from anyio.streams.memory import MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from wavewright.tools.mcp.connection import CallFault, ConnectionState, MessageStreams
from wavewright.tools.mcp.results import correct_result
from wavewright.tools.mcp.tools import McpServerSettings
from wavewright.tools.mcp.wire import (
    END_BYTES,
    MAX_MESSAGE_BYTES,
    NotAMessage,
    OpenParts,
    is_whole_message,
    messages_in,
    names_request,
)

INHERITED_VARIABLES: Final = ("PATH", "HOME", "LANG", "TMPDIR")
"""Variables that each program gets, beside those of its settings."""
EXIT_SECONDS: Final = 2.0
"""What a program gets to end after its input is closed, and again after SIGTERM."""

_MAX_LINE_BYTES = 8000
"""Of a line in the log."""
_MAX_DISCARDED_BYTES: Final = 64 * 2**20
"""Of one line that is too long."""
_BEFORE_MESSAGE: Final = b"\xef\xbb\xbf \t\0"
_FLOOD_SECONDS: Final = 0.01
_LINES_AT_ONCE: Final = 500
_WATCH_SECONDS: Final = 1.0
_MARK: Final = "MCP_SESSION_MARK"
"""Variable that names the session to every process that a program starts."""
_STRAY_ROUNDS: Final = 5
_STRAY_SECONDS: Final = 0.02


def child_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of a program whose settings have these variables."""
    inherited = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
    return inherited | dict(variables)


@asynccontextmanager
async def stdio_transport(
    server: McpServerSettings, state: ConnectionState
) -> AsyncGenerator[MessageStreams]:
    assert server.command is not None
    process: Process | None = None
    mark = secrets.token_hex(16)
    # A cancelled start would leave a program running.
    with anyio.CancelScope(shield=True):
        process = await anyio.open_process(
            [server.command, *server.args],
            env=child_environment(server.env) | {_MARK: mark},
            cwd=server.cwd,
            start_new_session=True,
        )
    assert process is not None
    assert process.stdin is not None
    assert process.stderr is not None
    delivered, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, sent = anyio.create_memory_object_stream[SessionMessage](0)
    grace = 0.0
    requests = dict[RequestId, str]()
    async with incoming, outgoing, anyio.create_task_group() as group:
        group.start_soon(_read_stdout, process, delivered, requests, state)
        group.start_soon(_write_stdin, process.stdin, sent, requests, state)
        group.start_soon(_read_stderr, process.stderr, state)
        group.start_soon(_end_with, process, state)
        try:
            yield incoming, outgoing
            grace = 0.0 if state.fault else EXIT_SECONDS
        except Exception as error:
            # Before the program is ended, which would be taken for the reason.
            state.end_by(error)
            raise
        finally:
            with anyio.CancelScope(shield=True):
                incoming.close()
                started = await anyio.to_thread.run_sync(_descendants, process.pid)
                await _stop(process, grace)
                await _kill_strays(mark, started)
            group.cancel_scope.cancel()


async def _read_stdout(
    process: Process,
    delivered: MemoryObjectSendStream[SessionMessage | Exception],
    requests: dict[RequestId, str],
    state: ConnectionState,
) -> None:
    assert process.stdout is not None
    spread = SpreadMessage()
    lines = 0
    async with delivered:
        try:
            async for line in _lines(_in_utf_8(process.stdout), spread, state):
                lines += 1
                if lines % _LINES_AT_ONCE == 0:
                    await anyio.lowlevel.checkpoint()  # a flood leaves others their turn
                for whole in spread.joined(line):
                    for message in _messages_of(whole, requests, state):
                        await delivered.send(SessionMessage(message))
                state.unfinished = spread.head
                if state.ended.is_set():
                    return
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return
        with anyio.move_on_after(EXIT_SECONDS):
            await process.wait()
        state.end(_ending(process.returncode))


async def _end_with(process: Process, state: ConnectionState) -> None:
    """End the connection once its program has ended: what that has started may hold its output open."""
    while process.returncode is None:  # noqa: ASYNC110 - `wait` would also wait for the pipes
        await anyio.sleep(_WATCH_SECONDS)
    await anyio.sleep(EXIT_SECONDS)  # what it wrote last is read meanwhile
    state.end(_ending(process.returncode))


class SpreadMessage:
    """A message that a program writes over several lines, though the protocol has one a line."""

    def __init__(self) -> None:
        self._text = bytearray()
        self._open = OpenParts()

    @property
    def head(self) -> bytes:
        """How the message begins that has not ended; empty where there is none."""
        return bytes(self._text[:END_BYTES])

    def joined(self, line: bytes | LongLine) -> Iterator[bytes | LongLine]:
        """Yield what can be read with this line: itself, the message that it ends, or nothing yet.

        A spread message begins with a bracket that stands alone, as printers of JSON write it, or is
        half an answer that does not name its request yet. Half an answer that names it is the fault
        of its call at once. It goes on with lines that JSON can go on with: what another thread
        prints between them is a line by itself, and a whole message gives it up. A blank line is no
        part of a message.
        """
        if isinstance(line, LongLine) or (self._text and _is_message(line)):
            yield from self._given_up()
            yield line
        elif not line.strip():
            yield line
        elif self._text and self._open.can_go_on_with(line):
            yield from self._with(line)
        elif _begins_spread(line):
            yield from self._given_up()
            yield from self._with(line)
        else:
            if not self._text.strip(_BEFORE_MESSAGE + b"[\n"):
                yield from self._given_up()  # a list that begins with words is no batch
            yield line

    def is_ended_by(self, line: bytes) -> bool:
        """Return whether what was joined, or a line alone, is a whole value with what has come of a
        line: a program that writes no line end after a message waits for the next request.
        """
        return is_whole_message(line) or (bool(self._text) and self._open.are_none_after(line))

    def _with(self, line: bytes) -> Iterator[bytes | LongLine]:
        """Join a line; yield the message that it ends."""
        self._text += line + b"\n"
        self._open.add(line + b"\n")
        if self._open.are_none or len(self._text) > MAX_MESSAGE_BYTES:
            yield from self._given_up()

    def _given_up(self) -> Iterator[bytes | LongLine]:
        """Yield all that was joined, and begin anew."""
        text = bytes(self._text)
        self._text.clear()
        self._open = OpenParts()
        if len(text) > MAX_MESSAGE_BYTES:
            yield LongLine(text[:MAX_MESSAGE_BYTES], text[-END_BYTES:])
        elif text:
            yield text


def _begins_spread(line: bytes) -> bool:
    """Return whether more lines are waited for to read a line."""
    if _OPENING.fullmatch(line):
        return True
    is_half = _HALF.match(line) is not None and not OpenParts(line).are_none
    return is_half and not names_request(line)


def _is_message(line: bytes) -> bool:
    return line.strip().startswith(b"{") and is_whole_message(line)


_OPENING: Final = re.compile(rb"[\xef\xbb\xbf \t\0]*[\[{][\[{ \t]*")
_HALF: Final = re.compile(rb'[\xef\xbb\xbf \t\0]*\{\s*"(?:jsonrpc|id|result|error)"')


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line of which only the beginning and the last bytes were kept."""

    head: bytes
    tail: bytes


async def _in_utf_8(stream: ByteReceiveStream) -> AsyncGenerator[bytes]:
    """Yield what a program writes; UTF-16, as Windows writes to pipes, is written anew."""
    begun = b""
    async for chunk in stream:
        begun += chunk
        if len(begun) >= _TOLD_BYTES:
            break
    encoding = _utf_16_of(begun)
    if encoding is None:
        yield begun
        async for chunk in stream:
            yield chunk
        return
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    yield decoder.decode(begun).encode()
    async for chunk in stream:
        yield decoder.decode(chunk).encode()


_TOLD_BYTES: Final = 4
"""By which UTF-16 is told: a mark, or that every second byte of ASCII is NUL."""


def _utf_16_of(begun: bytes) -> str | None:
    """Return the name of UTF-16 in which a text begins; None where it is in UTF-8."""
    is_nul = [byte == 0 for byte in begun[:_TOLD_BYTES]]
    if begun.startswith(codecs.BOM_UTF16_LE) or is_nul == [False, True, False, True]:
        return "utf-16-le"
    if begun.startswith(codecs.BOM_UTF16_BE) or is_nul == [True, False, True, False]:
        return "utf-16-be"
    return None


async def _lines(
    stream: AsyncIterable[bytes], spread: SpreadMessage, state: ConnectionState
) -> AsyncGenerator[bytes | LongLine]:
    """Yield the lines of a stream; a carriage return ends one, too, as progress bars have it, and so
    does the end of a message at which the program waits.
    """
    line = bytearray()
    tail = bytearray()
    discarded = looked_at = 0

    def ended_line() -> bytes | LongLine:
        nonlocal discarded, looked_at
        ended = LongLine(bytes(line), bytes(tail)) if discarded else bytes(line)
        line.clear()
        tail.clear()
        discarded = looked_at = 0
        return ended

    async for chunk in stream:
        one_end = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        for place, part in enumerate(one_end.split(b"\n")):
            if place:
                yield ended_line()
            line += part
            if len(line) > MAX_MESSAGE_BYTES:
                # Of the rest of this line only the end is kept: it may name what it answers.
                rest = line[MAX_MESSAGE_BYTES:]
                del line[MAX_MESSAGE_BYTES:]
                tail += rest
                del tail[:-END_BYTES]
                discarded += len(rest)
            if discarded > _MAX_DISCARDED_BYTES:
                state.end(f"it sent a line of more than {_MAX_DISCARDED_BYTES // 2**20} MiB")
                return
        # Looked at again only when it has doubled: a long line costs no more than twice its length.
        is_due = not discarded and len(line) >= 2 * looked_at
        if is_due and line.endswith((b"}", b"]")):
            looked_at = len(line)
            if spread.is_ended_by(bytes(line)):
                yield ended_line()
    if line:
        yield ended_line()


def _messages_of(
    line: bytes | LongLine, requests: dict[RequestId, str], state: ConnectionState
) -> Iterator[JSONRPCMessage]:
    """Yield the messages of a line; what is none is passed by, with a fault for the call that it was
    to answer.
    """
    head, tail = (line.head, line.tail) if isinstance(line, LongLine) else (line, b"")
    if not head.lstrip(_BEFORE_MESSAGE).startswith((b"{", b"[")) and b'"jsonrpc"' not in head:
        state.skip(head)  # what a program prints
        return
    for message in messages_in(head, state.warn, tail):
        state.hear()
        match message:
            case NotAMessage():
                yield from _fault_of(message, head, requests, state)
            case JSONRPCError(id=None):
                # It could not read a request; which one is known only where there is one.
                words = message.error.message[:200]
                reason = f"it broke the protocol: an error without an id: {words}"
                fault = NotAMessage(reason, is_answer=True)
                yield from _fault_of(fault, head, requests, state)
            case JSONRPCResponse() | JSONRPCError():
                id_ = coerced_id(message.id)
                if id_ not in requests:
                    # What it holds may be another job's.
                    shown = str(message.id)[:100]
                    state.note_line(f"an answer to request {shown}, which waits for none".encode())
                    state.count_unasked(message)
                    continue
                message.id = id_
                method = requests.pop(id_)
                if isinstance(message, JSONRPCResponse):
                    correct_result(message, method, state)
                yield message
            case _:
                state.count_unasked(message)
                yield message


def _fault_of(
    fault: NotAMessage, line: bytes, requests: dict[RequestId, str], state: ConnectionState
) -> Iterator[JSONRPCError]:
    """Quote a line that is no message in the log; yield its fault where it was to answer a call."""
    state.skip(line, str(fault))
    request = _failed_request(fault, requests)
    if request is not None:
        del requests[request]
        yield CallFault("unreadable", str(fault)).as_answer(request)


def _failed_request(fault: NotAMessage, requests: dict[RequestId, str]) -> RequestId | None:
    """Return the request that a faulty answer was for: by its id, or else the only one."""
    if fault.answers is not None and coerced_id(fault.answers) in requests:
        return coerced_id(fault.answers)
    if fault.answers is None and fault.is_answer and len(requests) == 1:
        return next(iter(requests))
    return None


def coerced_id(id_: RequestId | None) -> RequestId:
    """Return an id as it was sent: some servers write a number back as a text."""
    if isinstance(id_, str) and (number := _NUMBER.fullmatch(id_)) is not None:
        return int(number[1])
    return 0 if id_ is None else id_


_NUMBER: Final = re.compile(r"\s*(\d{1,17})(?:\.0+)?\s*", re.ASCII)


async def _write_stdin(
    stdin: ByteSendStream,
    sent: ObjectReceiveStream[SessionMessage],
    requests: dict[RequestId, str],
    state: ConnectionState,
) -> None:
    try:
        async with sent:
            async for item in sent:
                _note_request(item.message, requests)
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await stdin.send(text.encode() + b"\n")
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        state.end("it closed its standard input")


def _note_request(message: JSONRPCMessage, requests: dict[RequestId, str]) -> None:
    """Note a request that is sent, or that its answer is not waited for any more."""
    if isinstance(message, JSONRPCRequest):
        requests[message.id] = message.method
    elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
        requests.pop(cast("RequestId", (message.params or {}).get("requestId")), None)


async def _read_stderr(stderr: ByteReceiveStream, state: ConnectionState) -> None:
    rest = b""
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for chunk in stderr:
            *lines, rest = (rest + chunk).split(b"\n")
            may_write_more = [state.note_line(line) for line in lines if line.strip()]
            rest = rest[-_MAX_LINE_BYTES:]
            if not all(may_write_more):
                # Who writes more than is logged waits until there is room in its pipe.
                await anyio.sleep(_FLOOD_SECONDS)


def _ending(status: int | None) -> str:
    if status is None:
        return "it closed its standard output"
    if status >= 0:
        return f"it exited with status {status}"
    # A real-time signal has a number alone.
    names = {known.value: known.name for known in signal.Signals}
    return f"{names.get(-status, f'signal {-status}')} ended it"


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


async def _kill_strays(mark: str, started: Mapping[int, bytes]) -> None:
    """Kill what a program has started and moved out of its process group, as daemons do: it has
    inherited the mark, or was a descendant of the program while that lived.
    """
    for _ in range(_STRAY_ROUNDS):  # one may start another meanwhile
        strays = await anyio.to_thread.run_sync(_strays, f"{_MARK}={mark}".encode(), started)
        if not strays:
            return
        for pid in strays:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        await anyio.sleep(_STRAY_SECONDS)


def _strays(entry: bytes, started: Mapping[int, bytes]) -> list[int]:
    """Return the processes that are left of those that were started, and those whose environment
    has an entry.
    """
    return [
        pid
        for pid, _, began in _living_processes()
        # One that began later has the number of one that has ended.
        if started.get(pid) == began or entry in _variables_of(pid)
    ]


def _variables_of(pid: int) -> list[bytes]:
    """Return the environment of a process; nothing where it has ended, or is another user's."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _descendants(root: int) -> dict[int, bytes]:
    """Return what a process has started, and what that has started, each with when it began."""
    processes = {pid: (parent, began) for pid, parent, began in _living_processes()}
    descendants = dict[int, bytes]()
    parents = {root}
    while parents:
        children = {pid for pid, (parent, _) in processes.items() if parent in parents}
        parents = children - descendants.keys()
        descendants |= {pid: processes[pid][1] for pid in parents}
    return descendants


def _living_processes() -> Iterator[tuple[int, int, bytes]]:
    """Yield number, parent and beginning of each process; nothing where there is no /proc."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name before them is in brackets, and may hold some.
            state, parent, *others = file.read_bytes().rpartition(b")")[2].split()
            if state != b"Z":
                yield int(file.parent.name), int(parent), others[17]


async def _has_exited(process: Process, seconds: float) -> bool:
    # `wait` would also wait for the pipes, which a child of the program may hold open.
    with anyio.move_on_after(seconds):
        while process.returncode is None:  # noqa: ASYNC110 - a process ends by itself
            await anyio.sleep(0.01)
    return process.returncode is not None


def _signal_group(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
