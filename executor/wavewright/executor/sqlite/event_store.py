"""The journal's tables in its file, open to one owner.

The *store* is synchronous and used by one thread at a time. Every write names the *fence* under
which this owner holds the run and is refused, in the same transaction, once another owner has a
higher one. A transaction is written whole or not at all, and what one run cannot write costs no
other run anything.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from wavewright.config.errors import WavewrightError
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
    RunHolder,
    this_owner,
)
from wavewright.executor.store.transaction import TransactionWork
from wavewright.executor.store.writer import run_inline
from wavewright.planner.types import RunId

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


class SqliteEventStore(RunHolder):
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
        self.lease = lease
        self.last_write = 0.0
        """Seconds that the last transaction took."""
        owner = owner or this_owner()
        super().__init__(owner, str(self.path))
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up all runs and close the file; closing again does nothing."""
        try:
            for run in list(self.held):
                self.release(run)
        except JournalError:
            # The process ends, and the next owner finds it gone.
            pass
        finally:
            self._connection.close()

    # Owning runs

    def claim(self, run: RunId, *, unmoved: int | None = None) -> LeaseProbe | None:
        """Become the run's owner; or return the lease that must be probed first.

        Args:
            run: The run, new or known.
            unmoved: The heartbeat of a probe that has ended.

        Raises:
            RunBusy: its owner is alive.
        """
        self._begin_claim(run)
        (probe,) = self.execute(
            [lambda transaction: transaction.acquire(run, unmoved=unmoved)], run
        )
        assert probe is None or isinstance(probe, LeaseProbe)
        return probe

    def release(self, run: RunId) -> None:
        """Give the run up; nothing where it is not held."""
        try:
            if run in self.held:
                self.execute([lambda transaction: transaction.release(run)], run)
        finally:
            self._note_leases({}, [run])

    def heartbeat(self) -> None:
        """Show that the owner of the held runs is alive. A heartbeat that cannot be written is left
        out.
        """
        if self.held:
            # A full disk or a lock fails the next append; on this machine the process itself is
            # inspected.
            with suppress(sqlite3.Error), self._transaction():
                self._leases.heartbeat()

    # Transactions of others in the file

    def execute(
        self, works: Sequence[TransactionWork[Any]], run: RunId | None = None
    ) -> list[object]:
        """Return the results of the works, which are done in one transaction; messages of errors
        name the run.

        Raises:
            JournalError: nothing was written.
        """
        with explained(self.path, self._connection, run):
            return self._commit([], works, patience=self._patience)

    def read(self, ask: TransactionWork[_T]) -> _T:
        """Return an answer from the file.

        Raises:
            JournalError: the file cannot be read.
        """
        try:  # `explained` would take as long as the rest
            return run_inline(ask(self._begin()))
        except DATABASE_ERRORS as error:
            raise explain_use(error, self.path, self._connection) from error

    def _begin(self) -> SqliteStoreTransaction:
        return SqliteStoreTransaction(self._connection, self._leases, self._clock())

    # Writing

    def write(
        self, entries: Sequence[AppendEntry], *, may_wait: bool = True
    ) -> dict[RunId, JournalError]:
        """Write the entries in one transaction and return, run by run, what could not be written
        and why.

        Nothing more is written to a run that is returned, until it is claimed again.

        Raises:
            DatabaseLocked: `may_wait` is false and another connection has the lock; nothing was
                written.
        """
        good = [entry for entry in entries if entry.run not in self.faults]
        started = time.perf_counter()
        try:
            if good:
                self._commit(good, [], patience=self._patience if may_wait else 0)
        except sqlite3.Error as error:
            if not may_wait and isinstance(error, sqlite3.OperationalError) and is_locked(error):
                raise DatabaseLocked from error
            self._write_apart(good, error)
        except JournalError as error:
            self._write_apart(good, error)
        self.last_write = time.perf_counter() - started
        return {entry.run: self.faults[entry.run] for entry in entries if entry.run in self.faults}

    def _write_apart(
        self, entries: Sequence[AppendEntry], error: sqlite3.Error | JournalError
    ) -> None:
        """Write each run's entries by themselves after they failed together; note the fault of a
        lone run.
        """
        runs = dict.fromkeys(entry.run for entry in entries)
        if len(runs) > 1:
            for run in runs:
                self.write([entry for entry in entries if entry.run == run])
            return
        (run,) = runs
        fault = (
            error
            if isinstance(error, JournalError)
            else explain_use(error, self.path, self._connection, run)
        )
        self.faults[run] = fault

    def write_and_execute(
        self, entries: Sequence[AppendEntry], works: Sequence[TransactionWork[Any]]
    ) -> list[object] | None:
        """Write the entries and do the works in one transaction; return the results, None where
        nothing was done.
        """
        if any(entry.run in self.faults for entry in entries):
            return None
        try:
            return self._commit(entries, works, patience=self._patience)
        except (sqlite3.Error, JournalError):
            return None

    def _commit(
        self,
        entries: Sequence[AppendEntry],
        works: Sequence[TransactionWork[Any]],
        *,
        patience: float,
    ) -> list[object]:
        """Write the entries and do the works in one transaction; return the results of the works."""
        self._check_place()
        self.log.preallocate()
        with self._transaction(patience):
            runs = dict.fromkeys(entry.run for entry in entries)
            held = {run: self._fenced_lease(run) for run in runs}
            heads = self._insert_events(entries, held)
            finished = self._update_runs(entries, held)
            changes = self._connection.total_changes
            results, transaction = self._do_works(entries, works, held)
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

    def _update_runs(
        self, entries: Sequence[AppendEntry], held: Mapping[RunId, HeldLease]
    ) -> dict[RunId, bool]:
        """Bring labels and rows of the runs up to date and return which of them have ended."""
        finished = {run: lease.is_finished for run, lease in held.items()}
        for entry in entries:
            no = held[entry.run].no
            if entry.labels:
                self._connection.executemany(_LABEL, [(*label, no) for label in entry.labels])
            finished[entry.run] = self._update_run(entry, no, is_finished=finished[entry.run])
        return finished

    def _do_works(
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
            run_inline(rows.write(transaction, list(held)))
        return [run_inline(work(transaction)) for work in works], transaction

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

    def _update_run(self, entry: AppendEntry, no: int, *, is_finished: bool) -> bool:
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
                counted = run_inline(
                    run_queries.count_steps(SqliteStatements(self._connection), [no])
                )
                counts = counted.get(no, (0, 0, 0))
                self._connection.execute(
                    "UPDATE run SET status = ?, finished = ?, steps = ?, ok = ?, failed = ? WHERE no = ?",
                    (mark.status, mark.at, *counts, no),
                )
                is_finished = True
        return is_finished

    def _transaction(self, patience: float = 0.0) -> SqliteTransaction:
        return SqliteTransaction(self._connection, patience)
