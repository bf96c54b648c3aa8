"""Texts that cannot be read, with what stood there when they could."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import accumulate
from typing import TYPE_CHECKING

from wavewright.config.sources import Span

if TYPE_CHECKING:
    from wavewright.planner.diagnostics.diagnostic import Diagnostic


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

    def placed(self, diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
        """Return the diagnostics of what is kept, where it stands in the editor."""
        found: list[Diagnostic] = []
        for diagnostic in diagnostics:
            span = diagnostic.span
            start = None if span is None else self._place(span.start)
            end = None if span is None else self._place(span.end)
            if start is not None and end is not None:
                found.append(replace(diagnostic, span=Span(start, end)))
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
    old, new = good.splitlines(keepends=True), text.splitlines(keepends=True)
    changes = _changes(old, new)
    line = text.count("\n", 0, fault)
    before = [change for change in changes if change[2] <= line]
    for taken_back in filter(None, (before[-1:], before, changes)):
        yield _fixed(old, new, taken_back)


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


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    """Return how many lines two texts have in common from their beginning."""
    length = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
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
