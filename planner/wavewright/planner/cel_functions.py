"""Functions that our expressions have on top of CEL's own.

Dates may be written plainly, `/` always divides as numbers (JSON does not tell 3 from 3.0, so neither does a
quotient), integers and doubles mix, and lists can be summed up. `FUNCTIONS` is the list that the docs print.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from wavewright.planner.types import Json, parse_duration

FUNCTIONS: Final[dict[str, str]] = {
    "now()": "the instant of the run, a timestamp",
    "has(steps.x)": "whether a field, and everything on the way to it, is there",
    'timestamp("2010-03-01")': "a date or date-time (ISO 8601) as timestamp; UTC where no zone is given",
    'duration("7d")': 'a duration; units ms, s, m, h, d: duration("1h30m")',
    "size(x), x.size()": "length of a string, list or object",
    "x in list": "membership; for an object, whether it has the key",
    "list.all(x, c), list.exists(x, c), list.exists_one(x, c)": "whether c holds for all, some, exactly one",
    "list.filter(x, c), list.map(x, e), list.map(x, c, e)": "a list of what passes, or of what e makes of it",
    "list.sort(), list.sortBy(x, e), list.reverse()": "the same elements in another order",
    "list.distinct(), list.flatten(), list.slice(from, to)": "parts of lists",
    "sum(list), avg(list)": "of numbers; also as methods: list.sum()",
    "min(list), max(list), min(a, b), max(a, b)": "of numbers or of strings; also as methods: list.max()",
    "lists.range(n)": "[0, 1, …, n-1]",
    "math.abs(x), math.round(x), math.floor(x), math.ceil(x), math.trunc(x), math.sqrt(x), math.sign(x)": "of a number",
    "math.greatest(a, b), math.least(a, b)": "other names of max and min",
    "math.isNaN(x), math.isInf(x), math.isFinite(x)": "of a number",
    "sets.contains(a, b), sets.equivalent(a, b), sets.intersects(a, b)": "lists taken as sets",
    "s.contains(t), s.startsWith(t), s.endsWith(t), s.matches(re)": "questions about a string (RE2 syntax)",
    "s.split(t), list.join(t), s.replace(a, b), s.substring(from, to), s.trim()": "parts of strings",
    "s.lowerAscii(), s.upperAscii(), s.reverse(), s.charAt(i), s.indexOf(t), s.lastIndexOf(t)": "of a string",
    "s.format([a, b]), strings.quote(s)": "%s, %d, %.2f … filled in; a quoted string",
    "string(x), int(x), double(x), bool(x), type(x), dyn(x)": "conversion; int() cuts the fraction off",
    "t.getFullYear(), t.getMonth(), t.getDate(), t.getDayOfWeek(), t.getHours() …": "parts of a timestamp",
}
"""What expressions can call, with one line each."""

GLOBAL_FUNCTIONS: Final = frozenset(
    {
        "size", "string", "int", "uint", "double", "bool", "bytes", "type", "dyn", "timestamp", "duration",
        "now", "matches", "sum", "avg", "min", "max",
        "lists.range",
        "math.greatest", "math.least", "math.ceil", "math.floor", "math.round", "math.trunc", "math.abs",
        "math.sign", "math.sqrt", "math.isNaN", "math.isInf", "math.isFinite",
        "math.bitOr", "math.bitAnd", "math.bitXor", "math.bitNot", "math.bitShiftLeft", "math.bitShiftRight",
        "sets.contains", "sets.equivalent", "sets.intersects", "strings.quote",
    }
)  # fmt: skip
METHODS: Final = frozenset(
    {
        "size", "contains", "startsWith", "endsWith", "matches",
        "charAt", "indexOf", "lastIndexOf", "join", "lowerAscii", "upperAscii", "replace", "split",
        "substring", "trim", "reverse", "format",
        "distinct", "flatten", "slice", "sort", "sum", "avg", "min", "max",
        "getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getHours",
        "getMinutes", "getSeconds", "getMilliseconds",
    }
)  # fmt: skip

LONGEST_TEXT: Final = 2**22
"""Characters that replace() and join() may make; the library's own know no bound."""
CHARACTERS_A_PART: Final = 16
HEAVIEST_ELEMENT: Final = 2**14
"""Parts of one element that a macro made and another goes over."""
LONGEST_RANGE: Final = 10_000
"""As many as a macro of the library goes over."""

