"""Figures in values and in texts, and which of them are hardly there by chance."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Final

from wavewright.planner.cel.embedded import iterate_strings
from wavewright.planner.types import Json

_FIGURE: Final = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?![\w])")
YEARS: Final = range(1900, 2101)
"""Whole figures that are years in a text."""
_LARGEST: Final = sys.float_info.max
"""A whole number beyond it, which some tools return, is nobody's figure."""
_MIN_DIGITS: Final = 3
"""Significant digits of a figure that is taken for the same one elsewhere."""


def figures_in(value: Json) -> Iterator[float]:
    """Yield the numbers in a value and in its texts; a year in a text is none."""
    yield from numbers_in(value)
    for _, text in iterate_strings(value):
        for written in _FIGURE.findall(text):
            figure = float(written.replace(",", ""))
            if figure not in YEARS:
                yield figure


def numbers_in(value: Json) -> Iterator[float]:
    """Yield the numbers in a value, without those in its texts."""
    match value:
        case bool() | None | str():
            return
        case int() | float():
            if abs(value) <= _LARGEST:
                yield float(value)
        case list():
            for entry in value:
                yield from numbers_in(entry)
        case dict():
            for entry in value.values():
                yield from numbers_in(entry)


def is_telling(figure: float) -> bool:
    """Whether a figure is hardly there by chance, as 1234.5 is and 100 or 30 are not."""
    digits = f"{abs(figure):.12g}".replace(".", "").strip("0")
    return len(digits) >= _MIN_DIGITS
