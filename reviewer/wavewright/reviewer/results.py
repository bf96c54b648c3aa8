"""What a run was for: its result, and which parts of it are there.

The *result* is what the plan's `result` names, or the outputs of its terminal steps. Something missing becomes null
in it and is listed, so that a review can say what is lacking and a package is written even so.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wavewright.executor.state import RunState
from wavewright.planner.expressions import ExpressionFault, evaluate
from wavewright.planner.goals import Goal
from wavewright.planner.graph import PlanGraph
from wavewright.planner.models import Plan
from wavewright.planner.references import render
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.types import Json, StepId
from wavewright.planner.validators import BadSchemaError, Validator, validator_of
from wavewright.reviewer.evidence import may_be_empty, superseded_steps
from wavewright.reviewer.misfits import misfit_texts
from wavewright.reviewer.scope import plan_scope
from wavewright.reviewer.values import is_empty, shorten


@dataclass(frozen=True, slots=True)
class Result:
    """What came out."""

    value: Json
    terminal: tuple[StepId, ...]
    """The steps that stand at the end of the plan and that no patch replaced."""
    missing: tuple[str, ...] = ()
    """What should be there and is not, as `name: why`."""


def terminal_steps(plan: Plan) -> tuple[StepId, ...]:
    """Return the steps that no other reads, without those that a patch replaced."""
    replaced = superseded_steps(plan)
    return tuple(step_id for step_id in PlanGraph.of(plan).terminal if step_id not in replaced)


def read_result(plan: Plan, state: RunState, tools: Mapping[str, ToolSignature], now: dt.datetime) -> Result:
    """Return the result of a (bound) plan and what is missing from it."""
    terminal = terminal_steps(plan)
    if plan.result is not None:
        return _named_result(plan, state, now, terminal)
    outputs = state.outputs()
    missing = tuple(_missing_terminals(plan, state, tools, terminal))
    if len(terminal) == 1:
        return Result(outputs.get(terminal[0]), terminal, missing)
    return Result({step_id: outputs.get(step_id) for step_id in terminal}, terminal, missing)


def result_faults(plan: Plan, goal: Goal, state: RunState, result: Result) -> tuple[str, ...]:
    """Return where the result breaks the goal's output schema.

    Asked are the outputs of the terminal steps that the goal's rules give the schema to; where there are none, the
    plan's `result`, or else every terminal output. A list is asked entry by entry where it does not fit as a whole.
    """
    if goal.output_schema is None:
        return ()
    try:
        validator = validator_of(goal.output_schema)
    except BadSchemaError as error:
        return (f"the goal's output schema is not a JSON Schema: {shorten(str(error), 200)}",)
    outputs = state.outputs()
    ruled = {rule.tool for rule in goal.rules.terminal}
    asked = [
        step_id for step_id in result.terminal if step_id in outputs and plan.step(step_id).tool in ruled
    ]
    if not asked and plan.result is not None:
        return tuple(_faults(validator, "result", result.value))
    return tuple(
        fault
        for step_id in asked or [step_id for step_id in result.terminal if step_id in outputs]
        for fault in _faults(validator, step_id, outputs[step_id])
    )


def _named_result(plan: Plan, state: RunState, now: dt.datetime, terminal: tuple[StepId, ...]) -> Result:
    variables = plan_scope(plan, state)
    missing: list[str] = []

    def value_of(expression: str) -> Json:
        try:
            value = evaluate(expression, variables, now)
        except ExpressionFault:
            value = None
        if is_empty(value):
            missing.append(f"result: ${{{expression}}} is {'missing' if value is None else 'empty'}")
        return value

    def text_of(text: str) -> Json:
        try:
            return render(text, value_of)
        except ExpressionFault as fault:
            missing.append(f"result: {shorten(text, 80)} could not be rendered ({fault.message})")
            return None

    def walk(node: Json) -> Json:
        match node:
            case str():
                return text_of(node)
            case dict():
                return {key: walk(entry) for key, entry in node.items()}
            case list():
                return [walk(entry) for entry in node]
            case _:
                return node

    return Result(walk(plan.result), terminal, tuple(dict.fromkeys(missing)))


def _missing_terminals(
    plan: Plan, state: RunState, tools: Mapping[str, ToolSignature], terminal: tuple[StepId, ...]
) -> Iterator[str]:
    """Yield each terminal output that should be there.

    An optional terminal step, or one that its `when` skipped, may be absent as long as another one is present.
    """
    any_present = any(state.is_present(step_id) for step_id in terminal)
    for step_id in terminal:
        step, end = plan.step(step_id), state.steps.get(step_id)
        status = end.status if end is not None else "never ran"
        if state.is_present(step_id):
            assert end is not None
            if is_empty(end.output) and not may_be_empty(end, tools.get(step.tool)):
                yield f"{step_id}: its output is empty"
        elif not any_present or not (step.optional or status == "skipped"):
            yield f"{step_id}: {status}"


def _faults(validator: Validator, name: str, value: Json) -> Iterator[str]:
    misfits = validator.misfits(value)
    if misfits and isinstance(value, list) and value:
        misfits = [
            misfit
            for position, entry in enumerate(value)
            for misfit in validator.misfits(entry, f"/{position}")
        ]
    yield from (f"{name}: {text}" for text in misfit_texts(misfits))
