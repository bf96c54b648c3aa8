"""What expressions give before anything runs: those that read inputs, and outputs of a run that has begun."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from wavewright.planner.expressions import ExpressionError, evaluate
from wavewright.planner.models import Plan, Step
from wavewright.planner.reads import Read
from wavewright.planner.references import reads, render, split_references
from wavewright.planner.types import Json, JsonObject, StepId


def count_calls(step: Step, plan: Plan, now: dt.datetime, outputs: Mapping[StepId, Json]) -> int | None:
    """Return how many calls a step makes; `None` where that depends on an output that is not known."""
    if step.for_each is None:
        return 1
    if isinstance(step.for_each, list):
        return len(step.for_each)
    items = known_value(step.for_each, plan, now, outputs)
    return len(items) if isinstance(items, list) else None


def known_value(text: str, plan: Plan, now: dt.datetime, outputs: Mapping[StepId, Json]) -> Json:
    """Return the value of a condition or a `${…}` text that reads inputs and known outputs alone, else `None`."""
    parts = split_references(text)
    embedded = [part.expression for part in parts if not isinstance(part, str)]
    expressions = embedded or [text]
    for expression in expressions:
        if any(not (one.root == "inputs" or _is_known_output(one, outputs)) for one in reads(expression)):
            return None
    steps: JsonObject = {str(step): output for step, output in outputs.items()}
    variables: JsonObject = {"inputs": plan.inputs, "steps": steps}

    def value_of(expression: str) -> Json:
        return evaluate(expression, variables, now)

    try:
        return render(text, value_of) if embedded else value_of(text)
    except ExpressionError:
        return None


def _is_known_output(read: Read, outputs: Mapping[StepId, Json]) -> bool:
    return read.root == "steps" and read.name is not None and read.name in outputs
