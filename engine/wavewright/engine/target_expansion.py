"""What a target's run has found that is a target of the next wave."""

from __future__ import annotations

import datetime as dt

from wavewright.engine.target_waves import Target, read_targets
from wavewright.executor.state import RunState
from wavewright.planner.expressions import ExpressionFault, evaluate
from wavewright.planner.models import Plan
from wavewright.planner.references import render
from wavewright.planner.replacements import replacements
from wavewright.planner.types import Json, JsonObject, StepId


def found_targets(expand: str | None, state: RunState) -> list[Target]:
    """Return what the expansion gives over a run's steps, each once; nothing where it gives no list.

    A step that was superseded is read as the one that stands for it. A run whose steps did not end well has found
    nothing: that is no fault of the job.
    """
    if expand is None or state.plan is None or state.started is None:
        return []
    steps: JsonObject = {str(step): output for step, output in state.outputs().items()}
    for old, new in reversed(replacements(Plan.model_validate(state.plan)).items()):
        if new in steps:
            steps[old] = steps[StepId(new)]
    inputs = state.plan.get("inputs")
    variables: JsonObject = {"steps": steps, "inputs": inputs if isinstance(inputs, dict) else {}}
    now = dt.datetime.fromtimestamp(state.started.now, dt.UTC)
    try:
        value: Json = render(expand, lambda expression: evaluate(expression, variables, now))
    except ExpressionFault:
        return []
    return list(dict.fromkeys(read_targets(value if isinstance(value, list) else [])))
