"""SQLite's dialect: the leases of runs, how a statement is executed in the journal's file, and how
one is only read.

A lease is in its run's row, and all that is done to it is part of a caller's transaction, so that
the answer still holds when something is written.
"""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple
from functools import cache
from pathlib import Path
from typing import ClassVar, Final, Self, TypeVar

from wavewright.executor.events.types import Event
from wavewright.executor.sqlite.database import SqliteTransaction, open_journal_file
from wavewright.executor.sqlite.errors import explained
from wavewright.executor.store import run_queries
from wavewright.executor.store.errors import JournalError
from wavewright.executor.store.journal import RunRow, StoredOutput, first_hash
from wavewright.executor.store.leases import (
    LEASE_SECONDS,
    HeldLease,
    LeaseProbe,
    RunHolder,
    check_head,
    probe_before_acquiring,
    read_lease,
    run_lost_error,
    this_owner,
)
from wavewright.executor.store.transaction import Row, Statements, StoreTransaction, TransactionWork
from wavewright.executor.store.writer import run_inline
from wavewright.planner import RunId, StepKey

_T = TypeVar("_T")
_LEASE_COLUMNS: Final = (
    "owner, host, pid, process_start, pid_namespace, run.since, heartbeat, heartbeat_at, lease"
)
"""The columns of `read_lease`, of a run."""


