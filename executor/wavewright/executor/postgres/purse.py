"""A purse in the journal's database: what models cost is counted together for all runs, processes and machines.

All that calls want while the database is busy is the purse's next transaction, so that two hundred calls at once cost
a few. Done means synced: what was put aside counts as spent until it is settled, whatever becomes of this process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

from wavewright.config.model_settings import BudgetsSection
from wavewright.executor.budgets import BudgetLimits
from wavewright.executor.journal_errors import JournalError
from wavewright.executor.postgres.desk import WriterHandlers, WriterThread
from wavewright.executor.postgres.faults import DRIVER_ERRORS, explain_use
from wavewright.executor.postgres.purse_store import PostgresBudgetTables
from wavewright.executor.postgres.session import PATIENCE_SECONDS
from wavewright.executor.purse_orders import BudgetCommand, QueuedBudgetStore, reject
from wavewright.planner.allowance import Allowance
from wavewright.planner.model_port import Role
from wavewright.planner.spending import BudgetScope

_HEARTBEAT_SECONDS: Final = 60.0
"""A purse holds no run: its opening shows only that it is not forgotten."""


class PostgresBudgetStore(QueuedBudgetStore):
    """A purse that every process with the same database shares, and that outlives them."""

    def __init__(
        self,
        url: str,
        budgets: BudgetsSection | None = None,
        clock: Callable[[], float] = time.time,
        *,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        """Connect as soon as it is entered, or at the first call.

        Args:
            url: The database's address.
            budgets: The configured budgets; none where absent.
            clock: Seconds since the epoch.
            patience: Seconds for which a database that was there and does not answer is waited for.
        """
        super().__init__(BudgetLimits(budgets or BudgetsSection.model_construct()))
        self._store = PostgresBudgetTables(url, self._budgets, clock=clock, patience=patience)
        self.place = self._store.session.place
        """The address as it may be shown."""
        self._writer = WriterThread[BudgetCommand](
            "purse",
            self.place,
            WriterHandlers(self._write, _reject, self._store.session.heartbeat, self._store.close),
            pause=_HEARTBEAT_SECONDS,
        )

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            JournalError: the database cannot be used, with the mend.
        """
        try:
            await self.left(BudgetScope())
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def left(self, account: BudgetScope) -> Allowance:
        """Return what an account could still reserve, and what was spent.

        Raises:
            JournalError: the database cannot be read.
        """
        return await self._writer.query(lambda: self._store.left(account))

    async def past_seconds(self, model: str, role: Role) -> Sequence[float]:
        """Return the seconds of the latest answered calls of a model in a role, the latest last.

        Raises:
            JournalError: the database cannot be read.
        """
        return await self._writer.query(lambda: self._store.past_seconds(model, role))

    async def aclose(self) -> None:
        """Write what is pending and close; closing again does nothing."""
        self._is_closed = True
        await self._writer.aclose()

    def close(self) -> None:
        """Close without an event loop; what was handed over is written first."""
        self._is_closed = True
        self._writer.stop()

    def _check_open(self) -> None:
        self._writer.check_open()

    def _enqueue(self, post: BudgetCommand, /) -> None:
        self._writer.put(post)

    async def _write(self, orders: Sequence[BudgetCommand]) -> None:
        try:
            answers = await self._store.transact([order.request for order in orders])
        except (*DRIVER_ERRORS, JournalError) as error:
            reject(orders, explain_use(error, self.place))
            return
        self._resolve(orders, answers)


def _reject(order: BudgetCommand, fault: JournalError) -> None:
    reject([order], fault)