_DATE = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[Tt ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:[Zz]|[+-]\d{2}:?\d{2})?)?", re.ASCII
)
_FRACTION = re.compile(r"(\.\d{1,9})")


class Refused(ValueError):
    """A function got a value that it cannot take; the text is for the author."""


def read_timestamp(text: str) -> dt.datetime:
    """Return the instant that a date or date-time in ISO 8601 names."""
    if not _DATE.fullmatch(text):
        msg = f"{text[:60]!r} is no date or date-time (2010-03-01, 2010-03-01T12:00:00Z)"
        raise Refused(msg)
    normal = _FRACTION.sub(lambda found: found[1][:7].ljust(7, "0"), text.upper())
    try:
        instant = dt.datetime.fromisoformat(normal)
        return instant.replace(tzinfo=dt.UTC) if instant.tzinfo is None else instant.astimezone(dt.UTC)
    except (ValueError, OverflowError) as error:
        msg = f"{text[:60]!r} is no date that exists"
        raise Refused(msg) from error


def read_duration(text: str) -> dt.timedelta:
    """Return the duration that text with units names, such as `1h30m` or `-7d`."""
    sign, bare = (-1, text[1:]) if text.startswith("-") else (1, text)
    try:
        seconds = parse_duration(bare)
        assert isinstance(seconds, float | int)
        return dt.timedelta(seconds=sign * float(seconds))
    except (ValueError, OverflowError) as error:
        msg = f"{text[:60]!r} is no duration (90s, 1h30m, 7d)"
        raise Refused(msg) from error


def divide(left: float, right: float) -> float:
    """Return the quotient as a number."""
    if right == 0:
        msg = "division by zero"
        raise Refused(msg)
    try:
        return left / right
    except OverflowError as error:
        msg = "the quotient is too large"
        raise Refused(msg) from error


def remainder(left: float, right: float) -> int:
    """Return the remainder of whole numbers, with the sign of the first as in CEL."""
    if not (float(left).is_integer() and float(right).is_integer()):
        msg = "'%' takes whole numbers"
        raise Refused(msg)
    if right == 0:
        msg = "division by zero"
        raise Refused(msg)
    return int(math.fmod(left, right))


def add(left: float, right: float) -> float:
    """Return the sum of an integer and a double."""
    return float(left) + float(right)


def subtract(left: float, right: float) -> float:
    """Return the difference of an integer and a double."""
    return float(left) - float(right)


def multiply(left: float, right: float) -> float:
    """Return the product of an integer and a double."""
    return float(left) * float(right)


def total(values: list[Json]) -> int | float:
    """Return the sum of numbers; an integer where all of them are."""
    numbers = _numbers("sum", values)
    integers = [number for number in numbers if isinstance(number, int)]
    if len(integers) == len(numbers):
        return _in_range(sum(integers))
    return math.fsum(numbers)


def mean(values: list[Json]) -> float:
    """Return the arithmetic mean of numbers."""
    numbers = _numbers("avg", values)
    if not numbers:
        msg = "avg() of an empty list"
        raise Refused(msg)
    return math.fsum(numbers) / len(numbers)


def least(values: list[Json]) -> int | float | str:
    """Return the smallest of numbers or strings."""
    texts, numbers = _ordered("min", values)
    return min(texts) if texts else min(numbers)


def greatest(values: list[Json]) -> int | float | str:
    """Return the largest of numbers or strings."""
    texts, numbers = _ordered("max", values)
    return max(texts) if texts else max(numbers)


def sorted_keys(value: Mapping[str, Json]) -> list[Json]:
    """Return an object's keys in a fixed order; the library's own changes from run to run."""
    return list[Json](sorted(value))


