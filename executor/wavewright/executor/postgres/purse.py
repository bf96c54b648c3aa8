"""A purse in the journal's database: what models cost is counted together for all runs, processes and machines.

All that calls want while the database is busy is the purse's next transaction, so that two hundred calls at once cost
a few. Done means synced: what was put aside counts as spent until it is settled, whatever becomes of this process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from wavewright.config.model_settings import BudgetsSection
from wavewright.executor.budgets import Budgets
from wavewright.executor.journal_errors import JournalError
from wavewright.executor.journal_orders import call_back, fail
from wavewright.executor.postgres.desk import Desk, Duties
from wavewright.executor.postgres.faults import FAULTS, explain_use
from wavewright.executor.postgres.purse_store import PostgresPurseStore
from wavewright.executor.postgres.session import PATIENCE
from wavewright.executor.purse_store import Answer, Reserve, Settle, Wish
from wavewright.planner.allowance import Allowance
from wavewright.planner.model_port import ModelUse, Role
from wavewright.planner.models import Budget
from wavewright.planner.spending import Account, OverBudget, Reservation, Spend
from wavewright.planner.types import RunId

_BEAT_SECONDS: Final = 60.0
"""A purse holds no run: its opening shows only that it is not forgotten."""


@dataclass(slots=True)
class _Order:
    """A wish, and who waits for its answer."""

    wish: Wish
    loop: asyncio.AbstractEventLoop
    waiting: asyncio.Future[Answer]


class PostgresPurse:
    """A purse that every process with the same database shares, and that outlives them."""

    def __init__(
        self,
        url: str,
        budgets: BudgetsSection | None = None,
        clock: Callable[[], float] = time.time,
        *,
        patience: float = PATIENCE,
    ) -> None:
        """Connect as soon as it is entered, or at the first call.

        Args:
            url: The database's address.
            budgets: The configured budgets; none where absent.
            clock: Seconds since the epoch.
            patience: Seconds for which a database that was there and does not answer is waited for.
        """
        self._budgets = Budgets(budgets or BudgetsSection.model_construct())
        self._store = PostgresPurseStore(url, self._budgets, clock=clock, patience=patience)
        self.place = self._store.session.place
        """The address as it may be shown."""
        self._is_closed = False
        self._desk = Desk[_Order](
            "purse",
            self.place,
            Duties(self._write, _refuse, self._store.session.beat, self._store.close),
            pause=_BEAT_SECONDS,
        )

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            JournalError: the database cannot be used, with the mend.
        """
        try:
            await self.left(Account())
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def limit_run(self, run: RunId, budget: Budget | None) -> None:
        """Hold a run to its goal's own budget, beside the configured ones, in this process."""
        self._budgets.limit_run(run, budget)

    async def reserve(self, account: Account, amount: Spend) -> Reservation:
        """Put something aside; it is synced by the server when this returns.

        Raises:
            OverBudget: it is more than is left; nothing was put aside then.
            JournalError: the database cannot be written.
        """
        answer = await self._wish(Reserve(account, amount))
        if isinstance(answer, OverBudget):
            raise answer
        assert answer is not None
        return answer

    async def settle(self, reservation: Reservation, spent: Spend, use: ModelUse) -> None:
        """Replace a reservation by what it came to and remember the use; repeating it changes nothing.

        It is done as soon as this is called: not even who is cancelled while waiting leaves it undone.

        Raises:
            JournalError: the database cannot be written.
        """
        await self._wish(Settle(reservation.id, spent, use))

    async def left(self, account: Account) -> Allowance:
        """Return what an account could still reserve, and what was spent.

        Raises:
            JournalError: the database cannot be read.
        """
        return await self._desk.ask(lambda: self._store.left(account))

    async def past_seconds(self, model: str, role: Role) -> Sequence[float]:
        """Return the seconds of the latest answered calls of a model in a role, the latest last.

        Raises:
            JournalError: the database cannot be read.
        """
        return await self._desk.ask(lambda: self._store.past_seconds(model, role))

    async def aclose(self) -> None:
        """Write what is pending and close; closing again does nothing."""
        self._is_closed = True
        await self._desk.aclose()

    def close(self) -> None:
        """Close without an event loop; what was handed over is written first."""
        self._is_closed = True
        self._desk.stop()

    def _wish(self, wish: Wish) -> asyncio.Future[Answer]:
        self._desk.check_open()
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Answer] = loop.create_future()
        self._desk.put(_Order(wish, loop, waiting))
        return waiting

    async def _write(self, orders: Sequence[_Order]) -> None:
        try:
            answers = await self._store.transact([order.wish for order in orders])
        except (*FAULTS, JournalError) as error:
            fault = explain_use(error, self.place)
            for order in orders:
                _refuse(order, fault)
            return
        for order, answer in zip(orders, answers, strict=True):
            call_back(order.loop, self._deliver, order, answer)

    def _deliver(self, order: _Order, answer: Answer) -> None:
        if not order.waiting.done():
            order.waiting.set_result(answer)
        elif isinstance(answer, Reservation) and not self._is_closed:
            # Whoever wanted it was cancelled meanwhile and will make no call: nothing is spent.
            self._desk.put(_Order(Settle(answer.id, Spend(), None), order.loop, order.waiting))


def _refuse(order: _Order, fault: JournalError) -> None:
    call_back(order.loop, fail, order.waiting, fault)
