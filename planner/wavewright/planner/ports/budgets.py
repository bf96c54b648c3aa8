"""Budgets: what models may cost, for a run, a job, a day and a step.

Before a model call its maximum cost is *reserved*; afterwards the reservation is *settled* with the
actual cost. A reservation counts as spent until it is settled, in every process and across crashes,
so a budget is exceeded by at most the calls in flight.

An *allowance* is a snapshot of what is left of the budgets for one role. Plans are checked against
it before they start. It guarantees nothing, because others spend at the same time: only a
reservation does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError
from wavewright.planner.language.plan import Budget
from wavewright.planner.ports.model_port import ModelUse, Role
from wavewright.planner.types import RunId, StepId


@dataclass(frozen=True, slots=True)
class Spend:
    """What was spent, or may be."""

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    """US dollars; what has no known price counts as nothing here and cannot be asked for under a
    budget of money.
    """
    seconds: float = 0.0
    """Time of model calls."""

    def __add__(self, other: Spend) -> Spend:
        return Spend(
            self.calls + other.calls,
            self.tokens + other.tokens,
            self.usd + other.usd,
            self.seconds + other.seconds,
        )

    def __sub__(self, other: Spend) -> Spend:
        return Spend(
            self.calls - other.calls,
            self.tokens - other.tokens,
            self.usd - other.usd,
            self.seconds - other.seconds,
        )


@dataclass(frozen=True, slots=True)
class BudgetScope:
    """The run, job, step and role that a cost is charged to."""

    run: RunId | None = None
    job: str | None = None
    step: StepId | None = None
    role: Role = "worker"
    step_budget: Budget | None = None
    model: str = ""
    """The model that is asked, for the record; no budget is of a model."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Something reserved and not settled yet; `id` is that of the budget store."""

    id: int
    scope: BudgetScope
    amount: Spend


class BudgetExceeded(WavewrightError):
    """A reservation would go over a budget; the message names which, what is left and what was
    asked for.
    """

    exit_code = exit_codes.NEGATIVE

    def __init__(
        self,
        message: str,
        *,
        scope: str,
        hint: str,
        measure: str | None = None,
        left: float = 0.0,
    ) -> None:
        super().__init__(message, hint)
        self.scope = scope
        """`run`, `job`, `day` or `step`."""
        self.measure = measure
        """`calls`, `tokens`, `usd` or `seconds`; None where what the call costs is not known."""
        self.left = left
        """What is left of it, in calls, tokens, US dollars or seconds."""


class CallDeferred(WavewrightError):
    """A call is postponed and not refused: the budget store stops the run, which is resumed on
    another day.
    """


class CallHistory(Protocol):
    """How long model calls took before, in this run and in others."""

    async def past_seconds(self, model: str, role: Role) -> Sequence[float]:
        """Return the seconds of the latest answered calls of a model in a role; nothing where there
        were none.
        """
        ...


class BudgetStore(CallHistory, Protocol):
    """Keeps the budgets; every call is one durable transaction."""

    def limit_run(self, run: RunId, budget: Budget | None) -> None:
        """Hold a run to its goal's own budget, beside the configured ones."""
        ...

    async def reserve(self, account: BudgetScope, amount: Spend) -> Reservation:
        """Reserve an amount.

        Raises:
            BudgetExceeded: it is more than is left; nothing was reserved.
            CallDeferred: it is more than is left, and the run is being stopped.
        """
        ...

    async def settle(self, reservation: Reservation, spent: Spend, use: ModelUse) -> None:
        """Replace a reservation by the actual cost and keep the use; repeating it changes nothing."""
        ...

    async def unsettled(self, run: RunId) -> Sequence[Reservation]:
        """Return the reservations of a run that are not settled, the oldest first."""
        ...


@dataclass(frozen=True, slots=True)
class RemainingBudget:
    """What is left of one budget, never below 0; `None` where the budget sets no such bound."""

    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    """US dollars."""
    seconds: float | None = None
    """Time of model calls."""
    spent: Spend = field(default_factory=Spend)
    """What was spent of it or is reserved."""

    def bounds(self) -> Iterator[tuple[str, float, float]]:
        """Yield each measure that the budget bounds (`calls`, `tokens`, `usd`, `seconds`), what is
        left of it and what was spent.
        """
        for measure in ("calls", "tokens", "usd", "seconds"):
            left: float | None = getattr(self, measure)
            if left is not None:
                yield measure, left, getattr(self.spent, measure)


@dataclass(frozen=True, slots=True)
class Allowance:
    """What is left of every budget that a call would count towards."""

    run: RemainingBudget = field(default_factory=RemainingBudget)
    """Less what is held back for review and recovery, where the role is another."""
    job: RemainingBudget = field(default_factory=RemainingBudget)
    day: RemainingBudget = field(default_factory=RemainingBudget)
    spans_days: bool = False
    """Whether the run goes on when there is a new day's budget, so that `day` bounds a call and not
    the run.
    """
    step: RemainingBudget = field(default_factory=RemainingBudget)
    usd_per_1000_tokens: float | None = None
    """Price of 1,000 tokens of the model that a worker would ask; None where it is not known, or no
    budget asks.
    """

    @property
    def bounds_usd(self) -> bool:
        """Whether one of the budgets is of money."""
        return any(left.usd is not None for left in (self.run, self.job, self.day, self.step))


class InspectableBudgetStore(BudgetStore, Protocol):
    """A budget store whose state can be read."""

    async def left(self, account: BudgetScope) -> Allowance:
        """Return what an account could still reserve, and what was spent."""
        ...
