"""Ask the CEL library for what it does best: conversions, rounding, regular expressions, `format` and calendars.

A *leaf* is one function over values that are there already. The library copies its arguments and cannot be stopped,
so they are small, and their cost is counted before it is asked.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, cast

from wavewright.planner.cel import library as cel_library
from wavewright.planner.cel.errors import CostTracker, ExpressionError, too_large_error
from wavewright.planner.cel.operators import INT_RANGE, TypeValue, Uint, as_number, no_overload_error

MAX_ARGUMENT_LENGTH: Final = 2**20
"""Characters that the library is given at most."""
MAX_ARGUMENT_PARTS: Final = 4096
"""Elements and fields, on all levels, that the library is given at most."""
ROUNDING: Final = frozenset(
    {"math.ceil", "math.floor", "math.round", "math.trunc", "math.isNaN", "math.isInf", "math.isFinite"}
)
"""Functions that CEL has for doubles only; a JSON number may have come as an integer."""

_MAX_MESSAGE_LENGTH = 400
_NO_UNICODE = ExpressionError("evaluation_failed", "a value holds text that is no Unicode")
_CALL = 16
"""Operations of one call."""
_REPEATED = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_CLASS = 8
"""Operations that it takes to compile a class of a regular expression."""
_WIDE_CLASS = 4000
"""The same for a class of Unicode, such as `\\pL`."""
_MAX_REPEATS = 1000
"""Repetitions, in repetitions too, that RE2 takes."""


def call_library(function: str, meter: CostTracker, values: tuple[object, ...], *, is_method: bool) -> object:
    """Return what a function of the library gives.

    Raises:
        ExpressionFault: it does not take these values, or they are too large for it.
    """
    before = meter.memory
    shown = function if is_method else f"{function}()"
    _charge(function, meter, values)
    bound: dict[str, object] = {}
    try:
        written = [_to_cel_text(value, bound) for value in values]
    except _UnsupportedValueError:
        raise no_overload_error(shown, values, is_method=is_method) from None
    if is_method:
        text = f"{written[0]}.{function}({', '.join(written[1:])})"
    elif function in ROUNDING:
        text = f"{function}(double({', '.join(written)}))"
    else:
        text = f"{function}({', '.join(written)})"
    try:
        value = evaluate_in_library(text, bound)
    except RuntimeError as failure:
        message = str(failure)
        if "No matching overloads" in message:
            raise no_overload_error(shown, values, is_method=is_method) from None
        raise _library_error(message) from None
    except (ValueError, TypeError):
        # The library's binding answers so to text that is no Unicode, such as half a surrogate pair.
        raise _NO_UNICODE from None
    meter.release_temporaries(value, before)
    return value


def evaluate_in_library(text: str, bound: Mapping[str, object]) -> object:
    """Return what the library makes of text over plain values.

    Raises:
        RuntimeError: the text has no value for these.
        TypeError, ValueError: one of these is no value that the library can hold.
    """
    result = _compile(text).eval(data=bound)
    kinds, kind, value = cel_library.load_library().Type, result.type(), result.plain_value()
    if kind == kinds.ERROR:
        raise RuntimeError(str(value))
    if kind == kinds.UINT:
        return Uint(cast("int", value))
    return bytes(value) if isinstance(value, bytearray) else value


def _library_error(message: str) -> ExpressionError:
    """Return a message of the library in our words."""
    if "basic_string" in message:
        return _NO_UNICODE
    plain = re.sub(r"^[A-Z_]+: ", "", re.sub(r" \[[A-Z_]+\]$", "", message))
    return ExpressionError("evaluation_failed", plain[:_MAX_MESSAGE_LENGTH])


@lru_cache(maxsize=1024)
def _compile(text: str) -> cel_library.LibraryProgram:
    return cel_library.dynamic_environment().compile(text, disable_check=True)


class _UnsupportedValueError(Exception):
    """The library cannot be given a value."""


def _to_cel_text(value: object, bound: dict[str, object]) -> str:
    """Return a value as text, with what the text is bound to."""
    name = f"v{len(bound)}"
    match value:
        case TypeValue():
            raise _UnsupportedValueError
        case dt.datetime():
            bound[name] = timestamp_text(value)
            return f"timestamp({name})"
        case dt.timedelta():
            bound[name] = duration_text(value)
            return f"duration({name})"
        case Uint():
            bound[name] = str(value)
            return f"uint({name})"
        case list() if _holds_special(cast("list[object]", value)):
            return f"[{', '.join([_to_cel_text(item, bound) for item in cast('list[object]', value)])}]"
        case dict() if _holds_special(cast("dict[object, object]", value)):
            fields = cast("dict[object, object]", value)
            entries = [
                f"{_to_cel_text(key, bound)}: {_to_cel_text(item, bound)}" for key, item in fields.items()
            ]
            return f"{{{', '.join(entries)}}}"
        case _:
            bound[name] = _plain(value)
            return name


def _holds_special(value: object) -> bool:
    """Return whether a value holds what the library can be given in no list and no object."""
    if isinstance(value, list):
        return any(map(_holds_special, cast("list[object]", value)))
    if isinstance(value, dict):
        return any(map(_holds_special, cast("dict[object, object]", value).values()))
    return isinstance(value, dt.datetime | dt.timedelta | Uint | TypeValue)


def _plain(value: object) -> object:
    """Return a value with integers beyond 64 bits as numbers, which is all that the library can hold."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in cast("dict[object, object]", value).items()}
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[object]", value)]
    if isinstance(value, int) and not INT_RANGE[0] <= value <= INT_RANGE[1]:
        return float(as_number(value))
    return value


