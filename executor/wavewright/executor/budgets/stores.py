"""A purse that lives as long as the process: for runs without a journal, and for tests.

It keeps the same promises as `SqlitePurse`, but for the durable ones.

What calls want of a purse that a thread of its own writes, and the way of its answers back to them.

An *order* is one wish, and who waits for its answer. Who is cancelled while waiting for a reservation makes no call,
so what was put aside for it is given back.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Self

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
from wavewright.executor.store.commands import call_on_loop, set_exception
from wavewright.executor.store.errors import JournalError
from wavewright.planner.language.plan import Budget
from wavewright.planner.ports.budgets import Allowance, BudgetExceeded, BudgetScope, Reservation, Spend
from wavewright.planner.ports.model_port import ModelUse, Role
from wavewright.planner.types import RunId

CALL_HISTORY_SIZE: Final = 200
"""Answered calls of a model in a role whose seconds are given out."""


class MemoryBudgetStore:
    """Budgets and the history of calls, in memory; used from one thread."""

    def __init__(
        self, budgets: BudgetsSection | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        """Begin with nothing spent.

        Args:
            budgets: The configured budgets; none where absent.
            clock: Seconds since the epoch.
        """
        self._budgets = BudgetLimits(budgets or BudgetsSection.model_construct())
        self._clock = clock
        self._day: str | None = None
        self._totals = dict[BudgetCounter, Amount]()
        self._reserved = dict[int, tuple[Amount, tuple[BudgetCounter, ...]]]()
        """Reservations that are not settled."""
        self._next = 1
        self._past = dict[tuple[str, Role], deque[float]]()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""

    def limit_run(self, run: RunId, budget: Budget | None) -> None:
        """Hold a run to its goal's own budget, beside the configured ones."""
        self._budgets.limit_run(run, budget)

    async def reserve(self, account: BudgetScope, amount: Spend) -> Reservation:
        """Put something aside.

        Raises:
            OverBudget: it is more than is left; nothing was put aside then.
        """
        day = self._today()
        asked = self._budgets.check(account, day, amount, self._total)
        self._day = day
        pots = counters_of(account, day)
        self._add(pots, asked)
        reservation = Reservation(self._next, account, asked.spend())
        self._reserved[reservation.id] = asked, pots
        self._next += 1
        return reservation

    async def settle(self, reservation: Reservation, spent: Spend, use: ModelUse) -> None:
        """Replace a reservation by what it came to and remember the use; repeating it changes nothing."""
        standing = self._reserved.pop(reservation.id, None)
        if standing is None:
            return
        aside, pots = standing
        self._add(pots, settled_amount(spent, aside).minus(aside))
        if (seconds := plausible_seconds(use)) is not None:
            place = use.model, reservation.scope.role
            self._past.setdefault(place, deque(maxlen=CALL_HISTORY_SIZE)).append(seconds)

    async def left(self, account: BudgetScope) -> Allowance:
        """Return what an account could still reserve, and what was spent."""
        return self._budgets.left(account, self._today(), self._total)

    async def past_seconds(self, model: str, role: Role) -> Sequence[float]:
        """Return the seconds of the latest answered calls of a model in a role, the latest last."""
        return tuple(self._past.get((model, role), ()))

    def _today(self) -> str:
        return budget_day(self._clock(), self._day)

    def _total(self, pot: BudgetCounter) -> Amount:
        return self._totals.get(pot, NO_AMOUNT)

    def _add(self, pots: tuple[BudgetCounter, ...], amount: Amount) -> None:
        for pot in pots:
            self._totals[pot] = self._total(pot).plus(amount)


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
