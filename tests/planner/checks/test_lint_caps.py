"""A plan's cap speaks of a field that the result, or a last step's output, has."""

from __future__ import annotations

import pytest

from tests.planner.broken_plans import tools
from wavewright.planner.checks.checker import check
from wavewright.planner.language.goals import AvailableTool, Goal
from wavewright.planner.language.plan import Cap, Plan
from wavewright.planner.types import Json

PARAMS: dict[str, Json] = {
    "analyze": {"documents": [], "title": "x"},
    "fetch_prices": {"code": "GNP"},
    "send_mail": {"to": "a", "text": "b"},
}


def plan(field: str, *, tool: str = "analyze", result: Json = None) -> Plan:
    return Plan.model_validate(
        {
            "steps": [{"id": "last", "tool": tool, "params": PARAMS[tool]}],
            "caps": [{"field": field, "max": 0.4, "because": "x"}],
            "result": result,
        }
    )


def warned(given: Plan, goal: Goal | None = None) -> list[str]:
    return [one.pointer for one in check(given, goal, tools()) if one.code == "W808"]


@pytest.mark.parametrize("field", ["overall", "text", "confidence"])
def test_a_cap_on_a_field_of_the_last_step_is_no_slip(field: str) -> None:
    assert warned(plan(field)) == []


def test_a_cap_on_a_field_within_a_list_is_no_slip() -> None:
    assert warned(plan("date", tool="fetch_prices")) == []


def test_a_cap_on_a_field_that_the_result_is_given_is_no_slip() -> None:
    assert warned(plan("outlook", result={"outlook": "${steps.last.text}"})) == []


def test_a_cap_on_a_field_that_nothing_has_is_told() -> None:
    assert warned(plan("txt")) == ["/caps/0/field"]
    assert warned(plan("txt", result={"outlook": "${steps.last}"})) == ["/caps/0/field"]


def test_nothing_is_said_where_an_output_may_have_any_field() -> None:
    assert warned(plan("txt", tool="send_mail")) == []


def test_a_cap_of_the_goal_is_for_many_plans() -> None:
    capped = plan("txt")
    goal = Goal(
        name="g",
        job="g",
        text="g",
        inputs={},
        tools=(AvailableTool(name="analyze"),),
        caps=(Cap(field="txt", max=0.4, because="x"),),
    )

    assert warned(capped, goal) == []
