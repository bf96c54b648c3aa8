"""Log lines as structured JSON, one a line, without secrets.

A *log line* has the fields `timestamp` (UTC), `level`, `event`, `agent_id` and `domain`, and those of its event. What
libraries log on their own goes the same way. Every text in a line passes the redactor, exceptions included, and a
line is never more than one line.

What tools and libraries print, as lines of the log: so that the log holds nothing else, and no secret.

Whatever Python prints passes here, its warnings, too. A program that a tool starts writes to the real streams.
"""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
from collections import defaultdict
from collections.abc import Generator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, Literal, TextIO, TypeAlias, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

from wavewright.config.redaction import PrivateKeyLines, Redactor
from wavewright.planner.diagnostics.rendering import escape_json
from wavewright.planner.types import Json
from wavewright.tools.message_contract import MessageContract

Level: TypeAlias = Literal["debug", "info", "warning", "error"]

_MAX_TEXT_LENGTH = 2_000
"""Characters of one text in a line: a log is read by people."""
_SHORT_TEXT_LENGTH = 200
"""Characters of a text that is remembered with what became of it."""
_REPEAT_SECONDS = 60.0
"""After which a library of `_REPETITIVE` is heard again that says the same as before."""
_REPETITIVE_LOGGERS = ("opentelemetry",)
"""Libraries that say the same with every attempt, several times a second: that the collector is away."""
_REMEMBERED = 512
_HARMLESS_DIGITS = 5
"""Of a number that is a count or a level, and no secret, whatever its field is called."""
_WARNING_ONLY_LOGGERS = ("aio_pika", "aiormq", "uvicorn", "asyncio", "httpx", "httpx2", "mcp", "asyncpg")
"""Libraries that say at `info` what the daemon says itself."""

_SILENCED_LOGGERS = (
    "aiormq.connection",
    "aiormq.channel",
    "aio_pika.robust_connection",
    "aio_pika.connection",
    "stamina",
)
"""Libraries that tell of every attempt to connect or to call, and of every channel that ends: the daemon has lines of
its own."""


class StructuredLog:
    """Writes log lines; safe to use from any thread."""

    def __init__(
        self,
        *,
        agent: str,
        domain: str,
        level: Level = "info",
        redactor: Redactor | None = None,
        stream: TextIO | None = None,
        contract: MessageContract | None = None,
    ) -> None:
        """Write to a stream, standard error where none is given.

        Args:
            agent: Who writes, for `agent_id`.
            domain: What it works on, for `domain`.
            level: The lowest level that is written.
            redactor: Takes secrets out; one that knows shapes only where absent.
            stream: Where lines go.
            contract: Names of events and fields; the neutral ones where absent.
        """
        self._events: Mapping[str, str] = {} if contract is None else contract.log_events
        self._fields: Mapping[str, str] = dict[str, str](() if contract is None else contract.fields.items())
        line = _LineProcessor(redactor or Redactor())
        self._bound: FilteringBoundLogger = structlog.wrap_logger(
            structlog.WriteLogger(stream or sys.stderr),
            processors=[line, structlog.processors.JSONRenderer(_text_of)],
            wrapper_class=structlog.make_filtering_bound_logger(level),
            agent_id=agent,
            domain=domain,
        ).bind()

    def write(self, event: str, level: Level = "info", **fields: Json | BaseException) -> None:
        """Write one line.

        Args:
            event: Its name, such as `job_started`.
            level: How much it matters.
            fields: What else is to be known; an exception under `error` becomes its type and its message.
        """
        named = {self._fields.get(name, name): value for name, value in fields.items()}
        getattr(self._bound, level)(self._events.get(event, event), **named)

    def capture_logging(self) -> None:
        """Let what libraries log go the same way, warnings and worse only."""
        root = logging.getLogger()
        root.handlers[:] = [_ForwardingHandler(self)]
        root.setLevel(logging.WARNING)
        for name in _WARNING_ONLY_LOGGERS:
            logging.getLogger(name).handlers.clear()
            logging.getLogger(name).propagate = True
        for name in _SILENCED_LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL)


