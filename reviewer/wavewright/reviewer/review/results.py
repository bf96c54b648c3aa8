"""The result of a run, and which parts of it are missing.

The *result* is what the plan's `result` names, or the outputs of its terminal steps. A missing part becomes null and is
listed, so that a review can name it and the package is still written.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from wavewright.executor.events.state import RunState
from wavewright.planner.cel.embedded import reads
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.expressions import evaluate, render
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.schemas.references import InvalidSchemaError
from wavewright.planner.schemas.validation import Validator, validator_of
from wavewright.planner.types import Json, StepId
from wavewright.reviewer.review.evidence import may_be_empty, plan_scope, superseded_steps
from wavewright.reviewer.values import is_empty, misfit_texts, shorten


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run."""

    value: Json
    terminal: tuple[StepId, ...]
    """The steps that no other step reads and that no patch replaced."""
    missing: tuple[str, ...] = ()
    """Parts that should be there and are not, as `name: why`."""
    absent: tuple[str, ...] = ()
    """Parts that are null because only optional or skipped steps would have produced them."""


def terminal_steps(plan: Plan) -> tuple[StepId, ...]:
    """Return the steps that no other step reads, without those that a patch replaced."""
    replaced = superseded_steps(plan)
    return tuple(step_id for step_id in PlanGraph.of(plan).terminal if step_id not in replaced)


def read_result(
    plan: Plan, state: RunState, tools: Mapping[str, ToolSignature], now: dt.datetime
) -> RunResult:
    """Return the result of a run of a (bound) plan, with what is missing from it."""
    terminal = terminal_steps(plan)
    if plan.result is not None:
        return _declared_result(plan, state, tools, now, terminal)
    outputs = state.outputs()
    missing = tuple(_missing_terminals(plan, state, tools, terminal))
    if len(terminal) == 1:
        return RunResult(outputs.get(terminal[0]), terminal, missing)
    return RunResult({step_id: outputs.get(step_id) for step_id in terminal}, terminal, missing)


def result_faults(plan: Plan, goal: Goal, state: RunState, result: RunResult) -> tuple[str, ...]:
    """Return the violations of the goal's output schema by the result.

    The schema applies to the outputs of the terminal steps whose tools the goal's rules name; where there are none, to
    the plan's `result`, or else to every terminal output. A list that does not fit as a whole is validated entry by
    entry. A missing result violates nothing.
    """
    if goal.output_schema is None or result.value is None:
        return ()
    try:
        validator = validator_of(goal.output_schema)
    except InvalidSchemaError as error:
        return (f"the goal's output schema is not a JSON Schema: {shorten(str(error), 200)}",)
    outputs = state.outputs()
    ruled = {rule.tool for rule in goal.rules.terminal}
    checked = [
        step_id for step_id in result.terminal if step_id in outputs and plan.step(step_id).tool in ruled
    ]
    if not checked and plan.result is not None:
        return tuple(_schema_faults(validator, "result", result.value))
    return tuple(
        fault
        for step_id in checked or [step_id for step_id in result.terminal if step_id in outputs]
        for fault in _schema_faults(validator, step_id, outputs[step_id])
    )


def _declared_result(
    plan: Plan,
    state: RunState,
    tools: Mapping[str, ToolSignature],
    now: dt.datetime,
    terminal: tuple[StepId, ...],
) -> RunResult:
    variables = plan_scope(plan, state)
    missing: list[str] = []
    absent: list[str] = []

    def value_of(expression: str) -> Json:
        try:
            value = evaluate(expression, variables, now)
        except ExpressionError:
            value = None
        if value is None:
            lacking = absent if _may_be_absent(expression, plan, state) else missing
            lacking.append(f"result: ${{{expression}}} is missing")
        return value

    def text_of(text: str) -> Json:
        try:
            return render(text, value_of)
        except ExpressionError as fault:
            # A missing value is listed already; this lists any other reason why the text cannot be rendered.
            if not missing and not absent:
                missing.append(f"result: {shorten(text, 80)} could not be rendered ({fault.message})")
            return None

    value = _render_result(plan.result, text_of)
    if is_empty(value) and not missing and not _all_may_be_empty(plan, state, tools, terminal):
        missing.append("result: it is empty")
    return RunResult(value, terminal, tuple(dict.fromkeys(missing)), tuple(dict.fromkeys(absent)))


def _render_result(node: Json, text_of: Callable[[str], Json]) -> Json:
    match node:
        case str():
            return text_of(node)
        case dict():
            return {key: _render_result(entry, text_of) for key, entry in node.items()}
        case list():
            return [_render_result(entry, text_of) for entry in node]
        case _:
            return node


def _may_be_absent(expression: str, plan: Plan, state: RunState) -> bool:
    """Whether all outputs that an expression reads and that are absent may be absent."""
    steps = {step.id: step for step in plan.steps}
    try:
        names = {StepId(read.name) for read in reads(expression) if read.root == "steps" and read.name}
    except ExpressionError:
        return False
    lacking = [steps[name] for name in names if name in steps and not state.is_present(name)]
    return bool(lacking) and all(step.optional or state.status(step.id) == "skipped" for step in lacking)


def _all_may_be_empty(
    plan: Plan, state: RunState, tools: Mapping[str, ToolSignature], terminal: tuple[StepId, ...]
) -> bool:
    ends = [(plan.step(step_id), state.steps[step_id]) for step_id in terminal if state.is_present(step_id)]
    return bool(ends) and all(may_be_empty(end, tools.get(step.tool)) for step, end in ends)


def _missing_terminals(
    plan: Plan, state: RunState, tools: Mapping[str, ToolSignature], terminal: tuple[StepId, ...]
) -> Iterator[str]:
    """Yield each terminal output that is missing.

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


def _schema_faults(validator: Validator, name: str, value: Json) -> Iterator[str]:
    misfits = validator.violations(value)
    if misfits and isinstance(value, list) and value:
        misfits = [
            misfit
            for position, entry in enumerate(value)
            for misfit in validator.violations(entry, f"/{position}")
        ]
    yield from (f"{name}: {text}" for text in misfit_texts(misfits))
