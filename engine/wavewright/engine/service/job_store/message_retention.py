"""Retention of messages: which of those that were received or published can be forgotten.

Message ids are removed in parts, in the order of arrival, until a part begins with a recent one.
Deferred messages are removed, too, but for verdicts on packages that are published, which are still
needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from wavewright.engine.service.job_store.records import RetentionCursor, VerdictGiven
from wavewright.engine.service.job_store.rows import read_deferred, read_sent
from wavewright.engine.service.job_store.rules import FINAL_STATES

FORGET_PAGE_SIZE: Final = 1_000
"""Rows of each table that one transaction reads."""
# A tuple of plain words is written as a list of SQL is.
IS_OPEN: Final = f"state NOT IN {tuple(sorted(FINAL_STATES))}"
"""Of a job: it has not ended."""
RUN_OF_OPEN_JOB: Final = f"EXISTS (SELECT 1 FROM job WHERE job.run = run.run AND {IS_OPEN})"  # noqa: S608
"""Of a run: its job has not ended, so that it is still needed."""

_Rows = Sequence[Sequence[Any]]
"""Numbers of rows, each with its instant, in their order."""


def next_cursor(
    cursor: RetentionCursor, inbox: _Rows, outbox: _Rows, before: float
) -> RetentionCursor | None:
    """Return where to look next after these rows; none where nothing older than the instant is
    left.
    """
    if not any(rows and rows[0][1] < before for rows in (inbox, outbox)):
        return None
    return RetentionCursor(_last_number(inbox, cursor.inbox), _last_number(outbox, cursor.outbox))


def orphaned_messages(rows: _Rows) -> list[int]:
    """Return the numbers of old messages whose turn never came.

    Args:
        rows: Of messages that are kept and that nothing has changed for: the number, the text, and
            the latest package and the sent ones of the job that it names, none where that is
            unknown or has ended.
    """
    return [no for no, kept, package, sent in rows if not _is_awaited(kept, package, sent)]


def _is_awaited(kept: str, package: str | None, sent: str | None) -> bool:
    request = read_deferred(kept)
    if not isinstance(request, VerdictGiven) or package is None or sent is None:
        return False
    return request.package in {package, *(sent_package.package for sent_package in read_sent(sent))}


def _last_number(rows: _Rows, otherwise: int) -> int:
    return int(rows[-1][0]) if rows else otherwise
