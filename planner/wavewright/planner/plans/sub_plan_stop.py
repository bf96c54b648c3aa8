"""The `stop` of a sub-plan in the step that gives its result."""

from __future__ import annotations

from wavewright.planner.cel.embedded import bare_expression, joined_conditions, step_path
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.language.plan import Plan
from wavewright.planner.plans.let_and_stop import as_expression, unguarded
from wavewright.planner.plans.sub_plan_call import Rewriting, SubPlanCall
from wavewright.planner.plans.uses import value_reads
from wavewright.planner.types import Json, StepId


def result_with_stop(
    call: SubPlanCall, rewriting: Rewriting, result: Json
) -> tuple[Json, list[str]]:
    """Return the result of a sub-plan as one value, that of `stop` where it holds, and what has to
    hold for an optional sub-plan to have one: what is read is there, or was stopped.

    Args:
        call: The call of the sub-plan, its `stop` put in.
        rewriting: What its expressions become.
        result: What it gives where it goes on, as `${…}` or a structure that holds such.
    """
    plan = call.inner.plan
    if plan.stop is None:
        return result, []
    try:
        stops = bare_expression(plan.stop.when).expression
        stopped = _only_stopped(plan, stops)
        going_on = as_expression(result)
        conditions = [f"!({stops})", *unguarded(going_on, stopped)]
    except ExpressionError:
        return result, []
    text = f"${{{' && '.join(conditions)} ? {going_on} : {as_expression(plan.stop.result)}}}"
    if not call.step.optional:
        return text, []
    # Where a step has failed that is read, the result is not that of a stop.
    there = [f"({stops}) || has({step_path(name)})" for name in sorted(stopped & value_reads(text))]
    return text, [rewriting.condition(condition) for condition in there]


def _only_stopped(plan: Plan, stops: str) -> frozenset[StepId]:
    """Return the steps of a plan, its `stop` put in, that no other condition skips."""
    goes_on = joined_conditions(f"!({stops})")
    return frozenset(
        step.id
        for step in plan.steps
        if step.when is not None and not step.optional and joined_conditions(step.when) == goes_on
    )
