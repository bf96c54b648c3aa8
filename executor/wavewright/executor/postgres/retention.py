"""Ids of messages that nobody needs any more are deleted, a part at a time.

Removing runs from the journal's database.

A trigger refuses to delete events of a run that exists, so a run's own row goes first and its events after it, in one
transaction: no part of a run can be removed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from wavewright.executor.postgres.driver import Connection
from wavewright.executor.postgres.journal import PostgresJournal
from wavewright.executor.postgres.run_rows import LEASE_COLUMNS
from wavewright.executor.postgres.writer import LAST_ORDER
from wavewright.executor.store.job_records import RetentionCursor
from wavewright.executor.store.leases import judge_lease, read_lease
from wavewright.executor.store.retention import (
    FORGET_PAGE_SIZE,
    LINKING_EVENTS,
    LINKS_PAGE_SIZE,
    RunGroup,
    RunLink,
    links_in,
    next_cursor,
    orphaned_messages,
)
from wavewright.planner.types import RunId

if TYPE_CHECKING:
    import asyncpg


_OLD_INBOX: Final = f"SELECT no, received FROM inbox WHERE no > $1 ORDER BY no LIMIT {FORGET_PAGE_SIZE}"  # noqa: S608 - a constant
_OLD_OUTBOX: Final = f"SELECT no, at FROM outbox WHERE no > $1 ORDER BY no LIMIT {FORGET_PAGE_SIZE}"  # noqa: S608 - a constant
_FORGET_INBOX: Final = "DELETE FROM inbox WHERE no > $1 AND no <= $2 AND received < $3 AND kept IS NULL"
_OLD_KEPT: Final = """
    SELECT inbox.no, kept, package, sent
    FROM inbox LEFT JOIN job ON job.job = subject AND state NOT IN ('completed', 'failed', 'dead')
    WHERE inbox.no > $1 AND inbox.no <= $2 AND inbox.received < $3 AND kept IS NOT NULL AND NOT is_ripe"""
_FORGET_KEPT: Final = "DELETE FROM inbox WHERE no = ANY($1::bigint[]) AND NOT is_ripe"
_FORGET_OUTBOX: Final = """
    DELETE FROM outbox WHERE no > $1 AND no <= $2 AND sent < $3 AND NOT EXISTS (
        SELECT FROM job WHERE job.job = outbox.job AND job.state NOT IN ('completed', 'failed', 'dead'))"""


async def forget_messages(
    connection: Connection, before: float, beyond: RetentionCursor
) -> RetentionCursor | None:
    """Delete rows of messages from before an instant, but for those that are needed; return where to go on."""
    inbox = await connection.fetch(_OLD_INBOX, beyond.inbox)
    outbox = await connection.fetch(_OLD_OUTBOX, beyond.outbox)
    if inbox:
        part = (beyond.inbox, inbox[-1][0], before)
        await connection.execute(_FORGET_INBOX, *part)
        kept = orphaned_messages([*map(tuple, await connection.fetch(_OLD_KEPT, *part))])
        await connection.execute(_FORGET_KEPT, kept)
    if outbox:
        await connection.execute(_FORGET_OUTBOX, beyond.outbox, outbox[-1][0], before)
    return next_cursor(beyond, [*map(tuple, inbox)], [*map(tuple, outbox)], before)


_REMOVABLE: Final = f"""
    SELECT {LEASE_COLUMNS}, run.run, run.no, clock_seconds() AS now
    FROM run LEFT JOIN opening ON opening.no = run.owner
    WHERE status IN ('achieved', 'not_achieved', 'failed') AND finished < $1 AND NOT EXISTS (
        SELECT FROM job WHERE job.run = run.run AND state NOT IN ('completed', 'failed', 'dead'))"""  # noqa: S608 - constants
_PART: Final = (
    f"SELECT max(id) FROM (SELECT id FROM event WHERE id > $1 ORDER BY id LIMIT {LINKS_PAGE_SIZE}) AS part"  # noqa: S608 - a constant
)
_LINKS: Final = f"""
    SELECT run.run, kind, body FROM event JOIN run ON run.no = event.run
    WHERE event.id > $1 AND event.id <= $2 AND {LINKING_EVENTS}"""  # noqa: S608 - a constant
_LAST: Final = 2**63 - 1
_BYTES: Final = "SELECT coalesce(sum(octet_length(body)), 0)::bigint FROM event WHERE run = ANY($1::bigint[])"


class PostgresRunRemoval:
    """The removing side of an open journal in a database."""

    def __init__(self, journal: PostgresJournal) -> None:
        self._journal = journal

    async def removable(self, before: float) -> list[RunId]:
        """Return runs that ended before an instant, that nobody holds and whose job is not open, the oldest first."""
        rows = await self._journal.read(
            lambda connection: connection.fetch(f"{_REMOVABLE} ORDER BY finished, run.no", before)
        )
        return [RunId(row["run"]) for row in rows if self._is_free(row)]

    async def links(self, after: int) -> tuple[list[RunLink], int | None]:
        """Return the links in the next events after one, and where to go on; None where no event is left."""

        async def ask(connection: Connection) -> tuple[list[RunLink], int | None]:
            last = await connection.fetchval(_PART, after)
            return await _links(connection, after, last) if last is not None else [], last

        return await self._journal.read(ask)

    async def remove(self, runs: RunGroup, before: float, looked_at: int) -> int | None:
        """Remove all of the runs in one transaction and return the bytes of their events; see `RunRemoval`."""
        # What others have locked is passed over, so that this waits for nobody.
        work = partial(self._remove, runs=runs, before=before, looked_at=looked_at)
        return await self._journal.transact(work, place=LAST_ORDER)

    async def _remove(
        self, connection: Connection, _: float, *, runs: RunGroup, before: float, looked_at: int
    ) -> int | None:
        locked = await connection.fetch(
            f"{_REMOVABLE} AND run.run = ANY($2::text[]) FOR UPDATE OF run SKIP LOCKED", before, runs
        )
        numbers = [row["no"] for row in locked if self._is_free(row)]
        if len(numbers) < len(runs):
            return None
        wanted, later = set(runs), await _links(connection, looked_at, _LAST)
        if any((run in wanted) != (other in wanted) for run, other in later):
            return None
        size = int(await connection.fetchval(_BYTES, numbers))
        await connection.execute("DELETE FROM run WHERE no = ANY($1::bigint[])", numbers)
        await connection.execute("DELETE FROM event WHERE run = ANY($1::bigint[])", numbers)
        return size

    def _is_free(self, row: asyncpg.Record) -> bool:
        hold = read_lease(tuple(row)[:9])
        return (
            hold is None
            or judge_lease(hold, now=row["now"], realm=self._journal.store.pid_namespace) == "free"
        )


async def _links(connection: Connection, after: int, last: int) -> list[RunLink]:
    return links_in([(run, kind, body) for run, kind, body in await connection.fetch(_LINKS, after, last)])
