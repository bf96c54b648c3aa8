"""Removing runs from the journal's file.

The trigger on `event` refuses to delete events of a run that exists, so a run's own row goes first and its events
after it, in one transaction: no part of a run can be removed. The pages that get free are given back to the disk,
where the file was made for that.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.executor.store.retention import LINKING_EVENTS, LINKS_PAGE_SIZE, RunGroup, RunLink, links_in
from wavewright.planner.types import RunId

_REMOVABLE: Final = """
    SELECT run FROM run
    WHERE status IN ('achieved', 'not_achieved', 'failed') AND finished < ? AND NOT EXISTS (
        SELECT 1 FROM job WHERE job.run = run.run AND state NOT IN ('completed', 'failed', 'dead'))"""
_PART: Final = f"SELECT max(id) FROM (SELECT id FROM event WHERE id > ? ORDER BY id LIMIT {LINKS_PAGE_SIZE})"  # noqa: S608 - a constant
_LINKS: Final = f"""
    SELECT run.run, kind, CAST(body AS BLOB) FROM event JOIN run ON run.no = event.run
    WHERE event.id > ? AND event.id <= ? AND {LINKING_EVENTS}"""  # noqa: S608 - a constant
_LAST: Final = 2**63 - 1
_BYTES: Final = "SELECT coalesce(sum(length(CAST(body AS BLOB))), 0) FROM event WHERE run = ?"
_REMOVE: Final = (
    "DELETE FROM run WHERE no = ?",
    "DELETE FROM result WHERE (key, event) IN (SELECT key, id FROM event WHERE run = ? AND key IS NOT NULL)",
    "DELETE FROM event WHERE run = ?",
)
# Ids of events that were the newest are given again.
_SHORTEN_INDEX: Final = (
    "UPDATE indexed SET upto = min(upto, (SELECT coalesce(max(id), 0) FROM event)) WHERE upto > 0"
)


class SqliteRunRemoval:
    """The removing side of an open journal in a file."""

    def __init__(self, journal: SqliteJournal) -> None:
        self._journal = journal
        self._store = journal.store

    async def removable(self, before: float) -> list[RunId]:
        """Return runs that ended before an instant, that nobody holds and whose job is not open, the oldest first."""
        return await self._journal.transact(partial(self._removable, before))

    async def links(self, after: int) -> tuple[list[RunLink], int | None]:
        """Return the links in the next events after one, and where to go on; None where no event is left."""

        def ask() -> tuple[list[RunLink], int | None]:
            ((last,),) = self._rows(_PART, after)
            return links_in(self._rows(_LINKS, after, last)) if last is not None else [], last

        return await self._journal.transact(ask)

    async def remove(self, runs: RunGroup, before: float, looked_at: int) -> int | None:
        """Remove all of the runs in one transaction and return the bytes of their events; see `RunRemoval`."""
        return await self._journal.transact(partial(self._remove, runs, before, looked_at))

    def _removable(self, before: float) -> list[RunId]:
        rows = self._rows(f"{_REMOVABLE} ORDER BY finished, no", before)
        return [run for (run,) in rows if not self._store.is_held(run)]

    def _remove(self, runs: RunGroup, before: float, looked_at: int) -> int | None:
        wanted = set(runs)
        for run in runs:
            if not self._rows(f"{_REMOVABLE} AND run = ?", before, run) or self._store.is_held(run):
                return None
        if any(
            (run in wanted) != (other in wanted)
            for run, other in links_in(self._rows(_LINKS, looked_at, _LAST))
        ):
            return None
        size = 0
        for run in runs:
            ((no,),) = self._rows("SELECT no FROM run WHERE run = ?", run)
            ((length,),) = self._rows(_BYTES, no)
            size += length
            for statement in _REMOVE:
                self._rows(statement, no)
        self._rows(_SHORTEN_INDEX)
        self._give_pages_back()
        return size

    def _give_pages_back(self) -> None:
        """Shorten the file by its free pages."""
        ((free,),) = self._rows("PRAGMA freelist_count")
        for _ in range(free):
            # One page each: Python's driver does not step on through a statement without columns.
            self._rows("PRAGMA incremental_vacuum(1)")

    def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        return self._store.query(statement, *values)
