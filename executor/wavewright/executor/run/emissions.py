"""What a call prints, logs and emits, captured per call and recorded as events.

An `OutputCapture` belongs to one attempt of one call. A context variable holds it, copied into the
threads and tasks that await the call, so concurrent calls and other runs of the process do not mix.
Output still goes to the original streams. Not captured: the output of child processes and of
threads that the tool starts itself, and log records below the level of the program's logging.

An *emission* is made by a tool during a call, from any thread, and becomes an event of the run at
once; streamed text is collected into larger pieces. Emissions after the end of their call are
dropped, since a step has no events after its end.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import logging
import math
import sys
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Final, TextIO, TypeAlias, cast

from wavewright.config.redaction import Redactor
from wavewright.executor.events.codec import decode, encode
from wavewright.executor.events.json_values import NotJsonError, clean_json, valid_text
from wavewright.executor.events.state import RunState
from wavewright.executor.events.types import (
    EMISSIONS_TAKEN,
    TOOL_EVENT,
    AttemptLogged,
    Event,
    LoopToolCalled,
    ModelCalled,
    Noted,
    OutputLogged,
    OutputStreamed,
    RungTaken,
)
from wavewright.executor.run.ports import Clock, Timer
from wavewright.executor.run.scheduled_calls import ScheduledCall
from wavewright.planner import JsonObject, StepId, as_object
from wavewright.planner.diagnostics.rendering import printable_lines
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.ports.model_port import ModelUse
from wavewright.tools import LogEvent, TextChunk
from wavewright.tools.functions.tool import (
    AgentToolCall,
    Emission,
    EmissionsTaken,
    OutputStream,
    PrintedLines,
)

MAX_CHARS: Final = 16_000
"""Characters kept of each text of an attempt: the last ones."""
_MAX_RAW_CHARS = 3 * MAX_CHARS
"""Characters kept until redaction; the final cut to `MAX_CHARS` removes a secret that this one has
split.
"""


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
        if dropped == 0:
            return text
        return f"… {dropped:,} characters before this were left out\n{text[-MAX_CHARS:]}"


_CAPTURE_LOCK = threading.Lock()
"""Held while text is added: a tool may print from several threads."""


class OutputCapture:
    """The output and log records of one attempt."""

    __slots__ = ("_fresh", "_is_closed", "_is_told", "_texts", "_told")

    def __init__(self, told: Callable[[], None] | None = None) -> None:
        """Capture nothing yet.

        Args:
            told: Called, from any thread, when there is text to `take`.
        """
        self._texts: dict[OutputStream, _TailBuffer] | None = None
        self._fresh: dict[OutputStream, list[str]] = {}
        self._told = told
        self._is_told = False
        self._is_closed = False

    def add(self, stream: OutputStream, text: str) -> None:
        """Add to the text of a stream; nothing once the attempt has ended."""
        with _CAPTURE_LOCK:
            self._add(stream, text)
            if self._told is None or self._is_closed:
                return
            self._fresh.setdefault(stream, []).append(text)
            is_news, self._is_told = not self._is_told, True
        if is_news:
            self._told()

    def add_known(self, stream: OutputStream, text: str) -> None:
        """Add a text whose lines were recorded while the call was at work elsewhere."""
        with _CAPTURE_LOCK:
            self._add(stream, text)

    def _add(self, stream: OutputStream, text: str) -> None:
        if self._is_closed:
            return
        if self._texts is None:
            self._texts = {}
        self._texts.setdefault(stream, _TailBuffer()).add(text)

    def take(self, redactor: Redactor) -> list[PrintedLines]:
        """Return the whole lines of each text that were not taken before, redacted; what may be the
        beginning of a secret of several lines stays.
        """
        with _CAPTURE_LOCK:
            self._is_told = False
            taken = dict[OutputStream, str]()
            for stream, parts in list(self._fresh.items()):
                text = "".join(parts)
                most = redactor.redactable(text)
                end = max(text.rfind("\n", 0, most), text.rfind("\r", 0, most)) + 1
                taken[stream] = text[:end]
                self._fresh[stream] = [text[end:]] if end < len(text) else []
        return [
            PrintedLines(stream, valid_text(redactor.redact(text)))
            for stream, text in taken.items()
            if text
        ]

    def close(self, redactor: Redactor) -> dict[OutputStream, str]:
        """Return the texts that are not empty, redacted; further text is dropped."""
        with _CAPTURE_LOCK:
            self._is_closed = True
            self._fresh.clear()
            texts, self._texts = self._texts or {}, None
        return {name: text for name, end in texts.items() if (text := end.text(redactor))}


CURRENT_CAPTURE: Final[ContextVar[OutputCapture | None]] = ContextVar(
    "wavewright_capture", default=None
)
"""The capture of the running code's output."""


@contextmanager
def capture_suspended() -> Generator[None]:
    """Do not capture in a `with` block: for event listeners that run within a call."""
    token = CURRENT_CAPTURE.set(None)
    try:
        yield
    finally:
        CURRENT_CAPTURE.reset(token)


