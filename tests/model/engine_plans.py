"""Plans of the model as plans of the engine, with their sub-plans, names and `stop` put in by it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.model.plans import INPUT, ITEM, Chosen, Condition, ModelGate, ModelPlan, ModelStep, Value
from wavewright.planner.language.plan import Plan
from wavewright.planner.plans.sub_plan_call import SubPlan
from wavewright.planner.plans.sub_plans import expand_plan
from wavewright.planner.reading.reader import read_plan
from wavewright.planner.types import Json, JsonObject


def bound_plan(plan: ModelPlan) -> Plan:
    """Return the plan as the engine executes it."""
    callers = {step.id: step for step in plan.steps if step.sub_plan is not None}

    def read(name: str, folder: Path) -> SubPlan:
        caller = callers[name]
        assert caller.sub_plan is not None
        steps = caller.sub_plan.steps
        result = steps[-1].id
        written = _written(steps, {"inputs": {"n": 0}}, result)
        found = read_plan(json.dumps(written), f"{name}.json")
        assert found.plan is not None, found.diagnostics
        assert found.document is not None
        return SubPlan(found.plan, found.document, "", folder)

    fields: JsonObject = {}
    if plan.names:
        fields["let"] = {
            name: _value(plan.steps, value, plan.names) for name, value in plan.names.items()
        }
    if plan.stop is not None:
        number = _number(plan.steps, plan.stop)
        fields["stop"] = {
            "when": f"has(steps.{plan.stop}) && {number} % 2 == 0",
            "result": {"stopped": f"${{{number}}}"},
        }
    expanded = expand_plan(
        Plan.model_validate(_written(plan.steps, fields, plan.result, plan)), Path(), read
    )
    assert not expanded.faults, expanded.faults
    return expanded.plan


def _written(
    steps: tuple[ModelStep, ...],
    fields: JsonObject,
    result: str | None,
    plan: ModelPlan | None = None,
) -> JsonObject:
    """Return a plan as a document."""
    gates = [_gate(step, step.gate) for step in steps if step.gate is not None]
    return {
        **fields,
        "steps": [_step(step, steps, plan) for step in steps],
        "gates": [*gates],
        "result": None if result is None else f"${{{_number(steps, result)}}}",
    }


def _step(step: ModelStep, steps: tuple[ModelStep, ...], plan: ModelPlan | None) -> JsonObject:
    x = _value(steps, step.x, {} if plan is None else plan.names)
    written: JsonObject = {"id": step.id, "optional": step.optional}
    if step.conditions:
        written["when"] = " && ".join(_condition(steps, each) for each in step.conditions)
    if step.items is not None and not step.tools:
        written["for_each"] = [item for item in step.items if isinstance(item, int)]
    sub_plan = step.sub_plan
    if sub_plan is not None:
        written |= {"plan": step.id, "params": {"n": x}}
        if sub_plan.most > 1:
            own = f"steps.{step.id}"
            until = f"{own} % 2 == 0" if sub_plan.until == "even" else f"{own} != null"
            again: JsonObject = {"n": f"${{{own}}}"} if sub_plan.feeds_back else {}
            written["repeat"] = {"until": until, "max": sub_plan.most, "params": again}
        return written
    on: list[Json] = ["transient"]
    if step.retries_unclear:
        on += ["timeout", "output"]
    calls: JsonObject = {"tool": step.tool, "params": {"x": x}}
    if step.tools:
        listed: list[Json] = [
            {"tool": item.tool, "params": {"x": item.x}}
            for item in step.items or ()
            if isinstance(item, Chosen)
        ]
        calls = {"dispatch": listed, "tools": [*step.tools]}
    return {
        **written,
        **calls,
        "min_ok": step.min_ok,
        "needs_approval": step.approval,
        "retry": {"attempts": step.attempts, "on": on, "wait_jitter": 0},
    }


def _gate(step: ModelStep, gate: ModelGate) -> JsonObject:
    number = "output" if step.sub_plan is not None else "output.v"
    if step.tools:
        number = "output.output.v"
    return {
        "id": f"{step.id}_gate",
        "on": step.id,
        "check": f"{number} % 2 == 0",
        "severity": gate.severity,
        "on_empty": gate.on_empty,
    }


def _condition(steps: tuple[ModelStep, ...], condition: Condition) -> str:
    assert condition.asks == "even", "the others are made of sub-plans"
    is_even = f"has(steps.{condition.step}) && {_number(steps, condition.step)} % 2 == 0"
    return f"!({is_even})" if condition.is_negated else is_even


def _value(steps: tuple[ModelStep, ...], x: Value, names: Mapping[str, int | str]) -> Json:
    if isinstance(x, int):
        return x
    if x == INPUT:
        return "${inputs.n}"
    if x == ITEM or x in names:
        return f"${{{x}}}"
    return f"${{{_number(steps, str(x))}}}"


def _number(steps: tuple[ModelStep, ...], name: str) -> str:
    """Return the expression of a step's number."""
    [step] = [step for step in steps if step.id == name]
    if step.items is not None:
        return f"size(steps.{name})"
    return f"steps.{name}" if step.sub_plan is not None else f"steps.{name}.v"
