"""The budget of a cycle of a standing job, over the budgets of runs, jobs and days."""

from __future__ import annotations

from wavewright.engine.pipeline.cancellation import Cycles
from wavewright.planner.ports.budgets import (
    BudgetScope,
    InspectableBudgetStore,
    Reservation,
    Spend,
    WrapperBudgetStore,
)
from wavewright.planner.ports.model_port import ModelUse
from wavewright.planner.types import RunId


class CycleBudgetStore(WrapperBudgetStore):
    """A budget store that stops a standing job when the budget of its cycle is spent.

    Calls that exceed the cycle's budget are deferred and not refused, so `left` is that of the other budgets.
    """

    def __init__(self, budget_store: InspectableBudgetStore) -> None:
        """Count over another budget store, which has its own limits."""
        super().__init__(budget_store)
        self._cycles = dict[RunId, Cycles]()
        """By run of a standing job or of one of its targets."""

    def count(self, run: RunId, cycles: Cycles) -> None:
        """Count the calls of a run for the cycle of its job."""
        self._cycles[run] = cycles

    def end_attempt(self, cycles: Cycles) -> None:
        """Count no more calls for the cycles of an attempt."""
        self._cycles = {run: known for run, known in self._cycles.items() if known is not cycles}

    async def reserve(self, account: BudgetScope, amount: Spend) -> Reservation:
        """Reserve an amount; where it exceeds what the cycle has left, stop the job.

        Raises:
            BudgetExceeded: a budget, or that of a whole cycle, is too small for the amount.
            CallDeferred: the job is stopped; the call is made when it continues.
        """
        cycles = None if account.run is None else self._cycles.get(account.run)
        if cycles is None:
            return await self._store.reserve(account, amount)
        await cycles.require(amount.tokens)
        reservation = await self._store.reserve(account, amount)
        cycles.reserve(reservation.id, amount.tokens)
        return reservation

    async def settle(self, reservation: Reservation, spent: Spend, use: ModelUse) -> None:
        """Replace a reservation by what was spent."""
        try:
            await self._store.settle(reservation, spent, use)
        finally:
            run = reservation.scope.run
            if run is not None and (cycles := self._cycles.get(run)) is not None:
                cycles.settle(reservation.id, spent.tokens)
