"""Times as tools write them, and durations as people read them.

A time in an output is an ISO 8601 date or date-time; what names no zone is UTC. A *date alone* stands for its whole
day: data of that day is not younger than the day's begin and not older than its end.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from dataclasses import dataclass

from wavewright.planner.types import Json

_DAY = dt.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """From when to when a datum may be of: one instant for a date-time, a day for a date."""

    begin: dt.datetime
    end: dt.datetime

    def age(self, now: dt.datetime) -> float:
        """Return the seconds since its end, which is the least that can be said; never below zero."""
        return max(0.0, (now - self.end).total_seconds())

    def is_after(self, now: dt.datetime, leeway: float = 0.0) -> bool:
        """Whether it begins later than now, by more than the leeway in seconds."""
        return (self.begin - now).total_seconds() > leeway


def read_time(value: Json) -> TimeSpan | None:
    """Return what an ISO 8601 date or date-time stands for, or None for anything else."""
    if not isinstance(value, str) or len(value) > 64:
        return None
    text = value.strip()
    with contextlib.suppress(ValueError, OverflowError):
        day = dt.datetime.combine(dt.date.fromisoformat(text), dt.time(), dt.UTC)
        return TimeSpan(day, day + _DAY)
    with contextlib.suppress(ValueError, OverflowError):
        instant = in_utc(dt.datetime.fromisoformat(text))
        return TimeSpan(instant, instant)
    return None


def in_utc(instant: dt.datetime) -> dt.datetime:
    """Return the instant in UTC; one without a zone is taken to be in it already."""
    return instant.replace(tzinfo=dt.UTC) if instant.tzinfo is None else instant.astimezone(dt.UTC)


def iso(instant: dt.datetime) -> str:
    """Return an instant as ISO 8601 in UTC, to the second."""
    return in_utc(instant).isoformat(timespec="seconds").replace("+00:00", "Z")


def iso_of_epoch(seconds: float) -> str:
    """Return seconds since the epoch as ISO 8601 in UTC, to the millisecond where there are any."""
    text = dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z").replace(".000Z", "Z")


def duration_text(seconds: float) -> str:
    """Return a duration in the unit that suits it: `0.4 s`, `45 min`, `24 h`, `16.7 years`."""
    for unit, size, least in (
        ("years", 31_557_600.0, 2),
        ("days", 86_400.0, 2),
        ("h", 3600.0, 2),
        ("min", 60.0, 2),
    ):
        if seconds >= least * size:
            return f"{_short_number(seconds / size)} {unit}"
    return (
        f"{_short_number(seconds)} s"
        if seconds >= 1 or seconds == 0
        else f"{_short_number(seconds * 1000)} ms"
    )


def _short_number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or abs(value - round(value)) < 0.05 else f"{value:.1f}"
