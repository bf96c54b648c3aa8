"""What calls want of a purse that a thread of its own writes, and the way of its answers back to them.

An *order* is one wish, and who waits for its answer. Who is cancelled while waiting for a reservation makes no call,
so what was put aside for it is given back.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from wavewright.executor.budgets import BudgetLimits, BudgetReply, BudgetRequest, Reserve, Settle
from wavewright.executor.journal_errors import JournalError
from wavewright.executor.journal_orders import call_on_loop, set_exception
from wavewright.planner.model_port import ModelUse
from wavewright.planner.models import Budget
from wavewright.planner.spending import BudgetExceeded, BudgetScope, Reservation, Spend
from wavewright.planner.types import RunId


@dataclass(slots=True)
class BudgetCommand:
    """A wish, and who waits for its answer."""

    request: BudgetRequest
    loop: asyncio.AbstractEventLoop
    waiting: asyncio.Future[BudgetReply]


class QueuedBudgetStore(ABC):
    """The face of a purse that is written off the event loop, wherever it is kept."""

    def __init__(self, budgets: BudgetLimits) -> None:
        self._budgets = budgets
        self._is_closed = False

    def limit_run(self, run: RunId, budget: Budget | None) -> None:
        """Hold a run to its goal's own budget, beside the configured ones, in this process."""
        self._budgets.limit_run(run, budget)

    async def reserve(self, account: BudgetScope, amount: Spend) -> Reservation:
        """Put something aside; it is durable when this returns.

        Raises:
            OverBudget: it is more than is left; nothing was put aside then.
            JournalError: it cannot be written.
        """
        answer = await self._request(Reserve(account, amount))
        if isinstance(answer, BudgetExceeded):
            raise answer
        assert answer is not None
        return answer

    async def settle(self, reservation: Reservation, spent: Spend, use: ModelUse) -> None:
        """Replace a reservation by what it came to and remember the use; repeating it changes nothing.

        It is done as soon as this is called: not even who is cancelled while waiting leaves it undone.

        Raises:
            JournalError: it cannot be written.
        """
        await self._request(Settle(reservation.id, spent, use))

    @abstractmethod
    def _check_open(self) -> None:
        """Raise an error where nothing can be ordered any more."""

    @abstractmethod
    def _enqueue(self, post: BudgetCommand, /) -> None:
        """Have an order written."""

    def _request(self, wish: BudgetRequest) -> asyncio.Future[BudgetReply]:
        self._check_open()
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[BudgetReply] = loop.create_future()
        self._enqueue(BudgetCommand(wish, loop, waiting))
        return waiting

    def _resolve(self, orders: Sequence[BudgetCommand], answers: Sequence[BudgetReply]) -> None:
        """Tell whoever waits what came of it, from the thread that wrote it."""
        for order, answer in zip(orders, answers, strict=True):
            call_on_loop(order.loop, self._resolve_one, order, answer)

    def _resolve_one(self, order: BudgetCommand, answer: BudgetReply) -> None:
        if not order.waiting.done():
            order.waiting.set_result(answer)
        elif isinstance(answer, Reservation) and not self._is_closed:
            # Whoever wanted it was cancelled meanwhile and will make no call: nothing is spent.
            self._enqueue(BudgetCommand(Settle(answer.id, Spend(), None), order.loop, order.waiting))


def reject(orders: Sequence[BudgetCommand], fault: JournalError) -> None:
    """Tell whoever waits why it was not done."""
    for order in orders:
        call_on_loop(order.loop, set_exception, order.waiting, fault)
