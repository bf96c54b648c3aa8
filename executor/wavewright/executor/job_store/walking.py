"""Messages are forgotten a part at a time: one rule for every store.

Rows are looked at in the order in which they came, so whoever meets a part that begins with a young one is done: none
that follows is older, unless a clock was set. A message that waits for its turn is forgotten like the others, or ids
that nobody knows would pile up for ever; but a verdict on a package that is out has its turn still to come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from wavewright.executor.job_store.records import RetentionCursor, VerdictGiven
from wavewright.executor.job_store.texts import read_deferred, read_sent

FORGET_PAGE_SIZE: Final = 1_000
"""Rows of each table that one transaction looks at."""

_Rows = Sequence[Sequence[Any]]
"""Numbers of rows, each with its instant, in their order."""


def next_cursor(walk: RetentionCursor, inbox: _Rows, outbox: _Rows, before: float) -> RetentionCursor | None:
    """Return where to look next after these rows; none where nothing older than the instant is left."""
    is_done = not any(rows and rows[0][1] < before for rows in (inbox, outbox))
    return (
        None
        if is_done
        else RetentionCursor(_last_number(inbox, walk.inbox), _last_number(outbox, walk.outbox))
    )


def orphaned_messages(rows: _Rows) -> list[int]:
    """Return the numbers of old messages whose turn never came.

    Args:
        rows: Of messages that are kept and that nothing has changed for: the number, the text, and the latest package
            and the sent ones of the job that it names, none where that is unknown or has ended.
    """
    return [no for no, kept, package, sent in rows if not _is_awaited(kept, package, sent)]


def _is_awaited(kept: str, package: str | None, sent: str | None) -> bool:
    request = read_deferred(kept)
    if not isinstance(request, VerdictGiven) or package is None or sent is None:
        return False
    return request.package in {package, *(one.package for one in read_sent(sent))}


def _last_number(rows: _Rows, otherwise: int) -> int:
    return int(rows[-1][0]) if rows else otherwise
