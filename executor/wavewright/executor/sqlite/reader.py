"""A journal's file, open to be read: also on a read-only disk, and while others write it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from wavewright.executor.events.types import Event
from wavewright.executor.sqlite.database import open_journal_file
from wavewright.executor.sqlite.errors import explain_use
from wavewright.executor.sqlite.transaction import SqliteLeases, SqliteStoreTransaction
from wavewright.executor.store import run_queries
from wavewright.executor.store.errors import JournalError
from wavewright.executor.store.journal import RunRow, StoredOutput
from wavewright.executor.store.leases import LEASE_SECONDS, this_owner
from wavewright.executor.store.transaction import TransactionWork
from wavewright.executor.store.writer import run_inline
from wavewright.planner.types import RunId, StepKey

_T = TypeVar("_T")


class JournalReader:
    """Runs and events of a journal's file."""

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
        leases = SqliteLeases(connection, path, owner=this_owner(), clock=clock, seconds=LEASE_SECONDS)
        self._transaction = SqliteStoreTransaction(connection, leases, now=0.0, held={}, faults={})

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; closing again does nothing."""
        self._connection.close()

    def load(self, run: RunId) -> list[Event]:
        """Return the run's events in order; none for a run that does not exist.

        Raises:
            JournalDamaged: one is not what was written, names it; `salvage` returns those before it.
        """
        return self._read(lambda transaction: run_queries.load(transaction, run), run)

    def salvage(self, run: RunId) -> tuple[list[Event], JournalError | None]:
        """Return the run's events up to the first that cannot be read, and what is wrong with that one."""
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
        try:
            return run_inline(ask(self._transaction))
        except sqlite3.Error as error:
            raise explain_use(error, self.path, self._connection, run) from error
