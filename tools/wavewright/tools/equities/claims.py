"""Figures in a sentence, held against the document that the sentence speaks of.

A figure is *supported* where rounding a number of the document gives it, as it stands or as percent. Dates must stand
in the document as they are written; counts up to twelve need no support. A sign that is written must be the number's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from wavewright.planner.types import Json

_DATE = re.compile(r"\b\d{4}-\d{2}(?:-\d{2})?\b")
_NUMBER = re.compile(
    r"(?P<sign>(?<![\w.,)])[+\N{MINUS SIGN}-]\s?)?"
    r"(?<![\w.])(?P<digits>\d{1,3}(?:,\d{3})+|\d+)(?P<decimals>\.\d+)?(?P<unit>\s?(?:%|per ?cent\b))?"
)
_MAX_COUNT = 12


def unsupported_figures(text: str, document: Json) -> tuple[str, ...]:
    """Return the figures and dates of a text that the document does not hold, as they are written."""
    numbers, words = _contents(document)
    known = " ".join(words)
    wrong = [date for date in _DATE.findall(text) if date not in known]
    of_words = [_value(match) for match in _NUMBER.finditer(_DATE.sub(" ", known))]
    years = [Decimal(date[:4]) for date in _DATE.findall(known)]
    supports = [*numbers, *of_words, *years]
    wrong += [
        match[0].strip()
        for match in _NUMBER.finditer(_DATE.sub(" ", text))
        if not _is_supported(match, supports)
    ]
    return tuple(dict.fromkeys(wrong))


def _contents(document: Json) -> tuple[list[Decimal], list[str]]:
    numbers: list[Decimal] = []
    words: list[str] = []
    for value in _leaves(document):
        if isinstance(value, str):
            words.append(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            numbers.append(Decimal(str(value)))
    return numbers, words


def _leaves(value: Json) -> Iterator[Json]:
    if isinstance(value, dict):
        for member in value.values():
            yield from _leaves(member)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _is_supported(match: re.Match[str], supports: list[Decimal]) -> bool:
    stated = abs(_value(match))
    if match["unit"] is None and not match["decimals"] and stated <= _MAX_COUNT:
        return True
    places = len(match["decimals"] or ".") - 1
    scales = (Decimal(100), Decimal(1)) if match["unit"] else (Decimal(1),)
    return any(
        _rounds_to(abs(number) * scale, stated, places) and _has_sign(number, match["sign"])
        for number in supports
        for scale in scales
    )


def _rounds_to(number: Decimal, stated: Decimal, places: int) -> bool:
    # Half a unit of the last place, both ways: nobody is held to how a half is rounded.
    return abs(number - stated) <= Decimal(5).scaleb(-places - 1)


def _has_sign(number: Decimal, sign: str | None) -> bool:
    if sign is None:
        return True
    return number >= 0 if sign.strip() == "+" else number <= 0


def _value(match: re.Match[str]) -> Decimal:
    value = Decimal(match["digits"].replace(",", "") + (match["decimals"] or ""))
    return -value if (match["sign"] or "").strip() in {"-", "\N{MINUS SIGN}"} else value
