"""Call the functions of expressions.

A *function* is one of ours, chosen by the classes of its arguments and counted by the meter before it makes
anything, or one of the CEL library's. The library is only asked for what makes a scalar or a short text, and only
with arguments that are small: it copies what it is given and cannot be stopped.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

from wavewright.planner.cel.errors import SCALAR_BYTES, CostTracker
from wavewright.planner.cel.functions import (
    MAX_RANGE_LENGTH,
    largest,
    mean,
    number_range,
    read_duration,
    read_timestamp,
    smallest,
    sum_numbers,
)
from wavewright.planner.cel.operators import TypeValue, Uint, class_of, equality_key, evaluation_error

Function: TypeAlias = Callable[..., object]
"""Gives what a function makes of a meter and its arguments."""
Overloads: TypeAlias = Mapping[tuple[type, ...], Function]
"""Functions of one name, by the classes of their arguments."""

_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_ELEMENT_BYTES = 64
"""Bytes of a short text in a list."""


def _size(_meter: CostTracker, value: str | bytes | list[object] | dict[object, object]) -> int:
    return len(value)


def _on_texts(compute: Callable[[str, str], bool]) -> Function:
    def run(meter: CostTracker, text: str, part: str) -> bool:
        meter.count_search(text, part)
        return compute(text, part)

    return run


def _index(meter: CostTracker, text: str, part: str, start: int = 0) -> int:
    _check_text_index(text, start)
    meter.count_search(text, part)
    return text.find(part, start)


def _last_index(meter: CostTracker, text: str, part: str, start: int | None = None) -> int:
    meter.count_operations(len(text) * len(part) // 1024)  # Python searches in linear time from the left only
    if start is None:
        return text.rfind(part)
    _check_text_index(text, start)
    return text.rfind(part, 0, start + len(part))


def _check_text_index(text: str, place: int) -> None:
    if not 0 <= place <= len(text):
        raise evaluation_error(f"there is no place {place} in a text of {len(text)} characters")


def _char_at(meter: CostTracker, text: str, place: int) -> str:
    _check_text_index(text, place)
    meter.allocate_text(1, text[place : place + 1])
    return text[place : place + 1]


def _substring(meter: CostTracker, text: str, start: int, end: int | None = None) -> str:
    _check_text_index(text, start)
    end = len(text) if end is None else end
    _check_text_index(text, end)
    if end < start:
        raise evaluation_error(f"substring() ends at {end}, before it starts at {start}")
    meter.allocate_text(end - start, text)
    return text[start:end]


def _split(meter: CostTracker, text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    meter.count_search(text, separator)
    found = len(text) - 1 if not separator else text.count(separator)
    cuts = max(found if limit < 0 else min(limit - 1, found), 0)
    meter.count_operations(cuts)
    meter.allocate((cuts + 1) * _ELEMENT_BYTES)
    meter.allocate_text(len(text), text)
    if separator:
        return text.split(separator, cuts)
    return [*text[:cuts], text[cuts:]]


def _replace(meter: CostTracker, text: str, old: str, new: str, limit: int = -1) -> str:
    meter.count_search(text, old)
    found = text.count(old) if limit < 0 else min(limit, text.count(old))
    meter.allocate_text(max(len(text), len(text) + found * (len(new) - len(old))), text, new)
    meter.count_operations(found // 8)
    return text.replace(old, new, limit)


def _join(meter: CostTracker, values: list[object], separator: str = "") -> str:
    meter.count_operations(len(values) // 4)
    meter.allocate_list(len(values))
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) != len(values):
        raise evaluation_error("join() takes strings only: list.map(x, string(x)).join()")
    meter.allocate_text(sum(map(len, texts)) + len(separator) * len(texts), separator, *texts)
    return separator.join(texts)


def _trim(meter: CostTracker, text: str) -> str:
    meter.allocate_text(len(text), text)
    trimmed = text.strip(_SPACE)
    meter.count_operations((len(text) - len(trimmed)) // 50)
    return trimmed


def _translated(table: dict[int, int]) -> Function:
    def run(meter: CostTracker, text: str) -> str:
        meter.allocate_text(len(text), text)
        if not text.isascii():
            meter.count_operations(len(text) // 4)
        return text.translate(table)

    return run


def _reverse(meter: CostTracker, value: str | list[object]) -> object:
    if isinstance(value, str):
        meter.allocate_text(len(value), value)
    else:
        meter.allocate_list(len(value))
    return value[::-1]


def _distinct(meter: CostTracker, values: list[object]) -> list[object]:
    meter.allocate_list(2 * len(values))
    return list({equality_key(value, meter): value for value in reversed(values)}.values())[::-1]


def _flatten(meter: CostTracker, values: list[object], levels: int = 1) -> list[object]:
    if levels < 0:
        raise evaluation_error(f"flatten() takes a number of levels, not {levels}")
    flat: list[object] = []
    meter.count_operations(len(values))
    for value in values:
        inner = cast("list[object]", value)
        if isinstance(value, list) and levels:
            added = inner if levels == 1 else _flatten(meter, inner, levels - 1)
            meter.allocate_list(len(added))
            flat += added
        else:
            meter.allocate(8)
            flat.append(inner)
    return flat


def _slice(meter: CostTracker, values: list[object], start: int, end: int) -> list[object]:
    if not 0 <= start <= end <= len(values):
        raise evaluation_error(f"there is no slice({start}, {end}) of a list of {len(values)}")
    meter.allocate_list(end - start)
    return values[start:end]


def _keys(meter: CostTracker, values: list[object]) -> set[object]:
    return {equality_key(value, meter) for value in values}


def _on_sets(compute: Callable[[set[object], set[object]], bool]) -> Function:
    def run(meter: CostTracker, left: list[object], right: list[object]) -> bool:
        return compute(_keys(meter, left), _keys(meter, right))

    return run


def _on_list(compute: Callable[[list[Any]], object]) -> Function:
    def run(meter: CostTracker, values: list[object]) -> object:
        meter.count_operations(len(values) // 3)
        meter.count_operations(sum(len(value) for value in values if isinstance(value, str)) // 2048)
        return compute(values)

    return run


def _number_range(meter: CostTracker, count: int) -> list[int]:
    meter.allocate(40 * max(0, min(count, MAX_RANGE_LENGTH)))
    meter.count_operations(max(0, min(count, MAX_RANGE_LENGTH)) // 16)
    return number_range(count)


_TYPE_OF_CLASS: Final = {
    known: TypeValue(name)
    for known, name in {
        int: "int", Uint: "uint", float: "double", str: "string", bool: "bool", bytes: "bytes", list: "list<dyn>",
        dict: "map<dyn, dyn>", type(None): "null", dt.datetime: "timestamp", dt.timedelta: "duration",
        TypeValue: "type",
    }.items()
}  # fmt: skip
_UNKNOWN = TypeValue("dyn")
TYPE_CONSTANTS: Final = {
    "list": TypeValue("list<dyn>"), "map": TypeValue("map<dyn, dyn>"), "null_type": TypeValue("null"),
    **{name: TypeValue(name) for name in ("int", "uint", "double", "bool", "string", "bytes", "type")},
}  # fmt: skip
"""Types by the names that expressions have for them."""


def _identity(_meter: CostTracker, value: object) -> object:
    return value


def _type(_meter: CostTracker, value: object) -> TypeValue:
    return _TYPE_OF_CLASS.get(class_of(value), _UNKNOWN)


def _text_of(meter: CostTracker, value: bool | int) -> str:  # noqa: FBT001 - a value of an expression
    words = value.bit_length() // 64
    meter.count_operations(words * words // 64)  # Python writes an integer in quadratic time
    meter.allocate(80 + 20 * words)
    return str(value).lower()


def _timestamp(meter: CostTracker, text: str) -> dt.datetime:
    meter.allocate(SCALAR_BYTES)
    return read_timestamp(text)


def _duration(meter: CostTracker, text: str) -> dt.timedelta:
    meter.allocate(SCALAR_BYTES)
    return read_duration(text)


_ANY = (object,)
_SIZED: Overloads = dict.fromkeys(((str,), (bytes,), (list,), (dict,)), _size)
_LIST = (list,)
CONVERSION_OVERLOADS: Final[dict[str, Overloads]] = {
    "string": {(str,): _identity, (int,): _text_of, (bool,): _text_of},
    "int": {(int,): _identity},
    "double": {(float,): _identity},
}
"""What the library need not be asked for, of the functions that are its own."""
FUNCTION_OVERLOADS: Final[dict[str, Overloads]] = {
    "size": _SIZED,
    "dyn": {_ANY: _identity},
    "type": {_ANY: _type},
    "timestamp": {(str,): _timestamp},
    "duration": {(str,): _duration},
    "sum": {_LIST: _on_list(sum_numbers)},
    "avg": {_LIST: _on_list(mean)},
    "min": {_LIST: _on_list(smallest)},
    "max": {_LIST: _on_list(largest)},
    "lists.range": {(int,): _number_range},
    "sets.contains": {(list, list): _on_sets(lambda left, right: left >= right)},
    "sets.equivalent": {(list, list): _on_sets(lambda left, right: left == right)},
    "sets.intersects": {(list, list): _on_sets(lambda left, right: not left.isdisjoint(right))},
}
METHOD_OVERLOADS: Final[dict[str, Overloads]] = {
    "size": _SIZED,
    **{name: FUNCTION_OVERLOADS[name] for name in ("sum", "avg", "min", "max")},
    "contains": {(str, str): _on_texts(lambda text, part: part in text)},
    "startsWith": {(str, str): _on_texts(str.startswith)},
    "endsWith": {(str, str): _on_texts(str.endswith)},
    "indexOf": dict.fromkeys(((str, str), (str, str, int)), _index),
    "lastIndexOf": dict.fromkeys(((str, str), (str, str, int)), _last_index),
    "charAt": {(str, int): _char_at},
    "substring": dict.fromkeys(((str, int), (str, int, int)), _substring),
    "split": dict.fromkeys(((str, str), (str, str, int)), _split),
    "replace": dict.fromkeys(((str, str, str), (str, str, str, int)), _replace),
    "join": dict.fromkeys(((list,), (list, str)), _join),
    "trim": {(str,): _trim},
    "upperAscii": {(str,): _translated(_UPPER)},
    "lowerAscii": {(str,): _translated(_LOWER)},
    "reverse": dict.fromkeys(((str,), (list,)), _reverse),
    "distinct": {_LIST: _distinct},
    "flatten": dict.fromkeys(((list,), (list, int)), _flatten),
    "slice": {(list, int, int): _slice},
}
