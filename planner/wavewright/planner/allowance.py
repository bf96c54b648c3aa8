"""What is left of the budgets, for whoever decides whether something is worth beginning.

An *allowance* is a snapshot of the budgets of run, job, day and step for one role: a plan is held against it before
it starts, and people are shown it. It promises nothing: others spend at the same time, and only a reservation holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from wavewright.planner.spending import BudgetScope, BudgetStore, Spend


@dataclass(frozen=True, slots=True)
class RemainingBudget:
    """What is left of one budget, never less than nothing; `None` where the budget sets no such bound."""

    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    """US dollars."""
    seconds: float | None = None
    """Time of model calls."""
    spent: Spend = field(default_factory=Spend)
    """What was spent of it or is put aside."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What is left of every budget that a call would count towards."""

    run: RemainingBudget = field(default_factory=RemainingBudget)
    """Less what is held back for review and recovery, where the role is another."""
    job: RemainingBudget = field(default_factory=RemainingBudget)
    day: RemainingBudget = field(default_factory=RemainingBudget)
    step: RemainingBudget = field(default_factory=RemainingBudget)
    usd_per_1000_tokens: float | None = None
    """Price of 1,000 tokens of the model that a worker would ask; None where it is not known, or no budget asks."""

    @property
    def bounds_usd(self) -> bool:
        """Whether one of the budgets is of money."""
        return any(left.usd is not None for left in (self.run, self.job, self.day, self.step))


class InspectableBudgetStore(BudgetStore, Protocol):
    """A purse that one may look into."""

    async def left(self, account: BudgetScope) -> Allowance:
        """Return what an account could still reserve, and what was spent."""
        ...
