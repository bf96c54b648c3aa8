"""A warning before a budget is spent, so that somebody can raise it before anything stops.

A budget is *nearly spent* when a tenth of it is left, or less. Each is warned of once: a run's once, the day's once a
day.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from wavewright.engine.operations.logs import StructuredLog
from wavewright.planner.allowance import Allowance, InspectableBudgetStore, RemainingBudget
from wavewright.planner.model_port import ModelUse, Role
from wavewright.planner.models import Budget
from wavewright.planner.spending import BudgetScope, Reservation, Spend
from wavewright.planner.types import RunId

NEARLY_SPENT_SHARE: Final = 0.1
"""The share of a budget that is left when it is warned of."""
MAX_WARNED: Final = 1_000
"""Budgets that are remembered as warned of; of those beyond, the ones spent from longest ago are forgotten."""


class WarningBudgetStore:
    """A purse that says in the log when a budget is nearly spent."""

    def __init__(self, purse: InspectableBudgetStore, log: StructuredLog, clock: Callable[[], float]) -> None:
        self._store = purse
        self._log = log
        self._clock = clock
        self._warned = dict[tuple[str, str], None]()
        """Kind of budget and whose it is, the latest last."""

    def limit_run(self, run: RunId, budget: Budget | None) -> None:
        """Hold a run to its goal's own budget."""
        if budget is None:
            self._keep(lambda _, owner: owner != run)
        self._store.limit_run(run, budget)

    async def reserve(self, account: BudgetScope, amount: Spend) -> Reservation:
        """Put something aside.

        Raises:
            OverBudget: it is more than is left.
        """
        return await self._store.reserve(account, amount)

    async def settle(self, reservation: Reservation, spent: Spend, use: ModelUse) -> None:
        """Replace a reservation by what it came to, and look how much is left."""
        await self._store.settle(reservation, spent, use)
        account = reservation.scope
        allowance = await self._store.left(account)
        for kind, left in (("run", allowance.run), ("job", allowance.job), ("day", allowance.day)):
            for unit, used, remaining in _nearly_spent(left):
                self._warn(f"{kind} {unit}", self._owner(kind, account), used, remaining, account.run)

    async def left(self, account: BudgetScope) -> Allowance:
        """Return what an account could still reserve."""
        return await self._store.left(account)

    async def past_seconds(self, model: str, role: Role) -> Sequence[float]:
        """Return how long calls took before."""
        return await self._store.past_seconds(model, role)

    def _owner(self, kind: str, account: BudgetScope) -> str:
        match kind:
            case "run":
                return account.run or ""
            case "job":
                return account.job or ""
            case _:
                today = datetime.fromtimestamp(self._clock(), UTC).date().isoformat()
                self._keep(lambda kind, owner: owner == today or not kind.startswith("day "))
                return today

    def _warn(self, kind: str, owner: str, used: float, remaining: float, run: RunId | None) -> None:
        is_known = (kind, owner) in self._warned
        self._warned.pop((kind, owner), None)
        self._warned[kind, owner] = None
        if is_known:
            return
        if len(self._warned) > MAX_WARNED:
            del self._warned[next(iter(self._warned))]
        self._log.write(
            "budget_warning", "warning", budget_type=kind, used=used, remaining=remaining, run=run
        )

    def _keep(self, is_kept: Callable[[str, str], bool]) -> None:
        self._warned = {known: None for known in self._warned if is_kept(*known)}


def _nearly_spent(left: RemainingBudget) -> Iterator[tuple[str, float, float]]:
    """Yield unit, what is used and what remains of every bound that is nearly reached."""
    spent = left.spent
    bounds: tuple[tuple[str, float, float | None], ...] = (
        ("calls", spent.calls, left.calls),
        ("tokens", spent.tokens, left.tokens),
        ("usd", spent.usd, left.usd),
        ("seconds", spent.seconds, left.seconds),
    )
    for unit, used, remaining in bounds:
        if remaining is not None and remaining <= NEARLY_SPENT_SHARE * (used + remaining):
            yield unit, used, remaining