def _charge(function: str, meter: CostTracker, values: tuple[object, ...]) -> None:
    parts, characters = _measure(values, MAX_ARGUMENT_PARTS, MAX_ARGUMENT_LENGTH)
    if parts < 0 or characters < 0:
        raise too_large_error(
            f"{function}() takes up to {MAX_ARGUMENT_LENGTH:,} characters and {MAX_ARGUMENT_PARTS:,} elements at once"
        )
    parts, characters = MAX_ARGUMENT_PARTS - parts, MAX_ARGUMENT_LENGTH - characters
    meter.count_operations(_CALL + 4 * parts)
    meter.count_operations(_CALL * sum(isinstance(value, dt.datetime | dt.timedelta) for value in values))
    meter.allocate(8 * characters + 256 * parts)
    if function == "format":
        meter.allocate(1200 * parts)  # what the widest number takes
    elif function == "matches" and isinstance(values[-1], str):
        _charge_pattern(values[-1], characters, meter)


def _charge_pattern(pattern: str, characters: int, meter: CostTracker) -> None:
    """Count that a regular expression is compiled, and how it goes over so many characters at worst."""
    repeats = 1
    for found in _REPEATED.finditer(pattern):
        most = (found[2] or found[1])[:4]
        repeats = min(repeats * max(int(most), 1), _MAX_REPEATS)
    classes = sum(map(pattern.count, (".", "[", "\\")))
    wide = pattern.count("\\p") + pattern.count("\\P")
    meter.count_operations((len(pattern) + _CLASS * classes + _WIDE_CLASS * wide) * repeats)
    meter.count_operations(characters * len(pattern) * repeats // 300)


def _measure(value: object, parts: int, characters: int) -> tuple[int, int]:
    """Return how many parts and characters are left when a value's are taken; less than none ends the count."""
    parts -= 1
    if isinstance(value, str | bytes):
        return parts, characters - len(value)
    inner: tuple[object, ...] = ()
    if isinstance(value, list | tuple | Mapping):
        held = cast("list[object] | Mapping[object, object]", value)
        if len(held) > parts:
            return -1, characters
        inner = (*held, *held.values()) if isinstance(held, Mapping) else tuple(held)
    for item in inner:
        parts, characters = _measure(item, parts, characters)
        if parts < 0 or characters < 0:
            break
    return parts, characters


def timestamp_text(instant: dt.datetime) -> str:
    """Return an instant in ISO 8601, in UTC."""
    aware = instant if instant.tzinfo is not None else instant.replace(tzinfo=dt.UTC)
    return aware.astimezone(dt.UTC).isoformat().replace("+00:00", "Z")


def duration_text(value: dt.timedelta) -> str:
    """Return a duration in seconds, such as `1.5s`."""
    whole, rest = divmod(value // dt.timedelta(microseconds=1), 1_000_000)
    if rest == 0:
        return f"{whole}s"
    if whole < 0:
        whole, rest = whole + 1, 1_000_000 - rest
        return f"{'-' if whole == 0 else ''}{whole}.{rest:06d}".rstrip("0") + "s"
    return f"{whole}.{rest:06d}".rstrip("0") + "s"
