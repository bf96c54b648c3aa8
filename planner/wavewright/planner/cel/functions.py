"""Functions that our expressions have on top of CEL's own.

Dates may be written plainly, `/` always divides as numbers (JSON does not tell 3 from 3.0, so neither does a
quotient), integers and doubles mix, and lists can be summed up. `FUNCTIONS` is the list that the docs print.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from wavewright.config.errors import WavewrightError
from wavewright.config.value_types import parse_duration
from wavewright.planner.cel.errors import ExpressionError, closest_name_hint
from wavewright.planner.cel.operators import Uint
from wavewright.planner.cel.syntax import FunctionCall
from wavewright.planner.types import Json

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

MIN_MAX_FUNCTIONS: Final = {"math.greatest": "max", "math.least": "min", "max": "max", "min": "min"}
"""Functions of one list or of several values; CEL's own take neither strings nor what is no literal list."""
LENGTH_ALIASES: Final = frozenset({"length", "len", "count"})
"""What other languages call size()."""
_FOREIGN_FUNCTIONS: Final = {
    **dict.fromkeys(LENGTH_ALIASES, "write x.size()"),
    "upper": "write s.upperAscii()", "toUpperCase": "write s.upperAscii()",
    "lower": "write s.lowerAscii()", "toLowerCase": "write s.lowerAscii()",
    "str": "write string(x)", "toString": "write string(x)", "float": "write double(x)",
    "includes": "write s.contains(t), or x in list", "strip": "write s.trim()",
    "round": "write math.round(x)", "abs": "write math.abs(x)", "unique": "write list.distinct()",
    "first": "write list[0]", "last": "write list[list.size() - 1]",
    "default": "write has(steps.x.field) ? steps.x.field : other",
}  # fmt: skip
"""What functions, methods and filters of other languages are here."""
MAX_RANGE_LENGTH: Final = 10_000
"""Numbers that lists.range() gives at most."""

_MAX_DURATION_TEXT = 60
_NUMBERS = frozenset({int, float, Uint})
_DATE = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[Tt ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:[Zz]|[+-]\d{2}:?\d{2})?)?", re.ASCII
)
_FRACTION = re.compile(r"(\.\d{1,9})")


class FunctionArgumentError(WavewrightError, ValueError):
    """A function got a value that it cannot take; the text is for the author."""


def read_timestamp(text: str) -> dt.datetime:
    """Return the instant that a date or date-time in ISO 8601 names."""
    if not _DATE.fullmatch(text):
        msg = f"{text[:60]!r} is no date or date-time (2010-03-01, 2010-03-01T12:00:00Z)"
        raise FunctionArgumentError(msg)
    normal = _FRACTION.sub(lambda found: found[1][:7].ljust(7, "0"), text.upper())
    try:
        instant = dt.datetime.fromisoformat(normal)
        return instant.replace(tzinfo=dt.UTC) if instant.tzinfo is None else instant.astimezone(dt.UTC)
    except (ValueError, OverflowError) as error:
        msg = f"{text[:60]!r} is no date that exists"
        raise FunctionArgumentError(msg) from error


def read_duration(text: str) -> dt.timedelta:
    """Return the duration that text with units names, such as `1h30m` or `-7d`."""
    if len(text) > _MAX_DURATION_TEXT:
        text = text[:_MAX_DURATION_TEXT] + "…"
    sign, bare = (-1, text[1:]) if text.startswith("-") else (1, text)
    try:
        seconds = parse_duration(bare)
        assert isinstance(seconds, float | int)
        return dt.timedelta(seconds=sign * float(seconds))
    except (ValueError, OverflowError) as error:
        msg = f"{text[:60]!r} is no duration (90s, 1h30m, 7d)"
        raise FunctionArgumentError(msg) from error


def sum_numbers(values: list[Any]) -> int | float:
    """Return the sum of numbers; an integer where all of them are."""
    if _check_numbers("sum", values, _NUMBERS) <= {int}:
        return _check_sum_range(sum(values))
    return math.fsum(values)


