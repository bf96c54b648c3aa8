"""Quotes that a judge gives as evidence, looked up in the output that it judges.

A quote counts if it occurs literally; only blanks, line breaks and quotation marks around it may
differ, and a short one counts only as a whole value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property

from wavewright.planner import Json
from wavewright.prompts import prompt_json
from wavewright.reviewer.values import shorten

_MIN_QUOTE_CHARS = 8
"""Characters of a quote that is not a whole value."""
_QUOTATION_MARKS = "\"'\u201c\u201d\u201e\u2018\u2019\u201a«»\u2039\u203a"


class QuoteSource:
    """An output in which quotes are looked up."""

    def __init__(self, output: Json) -> None:
        self._output = output

    def missing(self, quotes: Sequence[str]) -> tuple[str, ...]:
        """Return the quotes that do not occur in the output, or are too short to be evidence."""
        return tuple(quote for quote in quotes if not self.holds(quote))

    def holds(self, quote: str) -> bool:
        """Whether a quote occurs in the output."""
        readings = {_normalized_spaces(quote), _without_marks(quote)} - {""}
        long = [reading for reading in readings if len(reading) >= _MIN_QUOTE_CHARS]
        # Searching a large output as a whole is much faster than taking it apart.
        return (
            any(reading in whole for whole in self._json_texts for reading in long)
            or any(reading in self._values for reading in readings)
            or any(reading in value for value in self._values for reading in long)
        )

    @cached_property
    def _values(self) -> frozenset[str]:
        return frozenset(_normalized_spaces(text) for text in _leaves(self._output))

    @cached_property
    def _json_texts(self) -> tuple[str, str]:
        """The output as JSON: as it is usually written, and as a prompt shows it."""
        return _normalized_spaces(json.dumps(self._output, ensure_ascii=False)), _normalized_spaces(
            prompt_json(self._output)
        )


def quote_fault(quote: str) -> str:
    """Return what is wrong with a quote that is no evidence: a short one may well stand there."""
    if len(_without_marks(quote)) < _MIN_QUOTE_CHARS:
        return (
            f"this quote is too short to be evidence: {quote!r}; copy it with what stands around it, "
            f"at least {_MIN_QUOTE_CHARS} characters"
        )
    return f"this quote does not stand in the output: {shorten(quote, 120)!r}"


def _without_marks(quote: str) -> str:
    return _normalized_spaces(quote).strip(_QUOTATION_MARKS)


def _normalized_spaces(text: str) -> str:
    return " ".join(text.split())


def _leaves(value: Json) -> Iterator[str]:
    """Yield every text of a value, and every number and truth value as JSON writes it."""
    match value:
        case str():
            yield value
        case dict():
            for entry in value.values():
                yield from _leaves(entry)
        case list():
            for entry in value:
                yield from _leaves(entry)
        case _:
            yield json.dumps(value)
