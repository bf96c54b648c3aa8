"""Family E7: whether a plan's estimated use of models fits its budgets, and whether its tools can
work here.

An estimate is compared with what the allowance says is left, or else with the goal's own budget.
Estimates are those of the tools; actual use is held to the budgets during the run. Amounts of money
need the allowance's price of a token and are not compared without one.

What is known of the environment (prompts, a model) is passed in as *obstacles*; this module finds
the steps that they concern.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from wavewright.planner.checks.context import CheckContext
from wavewright.planner.diagnostics.diagnostic import Diagnostic, make_diagnostic
from wavewright.planner.language.plan import Budget, Plan, Step
from wavewright.planner.language.signatures import AGENT
from wavewright.planner.plans.estimates import PlanEstimate, StepEstimate, estimate_plan_tokens
from wavewright.planner.types import StepId

if TYPE_CHECKING:
    from wavewright.planner.ports.budgets import Allowance, RemainingBudget


_MAX_STEPS_NAMED = 3
_Measure: TypeAlias = Literal["tokens", "calls", "usd"]


@dataclass(frozen=True, slots=True)
class _BudgetLimit:
    """A budget that a plan is held against."""

    code: str
    of: str
    left: RemainingBudget | Budget
    is_rest: bool
    """Whether it is what is left of the budget, and not the budget itself."""
    hint: str


def check_budget(
    subject: CheckContext,
    allowance: Allowance | None,
    finished: Collection[StepId],
    items_done: Mapping[StepId, int],
) -> Iterator[Diagnostic]:
    """Yield the budgets that the plan is expected to pass, and those that nothing is counted
    against.
    """
    yield from _check_budgets_without_model(subject)
    scopes = _budget_limits(subject, allowance)
    if not scopes and not any(step.budget for step in subject.plan.steps):
        return
    estimate = estimate_plan_tokens(
        subject.plan, subject.tools, finished=finished, items_done=items_done
    )
    price = None if allowance is None else allowance.usd_per_1000_tokens
    for scope in scopes:
        yield from _check_limit(scope, estimate, price)
    for expected in estimate.steps:
        yield from _check_step_budget(subject, expected, price)
        if allowance is not None and allowance.spans_days:
            yield from _check_call_of_a_day(expected, allowance.day, price)


def _check_budgets_without_model(subject: CheckContext) -> Iterator[Diagnostic]:
    """Yield budgets of steps that ask no model: whoever sets one believes that it ends something."""
    for number, step in enumerate(subject.plan.steps):
        signature = subject.signature(step)
        if step.budget is None or signature is None:
            continue
        if signature.expected_tokens or signature.calls_agents or step.tool == AGENT:
            continue
        yield make_diagnostic(
            "E705",
            f"/steps/{number}/budget",
            f"step {step.id!r} has a budget, and {step.tool!r} asks no model: nothing would be counted",
            "drop it; `timeout` ends a call, and `max_items` and `retry` bound how many there are",
        )


def _budget_limits(subject: CheckContext, allowance: Allowance | None) -> list[_BudgetLimit]:
    if allowance is None:
        own = subject.limits.budget
        if own is None:
            return []
        return [_BudgetLimit("E701", "the run", own, is_rest=False, hint=_RUN_HINT)]
    limits = [
        _BudgetLimit("E701", "the run", allowance.run, is_rest=True, hint=_RUN_HINT),
        _BudgetLimit("E702", "the job", allowance.job, is_rest=True, hint=_JOB_HINT),
    ]
    # A run that goes on after midnight may take many days.
    if not allowance.spans_days:
        limits.append(_BudgetLimit("E703", "the day", allowance.day, is_rest=True, hint=_DAY_HINT))
    return limits


_FEWER_HINT = "drop steps, or run them over fewer items"
_RUN_HINT = (
    f"{_FEWER_HINT}; or raise `limits.budget` in the goal and `budgets.run` in wavewright.yaml, "
    "where they are set"
)
_JOB_HINT = f"{_FEWER_HINT}; or raise `budgets.job` in wavewright.yaml"
_DAY_HINT = f"{_FEWER_HINT}; wait for midnight UTC, or raise `budgets.day` in wavewright.yaml"


def _check_limit(
    scope: _BudgetLimit, estimate: PlanEstimate, price: float | None
) -> Iterator[Diagnostic]:
    """Yield one fault for a budget, for the measure that is named first."""
    for measure, bound, taken in _passed(scope.left, estimate, price):
        rest = f"{scope.of} has {_amount_text(measure, bound)}{' left' if scope.is_rest else ''}"
        dearest = sorted(
            estimate.steps,
            key=lambda step: (-(_expected_amount(step, measure, price) or 0), step.number),
        )
        yield make_diagnostic(
            scope.code,
            f"/steps/{dearest[0].number}",
            f"the plan is expected to take {_at_least_text(estimate)}{_amount_with_unit(measure, taken)}, and {rest}:"
            f" {_largest_steps_text(dearest, measure, price)}",
            scope.hint,
        )
        return


def _check_step_budget(
    subject: CheckContext, expected: StepEstimate, price: float | None
) -> Iterator[Diagnostic]:
    budget = subject.plan.steps[expected.number].budget
    if budget is None:
        return
    for measure, bound, taken in _passed(budget, expected, price):
        yield make_diagnostic(
            "E704",
            f"/steps/{expected.number}/budget/{measure}",
            f"step {expected.step!r} is expected to take {_at_least_text(expected)}{_amount_with_unit(measure, taken)}"
            f"{_items_text(expected, measure)}, and its budget is {_amount_text(measure, bound)}",
            f"raise the step's `budget.{measure}`, or run it over fewer items",
        )


def _check_call_of_a_day(
    expected: StepEstimate, day: RemainingBudget, price: float | None
) -> Iterator[Diagnostic]:
    """Yield a fault where one call of a step is expected to take more than any day has."""
    call = replace(expected, calls=1, tokens=math.ceil(expected.tokens / max(1, expected.calls)))
    for measure, bound, taken in _passed(day, call, price):
        yield make_diagnostic(
            "E703",
            f"/steps/{expected.number}",
            f"one call of step {expected.step!r} is expected to take"
            f" {_amount_with_unit(measure, taken)}, and a whole day has {_amount_text(measure, bound)}",
            "raise `budgets.day` in wavewright.yaml, or have the step do less in a call",
        )
        return


def _passed(
    budget: RemainingBudget | Budget, estimate: PlanEstimate | StepEstimate, price: float | None
) -> Iterator[tuple[_Measure, float, float]]:
    """Yield the measures of which more is expected than a budget has, with both figures."""
    bounds: dict[_Measure, float | None] = {
        "tokens": budget.tokens,
        "calls": budget.calls,
        "usd": budget.usd,
    }
    for measure, bound in bounds.items():
        taken = _expected_amount(estimate, measure, price)
        if bound is not None and taken is not None and taken > bound:
            yield measure, bound, taken


def _expected_amount(
    estimate: PlanEstimate | StepEstimate, measure: _Measure, price: float | None
) -> float | None:
    """Return what is expected of a measure; None for money where no price is known."""
    match measure:
        case "tokens":
            return estimate.tokens
        case "calls":
            return estimate.calls
        case "usd":
            # To the billionth of a dollar, as budgets are kept: the rest is an error of floats.
            return None if price is None else round(estimate.tokens * price / 1000, 9)


def _amount_text(measure: _Measure, figure: float) -> str:
    return f"${figure:,.4f}" if measure == "usd" else f"{figure:,}"


def _amount_with_unit(measure: _Measure, figure: float) -> str:
    unit = {"tokens": " tokens", "calls": " calls of models", "usd": ""}[measure]
    return _amount_text(measure, figure) + unit


def _largest_steps_text(dearest: list[StepEstimate], measure: _Measure, price: float | None) -> str:
    shown = [
        f"{step.step!r} {_at_least_text(step)}"
        f"{_amount_text(measure, _expected_amount(step, measure, price) or 0)}{_items_text(step, measure)}"
        for step in dearest[:_MAX_STEPS_NAMED]
    ]
    more = len(dearest) - _MAX_STEPS_NAMED
    return ", ".join(shown) + (f", and {more} more" if more > 0 else "")


def _items_text(step: StepEstimate, measure: _Measure) -> str:
    return f" ({step.calls:,} items)" if step.calls > 1 and measure != "calls" else ""


def _at_least_text(estimate: PlanEstimate | StepEstimate) -> str:
    return "at least " if estimate.is_lower_bound else ""


ObstacleKind: TypeAlias = Literal["bad_prompt", "not_ready"]


WHOLE_RUN = ""
"""Stands for a tool's name where no run can begin."""


