"""Conversions to numbers and truth values, `math.*`, timestamps and durations.

Numbers mix as they do in JSON: what takes a double takes an integer as well. Conversions are exact
or fail. Timestamps and durations have microseconds. A timestamp is kept in UTC; its parts can be
asked for in another time zone.
"""

# Annotations are not deferred: they are the signatures of expressions.

import datetime as dt
import math
import re
from collections.abc import Callable
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from wavewright.planner.cel.errors import CostTracker
from wavewright.planner.cel.functions import GLOBAL_FUNCTIONS, METHODS
from wavewright.planner.cel.functions.lists import Number
from wavewright.planner.cel.operators import INT_RANGE, as_number, evaluation_error

_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_DOUBLE = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|nan|inf|infinity)",
    re.IGNORECASE | re.ASCII,
)
_MAX_NUMBER_TEXT = 1000
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_TRUE: Final = frozenset({"1", "t", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "false", "FALSE", "False"})


@GLOBAL_FUNCTIONS.declare("int")
def _int(_cost: CostTracker, value: Number | bool | str | dt.datetime) -> int:  # noqa: FBT001
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, dt.datetime):
        return (value - _EPOCH) // dt.timedelta(seconds=1)
    if isinstance(value, str):
        text = value.strip() if len(value) <= _MAX_NUMBER_TEXT else ""
        if not _INTEGER.fullmatch(text):
            raise evaluation_error(f"int() reads whole decimal numbers, not {value[:60]!r}")
        value = int(text)
    low, high = INT_RANGE
    # As a double, the least integer stands for smaller numbers too.
    if not low <= value <= high or (isinstance(value, float) and value == float(low)):
        raise evaluation_error("a value is out of the range of int()")
    return int(value)


@GLOBAL_FUNCTIONS.declare("double")
def _double(cost: CostTracker, value: Number | str) -> float:
    if not isinstance(value, str):
        return float(as_number(value))
    text = value.strip() if len(value) <= _MAX_NUMBER_TEXT else ""
    cost.count_operations(len(text) // 48)
    if not _DOUBLE.fullmatch(text):
        raise evaluation_error(f"double() reads decimal numbers, not {value[:60]!r}")
    return float(text)


@GLOBAL_FUNCTIONS.declare("bool")
def _bool(_cost: CostTracker, value: bool | str) -> bool:  # noqa: FBT001
    if isinstance(value, bool):
        return value
    if value in _TRUE or value in _FALSE:
        return value in _TRUE
    raise evaluation_error(f'bool() reads "true" and "false", not {value[:60]!r}')


@GLOBAL_FUNCTIONS.declare("dyn")
def _dyn(_cost: CostTracker, value: object) -> object:
    return value


def _declare_rounding(name: str, compute: Callable[[float], int]) -> None:
    def run(_cost: CostTracker, value: Number) -> float:
        number = float(as_number(value))
        return math.copysign(compute(number), number) if math.isfinite(number) else number

    GLOBAL_FUNCTIONS.declare(f"math.{name}")(run)


def _round_half_away(value: float) -> int:
    fraction, whole = math.modf(value)
    return int(whole) + (fraction >= 0.5) - (fraction <= -0.5)


_declare_rounding("ceil", math.ceil)
_declare_rounding("floor", math.floor)
_declare_rounding("trunc", math.trunc)
_declare_rounding("round", _round_half_away)


@GLOBAL_FUNCTIONS.declare("math.sqrt")
def _sqrt(_cost: CostTracker, value: Number) -> float:
    number = float(as_number(value))
    return math.nan if number < 0 else math.sqrt(number)


@GLOBAL_FUNCTIONS.declare("math.abs", result="scalar")
def _abs(_cost: CostTracker, value: Number) -> Number:
    if value.__class__ is int and value == INT_RANGE[0]:
        raise evaluation_error("integer overflow")
    return abs(value)


@GLOBAL_FUNCTIONS.declare("math.sign", result="scalar")
def _sign(_cost: CostTracker, value: Number) -> Number:
    return value if value != value else value.__class__((value > 0) - (value < 0))  # noqa: PLR0124 - not a number


def _declare_test(name: str, compute: Callable[[float], bool]) -> None:
    def run(_cost: CostTracker, value: Number) -> bool:
        return compute(float(as_number(value)))

    GLOBAL_FUNCTIONS.declare(f"math.{name}")(run)


for _name, _test in {"isNaN": math.isnan, "isInf": math.isinf, "isFinite": math.isfinite}.items():
    _declare_test(_name, _test)


_DATE = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[Tt ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:[Zz]|[+-]\d{2}:?\d{2})?)?",
    re.ASCII,
)
_FRACTION = re.compile(r"(\.\d{1,9})")
_DURATION_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ms|us|µs|ns|[smhd])", re.ASCII)
_DURATION = re.compile(rf"[+-]?(?:(?:{_DURATION_PART.pattern})+|0)", re.ASCII)
_MAX_DURATION_TEXT = 60
_MAX_DURATION_SECONDS = 315_576_000_000
_MICROSECONDS: Final = {
    "ns": 0.001, "us": 1, "µs": 1, "ms": 1000, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6,
}  # fmt: skip
_OFFSET = re.compile(r"([+-]?)(\d{1,2}):(\d{2})", re.ASCII)
_MAX_ZONE_NAME = 60
_ZONE_COST = 300
"""Operations that it takes to find a time zone."""


@GLOBAL_FUNCTIONS.declare("timestamp")
def _timestamp(_cost: CostTracker, value: str | int | dt.datetime) -> dt.datetime:
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
        return (
            instant.replace(tzinfo=dt.UTC) if instant.tzinfo is None else instant.astimezone(dt.UTC)
        )
    except (ValueError, OverflowError):
        raise evaluation_error(f"{value[:60]!r} is not a date that exists") from None


