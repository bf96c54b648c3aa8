"""The levels that a zone is for, in the words of pages: a row's value, a section, or a sentence.

Levels without an upper end are `20+`. What is denied, past, of another unit, a share of a scale, an
upper end alone or no whole number is no level.
"""

from __future__ import annotations

import re
from typing import Final

from wavewright.packs.extraction.blocks import word_set
from wavewright.packs.extraction.facts import subject_end

_KINDS: Final = word_set(
    "danger difficulty threat recommended suggested zone area enemy monster mob creature player "
    "character required minimum"
)
_NUMBERS: Final = {
    word: digits
    for digits, word in enumerate(
        (
            *("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"),
            *("twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
            *("nineteen", "twenty"),
        ),
        start=2,
    )
}
_NUMBER_WORD: Final = re.compile(rf"\b(?:{'|'.join(_NUMBERS)})\b", re.IGNORECASE)
_JOINT: Final = r"(?:-|–|—|~|to|and|or|through)"
_UNITS: Final = (
    r"%|°|/\s*\d|(?:(?:out\s+)?of|percent|per\s?cent|m|km|cm|metres?|meters?|feet|ft|miles?|d[Bb]|mSv|"
    r"degrees?|hours?|days?|years?|gold|points?|floors?)\b"
)
_RANGE: Final = (
    rf"(?<![\w.,/-])(?<!\d of )(?P<min>\d{{1,3}})(?:\s*{_JOINT}\s*(?:levels?\s+)?(?P<max>\d{{1,3}}))?"
    rf"(?!\d|[.,]\d|(?:st|nd|rd|th)\b|\s*{_JOINT}\s*\d|\s*(?:{_UNITS}))"
)
_LEVEL: Final = r"\blevels?\b"
_LEVEL_WORD: Final = re.compile(r"\b(?:levels?|lvls?|lv)(?:\.|\b|(?=\d))\s*(?=\d)", re.IGNORECASE)
_KIND: Final = rf"\b(?:{'|'.join(_KINDS)})\s+{_LEVEL}(?:\s+range)?"
_SAYS: Final = r"\s*(?:(?:is|are|of|ranges?|from|at|about|around|between|:|=|[-–—](?=\s))\s*){0,3}"
_PEOPLE: Final = (
    r"(?:players?|characters?|adventurers?|heroes|part(?:y|ies)|groups?|monsters?|enemies|creatures|"
    r"mobs|foes)"
)
_FOR: Final = rf"(?:to|for|at|of|between|from|{_PEOPLE})"
_PLACE: Final = r"(?:zones?|areas?|regions?|maps?|dungeons?|raids?|content)"
_NEEDED: Final = r"(?:at least|reached|(?:should|must|ought to|need to) be)"
_OPEN: Final = r"\+|(?:and|or) (?:above|up|over|higher|more|beyond)\b"
_END: Final = rf"(?=\s*(?:$|[.,;:!)(+]|{_OPEN}|(?:{_PLACE}|{_PEOPLE}|now|solo|today)\b))"

_VALUE: Final = re.compile(_RANGE)
_TOLD: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_KIND}(?:\s+(?:for|of|in)\s+(?:the\s+)?ZONE)?{_SAYS}{_RANGE}",
        rf"{_LEVEL} (?:range|requirement)(?:\s+(?:for|of)\s+ZONE)?{_SAYS}{_RANGE}",
        rf"\b(?:{_PEOPLE}|you)\b[^,;]{{0,30}}\b{_NEEDED}\s+(?:at\s+)?{_LEVEL}\s+{_RANGE}",
        rf"\b(?:for|suit(?:s|ed)?|recommended)\s+(?:{_FOR}\s+)*{_LEVEL}\s+{_RANGE}",
        rf"\b{_PEOPLE}\b[^,;]{{0,30}}\b(?:of|at|between|from|are)\s+(?:of\s+)?{_LEVEL}\s+{_RANGE}",
        rf"{_LEVEL}\s+{_RANGE}(?=\s+{_PLACE}\b)",
        rf"^{_LEVEL}(?:\s+range)?\s*[:=]?\s*{_RANGE}{_END}",
    )
)
"""Of any sentence on the zone's page."""
_TOLD_OF_IT: Final = re.compile(
    rf"(?<!sea )(?<!water ){_LEVEL}(?:\s+range)?\s*:?\s*{_RANGE}{_END}", re.IGNORECASE
)
"""Of a sentence whose subject is the zone."""
_CLAUSE_END: Final = re.compile(r"[,;:]|\bbut\b")
_DENIED: Final = re.compile(
    r"\b(?:not|no|never|nor|neither|hardly|unlike|without|except|below|under|before|formerly|once|"
    r"used to)\b|n['’]t\b",
    re.IGNORECASE,
)
_PAST: Final = re.compile(r"\b(?:before|formerly|until)\b", re.IGNORECASE)
_OPEN_AFTER: Final = re.compile(rf"\s*(?:{_OPEN})", re.IGNORECASE)
_OPEN_BEFORE: Final = re.compile(
    r"(?:≥|>=?|\b(?:at least|min(?:imum)?|requires?|required|requirements?|reached|from)\b)\D{0,12}$",
    re.IGNORECASE,
)
_UPPER_END: Final = re.compile(r"\b(?:up to|at most|max(?:imum)?|cap)\b\D{0,12}$", re.IGNORECASE)
_IS_UPPER_END: Final = re.compile(
    r"\s*(?:(?:and|or) (?:below|under|lower|less)\b|\(?max|[-–]\s*$)", re.IGNORECASE
)
_BRACKET: Final = re.compile(r"\s*\([^()]*\)")


