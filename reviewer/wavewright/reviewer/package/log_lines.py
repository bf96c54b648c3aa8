"""What the calls of a run print, log and raise, as lines.

While an attempt is at work its lines come in parts; at its end all of its text comes at once. Each
line is yielded once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from immutables import Map

from wavewright.executor import Event
from wavewright.executor.events.types import AttemptLogged, OutputLogged
from wavewright.planner import StepId

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
LEVELS: Final[tuple[LogLevel, ...]] = ("debug", "info", "warning", "error")
_LEVELS_OF_LOGGING: Final[dict[str, LogLevel]] = {
    "DEBUG": "debug",
    "WARNING": "warning",
    "ERROR": "error",
    "CRITICAL": "error",
}
_LEVELS_OF_STREAMS: Final[dict[str, LogLevel]] = {"stderr": "warning", "traceback": "error"}
_RECORD = re.compile(r"\d\d:\d\d:\d\d\.\d{3} ([A-Z]+) ")
_STREAMS: Final = ("stdout", "stderr", "log", "traceback")

_Place: TypeAlias = tuple[StepId, int | None, int, str]
"""Step, item, attempt and stream."""
ShownLines: TypeAlias = Map[_Place, tuple[int, str]]
"""Of attempts at work, how many lines were yielded, and the last one."""
_NO_LINE: Final = (0, "")
NOTHING_SHOWN: Final[ShownLines] = Map()


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line that a call has printed, logged or raised."""

    at: float
    """When it was recorded, in seconds since the epoch."""
    step: StepId
    index: int | None
    attempt: int
    stream: str
    """`stdout`, `stderr`, `log` or `traceback`."""
    level: LogLevel
    """Of a log record its own; what is printed is `info`, on standard error a `warning`, and a
    traceback an `error`.
    """
    text: str

    @property
    def place(self) -> str:
        """The step with its item."""
        return self.step if self.index is None else f"{self.step}[{self.index}]"


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which lines are wanted; what is empty does not count."""

    step: str = ""
    index: int | None = None
    level: LogLevel = "debug"
    """And whatever is graver."""
    text: str = ""
    """Somewhere in the line, in any case."""

    def matches(self, line: LogLine) -> bool:
        """Whether a line is wanted."""
        return (
            self.step in {"", line.step}
            and self.index in {None, line.index}
            and LEVELS.index(line.level) >= LEVELS.index(self.level)
            and self.text.casefold() in line.text.casefold()
        )


def log_lines(
    events: Iterable[Event], shown: ShownLines = NOTHING_SHOWN
) -> tuple[list[LogLine], ShownLines]:
    """Return the lines of events, and what is to be given with the events that follow."""
    lines_found: list[LogLine] = []
    place: _Place
    lines: list[str]
    for event in events:
        if isinstance(event, OutputLogged):
            place = (event.step, event.index, event.attempt, event.stream)
            lines = event.text.splitlines()
            count, last = shown.get(place, _NO_LINE)
            shown = shown.set(place, (count + len(lines), lines[-1] if lines else last))
            lines_found += _lines(event, event.stream, lines)
        elif isinstance(event, AttemptLogged):
            for stream in _STREAMS:
                place = (event.step, event.index, event.attempt, stream)
                lines = getattr(event, stream).splitlines()
                count, last = shown.get(place, _NO_LINE)
                if place in shown:
                    shown = shown.delete(place)
                lines_found += _lines(event, stream, _after(lines, count, last))
    return lines_found, shown


def _after(lines: list[str], count: int, last: str) -> list[str]:
    """Return the lines of a whole text that follow the first ones, given the last of these."""
    if lines[count - 1 : count] == [last] or not count:
        return lines[count:]
    # Of a long text only the end is kept.
    places = [place for place, line in enumerate(lines) if line == last]
    return lines[places[-1] + 1 :] if places else lines


def _lines(
    event: OutputLogged | AttemptLogged, stream: str, lines: Iterable[str]
) -> Iterator[LogLine]:
    level = _LEVELS_OF_STREAMS.get(stream, "info")
    for line in lines:
        if stream == "log" and (record := _RECORD.match(line)) is not None:
            level = _LEVELS_OF_LOGGING.get(record[1], "info")
        yield LogLine(event.at, event.step, event.index, event.attempt, stream, level, line)
