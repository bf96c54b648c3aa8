"""Structured logs: one JSON object per line, without secrets.

A line has the fields `timestamp` (UTC), `level`, `event`, `agent_id` and `domain`, and those of its
event. Log records of libraries, and everything that Python code prints, become lines of the same
log; a program that a tool starts writes to the real streams. All text is redacted, exceptions
included.
"""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, Literal, TextIO, TypeAlias, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

from wavewright.config.redaction import Redactor
from wavewright.config.secret_patterns import PrivateKeyLines
from wavewright.planner import Json
from wavewright.planner.diagnostics.rendering import escape_json
from wavewright.tools import LogForm, MessageContract

Level: TypeAlias = Literal["debug", "info", "warning", "error"]

_MAX_TEXT_LENGTH = 2_000
"""Maximum characters of one text in a line."""
_SHORT_TEXT_LENGTH = 200
"""Maximum characters of a text whose redaction is cached."""
_REPEAT_SECONDS = 60.0
"""Seconds before an identical record of a library in `_REPETITIVE` is logged again."""
_REPETITIVE_LOGGERS = ("opentelemetry",)
"""Libraries that log the same with every attempt, several times a second, when the collector is
away.
"""
_REMEMBERED = 512
_HARMLESS_DIGITS = 5
"""Maximum digits of a number that is a count or a level, and no secret, whatever its field's name.
"""
_WARNING_ONLY_LOGGERS = (
    "aio_pika",
    "aiormq",
    "uvicorn",
    "asyncio",
    "httpx",
    "httpx2",
    "mcp",
    "asyncpg",
)
"""Libraries that log at `info` what the daemon logs itself."""

_SILENCED_LOGGERS = (
    "aiormq.connection",
    "aiormq.channel",
    "aio_pika.robust_connection",
    "aio_pika.connection",
    "stamina",
)
"""Libraries that log every attempt to connect or to call and every closed channel, for which the
daemon has its own events.
"""


class StructuredLog:
    """Writes log lines; safe to use from any thread.

    >>> import io
    >>> import json
    >>> from wavewright.engine import StructuredLog
    >>> stream = io.StringIO()
    >>> StructuredLog(agent="narrator", domain="tabletop", stream=stream).write("turn_began", turn=1)
    >>> json.loads(stream.getvalue())["event"]
    'turn_began'
    """

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
        """Log to a stream, by default standard error.

        Args:
            agent: Value of `agent_id`.
            domain: Value of `domain`.
            level: Minimum level.
            redactor: Redacts secrets; by default without known values.
            stream: The stream for lines.
            contract: Names of events and fields; the neutral ones by default.
        """
        self.contract = contract or MessageContract()
        """Names of events and fields."""
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
            event: Name of the event, such as `job_started`.
            level: Level of the line.
            fields: Further fields; an exception under `error` becomes its type and its message.
        """
        form = self.contract.log_events.get(event, event)
        if isinstance(form, str):
            form = LogForm(form)
        names = dict[str, str](self.contract.fields.items()) | dict(form.fields)
        named = {names.get(name, name): value for name, value in fields.items()}
        getattr(self._bound, form.level or level)(form.name, **named)

    def capture_logging(self) -> None:
        """Log records of libraries from level `warning` on."""
        root = logging.getLogger()
        root.handlers[:] = [_ForwardingHandler(self)]
        root.setLevel(logging.WARNING)
        for name in _WARNING_ONLY_LOGGERS:
            logging.getLogger(name).handlers.clear()
            logging.getLogger(name).propagate = True
        for name in _SILENCED_LOGGERS:
            # Not by its level: a handler of its own still gets its records.
            logging.getLogger(name).propagate = False
            logging.getLogger(name).addHandler(logging.NullHandler())


class _ForwardingHandler(logging.Handler):
    """Forwards records of libraries to the log."""

    def __init__(self, log: StructuredLog) -> None:
        super().__init__()
        self._log = log
        self._reported = dict[str, float]()
        """Time of the last record of a repetitive library, by its message format."""
        self._keys = defaultdict[str, PrivateKeyLines](PrivateKeyLines)
        """One per logger, since a key may be logged line by line."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record; one that cannot be formatted is logged unformatted."""
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
    """Adds time and level to a line, converts exceptions and redacts secrets in its values.

    Names of fields come from the code and are not redacted.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        # The lines of a run repeat job, target and tools.
        self._known = lru_cache(_REMEMBERED)(self._redacted)

    def __call__(self, _: WrappedLogger, level: str, fields: EventDict) -> EventDict:
        plain = cast("dict[str, Any]", fields)
        error = plain.pop("error", None)
        if isinstance(error, BaseException):
            # Type and message without a traceback: lines are for operators.
            plain["error_type"] = type(error).__name__
            plain["message"] = plain.get("message") or str(error)
        elif error is not None:
            plain["error"] = error
        line = {name: self._clean(name, value) for name, value in plain.items()}
        line["timestamp"] = (
            datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        )
        line["level"] = level
        return line

    def _clean(self, name: str, value: Any) -> Any:
        match value:
            case bool() | None:
                return value
            case str() if len(value) <= _SHORT_TEXT_LENGTH:
                return self._known(name, value)
            case int() | float():
                # Token counts are numbers that the redactor would treat as secrets.
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
"""Characters after which an unfinished line is logged."""


@contextmanager
def capture_output(log: StructuredLog) -> Generator[None]:
    """Log everything that is printed during the block."""
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
    """A stream that logs each of its lines; safe to use from any thread."""

    def __init__(self, log: StructuredLog, name: str, real: TextIO) -> None:
        super().__init__()
        self._log = log
        self._name = name
        self._real = real
        self._begun = ""
        self._keys = PrivateKeyLines()
        self._lock = threading.Lock()

    def writable(self) -> bool:
        """Return true."""
        return True

    def fileno(self) -> int:
        """Return the real stream's descriptor, for child processes."""
        return self._real.fileno()

    def write(self, text: str, /) -> int:
        """Buffer a text until its line ends."""
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
        """Log an unfinished line."""
        with self._lock:
            last, self._begun = self._keys.redact(self._begun), ""
        self._write_line(last)

    def _write_line(self, line: str) -> None:
        if line.strip():
            self._log.write("output", stream=self._name, message=line)