class Obstacle(NamedTuple):
    """What keeps a tool from working here."""

    kind: ObstacleKind
    message: str
    """What is wrong, with its place: a clause that follows a colon."""
    hint: str | None = None


def check_readiness(
    plan: Plan, obstacles: Mapping[str, Obstacle], *, is_run: bool = False
) -> Iterator[Diagnostic]:
    """Yield which steps call a tool that cannot work.

    Args:
        plan: The plan.
        obstacles: What keeps tools from working, by their names.
        is_run: Whether the plan is about to run here. If not, a missing model or variable is a
            warning: it may be there where the plan runs.
    """
    whole = obstacles.get(WHOLE_RUN)
    if whole is not None:
        yield make_diagnostic("W806", "", f"a run here cannot begin: {whole.message}", whole.hint)
    for number, step in enumerate(plan.steps):
        obstacle = obstacles.get(step.tool)
        if obstacle is None:
            continue
        if obstacle.kind == "bad_prompt":
            code = "E207"
        elif is_run and _is_certain(step):
            # A run would meet the obstacle for certain, so it is refused before it costs anything.
            code = "E208"
        else:
            code = "W806"
        message = f"step {step.id!r} calls {step.tool!r}: {obstacle.message}"
        yield make_diagnostic(code, f"/steps/{number}/tool", message, obstacle.hint)


def _is_certain(step: Step) -> bool:
    """Whether the run fails if the step does, and the step does not depend on a condition."""
    return not step.optional and step.when is None
