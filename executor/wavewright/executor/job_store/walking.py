"""Messages are forgotten a part at a time: one rule for every store.

Rows are looked at in the order in which they came, so whoever meets a part that begins with a young one is done: none
that follows is older, unless a clock was set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from wavewright.executor.job_store.records import Walk

MOST_FORGOTTEN: Final = 1_000
"""Rows of each table that one transaction looks at."""

_Rows = Sequence[Sequence[Any]]
"""Numbers of rows, each with its instant, in their order."""


def walk_on(walk: Walk, inbox: _Rows, outbox: _Rows, before: float) -> Walk | None:
    """Return where to look next after these rows; none where nothing older than the instant is left."""
    is_done = not any(rows and rows[0][1] < before for rows in (inbox, outbox))
    return None if is_done else Walk(_last(inbox, walk.inbox), _last(outbox, walk.outbox))


def _last(rows: _Rows, otherwise: int) -> int:
    return int(rows[-1][0]) if rows else otherwise
