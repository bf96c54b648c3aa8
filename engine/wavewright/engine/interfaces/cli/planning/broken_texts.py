"""Texts that cannot be read, with what stood there when they could."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from wavewright.config import Span

if TYPE_CHECKING:
    from wavewright.planner import Diagnostic


@dataclass(frozen=True, slots=True)
class Stretch:
    """Lines that two texts have in common, by where they begin and how long they are."""

    before: int
    after: int
    length: int


@dataclass(frozen=True, slots=True)
class FixedText:
    """A text in which some stretches are those of an earlier one."""

    text: str
    kept: tuple[Stretch, ...]
    """What is as it stands in the editor: its places in this text and in that of the editor."""

    def span(self, span: Span) -> Span | None:
        """Return where a stretch stands in the editor; None where an end of it does not."""
        start, end = self._place(span.start), self._place(span.end)
        return None if start is None or end is None else Span(start, end)

    def span_around(self, span: Span) -> Span:
        """Return the smallest kept stretch of the editor's text that holds what became of another."""
        starts = (
            min(span.start - kept.before, kept.length) + kept.after
            for kept in self.kept
            if kept.before <= span.start
        )
        ends = (
            max(span.end - kept.before, 0) + kept.after
            for kept in self.kept
            if span.end <= kept.before + kept.length
        )
        return Span(max(starts), min(ends))

    def placed(self, diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
        """Return the diagnostics of what is kept, where it stands in the editor."""
        found: list[Diagnostic] = []
        for diagnostic in diagnostics:
            span = None if diagnostic.span is None else self.span(diagnostic.span)
            if span is not None:
                found.append(replace(diagnostic, span=span))
        return found

    def _place(self, offset: int) -> int | None:
        for stretch in self.kept:
            if stretch.before <= offset <= stretch.before + stretch.length:
                return offset - stretch.before + stretch.after
        return None


def fixed_texts(good: str, text: str, fault: int) -> Iterator[FixedText]:
    """Yield what a text may become when what was changed around a fault is taken back: the change
    at the fault, then all before it, then all.
    """
    old, new = _lines_of(good), _lines_of(text)
    changes = _changes(old, new)
    line = len(_lines_of(text[:fault] + ".")) - 1
    before = [change for change in changes if change[2] <= line]
    for taken_back in filter(None, (before[-1:], before, changes)):
        yield _fixed(old, new, taken_back)


def kept_of(good: str, text: str) -> FixedText:
    """Return a good text with the stretches of it that a later text has kept."""
    old, new = _lines_of(good), _lines_of(text)
    return _fixed(old, new, _changes(old, new))


_Change = tuple[int, int, int, int]
"""Lines of the good text, and the lines that stand there now."""


def _changes(old: list[str], new: list[str]) -> list[_Change]:
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    before, after = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(before) * len(after) > _COMPARED:
        return [(head, len(old) - tail, head, len(new) - tail)]
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return [
        (head + a, head + b, head + c, head + d)
        for kind, a, b, c, d in matcher.get_opcodes()
        if kind != "equal"
    ]


_COMPARED = 100_000
"""Pairs of lines; where there are more, all that was changed counts as one change."""


def line_starts(text: str) -> list[int]:
    """Return where the lines of a text begin, as editors break them."""
    return [0, *(line_break.end() for line_break in _LINE_BREAK.finditer(text))]


_LINE_BREAK: Final = re.compile(r"\r\n|\n|\r")


def _lines_of(text: str) -> list[str]:
    """Return the lines of a text with their line breaks; none behind the last break."""
    starts = line_starts(text)
    lines = [text[start:end] for start, end in pairwise([*starts, len(text)])]
    return lines if lines[-1] else lines[:-1]


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    """Return how many lines two texts have in common from their beginning."""
    length = 0
    for line, other in zip(first, second, strict=False):
        if line != other:
            break
        length += 1
    return length


def _fixed(old: list[str], new: list[str], taken_back: list[_Change]) -> FixedText:
    starts = [0, *accumulate(map(len, new))]
    parts: list[str] = []
    kept: list[Stretch] = []
    length, line = 0, 0
    for a, b, c, d in [*taken_back, (len(old), len(old), len(new), len(new))]:
        same = "".join(new[line:c])
        kept.append(Stretch(length, starts[line], len(same)))
        parts += [same, *old[a:b]]
        length += len(same) + sum(map(len, old[a:b]))
        line = d
    return FixedText("".join(parts), tuple(kept))
