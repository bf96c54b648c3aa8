"""How values of JSON are spoken of in messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import JsonValue

_MAX_SHOWN = 40
_TRUE_WORDS = frozenset({"yes", "on", "y", "true", "1"})
_FALSE_WORDS = frozenset({"no", "off", "n", "false", "0"})


def json_excerpt(value: JsonValue) -> str:
    """Write a value as JSON, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"


def describe_value(value: JsonValue) -> str:
    """Name a value with its type: `the string 'x'`."""
    if isinstance(value, str):
        text = value if len(value) <= _MAX_SHOWN else value[: _MAX_SHOWN - 1] + "…"
        return f"the string {text!r}"
    if isinstance(value, bool) or value is None:
        return json_excerpt(value)
    if isinstance(value, (int, float)):
        return f"the number {json_excerpt(value)}"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    return "an object" if value else "an empty object"


def join_alternatives(words: Sequence[str]) -> str:
    """Join alternatives: `a, b or c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def type_hint(value: JsonValue, expected: Sequence[str]) -> str | None:
    """Say how the value would be written in the type wanted, where that is plain."""
    if isinstance(value, str) and "true or false" in expected and value.lower() in _TRUE_WORDS | _FALSE_WORDS:
        return f"write {'true' if value.lower() in _TRUE_WORDS else 'false'}"
    if isinstance(value, str) and {"a number", "an integer"} & set(expected) and _reads_as_number(value):
        return f"remove the quotes: {value}"
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)) and "a string" in expected:
        return f'put it in quotes: "{json_excerpt(value)}"'
    if isinstance(value, (str, int, float)) and "a list" in expected:
        return f"write a list: [{json_excerpt(value)}]"
    return None


def _reads_as_number(text: str) -> bool:
    try:
        number = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(number, (int, float)) and not isinstance(number, bool)
