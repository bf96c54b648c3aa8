"""What calls want of a purse that a thread of its own writes, and the way of its answers back to them.

An *order* is one wish, and who waits for its answer. Who is cancelled while waiting for a reservation makes no call,
so what was put aside for it is given back.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from wavewright.executor.budgets import Answer, Budgets, Reserve, Settle, Wish
from wavewright.executor.journal_errors import JournalError
from wavewright.executor.journal_orders import call_back, fail
from wavewright.planner.model_port import ModelUse
from wavewright.planner.models import Budget
from wavewright.planner.spending import Account, OverBudget, Reservation, Spend
from wavewright.planner.types import RunId


@dataclass(slots=True)
class PurseOrder:
    """A wish, and who waits for its answer."""

    wish: Wish
    loop: asyncio.AbstractEventLoop
    waiting: asyncio.Future[Answer]


class OrderedPurse(ABC):
    """The face of a purse that is written off the event loop, wherever it is kept."""

    def __init__(self, budgets: Budgets) -> None:
        self._budgets = budgets
        self._is_closed = False

    def limit_run(self, run: RunId, budget: Budget | None) -> None:
        """Hold a run to its goal's own budget, beside the configured ones, in this process."""
        self._budgets.limit_run(run, budget)

    async def reserve(self, account: Account, amount: Spend) -> Reservation:
        """Put something aside; it is durable when this returns.

        Raises:
            OverBudget: it is more than is left; nothing was put aside then.
            JournalError: it cannot be written.
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
            JournalError: it cannot be written.
        """
        await self._wish(Settle(reservation.id, spent, use))

    @abstractmethod
    def _check_open(self) -> None:
        """Raise an error where nothing can be ordered any more."""

    @abstractmethod
    def _post(self, post: PurseOrder, /) -> None:
        """Have an order written."""

    def _wish(self, wish: Wish) -> asyncio.Future[Answer]:
        self._check_open()
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Answer] = loop.create_future()
        self._post(PurseOrder(wish, loop, waiting))
        return waiting

    def _answer(self, orders: Sequence[PurseOrder], answers: Sequence[Answer]) -> None:
        """Tell whoever waits what came of it, from the thread that wrote it."""
        for order, answer in zip(orders, answers, strict=True):
            call_back(order.loop, self._deliver, order, answer)

    def _deliver(self, order: PurseOrder, answer: Answer) -> None:
        if not order.waiting.done():
            order.waiting.set_result(answer)
        elif isinstance(answer, Reservation) and not self._is_closed:
            # Whoever wanted it was cancelled meanwhile and will make no call: nothing is spent.
            self._post(PurseOrder(Settle(answer.id, Spend(), None), order.loop, order.waiting))


def refuse(orders: Sequence[PurseOrder], fault: JournalError) -> None:
    """Tell whoever waits why it was not done."""
    for order in orders:
        call_back(order.loop, fail, order.waiting, fault)
