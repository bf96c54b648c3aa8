"""Whether what a plan is expected to take fits into what is left of the budgets.

The *budget verdict* holds the expected figure and the p90 of each measure against what is left of the run's, the
job's, the day's and each step's budget. It is the worst of its rows: `fits`, `tight` (only the p90 is over),
`unknown` (no price is known, so models refuse calls under a budget of money), or `over`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from wavewright.engine.dry_run_estimates import ZERO_RANGE, EstimateRange
from wavewright.planner.allowance import Allowance
from wavewright.planner.models import Budget
from wavewright.planner.types import StepId

BudgetOutcome: TypeAlias = Literal["none", "fits", "tight", "unknown", "over"]
BudgetMeasure: TypeAlias = Literal["calls", "tokens", "usd", "seconds", "time"]

_WORST_FIRST: Final[tuple[BudgetOutcome, ...]] = ("over", "unknown", "tight", "fits")
_MODEL_MEASURES: Final[tuple[Literal["calls", "tokens", "usd", "seconds"], ...]] = (
    "tokens",
    "usd",
    "calls",
    "seconds",
)


@dataclass(frozen=True, slots=True)
class ModelDemand:
    """What models are asked for, by a step or by all of them."""

    calls: EstimateRange = ZERO_RANGE
    tokens: EstimateRange = ZERO_RANGE
    usd: EstimateRange | None = ZERO_RANGE
    """None where a price is not known."""
    seconds: EstimateRange = ZERO_RANGE
    """Time of model calls."""

    def __add__(self, other: ModelDemand) -> ModelDemand:
        return ModelDemand(
            self.calls + other.calls,
            self.tokens + other.tokens,
            None if self.usd is None or other.usd is None else self.usd + other.usd,
            self.seconds + other.seconds,
        )


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """One measure of one budget against the forecast."""

    scope: Literal["run", "job", "day", "step"]
    step: StepId | None
    measure: BudgetMeasure
    """`seconds` is time of model calls, `time` that of the whole run or step."""
    left: float
    expected: float | None
    p90: float | None
    verdict: BudgetOutcome


@dataclass(frozen=True, slots=True)
class BudgetVerdict:
    """The rows, and the worst of them; without any budget there are none."""

    rows: tuple[BudgetRow, ...] = ()
    refusals: tuple[str, ...] = ()
    """Why `run` would refuse the plan before it begins."""

    @property
    def verdict(self) -> BudgetOutcome:
        """The worst of the rows."""
        if self.refusals:
            return "over"
        found = {row.verdict for row in self.rows}
        for verdict in _WORST_FIRST:
            if verdict in found:
                return verdict
        return "none"


def judge_budget(
    total: ModelDemand,
    *,
    time: EstimateRange,
    time_limit: float | None,
    allowance: Allowance | None,
    steps: Iterable[tuple[StepId, Budget, ModelDemand, EstimateRange]],
    refusals: tuple[str, ...] = (),
) -> BudgetVerdict:
    """Return the verdict.

    Args:
        total: What models are asked for in all.
        time: How long the run is expected to take.
        time_limit: How long it may.
        allowance: What is left; nothing bounds models where it is absent.
        steps: Steps with a budget of their own, what they ask models for, and how long their calls take.
        refusals: What the checker said against the budgets.
    """
    rows: list[BudgetRow] = []
    if time_limit is not None:
        rows.append(_budget_row("run", None, "time", time_limit, time))
    if allowance is not None:
        rows += [*_scope_rows("run", allowance.run, total), *_scope_rows("job", allowance.job, total)]
        rows += _scope_rows("day", allowance.day, total)
    for step, budget, demand, seconds in steps:
        rows += _scope_rows("step", budget, demand, step)
        if budget.seconds is not None:
            rows.append(_budget_row("step", step, "time", budget.seconds, seconds))
    return BudgetVerdict(tuple(rows), refusals)


def _scope_rows(
    scope: Literal["run", "job", "day", "step"], left: object, demand: ModelDemand, step: StepId | None = None
) -> Iterator[BudgetRow]:
    for measure in _MODEL_MEASURES:
        bound: float | None = getattr(left, measure)
        # A step's seconds are those of its calls, whatever they ask.
        if bound is not None and not (step is not None and measure == "seconds"):
            yield _budget_row(scope, step, measure, float(bound), getattr(demand, measure))


def _budget_row(
    scope: Literal["run", "job", "day", "step"],
    step: StepId | None,
    measure: BudgetMeasure,
    left: float,
    figure: EstimateRange | None,
) -> BudgetRow:
    if figure is None:
        return BudgetRow(scope, step, measure, left, None, None, "unknown")
    verdict: BudgetOutcome = "over" if figure.expected > left else "tight" if figure.p90 > left else "fits"
    return BudgetRow(scope, step, measure, left, figure.expected, figure.p90, verdict)
