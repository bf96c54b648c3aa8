"""Paragraphs that fit a terminal, counted in the columns that they take there.

A *column* is what one Latin letter takes; a Chinese character takes two. Every character of a paragraph prints, so no
text of a plan moves the cursor, hides a line or shows as another text.
"""

from __future__ import annotations

import re
import textwrap

from wavewright.planner.rendering import display_columns, printable

_SECOND_HALF = "\x00"
"""Stands for a character's second column while lines are cut; `printable` leaves none in a text."""


def wrap_paragraph(text: str, *, indent: str = "", rest: str = "", width: int = 80) -> list[str]:
    """Return a paragraph as lines, the first behind one indent, the others behind another.

    Lines are cut at spaces, and between wide characters, whose scripts have none; a longer word sticks out.
    """
    shown = printable(" ".join(text.split()))
    measured = "".join(char + _SECOND_HALF * (display_columns(char) - 1) for char in shown)
    wrapper = _ColumnWrapper(width, initial_indent=indent, subsequent_indent=rest, break_long_words=False)
    return [line.replace(_SECOND_HALF, "") for line in wrapper.wrap(measured)] or [""]


class _ColumnWrapper(textwrap.TextWrapper):
    """May cut a line behind each wide character."""

    def _split(self, text: str) -> list[str]:
        return [part for word in super()._split(text) for part in _AFTER_WIDE_CHARACTER.split(word) if part]


_AFTER_WIDE_CHARACTER = re.compile(f"(?<={_SECOND_HALF})")
