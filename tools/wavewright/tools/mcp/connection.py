"""One connection to an MCP server: what became of it, and what a server may do to it.

A *fault* is why one call has no answer. It ends that call; only a flood, and the end of the
program, end the connection, since its other calls are sound.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    RequestId,
)
from pydantic import ValidationError

from wavewright.config.errors import cut_end, single_exception
from wavewright.config.redaction import Redactor
from wavewright.planner.diagnostics.rendering import printable_lines
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.mcp.lock import ListedTool

MessageStreams: TypeAlias = tuple[
    ObjectReceiveStream[SessionMessage | Exception], ObjectSendStream[SessionMessage]
]
"""What a transport gives to the library: what comes in, and where to send."""

MAX_ERROR_CHARS = 2000
"""Of what a server says of a failure."""


def cut(text: str) -> str:
    """Return the beginning of what a server says."""
    return cut_end(text, MAX_ERROR_CHARS)


FaultKind: TypeAlias = Literal["failed", "unreadable", "expired", "unsent", "lost"]
"""`failed`: the server says so. `unreadable`: it answered what cannot be read. `expired`: it does not
know the session any more, and did not make the call. `unsent`: it was not reached. `lost`: it may
have made the call.
"""


@dataclass(frozen=True, slots=True)
class CallFault:
    """Why a call has no answer, as the connection saw it."""

    kind: FaultKind
    reason: str
    hint: str | None = None
    transient: bool = False
    """Whether another attempt may succeed."""
    retry_after: float | None = None
    """Seconds that the server asks to wait."""
    is_unclear: bool = False
    """Whether the call may have been made all the same."""

    def as_answer(self, request: RequestId) -> JSONRPCError:
        """Return this as the answer of a request; who waits for it finds the fault in its data,
        which no server can put there.
        """
        error = ErrorData(code=INTERNAL_ERROR, message=self.reason, data=self)
        return JSONRPCError(jsonrpc="2.0", id=request, error=error)


_KEPT_LINES = 5
_MAX_QUOTE_CHARS = 200
_MAX_RAW_CHARS = 4 * MAX_ERROR_CHARS

_logger = logging.getLogger(__name__)


class RateAllowance:
    """How much of something a server may send: a number at once, and a number a second."""

    def __init__(self, at_once: float, a_second: float) -> None:
        self._left = self._at_once = at_once
        self._a_second = a_second
        self._filled_at = time.monotonic()

    def take(self, count: float = 1) -> bool:
        """Take from it; return whether that much was there."""
        now = time.monotonic()
        self._left = min(self._at_once, self._left + (now - self._filled_at) * self._a_second)
        self._filled_at = now
        self._left -= count
        return self._left >= 0


@dataclass(slots=True)
class ConnectionState:
    """What became of a connection."""

    server: str
    redactor: Redactor
    fault: str = ""
    """Why it can no longer be used; empty where no reason is known."""
    hint: str | None = None
    """What mends the fault, as far as that is known."""
    transient: bool = True
    """Whether another connection may do without the fault."""
    retry_after: float | None = None
    """Seconds that the server asks to wait before another connection."""
    ended: anyio.Event = field(default_factory=anyio.Event)
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))
    """The last lines that the program wrote and that are no messages."""
    skipped: int = 0
    """How many lines were no messages."""
    faulty_tools: list[ListedTool] = field(default_factory=list[ListedTool])
    """The tools of the last page of its list that break the protocol."""
    unread_tools: str = ""
    """Why the last page of its list was read in part; empty where it was read as a whole."""
    heard: int = 0
    """How many messages have come."""
    silence: float = 0.0
    """Seconds for which calls have waited in all since the last one."""
    unfinished: bytes = b""
    """How a message begins that the program has not ended."""
    _log_lines: RateAllowance = field(default_factory=lambda: RateAllowance(1_000, 20))
    _skipped_lines: RateAllowance = field(default_factory=lambda: RateAllowance(10_000, 100))
    _skipped_bytes: RateAllowance = field(default_factory=lambda: RateAllowance(64 * 2**20, 2**20))
    _unasked: RateAllowance = field(default_factory=lambda: RateAllowance(10_000, 500))
    _progress: RateAllowance = field(default_factory=lambda: RateAllowance(100_000, 5_000))
    _requests: RateAllowance = field(default_factory=lambda: RateAllowance(1_000, 50))

    def end(self, fault: str) -> None:
        """Keep the first reason why the connection cannot be used."""
        self.fault = self.fault or fault
        self.ended.set()

    def end_by(self, error: Exception) -> None:
        """Keep an error as the reason, with what is known of it, unless there is one."""
        if not self.fault:
            fault = fault_of(error)
            self.fault, self.hint = fault.reason, fault.hint
            self.transient, self.retry_after = fault.transient, fault.retry_after
        self.ended.set()

    def error(
        self,
        reason: str,
        hint: str | None = None,
        *,
        transient: bool = False,
        retry_after: float | None = None,
        is_unclear: bool = False,
    ) -> ToolError:
        """Return the error of a call; the fault of the connection, if there is one, is its reason."""
        wrote = "; it last wrote: " + " | ".join(self.lines) if self.lines else ""
        if self.skipped > len(self.lines):
            wrote += f" ({self.skipped:,} lines were no messages)"
        if self.unfinished:
            begun = " ".join(self.unfinished.decode(errors="replace").split())
            wrote += f"; it has not ended a message that begins with: {begun}"
        text = cut(self.redactor.redact((self.fault or reason)[:_MAX_RAW_CHARS] + wrote))
        return ToolError(
            f"MCP server {self.server!r}: {text}",
            hint=hint,
            transient=transient,
            retry_after=retry_after,
            is_unclear=is_unclear,
        )

    def skip(self, line: bytes, reason: str = "") -> None:
        """Pass by a line that is no message: quote it in the log and count it."""
        self.skipped += 1
        level = logging.WARNING if reason else logging.INFO
        # A message may be long, and is no clue from a certain length on.
        self.note_line(line[:_MAX_QUOTE_CHARS] if reason else line, level, reason)
        if not (self._skipped_lines.take() and self._skipped_bytes.take(len(line))):
            self.end("it floods its standard output with lines that are no messages")

    def note_line(self, line: bytes, level: int = logging.INFO, reason: str = "") -> bool:
        """Log what a program writes beside its messages; return whether it may write more at once."""
        text = line[:_MAX_RAW_CHARS].decode(errors="replace").strip()
        if not text:
            return True
        self.lines.append(text[:MAX_ERROR_CHARS])
        return self.log(f"{reason}: {text}" if reason else text, level)

    def hear(self) -> None:
        """Note that a message has come."""
        self.heard += 1
        self.silence = 0.0

    def count_unasked(self, message: JSONRPCMessage | None) -> None:
        """Count a message that answers no request, or an event without one; a flood of them ends the
        connection.
        """
        match message:
            case JSONRPCNotification(method="notifications/progress"):
                # Each call asks for it, and a loop over many rows writes it for each of them.
                is_flood = not self._progress.take()
            case JSONRPCRequest():
                # Each waits in a task of its own until the server reads what it is answered.
                is_flood = not (self._unasked.take() and self._requests.take())
            case _:
                is_flood = not self._unasked.take()
        if is_flood:
            self.end("it floods the connection with messages that nobody asked for")

    def warn(self, text: str) -> None:
        """Warn of something that the server does."""
        self.log(text, logging.WARNING)

    def log(self, text: str, level: int = logging.INFO) -> bool:
        """Write a text of the server to the log; return whether there was room for it."""
        if not self._log_lines.take():
            return False
        # The first cut bounds the time; the second one removes a secret that the first has split.
        line = printable_lines(cut(self.redactor.redact(text[:_MAX_RAW_CHARS]))).replace("\n", " ")
        _logger.log(level, "MCP server %s: %s", self.server, line)
        return True


CURRENT_CONNECTION: Final[ContextVar[ConnectionState | None]] = ContextVar(
    "mcp_connection", default=None
)
"""The connection whose work a task does: what the library logs then is about it."""


class _LibraryLog(logging.Handler):
    """Logs what the library logs, without tracebacks: they quote what a server has sent."""

    def emit(self, record: logging.LogRecord) -> None:
        state = CURRENT_CONNECTION.get()
        if state is None:
            return
        cause = "" if not record.exc_info or record.exc_info[0] is None else record.exc_info[0]
        name = f" ({cause.__name__})" if isinstance(cause, type) else ""
        state.log(record.getMessage() + name, min(record.levelno, logging.WARNING))


def log_library_briefly() -> None:
    """Have what the library of the protocol logs go through the log of its connection."""
    for name in ("mcp", "client"):
        logger = logging.getLogger(name)
        if not any(isinstance(handler, _LibraryLog) for handler in logger.handlers):
            logger.addHandler(_LibraryLog(logging.WARNING))
        logger.propagate = False


def fault_of(error: Exception) -> CallFault:
    """Return why something failed, as the connection saw it or as the error says."""
    cause = single_exception(error)
    if isinstance(cause, MCPError) and isinstance(cause.error.data, CallFault):
        return cause.error.data
    # What the protocol and the file system refuse they refuse again.
    is_lasting = isinstance(cause, (ValidationError, RuntimeError, *_LASTING))
    hint = _PROTOCOL_HINT if isinstance(cause, ValidationError) else None
    return CallFault("failed", reason_of(error), hint, transient=not is_lasting)


_LASTING: Final = (FileNotFoundError, PermissionError, NotADirectoryError)
_PROTOCOL_HINT: Final = (
    "use a version of the server that keeps to the protocol, or remove mcp.servers.NAME"
)


def reason_of(error: BaseException) -> str:
    """Return why something failed, in one line of a bounded length."""
    error = single_exception(error)
    if isinstance(error, MCPError):
        return cut(error.error.message)
    if isinstance(error, ValidationError):
        # Its text has a line for each fault, of which a server can send many thousands.
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        return cut(f"it broke the protocol: {where}: {first['msg']}")
    if isinstance(error, RuntimeError):
        return cut(str(error))  # the library's own words
    return cut(f"{type(error).__name__}: {error}") if str(error) else type(error).__name__
