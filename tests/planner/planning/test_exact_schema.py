"""The schema that names the arguments of each of a goal's tools."""

from __future__ import annotations

import pytest

from tests.planner.planning_case import GOOD, TOOLS, goal_of
from wavewright.planner.planning.exact_schema import (
    MAX_CHARS,
    PATCH_STEP,
    PLAN_STEP,
    exact_schema,
)
from wavewright.planner.planning.prompt import emit_schema
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import Json, JsonObject, JsonSchema, StepId
from wavewright.reviewer.recovery.boundary import patch_schema


def schema_of(names: list[str]) -> JsonSchema | None:
    return exact_schema(emit_schema(names), PLAN_STEP, goal_of(), TOOLS, names)


SCHEMA = schema_of([*TOOLS])
assert SCHEMA is not None
FITS = validator_of(SCHEMA).accepts


def plan_of(tool: str, params: Json, **more: Json) -> JsonObject:
    return {"steps": [{"id": "a", "tool": tool, "params": params, **more}]}


def test_a_plan_that_the_checker_accepts_fits() -> None:
    assert FITS(GOOD)


@pytest.mark.parametrize(
    "plan",
    [
        plan_of("read_sensor", {"station": "ZRH", "hours": 3}),
        plan_of("read_sensor", {"station": "${inputs.home}", "hours": "${steps.a.hours}"}),
        plan_of("read_sensor", {"station": "${item.code}"}, for_each="${inputs.stations}"),
        plan_of("write_report", {"title": "Wind", "readings": "${steps.wind}"}, optional=True),
        plan_of("write_report", {"title": "Wind", "readings": ["${steps.wind}"]}, when="true"),
    ],
)
def test_a_value_is_a_literal_of_its_type_or_a_reference(plan: JsonObject) -> None:
    assert FITS(plan)


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(plan_of("read_sensor", {"place": "ZRH"}), id="an unknown parameter"),
        pytest.param(plan_of("read_sensor", {}), id="a required one is absent"),
        pytest.param(plan_of("read_sensor", {"station": 3}), id="another type"),
        pytest.param(plan_of("read_sensor", {"station": "a", "hours": "b"}), id="no reference"),
        pytest.param(plan_of("delete_all", {}), id="an unknown tool"),
        pytest.param(
            plan_of("write_report", {"title": "a", "readings": [], "tags": ["b"]}),
            id="one that the goal sets",
        ),
    ],
)
def test_other_arguments_do_not_fit(plan: JsonObject) -> None:
    assert not FITS(plan)


def test_a_goal_whose_schema_would_be_too_large_has_none() -> None:
    many = {f"tool_{number}": TOOLS["write_report"] for number in range(MAX_CHARS // 500)}
    names = [*many]

    assert exact_schema(emit_schema(names), PLAN_STEP, goal_of(), many, names) is None


def test_a_goal_with_sub_plans_has_a_branch_for_them() -> None:
    answer = emit_schema([*TOOLS], sub_plans=["clean"])
    schema = exact_schema(answer, PLAN_STEP, goal_of(), TOOLS, [*TOOLS])
    assert schema is not None
    fits = validator_of(schema).accepts

    assert fits({"steps": [{"id": "a", "plan": "clean", "params": {"any": 1}}]})
    assert fits(plan_of("read_sensor", {"station": "ZRH"}))
    assert not fits({"steps": [{"id": "a", "plan": "other", "params": {}}]})
    assert not fits(plan_of("read_sensor", {"station": "ZRH"}, plan="clean"))


def test_a_patch_names_the_arguments_of_the_tool_that_it_calls() -> None:
    answer = patch_schema([*TOOLS], [StepId("wind")])
    schema = exact_schema(answer, PATCH_STEP, goal_of(), TOOLS, [*TOOLS])
    assert schema is not None
    fits = validator_of(schema).accepts

    def patch_of(params: Json) -> JsonObject:
        step: JsonObject = {
            "id": "again",
            "tool": "read_sensor",
            "params": params,
            "supersedes": "wind",
        }
        return {"ops": [{"op": "add", "step": step}]}

    assert fits(patch_of({"station": "${inputs.stations[0].code}"}))
    assert not fits(patch_of({"place": "ZRH"}))
    assert fits({"ops": [{"op": "remove", "id": "wind"}]})
