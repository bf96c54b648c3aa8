"""One step: its condition, its parameters, its output, its gates, and who reads it."""

from __future__ import annotations

import datetime as dt

import pytest

from tests.executor.execution_harness import (
    NOW,
    ExecutionHarness,
    answering,
    echo,
    output_of,
    outputs,
    plan_of,
    statuses,
)
from wavewright.executor.events.types import GateRecord
from wavewright.executor.run.ports import GateView
from wavewright.planner.language.plan import Plan
from wavewright.planner.types import GateId, Json, JsonObject, StepId
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.registry import make_tool
from wavewright.tools.functions.tool import ToolCall

pytestmark = pytest.mark.anyio


def fail(call: ToolCall) -> Json:
    raise ToolError("the service said no", hint="ask again tomorrow")


def bench() -> ExecutionHarness:
    return ExecutionHarness().add(echo).add(fail, "broken")


def red_gate(step: str, severity: str = "block") -> object:
    def verify(step_id: StepId, output: Json, view: GateView) -> tuple[GateRecord, ...]:
        if step_id != step:
            return ()
        record = GateRecord(
            gate=GateId("fresh"),
            step=step_id,
            kind="check",
            severity="block" if severity == "block" else "warn",
            verdict="fail",
            inspected="as_of",
        )
        return (record,)

    return verify


async def test_a_step_receives_the_outputs_that_it_refers_to() -> None:
    state = await bench().run(
        plan_of(
            {"id": "a", "params": {"v": 7, "rows": [{"n": 1}]}},
            {
                "id": "b",
                "params": {
                    "whole": "${steps.a}",
                    "text": "n=${steps.a.rows[0].n}",
                    "up": "${inputs.x}",
                },
            },
            inputs={"x": [1, 2]},
        )
    )

    assert output_of(state, "b") == {
        "whole": {"v": 7, "rows": [{"n": 1}]},
        "text": "n=1",
        "up": [1, 2],
    }


async def test_data_that_looks_like_a_reference_stays_text() -> None:
    state = await bench().run(
        plan_of(
            {"id": "a", "params": {"v": "$${steps.b}"}},
            {"id": "b", "params": {"v": "${steps.a.v}"}},
        )
    )

    assert outputs(state) == {"a": {"v": "${steps.b}"}, "b": {"v": "${steps.b}"}}


async def test_a_call_carries_the_run_the_instant_and_what_the_goal_says_of_the_tool() -> None:
    from wavewright.planner.language.goals import AvailableTool

    tools = bench()
    await tools.run(
        plan_of({"id": "a"}), goal_tools=[AvailableTool(name="work", config={"folder": "prices"})]
    )
    [call] = tools.calls

    assert (call.run, call.step, call.now, call.index, call.attempt) == ("run_1", "a", NOW, None, 1)
    assert call.config == {"folder": "prices"}
    assert len(call.key) == 65


@pytest.mark.parametrize("output", [None, "", [], {}])
async def test_an_output_that_holds_nothing_is_empty_and_can_be_read(output: Json) -> None:
    tools = bench().add(answering(output), "nothing")
    state = await tools.run(
        plan_of(
            {"id": "a", "tool": "nothing"},
            {"id": "b", "params": {"v": "${steps.a}", "there": "${has(steps.a)}"}},
        )
    )

    assert statuses(state) == {"a": "empty", "b": "ok"}
    assert output_of(state, "b") == {"v": output, "there": True}


@pytest.mark.parametrize("output", [0, False, 0.0, " "])
async def test_zero_and_false_are_outputs_like_any_other(output: Json) -> None:
    state = await bench().add(answering(output), "zero").run(plan_of({"id": "a", "tool": "zero"}))

    assert statuses(state) == {"a": "ok"}


async def test_a_false_condition_skips_the_step_and_its_readers_see_it_absent() -> None:
    tools = bench()
    state = await tools.run(
        plan_of(
            {"id": "a", "when": "inputs.n > 3"},
            {"id": "b", "depends_on": ["a"], "params": {"there": "${has(steps.a)}"}},
            inputs={"n": 2},
        )
    )

    assert statuses(state) == {"a": "skipped", "b": "ok"}
    assert output_of(state, "b") == {"there": False}
    assert state.steps[StepId("a")].reason == "its condition is false: inputs.n > 3"
    assert tools.called == ["b"]


async def test_a_condition_that_is_none_fails_the_step() -> None:
    state = await bench().run(plan_of({"id": "a", "when": "inputs.n"}, inputs={"n": 2}))
    error = state.steps[StepId("a")].error

    assert error is not None
    assert (error.kind, error.message) == (
        "expression",
        "its condition gave an integer, not true or false",
    )


