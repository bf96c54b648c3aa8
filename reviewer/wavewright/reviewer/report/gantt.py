"""When each step was at work, as bars over one axis.

Places along the axis are shares of its length, so that bars stretch with the page and words do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wavewright.reviewer.records import StepReport
from wavewright.reviewer.report.scales import duration_ticks

_MIN_BAR_PERCENT = 0.35
"""Percent that the shortest bar takes, so that it can be seen."""


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
    """Return the bars of the steps that were at work; the axis begins with the first of them."""
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
