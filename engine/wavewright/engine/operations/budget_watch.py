"""A warning before a budget is spent, so that somebody can raise it before anything stops.

A budget is *nearly spent* when a tenth of it is left, or less. Each is warned of once: a run's once, the day's once a
day.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from wavewright.engine.operations.logs import Log
from wavewright.planner.allowance import Allowance, Left, OpenPurse
from wavewright.planner.model_port import ModelUse, Role
from wavewright.planner.models import Budget
from wavewright.planner.spending import Account, Reservation, Spend
from wavewright.planner.types import RunId

NEARLY: Final = 0.1
"""The share of a budget that is left when it is warned of."""


class WarningPurse:
    """A purse that says in the log when a budget is nearly spent."""

    def __init__(self, purse: OpenPurse, log: Log, clock: Callable[[], float]) -> None:
        self._purse = purse
        self._log = log
        self._clock = clock
        self._warned = set[tuple[str, str]]()
        """Kind of budget and whose it is."""

    def limit_run(self, run: RunId, budget: Budget | None) -> None:
        """Hold a run to its goal's own budget."""
        if budget is None:
            self._warned = {known for known in self._warned if known[1] != run}
        self._purse.limit_run(run, budget)

    async def reserve(self, account: Account, amount: Spend) -> Reservation:
        """Put something aside.

        Raises:
            OverBudget: it is more than is left.
        """
        return await self._purse.reserve(account, amount)

    async def settle(self, reservation: Reservation, spent: Spend, use: ModelUse) -> None:
        """Replace a reservation by what it came to, and look how much is left."""
        await self._purse.settle(reservation, spent, use)
        account = reservation.account
        allowance = await self._purse.left(account)
        for kind, left in (("run", allowance.run), ("job", allowance.job), ("day", allowance.day)):
            for unit, used, remaining in _nearly_spent(left):
                self._warn(f"{kind} {unit}", self._owner(kind, account), used, remaining, account.run)

    async def left(self, account: Account) -> Allowance:
        """Return what an account could still reserve."""
        return await self._purse.left(account)

    async def past_seconds(self, model: str, role: Role) -> Sequence[float]:
        """Return how long calls took before."""
        return await self._purse.past_seconds(model, role)

    def _owner(self, kind: str, account: Account) -> str:
        match kind:
            case "run":
                return account.run or ""
            case "job":
                return account.job or ""
            case _:
                today = datetime.fromtimestamp(self._clock(), UTC).date().isoformat()
                self._warned = {known for known in self._warned if not known[0].startswith("day ")} | {
                    known for known in self._warned if known[1] == today
                }
                return today

    def _warn(self, kind: str, owner: str, used: float, remaining: float, run: RunId | None) -> None:
        if (kind, owner) in self._warned:
            return
        self._warned.add((kind, owner))
        self._log.say("budget_warning", "warning", budget_type=kind, used=used, remaining=remaining, run=run)


def _nearly_spent(left: Left) -> Iterator[tuple[str, float, float]]:
    """Yield unit, what is used and what remains of every bound that is nearly reached."""
    spent = left.spent
    bounds: tuple[tuple[str, float, float | None], ...] = (
        ("calls", spent.calls, left.calls),
        ("tokens", spent.tokens, left.tokens),
        ("usd", spent.usd, left.usd),
        ("seconds", spent.seconds, left.seconds),
    )
    for unit, used, remaining in bounds:
        if remaining is not None and remaining <= NEARLY * (used + remaining):
            yield unit, used, remaining