_WRITE_OF_HANDLER: Final = logging.StreamHandler[TextIO].emit.__code__
"""What writes a log record to a stream, for Python's handler of last resort, too."""


class _Tee:
    """A stream that captures what is written and passes everything on to the stream behind it."""

    def __init__(self, name: OutputStream, behind: TextIO) -> None:
        self._name: OutputStream = name
        self.behind = behind
        self.is_on = True

    def write(self, text: str) -> int:
        capture = CURRENT_CAPTURE.get()
        if capture is not None and self.is_on:
            frame = inspect.currentframe()
            writer = None if frame is None else frame.f_back
            # The record itself is captured: what a handler writes of it would be there twice.
            if writer is None or writer.f_code is not _WRITE_OF_HANDLER:
                capture.add(self._name, text)
            # A tool's output must not contain terminal escape sequences.
            self.behind.write(printable_lines(text))
            return len(text)
        return self.behind.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def close(self) -> None:
        """Flush only: the streams belong to the process, and other runs and its own output need
        them.
        """
        self.behind.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)


class _StreamPatch:
    """Replaces the process's standard streams and log record factory as long as any run is
    executed.
    """

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
            # Not a handler: with one on the root logger, Python's handler of last resort and
            # `basicConfig` do nothing.
            logging.setLogRecordFactory(self._recorded)

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users:
                return
            for name, tee in self._tees.items():
                tee.is_on = False
                # Other code that has replaced it restores it itself.
                if getattr(sys, name) is tee:
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
    """Capture what is printed and logged in a `with` block; blocks may overlap."""
    _STREAM_PATCH.enter()
    try:
        yield
    finally:
        _STREAM_PATCH.leave()


def _log_line(record: logging.LogRecord) -> str:
    try:
        message = record.getMessage()
    except Exception as error:  # noqa: BLE001 - arguments that do not fit the message; logging reports it
        words = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
        message = f"{words} ({type(error).__name__}: {error})"
    if record.exc_info and record.exc_info[0] is not None:
        message += f"\n{_FORMATTER.formatException(record.exc_info)}"
    time = dt.datetime.fromtimestamp(record.created, dt.UTC).strftime("%H:%M:%S.%f")[:-3]
    return f"{time} {record.levelname} {record.name}: {message}"


FLUSH_SECONDS: Final = 0.25
"""Streamed text becomes an event after so long …"""
FLUSH_CHARS: Final = 2_000
"""… or as soon as it has so many characters."""

_NO_OUTPUT: Final[Mapping[OutputStream, str]] = {}
OUTPUT_SECONDS: Final = 0.4
"""What a call prints becomes an event after so long."""
MAX_LOGGED_ATTEMPTS: Final = 1_000
"""Maximum of attempts per step whose traceback, output and log records are recorded …"""
MAX_LOGGED_CHARS: Final = 2_000_000
"""… and of the characters of these, and of those that are recorded while calls are at work."""

_Emitted: TypeAlias = Event | PrintedLines | str
"""An event, or text that becomes one."""


@dataclass(slots=True)
class _TextBuffer:
    """Text of one call that is not recorded yet."""

    timer: Timer
    parts: list[str] = field(default_factory=list[str])
    chars: int = 0


