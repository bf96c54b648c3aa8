"""A planner calls the plans that its goal allows, and no others."""

from __future__ import annotations

import json

import pytest

from tests.planner.planning_case import ScriptedModels, goal_of, planned
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Plan
from wavewright.planner.types import Json, JsonObject

pytestmark = pytest.mark.anyio

CALM = Plan.model_validate(
    {
        "goal": "Read the wind of a calm hour",
        "inputs": {"code": "ZRH"},
        "steps": [{"id": "read", "tool": "read_sensor", "params": {"station": "${inputs.code}"}}],
        "result": {"wind": "${steps.read.wind}", "whole": "${steps.read}"},
    }
)


def goal(**sub_plans: Plan) -> Goal:
    rules: JsonObject = {"required_tools": ["write_report"]}
    return goal_of({"rules": rules, "gates": []}).model_copy(update={"sub_plans": sub_plans})


def answer(step: JsonObject, read: str = "steps.calm.whole") -> str:
    report: Json = {
        "id": "report",
        "tool": "write_report",
        "params": {"readings": f"${{[{read}]}}", "title": "Wind"},
    }
    return json.dumps({"steps": [step, report], "result": "${steps.report}"})


CALL: JsonObject = {"id": "calm", "plan": "calm", "params": {"code": "${inputs.stations[0].code}"}}


async def test_a_sub_plan_is_shown_with_its_types_and_put_in_where_it_is_called() -> None:
    models = ScriptedModels([answer(CALL)])

    done = await planned(models, "llm", goal=goal(calm=CALM))

    assert done.plan is not None, done.diagnostics
    assert [step.id for step in done.plan.steps] == ["calm.read", "calm", "report"]
    assert done.plan.step("calm.read").params == {"station": "${inputs.stations[0].code}"}
    (call,) = models.asked
    assert "- calm(code?: string) -> {wind: number, whole: {station: string," in call.prompt
    assert "}}: Read the wind of a calm hour\n" in call.prompt
    assert "- `plan`: in place of `tool`" in call.instructions
    assert done.document is not None
    assert done.document.value == done.plan.model_dump(
        mode="json", by_alias=True, exclude_defaults=True
    )


async def test_a_goal_template_is_called_with_the_inputs_that_it_declares() -> None:
    template = CALM.model_copy(update={"inputs": {}})
    declared: JsonObject = {
        "properties": {"code": {"type": "string"}, "hours": {"type": "integer"}},
        "required": ["code"],
    }
    allowing = goal(calm=template).model_copy(update={"sub_plan_inputs": {"calm": declared}})
    models = ScriptedModels([answer(CALL)])

    done = await planned(models, "llm", goal=allowing)

    assert done.plan is not None, done.diagnostics
    assert "- calm(code: string, hours?: integer) -> " in models.asked[0].prompt


async def test_a_repeated_sub_plan_is_written_out() -> None:
    repeated: JsonObject = {**CALL, "repeat": {"until": "steps.calm.wind < 3.0", "max": 2}}

    done = await planned(ScriptedModels([answer(repeated)]), "llm", goal=goal(calm=CALM))

    assert done.plan is not None, done.diagnostics
    assert [step.id for step in done.plan.steps][:4] == [
        "calm.1.read",
        "calm.1",
        "calm.2.read",
        "calm.2",
    ]


async def test_another_plan_is_refused_with_the_names_of_those_that_are_allowed() -> None:
    models = ScriptedModels([answer({**CALL, "plan": "../secret.plan.yaml"}), answer(CALL)])

    done = await planned(models, "llm", "repaired", goal=goal(calm=CALM))

    assert done.rung == "repaired"
    fault = next(one for one in done.attempts[0].diagnostics if one.code == "E411")
    assert fault.pointer == "/steps/0/plan"
    assert (
        fault.message
        == "step 'calm' cannot call its plan: ../secret.plan.yaml: this goal does not allow it"
    )
    assert fault.hint == "sub-plans: calm"


async def test_a_sub_plan_that_is_called_as_a_tool_is_answered_with_how_it_is_called() -> None:
    called: JsonObject = {"id": "calm", "tool": "calm", "params": CALL["params"]}
    models = ScriptedModels([answer(called), answer(CALL)])

    done = await planned(models, "llm", "repaired", goal=goal(calm=CALM))

    assert done.rung == "repaired"
    fault = next(one for one in done.attempts[0].diagnostics if one.code == "E201")
    assert (fault.pointer, fault.hint) == ("/steps/0/tool", "write `plan: calm` in place of `tool`")


async def test_a_fault_of_a_call_stands_at_its_place_in_the_answer() -> None:
    done = await planned(
        ScriptedModels([answer(CALL, "steps.calm.hole")]), "llm", goal=goal(calm=CALM)
    )

    assert done.plan is None
    (fault,) = [one for one in done.diagnostics if one.severity == "error"]
    assert (fault.code, fault.pointer) == ("E303", "/steps/1/params/readings")


@pytest.mark.parametrize("read", ["${inputs.code}", "at ${inputs.code}", "${inputs.code + '1'}"])
async def test_an_input_that_is_not_given_is_told_once_whatever_reads_it(read: str) -> None:
    reading = CALM.model_copy(
        update={
            "inputs": {},
            "steps": (CALM.steps[0].model_copy(update={"params": {"station": read}}),),
        }
    )
    call: JsonObject = {**CALL, "params": {}}

    done = await planned(ScriptedModels([answer(call)]), "llm", goal=goal(calm=reading))

    assert [one.code for one in done.diagnostics if one.severity == "error"] == ["E411"]


async def test_where_the_goal_allows_none_no_plan_can_be_called() -> None:
    models = ScriptedModels([answer(CALL)])

    done = await planned(models, "llm", goal=goal())

    assert done.plan is None
    assert "E411" in {one.code for one in done.diagnostics}
    assert "Sub-plans" not in models.asked[0].prompt
    assert "`plan`" not in models.asked[0].instructions
