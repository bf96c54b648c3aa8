"""Timestamps and durations: how they are read, written and taken apart.

Both have microseconds. A timestamp is kept in UTC; its parts can be asked for in another time zone.
"""

# Annotations are not deferred: they are the signatures of expressions.

import datetime as dt
import re
from collections.abc import Callable
from typing import Final

from wavewright.planner.cel.errors import SCALAR_BYTES, CostTracker
from wavewright.planner.cel.functions.declarations import GLOBAL_FUNCTIONS, METHODS
from wavewright.planner.cel.operators import evaluation_error

_DATE = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[Tt ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:[Zz]|[+-]\d{2}:?\d{2})?)?", re.ASCII
)
_FRACTION = re.compile(r"(\.\d{1,9})")
_DURATION_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ms|us|µs|ns|[smhd])", re.ASCII)
_DURATION = re.compile(rf"[+-]?(?:(?:{_DURATION_PART.pattern})+|0)", re.ASCII)
_MAX_DURATION_TEXT = 60
_MAX_DURATION_SECONDS = 315_576_000_000
_MICROSECONDS: Final = {
    "ns": 0.001, "us": 1, "µs": 1, "ms": 1000, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6,
}  # fmt: skip
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_OFFSET = re.compile(r"([+-]?)(\d{1,2}):(\d{2})", re.ASCII)
_MAX_ZONE_NAME = 60
_ZONE_COST = 300
"""Operations that it takes to find a time zone."""


@GLOBAL_FUNCTIONS.declare("timestamp")
def _timestamp(cost: CostTracker, value: str | int | dt.datetime) -> dt.datetime:
    cost.allocate(SCALAR_BYTES)
    if isinstance(value, dt.datetime):
        return value
    if isinstance(value, int):
        try:
            return _EPOCH + dt.timedelta(seconds=value)
        except OverflowError:
            raise evaluation_error("a timestamp lies between the years 1 and 9999") from None
    if not _DATE.fullmatch(value):
        raise evaluation_error(
            f"{value[:60]!r} is not a date or date-time (2010-03-01, 2010-03-01T12:00:00Z)"
        )
    normal = _FRACTION.sub(lambda found: found[1][:7].ljust(7, "0"), value.upper())
    try:
        instant = dt.datetime.fromisoformat(normal)
        return instant.replace(tzinfo=dt.UTC) if instant.tzinfo is None else instant.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        raise evaluation_error(f"{value[:60]!r} is not a date that exists") from None


@GLOBAL_FUNCTIONS.declare("duration")
def _duration(cost: CostTracker, value: str | dt.timedelta) -> dt.timedelta:
    cost.allocate(SCALAR_BYTES)
    if isinstance(value, dt.timedelta):
        return value
    cost.count_operations(10 + 2 * min(len(value), _MAX_DURATION_TEXT))
    if len(value) > _MAX_DURATION_TEXT or not _DURATION.fullmatch(value):
        raise evaluation_error(f"{value[:60]!r} is not a duration (90s, 1h30m, 7d)")
    # Rounded before it is cut to microseconds, as a double is a little off.
    total = sum(
        int(round(float(number) * _MICROSECONDS[unit], 3)) for number, unit in _DURATION_PART.findall(value)
    )
    if total > _MAX_DURATION_SECONDS * 10**6:
        raise evaluation_error(f"{value!r} is longer than a duration can be (10,000 years)")
    return dt.timedelta(microseconds=-total if value.startswith("-") else total)


def timestamp_text(instant: dt.datetime) -> str:
    """Return an instant in ISO 8601, in UTC; its fraction has no, three or six digits."""
    aware = instant if instant.tzinfo is not None else instant.replace(tzinfo=dt.UTC)
    digits = "milliseconds" if instant.microsecond and instant.microsecond % 1000 == 0 else "auto"
    return aware.astimezone(dt.UTC).isoformat(timespec=digits).replace("+00:00", "Z")


def duration_text(value: dt.timedelta) -> str:
    """Return a duration in seconds, such as `1.5s`."""
    whole, rest = divmod(abs(value) // dt.timedelta(microseconds=1), 1_000_000)
    fraction = f".{rest:06d}".rstrip("0") if rest else ""
    return f"{'-' if value < dt.timedelta() else ''}{whole}{fraction}s"


def _in_zone(cost: CostTracker, instant: dt.datetime, zone: str) -> dt.datetime:
    """Return an instant in a time zone: an offset such as `+02:00`, or a name of the IANA database."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    cost.count_operations(_ZONE_COST)
    try:
        if (offset := _OFFSET.fullmatch(zone)) is not None:
            minutes = int(offset[2]) * 60 + int(offset[3])
            signed = dt.timedelta(minutes=-minutes if offset[1] == "-" else minutes)
            return instant.astimezone(dt.timezone(signed))
        return instant.astimezone(ZoneInfo(zone if len(zone) <= _MAX_ZONE_NAME else "")) if zone else instant
    except OverflowError:
        raise evaluation_error(
            "a timestamp lies between the years 1 and 9999, in its time zone too"
        ) from None
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise evaluation_error(
            f'{zone[:_MAX_ZONE_NAME]!r} is not a time zone: write "Europe/Berlin" or "+02:00"'
        ) from None


def _declare_part(name: str, read: Callable[[dt.datetime], int]) -> None:
    def run(cost: CostTracker, instant: dt.datetime, zone: str = "") -> int:
        return read(_in_zone(cost, instant, zone) if zone else instant)

    METHODS.declare(name)(run)


_PARTS: Final[dict[str, Callable[[dt.datetime], int]]] = {
    "getFullYear": lambda instant: instant.year,
    "getMonth": lambda instant: instant.month - 1,
    "getDate": lambda instant: instant.day,
    "getDayOfMonth": lambda instant: instant.day - 1,
    "getDayOfWeek": lambda instant: instant.isoweekday() % 7,
    "getDayOfYear": lambda instant: instant.timetuple().tm_yday - 1,
    "getHours": lambda instant: instant.hour,
    "getMinutes": lambda instant: instant.minute,
    "getSeconds": lambda instant: instant.second,
    "getMilliseconds": lambda instant: instant.microsecond // 1000,
}
for _name, _read in _PARTS.items():
    _declare_part(_name, _read)


def _declare_measure(name: str, unit: dt.timedelta, of: dt.timedelta | None = None) -> None:
    """Declare how many whole units a duration has, cut towards zero; `of` leaves larger units out."""

    def run(_cost: CostTracker, value: dt.timedelta) -> int:
        size = abs(value) % of if of is not None else abs(value)
        return size // unit if value >= dt.timedelta() else -(size // unit)

    METHODS.declare(name)(run)


_declare_measure("getHours", dt.timedelta(hours=1))
_declare_measure("getMinutes", dt.timedelta(minutes=1))
_declare_measure("getSeconds", dt.timedelta(seconds=1))
_declare_measure("getMilliseconds", dt.timedelta(milliseconds=1), of=dt.timedelta(seconds=1))
