"""Strict JSON, read by the interpreter's own decoder, with hooks where that is more tolerant than JSON.

Names in an object must be unique, and integers exact for every reader. Positions are not kept.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Final, Literal, NoReturn, TypeAlias

from wavewright.config.errors import WavewrightError
from wavewright.config.sources import MAX_EXACT_INTEGER

if TYPE_CHECKING:
    from pydantic import JsonValue

StrictJsonKind: TypeAlias = Literal["duplicate_key", "nonfinite_number", "number_out_of_range"]

_LONG_INTEGER: Final = re.compile(r"[0-9]{16}")
UNSTORABLE_ESCAPE: Final = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
"""Matches every text that may decode to NUL or half a surrogate pair."""


class StrictJsonError(WavewrightError):
    """A text that the decoder accepts, and JSON or this project does not."""

    def __init__(self, kind: StrictJsonKind, message: str) -> None:
        super().__init__(message)
        self.kind: StrictJsonKind = kind


def decode_strict_json(text: str) -> JsonValue:
    """Return the value of a text.

    Raises:
        StrictJsonError: an object has a name twice, or readers disagree on the value of a number.
        json.JSONDecodeError: it is not JSON.
        RecursionError: it is nested too deeply for the interpreter.
    """
    value: JsonValue = (_decode_long if _LONG_INTEGER.search(text) else _decode_short)(text)
    return value


def is_deeper(value: JsonValue, limit: int) -> bool:
    """Whether lists and objects are nested more than `limit` deep."""
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


def _constant(_name: str) -> NoReturn:
    raise StrictJsonError(
        "nonfinite_number", "NaN and Infinity are no JSON; write null where there is no number"
    )


def _integer(digits: str) -> int:
    # The length is looked at first: converting 200,000 digits takes seconds, and Python refuses.
    number = int(digits) if len(digits) <= 17 else MAX_EXACT_INTEGER + 1
    if -MAX_EXACT_INTEGER <= number <= MAX_EXACT_INTEGER:
        return number
    raise StrictJsonError(
        "number_out_of_range", "an integer is beyond 2^53 - 1; write an identifier as a string"
    )


def _fraction(digits: str) -> float:
    number = float(digits)
    if math.isfinite(number):
        return number
    raise StrictJsonError("nonfinite_number", "a number is too large and would become infinite")


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise StrictJsonError(
            "duplicate_key", "an object has the same name twice, so readers disagree on its value"
        )
    return value


_decode_short = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_fraction, parse_constant=_constant
).decode
"""For texts without an integer that could be too large, nearly all: the hook takes half of the time."""
_decode_long = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_fraction, parse_constant=_constant
).decode
