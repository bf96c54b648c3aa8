"""Axes with ticks at round values, and the Gantt chart of the steps' times.

Positions in the Gantt chart are percentages of its width, so that bars scale with the page and text does not.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from wavewright.reviewer.records import StepReport

_DAY = 86_400.0

Scale: TypeAlias = Callable[[float], float]
"""Maps a value to its position."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis."""

    value: float
    label: str


def linear_ticks(low: float, high: float, most: int) -> list[Tick]:
    """Return at most `most` marks at round values within the range."""
    span = high - low
    if span <= 0 or not math.isfinite(span):
        return [Tick(low, figure_text(low))]
    step = _round_step(span / max(1, most - 1))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    digits = next((places for places in range(12) if abs(round(step, places) - step) < step * 1e-6), 12)
    return [Tick(number * step, f"{number * step:,.{digits}f}") for number in range(first, last + 1)]


def log_ticks(low: float, high: float, most: int) -> list[Tick]:
    """Return marks at 1, 2 and 5 times the powers of ten, thinned to at most `most`."""
    inside: list[float] = []
    for pattern in ((1, 2, 5), (1, 3), (1,)):
        marks = [
            mantissa * 10.0**power
            for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
            for mantissa in pattern
        ]
        inside = [mark for mark in marks if low <= mark <= high]
        if len(inside) <= most:
            break
    return [Tick(mark, figure_text(mark)) for mark in inside]


def time_ticks(low: float, high: float, most: int) -> list[Tick]:
    """Return marks at the start of years, months or days, the finest unit with at most `most` marks."""
    first, last = _date(low), _date(high)
    for years in (1, 2, 5, 10, 20, 50, 100):
        numbers = [year for year in range(first.year, last.year + 1) if year % years == 0]
        starts = [dt.datetime(year, 1, 1, tzinfo=dt.UTC) for year in numbers]
        inside = _inside(starts, low, high)
        if len(inside) <= most:
            if len(inside) >= 3 or years > 1:
                return [Tick(start.timestamp(), str(start.year)) for start in inside]
            break
    for months in (1, 2, 3, 6):
        starts = [
            dt.datetime(year, month, 1, tzinfo=dt.UTC)
            for year in range(first.year, last.year + 1)
            for month in range(1, 13, months)
        ]
        inside = _inside(starts, low, high)
        if 3 <= len(inside) <= most:
            return [Tick(start.timestamp(), start.strftime("%b %Y")) for start in inside]
    days = max(1.0, math.ceil((high - low) / _DAY / max(1, most - 1)))
    start = math.ceil(low / _DAY) * _DAY
    count = int((high - start) // (days * _DAY)) + 1
    places = [start + number * days * _DAY for number in range(max(0, count))]
    return [Tick(place, f"{_date(place).day} {_date(place):%b %Y}") for place in places[:most]]


def duration_ticks(seconds: float, most: int) -> list[Tick]:
    """Return marks at round durations from 0."""
    if seconds <= 0:
        return [Tick(0.0, "0")]
    unit, name = next(
        ((size, name) for size, name in ((3600.0, "h"), (60.0, "min"), (1.0, "s")) if seconds >= 2 * size),
        (0.001, "ms"),
    )
    ticks = linear_ticks(0.0, seconds / unit, most)
    return [Tick(tick.value * unit, f"{tick.label} {name}" if tick.value else "0") for tick in ticks]


def figure_text(value: float) -> str:
    """Return a figure with as many digits as it needs: `1,200`, `12.5`, `0.034`."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e6 or size < 1e-4:
        return f"{value:.3g}"
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 4
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def scale(low: float, high: float, start: float, end: float, *, log: bool = False) -> Scale:
    """Return the mapping of values to positions, linear or logarithmic; an empty range maps to the middle."""
    forward = math.log10 if log else float
    bottom, top = forward(low), forward(high)
    if top - bottom <= 0:
        return lambda _value: (start + end) / 2
    return lambda value: start + (forward(value) - bottom) / (top - bottom) * (end - start)


def _round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next(
        (factor * power for factor in (1, 2, 2.5, 5) if factor * power >= least * (1 - 1e-9)), 10 * power
    )


def _inside(starts: Sequence[dt.datetime], low: float, high: float) -> list[dt.datetime]:
    return [start for start in starts if low <= start.timestamp() <= high]


def _date(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


_MIN_BAR_PERCENT = 0.35
"""Minimum width of a bar in percent, so that it can be seen."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One step's time, in percent of the axis."""

    step: StepReport
    start: float
    width: float


@dataclass(frozen=True, slots=True)
class AxisMark:
    """A tick, in percent of the axis."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Gantt:
    """Bars in the order in which the steps began."""

    bars: tuple[Bar, ...]
    marks: tuple[AxisMark, ...]


def draw_gantt(log: Sequence[StepReport]) -> Gantt:
    """Return the bars of the steps that ran; the axis begins with the first of them."""
    at_work = [(entry.started, entry) for entry in log if entry.started is not None]
    if not at_work:
        return Gantt((), ())
    at_work.sort(key=lambda pair: pair[0])
    begin = at_work[0][0]
    whole = max(started + entry.seconds for started, entry in at_work) - begin or 1e-6
    bars: list[Bar] = []
    for started, entry in at_work:
        width = max(_MIN_BAR_PERCENT, entry.seconds / whole * 100)
        bars.append(Bar(entry, min((started - begin) / whole * 100, 100 - width), width))
    marks = tuple(AxisMark(tick.value / whole * 100, tick.label) for tick in duration_ticks(whole, 6))
    return Gantt(tuple(bars), marks)
