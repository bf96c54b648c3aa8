"""The budget store in memory, for what has no journal, and for tests.

It keeps the same promises as a `StoredBudgetStore`, except that nothing is durable.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Self

from wavewright.config.sections import BudgetsSection
from wavewright.executor.budgets.limits import (
    CALL_HISTORY_SIZE,
    NO_AMOUNT,
    Amount,
    BudgetCounter,
    BudgetLimits,
    budget_day,
    counters_of,
    plausible_seconds,
    settled_amount,
)
from wavewright.planner import RunId
from wavewright.planner.language.plan import Budget
from wavewright.planner.ports.budgets import Allowance, BudgetScope, Reservation, Spend
from wavewright.planner.ports.model_port import ModelUse, Role


class MemoryBudgetStore:
    """Budgets and the history of calls, in memory; used from one thread.

    >>> import anyio
    >>> from wavewright.executor import MemoryBudgetStore
    >>> async def is_open() -> bool:
    ...     async with MemoryBudgetStore() as store:
    ...         return store is not None
    >>> anyio.run(is_open)
    True
    """

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
        self._reserved = dict[int, tuple[Reservation, Amount, tuple[BudgetCounter, ...]]]()
        """Reservations that are not settled, each with its amount and its counters."""
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
        """Reserve an amount.

        Raises:
            BudgetExceeded: it is more than is left; nothing was reserved then.
        """
        day = self._today()
        reserved = self._budgets.check(account, day, amount, self._total)
        self._day = day
        counters = counters_of(account, day)
        self._add(counters, reserved)
        reservation = Reservation(self._next, account, reserved.spend())
        self._reserved[reservation.id] = reservation, reserved, counters
        self._next += 1
        return reservation

    async def settle(self, reservation: Reservation, spent: Spend, use: ModelUse) -> None:
        """Replace a reservation by what the call came to and remember the use; repeating it changes
        nothing.
        """
        standing = self._reserved.pop(reservation.id, None)
        if standing is None:
            return
        _, aside, counters = standing
        self._add(counters, settled_amount(spent, aside).minus(aside))
        if (seconds := plausible_seconds(use)) is not None:
            place = use.model, reservation.scope.role
            self._past.setdefault(place, deque(maxlen=CALL_HISTORY_SIZE)).append(seconds)

    async def unsettled(self, run: RunId) -> Sequence[Reservation]:
        """Return the reservations of a run that are not settled, the oldest first."""
        standing = (reservation for reservation, _, _ in self._reserved.values())
        return [reservation for reservation in standing if reservation.scope.run == run]

    async def left(self, account: BudgetScope) -> Allowance:
        """Return what a scope could still reserve, and what was spent."""
        return self._budgets.left(account, self._today(), self._total)

    async def past_seconds(self, model: str, role: Role) -> Sequence[float]:
        """Return the seconds of the latest answered calls of a model in a role, the latest last."""
        return tuple(self._past.get((model, role), ()))

    def _today(self) -> str:
        return budget_day(self._clock(), self._day)

    def _total(self, counter: BudgetCounter) -> Amount:
        return self._totals.get(counter, NO_AMOUNT)

    def _add(self, counters: tuple[BudgetCounter, ...], amount: Amount) -> None:
        for counter in counters:
            self._totals[counter] = self._total(counter).plus(amount)
