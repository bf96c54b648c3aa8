"""Suggestions of existing names for an unknown one; they are shown and never applied."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

_MAX_NAMES_COMPARED = 300
_MAX_LENGTH_COMPARED = 200
"""Limits of compared names, so that a document with many faults costs linear time."""


def similar_names(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Return the known names most similar to `name`, the nearest first, ignoring case."""
    if len(name) > _MAX_LENGTH_COMPARED:
        return []
    folded = {
        other.casefold(): other
        for other in islice(known, _MAX_NAMES_COMPARED)
        if len(other) <= _MAX_LENGTH_COMPARED
    }
    near = difflib.get_close_matches(name.casefold(), folded, n=count, cutoff=0.6)
    return [folded[other] for other in near if folded[other] != name]


def did_you_mean(name: str, known: Iterable[str], count: int = 1) -> str | None:
    """Return `did you mean 'x'?` with at most `count` known names, or None if none is near."""
    near = similar_names(name, known, count)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else None
