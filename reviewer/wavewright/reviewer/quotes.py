"""Quotes as evidence: do they stand in what they are said to be of?

A *quote* counts if it stands in the output literally, blanks and line breaks aside, and is long enough not to stand
there by chance. It may be a stretch of one text, a whole value, or a stretch of the output as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property

from wavewright.planner.types import Json
from wavewright.prompts import prompt_json

_MIN_QUOTE_CHARS = 8
"""Characters of a quote that is not a whole value."""
_QUOTATION_MARKS = "\"'\u201c\u201d\u2018\u2019«»"


class QuoteSource:
    """An output in which quotes are looked up."""

    def __init__(self, output: Json) -> None:
        self._output = output

    def missing(self, quotes: Sequence[str]) -> tuple[str, ...]:
        """Return the quotes that do not stand in the output, or are too short to be evidence."""
        return tuple(quote for quote in quotes if not self.holds(quote))

    def holds(self, quote: str) -> bool:
        """Whether a quote stands in the output."""
        spaced = _normalized_spaces(quote)
        readings = {spaced, spaced.strip(_QUOTATION_MARKS)} - {""}
        long = [reading for reading in readings if len(reading) >= _MIN_QUOTE_CHARS]
        # Taking a large output apart takes much longer than a look into the whole of it.
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
