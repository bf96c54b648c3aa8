"""Line charts of dated figures, and axes with ticks at round values.

Each chart is drawn twice, for a wide page and for a narrow one, so that its text is never scaled.
With `normalise` every line is 100 on the first day that all of them have; where the figures differ
by more than a factor of twelve the axis is logarithmic, on which equal growth has an equal slope.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from wavewright.reviewer.records import Chart, ChartSeries
from wavewright.reviewer.values import read_time

_DAY = 86_400.0

_Scale: TypeAlias = Callable[[float], float]
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
        return [Tick(low, _figure_text(low))]
    step = _round_step(span / max(1, most - 1))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    digits = next(
        (places for places in range(12) if abs(round(step, places) - step) < step * 1e-6), 12
    )
    return [
        Tick(number * step, f"{number * step:,.{digits}f}") for number in range(first, last + 1)
    ]


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
    return [Tick(mark, _figure_text(mark)) for mark in inside]


def time_ticks(low: float, high: float, most: int) -> list[Tick]:
    """Return marks at the start of years, months or days, the finest unit with at most `most`
    marks.
    """
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


def _figure_text(value: float) -> str:
    """Return a figure with as many digits as it needs: `1,200`, `12.5`, `0.034`."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e6 or size < 1e-4:
        return f"{value:.3g}"
    if size >= 100:
        digits = 0
    elif size >= 10:
        digits = 1
    else:
        digits = 2 if size >= 1 else 4
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _scale(low: float, high: float, start: float, end: float, *, log: bool = False) -> _Scale:
    """Return the mapping of values to positions, linear or logarithmic; an empty range maps to the
    middle.
    """
    forward = math.log10 if log else float
    bottom, top = forward(low), forward(high)
    if top - bottom <= 0:
        return lambda _value: (start + end) / 2
    return lambda value: start + (forward(value) - bottom) / (top - bottom) * (end - start)


def _round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next(
        (factor * power for factor in (1, 2, 2.5, 5) if factor * power >= least * (1 - 1e-9)),
        10 * power,
    )


def _inside(starts: Sequence[dt.datetime], low: float, high: float) -> list[dt.datetime]:
    return [start for start in starts if low <= start.timestamp() <= high]


