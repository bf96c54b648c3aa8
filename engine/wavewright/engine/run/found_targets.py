"""What the run of a target is made of, and the targets that it finds for the next wave."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from wavewright.config import Settings, Source
from wavewright.engine.run.context import RunContext
from wavewright.engine.run.jobs.inputs import TARGET, inputs_of_target
from wavewright.engine.run.jobs.resolving import ResolvedJob
from wavewright.engine.run.project.tools import signatures_to_check
from wavewright.engine.run.recording import pending_draft
from wavewright.engine.run.target_waves import (
    Target,
    TargetWaves,
    read_targets,
)
from wavewright.executor import RunState
from wavewright.planner import (
    Diagnostic,
    ExpressionError,
    Goal,
    Json,
    JsonObject,
    Plan,
    PlanError,
    StepId,
    ToolSignatures,
    evaluate,
    render,
)
from wavewright.planner.checks.context import CheckContext
from wavewright.planner.checks.references import check_expansion
from wavewright.planner.checks.safety import check_safety, untrusted_names
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.goal_resolution import goal_with_inputs
from wavewright.planner.plans.graph import superseded_by
from wavewright.reviewer.review.results import run_instant


def check_expansion_of_job(order: ResolvedJob, tools: ToolSignatures) -> tuple[Diagnostic, ...]:
    """Return what is wrong with how a job finds further targets, over the plan that it brings."""
    expansion, draft = order.expansion, order.draft
    if expansion is None or draft is None:
        return ()
    plan = bind_plan(draft.plan, order.goal)
    subject = CheckContext(plan, order.goal, tools, order.goal.limits)
    return expansion.origin.place(check_expansion(subject, expansion.text, expansion.pointer))


def goal_of_found_targets(order: ResolvedJob, tools: ToolSignatures) -> Goal:
    """Return a job's goal as the runs of further targets have it: their names may be untrusted
    text.
    """
    if order.expansion is None or order.draft is None:
        return order.goal
    plan = bind_plan(order.draft.plan, order.goal)
    subject = CheckContext(plan, order.goal, tools, order.goal.limits)
    if not untrusted_names(subject, order.expansion.text):
        return order.goal
    return _with_untrusted(
        order.goal, (TARGET, order.goal.targets.visited, order.goal.targets.failed)
    )


def _with_untrusted(goal: Goal, inputs: Iterable[str | None]) -> Goal:
    named = {name for name in inputs if name is not None}
    return goal.model_copy(update={"untrusted_inputs": goal.untrusted_inputs | named})


def require_valid_expansion(order: ResolvedJob, tools: ToolSignatures) -> None:
    """Raise an error where a job would find no targets however it runs, or could run none that it
    finds.

    Raises:
        PlanError: what is wrong, at its place.
    """
    if order.expansion is not None and (faults := check_expansion_of_job(order, tools)):
        raise PlanError(faults, order.expansion.origin.document.source)
    goal = goal_of_found_targets(order, tools)
    if order.draft is not None and goal.untrusted_inputs:
        origin, plan = order.draft.origin, bind_plan(order.draft.plan, goal)
        faults = origin.place(check_safety(CheckContext(plan, goal, tools, goal.limits)))
        if faults:
            raise PlanError(faults, origin.document.source)


def found_targets(
    expand: str | None, state: RunState, settings: Settings
) -> tuple[list[Target], str]:
    """Return what the expansion gives over a run's steps, each once, and what is to be said where
    that is not all.

    A step that was superseded is read as the one that stands for it. A run whose steps did not end
    well has found nothing: that is no fault of the job. What is said holds nothing that a step has
    brought.
    """
    if expand is None or state.plan is None or state.started is None:
        return [], ""
    steps: JsonObject = {str(step): output for step, output in state.outputs().items()}
    plan = Plan.model_validate(state.plan)
    # The expansion names steps of the plan as it was written: a patch may have replaced them.
    for old, new in reversed(superseded_by(plan).items()):
        if new in steps:
            steps[old] = steps[StepId(new)]
    variables = plan.scope(steps)
    now = run_instant(state)
    try:
        value: Json = render(expand, lambda expression: evaluate(expression, variables, now))
    except ExpressionError:
        return [], "nothing was looked for: the expansion has no value"
    if not isinstance(value, list):
        return [], "nothing was looked for: the expansion gave no list"
    goal = Goal.model_validate(state.started.goal)
    subject = CheckContext(plan, goal, signatures_to_check(plan, goal, settings), goal.limits)
    is_untrusted = untrusted_names(subject, expand)
    targets = [replace(target, is_untrusted=is_untrusted) for target in read_targets(value)]
    left_out = len(value) - len(targets)
    note = f"{left_out} of {len(value)} that were found can be no target" if left_out else ""
    return list(dict.fromkeys(targets)), note


def job_of_target(
    context: RunContext, waves: TargetWaves, target: Target, tokens: int | None
) -> ResolvedJob:
    """Return what the run of a target is made of, given the context of its root run; with its share
    of the tokens where they are bounded.
    """
    goal = context.goal
    earlier = waves.ended_before(target)
    visited: list[str] = []
    failed: list[str] = []
    for other in earlier:
        (failed if other.name in waves.failed else visited).append(other.name)
    inputs = inputs_of_target(
        goal.inputs,
        goal.targets,
        target.name,
        wave=target.wave,
        is_last_wave=target.wave >= waves.targets.depth,
        visited=visited,
        failed=failed,
    )
    goal = goal_with_inputs(goal, waves.text, inputs)
    # A name that a step has found is text from outside, wherever the target's run reads it.
    if target.is_untrusted:
        goal = _with_untrusted(goal, [TARGET])
    if any(other.is_untrusted for other in earlier):
        goal = _with_untrusted(goal, [goal.targets.visited, goal.targets.failed])
    changes: dict[str, object] = {"target": target.name}
    if tokens is not None and goal.limits.budget is not None:
        budget = goal.limits.budget.model_copy(update={"tokens": tokens})
        changes["limits"] = goal.limits.model_copy(update={"budget": budget})
    goal = goal.model_copy(update=changes)
    return ResolvedJob(goal, pending_draft(context.state), Source(f"job {goal.title}", ""))
