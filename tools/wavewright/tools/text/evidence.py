"""Quotes held against the text that they are taken from.

A quote is *literal* where its characters stand in the text in this order; only the white space between them may
differ, because line breaks and indents are lost when a text is shown.
"""

from __future__ import annotations

import re

from wavewright.planner.types import Json, JsonObject

MIN_QUOTE = 3
"""Characters of a quote that can be evidence of anything."""


def find_quote(quote: str, text: str) -> tuple[int, int] | None:
    """Return where a quote stands in a text, the first time, in characters; nothing where it does not."""
    words = quote.split()
    if len("".join(words)) < MIN_QUOTE:
        return None
    start = text.find(quote)
    if start >= 0:
        return start, start + len(quote)
    found = re.search(r"\s+".join(map(re.escape, words)), text)
    return None if found is None else found.span()


def verify_quotes(quotes: list[str], text: str) -> tuple[list[Json], list[str]]:
    """Return the quotes that stand in the text, as the text has them, with their places; and those that do not."""
    found: list[Json] = []
    missing: list[str] = []
    for quote in dict.fromkeys(quotes):
        place = find_quote(quote, text)
        if place is None:
            missing.append(quote)
        else:
            start, end = place
            entry: JsonObject = {"quote": text[start:end], "start": start, "end": end}
            found.append(entry)
    return found, missing