async def test_a_failure_blocks_what_depends_on_it_and_nothing_else() -> None:
    tools = bench()
    state = await tools.run(
        plan_of(
            {"id": "bad", "tool": "broken"},
            {"id": "reader", "params": {"v": "${steps.bad.v}"}},
            {"id": "later", "depends_on": ["reader"]},
            {"id": "other"},
        )
    )

    assert statuses(state) == {
        "bad": "failed",
        "reader": "blocked",
        "later": "blocked",
        "other": "ok",
    }
    assert state.steps[StepId("reader")].reason == "'bad' failed"
    assert state.steps[StepId("later")].reason == "'reader' was blocked"
    assert sorted(tools.called) == ["bad", "other"]


async def test_a_failure_is_a_record_with_the_tools_words_and_hint() -> None:
    state = await bench().run(plan_of({"id": "bad", "tool": "broken"}))
    error = state.steps[StepId("bad")].error

    assert error is not None
    assert (error.kind, error.message, error.hint) == (
        "tool",
        "the service said no",
        "ask again tomorrow",
    )


async def test_an_optional_step_that_fails_or_is_blocked_is_absent() -> None:
    state = await bench().run(
        plan_of(
            {"id": "bad", "tool": "broken", "optional": True},
            {"id": "worse", "tool": "broken"},
            {"id": "stuck", "params": {"v": "${steps.worse}"}, "optional": True},
            {"id": "sum", "params": {"v": "${has(steps.bad) || has(steps.stuck)}"}},
        )
    )

    assert statuses(state) == {"bad": "failed", "worse": "failed", "stuck": "blocked", "sum": "ok"}
    assert output_of(state, "sum") == {"v": False}


async def test_a_red_block_gate_stops_the_dependants_only() -> None:
    state = await bench().run(
        plan_of({"id": "a"}, {"id": "b", "depends_on": ["a"]}, {"id": "c"}), verify=red_gate("a")
    )

    assert statuses(state) == {"a": "ok", "b": "blocked", "c": "ok"}
    assert state.steps[StepId("b")].reason == "gate 'fresh' on 'a' failed"
    assert not state.is_present(StepId("a"))


async def test_a_red_gate_on_an_optional_step_makes_it_absent() -> None:
    state = await bench().run(
        plan_of({"id": "a", "optional": True}, {"id": "b", "params": {"there": "${has(steps.a)}"}}),
        verify=red_gate("a"),
    )

    assert output_of(state, "b") == {"there": False}


async def test_a_red_gate_that_warns_stops_nothing() -> None:
    state = await bench().run(
        plan_of({"id": "a"}, {"id": "b", "depends_on": ["a"]}), verify=red_gate("a", "warn")
    )

    assert statuses(state) == {"a": "ok", "b": "ok"}
    assert [record.gate for record in state.gates] == ["fresh"]


async def test_gates_see_the_output_the_inputs_and_what_the_step_waits_for() -> None:
    seen: list[tuple[StepId, Json, JsonObject, dict[str, Json]]] = []

    def verify(step_id: StepId, output: Json, view: GateView) -> tuple[GateRecord, ...]:
        seen.append((step_id, output, view.inputs, dict(view.steps)))
        return ()

    await bench().run(
        plan_of(
            {"id": "a", "params": {"v": 1}},
            {"id": "b", "params": {"v": "${steps.a.v}"}},
            inputs={"n": 1},
        ),
        verify=verify,
    )

    assert seen == [
        ("a", {"v": 1}, {"n": 1}, {"a": {"v": 1}}),
        ("b", {"v": 1}, {"n": 1}, {"a": {"v": 1}, "b": {"v": 1}}),
    ]


async def test_a_step_waits_for_what_its_gates_read_but_is_not_blocked_by_it() -> None:
    plan = plan_of(
        {"id": "a"},
        {"id": "slow", "tool": "broken", "depends_on": []},
        gates=[{"id": "g", "on": "a", "check": "has(steps.slow)"}],
    )
    state = await bench().run(plan)

    assert statuses(state) == {"a": "ok", "slow": "failed"}


@pytest.mark.parametrize(
    ("name", "given", "argument"),
    [("n", "three", "n"), ("born", {"2020": "three"}, "born.2020")],
)
async def test_parameters_are_validated_before_the_call(
    name: str, given: Json, argument: str
) -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer"},
            "born": {"additionalProperties": {"type": "integer"}},
        },
        "additionalProperties": False,
    }
    tools = ExecutionHarness().add(echo, input_schema=schema)
    state = await tools.run(
        plan_of({"id": "a", "params": {name: "${inputs.n}"}}, inputs={"n": given})
    )
    error = state.steps[StepId("a")].error

    assert error is not None
    assert error.kind == "params"
    assert error.message == f"argument {argument!r} is 'three', but must be an integer"
    assert tools.calls == []


