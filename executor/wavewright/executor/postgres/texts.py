"""Texts as PostgreSQL can hold them.

A *plain text* has no zero byte and no half of a surrogate pair, which the database refuses. Events are written as
ASCII and lose nothing; only what is kept beside them to be searched and shown is made plain.
"""

from __future__ import annotations

from typing import overload

from wavewright.executor.json_values import valid_text


@overload
def storable_text(text: str) -> str: ...
@overload
def storable_text(text: None) -> None: ...
def storable_text(text: str | None) -> str | None:
    """Return a text with a replacement character for whatever the database cannot hold."""
    if text is None or text.isascii():
        return text if text is None or "\0" not in text else text.replace("\0", "\ufffd")
    return valid_text(text).replace("\0", "\ufffd")


def storable_value(value: object) -> object:
    """Return a column's value, plain where it is a text."""
    return storable_text(value) if isinstance(value, str) else value
