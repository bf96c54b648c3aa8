"""The budget store in the journal's file."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from wavewright.config.sections import BudgetsSection
from wavewright.executor.budgets.stores import StoredBudgetStore
from wavewright.executor.sqlite.database import SqliteTransaction, open_journal_file
from wavewright.executor.sqlite.errors import explain_use
from wavewright.executor.sqlite.transaction import SqliteStatements
from wavewright.executor.store.transaction import Statements
from wavewright.executor.store.writer import InlineRunner

_T = TypeVar("_T")


class SqliteBudgetDatabase:
    """The journal's file, open for the budget store."""

    def __init__(self, path: Path, *, patience: float = 10.0) -> None:
        """Open the journal's file, and create it where there is none.

        Args:
            path: The file.
            patience: Seconds to wait for another program's lock.

        Raises:
            JournalError: with the place and the fix.
        """
        self.path = path
        self.place = str(path)
        self._patience = patience
        self._connection = open_journal_file(path, patience=patience)
        # No step waits for this connection, and the journal's writer counts its own pages only.
        self._connection.execute("PRAGMA wal_autocheckpoint = 1000")

    async def transact(self, work: Callable[[Statements], Awaitable[_T]]) -> _T:
        """Do all of the work in one transaction, or nothing."""
        try:
            with SqliteTransaction(self._connection, self._patience):
                return await work(SqliteStatements(self._connection))
        except sqlite3.Error as error:
            raise explain_use(error, self.path, self._connection) from error

    async def read(self, ask: Callable[[Statements], Awaitable[_T]]) -> _T:
        """Return an answer from the file."""
        try:
            return await ask(SqliteStatements(self._connection))
        except sqlite3.Error as error:
            raise explain_use(error, self.path, self._connection) from error

    async def heartbeat(self) -> None:
        """Do nothing: the file does not show who has it open."""

    async def close(self) -> None:
        """Close the file; closing again does nothing."""
        self._connection.close()


class SqliteBudgetStore(StoredBudgetStore):
    """A budget store in the journal's file."""

    def __init__(
        self,
        path: Path | str,
        budgets: BudgetsSection | None = None,
        clock: Callable[[], float] = time.time,
        *,
        patience: float = 10.0,
    ) -> None:
        """Open the journal's file, and create it where there is none.

        Args:
            path: The journal's file.
            budgets: The configured budgets; none where absent.
            clock: Seconds since the epoch.
            patience: Seconds to wait for another program's lock.

        Raises:
            JournalError: with the place and the fix.
        """
        self.path = Path(path)
        super().__init__(
            SqliteBudgetDatabase(self.path, patience=patience), budgets, clock, runner=InlineRunner
        )