class Emissions:
    """The emissions of one run."""

    def __init__(self, record: Callable[[Event], None], clock: Clock) -> None:
        """Record events on the current event loop."""
        self._record = record
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._texts = dict[ScheduledCall, _TextBuffer]()
        self._logged = Counter[StepId]()
        self._logged_chars = Counter[StepId]()

    def emit(self, call: ScheduledCall, attempt: int, emission: Emission) -> None:
        """Record an emission; bound to its call and attempt, this is `ToolCall.emit`. Never waits.

        Raises:
            TypeError: the type of the emission is unknown.
            ValueError: it has a field of a wrong type.
        """
        emitted = self._to_emitted(call, emission)
        if threading.get_ident() == self._thread:
            self._record_emitted(call, attempt, emitted)
            return
        try:
            self._loop.call_soon_threadsafe(self._record_emitted, call, attempt, emitted)
        except RuntimeError:
            # The loop is closed, so the run has ended.
            return

    def finish(
        self,
        call: ScheduledCall,
        printed: Mapping[OutputStream, str] = _NO_OUTPUT,
        traceback: str = "",
    ) -> None:
        """Record the rest of the attempt's text, and what it printed and raised; later emissions
        are dropped.
        """
        call.is_under_way = False
        if self._texts and call in self._texts:
            self._flush_text(call)
        step = call.step.id
        has_room = self._logged_chars[step] < MAX_LOGGED_CHARS
        if (printed or traceback) and self._logged[step] < MAX_LOGGED_ATTEMPTS and has_room:
            self._logged[step] += 1
            self._logged_chars[step] += len(traceback) + sum(map(len, printed.values()))
            self._record(
                AttemptLogged(
                    self._clock.wall(),
                    call.step.id,
                    call.attempt,
                    call.item,
                    traceback=traceback,
                    stdout=printed.get("stdout", ""),
                    stderr=printed.get("stderr", ""),
                    log=printed.get("log", ""),
                )
            )

    def capture(self, call: ScheduledCall, redactor: Redactor) -> OutputCapture:
        """Return the capture of an attempt that begins, whose lines are recorded as they come."""
        attempt = call.attempt

        def record() -> None:
            if not call.is_under_way or call.attempt != attempt:
                return
            for lines in capture.take(redactor):
                self._record_output(call, lines)

        def told() -> None:
            # The run may have ended meanwhile, and its loop is closed.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._clock.call_later, OUTPUT_SECONDS, record)

        capture = OutputCapture(told)
        return capture

    def _record_output(self, call: ScheduledCall, lines: PrintedLines) -> None:
        step, text = call.step.id, lines.text
        if self._logged_chars[step] >= MAX_LOGGED_CHARS:
            return
        self._logged_chars[step] += len(text)
        at = self._clock.wall()
        self._record(OutputLogged(at, step, call.attempt, lines.stream, text, call.item))

    def _to_emitted(self, call: ScheduledCall, emission: Emission) -> _Emitted:
        if isinstance(emission, TextChunk):
            if not isinstance(emission.text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a user's tool
                raise TypeError(f"the text of a piece is {type(emission.text).__name__}, not str")
            return emission.text
        if isinstance(emission, PrintedLines):
            return emission
        event = self._event(call, emission)
        # An event that cannot be decoded would make the journal unreadable, so the tool gets the
        # error.
        decode(*encode(event))
        return event

    def _event(
        self,
        call: ScheduledCall,
        emission: ModelUse | RungRecord | AgentToolCall | LogEvent | EmissionsTaken,
    ) -> Event:
        at, step, index = self._clock.wall(), call.step.id, call.item
        match emission:
            case ModelUse():
                return ModelCalled(at, _with_step(emission, step, index))
            case RungRecord():
                return RungTaken(at, emission, step, index)
            case AgentToolCall():
                return LoopToolCalled(at, step, _clean_loop_call(emission), index)
            case LogEvent():
                body: JsonObject = {
                    "event": emission.event_name,
                    "step": step,
                    "index": index,
                    "fields": emission.to_json(),
                }
                return Noted(at, TOOL_EVENT, body)
            case EmissionsTaken():
                return Noted(at, EMISSIONS_TAKEN, {"call": emission.call, "no": emission.no})
            case _:  # a user's tool
                raise TypeError(f"a tool cannot emit a {type(emission).__name__}")

    def _record_emitted(self, call: ScheduledCall, attempt: int, emitted: _Emitted) -> None:
        if not call.is_under_way or call.attempt != attempt:
            return
        if isinstance(emitted, str):
            self._buffer_text(call, emitted)
            return
        if isinstance(emitted, PrintedLines):
            self._record_output(call, emitted)
            return
        if isinstance(emitted, RungTaken) and emitted.rung.is_outage:
            # What is made in the place of a model that failed or refused is of this run: the next
            # one asks it.
            call.cache_key = None
        self._record(emitted)

    def _buffer_text(self, call: ScheduledCall, piece: str) -> None:
        if not piece:
            return
        text = self._texts.get(call)
        if text is None:
            timer = self._clock.call_later(FLUSH_SECONDS, lambda: self._flush_text(call))
            text = self._texts[call] = _TextBuffer(timer)
        text.parts.append(piece)
        text.chars += len(piece)
        if text.chars >= FLUSH_CHARS:
            self._flush_text(call)

    def _flush_text(self, call: ScheduledCall) -> None:
        text = self._texts.pop(call)
        text.timer.cancel()
        joined = "".join(text.parts)
        self._record(OutputStreamed(self._clock.wall(), call.step.id, joined, call.item))


def taken_emissions(state: RunState) -> dict[str, int]:
    """Return the marks of emissions that a run has taken from other processes, by call."""
    return {
        str(note.body["call"]): int(str(note.body["no"]))
        for note in state.notes
        if note.topic == EMISSIONS_TAKEN
    }


def _with_step(use: ModelUse, step: StepId, index: int | None) -> ModelUse:
    """Return a use with its step and index, and with finite numbers."""
    if use.usd is not None and not math.isfinite(use.usd):
        use = replace(use, usd=None)
    if not math.isfinite(use.seconds):
        use = replace(use, seconds=0.0)
    # A use that names its step keeps it.
    if use.step is None:
        use = replace(use, step=step)
    return use if use.index is not None else replace(use, index=index)


def _clean_loop_call(call: AgentToolCall) -> AgentToolCall:
    """Return an agent's tool call with parameters that are JSON, since a model wrote them."""
    try:
        return replace(call, params=as_object(clean_json(call.params)))
    except NotJsonError:
        words = [call.message, "its parameters are not JSON and left out"]
        return replace(call, params={}, message="; ".join(filter(None, words)))
