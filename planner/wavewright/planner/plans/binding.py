"""Bind a plan to its goal, and point the readers of a superseded step at its successor.

To *bind* a plan is to add what the goal sets: the inputs, the mandatory gates and caps, parameters
of terminal steps, and that some calls of a list may fail. Binding appends at the end, so pointers
into the author's text stay valid, and binding twice changes nothing.

A step that a patch adds may *supersede* a finished one: steps that read the old step, and its
gates, use the new one. The old step stays in the plan as a record.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping

from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.language.goals import Goal, Recipe
from wavewright.planner.language.json_values import map_texts
from wavewright.planner.language.plan import Cap, Gate, Plan, Step
from wavewright.planner.plans.expressions import (
    ExpressionMap,
    evaluate,
    rename_in_expression,
    render,
)
from wavewright.planner.plans.graph import PlanGraph, superseded_by
from wavewright.planner.types import GATE_ID_SEPARATOR, GateId, Json, JsonObject, StepId


def bind_plan(plan: Plan, goal: Goal) -> Plan:
    """Return the plan as it will run for this goal.

    Inputs of the goal replace those of the plan name by name, and the previous run that the goal
    has that of the plan. Each gate of the goal that names a tool becomes one gate a step calling
    it, with the id `<gate>__<step>`. Whatever the plan has under such an id already, and any
    argument it sets itself, is left for the checker to judge.
    """
    steps = _with_terminal_params(plan, goal)
    missing_caps = [cap for cap in mandatory_caps(plan, goal) if cap not in plan.caps]
    update: dict[str, object] = {
        "inputs": {**plan.inputs, **goal.inputs},
        "steps": tuple(_allowing_failures(step, goal) for step in steps),
        "gates": _with_gates(plan, goal),
        "caps": (*plan.caps, *missing_caps),
    }
    if goal.previous:
        update["previous"] = goal.previous
    return plan.model_copy(update=update)


def _with_terminal_params(plan: Plan, goal: Goal) -> tuple[Step, ...]:
    by_tool = terminal_params(goal)
    if not any(step.tool in by_tool for step in plan.steps):
        return plan.steps
    terminal = frozenset(PlanGraph.of(plan).terminal)
    steps: list[Step] = []
    for step in plan.steps:
        if step.tool in by_tool and step.id in terminal:
            # What the plan sets itself stays, for the checker to refuse.
            params = {**by_tool[step.tool], **step.params}
            steps.append(step.model_copy(update={"params": params}))
        else:
            steps.append(step)
    return tuple(steps)


def terminal_params(goal: Goal) -> dict[str, JsonObject]:
    """Return, by tool, the parameters that the goal sets on terminal steps, as literals."""
    if not goal.rules.terminal:
        return {}
    variables: JsonObject = {"inputs": goal.inputs, "goal": _goal_as_json(goal)}
    now = goal.as_of or _EPOCH

    def value_of(expression: str) -> Json:
        return evaluate(expression, variables, now)

    params_by_tool: dict[str, JsonObject] = {}
    for rule in goal.rules.terminal:
        rendered = {
            name: escape_references(render(value, value_of)) for name, value in rule.params.items()
        }
        params_by_tool[rule.tool] = params_by_tool.get(rule.tool, {}) | rendered
    return params_by_tool


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def escape_references(value: Json) -> Json:
    """Return a value in which no text can be read as a reference: `${` becomes `$${`."""
    return map_texts(value, lambda text: text.replace("${", "$${"))


def _goal_as_json(goal: Goal) -> JsonObject:
    return {
        "name": goal.name,
        "job": goal.job,
        "text": goal.text,
        "output_tags": list(goal.output_tags),
        "output_schema": goal.output_schema,
    }


def _allowing_failures(step: Step, goal: Goal) -> Step:
    """Return a step over a list that some calls of may fail, where the goal says so of its tool and
    the plan does not say how many.
    """
    is_open = step.for_each is not None and step.min_ok is None
    is_allowed = is_open and step.tool in goal.rules.may_fail
    return step.model_copy(update={"min_ok": 1}) if is_allowed else step


def _with_gates(plan: Plan, goal: Goal) -> tuple[Gate, ...]:
    taken = {gate.id for gate in plan.gates}
    return (*plan.gates, *(gate for gate in mandatory_gates(plan, goal) if gate.id not in taken))


def mandatory_gates(plan: Plan, goal: Goal) -> tuple[Gate, ...]:
    """Return the goal's gates as they stand in a plan that is bound to it.

    Nothing is asked of a step that was superseded: the step that stands for it answers instead.
    """
    replaced = superseded_by(plan)
    gates: list[Gate] = []
    for gate in goal.gates:
        gates += _gates_on_steps(_repointed_gate(gate, replaced), plan, replaced)
    return tuple(gates)


def _gates_on_steps(gate: Gate, plan: Plan, replaced: Mapping[StepId, StepId]) -> list[Gate]:
    if gate.on_tool is None:
        return [gate]
    gates: list[Gate] = []
    # Two steps of one id are the checker's to report; their gate is one.
    for step in {step.id: step for step in plan.steps}.values():
        if step.tool == gate.on_tool and step.id not in replaced:
            gate_id = GateId(f"{gate.id}{GATE_ID_SEPARATOR}{step.id}")
            update = {"id": gate_id, "on": step.id, "on_tool": None}
            gates.append(gate.model_copy(update=update))
    return gates


def _repointed_gate(gate: Gate, replaced: Mapping[StepId, StepId]) -> Gate:
    for old, new in replaced.items():
        gate = repoint_gate(gate, old, new)
    return gate


def mandatory_caps(plan: Plan, goal: Goal) -> tuple[Cap, ...]:
    """Return the goal's caps as they stand in a plan that is bound to it."""
    caps = list(goal.caps)
    for old, new in superseded_by(plan).items():
        caps = [*map(repointing(old, new).cap, caps)]
    return tuple(caps)


def recipes_for_gate(goal: Goal, gate: GateId, template_gate: GateId | None) -> Iterator[Recipe]:
    """Yield the goal's recipes for a failed gate, by its own id or that of the template's gate it
    was made from.
    """
    gates = {gate, template_gate or gate.partition(GATE_ID_SEPARATOR)[0]}
    return (recipe for recipe in goal.recipes if recipe.gate in gates)


def template_gate_of(gate: GateId, goal: Goal) -> GateId | None:
    """Return which of the goal's gates a bound plan's gate stands for, if any."""
    root = GateId(gate.partition(GATE_ID_SEPARATOR)[0])
    return root if any(root == mandatory.id for mandatory in goal.gates) else None


def repointing(old: StepId, new: StepId) -> ExpressionMap:
    """Return what makes expressions read `new` where they read `old`; a faulty one stays, for the
    checker to report.
    """

    def repointed(expression: str) -> str:
        try:
            return rename_in_expression(expression, old, new)
        except ExpressionError:
            return expression

    return ExpressionMap(repointed)


def repoint_step(step: Step, old: StepId, new: StepId) -> Step:
    """Return a step that reads `new`, and waits for it, wherever it did so of `old`."""
    names = tuple(dict.fromkeys(new if name == old else name for name in step.depends_on))
    return repointing(old, new).step(step).model_copy(update={"depends_on": names})


def repoint_gate(gate: Gate, old: StepId, new: StepId) -> Gate:
    """Return a gate that is on `new`, and reads it, where it was on `old`, or read that."""
    on = new if gate.on == old else gate.on
    return repointing(old, new).gate(gate).model_copy(update={"on": on})
