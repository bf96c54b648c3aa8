"""Steps with `for_each`: one call an item, one output for all."""

from __future__ import annotations

import pytest

from tests.executor.execution_harness import (
    ExecutionHarness,
    VirtualClock,
    output_of,
    plan_of,
    statuses,
)
from wavewright.executor.events.state import RunState
from wavewright.executor.events.types import GateRecord, StepFinished
from wavewright.executor.run.ports import GateView
from wavewright.planner.language.plan import Limits
from wavewright.planner.types import Json, StepId
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.tool import ToolCall

pytestmark = pytest.mark.anyio

A = StepId("a")


def double(call: ToolCall) -> Json:
    number = call.params["n"]
    if not isinstance(number, int):
        raise ToolError(f"cannot double {number!r}")
    return number * 2


def fan(**fields: object) -> dict[str, object]:
    return {"id": "a", "for_each": "${inputs.list}", "params": {"n": "${item}"}, **fields}


def ending(state: RunState) -> StepFinished:
    return state.steps[A]


async def test_the_output_lists_the_items_outputs_in_their_order() -> None:
    clock = VirtualClock()

    async def answer(call: ToolCall) -> Json:
        index = call.index or 0
        await clock.sleep(10.0 - index)
        return double(call)

    bench = ExecutionHarness().add(answer)
    state = await bench.run(plan_of(fan(), inputs={"list": [1, 2, 3]}), clock=clock)

    assert output_of(state, "a") == [2, 4, 6]
    assert ending(state).items == (3, 3)
    assert [item.output for _, item in sorted(state.items[A].items())] == [2, 4, 6]


async def test_item_and_index_are_there_and_the_list_may_be_written_out() -> None:
    bench = ExecutionHarness().add(lambda call: f"{call.params['text']}")
    state = await bench.run(
        plan_of({"id": "a", "for_each": ["x", {"y": 1}], "params": {"text": "${index}:${item}"}})
    )

    assert output_of(state, "a") == ["0:x", '1:{"y": 1}']
    assert [call.index for call in bench.calls] == [0, 1]


async def test_an_empty_list_is_a_success_whose_gates_are_asked() -> None:
    asked: list[tuple[Json, object]] = []

    def verify(step_id: StepId, output: Json, view: GateView) -> tuple[GateRecord, ...]:
        asked.append((output, view.items))
        return ()

    bench = ExecutionHarness().add(double)
    state = await bench.run(
        plan_of(fan(), {"id": "b", "params": {"n": "${steps.a.size()}"}}, inputs={"list": []}),
        verify=verify,
    )

    assert statuses(state) == {"a": "empty", "b": "ok"}
    assert output_of(state, "a") == []
    assert asked[0] == ([], [])


async def test_without_min_ok_every_item_must_succeed_and_the_others_still_run() -> None:
    bench = ExecutionHarness().add(double)
    state = await bench.run(plan_of(fan(), inputs={"list": [1, "x", 3, "y"]}))
    error = ending(state).error

    assert statuses(state) == {"a": "failed"}
    assert ending(state).items == (2, 4)
    assert error is not None
    assert (error.kind, error.message) == (
        "tool",
        "2 of 4 items succeeded; item 1: cannot double 'x'",
    )
    assert len(bench.calls) == 4


async def test_failures_of_several_kinds_are_told_with_what_may_have_taken_effect() -> None:
    def charge(call: ToolCall) -> Json:
        if call.params["n"] == 1:
            raise ToolError("declined", hint="use another card")
        raise ConnectionResetError

    bench = ExecutionHarness().add(charge, effects=frozenset({"write"}), idempotent=False)
    state = await bench.run(plan_of(fan(), inputs={"list": [1, 2, 2]}))
    error = ending(state).error

    assert error is not None
    assert (error.kind, error.message) == (
        "items",
        "0 of 3 items succeeded; item 0: declined; item 1: ConnectionResetError",
    )
    assert error.hint is not None
    assert error.hint.startswith("it may have taken effect")


@pytest.mark.parametrize(
    ("min_ok", "status", "output"),
    [(0, "ok", [2, 6]), (2, "ok", [2, 6]), (3, "failed", None)],
)
async def test_min_ok_leaves_failed_items_out(min_ok: int, status: str, output: Json) -> None:
    seen: list[object] = []

    def verify(step_id: StepId, output: Json, view: GateView) -> tuple[GateRecord, ...]:
        seen.append(view.items)
        return ()

    bench = ExecutionHarness().add(double)
    state = await bench.run(
        plan_of(fan(min_ok=min_ok), inputs={"list": [1, "x", 3]}), verify=verify
    )

    assert (ending(state).status, ending(state).output, ending(state).items) == (
        status,
        output,
        (2, 3),
    )
    assert seen == ([[(0, 1), (2, 3)]] if status == "ok" else [])


async def test_min_ok_asks_no_more_than_there_are_items() -> None:
    bench = ExecutionHarness().add(double)
    state = await bench.run(plan_of(fan(min_ok=5), inputs={"list": [1]}))

    assert statuses(state) == {"a": "ok"}