def levels_of_value(text: str, label: str = "") -> str:
    """Return the levels that the value of a row names, as `4-7` or `20+`; empty where it names
    none. A `label` such as `minimum level` says that they have no upper end.
    """
    return _first([_VALUE], _in_digits(f"{label}: {text}" if label else text))


def levels_told(sentence: str, zone: str) -> str:
    """Return the levels that a sentence of a zone's page tells of the zone, as `4-7` or `20+`;
    empty where it tells none.
    """
    text = _without_asides(_in_digits(sentence), zone)
    text = re.sub(rf"(?<!\w){re.escape(zone)}(?!\w)", "ZONE", text)
    patterns = [*_TOLD, _TOLD_OF_IT] if subject_end(text, "ZONE") else [*_TOLD]
    return _first(patterns, text)


def _first(patterns: list[re.Pattern[str]], text: str) -> str:
    for pattern in patterns:
        for match in pattern.finditer(text):
            levels = "" if _is_denied(text, match) else _levels_of(text, match)
            if levels:
                return levels
    return ""


def _levels_of(text: str, match: re.Match[str]) -> str:
    """Return the levels of a match by what stands around its numbers."""
    low, high = int(match["min"]), int(match["max"] or match["min"])
    if match["max"]:
        return f"{low}-{high}" if low <= high else ""
    before, after = text[: match.start("min")], text[match.end("min") :]
    if _UPPER_END.search(before) or _IS_UPPER_END.match(after):
        return ""
    is_open = _OPEN_AFTER.match(after) or _OPEN_BEFORE.search(before)
    return f"{low}+" if is_open else f"{low}-{low}"


def _is_denied(text: str, match: re.Match[str]) -> bool:
    """Whether the clause of a match says that it is not so, or is so no more."""
    # A colon may stand between a label and its number, and is no end of a clause there.
    before = _CLAUSE_END.split(text[: match.start()])[-1] + match[0]
    after = _CLAUSE_END.split(text[match.end() :])[0]
    return _DENIED.search(before) is not None or _PAST.search(after) is not None


def _in_digits(text: str) -> str:
    """Return a text with numbers in digits, and `level` before them however it is written."""
    text = _NUMBER_WORD.sub(lambda match: str(_NUMBERS[match[0].lower()]), text)
    return _LEVEL_WORD.sub("level ", text)


def _without_asides(text: str, zone: str) -> str:
    """Return a sentence without what is in brackets behind other names than the zone's."""

    def kept(match: re.Match[str]) -> str:
        is_of_zone = text[: match.start()].endswith(zone)
        return match[0].replace("(", "").replace(")", "") if is_of_zone else ""

    return _BRACKET.sub(kept, text)
