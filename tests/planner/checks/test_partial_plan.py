"""Faults of shape hide no other faults, and bring none that follow from them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from wavewright.planner.checks.checker import check_partial
from wavewright.planner.diagnostics.diagnostic import locate_diagnostics
from wavewright.planner.language.goals import AvailableTool, Goal
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.reading.reader import read_plan
from wavewright.planner.types import JsonSchema

NUMBERS: JsonSchema = {"type": "array", "items": {"type": "number"}}
TOOLS = {
    "list_gauges": ToolSignature(
        name="list_gauges",
        input_schema={"type": "object", "additionalProperties": False},
        output_schema={"type": "array", "items": {"type": "string"}},
    ),
    "read_gauge": ToolSignature(
        name="read_gauge",
        input_schema={
            "type": "object",
            "properties": {"gauge": {"type": "string"}},
            "required": ["gauge"],
            "additionalProperties": False,
        },
        output_schema={
            "type": "object",
            "properties": {"level": {"type": "number"}},
            "additionalProperties": False,
        },
    ),
    "report": ToolSignature(
        name="report",
        input_schema={
            "type": "object",
            "properties": {
                "levels": NUMBERS,
                "top": {"type": "integer"},
                "note": {"type": "string"},
            },
            "required": ["levels"],
            "additionalProperties": False,
        },
        output_schema={"type": "string"},
    ),
}
VALID: dict[str, Any] = {
    "inputs": {"top": 3},
    "steps": [
        {"id": "gauges", "tool": "list_gauges"},
        {
            "id": "readings",
            "tool": "read_gauge",
            "for_each": "${steps.gauges}",
            "params": {"gauge": "${item}"},
            "optional": True,
        },
        {
            "id": "summary",
            "tool": "report",
            "when": "has(steps.readings)",
            "params": {"levels": "${steps.readings.map(r, r.level)}", "top": "${inputs.top}"},
            "depends_on": ["gauges"],
        },
    ],
    "gates": [{"id": "full", "on": "gauges", "check": "output.size() > 0"}],
    "caps": [
        {"field": "overall", "when": "!has(steps.readings)", "max": 0.5, "because": "no reading"}
    ],
    "result": "${has(steps.summary) ? steps.summary : ''}",
}
GOAL = Goal(
    name="levels",
    job="levels",
    text="Report the levels",
    inputs={},
    tools=tuple(AvailableTool(name=name) for name in TOOLS),
)


def found(plan: object, goal: Goal | None = None) -> list[tuple[str, str]]:
    """Return code and pointer of everything that is wrong with a plan that has faults of shape."""
    text = read_plan(json.dumps(plan, indent=1), "plan.json")
    assert text.plan is None
    assert text.document is not None
    assert text.partial is not None
    diagnostics = [*text.diagnostics, *check_partial(text.partial, goal, TOOLS)]
    return [(one.code, one.pointer) for one in locate_diagnostics(diagnostics, text.document)]


def edited(**changes: Any) -> dict[str, Any]:
    """Return the valid plan with other fields; `step0={…}` merges into a step, and None takes a
    field out.
    """
    plan: dict[str, Any] = json.loads(json.dumps(VALID))
    for name, value in changes.items():
        node = plan["steps"][int(name[4:])] if name.startswith("step") and name != "steps" else plan
        fields = value if node is not plan else {name: value}
        node.update(fields)
        for field in [field for field, given in fields.items() if given is None]:
            del node[field]
    return plan


def test_the_plan_of_these_tests_is_valid_but_for_what_they_change() -> None:
    assert found(edited(colour="red")) == [("E104", "/colour")]


def test_faults_of_shape_and_all_others_are_found_at_once() -> None:
    plan = edited(
        step0={"tool": "list_gauge", "timout": 3},
        step1={"params": {"gauge": "${item}", "unit": "m"}},
        step2={
            "params": {"levels": "${steps.reading}", "top": "${inputs.topp}"},
            "optional": "yes",
        },
        gates=[{"id": "full", "on": "gauge", "check": "true"}],
    )

    assert found(plan) == [
        ("E201", "/steps/0/tool"),
        ("E104", "/steps/0/timout"),
        ("E203", "/steps/1/params/unit"),
        ("E301", "/steps/2/params/levels"),
        ("E302", "/steps/2/params/top"),
        ("E106", "/steps/2/optional"),
        ("E407", "/gates/0/on"),
    ]


def test_a_step_without_an_id_is_named_by_its_place() -> None:
    plan = edited(step1={"id": None, "params": {}})
    text = read_plan(json.dumps(plan), "plan.json")
    assert text.partial is not None

    assert [fault.message for fault in check_partial(text.partial, None, TOOLS)] == [
        "steps[1] lacks the argument 'gauge' of 'read_gauge'"
    ]


def test_a_cycle_beside_a_fault_of_shape_is_found() -> None:
    plan = edited(step0={"depends_on": ["summary"], "colour": "red"})

    assert found(plan) == [("E401", "/steps/0"), ("E104", "/steps/0/colour")]


def test_a_tool_that_the_goal_forbids_is_found_beside_a_fault_of_shape() -> None:
    goal = GOAL.model_copy(update={"tools": GOAL.tools[:2]})

    assert found(edited(colour="red"), goal) == [("E202", "/steps/2/tool"), ("E104", "/colour")]


def misspelt_fields() -> Iterator[Any]:
    for number, step in enumerate(VALID["steps"]):
        for name in step:
            changed = {name: None, f"{name}x": step[name]}
            yield pytest.param(
                {f"step{number}": changed}, f"/steps/{number}/{name}x", id=f"step{number}.{name}"
            )
    for name in ("inputs", "gates", "caps", "result"):
        yield pytest.param({name: None, f"{name}x": VALID[name]}, f"/{name}x", id=name)


@pytest.mark.parametrize(("changes", "pointer"), [*misspelt_fields()])
def test_a_misspelt_field_is_one_fault(changes: dict[str, Any], pointer: str) -> None:
    assert found(edited(**changes)) == [("E104", pointer)]


def values_of_wrong_type() -> Iterator[Any]:
    for number, step in enumerate(VALID["steps"]):
        for name in step:
            yield pytest.param(
                {f"step{number}": {name: 7}}, f"/steps/{number}/{name}", id=f"step{number}.{name}"
            )
    for name in ("inputs", "gates", "caps"):
        yield pytest.param({name: 7}, f"/{name}", id=name)


@pytest.mark.parametrize(("changes", "pointer"), [*values_of_wrong_type()])
def test_a_value_of_the_wrong_type_is_one_fault(changes: dict[str, Any], pointer: str) -> None:
    assert found(edited(**changes)) == [("E106", pointer)]


@pytest.mark.parametrize("field", ["id", "tool"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_missing_field_is_one_fault(number: int, field: str) -> None:
    assert found(edited(**{f"step{number}": {field: None}})) == [("E105", f"/steps/{number}")]


def test_a_step_that_is_none_is_one_fault() -> None:
    assert found({**VALID, "steps": [*VALID["steps"], "then write it down"]}) == [
        ("E106", "/steps/3")
    ]


def test_more_faults_than_are_listed_bring_none_that_follow() -> None:
    steps = [{"id": f"s{number}", "tool": 3, "params": 4} for number in range(200)]

    assert {code for code, _ in found({"steps": steps})} <= {"E106", "E404"}


def test_a_plan_without_a_list_of_steps_has_no_valid_part() -> None:
    assert read_plan('{"steps": "look", "gates": 3}', "plan.json").partial is None
