"""The shape that a planner's answer must have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.planner.planning_case import GOOD
from wavewright.planner.planning.prompt import emit_schema
from wavewright.planner.reading.normalization import PLAN_FIELDS, STEP_FIELDS
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import Json, JsonObject

SCHEMA: dict[str, Any] = emit_schema(["read_sensor", "write_report"])
STEP: dict[str, Any] = SCHEMA["properties"]["steps"]["items"]


def fits(answer: Json) -> bool:
    return validator_of(SCHEMA).accepts(answer)


def test_tools_are_those_of_the_request_and_no_others() -> None:
    assert STEP["properties"]["tool"]["enum"] == ["read_sensor", "write_report"]
    assert not fits({"steps": [{"id": "a", "tool": "delete_all", "params": {}}]})


def test_there_is_a_field_for_all_that_a_planner_writes_and_for_nothing_else() -> None:
    only_where_allowed = {"plan", "repeat", "ask", "dispatch", "tools"}
    assert set(STEP["properties"]) == set(STEP_FIELDS) - only_where_allowed
    assert set(SCHEMA["properties"]) - {"cannot_plan", "ask"} == set(PLAN_FIELDS) - {
        "version",
        "goal",
    }
    assert STEP["additionalProperties"] is False


WHOLE: JsonObject = {
    "steps": [
        {"id": "a", "tool": "read_sensor", "params": {}, "for_each": ["x"], "optional": True}
    ],
    "gates": [{"id": "g", "on": "a", "check": "true", "severity": "warn"}],
    "result": {"a": "${steps.a}"},
}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(GOOD, id="plan"),
        pytest.param({"cannot_plan": "no tool for it"}, id="cannot plan"),
        pytest.param({"ask": {"question": "Which?", "options": ["a", "b"]}}, id="question"),
        pytest.param(WHOLE, id="plan with everything"),
    ],
)
def test_every_legal_answer_fits(answer: Json) -> None:
    assert fits(answer)


def test_where_the_goal_allows_sub_plans_a_step_may_call_one_of_them() -> None:
    tools = ["read_sensor", "ask_model"]
    schema: dict[str, Any] = emit_schema(tools, sub_plans=["clean"], dispatched=["read_sensor"])
    allowed = validator_of(schema)
    step: JsonObject = {
        "id": "a",
        "plan": "clean",
        "params": {},
        "repeat": {"until": "true", "max": 2},
    }

    assert set(schema["properties"]["steps"]["items"]["properties"]) == set(STEP_FIELDS)
    assert allowed.accepts({"steps": [step]})
    assert not allowed.accepts({"steps": [{**step, "plan": "other"}]})
    assert not fits({"steps": [{"id": "a", "plan": "clean", "tool": "read_sensor", "params": {}}]})


@pytest.mark.parametrize(
    "field", ["retry", "timeout", "budget", "max_items", "concurrency", "min_ok"]
)
def test_policy_has_no_place(field: str) -> None:
    assert not fits({"steps": [{"id": "a", "tool": "read_sensor", "params": {}, field: 1}]})


def test_where_nobody_can_be_asked_a_question_is_no_answer() -> None:
    schema: dict[str, Any] = emit_schema(["a"], may_ask=False)

    assert "ask" not in schema["properties"]
    assert "cannot_plan" in schema["properties"]


KEYWORDS = {
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "anyOf",
    "description",
}


def keywords(schema: Any) -> Iterator[str]:
    for key, part in schema.items():
        yield key
        if key == "properties":
            for member in part.values():
                yield from keywords(member)
        elif key == "items":
            yield from keywords(part)
        elif key == "anyOf":
            for branch in part:
                yield from keywords(branch)


def test_only_keywords_that_every_provider_knows_are_used_and_the_top_is_a_plain_object() -> None:
    assert set(keywords(SCHEMA)) <= KEYWORDS
    assert SCHEMA["type"] == "object"
    assert "anyOf" not in SCHEMA
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA


def test_a_step_may_ask_and_dispatch_where_the_goal_can() -> None:
    schema: dict[str, Any] = emit_schema(["ask_model", "pay"], dispatched=["pay"])
    step = schema["properties"]["steps"]["items"]
    others: dict[str, Any] = emit_schema(["pay"])
    plain = others["properties"]["steps"]["items"]

    assert {"ask", "dispatch", "tools"} <= step["properties"].keys()
    assert step["properties"]["tools"]["items"]["enum"] == ["pay"]
    assert step["required"] == ["id"]
    assert plain["properties"].keys().isdisjoint({"ask", "dispatch", "tools"})
    assert plain["required"] == ["id", "tool", "params"]
