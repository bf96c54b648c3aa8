"""Plain paths, such as `steps.prices.close`, which most expressions are: what they read is found
without the parser.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple


class Read(NamedTuple):
    """One mention of a root."""

    root: str
    """`steps`, `inputs`, `previous`, `item`, `index`, `output`, `goal` or a name that stands for nothing."""
    name: str | None
    """The field below the root, where the text names one: the step's or the input's name."""
    guarded: bool
    """Whether the expression asks `has(steps.<name>)` or `has(previous.<name>)`, or for a field of it,
    anywhere.
    """
    offset: int
    """Where the name stands, or the root where there is none."""


def previous_part(name: str) -> str:
    """Return how a part of the previous run stands among names of steps; no step has such a name."""
    return f"previous/{name}"


_PLAIN_PATH = re.compile(
    r"(?P<root>steps|inputs|previous|item|output)\.(?P<name>(?!(?:in|true|false|null)\b)[A-Za-z_][A-Za-z0-9_]*)"
    r"(?:\.(?!(?:in|true|false|null)\b)[A-Za-z_][A-Za-z0-9_]*){0,8}"
)
"""Paths of which nothing but the root and the first name matters; the four words cannot follow a
dot in CEL.
"""
_MAX_PATH_LENGTH = 1000
"""Characters; far below the length that an expression may have."""


@lru_cache(maxsize=8192)
def plain_read(expression: str) -> Read | None:
    """Return the one read of a plain path, as `reads` would, or None where the expression may be
    more than that.
    """
    path = _match_plain_path(expression)
    if path is None:
        return None
    return Read(path["root"], path["name"], guarded=False, offset=path.start("name"))


def is_plain_path(expression: str) -> bool:
    """Return whether an expression is names joined by dots, of which the first is a root."""
    return _match_plain_path(expression) is not None


def _match_plain_path(expression: str) -> re.Match[str] | None:
    return _PLAIN_PATH.fullmatch(expression) if len(expression) <= _MAX_PATH_LENGTH else None
