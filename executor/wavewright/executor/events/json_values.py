"""JSON encoding of many small values, and conversion of tools' outputs to plain JSON.

The standard library creates its C encoder for every text, which takes longer than encoding a small
one. `make_encoder` creates one encoder for all texts, with the same result as `json.JSONEncoder`
with its settings.

`clean_json` makes plain JSON of an output: dates become ISO 8601 text, tuples become lists, and what
JSON cannot express, half a character too, is an error that names its place. The result
shares no object with the output, so a tool cannot change what is journaled.
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
from typing import Final, TypeAlias, cast, overload

from wavewright.config import WavewrightError
from wavewright.planner import Json

JsonEncoder: TypeAlias = Callable[[object], str]

_Chunks: TypeAlias = Callable[[object, int], tuple[str, ...]]


def make_encoder(*, sort_keys: bool) -> JsonEncoder:
    """Return a function that writes a value as ASCII JSON without blanks.

    It raises `ValueError` for NaN and infinities, `TypeError` for values that JSON cannot express,
    and `RecursionError` for values that are nested too deeply.
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
        # A private function of CPython, which other interpreters lack.
        return plain.encode
    quote: object = _standard.encode_basestring_ascii
    parts = cast(
        "_Chunks", build(None, plain.default, quote, None, ":", ",", sort_keys, False, False)
    )
    join: Final = "".join
    return lambda value: join(parts(value, 0))


MAX_DEPTH = 100
"""Maximum depth of an output, far below the interpreter's recursion limit."""

_MAX_INTEGER_BITS = 14_000
"""Bits of an integer; Python converts at most 4,300 digits to and from text."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_SCALARS = (str, int, float, bool, type(None))


class NotJsonError(WavewrightError, ValueError):
    """A value that JSON cannot express; the message names the place."""


class _NotJsonAt(Exception):
    """A value that is not JSON; its place is collected while the exception passes through the
    callers.
    """

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
    """Return a text that is shown to people, with U+FFFD for each lone surrogate, which no UTF-8 and
    no database can hold.
    """
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def copy_json(value: Json) -> Json:
    """Return a copy that shares no list and no object with a JSON value."""
    if isinstance(value, dict):
        return {
            name: entry if isinstance(entry, _SCALARS) else copy_json(entry)
            for name, entry in value.items()
        }
    if isinstance(value, list):
        return [entry if isinstance(entry, _SCALARS) else copy_json(entry) for entry in value]
    return value


def _clean(value: object, depth: int) -> Json:
    # Exact types first, since nearly all outputs consist of them.
    if type(value) is str:
        return value if value.isascii() else _whole_text(value)
    if value is None or type(value) is bool:
        return value
    if type(value) is int:
        return _clean_integer(value)
    if type(value) is float:
        if not math.isfinite(value):
            raise _NotJsonAt(f"is {value!r}, which is not a JSON number")
        return value
    if depth == 0:
        raise _NotJsonAt(f"is nested more than {MAX_DEPTH} deep")
    if type(value) is dict or isinstance(
        value, Mapping
    ):  # asking for the exact type is much faster
        return _clean_object(cast("Mapping[object, object]", value), depth)
    if isinstance(value, list | tuple):
        return _clean_list(cast("Iterable[object]", value), depth)
    return _clean_convertible(value, depth)


def _whole_text(text: str) -> str:
    if _SURROGATE.search(text):
        raise _NotJsonAt("holds half a character (a lone surrogate), which no text in a file can")
    return text


def _clean_integer(value: int) -> int:
    if value.bit_length() > _MAX_INTEGER_BITS:
        raise _NotJsonAt(
            "is an integer of more than 4,200 digits, which JSON readers do not accept"
        )
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
        raise _NotJsonAt(f"has the key {key!r}, which is not a text")
    return _whole_text(str.__str__(key))


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
    """Clean a value that is not JSON but has one obvious JSON form."""
    if isinstance(value, enum.Enum):
        return _clean(cast("object", value.value), depth - 1)
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, str):
        return _whole_text(str.__str__(value))
    if isinstance(value, int):
        return _clean_integer(int(value))
    if isinstance(value, float):
        return _clean(float(value), depth)
    if is_dataclass(value) and not isinstance(value, type):
        return _clean_object(
            {field.name: getattr(value, field.name) for field in fields(value)}, depth
        )
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return _clean(dump(mode="json"), depth - 1)
    raise _NotJsonAt(f"is a {type(value).__name__}, which JSON cannot express")


def is_empty(value: Json) -> bool:
    """Whether a value is empty: null, `""`, `[]` or `{}`."""
    return value is None or (isinstance(value, (str, list, dict)) and not value)


@overload
def storable_text(text: str) -> str: ...
@overload
def storable_text(text: None) -> None: ...
def storable_text(text: str | None) -> str | None:
    """Return a text with a replacement character for what a database cannot hold: zero bytes and
    lone surrogates.
    """
    if text is None or text.isascii():
        return text if text is None or "\0" not in text else text.replace("\0", "\ufffd")
    return valid_text(text).replace("\0", "\ufffd")


def storable_value(value: object) -> object:
    """Return a column's value, storable where it is a text."""
    return storable_text(value) if isinstance(value, str) else value
