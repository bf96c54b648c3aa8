"""What a call prints and logs, kept apart from what other calls do at the same time.

A *capture* belongs to one attempt of one call. It is found by a context variable, which follows the call into the
threads and tasks that it is awaited in; so parallel calls, and other runs of the same process, do not mix. What is
printed goes on to where it went before. Not seen: what a child process prints, what a thread that the tool itself
starts prints, and log records below the level that the program's logging lets through.
"""

from __future__ import annotations

import datetime as dt
import logging
import sys
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TextIO, cast

from wavewright.config.redaction import Redactor
from wavewright.executor.json_values import valid_text
from wavewright.planner.rendering import printable_lines

MAX_CHARS: Final = 16_000
"""Characters of each text that are kept of an attempt: the last ones."""
_MAX_RAW_CHARS = 3 * MAX_CHARS
"""Characters that are held until they are redacted: a secret that the cut goes through lies in what is cut off then."""


class _TailBuffer:
    """The end of a text of any length."""

    __slots__ = ("_chars", "_dropped", "_parts")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._chars = 0
        self._dropped = 0

    def add(self, text: str) -> None:
        self._parts.append(text)
        self._chars += len(text)
        if self._chars > 2 * _MAX_RAW_CHARS:
            kept = "".join(self._parts)[-_MAX_RAW_CHARS:]
            self._dropped += self._chars - len(kept)
            self._parts, self._chars = [kept], len(kept)

    def text(self, redactor: Redactor) -> str:
        text = valid_text(redactor.redact("".join(self._parts)))
        dropped = self._dropped + max(0, len(text) - MAX_CHARS)
        return f"… {dropped:,} characters before this were left out\n{text[-MAX_CHARS:]}" if dropped else text


_CAPTURE_LOCK = threading.Lock()
"""Held while a text is added to: a tool may print from several threads."""


class OutputCapture:
    """What one attempt has printed and logged."""

    __slots__ = ("_is_closed", "_texts")

    def __init__(self) -> None:
        self._texts: dict[str, _TailBuffer] | None = None
        self._is_closed = False

    def add(self, name: str, text: str) -> None:
        """Add to the text of that name; nothing once the attempt has ended."""
        with _CAPTURE_LOCK:
            if self._is_closed:
                return
            if self._texts is None:
                self._texts = {}
            self._texts.setdefault(name, _TailBuffer()).add(text)

    def close(self, redactor: Redactor) -> dict[str, str]:
        """Return the texts that are not empty (`stdout`, `stderr`, `log`), redacted; take in nothing any more."""
        with _CAPTURE_LOCK:
            self._is_closed = True
            texts, self._texts = self._texts or {}, None
        return {name: text for name, end in texts.items() if (text := end.text(redactor))}


CURRENT_CAPTURE: Final[ContextVar[OutputCapture | None]] = ContextVar("wavewright_capture", default=None)
"""Where the running code's output is kept."""


@contextmanager
def capture_suspended() -> Generator[None]:
    """Keep nothing of what is printed in a `with` block: for watchers who are told of a call from within it."""
    token = CURRENT_CAPTURE.set(None)
    try:
        yield
    finally:
        CURRENT_CAPTURE.reset(token)


class _Tee:
    """A stream that keeps what captured code writes, and passes everything on; in all else the stream behind it."""

    def __init__(self, name: str, behind: TextIO) -> None:
        self._name = name
        self.behind = behind
        self.is_on = True

    def write(self, text: str) -> int:
        capture = CURRENT_CAPTURE.get()
        if capture is not None and self.is_on:
            capture.add(self._name, text)
            # What a tool prints is to steer no terminal.
            self.behind.write(printable_lines(text))
            return len(text)
        return self.behind.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)


class _StreamPatch:
    """The process's standard streams and log records, watched for as long as any run is executed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._tees: dict[str, _Tee] = {}
        self._make_record = logging.getLogRecordFactory()

    def enter(self) -> None:
        with self._lock:
            self._users += 1
            if self._users > 1:
                return
            for name in ("stdout", "stderr"):
                stream = getattr(sys, name)
                if stream is not None:  # as where a process has no console
                    self._tees[name] = tee = _Tee(name, stream)
                    setattr(sys, name, cast("TextIO", tee))
            self._make_record = logging.getLogRecordFactory()
            # Not a handler: with one on the root logger, Python's handler of last resort and `basicConfig` do nothing.
            logging.setLogRecordFactory(self._recorded)

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users:
                return
            for name, tee in self._tees.items():
                tee.is_on = False
                if getattr(sys, name) is tee:  # whoever has put another in its place puts back what was there
                    setattr(sys, name, tee.behind)
            self._tees.clear()
            if logging.getLogRecordFactory() == self._recorded:
                logging.setLogRecordFactory(self._make_record)

    def _recorded(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = self._make_record(*args, **kwargs)
        capture = CURRENT_CAPTURE.get()
        if capture is not None and self._users:
            capture.add("log", f"{_log_line(record)}\n")
        return record


_STREAM_PATCH: Final = _StreamPatch()
_FORMATTER = logging.Formatter()


@contextmanager
def capturing() -> Generator[None]:
    """Let captures take in what is printed and logged, in a `with` block; blocks may overlap."""
    _STREAM_PATCH.enter()
    try:
        yield
    finally:
        _STREAM_PATCH.leave()


def _log_line(record: logging.LogRecord) -> str:
    try:
        message = record.getMessage()
    except Exception as error:  # noqa: BLE001 - arguments that do not fit the message: logging says so itself
        words = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
        message = f"{words} ({type(error).__name__}: {error})"
    if record.exc_info and record.exc_info[0] is not None:
        message += f"\n{_FORMATTER.formatException(record.exc_info)}"
    time = dt.datetime.fromtimestamp(record.created, dt.UTC).strftime("%H:%M:%S.%f")[:-3]
    return f"{time} {record.levelname} {record.name}: {message}"
