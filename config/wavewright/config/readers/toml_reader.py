"""A strict reader of TOML, limited to values of JSON.

Dates and times become ISO 8601 texts. The interpreter's reader keeps no positions, so a syntax fault has its position
and any other fault names its node only.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import tomllib
from typing import TYPE_CHECKING, cast

from wavewright.config.sources import (
    MAX_EXACT_INTEGER,
    DocumentError,
    DocumentFault,
    ReadLimits,
    Source,
    Span,
    pointer_token,
)

if TYPE_CHECKING:
    from pydantic import JsonValue

_PLACE = re.compile(r" \(at (?:line ([0-9]+), column ([0-9]+)|end of document)\)\Z")


def read_toml(source: Source, limits: ReadLimits) -> JsonValue:
    """Read strict TOML into a plain value.

    Raises:
        DocumentError: with the faults of the text.
    """
    try:
        value = tomllib.loads(source.text)
    except RecursionError as error:
        raise DocumentError(source, (_too_deep(limits, ""),)) from error
    except ValueError as error:
        raise DocumentError(source, (_syntax_fault(source, error),)) from error
    reader = _TomlConverter(limits)
    plain = reader.value(value, "", 0)
    if reader.faults:
        raise DocumentError(source, tuple(reader.faults))
    return plain


class _TomlConverter:
    """Converts values of the interpreter's reader to values of JSON."""

    def __init__(self, limits: ReadLimits) -> None:
        self.faults: list[DocumentFault] = []
        self._limits = limits

    def value(self, value: object, pointer: str, depth: int) -> JsonValue:
        if isinstance(value, (dict, list)) and depth >= self._limits.max_depth:
            self.faults.append(_too_deep(self._limits, pointer))
            return None
        if isinstance(value, dict):
            members = cast("dict[str, object]", value)
            return {
                key: self.value(one, pointer + pointer_token(key), depth + 1) for key, one in members.items()
            }
        if isinstance(value, list):
            items = cast("list[object]", value)
            return [
                self.value(one, pointer + pointer_token(index), depth + 1) for index, one in enumerate(items)
            ]
        if isinstance(value, (dt.datetime, dt.date, dt.time)):
            return value.isoformat()
        self._check_scalar(value, pointer)
        return cast("JsonValue", value)

    def _check_scalar(self, value: object, pointer: str) -> None:
        if isinstance(value, float) and not math.isfinite(value):
            message, hint = "a number is not finite", "write a finite number"
            self.faults.append(DocumentFault("nonfinite_number", message, pointer=pointer, hint=hint))
        if isinstance(value, int) and abs(value) > MAX_EXACT_INTEGER:
            message, hint = "an integer is beyond 2^53 - 1", "quote it where it should be text"
            self.faults.append(DocumentFault("number_out_of_range", message, pointer=pointer, hint=hint))
        if isinstance(value, str) and "\0" in value:
            message, hint = "a string holds a NUL character", "remove the character"
            self.faults.append(DocumentFault("bad_unicode", message, pointer=pointer, hint=hint))


def _too_deep(limits: ReadLimits, pointer: str) -> DocumentFault:
    message = f"lists and objects are nested more than {limits.max_depth} deep"
    return DocumentFault("too_deep", message, pointer=pointer, hint="flatten the structure")


def _syntax_fault(source: Source, error: ValueError) -> DocumentFault:
    text = str(error)
    place = _PLACE.search(text)
    if place is None:
        return DocumentFault("not_toml", text[:1].lower() + text[1:])
    offset = len(source.text)
    if place[1] is not None:
        line_starts = [0, *(found.end() for found in re.finditer("\n", source.text))]
        offset = min(line_starts[int(place[1]) - 1] + int(place[2]) - 1, offset)
    message = text[: place.start()]
    span = Span(offset, min(offset + 1, len(source.text)))
    if message == "Invalid value" and source.text[offset : offset + 1].isalpha():
        return DocumentFault(
            "not_toml", "this value is text without quotes", span, hint='put it in quotes: "…"'
        )
    return DocumentFault("not_toml", message[:1].lower() + message[1:], span)