def mean(values: list[Any]) -> float:
    """Return the arithmetic mean of numbers."""
    _check_numbers("avg", values, _NUMBERS)
    if not values:
        msg = "avg() of an empty list"
        raise FunctionArgumentError(msg)
    return math.fsum(values) / len(values)


def smallest(values: list[Any]) -> int | float | str:
    """Return the smallest of numbers or strings."""
    _check_orderable("min", values)
    return cast("int | float | str", min(values))


def largest(values: list[Any]) -> int | float | str:
    """Return the largest of numbers or strings."""
    _check_orderable("max", values)
    return cast("int | float | str", max(values))


def sorted_keys(value: Mapping[Any, Json]) -> list[Json]:
    """Return an object's keys in a fixed order."""
    if all(isinstance(key, str) for key in value):
        return list[Json](sorted(value))
    return list[Json](sorted(value, key=lambda key: (key.__class__.__name__, key)))


def number_range(count: int) -> list[int]:
    """Return the integers from 0 up to, and without, a count."""
    if not 0 <= count <= MAX_RANGE_LENGTH:
        msg = f"lists.range() gives up to {MAX_RANGE_LENGTH:,} numbers, not {count}"
        raise FunctionArgumentError(msg)
    return list(range(count))


def sort_by_keys(keys: Sequence[object], values: Sequence[Json]) -> list[Json]:
    """Return values in the rising order of their keys; CEL's own sort does not mix integers and doubles."""
    for kinds in ((int, float), (str,), (dt.datetime,), (dt.timedelta,), (bool,)):
        if all(isinstance(key, kinds) and (kinds == (bool,) or not isinstance(key, bool)) for key in keys):
            places = sorted(range(len(values)), key=lambda place: cast("float", keys[place]))
            return [values[place] for place in places]
    msg = "only numbers, or only strings, or only timestamps can be brought in order"
    raise FunctionArgumentError(msg)


def _check_numbers(function: str, values: list[Any], wanted: frozenset[type]) -> set[type]:
    kinds = set(map(type, values))
    if not kinds <= wanted:
        msg = f"{function}() takes numbers only"
        raise FunctionArgumentError(msg)
    return kinds


def _check_orderable(function: str, values: list[Any]) -> None:
    if not values:
        msg = f"{function}() of an empty list"
        raise FunctionArgumentError(msg)
    kinds = set(map(type, values))
    if str in kinds and kinds != {str}:
        msg = f"{function}() takes numbers or strings, not both"
        raise FunctionArgumentError(msg)
    if str not in kinds:
        _check_numbers(function, values, _NUMBERS)


def _check_sum_range(number: int) -> int:
    if not -(2**63) <= number < 2**63:
        msg = "the sum is too large for an integer"
        raise FunctionArgumentError(msg)
    return number


def filter_hint(name: str) -> str | None:
    """Return what is written in place of a filter of a template language, such as `| length`."""
    written = _FOREIGN_FUNCTIONS.get(name, f"write x.{name}(…)" if name in METHODS else None)
    return None if written is None else f"there are no filters: {written}"


def check_function_exists(call: FunctionCall) -> None:
    """Refuse a call of a function or method that does not exist.

    Raises:
        ExpressionFault: it does not exist.
    """
    known = GLOBAL_FUNCTIONS if call.target is None else METHODS
    if call.function in known:
        return
    word = "function" if call.target is None else "method"
    hint = _FOREIGN_FUNCTIONS.get(call.function) or closest_name_hint(call.function, known)
    if call.target is None and call.function in METHODS:
        hint = f"it is a method: value.{call.function}(…)"
    elif call.target is not None and call.function in GLOBAL_FUNCTIONS:
        hint = f"it is a function: {call.function}(value)"
    raise ExpressionError(
        "unknown_name_or_field", f"there is no {word} '{call.function}'", call.name_start, hint
    )