class SqliteLeases:
    """The leases of one owner."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        holder: RunHolder,
        *,
        clock: Callable[[], float],
        seconds: float,
    ) -> None:
        """Keep leases for the holder's owner, each for so many seconds after its last heartbeat."""
        self._connection = connection
        connection.create_function("clock_seconds", 0, clock)
        self.holder = holder
        self.owner = holder.owner
        self._clock = clock
        self._seconds = seconds

    def acquire(self, run: RunId, *, unmoved: int | None = None) -> HeldLease | LeaseProbe:
        """Write this owner into the run's row, or return the lease that must be probed first.

        Args:
            run: The run, new or known.
            unmoved: The heartbeat of a probe that has ended.

        Raises:
            RunBusy: its owner is alive.
            EventDamaged: its events are not those of its head.
        """
        now = self._clock()
        self._connection.execute(
            "INSERT OR IGNORE INTO run (run, created) VALUES (?, ?)", (run, now)
        )
        no, fence, status, *columns = self._connection.execute(
            f"SELECT no, fence, status, {_LEASE_COLUMNS} FROM run WHERE run = ?",  # noqa: S608 - a constant
            (run,),
        ).fetchone()
        lease = read_lease(columns)
        probe = probe_before_acquiring(
            run, lease, owner=self.owner, now=now, unmoved=unmoved, place=self.holder.place
        )
        if probe is not None:
            return probe
        self._connection.execute(
            """UPDATE run SET fence = fence + 1, heartbeat = heartbeat + 1, owner = ?, host = ?, pid = ?,
               process_start = ?, pid_namespace = ?, since = ?, heartbeat_at = ?, lease = ? WHERE no = ?""",
            (*astuple(self.owner), now, now, self._seconds, no),
        )
        last = self._connection.execute(
            "SELECT seq, hash FROM event WHERE run = ? ORDER BY seq DESC LIMIT 1", (no,)
        ).fetchone()
        head = self._connection.execute(
            "SELECT events, hash FROM run_head WHERE run = ?", (no,)
        ).fetchone()
        seq, last_hash = (0, first_hash(run)) if last is None else (last[0] + 1, last[1])
        check_head(run, seq, last_hash, head, place=self.holder.place)
        return HeldLease(no, fence + 1, seq, status is not None, last_hash)

    def check(self, run: RunId, held: HeldLease) -> None:
        """Return where the lease is still held.

        Raises:
            RunLost: another owner has it.
        """
        fence, host, pid = self._connection.execute(
            "SELECT fence, host, pid FROM run WHERE no = ?", (held.no,)
        ).fetchone()
        if fence != held.fence:
            raise run_lost_error(run, pid=pid, host=host, place=self.holder.place)

    def release(self, held: HeldLease) -> None:
        """Take this owner out of the run's row, unless another one stands there."""
        self._connection.execute(
            "UPDATE run SET owner = NULL WHERE no = ? AND fence = ?", (held.no, held.fence)
        )

    def heartbeat(self) -> None:
        """Renew all leases of this owner."""
        self._connection.execute(
            "UPDATE run SET heartbeat = heartbeat + 1, heartbeat_at = ? WHERE owner = ?",
            (self._clock(), self.owner.token),
        )


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
                                 coalesce((SELECT max(named.id) FROM result JOIN event AS named
                                           ON named.id = result.event
                                           WHERE result.key = $2 AND named.key = $2), 0)))"""
"""The index is no part of the chain that `verify` follows, so a row of it that leads to an event with
another key finds nothing.
"""


class SqliteStatements(Statements):
    """Statements in the file, which only one connection at a time can write: there are no locks of
    rows.
    """

    for_update: ClassVar[str] = ""
    body_bytes: ClassVar[str] = "CAST(body AS BLOB)"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.written = 0
        """Characters and bytes of the values that were written, as the write-ahead log has to hold
        them.
        """

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

    @staticmethod
    def in_list(parameter: str, kind: str) -> str:
        del kind
        return f"IN (SELECT value FROM json_each({parameter}))"  # noqa: S608 - a parameter

    @staticmethod
    def body_field(name: str) -> str:
        return f"CASE WHEN json_valid(body) THEN json_extract(body, '$.{name}') END"

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

    lease_columns: ClassVar[str] = _LEASE_COLUMNS
    lease_join: ClassVar[str] = ""

    def __init__(self, connection: sqlite3.Connection, leases: SqliteLeases, now: float) -> None:
        SqliteStatements.__init__(self, connection)
        StoreTransaction.__init__(self, leases.holder, now)
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


class JournalReader:
    """Runs and events of a journal's file, also on a read-only disk, and while others write it.

    >>> from pathlib import Path
    >>> from wavewright.executor import JournalReader
    >>> from wavewright.executor import JournalError
    >>> try:
    ...     JournalReader.open(Path("nowhere.db"))
    ... except JournalError as error:
    ...     print(error.message)
    there is no journal
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, *, clock: Callable[[], float] = time.time
    ) -> None:
        """Read through a connection to the open file; see `open` for a path.

        Args:
            path: The file, for messages.
            connection: To the open journal.
            clock: Seconds since the epoch.
        """
        self.path = path
        self._connection = connection
        holder = RunHolder(this_owner(), str(path))
        leases = SqliteLeases(connection, holder, clock=clock, seconds=LEASE_SECONDS)
        self._transaction = SqliteStoreTransaction(connection, leases, now=0.0)

    @classmethod
    def open(cls, path: Path | str, *, patience: float = 10.0) -> Self:
        """Open a journal to read it, be it on a read-only disk or in use by others.

        Raises:
            JournalError: with the place and the fix.
        """
        path = Path(path)
        return cls(path, open_journal_file(path, patience=patience, is_read_only=True))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; closing again does nothing."""
        self._connection.close()

    def load(self, run: RunId) -> list[Event]:
        """Return the run's events in order; none for a run that does not exist.

        Raises:
            JournalDamaged: one is not what was written, names it; `salvage` returns those before
                it.
        """
        return self._read(lambda transaction: run_queries.load(transaction, run), run)

    def salvage(self, run: RunId) -> tuple[list[Event], JournalError | None]:
        """Return the run's events up to the first that cannot be read, and what is wrong with that
        one.
        """
        try:
            return self._read(lambda transaction: run_queries.salvage(transaction, run), run)
        except JournalError as fault:
            return [], fault

    def find_output(self, key: StepKey) -> StoredOutput | None:
        """Return the newest whole and unblocked output that any run journaled under the key."""
        return self._read(lambda transaction: run_queries.find_output(transaction, key))

    def list_runs(self) -> list[RunRow]:
        """Return all runs, the newest first."""
        return self._read(run_queries.list_runs)

    def find_run(self, prefix: str) -> RunId:
        """Return the run whose id, or whose tail after the last `-`, starts so.

        Raises:
            RunNotFound: none does, or several do.
        """
        return self._read(lambda transaction: run_queries.find_run(transaction, prefix))

    def _read(self, ask: TransactionWork[_T], run: RunId | None = None) -> _T:
        with explained(self.path, self._connection, run):
            return run_inline(ask(self._transaction))


@cache
def _positional(statement: str) -> tuple[str, tuple[int, ...]]:
    """Return a statement with question marks, and the place of the value of each."""
    # Python 3.12.0 to 3.12.3 takes a numbered question mark for a name, and warns.
    order = tuple(int(number) - 1 for number in re.findall(r"\$(\d+)", statement))
    return re.sub(r"\$\d+", "?", statement), order


def _bound(value: object) -> object:
    return json.dumps(value) if isinstance(value, list) else value
