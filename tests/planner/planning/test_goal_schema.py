"""The schema of an answer for one goal, which says what each of its tools takes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.planner.planning_case import GOOD, TOOLS, ScriptedModels, goal_of, planned
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.planning.goal_schema import (
    goal_patch_schema,
    goal_plan_schema,
    without_absent_arguments,
)
from wavewright.planner.planning.plan_stream import PlanStream, prefix_as_it_runs, startable_steps
from wavewright.planner.planning.prompt import emit_schema, patch_schema
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import Json, JsonObject, JsonSchema, StepId

pytestmark = pytest.mark.anyio

NAMES = [*TOOLS]


def accepts(answer: Json, tools: dict[str, ToolSignature] = TOOLS, *sub_plans: str) -> bool:
    names = [*tools]
    schema = goal_plan_schema(emit_schema(names, sub_plans=sub_plans), goal_of(), tools, names)
    return validator_of(schema).accepts(answer)


OF_TWO_KINDS: JsonObject = {"id": "g", "on": "wind", "check": "true", "required": ["a"]}


def plan_of(tool: str, params: Json, **more: Json) -> JsonObject:
    return {"steps": [{"id": "a", "tool": tool, "params": params, **more}]}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(GOOD, id="a plan"),
        pytest.param({"cannot_plan": "no tool for it"}, id="a reason"),
        pytest.param({"ask": {"question": "Which?"}}, id="a question"),
        plan_of("read_sensor", {"station": "ZRH", "hours": 3}),
        plan_of("read_sensor", {"station": "at ${inputs.home}", "hours": "${size(inputs.a)}"}),
        plan_of("read_sensor", {"station": "${item.code}"}, for_each="${inputs.stations}"),
        plan_of("write_report", {"title": "Wind", "readings": "${steps.wind}"}, optional=True),
        plan_of("write_report", {"title": "Wind", "readings": ["${steps.wind}"]}, when="true"),
    ],
)
def test_an_answer_is_a_plan_or_says_why_there_is_none(answer: JsonObject) -> None:
    assert accepts(answer)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"reasoning": "It is easy."}, id="reasons alone"),
        pytest.param({"steps": []}, id="no step"),
        pytest.param({"cannot_plan": ""}, id="no reason"),
        pytest.param({**GOOD, "cannot_plan": "no"}, id="both"),
        pytest.param(plan_of("read_sensor", {"place": "ZRH"}), id="an unknown parameter"),
        pytest.param(plan_of("read_sensor", {}), id="a required one is absent"),
        pytest.param(plan_of("read_sensor", {"station": 3}), id="another type"),
        pytest.param(plan_of("read_sensor", {"station": "a", "hours": "b"}), id="no reference"),
        pytest.param(plan_of("read_sensor", {"station": "a", "hours": 0}), id="beyond a bound"),
        pytest.param(plan_of("delete_all", {}), id="an unknown tool"),
        pytest.param(plan_of("read_sensor", {"station": "a"}, retry=3), id="policy"),
        pytest.param(
            plan_of("write_report", {"title": "a", "readings": [], "tags": ["b"]}),
            id="one that the goal sets",
        ),
        pytest.param(
            {**GOOD, "gates": [OF_TWO_KINDS]},
            id="a gate of two kinds",
        ),
    ],
)
def test_other_answers_do_not_fit(answer: JsonObject) -> None:
    assert not accepts(answer)


NESTED: JsonSchema = {
    "type": "object",
    "properties": {
        "unit": {"type": "string", "enum": ["mm", "in"]},
        "size": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "grid": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
        "who": {"oneOf": [{"type": "string"}, {"$ref": "#/$defs/person"}]},
        "tags": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "any": {},
    },
    "required": ["unit"],
    "additionalProperties": False,
    "$defs": {
        "person": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "born": {"type": "string", "format": "date"},
            },
            "required": ["name"],
            "additionalProperties": False,
        }
    },
}


@pytest.mark.parametrize(
    ("params", "fits"),
    [
        ({"unit": "mm"}, True),
        ({"unit": "${inputs.unit}"}, True),
        ({"unit": "cm"}, False),
        ({"unit": "mm", "size": None}, True),
        ({"unit": "mm", "size": "large"}, False),
        ({"unit": "mm", "grid": [[1, "${steps.a.x}"], "${steps.a.row}"]}, True),
        ({"unit": "mm", "grid": [1]}, False),
        ({"unit": "mm", "who": {"name": "Ada", "born": "${steps.a.day}"}}, True),
        ({"unit": "mm", "who": {"born": "1815-12-10"}}, False),
        ({"unit": "mm", "tags": {"new": True, "old": "${item.old}"}}, True),
        ({"unit": "mm", "tags": {"new": "yes"}}, False),
        ({"unit": "mm", "any": [{"x": None}]}, True),
    ],
)
def test_values_inside_values_are_typed_too(params: JsonObject, fits: bool) -> None:  # noqa: FBT001
    cut = ToolSignature(name="cut", description="Cut.", input_schema=NESTED)

    assert accepts(plan_of("cut", params), {"cut": cut}) == fits


WEEK = Plan(steps=(), inputs={"days": 7, "station": "ZRH", "options": {"unit": "mm"}, "any": None})


@pytest.mark.parametrize(
    ("params", "fits"),
    [
        ({}, True),
        ({"days": 30, "station": "at ${inputs.home}", "any": [1]}, True),
        ({"days": "${inputs.days}", "options": {"unit": "in", "wide": True}}, True),
        ({"dayz": 30}, False),
        ({"days": "thirty"}, False),
        ({"station": 3}, False),
        ({"options": ["mm"]}, False),
    ],
)
def test_a_sub_plan_takes_its_own_inputs(params: JsonObject, fits: bool) -> None:  # noqa: FBT001
    goal = goal_of().model_copy(update={"sub_plans": {"week": WEEK, "empty": Plan(steps=())}})
    form = emit_schema(NAMES, sub_plans=["week", "empty"])
    accepts_answer = validator_of(goal_plan_schema(form, goal, TOOLS, NAMES)).accepts
    again: JsonObject = {"until": "true", "max": 2, "params": params}

    assert accepts_answer({"steps": [{"id": "a", "plan": "week", "params": params}]}) == fits
    assert (
        accepts_answer({"steps": [{"id": "a", "plan": "week", "params": {}, "repeat": again}]})
        == fits
    )
    assert not accepts_answer({"steps": [{"id": "a", "plan": "empty", "params": {"days": 7}}]})


def test_a_step_calls_a_tool_or_a_sub_plan() -> None:
    sub_plan: JsonObject = {"id": "a", "plan": "clean", "params": {"any": 1}}
    again: JsonObject = {**sub_plan, "repeat": {"until": "true", "max": 2}}

    assert accepts({"steps": [sub_plan, {**again, "id": "b"}]}, TOOLS, "clean")
    assert not accepts({"steps": [{**sub_plan, "plan": "other"}]}, TOOLS, "clean")
    assert not accepts({"steps": [{**sub_plan, "tool": "read_sensor"}]}, TOOLS, "clean")
    assert not accepts({"steps": [sub_plan]})


@pytest.mark.parametrize(
    ("op", "fits"),
    [
        ({"op": "add", "step": {"tool": "read_sensor", "params": {"station": "ZRH"}}}, True),
        ({"op": "add", "step": {"tool": "read_sensor", "params": {"place": "ZRH"}}}, False),
        ({"op": "remove", "id": "wind"}, True),
        ({"op": "remove"}, False),
        ({"op": "remove", "id": "rain"}, False),
        ({"op": "rewire", "id": "rain", "depends_on": []}, False),
        ({"op": "rewire", "id": "wind", "depends_on": ["report"]}, True),
        ({"op": "rewire", "id": "wind"}, False),
    ],
)
def test_a_patch_is_made_of_typed_steps_too(op: JsonObject, fits: bool) -> None:  # noqa: FBT001
    answer = patch_schema(NAMES, [StepId("wind")])
    schema = goal_patch_schema(answer, goal_of(), TOOLS, NAMES)
    step = op.get("step")
    if isinstance(step, dict):
        op = {**op, "step": {"id": "again", "supersedes": "wind", **step}}

    assert validator_of(schema).accepts({"ops": [op], "reason": "It is down."}) == fits
    assert validator_of(schema).accepts({"cannot_plan": "no other station"})


def test_a_patch_replaces_a_step_that_there_is() -> None:
    schema = goal_patch_schema(patch_schema(NAMES, [StepId("wind")]), goal_of(), TOOLS, NAMES)
    step: JsonObject = {"tool": "read_sensor", "params": {"station": "ZRH"}}

    def fits(step_id: str) -> bool:
        op: JsonObject = {"op": "replace", "step": {**step, "id": step_id}}
        return validator_of(schema).accepts({"ops": [op], "reason": "It is down."})

    assert fits("wind")
    assert not fits("rain")


def test_a_type_that_holds_itself_is_open_where_it_goes_on() -> None:
    tree: JsonSchema = {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/node"}},
        "$defs": {"node": {"type": "object", "properties": {"inner": {"$ref": "#/$defs/node"}}}},
    }
    signature = ToolSignature(name="grow", description="Grow.", input_schema=tree)
    value: Json = {}
    for _ in range(9):
        value = {"inner": value}

    assert accepts(plan_of("grow", {"root": value}), {"grow": signature})
    assert not accepts(plan_of("grow", {"root": {"inner": 3}}), {"grow": signature})


# --- what a strict provider writes


STRICT: JsonObject = {
    "steps": [
        {
            "tool": "read_sensor",
            "id": "wind",
            "why": None,
            "for_each": None,
            "params": {"station": "ZRH", "hours": None},
            "when": None,
            "depends_on": None,
            "optional": None,
        }
    ],
    "result": "${steps.wind}",
    "gates": [{"check": "output.wind > 0", "id": "blows", "on": "wind", "severity": None, "hint": None}],
    "reasoning": None,
    "stop": None,
    "cannot_plan": None,
    "ask": None,
}  # fmt: skip
ANY_GOAL: dict[str, Any] = {"rules": {}, "gates": []}


async def test_nulls_of_a_strict_provider_stand_for_what_is_absent() -> None:
    made = await planned(ScriptedModels([json.dumps(STRICT)]), goal=goal_of(ANY_GOAL))

    assert made.plan is not None
    assert made.plan.steps[0].params == {"station": "ZRH"}
    assert made.rung == "llm"


async def test_a_reason_beside_a_plan_that_is_null_is_a_reason() -> None:
    models = ScriptedModels([json.dumps({**STRICT, "steps": None, "cannot_plan": "no sensor"})])
    made = await planned(models, "llm", goal=goal_of(ANY_GOAL))

    assert made.cannot_plan == "no sensor"
    assert len(models.asked) == 1


def test_steps_of_a_strict_provider_start_while_it_writes() -> None:
    text = json.dumps(STRICT)
    prefix = PlanStream().add(text[: text.index("result")])

    assert prefix is not None
    _, steps = startable_steps(prefix_as_it_runs(prefix, TOOLS), goal_of(ANY_GOAL), TOOLS)
    assert steps == ["wind"]


def test_a_null_that_a_tool_takes_or_needs_stays() -> None:
    cut = ToolSignature(name="cut", description="Cut.", input_schema=NESTED)
    params: JsonObject = {
        "unit": None,
        "size": None,
        "grid": None,
        "who": {"name": None, "born": None},
        "any": None,
    }
    step = Step(id=StepId("a"), tool="cut", params=params)

    kept = without_absent_arguments(step, {"cut": cut})

    assert kept.params == {"unit": None, "size": None, "who": {"name": None}, "any": None}