async def test_all_items_failed_with_min_ok_zero_is_empty() -> None:
    bench = ExecutionHarness().add(double)
    state = await bench.run(plan_of(fan(min_ok=0), inputs={"list": ["x"]}))

    assert (ending(state).status, ending(state).output) == ("empty", [])


@pytest.mark.parametrize(
    ("step", "tool", "run", "allowed"), [(2, 5, 9, 2), (None, 2, 9, 2), (5, 2, 2, 2), (3, 2, 9, 3)]
)
async def test_too_many_items_fail_the_step_before_any_call(
    step: int | None, tool: int, run: int, allowed: int
) -> None:
    bench = ExecutionHarness().add(double, max_items=tool)
    plan = plan_of(
        fan(**({} if step is None else {"max_items": step})), inputs={"list": [1] * (allowed + 1)}
    )
    state = await bench.run(plan, limits=Limits(max_items=run))
    error = ending(state).error

    assert error is not None
    assert error.kind == "items"
    assert error.message == f"for_each gave {allowed + 1} items, more than the {allowed} allowed"
    assert bench.calls == []


@pytest.mark.parametrize(
    ("step", "run", "setting"),
    [
        pytest.param({}, 9, "`max_items` of step 'a'", id="tool"),
        pytest.param({"max_items": 1}, 9, "`max_items` of step 'a'", id="step"),
        pytest.param({"max_items": 5}, 1, "`limits.max_items`", id="run"),
    ],
)
async def test_the_setting_that_allows_more_items_is_named(
    step: dict[str, int], run: int, setting: str
) -> None:
    bench = ExecutionHarness().add(double, max_items=2)
    state = await bench.run(
        plan_of(fan(**step), inputs={"list": [1] * 6}), limits=Limits(max_items=run)
    )
    error = ending(state).error

    assert error is not None
    assert setting in (error.hint or "")


async def test_what_is_no_list_fails_the_step() -> None:
    bench = ExecutionHarness().add(double)
    state = await bench.run(plan_of(fan(), inputs={"list": "abc"}))
    error = ending(state).error

    assert error is not None
    assert (error.kind, error.message) == ("items", "for_each gave a string, not a list")


async def test_concurrency_bounds_the_items_under_way() -> None:
    clock = VirtualClock()
    under_way = 0
    most = 0

    async def answer(call: ToolCall) -> Json:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await clock.sleep(1.0)
        under_way -= 1
        return 1

    bench = ExecutionHarness().add(answer)
    await bench.run(plan_of(fan(concurrency=3), inputs={"list": list(range(10))}), clock=clock)

    assert most == 3


async def test_parameters_that_do_not_fit_fail_their_item_only() -> None:
    bench = ExecutionHarness().add(double, input_schema={"properties": {"n": {"type": "integer"}}})
    state = await bench.run(plan_of(fan(min_ok=1), inputs={"list": [1, "x"]}))
    item = state.items[A][1]

    assert output_of(state, "a") == [2]
    assert item.error is not None
    assert (item.status, item.key, item.error.kind) == ("failed", None, "params")


async def test_equal_items_of_a_deterministic_tool_are_called_once() -> None:
    bench = ExecutionHarness().add(double, deterministic=True)
    state = await bench.run(plan_of(fan(), inputs={"list": [1, 1, 2, 1]}))

    assert output_of(state, "a") == [2, 2, 4, 2]
    assert [item.status for _, item in sorted(state.items[A].items())] == [
        "ok",
        "reused",
        "ok",
        "reused",
    ]
    assert len(bench.calls) == 2


async def test_a_condition_on_items_leaves_items_out_and_keeps_their_indexes() -> None:
    bench = ExecutionHarness().add(double)
    plan = plan_of(
        fan(when="item % 2 == 1 && index > 0", concurrency=1, min_ok=1),
        {"id": "b", "params": {"n": "${steps.a.size()}"}},
        inputs={"list": [1, 2, 3, 4, 5]},
    )
    state = await bench.run(plan)

    assert output_of(state, "a") == [6, 10]
    assert ending(state).items == (2, 2)
    assert [call.index for call in bench.calls if call.step == "a"] == [2, 4]
    assert output_of(state, "b") == 4


@pytest.mark.parametrize(
    ("when", "status", "message"),
    [
        ("item > 9", "empty", None),
        ("item", "failed", "its condition gave an integer, not true or false"),
        ("item.x", "failed", None),
    ],
)
async def test_a_condition_on_items_may_leave_none_or_have_no_value(
    when: str, status: str, message: str | None
) -> None:
    bench = ExecutionHarness().add(double)
    state = await bench.run(plan_of(fan(when=when), inputs={"list": [1, 2]}))
    error = ending(state).error

    assert statuses(state) == {"a": status}
    assert bench.calls == []
    assert (error is None) == (status == "empty")
    if message is not None:
        assert error is not None
        assert error.message == message