def check_weight(value: object, most: int) -> None:
    """Refuse a value of too many parts; so many characters count as one.

    A macro over what a macro made can multiply text without end in a few hundred characters; turns of loops are
    counted elsewhere, and do not tell what they make.
    """
    if _weight_left(value, most) < 0:
        msg = "the expression makes too much out of its values: it repeats what it has repeated"
        raise Refused(msg)


def _weight_left(value: object, left: int) -> int:
    if isinstance(value, str | bytes | bytearray):
        return left - len(value) // CHARACTERS_A_PART - 1
    left -= 1
    parts: Iterable[object] = ()
    if isinstance(value, list):
        parts = cast("list[object]", value)
    elif isinstance(value, dict):
        parts = cast("dict[object, object]", value).values()
    for part in parts:
        if left < 0:
            break
        left = _weight_left(part, left)
    return left


def replace(text: str, old: str, new: str, limit: int = -1) -> str:
    """Return a text with an old part replaced, at most `limit` times where that is not negative."""
    found = text.count(old) if limit < 0 else min(limit, text.count(old))
    _check_length(len(text) + found * (len(new) - len(old)))
    return text.replace(old, new, limit)


def join(values: list[Json], separator: str = "") -> str:
    """Return strings as one, with a separator between them."""
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) != len(values):
        msg = "join() takes strings only: list.map(x, string(x)).join()"
        raise Refused(msg)
    _check_length(sum(len(text) for text in texts) + len(separator) * len(texts))
    return separator.join(texts)


def _check_length(length: int) -> None:
    if length > LONGEST_TEXT:
        msg = f"the expression makes a text of more than {LONGEST_TEXT:,} characters"
        raise Refused(msg)


def count_up(count: int) -> list[int]:
    """Return the integers from 0 up to, and without, a count."""
    if not 0 <= count <= LONGEST_RANGE:
        msg = f"lists.range() gives up to {LONGEST_RANGE:,} numbers, not {count}"
        raise Refused(msg)
    return list(range(count))


def in_order_of(keys: Sequence[object], values: Sequence[Json]) -> list[Json]:
    """Return values in the rising order of their keys; CEL's own sort does not mix integers and doubles."""
    for kinds in ((int, float), (str,), (dt.datetime,), (dt.timedelta,), (bool,)):
        if all(isinstance(key, kinds) and (kinds == (bool,) or not isinstance(key, bool)) for key in keys):
            places = sorted(range(len(values)), key=lambda place: cast("float", keys[place]))
            return [values[place] for place in places]
    msg = "only numbers, or only strings, or only timestamps can be brought in order"
    raise Refused(msg)


def contains(container: object, member: object) -> bool | None:
    """Answer `member in container`, or None where the container is neither list nor object."""
    if isinstance(container, list):
        return any(are_equal(member, held) for held in cast("list[object]", container))
    if isinstance(container, Mapping):
        return isinstance(member, str) and member in container
    return None


def are_equal(one: object, other: object) -> bool:
    """Return whether values are equal as CEL has it: numbers by value, and nothing else across kinds."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        left, right = cast("list[object]", one), cast("list[object]", other)
        return len(left) == len(right) and all(map(are_equal, left, right))
    if isinstance(one, dict) and isinstance(other, dict):
        fields, others = cast("dict[str, object]", one), cast("dict[str, object]", other)
        return fields.keys() == others.keys() and all(are_equal(fields[key], others[key]) for key in fields)
    return one == other


def _numbers(function: str, values: list[Json]) -> list[int | float]:
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) != len(values):
        msg = f"{function}() takes numbers only"
        raise Refused(msg)
    return numbers


def _ordered(function: str, values: list[Json]) -> tuple[list[str], list[int | float]]:
    if not values:
        msg = f"{function}() of an empty list"
        raise Refused(msg)
    texts = [value for value in values if isinstance(value, str)]
    if texts and len(texts) != len(values):
        msg = f"{function}() takes numbers or strings, not both"
        raise Refused(msg)
    return texts, [] if texts else _numbers(function, values)


def _in_range(number: int) -> int:
    if not -(2**63) <= number < 2**63:
        msg = "the sum is too large for an integer"
        raise Refused(msg)
    return number
