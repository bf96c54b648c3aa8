"""Family E7: what the plan may take is more than there is left of a budget.

An estimate is held against *what is left* where an allowance says so, else against the goal's own budget. It only
knows what the tools say of themselves; what models really take is held to the budgets while the plan runs. In money
it is as good as the allowance's price of a token: without one, budgets of money say nothing here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from wavewright.planner.check_subject import Subject
from wavewright.planner.diagnostics import Diagnostic
from wavewright.planner.faults import fault
from wavewright.planner.token_estimates import PlanEstimate, StepEstimate, estimate_tokens_of_plan

if TYPE_CHECKING:
    from wavewright.planner.allowance import Allowance, Left
    from wavewright.planner.models import Budget
    from wavewright.planner.types import StepId

_MOST_STEPS_NAMED = 3
_Measure: TypeAlias = Literal["tokens", "calls", "usd"]
_MEASURES: Final[tuple[_Measure, ...]] = ("tokens", "calls", "usd")


@dataclass(frozen=True, slots=True)
class _Scope:
    """A budget that a plan is held against."""

    code: str
    of: str
    left: Left | Budget
    is_rest: bool
    """Whether it is what is left of the budget, and not the budget itself."""
    mend: str


def check_budget(
    subject: Subject,
    allowance: Allowance | None,
    finished: Collection[StepId],
    items_done: Mapping[StepId, int],
) -> Iterator[Diagnostic]:
    """Yield the budgets that the plan is expected to pass."""
    scopes = _scopes(subject, allowance)
    if not scopes and not any(step.budget for step in subject.plan.steps):
        return
    estimate = estimate_tokens_of_plan(subject.plan, subject.tools, finished=finished, items_done=items_done)
    price = None if allowance is None else allowance.usd_per_1000_tokens
    for scope in scopes:
        yield from _over(scope, estimate, price)
    for expected in estimate.steps:
        yield from _step_over(subject, expected, price)


def _scopes(subject: Subject, allowance: Allowance | None) -> list[_Scope]:
    if allowance is None:
        own = subject.limits.budget
        return [] if own is None else [_Scope("E701", "the run", own, is_rest=False, mend=_RUN)]
    return [
        _Scope("E701", "the run", allowance.run, is_rest=True, mend=_RUN),
        _Scope("E702", "the job", allowance.job, is_rest=True, mend=_JOB),
        _Scope("E703", "the day", allowance.day, is_rest=True, mend=_DAY),
    ]


_FEWER = "drop steps, or run them over fewer items"
_RUN = (
    f"{_FEWER}; or raise `limits.budget` in the goal and `budgets.run` in wavewright.yaml, where they are set"
)
_JOB = f"{_FEWER}; or raise `budgets.job` in wavewright.yaml"
_DAY = f"{_FEWER}; wait for midnight UTC, or raise `budgets.day` in wavewright.yaml"


def _over(scope: _Scope, estimate: PlanEstimate, price: float | None) -> Iterator[Diagnostic]:
    """Yield one fault for a budget, for the measure that is named first."""
    for measure in _MEASURES:
        bound, taken = _bound(scope.left, measure), _taken(estimate, measure, price)
        if bound is None or taken is None or taken <= bound:
            continue
        rest = f"{scope.of} has {_figure(measure, bound)}{' left' if scope.is_rest else ''}"
        dearest = sorted(estimate.steps, key=lambda step: (-(_taken(step, measure, price) or 0), step.number))
        yield fault(
            scope.code,
            f"/steps/{dearest[0].number}",
            f"the plan is expected to take {_least(estimate)}{_words(measure, taken)}, and {rest}:"
            f" {_named(dearest, measure, price)}",
            scope.mend,
        )
        return


def _step_over(subject: Subject, expected: StepEstimate, price: float | None) -> Iterator[Diagnostic]:
    budget = subject.plan.steps[expected.number].budget
    if budget is None:
        return
    for measure in _MEASURES:
        bound, taken = _bound(budget, measure), _taken(expected, measure, price)
        if bound is None or taken is None or taken <= bound:
            continue
        yield fault(
            "E704",
            f"/steps/{expected.number}/budget/{measure}",
            f"step {expected.step!r} is expected to take {_least(expected)}{_words(measure, taken)}"
            f"{_items(expected, measure)}, and its budget is {_figure(measure, bound)}",
            f"raise the step's `budget.{measure}`, or run it over fewer items",
        )


def _bound(left: Left | Budget, measure: _Measure) -> float | None:
    match measure:
        case "tokens":
            return left.tokens
        case "calls":
            return left.calls
        case "usd":
            return left.usd


def _taken(estimate: PlanEstimate | StepEstimate, measure: _Measure, price: float | None) -> float | None:
    """Return what is expected of a measure; None for money where no price is known."""
    match measure:
        case "tokens":
            return estimate.tokens
        case "calls":
            return estimate.calls
        case "usd":
            # To the billionth of a dollar, as budgets are kept: what is left over of a float is nobody's money.
            return None if price is None else round(estimate.tokens * price / 1000, 9)


def _figure(measure: _Measure, figure: float) -> str:
    return f"${figure:,.4f}" if measure == "usd" else f"{figure:,}"


def _words(measure: _Measure, figure: float) -> str:
    unit = {"tokens": " tokens", "calls": " calls of models", "usd": ""}[measure]
    return _figure(measure, figure) + unit


def _named(dearest: list[StepEstimate], measure: _Measure, price: float | None) -> str:
    shown = [
        f"{step.step!r} {_least(step)}{_figure(measure, _taken(step, measure, price) or 0)}{_items(step, measure)}"
        for step in dearest[:_MOST_STEPS_NAMED]
    ]
    more = len(dearest) - _MOST_STEPS_NAMED
    return ", ".join(shown) + (f", and {more} more" if more > 0 else "")


def _items(step: StepEstimate, measure: _Measure) -> str:
    return f" ({step.calls:,} items)" if step.calls > 1 and measure != "calls" else ""


def _least(estimate: PlanEstimate | StepEstimate) -> str:
    return "at least " if estimate.is_least else ""