async def test_an_output_that_breaks_its_schema_fails_the_step_and_reaches_nobody() -> None:
    prices = answering({"rows": [{"close": "1.5"}]})
    schema = {
        "type": "object",
        "properties": {"rows": {"items": {"properties": {"close": {"type": "number"}}}}},
    }
    asked: list[StepId] = []

    def verify(step_id: StepId, output: Json, view: GateView) -> tuple[GateRecord, ...]:
        asked.append(step_id)
        return ()

    tools = bench().add(prices, "prices", output_schema=schema)
    state = await tools.run(
        plan_of({"id": "a", "tool": "prices"}, {"id": "b", "depends_on": ["a"]}), verify=verify
    )
    error = state.steps[StepId("a")].error

    assert error is not None
    assert (error.kind, error.message) == (
        "output",
        "the output at /rows/0/close is '1.5', but must be a number",
    )
    assert output_of(state, "a") is None
    assert asked == []


async def test_an_output_that_is_no_json_names_the_place() -> None:
    prices = answering({"rows": [1.0, float("nan")]})
    state = await bench().add(prices, "prices").run(plan_of({"id": "a", "tool": "prices"}))
    error = state.steps[StepId("a")].error

    assert error is not None
    assert (error.kind, error.message) == (
        "output",
        "the output at /rows/1 is nan, which is not a JSON number",
    )


async def test_half_a_character_in_a_result_is_refused_also_in_names_of_fields() -> None:
    def letters() -> object:
        """Return what a broken decoder gave."""
        return {"\ud800a": "b"}

    tools = bench().add(make_tool(letters).call, "letters")
    state = await tools.run(plan_of({"id": "a", "tool": "letters", "params": {}}))
    error = state.steps[StepId("a")].error

    assert error is not None
    assert "half a character" in error.message


async def test_dates_and_tuples_become_json() -> None:
    dates = answering({"on": dt.date(2010, 3, 1), "pair": (1, 2)})
    state = await bench().add(dates, "dates").run(plan_of({"id": "a", "tool": "dates"}))

    assert output_of(state, "a") == {"on": "2010-03-01", "pair": [1, 2]}


async def test_a_tool_that_changes_its_parameters_changes_nothing_else() -> None:
    def spoil(call: ToolCall) -> Json:
        rows = call.params["rows"]
        assert isinstance(rows, list)
        rows.append("spoilt")
        return rows

    tools = bench().add(spoil, "spoil")
    state = await tools.run(
        plan_of(
            {"id": "a", "params": {"rows": [1]}},
            {"id": "b", "tool": "spoil", "params": {"rows": "${steps.a.rows}"}},
            {"id": "c", "tool": "spoil", "params": {"rows": "${steps.a.rows}", "again": True}},
        )
    )

    assert outputs(state) == {"a": {"rows": [1]}, "b": [1, "spoilt"], "c": [1, "spoilt"]}


async def test_a_tool_that_keeps_its_output_cannot_change_it_afterwards() -> None:
    kept: list[Json] = []

    def answer(call: ToolCall) -> Json:
        kept.append("first")
        return kept

    state = (
        await bench()
        .add(answer, "keeper")
        .run(
            plan_of(
                {"id": "a", "tool": "keeper"},
                {"id": "b", "tool": "keeper", "params": {"n": 2}, "depends_on": ["a"]},
            )
        )
    )

    assert outputs(state) == {"a": ["first"], "b": ["first", "first"]}


async def test_a_tool_that_cancels_itself_fails() -> None:
    import asyncio

    async def answer(call: ToolCall) -> Json:
        raise asyncio.CancelledError

    state = await bench().add(answer, "wild").run(plan_of({"id": "a", "tool": "wild"}, {"id": "b"}))

    assert statuses(state) == {"a": "failed", "b": "ok"}


async def test_a_tool_that_nobody_brought_fails_its_steps() -> None:
    state = await bench().run(
        plan_of({"id": "a", "tool": "absent"}, {"id": "b", "depends_on": ["a"]})
    )
    error = state.steps[StepId("a")].error

    assert statuses(state) == {"a": "failed", "b": "blocked"}
    assert error is not None
    assert error.message == "no tool named 'absent' is installed"


async def test_an_expression_without_a_value_fails_the_step() -> None:
    state = await bench().run(
        plan_of({"id": "a", "params": {"v": 1}}, {"id": "b", "params": {"v": "${steps.a.w}"}})
    )
    error = state.steps[StepId("b")].error

    assert error is not None
    assert error.kind == "expression"
    assert error.message.startswith("step 'a' has no field 'w'")


async def test_a_plan_without_steps_ends_at_once() -> None:
    state = await bench().run(Plan(steps=()))

    assert statuses(state) == {}