_ISO_DURATION: Final = re.compile(
    r"(-?)P(?=[0-9T])(?:([0-9]+)D)?"
    r"(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]+)?)S)?)?"
)
"""Durations as ISO 8601 writes them: days, hours, minutes, seconds."""


@GLOBAL_FUNCTIONS.declare("duration")
def _duration(cost: CostTracker, value: str | dt.timedelta) -> dt.timedelta:
    if isinstance(value, dt.timedelta):
        return value
    cost.count_operations(10 + 2 * min(len(value), _MAX_DURATION_TEXT))
    if len(value) > _MAX_DURATION_TEXT:
        raise evaluation_error(f"{value[:60]!r} is not a duration (90s, 1h30m, 7d)")
    text = _go_duration(value)
    if not _DURATION.fullmatch(text):
        raise evaluation_error(f"{value[:60]!r} is not a duration (90s, 1h30m, 7d)")
    # Rounded before it is cut to microseconds, as a double is a little off.
    total = sum(
        int(round(float(number) * _MICROSECONDS[unit], 3))
        for number, unit in _DURATION_PART.findall(text)
    )
    if total > _MAX_DURATION_SECONDS * 10**6:
        raise evaluation_error(f"{value!r} is longer than a duration can be (10,000 years)")
    return dt.timedelta(microseconds=-total if text.startswith("-") else total)


def _go_duration(text: str) -> str:
    """Return an ISO 8601 duration, which is what a tool gives for a `timedelta`, as `1d2h3m4s`.

    Any other text is returned as it is.
    """
    iso = _ISO_DURATION.fullmatch(text)
    if iso is None:
        return text
    sign, *numbers = iso.groups()
    parts = [f"{number}{unit}" for number, unit in zip(numbers, "dhms", strict=True) if number]
    return f"{sign}{''.join(parts)}"


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
    cost.count_operations(_ZONE_COST)
    try:
        if (offset := _OFFSET.fullmatch(zone)) is not None:
            minutes = int(offset[2]) * 60 + int(offset[3])
            signed = dt.timedelta(minutes=-minutes if offset[1] == "-" else minutes)
            return instant.astimezone(dt.timezone(signed))
        if zone:
            return instant.astimezone(ZoneInfo(zone if len(zone) <= _MAX_ZONE_NAME else ""))
        return instant
    except OverflowError:
        raise evaluation_error(
            "a timestamp lies between the years 1 and 9999, in its time zone too"
        ) from None
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise evaluation_error(
            f'{zone[:_MAX_ZONE_NAME]!r} is not a time zone: write "Europe/Berlin" or "+02:00"'
        ) from None


_FULL_DAYS: Final = (
    "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday",
)  # fmt: skip
_FULL_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_DIRECTIVES: Final[dict[str, Callable[[dt.datetime], str]]] = {
    "Y": lambda instant: f"{instant.year:04d}",
    "y": lambda instant: f"{instant.year % 100:02d}",
    "m": lambda instant: f"{instant.month:02d}",
    "d": lambda instant: f"{instant.day:02d}",
    "e": lambda instant: str(instant.day),
    "j": lambda instant: f"{instant.timetuple().tm_yday:03d}",
    "H": lambda instant: f"{instant.hour:02d}",
    "I": lambda instant: f"{(instant.hour - 1) % 12 + 1:02d}",
    "p": lambda instant: "AM" if instant.hour < 12 else "PM",
    "M": lambda instant: f"{instant.minute:02d}",
    "S": lambda instant: f"{instant.second:02d}",
    "f": lambda instant: f"{instant.microsecond:06d}",
    "A": lambda instant: _FULL_DAYS[instant.weekday()],
    "a": lambda instant: _FULL_DAYS[instant.weekday()][:3],
    "B": lambda instant: _FULL_MONTHS[instant.month - 1],
    "b": lambda instant: _FULL_MONTHS[instant.month - 1][:3],
    "u": lambda instant: str(instant.isoweekday()),
    "V": lambda instant: f"{instant.isocalendar().week:02d}",
    "G": lambda instant: f"{instant.isocalendar().year:04d}",
    "z": lambda instant: instant.strftime("%z"),
    "F": lambda instant: instant.date().isoformat(),
    "T": lambda instant: instant.time().isoformat("seconds"),
    "%": lambda _instant: "%",
}
"""Directives of `strftime`, in English whatever the machine's language is."""
_DIRECTIVE: Final = re.compile(r"%(.?)", re.DOTALL)
_MAX_TIME_FORMAT: Final = 1_000


@GLOBAL_FUNCTIONS.declare("format")
def _format_instant(
    cost: CostTracker, instant: dt.datetime | str, text: str, zone: str = ""
) -> str:
    if isinstance(instant, str):
        instant = _timestamp(cost, instant)
    if len(text) > _MAX_TIME_FORMAT:
        raise evaluation_error(f"format() of a timestamp takes {_MAX_TIME_FORMAT:,} characters")
    for match in _DIRECTIVE.finditer(text):
        if match[1] not in _DIRECTIVES:
            known = " ".join(f"%{letter}" for letter in _DIRECTIVES)
            raise evaluation_error(f"format() of a timestamp has no '{match[0]}': {known}")
    cost.count_text(10 * len(text))
    local = _in_zone(cost, instant, zone) if zone else instant
    return _DIRECTIVE.sub(lambda match: _DIRECTIVES[match[1]](local), text)


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
