"""Call the functions of expressions.

A *function* is one of ours, chosen by the classes of its arguments and counted by the meter before it makes
anything, or one of the CEL library's. The library is only asked for what makes a scalar or a short text, and only
with arguments that are small: it copies what it is given and cannot be stopped.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

from wavewright.planner.cel_functions import (
    LONGEST_RANGE,
    count_up,
    greatest,
    least,
    mean,
    read_duration,
    read_timestamp,
    total,
)
from wavewright.planner.cel_meter import SCALAR, Meter
from wavewright.planner.cel_operators import CelType, Uint, class_of, failed, key_of

Function: TypeAlias = Callable[..., object]
"""Gives what a function makes of a meter and its arguments."""
Signatures: TypeAlias = Mapping[tuple[type, ...], Function]
"""Functions of one name, by the classes of their arguments."""

_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_ELEMENT = 64
"""Bytes of a short text in a list."""


def _size(_meter: Meter, value: str | bytes | list[object] | dict[object, object]) -> int:
    return len(value)


def _of_texts(compute: Callable[[str, str], bool]) -> Function:
    def run(meter: Meter, text: str, part: str) -> bool:
        meter.search(text, part)
        return compute(text, part)

    return run


def _index(meter: Meter, text: str, part: str, start: int = 0) -> int:
    _check_place(text, start)
    meter.search(text, part)
    return text.find(part, start)


def _last_index(meter: Meter, text: str, part: str, start: int | None = None) -> int:
    meter.work(len(text) * len(part) // 1024)  # Python searches in linear time from the left only
    if start is None:
        return text.rfind(part)
    _check_place(text, start)
    return text.rfind(part, 0, start + len(part))


def _check_place(text: str, place: int) -> None:
    if not 0 <= place <= len(text):
        raise failed(f"there is no place {place} in a text of {len(text)} characters")


def _char_at(meter: Meter, text: str, place: int) -> str:
    _check_place(text, place)
    meter.make_text(1, text[place : place + 1])
    return text[place : place + 1]


def _substring(meter: Meter, text: str, start: int, end: int | None = None) -> str:
    _check_place(text, start)
    end = len(text) if end is None else end
    _check_place(text, end)
    if end < start:
        raise failed(f"substring() ends at {end}, before it starts at {start}")
    meter.make_text(end - start, text)
    return text[start:end]


def _split(meter: Meter, text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    meter.search(text, separator)
    found = len(text) - 1 if not separator else text.count(separator)
    cuts = max(found if limit < 0 else min(limit - 1, found), 0)
    meter.work(cuts)
    meter.make((cuts + 1) * _ELEMENT)
    meter.make_text(len(text), text)
    if separator:
        return text.split(separator, cuts)
    return [*text[:cuts], text[cuts:]]


def _replace(meter: Meter, text: str, old: str, new: str, limit: int = -1) -> str:
    meter.search(text, old)
    found = text.count(old) if limit < 0 else min(limit, text.count(old))
    meter.make_text(max(len(text), len(text) + found * (len(new) - len(old))), text, new)
    meter.work(found // 8)
    return text.replace(old, new, limit)


def _join(meter: Meter, values: list[object], separator: str = "") -> str:
    meter.work(len(values) // 4)
    meter.make_list(len(values))
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) != len(values):
        raise failed("join() takes strings only: list.map(x, string(x)).join()")
    meter.make_text(sum(map(len, texts)) + len(separator) * len(texts), separator, *texts)
    return separator.join(texts)


def _trim(meter: Meter, text: str) -> str:
    meter.make_text(len(text), text)
    trimmed = text.strip(_SPACE)
    meter.work((len(text) - len(trimmed)) // 50)
    return trimmed


def _translated(table: dict[int, int]) -> Function:
    def run(meter: Meter, text: str) -> str:
        meter.make_text(len(text), text)
        if not text.isascii():
            meter.work(len(text) // 4)
        return text.translate(table)

    return run


def _reverse(meter: Meter, value: str | list[object]) -> object:
    if isinstance(value, str):
        meter.make_text(len(value), value)
    else:
        meter.make_list(len(value))
    return value[::-1]


def _distinct(meter: Meter, values: list[object]) -> list[object]:
    meter.make_list(2 * len(values))
    return list({key_of(value, meter): value for value in reversed(values)}.values())[::-1]


def _flatten(meter: Meter, values: list[object], levels: int = 1) -> list[object]:
    if levels < 0:
        raise failed(f"flatten() takes a number of levels, not {levels}")
    flat: list[object] = []
    meter.work(len(values))
    for value in values:
        inner = cast("list[object]", value)
        if isinstance(value, list) and levels:
            added = inner if levels == 1 else _flatten(meter, inner, levels - 1)
            meter.make_list(len(added))
            flat += added
        else:
            meter.make(8)
            flat.append(inner)
    return flat


def _slice(meter: Meter, values: list[object], start: int, end: int) -> list[object]:
    if not 0 <= start <= end <= len(values):
        raise failed(f"there is no slice({start}, {end}) of a list of {len(values)}")
    meter.make_list(end - start)
    return values[start:end]


def _keys(meter: Meter, values: list[object]) -> set[object]:
    return {key_of(value, meter) for value in values}


def _of_lists(compute: Callable[[set[object], set[object]], bool]) -> Function:
    def run(meter: Meter, left: list[object], right: list[object]) -> bool:
        return compute(_keys(meter, left), _keys(meter, right))

    return run


def _of_list(compute: Callable[[list[Any]], object]) -> Function:
    def run(meter: Meter, values: list[object]) -> object:
        meter.work(len(values) // 3)
        meter.work(sum(len(value) for value in values if isinstance(value, str)) // 2048)
        return compute(values)

    return run


def _count_up(meter: Meter, count: int) -> list[int]:
    meter.make(40 * max(0, min(count, LONGEST_RANGE)))
    meter.work(max(0, min(count, LONGEST_RANGE)) // 16)
    return count_up(count)


_TYPES: Final = {
    known: CelType(name)
    for known, name in {
        int: "int", Uint: "uint", float: "double", str: "string", bool: "bool", bytes: "bytes", list: "list<dyn>",
        dict: "map<dyn, dyn>", type(None): "null", dt.datetime: "timestamp", dt.timedelta: "duration",
        CelType: "type",
    }.items()
}  # fmt: skip
_UNKNOWN = CelType("dyn")
TYPES: Final = {
    "list": CelType("list<dyn>"), "map": CelType("map<dyn, dyn>"), "null_type": CelType("null"),
    **{name: CelType(name) for name in ("int", "uint", "double", "bool", "string", "bytes", "type")},
}  # fmt: skip
"""Types by the names that expressions have for them."""


def _anything(_meter: Meter, value: object) -> object:
    return value


def _type(_meter: Meter, value: object) -> CelType:
    return _TYPES.get(class_of(value), _UNKNOWN)


def _text_of(meter: Meter, value: bool | int) -> str:  # noqa: FBT001 - a value of an expression
    words = value.bit_length() // 64
    meter.work(words * words // 64)  # Python writes an integer in quadratic time
    meter.make(80 + 20 * words)
    return str(value).lower()


def _instant(meter: Meter, text: str) -> dt.datetime:
    meter.make(SCALAR)
    return read_timestamp(text)


def _span(meter: Meter, text: str) -> dt.timedelta:
    meter.make(SCALAR)
    return read_duration(text)


_ANY = (object,)
_SIZED: Signatures = dict.fromkeys(((str,), (bytes,), (list,), (dict,)), _size)
_LIST = (list,)
CONVERSIONS: Final[dict[str, Signatures]] = {
    "string": {(str,): _anything, (int,): _text_of, (bool,): _text_of},
    "int": {(int,): _anything},
    "double": {(float,): _anything},
}
"""What the library need not be asked for, of the functions that are its own."""
FUNCTIONS_OF_OURS: Final[dict[str, Signatures]] = {
    "size": _SIZED,
    "dyn": {_ANY: _anything},
    "type": {_ANY: _type},
    "timestamp": {(str,): _instant},
    "duration": {(str,): _span},
    "sum": {_LIST: _of_list(total)},
    "avg": {_LIST: _of_list(mean)},
    "min": {_LIST: _of_list(least)},
    "max": {_LIST: _of_list(greatest)},
    "lists.range": {(int,): _count_up},
    "sets.contains": {(list, list): _of_lists(lambda left, right: left >= right)},
    "sets.equivalent": {(list, list): _of_lists(lambda left, right: left == right)},
    "sets.intersects": {(list, list): _of_lists(lambda left, right: not left.isdisjoint(right))},
}
METHODS_OF_OURS: Final[dict[str, Signatures]] = {
    "size": _SIZED,
    **{name: FUNCTIONS_OF_OURS[name] for name in ("sum", "avg", "min", "max")},
    "contains": {(str, str): _of_texts(lambda text, part: part in text)},
    "startsWith": {(str, str): _of_texts(str.startswith)},
    "endsWith": {(str, str): _of_texts(str.endswith)},
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
