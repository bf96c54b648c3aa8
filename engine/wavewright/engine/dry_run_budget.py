"""Whether what a plan is expected to take fits into what is left of the budgets.

The *budget verdict* holds the expected figure and the p90 of each measure against what is left of the run's, the
job's, the day's and each step's budget. It is the worst of its rows: `fits`, `tight` (only the p90 is over),
`unknown` (no price is known, so models refuse calls under a budget of money), or `over`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from wavewright.engine.dry_run_estimates import NOTHING, Range
from wavewright.planner.allowance import Allowance
from wavewright.planner.models import Budget
from wavewright.planner.types import StepId

Verdict: TypeAlias = Literal["none", "fits", "tight", "unknown", "over"]
Measure: TypeAlias = Literal["calls", "tokens", "usd", "seconds", "time"]

_WORST_FIRST: Final[tuple[Verdict, ...]] = ("over", "unknown", "tight", "fits")
_SPENT: Final[tuple[Literal["calls", "tokens", "usd", "seconds"], ...]] = (
    "tokens",
    "usd",
    "calls",
    "seconds",
)


@dataclass(frozen=True, slots=True)
class Demand:
    """What models are asked for, by a step or by all of them."""

    calls: Range = NOTHING
    tokens: Range = NOTHING
    usd: Range | None = NOTHING
    """None where a price is not known."""
    seconds: Range = NOTHING
    """Time of model calls."""

    def __add__(self, other: Demand) -> Demand:
        return Demand(
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
    measure: Measure
    """`seconds` is time of model calls, `time` that of the whole run or step."""
    left: float
    expected: float | None
    p90: float | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class BudgetVerdict:
    """The rows, and the worst of them; without any budget there are none."""

    rows: tuple[BudgetRow, ...] = ()
    refusals: tuple[str, ...] = ()
    """Why `run` would refuse the plan before it begins."""

    @property
    def verdict(self) -> Verdict:
        """The worst of the rows."""
        if self.refusals:
            return "over"
        found = {row.verdict for row in self.rows}
        for verdict in _WORST_FIRST:
            if verdict in found:
                return verdict
        return "none"


def judge_budget(
    total: Demand,
    *,
    time: Range,
    time_limit: float | None,
    allowance: Allowance | None,
    steps: Iterable[tuple[StepId, Budget, Demand, Range]],
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
        rows.append(_row("run", None, "time", time_limit, time))
    if allowance is not None:
        rows += [*_rows("run", allowance.run, total), *_rows("job", allowance.job, total)]
        rows += _rows("day", allowance.day, total)
    for step, budget, demand, seconds in steps:
        rows += _rows("step", budget, demand, step)
        if budget.seconds is not None:
            rows.append(_row("step", step, "time", budget.seconds, seconds))
    return BudgetVerdict(tuple(rows), refusals)


def _rows(
    scope: Literal["run", "job", "day", "step"], left: object, demand: Demand, step: StepId | None = None
) -> Iterator[BudgetRow]:
    for measure in _SPENT:
        bound: float | None = getattr(left, measure)
        # A step's seconds are those of its calls, whatever they ask.
        if bound is not None and not (step is not None and measure == "seconds"):
            yield _row(scope, step, measure, float(bound), getattr(demand, measure))


def _row(
    scope: Literal["run", "job", "day", "step"],
    step: StepId | None,
    measure: Measure,
    left: float,
    figure: Range | None,
) -> BudgetRow:
    if figure is None:
        return BudgetRow(scope, step, measure, left, None, None, "unknown")
    verdict: Verdict = "over" if figure.expected > left else "tight" if figure.p90 > left else "fits"
    return BudgetRow(scope, step, measure, left, figure.expected, figure.p90, verdict)
