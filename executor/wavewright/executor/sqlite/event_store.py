"""The journal's tables in its file, open to one owner.

The *store* is used by one thread at a time, and its coroutines never wait. What every write
promises says `EventStore`.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from wavewright.config import WavewrightError
from wavewright.executor.events.types import RunStarted
from wavewright.executor.sqlite.database import SqliteTransaction, WriteAheadLog, open_journal_file
from wavewright.executor.sqlite.errors import DATABASE_ERRORS, explain_use, explained, is_locked
from wavewright.executor.sqlite.transaction import (
    JournalReader,
    SqliteLeases,
    SqliteStatements,
    SqliteStoreTransaction,
)
from wavewright.executor.store import run_queries
from wavewright.executor.store.entries import AppendEntry
from wavewright.executor.store.errors import JournalError, JournalNotWritten
from wavewright.executor.store.journal import next_hash
from wavewright.executor.store.leases import (
    LEASE_SECONDS,
    HeldLease,
    LeaseProbe,
    Owner,
    this_owner,
)
from wavewright.executor.store.stored_journal import EventStore
from wavewright.executor.store.transaction import QueuedTransaction, TransactionWork
from wavewright.planner import RunId

_LONG_LOG: Final = 4 * 2**20
"""Bytes of the write-ahead log after which it is copied into the file."""
_COMMIT_BYTES: Final = 4 * 4096
"""What a commit adds to the log beside the events' texts: the last page of the table, of its index,
of the heads, and a run's.
"""

_CHANGE_BYTES: Final = 3 * 4096
"""What a changed row of another table adds, beside long texts: its table's page, and those of its
indexes.
"""

_INSERT: Final = """
    INSERT INTO event (run, seq, at, kind, step, status, key, crc, body, hash)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_HEAD: Final = "INSERT OR REPLACE INTO run_head (run, events, hash) VALUES (?, ?, ?)"
_LABEL: Final = "INSERT OR IGNORE INTO run_label (kind, value, run) VALUES (?, ?, ?)"


_T = TypeVar("_T")


class DatabaseLocked(WavewrightError):
    """Another connection has the lock, and the caller did not want to wait."""


