"""What is put aside and spent, in the journal's file: plain and synchronous, one thread at a time.

An *entry* is one model call: what was put aside for it, and once it is settled what it came to. Whatever several
calls want at once is one transaction; it is on the disk when `transact` returns, and counts for every process that
has the file open.

A purse in the journal's file: what models cost is counted together for all runs and processes.

One thread owns the purse's connection, beside the event loop. All that calls want while it writes is its next
transaction, so that two hundred calls at once cost a few commits. Done means synced: what was put aside counts as
spent until it is settled, whatever becomes of this process.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias, TypeVar

from wavewright.config.sections import BudgetsSection
from wavewright.executor.budgets.limits import (
    NO_AMOUNT,
    Amount,
    BudgetCounter,
    BudgetLimits,
    BudgetReply,
    BudgetRequest,
    Reserve,
    Settle,
    budget_day,
    counters_of,
    plausible_seconds,
    settled_amount,
)
from wavewright.executor.budgets.stores import CALL_HISTORY_SIZE, BudgetCommand, QueuedBudgetStore, reject
from wavewright.executor.sqlite.database import SqliteTransaction, open_journal_file
from wavewright.executor.sqlite.errors import explain_use
from wavewright.executor.store.commands import QueryCommand, StopCommand, query_command
from wavewright.executor.store.errors import JournalError, JournalStopped
from wavewright.planner.ports.budgets import Allowance, BudgetExceeded, BudgetScope, Reservation
from wavewright.planner.ports.model_port import Role
from wavewright.planner.types import RunId, StepId

_RESERVE: Final = """
    INSERT INTO purse_entry (at, day, run, job, step, role, calls, tokens, usd, seconds)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_RESERVED: Final = """
    SELECT day, run, job, step, role, calls, tokens, usd, seconds FROM purse_entry WHERE id = ? AND settled = 0"""
_SETTLE: Final = """
    UPDATE purse_entry SET settled = 1, calls = ?, tokens = ?, usd = ?, seconds = ?, model = ?, outcome = ?, took = ?
    WHERE id = ?"""
_TOTAL: Final = "SELECT calls, tokens, usd, seconds FROM purse_total WHERE pot = ? AND name = ? AND step = ?"
_ADD: Final = """
    INSERT INTO purse_total VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    calls = calls + excluded.calls, tokens = tokens + excluded.tokens,
    usd = usd + excluded.usd, seconds = seconds + excluded.seconds"""
_LATEST_DAY: Final = "SELECT max(name) FROM purse_total WHERE pot = 'day'"
_PAST: Final = """
    SELECT took FROM purse_entry WHERE model = ? AND role = ? AND took IS NOT NULL ORDER BY id DESC LIMIT ?"""


class SqliteBudgetTables:
    """The purse's tables, open."""

    def __init__(
        self, path: Path, budgets: BudgetLimits, *, clock: Callable[[], float], patience: float = 10.0
    ) -> None:
        """Open the journal's file, and create it where there is none.

        Args:
            path: The file.
            budgets: What to hold calls to.
            clock: Seconds since the epoch.
            patience: Seconds to wait for another's lock.

        Raises:
            JournalError: with the place and the fix.
        """
        self._path = path
        self._budgets = budgets
        self._clock = clock
        self._patience = patience
        self._connection = open_journal_file(path, patience=patience)
        # Here nobody's step waits for it, and the journal's own writer counts its own pages only.
        self._connection.execute("PRAGMA wal_autocheckpoint = 1000")

    def close(self) -> None:
        """Close the file; closing again does nothing."""
        self._connection.close()

    def transact(self, wishes: Sequence[BudgetRequest]) -> list[BudgetReply]:
        """Fulfil all wishes in one transaction, in this order; a refusal undoes nothing but itself.

        Raises:
            JournalError: the file cannot be written; nothing was done.
        """
        try:
            with SqliteTransaction(self._connection, self._patience):
                return [self._apply(wish) for wish in wishes]
        except sqlite3.Error as error:
            raise explain_use(error, self._path, self._connection) from error

    def left(self, account: BudgetScope) -> Allowance:
        """Return what an account could still reserve, and what was spent.

        Raises:
            JournalError: the file cannot be read.
        """
        try:
            return self._budgets.left(account, self._today(), self._total)
        except sqlite3.Error as error:
            raise explain_use(error, self._path, self._connection) from error

    def past_seconds(self, model: str, role: Role) -> tuple[float, ...]:
        """Return the seconds of the latest answered calls of a model in a role, the latest last.

        Raises:
            JournalError: the file cannot be read.
        """
        try:
            rows = self._connection.execute(_PAST, (model, role, CALL_HISTORY_SIZE)).fetchall()
        except sqlite3.Error as error:
            raise explain_use(error, self._path, self._connection) from error
        return tuple(took for (took,) in reversed(rows))

    def _apply(self, wish: BudgetRequest) -> BudgetReply:
        if isinstance(wish, Reserve):
            return self._reserve(wish)
        self._settle(wish)
        return None

    def _reserve(self, wish: Reserve) -> Reservation | BudgetExceeded:
        account, day = wish.account, self._today()
        try:
            asked = self._budgets.check(account, day, wish.amount, self._total)
        except BudgetExceeded as refusal:
            return refusal
        cursor = self._connection.execute(
            _RESERVE,
            (self._clock(), day, account.run, account.job, account.step, account.role, *asked),
        )
        self._add(counters_of(account, day), asked)
        assert cursor.lastrowid is not None
        return Reservation(cursor.lastrowid, account, asked.spend())

    def _settle(self, wish: Settle) -> None:
        row = self._connection.execute(_RESERVED, (wish.id,)).fetchone()
        if row is None:
            return
        day, run, job, step, role, *units = row
        aside, use = Amount(*units), wish.use
        spent = NO_AMOUNT if use is None else settled_amount(wish.spent, aside)
        self._connection.execute(
            _SETTLE,
            (*spent, use and use.model, use and use.outcome, use and plausible_seconds(use), wish.id),
        )
        account = BudgetScope(
            run=None if run is None else RunId(run),
            job=job,
            step=None if step is None else StepId(step),
            role=role,
        )
        # On the day on which it was put aside: what is in flight at midnight belongs to the day before.
        self._add(counters_of(account, day), spent.minus(aside))

    def _today(self) -> str:
        (latest,) = self._connection.execute(_LATEST_DAY).fetchone()
        return budget_day(self._clock(), latest)

    def _total(self, pot: BudgetCounter) -> Amount:
        row = self._connection.execute(_TOTAL, pot).fetchone()
        return NO_AMOUNT if row is None else Amount(*row)

    def _add(self, pots: Sequence[BudgetCounter], amount: Amount) -> None:
        self._connection.executemany(_ADD, [(*pot, *amount) for pot in pots])


