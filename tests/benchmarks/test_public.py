"""Small inputs in the formats of the public benchmarks, which need no download."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.public import berkeley, dojo, nested
from benchmarks.public.cases import faults_of, mutants, tally
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.answer_types import answer_schema
from wavewright.planner.schemas.validation import validator_of

FUNCTION = {
    "name": "geometry.area",
    "description": "Area of a rectangle.",
    "parameters": {
        "type": "dict",
        "required": ["width", "height"],
        "properties": {
            "width": {"type": "float"},
            "height": {"type": "float"},
            "unit": {"type": "string", "enum": ["m", "ft"]},
        },
    },
}
SPEC: list[dict[str, Any]] = [
    {
        "name": "find_town",
        "description": "Find a town.",
        "query_parameters": {"name": {"type": "string", "required": True}},
        "output_parameters": {
            "place": {"type": "object", "properties": {"lat": {"type": "number"}}},
            "code": {"type": "string"},
        },
    },
    {
        "name": "weather",
        "description": "Weather somewhere.",
        "query_parameters": {
            "lat": {"type": "number", "required": True},
            "code": {"type": "string", "required": False},
        },
        "output_parameters": {"sky": {"type": "string"}},
    },
]
SEQUENCE: dict[str, Any] = {
    "input": "How is the weather in Brno?",
    "output": [
        {
            "name": "find_town",
            "arguments": {"name": "Brno"},
            "label": "var1",
            "response": {"data": [{"place": {"lat": 49.2}, "code": "BRQ"}]},
        },
        {
            "name": "weather",
            "arguments": {"lat": "$var1.place.lat$", "code": "$var1.code$"},
            "label": "var2",
            "response": [{"sky": "clear"}],
        },
    ],
}
TOOLS = {one["name"]: nested.signature_of(one) for one in SPEC}


def test_a_task_of_the_berkeley_set_is_a_valid_plan_and_its_mutants_are_none() -> None:
    answer = [{"geometry.area": {"width": [2.5, 2], "height": [4], "unit": ["m", ""]}}]
    task = {"id": "one", "function": [FUNCTION]}

    found = tally("own", [berkeley.case_of(task, answer)])

    assert (found.accepted, found.refusals) == (1, [])
    assert found.mutants == found.refused_mutants == 6


def test_an_argument_that_may_be_left_out_is_left_out() -> None:
    answer = [{"geometry.area": {"width": [2.5], "height": [4], "unit": ["m", ""]}}]

    case = berkeley.case_of({"id": "one", "function": [FUNCTION]}, answer)

    assert case.plan["steps"][0]["params"] == {"width": 2.5, "height": 4}


def test_a_sequence_with_references_is_a_valid_plan_and_its_mutants_are_none() -> None:
    found = tally("own", [nested.case_of(0, SEQUENCE, TOOLS)])

    assert (found.accepted, found.missed) == (1, [])
    assert found.mutants > 10


@pytest.mark.anyio
async def test_a_sequence_runs_on_recorded_responses_to_its_own_arguments() -> None:
    case = nested.case_of(0, SEQUENCE, TOOLS)

    assert await nested.runs_as_published(SEQUENCE, TOOLS, case)


def test_references_with_positions_and_odd_names_become_expressions() -> None:
    assert nested.as_expression("$var1.a[0].b$") == "${steps.var1.a[0].b}"
    assert nested.as_expression("$var1.Ask Price$") == '${steps.var1["Ask Price"]}'
    assert nested.as_expression("$100-$200") == "$100-$200"


def test_no_mutant_is_the_plan_itself() -> None:
    case = nested.case_of(0, SEQUENCE, TOOLS)

    assert all(mutant != case.plan for _, mutant in mutants(case))


@pytest.mark.parametrize("suite", ["banking", "slack", "workspace"])
def test_the_plans_of_a_suite_have_answers_of_the_types_that_they_ask_for(suite: str) -> None:
    tools = {name: ToolSignature(name=name) for name in dojo.read_plans(suite).tools}
    asked = 0
    for task in dojo.read_plans(suite).tasks.values():
        plan = Plan.model_validate({"steps": task["steps"], "result": task["result"]})
        for step in plan.steps:
            if step.tool == "ask_model":
                asked += 1
                schema = answer_schema(step.params["for"], tools)
                assert validator_of(schema).accepts(task["answers"][step.id])
    assert asked > 5


@pytest.mark.parametrize(
    ("suite", "tasks"), [("banking", 16), ("slack", 21), ("travel", 20), ("workspace", 40)]
)
def test_the_plans_of_a_suite_read_only_what_is_there(suite: str, tasks: int) -> None:
    plans = dojo.read_plans(suite).tasks.values()
    for task in plans:
        plan = {name: task[name] for name in ("let", "steps", "result") if name in task}
        assert {fault.code for fault in faults_of(plan, {})} <= {"E201"}
    assert len(plans) == tasks
