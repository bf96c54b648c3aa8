"""Tool calls that a model suggested instead of a plan: read, put in order, completed, and never
made.
"""

from __future__ import annotations

import json

import pytest

from tests.planner.planning_case import GOOD_TEXT, TOOLS, ScriptedModels, goal_of, planned, said
from wavewright.planner.language.plan import Plan
from wavewright.planner.planning.candidates import NoMinimalPlan, plan_from_calls
from wavewright.planner.planning.non_plan_answers import (
    SuggestedCall,
    read_suggested_calls,
    read_whole_calls,
)
from wavewright.planner.ports.model_port import NamedCall

ZRH = SuggestedCall("read_sensor", {"station": "ZRH"})
SMA = SuggestedCall("read_sensor", {"station": "SMA"})


@pytest.mark.parametrize(
    "text",
    [
        '{"tool": "read_sensor", "params": {"station": "ZRH"}}',
        '{"tool_name": "read_sensor", "args": {"station": "ZRH"}, "why": "x"}',
        '{"name": "read_sensor", "arguments": {"station": "ZRH"}}',
        '{"name": "read_sensor", "arguments": "{\\"station\\": \\"ZRH\\"}"}',
        '{"type": "function", "function": {"name": "read_sensor", "arguments": "{\\"station\\": \\"ZRH\\"}"}}',
        '{"type": "tool_use", "name": "read_sensor", "input": {"station": "ZRH"}}',
        'I would call\n```json\n{"tool_calls": [{"name": "read_sensor", "arguments": {"station": "ZRH"}}]}\n```',
        '<tool_call>{"name": "read_sensor", "arguments": {"station": "ZRH"}}</tool_call>',
        '[{"tool": "read_sensor", "parameters": {"station": "ZRH"}}]',
    ],
)
def test_calls_are_read_in_every_form_that_models_write(text: str) -> None:
    assert read_suggested_calls(text) == (ZRH,)


def test_calls_that_were_made_come_first_and_each_stands_once() -> None:
    made = [NamedCall("read_sensor", '{"station": "ZRH"}'), NamedCall("send_alarm", "")]
    text = json.dumps(
        [{"tool": "read_sensor", "params": {"station": station}} for station in ("SMA", "ZRH")]
    )

    assert read_suggested_calls(text, made) == (ZRH, SuggestedCall("send_alarm", {}), SMA)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"name": "Zurich"}', id="a name alone"),
        pytest.param(
            '{"code": "ZRH", "tool": "read_sensor", "params": {}}', id="something more in it"
        ),
        pytest.param(GOOD_TEXT, id="a plan"),
        pytest.param(
            '[{"tool": "read_sensor", "params": {"station": "ZRH"}}, {"tool": "write_report", "for_each": "x"}]',
            id="a list of which a part is no call",
        ),
        pytest.param(
            '{"tool": "read_sensor", "params": {"station": "ZRH"}} then {"tool": "read_sensor", "params": {"sta',
            id="the second one cut",
        ),
        pytest.param(
            '{"tool": "read_sensor", "params": {"station": "ZRH", "station": "SMA"}}',
            id="a key twice",
        ),
        pytest.param('{"tool": "read_sensor", "params": {"station": "ZRH"}', id="not closed"),
        pytest.param(
            '{"tool": "read_sensor", "params": "station=ZRH"}', id="arguments that are no JSON"
        ),
        pytest.param('{"tool": 3, "params": {}}', id="a number for a name"),
        pytest.param("read_sensor(station='ZRH')", id="no JSON"),
    ],
)
def test_what_is_not_certainly_a_call_is_none(text: str) -> None:
    assert read_suggested_calls(text) == ()


@pytest.mark.parametrize(
    "arguments", ["not JSON", '["ZRH"]', '{"station": "ZRH"', '{"a": 1} {"b": 2}']
)
def test_a_call_whose_arguments_are_no_object_is_left_out(arguments: str) -> None:
    assert read_suggested_calls("", [NamedCall("read_sensor", arguments)]) == ()


def plan_of(*calls: SuggestedCall, **limits: int) -> Plan:
    plan = plan_from_calls(calls, goal_of({"limits": {**limits}}), TOOLS)
    assert isinstance(plan, Plan), plan
    return plan


def test_calls_become_steps_in_order_completed_by_what_the_rules_ask_for() -> None:
    plan = plan_of(ZRH, SuggestedCall("read_sensor", {"station": "SMA"}, id="second"))

    assert [(step.id, step.tool, step.params) for step in plan.steps] == [
        ("read_sensor", "read_sensor", {"station": "ZRH"}),
        ("second", "read_sensor", {"station": "SMA"}),
        (
            "write_report",
            "write_report",
            {"readings": "${[steps.read_sensor, steps.second]}", "title": "wind today"},
        ),
    ]


