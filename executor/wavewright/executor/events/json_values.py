"""JSON texts of many small values.

The standard library builds its encoder in C anew for every text, which takes longer than writing a small one. An
*encoder* here is built once and used for ever; what it writes is what `json.JSONEncoder` would write with the same
settings, to the letter.

JSON values, made clean and kept apart.

What a tool returns becomes plain JSON here, before anybody reads it: dates become ISO 8601 text, tuples become
lists, text becomes valid Unicode, and what JSON cannot express is an error that names its place. The result shares
nothing with what the tool still holds, so no tool can change what was journaled.
"""

from __future__ import annotations

import datetime as dt
import enum
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from json import encoder as _standard
from typing import Final, TypeAlias, cast

from wavewright.config.errors import WavewrightError
from wavewright.planner.types import Json

JsonEncoder: TypeAlias = Callable[[object], str]

_Chunks: TypeAlias = Callable[[object, int], tuple[str, ...]]


def make_encoder(*, sort_keys: bool) -> JsonEncoder:
    """Return a function that writes a value as ASCII JSON without blanks.

    It raises `ValueError` for NaN and infinities, `TypeError` for what JSON cannot express, and `RecursionError` for
    what is nested without end.
    """
    plain = json.JSONEncoder(
        ensure_ascii=True,
        allow_nan=False,
        sort_keys=sort_keys,
        separators=(",", ":"),
        check_circular=False,
    )
    build: object = getattr(_standard, "c_make_encoder", None)
    if not callable(build):
        # Not every interpreter has it, and it is not promised to stay.
        return plain.encode
    quote: object = _standard.encode_basestring_ascii
    parts = cast("_Chunks", build(None, plain.default, quote, None, ":", ",", sort_keys, False, False))
    join: Final = "".join
    return lambda value: join(parts(value, 0))


MAX_DEPTH = 100
"""Deeper than any honest output, and far from the interpreter's own limit."""

_MAX_INTEGER_BITS = 14_000
"""Bits; Python itself writes and reads at most 4,300 digits."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_SCALARS = (str, int, float, bool, type(None))


class NotJsonError(WavewrightError, ValueError):
    """A value that JSON cannot express; the message names the place."""


class _NotJsonAt(Exception):
    """Found on the quick way, which keeps no places; the place is put together on the way back."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.place: list[str] = []


def clean_json(value: object) -> Json:
    """Return a copy of a value as plain JSON.

    Raises:
        NotJsonError: it holds something that JSON cannot express, NaN and infinities included.
    """
    try:
        return _clean(value, MAX_DEPTH)
    except _NotJsonAt as misfit:
        place = "".join(f"/{name}" for name in reversed(misfit.place))
        where = f" at {place}" if place else ""
        raise NotJsonError(f"the output{where} {misfit.reason}") from None


def valid_text(text: str) -> str:
    """Return a text with U+FFFD for each lone surrogate, which no UTF-8 and no database can hold."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def copy_json(value: Json) -> Json:
    """Return a copy that shares no list and no object with a JSON value."""
    if isinstance(value, dict):
        return {
            name: entry if isinstance(entry, _SCALARS) else copy_json(entry) for name, entry in value.items()
        }
    if isinstance(value, list):
        return [entry if isinstance(entry, _SCALARS) else copy_json(entry) for entry in value]
    return value


def _clean(value: object, depth: int) -> Json:
    # Exact types first: they are all that a well-behaved tool returns.
    if type(value) is str:
        return value if value.isascii() else valid_text(value)
    if value is None or type(value) is bool:
        return value
    if type(value) is int:
        return _clean_integer(value)
    if type(value) is float:
        if not math.isfinite(value):
            raise _NotJsonAt(f"is {value!r}, which is no JSON number")
        return value
    if depth == 0:
        raise _NotJsonAt(f"is nested more than {MAX_DEPTH} deep")
    if isinstance(value, Mapping):
        return _clean_object(cast("Mapping[object, object]", value), depth)
    if isinstance(value, list | tuple):
        return _clean_list(cast("Iterable[object]", value), depth)
    return _clean_convertible(value, depth)


def _clean_integer(value: int) -> int:
    if value.bit_length() > _MAX_INTEGER_BITS:
        raise _NotJsonAt("is an integer of more than 4,200 digits, which no reader of JSON takes")
    return value


def _clean_object(value: Mapping[object, object], depth: int) -> Json:
    cleaned: dict[str, Json] = {}
    for key, entry in value.items():
        name = key if type(key) is str and key.isascii() else _plain_key(key)
        try:
            cleaned[name] = _clean(entry, depth - 1)
        except _NotJsonAt as misfit:
            misfit.place.append(name)
            raise
    return cleaned


def _plain_key(key: object) -> str:
    if not isinstance(key, str):
        raise _NotJsonAt(f"has the key {key!r}, which is no text")
    return valid_text(str.__str__(key))


def _clean_list(value: Iterable[object], depth: int) -> Json:
    cleaned: list[Json] = []
    for entry in value:
        try:
            cleaned.append(_clean(entry, depth - 1))
        except _NotJsonAt as misfit:
            misfit.place.append(str(len(cleaned)))
            raise
    return cleaned


def _clean_convertible(value: object, depth: int) -> Json:
    """Clean what is no JSON yet has one obvious form in it."""
    if isinstance(value, enum.Enum):
        return _clean(cast("object", value.value), depth - 1)
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, str):
        return valid_text(str.__str__(value))
    if isinstance(value, int):
        return _clean_integer(int(value))
    if isinstance(value, float):
        return _clean(float(value), depth)
    if is_dataclass(value) and not isinstance(value, type):
        return _clean_object({field.name: getattr(value, field.name) for field in fields(value)}, depth)
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return _clean(dump(mode="json"), depth - 1)
    raise _NotJsonAt(f"is a {type(value).__name__}, which JSON cannot express")
