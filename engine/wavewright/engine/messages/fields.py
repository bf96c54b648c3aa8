"""Kinds of fields that messages are made of.

Every field is read as it is or not at all: a text is no number, nothing is stripped, and what would read differently
from what it is (a control character, a mark that turns the direction of writing) is refused in names.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime
from typing import Annotated, Final, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    SkipValidation,
)

UUID_PATTERN: Final = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
INSTANT_PATTERN: Final = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$"
)
"""RFC 3339, with the zone that makes it an instant."""

_CONTROL_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of what is not seen and changes what is: controls, marks of direction, line separators."""


class WireModel(BaseModel):
    """Part of a message: what it does not know, it refuses."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


def _check_printable(text: str) -> str:
    if any(unicodedata.category(char) in _CONTROL_CATEGORIES for char in text):
        msg = "must hold no control characters"
        raise ValueError(msg)
    return text


def read_instant(value: object) -> object:
    """Return the instant that a text names; what is an instant already passes through.

    Raises:
        ValueError: it is no instant in RFC 3339, or names no zone.
    """
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not re.fullmatch(INSTANT_PATTERN, value, re.ASCII):
        msg = "must be an instant with its zone, as 2026-06-01T12:00:00Z"
        raise ValueError(msg)
    return datetime.fromisoformat(value)


Uuid: TypeAlias = Annotated[str, Field(pattern=UUID_PATTERN), AfterValidator(str.lower)]
"""A UUID in its usual form; whichever case it is written in, it is the same id."""
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_check_printable)]
"""What somebody or something is called, on one line."""
Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=4_000)]
Instant: TypeAlias = Annotated[
    datetime,
    BeforeValidator(read_instant, json_schema_input_type=Annotated[str, Field(pattern=INSTANT_PATTERN)]),
    PlainSerializer(datetime.isoformat, return_type=str),
]
UncheckedObject: TypeAlias = dict[str, SkipValidation[JsonValue]]
"""An object whose members are not looked at here; they are JSON, for they were read from it."""
