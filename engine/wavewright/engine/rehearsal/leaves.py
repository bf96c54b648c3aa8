"""Texts and numbers that a schema allows."""

from __future__ import annotations

import datetime as dt
import re
from typing import NamedTuple

from wavewright.planner.types import Json, JsonObject


class NumberRange(NamedTuple):
    """Where a number is looked for."""

    least: float
    most: float


def formatted_text(kind: str, then: dt.datetime, number: int) -> str | None:
    """Return a text of one of JSON Schema's formats, of that time or with that number; none for another format."""
    match kind:
        case "date":
            return then.date().isoformat()
        case "date-time":
            return then.isoformat(timespec="seconds").replace("+00:00", "Z")
        case "time":
            return then.time().isoformat(timespec="seconds") + "Z"
        case _:
            pattern = _FORMATS.get(kind)
            return None if pattern is None else pattern.format(number=number)


_FORMATS = {
    "duration": "PT{number}S",
    "email": "name{number}@example.org",
    "idn-email": "name{number}@example.org",
    "hostname": "host{number}.example.org",
    "idn-hostname": "host{number}.example.org",
    "ipv4": "192.0.2.{number}",
    "ipv6": "2001:db8::{number}",
    "uuid": "00000000-0000-4000-8000-{number:012d}",
    "uri": "https://example.org/{number}",
    "iri": "https://example.org/{number}",
    "uri-reference": "https://example.org/{number}",
    "iri-reference": "https://example.org/{number}",
}


_GENERATED_PATTERN = "|".join(
    r"\d+".join(map(re.escape, re.split("{.*?}", pattern))) for pattern in _FORMATS.values()
)
_FORMATTED = re.compile(rf"\d{{4}}-\d\d-\d\d.*|\d\d:\d\d:\d\d.*|{_GENERATED_PATTERN}")


def is_formatted(text: str) -> bool:
    """Whether a text is one of those that `formatted` gives."""
    return _FORMATTED.fullmatch(text) is not None


def number_range(node: JsonObject) -> NumberRange:
    """Return where a number of the schema is looked for: within its bounds, or a hundred wide."""
    low, high = _low(node), _high(node)
    least = low if low is not None else (high - 100 if high is not None else 0.0)
    return NumberRange(least, high if high is not None else max(least, 0.0) + 100)


def nearest_number(node: JsonObject, drawn: float, *, is_whole: bool) -> Json:
    """Return the number nearest to the one drawn that the schema's bounds and steps let pass."""
    low, high = _low(node), _high(node)
    step = node.get("multipleOf")
    unit = float(step) if isinstance(step, int | float) and step else (1.0 if is_whole else 0.01)
    number = (
        round(min(max(drawn, drawn if low is None else low), drawn if high is None else high) / unit) * unit
    )
    if low is not None and (number < low or (number <= low and "exclusiveMinimum" in node)):
        number += unit
    if high is not None and (number > high or (number >= high and "exclusiveMaximum" in node)):
        number -= unit
    if low is not None and high is not None and not is_whole and not low <= number <= high:
        number = (low + high) / 2
    return round(number) if is_whole else round(number, 6)


def _low(node: JsonObject) -> float | None:
    found = _numbers(node, "minimum", "exclusiveMinimum")
    return max(found) if found else None


def _high(node: JsonObject) -> float | None:
    found = _numbers(node, "maximum", "exclusiveMaximum")
    return min(found) if found else None


def _numbers(node: JsonObject, *names: str) -> list[float]:
    return [float(bound) for name in names if isinstance(bound := node.get(name), int | float)]
