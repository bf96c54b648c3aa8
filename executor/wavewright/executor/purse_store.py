"""What is put aside and spent, in the journal's file: plain and synchronous, one thread at a time.

An *entry* is one model call: what was put aside for it, and once it is settled what it came to. Whatever several
calls want at once is one transaction; it is on the disk when `transact` returns, and counts for every process that
has the file open.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from wavewright.executor.budgets import (
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
from wavewright.executor.journal_faults import explain_use
from wavewright.executor.journal_file import SqliteTransaction, open_journal_file
from wavewright.executor.purse import CALL_HISTORY_SIZE
from wavewright.planner.allowance import Allowance
from wavewright.planner.model_port import Role
from wavewright.planner.spending import BudgetExceeded, BudgetScope, Reservation
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
            JournalError: with the place and the mend.
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