_T = TypeVar("_T")
_MAX_BATCH = 500
_Command: TypeAlias = BudgetCommand | QueryCommand | StopCommand


class SqliteBudgetStore(QueuedBudgetStore):
    """A purse that every process with the same file shares, and that outlives them."""

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
        super().__init__(BudgetLimits(budgets or BudgetsSection.model_construct()))
        self._store = SqliteBudgetTables(self.path, self._budgets, clock=clock, patience=patience)
        self._commands = queue.SimpleQueue[_Command]()
        self._ended_by: BaseException | None = None
        self._has_ended = False
        """Whether the writer takes no more orders; set before it refuses those that are left."""
        # A daemon: a program that forgets to close the purse must still be able to end.
        self._writer = threading.Thread(target=self._writer_main, name=f"purse {self.path.name}", daemon=True)
        self._writer.start()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # On the event loop

    async def left(self, account: BudgetScope) -> Allowance:
        """Return what an account could still reserve, and what was spent.

        Raises:
            JournalError: the file cannot be read.
        """
        return await self._query(lambda: self._store.left(account))

    async def past_seconds(self, model: str, role: Role) -> Sequence[float]:
        """Return the seconds of the latest answered calls of a model in a role, the latest last.

        Raises:
            JournalError: the file cannot be read.
        """
        return await self._query(lambda: self._store.past_seconds(model, role))

    async def aclose(self) -> None:
        """Write what is pending and close; closing again does nothing."""
        self.close()

    def close(self) -> None:
        """Close without an event loop; what was handed over is written first."""
        if not self._is_closed:
            self._is_closed = True
            self._commands.put(StopCommand())
        self._writer.join()

    def _enqueue(self, post: _Command, /) -> None:
        """Give the writer something to do, and answer it here where the writer ended meanwhile."""
        self._commands.put(post)
        if self._has_ended:
            self._reject_rest()

    async def _query(self, read: Callable[[], _T]) -> _T:
        self._check_open()
        post, waiting = query_command(read, self._broken)
        self._enqueue(post)
        return await waiting

    def _check_open(self) -> None:
        if self._is_closed:
            raise self._closed()

    def _closed(self) -> JournalError:
        if self._ended_by is not None:
            return self._broken(self._ended_by, JournalStopped)
        return JournalError("the purse is closed", place=str(self.path), hint="open it again")

    def _broken(self, cause: BaseException, kind: type[JournalError] = JournalError) -> JournalError:
        fault = kind(
            f"the purse stopped at a fault of its own: {cause!r}",
            place=str(self.path),
            hint="resume the run; what was put aside counts as spent",
        )
        fault.__cause__ = cause
        return fault

    # On the writer's thread

    def _writer_main(self) -> None:
        try:
            while self._run_commands(self._next_batch()):
                pass
        except BaseException as error:  # noqa: BLE001 - the edge of the thread: the fault goes to whoever asks next
            self._ended_by = error
        finally:
            # After an orderly stop nothing is left; after a fault of our own nobody may wait for ever.
            self._is_closed = self._has_ended = True
            self._reject_rest()
            self._store.close()

    def _next_batch(self) -> list[_Command]:
        """Return the next order, and whatever came since the last was taken."""
        posts = [self._commands.get()]
        with suppress(queue.Empty):
            while len(posts) < _MAX_BATCH:
                posts.append(self._commands.get_nowait())
        return posts

    def _run_commands(self, posts: Sequence[_Command]) -> bool:
        """Write all orders in one transaction, then answer the questions; return whether to go on."""
        orders = [post for post in posts if isinstance(post, BudgetCommand)]
        if orders:
            self._write(orders)
        for post in posts:
            if isinstance(post, QueryCommand):
                post.execute()
        return not any(isinstance(post, StopCommand) for post in posts)

    def _write(self, orders: Sequence[BudgetCommand]) -> None:
        try:
            answers = self._store.transact([order.request for order in orders])
        except JournalError as error:
            reject(orders, error)
            return
        except BaseException as error:
            reject(orders, self._broken(error))
            raise
        self._resolve(orders, answers)

    def _reject_rest(self) -> None:
        with suppress(queue.Empty):
            while True:
                post = self._commands.get_nowait()
                if isinstance(post, BudgetCommand):
                    reject([post], self._closed())
                elif isinstance(post, QueryCommand):
                    post.reject(self._closed())