def _date(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


_COLOURS = 8
"""Number of colours; further lines repeat them, dashed."""

_MAX_SERIES = 24
_MAX_POINTS = 400
_MAX_MARKS = 900
_LABEL_GAP = 15.0
_WIDE_RANGE = 12.0


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """A point with a tooltip."""

    x: float
    y: float
    title: str


@dataclass(frozen=True, slots=True)
class DrawnLine:
    """The line of one series."""

    name: str
    colour: int
    is_dashed: bool
    path: str
    marks: tuple[ChartPoint, ...]
    end_x: float
    end_y: float
    label_y: float
    last: str
    """The last figure, as text."""


@dataclass(frozen=True, slots=True)
class PlacedTick:
    """A tick with its position."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class ChartDrawing:
    """A chart in one size."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    lines: tuple[DrawnLine, ...]
    across: tuple[PlacedTick, ...]
    up: tuple[PlacedTick, ...]
    base: float | None
    """Position of the value 100, for normalised lines."""
    is_labelled: bool
    """Whether the lines' names are drawn at their ends, in addition to the legend."""


@dataclass(frozen=True, slots=True)
class DrawnChart:
    """A chart with its drawings."""

    title: str
    step: str
    note: str
    """Notes on the axis and on series that are not drawn."""
    wide: ChartDrawing
    narrow: ChartDrawing


_Points = list[tuple[float, float, str]]


def draw_chart(chart: Chart) -> DrawnChart | None:
    """Return the drawings of a chart, or None where it holds no figures."""
    series = [(line.name, _dated(line)) for line in chart.series[:_MAX_SERIES]]
    series = [(name, points) for name, points in series if points]
    if not series:
        return None
    base: float | None = None
    notes: list[str] = []
    if chart.normalise:
        series, base = _indexed(series)
        first = (
            "its first day"
            if base is None
            else f"{_date(base):%Y-%m-%d}, the first day that all of them have"
        )
        notes.append(f"each line is 100 on {first}")
    figures = [figure for _name, points in series for _when, figure, _date in points]
    is_log = chart.normalise and min(figures) > 0 and max(figures) / min(figures) > _WIDE_RANGE
    if is_log:
        notes.append("logarithmic axis")
    if len(chart.series) > _MAX_SERIES:
        notes.append(f"{len(chart.series) - _MAX_SERIES} more series are not drawn")
    return DrawnChart(
        title=chart.title,
        step=chart.step,
        note="; ".join(notes),
        wide=_drawing(series, base, width=1040, height=380, is_log=is_log, labels=True),
        narrow=_drawing(series, base, width=360, height=280, is_log=is_log, labels=False),
    )


def _dated(line: ChartSeries) -> _Points:
    dated: _Points = []
    for date, figure in line.points:
        span = read_time(date)
        if span:
            dated.append((span.begin.timestamp(), figure, date))
    dated.sort()
    return _thinned(dated)


def _thinned(points: _Points) -> _Points:
    """Keep the lowest and the highest figure of each interval, so that no peak is lost."""
    if len(points) <= _MAX_POINTS:
        return points
    stretch = -(-2 * len(points) // _MAX_POINTS)
    kept: _Points = [points[0]]
    for start in range(0, len(points), stretch):
        part = points[start : start + stretch]
        ends = {min(part, key=lambda point: point[1]), max(part, key=lambda point: point[1])}
        kept.extend(sorted(ends))
    kept.append(points[-1])
    return list(dict.fromkeys(kept))


def _indexed(
    series: Sequence[tuple[str, _Points]],
) -> tuple[list[tuple[str, _Points]], float | None]:
    start = max(points[0][0] for _name, points in series)
    shared = all(points[-1][0] >= start for _name, points in series)
    indexed: list[tuple[str, _Points]] = []
    for name, points in series:
        first = next((figure for when, figure, _date in points if not shared or when >= start), 0.0)
        if first > 0:
            indexed.append(
                (name, [(when, figure / first * 100, date) for when, figure, date in points])
            )
    if not indexed:
        # Of figures that are not positive none can be made 100.
        return list(series), None
    return indexed, start if shared else None


def _drawing(
    series: Sequence[tuple[str, _Points]],
    base: float | None,
    *,
    width: float,
    height: float,
    is_log: bool,
    labels: bool,
) -> ChartDrawing:
    figures = [figure for _name, points in series for _when, figure, _date in points]
    times = [when for _name, points in series for when, _figure, _date in points]
    low, high = _range(min(figures), max(figures), is_log=is_log)
    up = log_ticks(low, high, 7) if is_log else linear_ticks(low, high, 6)
    left = 16 + 7.2 * max((len(tick.label) for tick in up), default=1)
    names = max(len(name) for name, _points in series)
    is_labelled = labels and len(series) <= 12
    right = width - (26 + 9.2 * min(names, 18) if is_labelled else 14)
    top, bottom = 14.0, height - 30
    x = _scale(min(times), max(times), left, right)
    y = _scale(low, high, bottom, top, log=is_log)
    with_marks = len(figures) <= _MAX_MARKS and labels
    lines = [
        _draw_line(number, name, points, x, y, with_marks=with_marks)
        for number, (name, points) in enumerate(series)
    ]
    ticks = time_ticks(min(times), max(times), 8 if labels else 4)
    return ChartDrawing(
        width=width,
        height=height,
        left=left,
        right=right,
        top=top,
        bottom=bottom,
        lines=tuple(_with_labels(lines, top, bottom)),
        across=_placed_ticks(ticks, x),
        up=_placed_ticks(up, y),
        base=x(base) if base is not None and base > min(times) else None,
        is_labelled=is_labelled,
    )


def _range(low: float, high: float, *, is_log: bool) -> tuple[float, float]:
    if is_log:
        return low / 1.08, high * 1.08
    if low == high:
        return low - 1, high + 1
    # An axis that nearly reaches zero starts at zero.
    bottom = 0.0 if 0 <= low < 0.4 * high else low - 0.04 * (high - low)
    return bottom, high + 0.04 * (high - low)


def _draw_line(
    number: int, name: str, points: _Points, x: _Scale, y: _Scale, *, with_marks: bool
) -> DrawnLine:
    placed = [(x(when), y(figure), date, figure) for when, figure, date in points]
    path = "M" + "L".join(f"{left:.1f} {up:.1f}" for left, up, _date, _figure in placed)
    if len(placed) == 1:
        path += "h0.01"
    marks = tuple(
        ChartPoint(left, up, f"{name}, {date[:10]}: {_figure_text(figure)}")
        for left, up, date, figure in placed
    )
    end_x, end_y, _date, last = placed[-1]
    return DrawnLine(
        name=name,
        colour=number % _COLOURS,
        is_dashed=number >= _COLOURS,
        path=path,
        marks=marks if with_marks else (),
        end_x=end_x,
        end_y=end_y,
        label_y=end_y,
        last=_figure_text(last),
    )


def _with_labels(lines: Sequence[DrawnLine], top: float, bottom: float) -> list[DrawnLine]:
    """Move overlapping names at the lines' ends apart, from the top down and then from the bottom
    up.
    """
    order = sorted(range(len(lines)), key=lambda number: lines[number].end_y)
    places = {number: lines[number].end_y for number in order}
    edge = top - _LABEL_GAP
    for number in order:
        edge = places[number] = max(places[number], edge + _LABEL_GAP)
    edge = bottom + _LABEL_GAP
    for number in reversed(order):
        edge = places[number] = min(places[number], edge - _LABEL_GAP)
    return [replace(line, label_y=places[number]) for number, line in enumerate(lines)]


def _placed_ticks(ticks: Sequence[Tick], to_place: _Scale) -> tuple[PlacedTick, ...]:
    return tuple(PlacedTick(to_place(tick.value), tick.label) for tick in ticks)
