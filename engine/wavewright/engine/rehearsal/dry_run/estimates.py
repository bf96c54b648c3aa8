"""Estimates of calls, from past calls or the tool's own defaults, and their comparison with the
budgets.

An *estimate* has two values for each measure: the expected one (the mean) and the *p90*, which nine
of ten calls stay below. For a tool with too few past calls its own value is the expected one and
twice that the p90; such an estimate is a *default* and is marked as one.

The *budget verdict* compares both values of each measure with what is left of the run's, the job's,
the day's and each step's budget. It is the worst of its rows: `fits`, `tight` (only the p90 is
over), `unknown` (no price is known, so models refuse calls under a budget of money), or `over`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from wavewright.engine.rehearsal.dry_run.history import NO_HISTORY, History, PastCalls
from wavewright.engine.rehearsal.dry_run.kept_results import BegunRunForecast, SavedCalls
from wavewright.planner import StepId, ToolSignature
from wavewright.planner.checks.feasibility import Obstacle
from wavewright.planner.language.plan import Budget
from wavewright.planner.ports.budgets import Allowance

EstimateSource: TypeAlias = Literal["history", "default"]

MIN_CALLS: Final = 3
"""Minimum number of past calls for an estimate from history."""
_DEFAULT_SPREAD: Final = 2.0
"""Ratio of p90 to expected value of a default."""


@dataclass(frozen=True, slots=True)
class EstimateRange:
    """An expected value, and the p90 that nine of ten stay below."""

    expected: float = 0.0
    p90: float = 0.0

    def __add__(self, other: EstimateRange) -> EstimateRange:
        return EstimateRange(self.expected + other.expected, self.p90 + other.p90)

    def times(self, factor: float) -> EstimateRange:
        """Return the multiple; each of several calls is assumed to reach its p90, which is
        conservative.
        """
        return EstimateRange(self.expected * factor, self.p90 * factor)


ZERO_RANGE: Final = EstimateRange()


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """The model that a tool would ask, with its price."""

    model: str
    usd_per_1000_tokens: float | None
    """None if it is unknown."""


@dataclass(frozen=True, slots=True)
class ForecastInputs:
    """What a forecast depends on besides the plan and the tools."""

    history: History = field(default_factory=lambda: NO_HISTORY)
    prices: Mapping[str, ModelPrice] = field(default_factory=dict[str, ModelPrice])
    """By tool that asks a model; empty if no model is configured."""
    allowance: Allowance | None = None
    """What is left of the budgets; None if no model is configured."""
    saved: SavedCalls = field(default_factory=SavedCalls)
    """Calls that need not be made."""
    rerun: BegunRunForecast | None = None
    """The run that the plan belongs to, if it has begun."""
    has_models: bool = False
    """Whether a model is configured, so a run would ask the planner instead of using the template's
    plan.
    """
    notes: tuple[str, ...] = ()
    """Remarks on models, such as a missing key."""
    obstacles: Mapping[str, Obstacle] = field(default_factory=dict[str, "Obstacle"])
    """Reasons why tools cannot work in the project, by tool."""


@dataclass(frozen=True, slots=True)
class CallEstimate:
    """The estimate of one call."""

    seconds: EstimateRange
    seconds_from: EstimateSource
    calls_seen: int
    """Number of past calls that the seconds are computed from."""
    tokens: EstimateRange = ZERO_RANGE
    tokens_from: EstimateSource = "default"
    spends_seen: int = 0
    """Number of past calls of this model that the tokens are computed from."""
    usd: EstimateRange | None = ZERO_RANGE
    """None if the price is unknown."""
    model: str | None = None
    """The model that would be asked; None for a tool that asks no model."""


def estimate_call(tool: ToolSignature, outlook: ForecastInputs) -> CallEstimate:
    """Return the estimate of one call of a tool."""
    past = outlook.history.get(tool.name, PastCalls())
    has_history = len(past.seconds) >= MIN_CALLS
    seconds = (
        _observed_range(past.seconds) if has_history else _default_range(tool.expected_seconds)
    )
    price = outlook.prices.get(tool.name)
    seen = len(past.seconds) if has_history else 0
    basis: EstimateSource = "history" if has_history else "default"
    if price is None:
        return CallEstimate(seconds, basis, seen)
    spends = past.of_model(price.model)
    if len(spends) < MIN_CALLS:
        tokens = _default_range(float(tool.expected_tokens))
        usd = (
            None
            if price.usd_per_1000_tokens is None
            else tokens.times(price.usd_per_1000_tokens / 1000)
        )
        return CallEstimate(seconds, basis, seen, tokens, "default", 0, usd, price.model)
    known = [spend.usd for spend in spends if spend.usd is not None]
    return CallEstimate(
        seconds,
        basis,
        seen,
        _observed_range([float(spend.tokens) for spend in spends]),
        "history",
        len(spends),
        _observed_range(known) if len(known) == len(spends) else None,
        price.model,
    )


def _default_range(figure: float) -> EstimateRange:
    return EstimateRange(figure, figure * _DEFAULT_SPREAD)


def _observed_range(figures: Sequence[float]) -> EstimateRange:
    """Return mean and p90 (by nearest rank)."""
    ordered = sorted(figures)
    mean = math.fsum(ordered) / len(ordered)
    # With few calls the mean can be above the p90; the expected value must not be.
    return EstimateRange(mean, max(mean, ordered[math.ceil(0.9 * len(ordered)) - 1]))


BudgetOutcome: TypeAlias = Literal["none", "fits", "tight", "unknown", "over"]
BudgetMeasure: TypeAlias = Literal["calls", "tokens", "usd", "seconds", "time"]
BudgetScopeName: TypeAlias = Literal["run", "job", "day", "step"]
"""What a budget is of."""

_WORST_FIRST: Final[tuple[BudgetOutcome, ...]] = ("over", "unknown", "tight", "fits")
_MODEL_MEASURES: Final[tuple[Literal["calls", "tokens", "usd", "seconds"], ...]] = (
    "tokens",
    "usd",
    "calls",
    "seconds",
)


@dataclass(frozen=True, slots=True)
class ModelDemand:
    """Demand on models, of a step or of all of them."""

    calls: EstimateRange = ZERO_RANGE
    tokens: EstimateRange = ZERO_RANGE
    usd: EstimateRange | None = ZERO_RANGE
    """None if a price is unknown."""
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

    scope: BudgetScopeName
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
    """Reasons why `run` would refuse the plan before it begins."""

    @property
    def verdict(self) -> BudgetOutcome:
        """The worst of the rows."""
        if self.refusals:
            return "over"
        verdicts = {row.verdict for row in self.rows}
        for verdict in _WORST_FIRST:
            if verdict in verdicts:
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
    """Return the budget verdict.

    Args:
        total: Demand of all steps on models.
        time: Estimated time of the run.
        time_limit: Time limit of the run.
        allowance: What is left of the budgets; None if models are not limited.
        steps: Steps with a budget of their own, with their demand and the time of their calls.
        refusals: The checker's errors on budgets.
    """
    rows: list[BudgetRow] = []
    if time_limit is not None:
        rows.append(_budget_row("run", None, "time", time_limit, time))
    if allowance is not None:
        rows += [
            *_scope_rows("run", allowance.run, total),
            *_scope_rows("job", allowance.job, total),
        ]
        rows += _scope_rows("day", allowance.day, total)
    for step, budget, demand, seconds in steps:
        rows += _scope_rows("step", budget, demand, step)
        if budget.seconds is not None:
            rows.append(_budget_row("step", step, "time", budget.seconds, seconds))
    return BudgetVerdict(tuple(rows), refusals)


def _scope_rows(
    scope: BudgetScopeName, left: object, demand: ModelDemand, step: StepId | None = None
) -> Iterator[BudgetRow]:
    for measure in _MODEL_MEASURES:
        bound: float | None = getattr(left, measure)
        # A step's seconds limit the time of its calls, not that of model calls.
        if bound is not None and not (step is not None and measure == "seconds"):
            yield _budget_row(scope, step, measure, float(bound), getattr(demand, measure))


def _budget_row(
    scope: BudgetScopeName,
    step: StepId | None,
    measure: BudgetMeasure,
    left: float,
    figure: EstimateRange | None,
) -> BudgetRow:
    if figure is None:
        return BudgetRow(scope, step, measure, left, None, None, "unknown")
    verdict: BudgetOutcome = (
        "over" if figure.expected > left else "tight" if figure.p90 > left else "fits"
    )
    return BudgetRow(scope, step, measure, left, figure.expected, figure.p90, verdict)