class SqliteEventStore(EventStore):
    """The journal's database, open."""

    def __init__(
        self,
        path: Path | str,
        *,
        owner: Owner | None = None,
        clock: Callable[[], float] = time.time,
        lease: float = LEASE_SECONDS,
        patience: float = 10.0,
    ) -> None:
        """Open the file, and create it where there is none.

        Args:
            path: The file.
            owner: Who opens it; this process where not given.
            clock: Seconds since the epoch.
            lease: Seconds for which an owner on another machine is believed without a heartbeat.
            patience: Seconds to wait for another program's lock.

        Raises:
            JournalError: with the place and the fix.
        """
        self.path = Path(path)
        self.lock = threading.RLock()
        """Held while the file is used: by the writer thread, or by the event loop for a lone append."""
        self.last_write = 0.0
        """Seconds that the last transaction took."""
        owner = owner or this_owner()
        super().__init__(owner, str(self.path), lease)
        self.token = owner.token
        """Tells this opening of the journal from all others."""
        self._clock = clock
        self._patience = patience
        self._connection = open_journal_file(self.path, patience=patience)
        self.log = WriteAheadLog(self.path, self._connection, long=_LONG_LOG)
        status = self.path.stat()
        self._place = (status.st_dev, status.st_ino)
        self.reader = JournalReader(self.path, self._connection, clock=clock)
        self._leases = SqliteLeases(self._connection, self, clock=clock, seconds=lease)

    async def close(self) -> None:
        try:
            for run in list(self.held):
                await self.release(run)
        except JournalError:
            # The process ends, and the next owner finds it gone.
            pass
        finally:
            with self.lock:
                self._connection.close()

    def checkpoint(self) -> None:
        """Copy the write-ahead log into the file where it is long."""
        if self.log.needs_checkpoint:
            with self.lock:
                self.log.checkpoint()

    # Owning runs

    async def claim(self, run: RunId, *, unmoved: int | None = None) -> LeaseProbe | None:
        self._begin_claim(run)
        (probe,) = await self.execute(
            [lambda transaction: transaction.acquire(run, unmoved=unmoved)], run
        )
        assert probe is None or isinstance(probe, LeaseProbe)
        return probe

    async def heartbeat(self) -> None:
        """Show that the owner of the held runs is alive. A heartbeat that cannot be written is left
        out.
        """
        if self.held:
            # A full disk or a lock fails the next append; on this machine the process itself is
            # inspected.
            with self.lock, suppress(sqlite3.Error), self._transaction():
                self._leases.heartbeat()

    # Transactions of others in the file

    async def execute(
        self, works: Sequence[TransactionWork[Any]], run: RunId | None = None
    ) -> list[object]:
        with explained(self.path, self._connection, run):
            return await self._commit([], works, patience=self._patience)

    @staticmethod
    def is_at_fault(error: JournalError) -> bool:
        return isinstance(error.__cause__, sqlite3.Error)

    async def read(self, ask: TransactionWork[_T]) -> _T:
        try:  # `explained` would take as long as the rest
            with self.lock:
                return await ask(self._begin())
        except DATABASE_ERRORS as error:
            raise self._explained(error) from error

    def _begin(self) -> SqliteStoreTransaction:
        return SqliteStoreTransaction(self._connection, self._leases, self._clock())

    # Writing

    async def write(
        self, entries: Sequence[AppendEntry], *, may_wait: bool = True
    ) -> dict[RunId, JournalError]:
        """Write the entries as every store does.

        Raises:
            DatabaseLocked: `may_wait` is false and another connection has the lock; nothing was
                written.
        """
        good = [entry for entry in entries if entry.run not in self.faults]
        started = time.perf_counter()
        try:
            if good:
                await self._commit(good, [], patience=self._patience if may_wait else 0)
        except sqlite3.Error as error:
            if not may_wait and isinstance(error, sqlite3.OperationalError) and is_locked(error):
                raise DatabaseLocked from error
            await self._write_apart(good, error)
        except JournalError as error:
            await self._write_apart(good, error)
        self.last_write = time.perf_counter() - started
        return {entry.run: self.faults[entry.run] for entry in entries if entry.run in self.faults}

    def _explained(self, error: Exception, run: RunId | None = None) -> JournalError:
        if isinstance(error, JournalError):
            return error
        return explain_use(error, self.path, self._connection, run)

    async def write_and_execute(
        self, entries: Sequence[AppendEntry], works: Sequence[QueuedTransaction]
    ) -> tuple[dict[RunId, JournalError], list[object]] | None:
        if any(entry.run in self.faults for entry in entries):
            return None
        try:
            results = await self._commit(
                entries, [queued.work for queued in works], patience=self._patience
            )
        except (sqlite3.Error, JournalError):
            return None
        return {}, results

    async def _commit(
        self,
        entries: Sequence[AppendEntry],
        works: Sequence[TransactionWork[Any]],
        *,
        patience: float,
    ) -> list[object]:
        """Write the entries and do the works in one transaction; return the results of the works."""
        with self.lock:
            return await self._commit_locked(entries, works, patience)

    async def _commit_locked(
        self,
        entries: Sequence[AppendEntry],
        works: Sequence[TransactionWork[Any]],
        patience: float,
    ) -> list[object]:
        self._check_place()
        self.log.preallocate()
        with self._transaction(patience):
            runs = dict.fromkeys(entry.run for entry in entries)
            held = {run: self._fenced_lease(run) for run in runs}
            heads = self._insert_events(entries, held)
            finished = await self._update_runs(entries, held)
            changes = self._connection.total_changes
            results, transaction = await self._do_works(entries, works, held)
            changes = self._connection.total_changes - changes
        size = sum(len(row.body) for entry in entries for row in entry.rows)
        size += _COMMIT_BYTES if entries else 0
        size += 0 if transaction is None else transaction.written + _CHANGE_BYTES * changes
        self.log.record_written(size)
        # What is known of a run changes once it is written.
        for run, (seq, last_hash) in heads.items():
            lease = self.held[run] = held[run]
            lease.seq, lease.last_hash = seq, last_hash
            lease.is_finished = finished[run]
        if transaction is not None:
            self._note_leases(transaction.acquired, transaction.released)
        return results

    def _insert_events(
        self, entries: Sequence[AppendEntry], held: Mapping[RunId, HeldLease]
    ) -> dict[RunId, tuple[int, bytes]]:
        """Add the events, each with the hash of the one before, and return the new head of each
        run: how many events it has, and the last one's hash.
        """
        values: list[tuple[object, ...]] = []
        heads = {run: (lease.seq, lease.last_hash) for run, lease in held.items()}
        for entry in entries:
            no, (seq, last_hash) = held[entry.run].no, heads[entry.run]
            for row in entry.rows:
                last_hash = next_hash(last_hash, row.kind, row.body)
                values.append((no, seq, *row, last_hash))
                seq += 1
            heads[entry.run] = (seq, last_hash)
        self._connection.executemany(_INSERT, values)
        self._connection.executemany(_HEAD, [(held[run].no, *head) for run, head in heads.items()])
        return heads

    async def _update_runs(
        self, entries: Sequence[AppendEntry], held: Mapping[RunId, HeldLease]
    ) -> dict[RunId, bool]:
        """Bring labels and rows of the runs up to date and return which of them have ended."""
        finished = {run: lease.is_finished for run, lease in held.items()}
        for entry in entries:
            no = held[entry.run].no
            if entry.labels:
                self._connection.executemany(_LABEL, [(*label, no) for label in entry.labels])
            finished[entry.run] = await self._update_run(entry, no, is_finished=finished[entry.run])
        return finished

    async def _do_works(
        self,
        entries: Sequence[AppendEntry],
        works: Sequence[TransactionWork[Any]],
        held: Mapping[RunId, HeldLease],
    ) -> tuple[list[object], SqliteStoreTransaction | None]:
        """Write what goes with the entries and do the works; return their results, and the
        transaction where there was something to do.
        """
        alongside = [entry.alongside for entry in entries if entry.alongside is not None]
        if not (alongside or works):
            return [], None
        transaction = self._begin()
        transaction.acquired.update(held)
        for rows in alongside:
            await rows.write(transaction, list(held))
        return [await work(transaction) for work in works], transaction

    def _check_place(self) -> None:
        """Refuse to write into a file that was moved or deleted."""
        try:
            status = os.stat(self.place)  # noqa: PTH116 - Path.stat costs several times as much, at every commit
        except OSError:
            status = None
        if status is None or (status.st_dev, status.st_ino) != self._place:
            raise JournalNotWritten(
                "the journal was moved or deleted while it was open",
                place=self.place,
                hint="put the file and its -wal back and resume the run, or start the job anew",
            )

    def _fenced_lease(self, run: RunId) -> HeldLease:
        """Return how the run is held, within a transaction; claims it where it was not opened yet."""
        held = self.held.get(run)
        if held is not None:
            self._leases.check(run, held)
            return held
        taken = self._leases.acquire(run)
        if isinstance(taken, LeaseProbe):
            raise self.busy_error(run, taken.lease)
        return taken

    async def _update_run(self, entry: AppendEntry, no: int, *, is_finished: bool) -> bool:
        """Bring the run's row up to date and return whether the run has ended."""
        if is_finished and not entry.is_run_end:
            self._connection.execute(
                "UPDATE run SET status = NULL, finished = NULL, steps = NULL WHERE no = ?", (no,)
            )
            is_finished = False
        for mark in entry.run_events:
            if isinstance(mark, RunStarted):
                self._connection.execute(
                    "UPDATE run SET job = ?, created = ? WHERE no = ?", (mark.job, mark.at, no)
                )
            else:
                counted = await run_queries.count_steps(SqliteStatements(self._connection), [no])
                counts = counted.get(no, (0, 0, 0))
                self._connection.execute(
                    "UPDATE run SET status = ?, finished = ?, steps = ?, ok = ?, failed = ? WHERE no = ?",
                    (mark.status, mark.at, *counts, no),
                )
                is_finished = True
        return is_finished

    def _transaction(self, patience: float = 0.0) -> SqliteTransaction:
        return SqliteTransaction(self._connection, patience)
