"""Say which recorded request is most like one that was not recorded, and where they differ."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from wavewright.tools.models.cassette_requests import RenderedRequest

_MAX_LINES = 40
_WIDTH = 110
_MAX_CANDIDATES = 8
"""Requests that are compared in full, after a quick look at all."""


def describe_miss(path: Path, asked: RenderedRequest, recorded: Sequence[RenderedRequest]) -> str:
    """Return why a cassette has no answer: the nearest recorded request, and the difference to it."""
    if not recorded:
        return f"the cassette {path} has no answer to this request: it is empty"
    lines = list(_lines(asked))
    number, likeness, nearest = _nearest_request(lines, recorded)
    percent = min(int(likeness * 100), 99)
    count = f"{len(recorded)} {'request' if len(recorded) == 1 else 'requests'}"
    head = (
        f"the cassette {path} has no answer to this request; of its {count}, number {number} is the nearest "
        f"({percent} % alike):"
    )
    difference = list(
        difflib.unified_diff(
            nearest, lines, f"request {number} of {path.name}", "this request", n=1, lineterm=""
        )
    )
    shown = difference[:_MAX_LINES]
    if len(difference) > len(shown):
        shown.append(f"… and {len(difference) - len(shown)} lines more")
    return "\n".join([head, *shown])


def _nearest_request(asked: list[str], recorded: Sequence[RenderedRequest]) -> tuple[int, float, list[str]]:
    matcher: difflib.SequenceMatcher[str] = difflib.SequenceMatcher(autojunk=False)
    # What stays the same between comparisons is the second text.
    matcher.set_seq2(asked)
    rough: list[tuple[float, int, list[str]]] = []
    for number, request in enumerate(recorded, start=1):
        lines = list(_lines(request))
        matcher.set_seq1(lines)
        rough.append((matcher.quick_ratio(), number, lines))
    rough.sort(key=lambda one: (-one[0], one[1]))
    best = (-1.0, 0, list[str]())
    for _, number, lines in rough[:_MAX_CANDIDATES]:
        matcher.set_seq1(lines)
        likeness = matcher.ratio()
        if likeness > best[0]:
            best = (likeness, number, lines)
    return best[1], best[0], best[2]


def _lines(request: RenderedRequest) -> Iterator[str]:
    """Yield a request's lines, long ones in pieces: a difference far to the right is seen too."""
    for line in json.dumps(request, ensure_ascii=False, indent=1).split("\n"):
        yield from (line[start : start + _WIDTH] for start in range(0, len(line), _WIDTH))
