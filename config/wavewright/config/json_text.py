"""Strict JSON, read fast.

The interpreter's own decoder does the reading, with a hook wherever it is more tolerant than JSON is; places are not
kept. Only where something is wrong is the text read again, by the scanner, which says what and where.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, NoReturn

from wavewright.config.sources import MAX_EXACT_INTEGER, ReadLimits, Source

if TYPE_CHECKING:
    from pydantic import JsonValue

_SUSPECT_ESCAPE = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")


class _UnsupportedJsonError(Exception):
    """Something that the decoder reads and JSON, or this project, does not."""


def _refuse(_name: str) -> NoReturn:
    raise _UnsupportedJsonError


def _integer(digits: str) -> int:
    if len(digits) > 17:
        raise _UnsupportedJsonError
    number = int(digits)
    if abs(number) > MAX_EXACT_INTEGER:
        raise _UnsupportedJsonError
    return number


def _fraction(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise _UnsupportedJsonError
    return number


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _UnsupportedJsonError
    return value


_decode = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_fraction, parse_constant=_refuse
).decode


def read_json(source: Source, limits: ReadLimits) -> JsonValue:
    """Read strict JSON into a plain value.

    Raises:
        DocumentError: with every fault of the text, in its order.
    """
    try:
        value: JsonValue = _decode(source.text)
    except (_UnsupportedJsonError, json.JSONDecodeError, RecursionError):
        return _read_with_scanner(source, limits)
    # An escaped NUL or surrogate may be half of a pair, or the text "\\ud800": the scanner knows.
    if _is_deeper(value, limits.max_depth) or _SUSPECT_ESCAPE.search(source.text):
        return _read_with_scanner(source, limits)
    return value


def _read_with_scanner(source: Source, limits: ReadLimits) -> JsonValue:
    """Return the value as the scanner reads it, which is loaded for that."""
    from wavewright.config.json_scan import scan_json
    from wavewright.config.nodes import plain_value

    return plain_value(scan_json(source, limits))


def _is_deeper(value: JsonValue, limit: int) -> bool:
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(limit):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return False
    return bool(level)
