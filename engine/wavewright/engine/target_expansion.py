"""What a target's run has found that is a target of the next wave; and whether it can find any."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from wavewright.engine.jobs import ResolvedJob
from wavewright.engine.target_waves import Target, read_targets
from wavewright.executor.state import RunState
from wavewright.planner.binding import bind_plan
from wavewright.planner.check_references import check_expansion
from wavewright.planner.check_subject import CheckContext
from wavewright.planner.diagnostics import Diagnostic, PlanError
from wavewright.planner.expressions import ExpressionError, evaluate
from wavewright.planner.models import Plan
from wavewright.planner.references import render
from wavewright.planner.replacements import superseded_by
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.types import Json, JsonObject, StepId


def check_expansion_of_job(order: ResolvedJob, tools: Mapping[str, ToolSignature]) -> tuple[Diagnostic, ...]:
    """Return what is wrong with how a job finds further targets, over the plan that it brings."""
    expansion, draft = order.expansion, order.draft
    if expansion is None or draft is None:
        return ()
    plan = bind_plan(draft.plan, order.goal, tools)
    subject = CheckContext(plan, order.goal, tools, order.goal.limits)
    return expansion.origin.place(check_expansion(subject, expansion.text, expansion.pointer))


def require_valid_expansion(order: ResolvedJob, tools: Mapping[str, ToolSignature]) -> None:
    """Raise an error where a job would find no targets however it runs.

    Raises:
        PlanError: what is wrong, at its place.
    """
    if found := check_expansion_of_job(order, tools):
        assert order.expansion is not None
        raise PlanError(found, order.expansion.origin.document.source)


def found_targets(expand: str | None, state: RunState) -> tuple[list[Target], str]:
    """Return what the expansion gives over a run's steps, each once, and what is to be said where that is not all.

    A step that was superseded is read as the one that stands for it. A run whose steps did not end well has found
    nothing: that is no fault of the job. What is said holds nothing that a step has brought.
    """
    if expand is None or state.plan is None or state.started is None:
        return [], ""
    steps: JsonObject = {str(step): output for step, output in state.outputs().items()}
    for old, new in reversed(superseded_by(Plan.model_validate(state.plan)).items()):
        if new in steps:
            steps[old] = steps[StepId(new)]
    inputs = state.plan.get("inputs")
    variables: JsonObject = {"steps": steps, "inputs": inputs if isinstance(inputs, dict) else {}}
    now = dt.datetime.fromtimestamp(state.started.now, dt.UTC)
    try:
        value: Json = render(expand, lambda expression: evaluate(expression, variables, now))
    except ExpressionError:
        return [], "nothing was looked for: the expansion has no value"
    if not isinstance(value, list):
        return [], "nothing was looked for: the expansion gave no list"
    found = list(read_targets(value))
    left_out = len(value) - len(found)
    said = f"{left_out} of {len(value)} that were found can be no target" if left_out else ""
    return list(dict.fromkeys(found)), said
