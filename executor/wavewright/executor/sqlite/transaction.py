"""SQLite's dialect: how a statement of the job store is executed in the journal's file."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Final

from wavewright.executor.sqlite.database import SqliteTransaction
from wavewright.executor.sqlite.leases import LEASE_COLUMNS, SqliteLeases
from wavewright.executor.store.errors import JournalError
from wavewright.executor.store.leases import HeldLease, LeaseProbe
from wavewright.executor.store.transaction import Row, Statements, StoreTransaction
from wavewright.planner.types import RunId

if TYPE_CHECKING:
    from wavewright.executor.store.job_rows import OutgoingRow

_DELETE_EVENTS: Final = (
    "DELETE FROM result WHERE (key, event) IN (SELECT key, id FROM event WHERE run = $1 AND key IS NOT NULL)",
    "DELETE FROM event WHERE run = $1",
)
# Ids of events that were the newest are given again.
_SHORTEN_INDEX: Final = (
    "UPDATE indexed SET upto = min(upto, (SELECT coalesce(max(id), 0) FROM event)) WHERE upto > 0"
)


_MAX_UNINDEXED: Final = 1000
"""Events that `newest_event` searches without an index before it brings the index up to date."""
_INDEX: Final = """
    INSERT OR IGNORE INTO result SELECT key, id FROM event
    WHERE id > (SELECT upto FROM indexed) AND id <= ? AND key IS NOT NULL ORDER BY key"""
_NEWEST: Final = """
    SELECT run.run, event.seq, event.kind, event.crc, CAST(event.body AS BLOB)
    FROM event JOIN run ON run.no = event.run
    WHERE event.id = (SELECT max(coalesce((SELECT max(id) FROM event WHERE id > $1 AND key = $2), 0),
                                 coalesce((SELECT max(event) FROM result WHERE key = $2), 0)))"""


class SqliteStatements(Statements):
    """Statements in the file, which only one connection at a time can write: there are no locks of rows."""

    for_update: ClassVar[str] = ""
    body_bytes: ClassVar[str] = "CAST(body AS BLOB)"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.written = 0
        """Characters and bytes of the values that were written, as the write-ahead log has to hold them."""

    async def fetch(self, statement: str, *values: object) -> Sequence[Row]:
        return self._run(statement, values).fetchall()

    async def execute(self, statement: str, *values: object) -> None:
        self.written += sum(len(value) for value in values if isinstance(value, str | bytes))
        self._run(statement, values)

    async def defer(self, statement: str, *values: object) -> None:
        await self.execute(statement, *values)

    async def flush(self) -> None:
        """Do nothing: nothing is deferred where there is no server."""

    async def execute_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        for row in rows:
            await self.execute(statement, *row)

    def _run(self, statement: str, values: Sequence[object]) -> sqlite3.Cursor:
        text, order = _positional(statement)
        return self._connection.execute(text, [_bound(values[place]) for place in order])

    async def put_messages(self, messages: Sequence[OutgoingRow]) -> None:
        for *columns, body in messages:
            put = await self.fetch_one(
                """INSERT INTO outbox (message, kind, exchange, routing_key, job, headers, at)
                   VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (message) DO NOTHING RETURNING no""",
                *columns,
            )
            if put is not None:
                await self.execute("INSERT INTO outbox_body VALUES ($1, $2)", put[0], body)

    @staticmethod
    def in_list(parameter: str, kind: str) -> str:
        del kind
        return f"IN (SELECT value FROM json_each({parameter}))"  # noqa: S608 - a parameter

    @staticmethod
    def skip_locked(table: str) -> str:
        del table
        return ""

    async def delete_events(self, runs: Sequence[int]) -> None:
        """Delete the events with their index, and give free pages back to the disk."""
        for run in runs:
            for statement in _DELETE_EVENTS:
                await self.execute(statement, run)
        await self.execute(_SHORTEN_INDEX)
        ((free,),) = await self.fetch("PRAGMA freelist_count")
        for _ in range(free):
            # One page each: Python's driver does not step on through a statement without columns.
            await self.fetch("PRAGMA incremental_vacuum(1)")

    @staticmethod
    def lock_of(parameter: str) -> str:
        # No other process writes the file.
        return parameter

    async def try_lock(self, name: str) -> bool:
        del name
        return True


class SqliteStoreTransaction(SqliteStatements, StoreTransaction):
    """A transaction of the journal in the file."""

    lease_columns: ClassVar[str] = LEASE_COLUMNS
    lease_join: ClassVar[str] = ""

    def __init__(
        self,
        connection: sqlite3.Connection,
        leases: SqliteLeases,
        *,
        now: float,
        held: Mapping[RunId, HeldLease],
        faults: Mapping[RunId, JournalError],
    ) -> None:
        SqliteStatements.__init__(self, connection)
        StoreTransaction.__init__(
            self, now=now, owner=leases.owner, place=str(leases.path), held=held, faults=faults
        )
        self._leases = leases

    async def newest_event(self, key: str) -> Row | None:
        ((last, upto),) = await self.fetch(
            "SELECT (SELECT coalesce(max(id), 0) FROM event), upto FROM indexed"
        )
        if last - upto > _MAX_UNINDEXED:
            upto = self._index(last)
        return await self.fetch_one(_NEWEST, upto, key)

    def _index(self, last: int) -> int:
        """Bring the index of outputs up to that event; return the event up to which it is complete."""
        try:
            with SqliteTransaction(self._connection, patience=0):
                self._connection.execute(_INDEX, (last,))
                self._connection.execute("UPDATE indexed SET upto = max(upto, ?)", (last,))
        except sqlite3.OperationalError:
            # Locked, full or read-only: the search is slower and finds the same.
            pass
        (upto,) = self._connection.execute("SELECT upto FROM indexed").fetchone()
        return int(upto)

    async def _acquire(self, run: RunId, unmoved: int | None) -> HeldLease | LeaseProbe:
        return self._leases.acquire(run, unmoved=unmoved)

    async def _check(self, run: RunId, held: HeldLease) -> None:
        self._leases.check(run, held)

    async def _release(self, held: HeldLease) -> None:
        self._leases.release(held)


@cache
def _positional(statement: str) -> tuple[str, tuple[int, ...]]:
    """Return a statement with question marks, and the place of the value of each."""
    # Python 3.12.0 to 3.12.3 takes a numbered question mark for a name, and warns.
    order = tuple(int(number) - 1 for number in re.findall(r"\$(\d+)", statement))
    return re.sub(r"\$\d+", "?", statement), order


def _bound(value: object) -> object:
    return json.dumps(value) if isinstance(value, list) else value
