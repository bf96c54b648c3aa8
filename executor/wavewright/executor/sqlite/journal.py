"""The journal and the budget store in a SQLite file, written beside the event loop.

One writer thread owns the journal's connection, and another one that of the budget store. Only a
*lone* append, which nothing else is expected beside, is written in place while the disk is quick,
since the way to the thread and back takes half as long as the disk itself. Done means synced: what
an `append` reported survives a crash and a power cut.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from wavewright.config.sections import BudgetsSection
from wavewright.executor.budgets.stores import StoredBudgetStore
from wavewright.executor.sqlite.database import (
    SqliteTransaction,
    is_only_readable,
    open_journal_file,
)
from wavewright.executor.sqlite.errors import explained
from wavewright.executor.sqlite.event_store import DatabaseLocked, SqliteEventStore
from wavewright.executor.sqlite.transaction import SqliteStatements
from wavewright.executor.store.entries import AppendBatch, AppendEntry
from wavewright.executor.store.errors import JournalError, JournalNotOpened
from wavewright.executor.store.journal import COMPLETED
from wavewright.executor.store.leases import LEASE_SECONDS
from wavewright.executor.store.stored_journal import StoredJournal
from wavewright.executor.store.transaction import QueuedTransaction, Statements
from wavewright.executor.store.writer import InlineRunner, run_inline
from wavewright.planner import RunId

_INLINE_WRITE_SECONDS: Final = 0.001
"""A disk that took longer for the last commit is not waited for on the event loop."""
_INLINE_EVENTS: Final = 4
"""A step that ends a wave, with the start of the next and its first call."""

_T = TypeVar("_T")


class SqliteJournal(StoredJournal):
    """A journal in a file; many runs and many processes may share it, each run having one owner.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import anyio
    >>> from wavewright.executor import SqliteJournal, StepStarted
    >>> async def kept(path: Path) -> int:
    ...     async with SqliteJournal(path) as journal:
    ...         await journal.open_run("r1")
    ...         await journal.append("r1", [StepStarted(1.0, "a")])
    ...         return len(await journal.load("r1"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     anyio.run(kept, Path(folder) / "runs.db")
    1
    """

    def __init__(
        self,
        path: Path | str,
        *,
        lease: float = LEASE_SECONDS,
        patience: float = 10.0,
        quick: float = _INLINE_WRITE_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open the file, and create it where there is none.

        Args:
            path: The file.
            lease: Seconds for which an owner on another machine is believed without a heartbeat.
            patience: Seconds to wait for another program's lock.
            quick: A lone append is written on the event loop's thread while commits take less; 0
                for never.
            clock: Seconds since the epoch.

        Raises:
            JournalError: with the place and the fix.
        """
        self.path = Path(path)
        self.store = SqliteEventStore(path, lease=lease, patience=patience, clock=clock)
        self._quick = quick
        self._pending = 0
        """Batches handed to the writer that have not come back; a lone append must not overtake
        them.
        """
        self._expects_lone = False
        """Whether the last tick brought one append only."""
        self._is_tick_used = False
        """Whether an append was written in place in this tick, so that any further one is gathered.
        """
        super().__init__(self.store, runner=InlineRunner)

    async def check_writable(self) -> None:
        """Refuse a file that cannot be written, for want of rights or since its disk is read-only.

        Raises:
            JournalNotOpened: it is one.
        """
        if is_only_readable(self.path):
            raise JournalNotOpened(
                "the journal can only be read: the file or its folder is read-only",
                place=str(self.path),
                hint="make file and folder writable, or name another journal",
            )

    # On the event loop

    def _append(self, entry: AppendEntry) -> Awaitable[None]:
        if self._gathering is None and self._is_lone(entry) and self._is_written_in_place(entry):
            return COMPLETED
        return super()._append(entry)

    def _hand_over(self) -> None:
        if (batch := self._gathering) is not None:
            self._expects_lone = len(batch.entries) == 1 and not self._is_tick_used
            self._pending += 1
        super()._hand_over()

    def _resolve(self, batch: AppendBatch, faults: dict[RunId, JournalError]) -> None:
        self._pending -= 1
        super()._resolve(batch, faults)

    def _is_lone(self, entry: AppendEntry) -> bool:
        """Return whether nothing is gained by writing an append together with others, or beside the
        loop.

        Whether more will come in this tick cannot be known; that nothing else came in the last one
        is a good guess, and a wrong one costs a single commit.
        """
        return (
            self._expects_lone
            and not self._is_tick_used
            and self._pending == 0
            and len(entry.rows) <= _INLINE_EVENTS
            and self.store.last_write < self._quick
            and not self.store.log.needs_space
            and self.store.holds(entry.run)
        )

    def _is_written_in_place(self, entry: AppendEntry) -> bool:
        """Write the append in this thread, unless the store or the file is in use.

        Raises:
            JournalError: it cannot be written.
        """
        if not self.store.lock.acquire(blocking=False):
            return False
        try:
            faults = run_inline(self.store.write([entry], may_wait=False))
        except DatabaseLocked:
            return False
        except Exception as error:
            fault = self.store.faults[entry.run] = self._writer.internal_error(error)
            raise fault from error
        finally:
            self.store.lock.release()
        if faults:
            raise faults[entry.run]
        if self.store.log.needs_checkpoint:
            # An empty batch: the writer copies the log after it.
            self._writer.put(AppendBatch(asyncio.get_running_loop()))
            self._pending += 1
        self._is_tick_used = True
        asyncio.get_running_loop().call_soon(self._end_tick)
        return True

    def _end_tick(self) -> None:
        if self._gathering is not None:
            # More came in the tick than the append that was written in place.
            self._hand_over()
        self._is_tick_used = False

    # On the writer thread

    async def _write(self, commands: Sequence[AppendBatch | QueuedTransaction]) -> None:
        await super()._write(commands)
        self.store.checkpoint()


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
        with (
            explained(self.path, self._connection),
            SqliteTransaction(self._connection, self._patience),
        ):
            return await work(SqliteStatements(self._connection))

    async def read(self, ask: Callable[[Statements], Awaitable[_T]]) -> _T:
        """Return an answer from the file."""
        with explained(self.path, self._connection):
            return await ask(SqliteStatements(self._connection))

    async def heartbeat(self) -> None:
        """Do nothing: the file does not show who has it open."""

    async def close(self) -> None:
        """Close the file; closing again does nothing."""
        self._connection.close()


class SqliteBudgetStore(StoredBudgetStore):
    """A budget store in the journal's file.

    >>> from wavewright.executor import SqliteBudgetStore
    >>> SqliteBudgetStore("runs.db") is not None
    True
    """

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
