"""What a job names: the words, figures, places and days of its goal and its inputs.

A figure or a word that stands in neither is the planner's own, see `docs/explanation/confidence.md`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from wavewright.planner.cel.embedded import iterate_strings
from wavewright.planner.plans.figures import figures_in
from wavewright.planner.types import Json


class JobWords:
    """The words and figures that a job gives: those of its goal and of its inputs."""

    def __init__(self, texts: Sequence[Json]) -> None:
        said = " ".join(text for value in texts for _, text in iterate_strings(value)).casefold()
        words = _WORDS.findall(said)
        self._figures = {figure for text in texts for figure in figures_in(text)}
        self._figures |= {
            *_worded_figures(said),
            *(_NUMBERS[word] for word in words if word in _NUMBERS),
        }
        self._places = {
            _ORDINALS[word]
            for before, word in pairwise(("", *words))
            if word in _ORDINALS and before not in _BEFORE_A_UNIT
        }
        self._stems = {_stem(word) for word in words} | _signs_named(said)
        self._days = frozenset(_bounds_of_periods(words))

    def names_figure(self, figure: float) -> bool:
        """Whether a figure is among them; nothing has to name 0."""
        return figure == 0 or figure in self._figures

    def names_place(self, index: Json) -> bool:
        """Whether an ordinal, as in `the second largest`, is the one of an index."""
        return index in self._places

    def names(self, text: str) -> bool:
        """Whether all words, figures and signs of a text are among them; a date may begin or end a
        month or a year that is.
        """
        folded = text.casefold()
        if folded.removesuffix("t00:00:00z") in self._days:
            return True
        figures, signs = [*figures_in(text)], _SIGNS.findall(folded)
        words, years = list[str](), list[str]()
        for word in _WORDS.findall(folded):
            if _YEAR.fullmatch(word):
                years.append(word)
            elif not _DIGIT.search(word):
                words.append(word)
        # A year is a figure of an input, or a word of the goal.
        words += [year for year in years if not self.names_figure(float(year))]
        return (
            bool(words or years or signs or figures)
            and all(self.names_figure(figure) for figure in figures)
            and all(_stem(word) in self._stems for word in words)
            and all(sign in self._stems for sign in signs)
        )


def _stem(word: str) -> str:
    """Return the part of a word that its plural has as well."""
    return word.removesuffix("s")


def _worded_figures(said: str) -> Iterator[float]:
    """Yield the figures that a text gives with a magnitude or as a percentage: `2 million`, `20 %`."""
    for figure, word in _MEASURED.findall(said):
        yield float(figure.replace(",", "")) * _MAGNITUDES[word]


def _signs_named(said: str) -> set[str]:
    """Return the signs and codes of the units that a text names in words, and the other way round."""
    words = {_stem(word) for word in _WORDS.findall(said)} | {*_SIGNS.findall(said)}
    return {_stem(name) for names in _UNIT_NAMES if words & {*names} for name in names}


def _bounds_of_periods(words: Sequence[str]) -> Iterator[str]:
    """Yield the first day, the last one and the one after it of the years and months in a text."""
    dated = {word for word, after in pairwise((*words, "")) if word != "may" or after.isdigit()}
    months = [number for number, month in enumerate(_MONTHS, 1) if month in dated]
    for year in (int(word) for word in words if _YEAR.fullmatch(word)):
        starts = [(dt.date(year, 1, 1), dt.date(year + 1, 1, 1))]
        for month in months:
            after = dt.date(year + month // 12, month % 12 + 1, 1)
            starts.append((dt.date(year, month, 1), after))
            yield f"{year}-{month:02}"
        for first, after in starts:
            yield from (day.isoformat() for day in (first, after - dt.timedelta(1), after))


_DIGIT: Final = re.compile(r"\d")
_WORDS: Final = re.compile(r"[^\W_]+(?:\.\d+)?")
_SIGNS: Final = re.compile("[%‰±<>≈~€$£¥]")
_YEAR: Final = re.compile(r"(?:19|20)\d\d")
_COUNTED: Final = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS: Final = {
    **{word: float(number) for number, word in enumerate(_COUNTED, 2)},
    "half": 0.5,
    "twice": 2.0,
    "dozen": 12.0,
    "twenty": 20.0,
}
"""Figures that people write as words; `one` is often none."""
_ORDINALS: Final = {
    **dict.fromkeys(("second", "2nd"), 1),
    **dict.fromkeys(("third", "3rd"), 2),
    **dict.fromkeys(("fourth", "4th"), 3),
    **dict.fromkeys(("fifth", "5th"), 4),
}
"""The index of an entry that people count by an ordinal."""
_BEFORE_A_UNIT: Final = frozenset({"per", "a", "each", "every", "one"})
"""Words after which a second is a time."""
_MAGNITUDES: Final = {
    **dict.fromkeys(("k", "thousand"), 1e3),
    **dict.fromkeys(("million", "m", "mio"), 1e6),
    **dict.fromkeys(("billion", "bn"), 1e9),
    **dict.fromkeys(("%", "percent", "per cent"), 0.01),
}
_MEASURED: Final = re.compile(
    r"(?<![\w.])(\d[\d,]*(?:\.\d+)?)\s?(per cent|percent|thousand|million|billion|mio|bn|[km]\b|%)"
)
_UNIT_NAMES: Final = (
    ("%", "percent", "percentage"),
    ("€", "eur", "euro"),
    ("$", "usd", "dollar"),
    ("£", "gbp", "pound"),
    ("¥", "jpy", "yen"),
)
_MONTHS: Final = tuple(
    re.findall(
        r"\w+",
        "january february march april may june july august september october november december",
    )
)