def test_ids_are_made_fit_and_unique() -> None:
    plan = plan_of(
        SuggestedCall("read_sensor", {"station": "ZRH"}, id="steps"),
        SuggestedCall("read_sensor", {"station": "SMA"}, id="7 up!"),
        SuggestedCall("read_sensor", {"station": "ALT"}),
        SuggestedCall("read_sensor", {"station": "GVE"}),
    )

    assert [step.id for step in plan.steps[:4]] == [
        "call_steps",
        "call_7_up_",
        "read_sensor",
        "read_sensor_2",
    ]


def test_what_writes_waits_for_everything_before_it() -> None:
    plan = plan_of(ZRH, SuggestedCall("send_alarm", {"text": "wind"}), SMA)

    assert plan.step("send_alarm").depends_on == ("read_sensor",)
    assert plan.step("read_sensor_2").depends_on == ()


def test_calls_beyond_the_limit_of_steps_are_left_out_and_that_is_said() -> None:
    many = [SuggestedCall("read_sensor", {"station": f"S{number:03}"}) for number in range(200)]

    plan = plan_from_calls(many, goal_of({"limits": {"max_steps": 5}}), TOOLS)
    fitting = plan_from_calls(many[:4], goal_of({"limits": {"max_steps": 5}}), TOOLS)

    assert isinstance(plan, Plan)
    assert len(plan.steps) == 5
    assert plan.reasoning == "made of 4 suggested call(s) of tools (of 200; the limit is 5 steps)"
    assert isinstance(fitting, Plan)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (SuggestedCall("delete_all", {}), "it suggests a call of 'delete_all', which this goal does not have"),
        (SuggestedCall("send_alarm", {}), "the suggested call of 'send_alarm' lacks arguments"),
        (SuggestedCall("read_sensor", {"station": 7}), "it would be faulty: argument 'station'"),
        (SuggestedCall("read_sensor", {"station": "ALPS"}), "it would be faulty: step 'read_sensor_2' takes the"),
        (SuggestedCall("read_sensor", {"station": "${steps.x}"}), "it would be faulty: step 'read_sensor_2' reads 'x'"),
    ],
)  # fmt: skip
def test_one_call_that_cannot_be_refuses_them_all(call: SuggestedCall, reason: str) -> None:
    outcome = plan_from_calls([ZRH, call], goal_of(), TOOLS)

    assert isinstance(outcome, NoMinimalPlan)
    assert outcome.reason.startswith(reason)


@pytest.mark.anyio
async def test_calls_that_a_model_makes_instead_of_a_plan_become_the_plan() -> None:
    answer = said("", calls=[NamedCall("read_sensor", '{"station": "ZRH"}')])
    models = ScriptedModels([answer])

    done = await planned(models)

    assert done.rung == "suggested"
    assert done.rungs[-1].ceiling == 0.7
    assert (
        models.asked[1].turns[0].answer
        == '[{"name": "read_sensor", "arguments": "{\\"station\\": \\"ZRH\\"}"}]'
    )
    assert done.document is not None
    assert done.document.source.name == "<suggested>"


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["final_result", "plan", "read_sensor"])
async def test_a_plan_that_a_model_calls_a_tool_with_is_its_plan(name: str) -> None:
    models = ScriptedModels([said("", calls=[NamedCall(name, GOOD_TEXT)])])

    done = await planned(models)

    assert done.rung == "llm"
    assert "tool_call" in {repair.kind for repair in done.attempts[-1].repairs}


@pytest.mark.anyio
async def test_the_latest_answer_that_suggests_calls_counts() -> None:
    models = ScriptedModels(
        [
            '{"tool": "read_sensor", "params": {"station": "ZRH"}}',
            '{"tool": "read_sensor", "params": {"station": "SMA"}}',
            "That is all.",
        ]
    )

    done = await planned(models)

    assert done.plan is not None
    assert done.plan.steps[0].params == {"station": "SMA"}


@pytest.mark.parametrize("rest", ['{"station": "SM', "{broken", ""])
def test_whole_calls_count_for_themselves_and_the_cut_one_is_named(rest: str) -> None:
    text = (
        'First {"tool": "read_sensor", "params": {"station": "ZRH"}}, '
        f'then {{"name": "send_alarm", "arguments": {rest}'
    )

    found = read_whole_calls(text)

    assert [call.name for call in found.calls] == ["read_sensor"]
    assert found.lost == ("send_alarm",)
    assert read_suggested_calls(text) == ()