class _ForwardingHandler(logging.Handler):
    """Takes what a library logs."""

    def __init__(self, log: StructuredLog) -> None:
        super().__init__()
        self._log = log
        self._reported = dict[str, float]()
        """When a repetitive library said so last, by its words without what it says them of."""
        self._keys = defaultdict[str, PrivateKeyLines](PrivateKeyLines)
        """By logger: a key may be logged line by line."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a library's line; one that cannot be formatted is told as it stands."""
        if record.name.startswith(_REPETITIVE_LOGGERS):
            said = str(record.msg)
            if record.created - self._reported.get(said, -_REPEAT_SECONDS) < _REPEAT_SECONDS:
                return
            self._reported[said] = record.created
        try:
            message = record.getMessage()
        except (TypeError, ValueError):
            message = str(record.msg)
        level: Level = "error" if record.levelno >= logging.ERROR else "warning"
        message = self._keys[record.name].redact(message)
        fields: dict[str, Json | BaseException] = {"logger": record.name, "message": message}
        if record.exc_info is not None and record.exc_info[1] is not None:
            fields["error"] = record.exc_info[1]
        self._log.write("library", level, **fields)


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, default=str)


def _text_of(line: EventDict, **_: object) -> str:
    return escape_json(_ENCODER.encode(line))


class _LineProcessor:
    """Makes the fields of a line: when and how much it matters, faults by their names, and no secret in any text.

    Names of fields are the code's own and stay.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        # The lines of a run say the same job, target and tools again and again.
        self._known = lru_cache(_REMEMBERED)(self._redacted)

    def __call__(self, _: WrappedLogger, level: str, fields: EventDict) -> EventDict:
        plain = cast("dict[str, Any]", fields)
        error = plain.pop("error", None)
        if isinstance(error, BaseException):
            # What it is, and never where in the code: a line is for whoever runs the daemon.
            plain["error_type"] = type(error).__name__
            plain["message"] = plain.get("message") or str(error)
        elif error is not None:
            plain["error"] = error
        line = {name: self._clean(name, value) for name, value in plain.items()}
        line["timestamp"] = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        line["level"] = level
        return line

    def _clean(self, name: str, value: Any) -> Any:
        match value:
            case bool() | None:
                return value
            case str() if len(value) <= _SHORT_TEXT_LENGTH:
                return self._known(name, value)
            case int() | float():
                # Counts of tokens are numbers that the redactor would take for one.
                return value if name.endswith("tokens") else self._redacted(name, value)
            case _:
                return self._redacted(name, value)

    def _redacted(self, name: str, value: Any) -> Any:
        if isinstance(value, (int, float)) and len(str(value)) <= _HARMLESS_DIGITS:
            return value
        cleaned = self._redactor.redact_json({name: value})
        inner = cast("dict[str, Any]", cleaned).get(name)
        return (
            inner[:_MAX_TEXT_LENGTH] + "…"
            if isinstance(inner, str) and len(inner) > _MAX_TEXT_LENGTH
            else inner
        )


MAX_LINE_LENGTH: Final = 2_000
"""Characters after which a line is told that has not ended."""


@contextmanager
def capture_output(log: StructuredLog) -> Generator[None]:
    """Make lines of the log of all that is printed while the block runs."""
    out, err = LogStream(log, "stdout", sys.stdout), LogStream(log, "stderr", sys.stderr)
    logging.captureWarnings(True)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            yield
    finally:
        logging.captureWarnings(False)
        out.flush_line()
        err.flush_line()


class LogStream(io.TextIOBase):
    """A stream that makes a line of the log of each of its own; safe to use from any thread."""

    def __init__(self, log: StructuredLog, name: str, real: TextIO) -> None:
        super().__init__()
        self._log = log
        self._name = name
        self._real = real
        self._begun = ""
        self._keys = PrivateKeyLines()
        self._lock = threading.Lock()

    def writable(self) -> bool:
        """It is."""
        return True

    def fileno(self) -> int:
        """Return the real stream's, for programs that are started."""
        return self._real.fileno()

    def write(self, text: str, /) -> int:
        """Keep a text until its line ends."""
        with self._lock:
            *lines, self._begun = (self._begun + text).split("\n")
            if len(self._begun) > MAX_LINE_LENGTH:
                lines.append(self._begun)
                self._begun = ""
            lines = [self._keys.redact(line) for line in lines]
        for line in lines:
            self._write_line(line)
        return len(text)

    def flush_line(self) -> None:
        """Tell of a line that has never ended."""
        with self._lock:
            last, self._begun = self._keys.redact(self._begun), ""
        self._write_line(last)

    def _write_line(self, line: str) -> None:
        if line.strip():
            self._log.write("output", stream=self._name, message=line)
