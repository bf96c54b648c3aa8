"""Equal calls of deterministic tools are one call of a run; across runs where a tool allows it.

What a run was answered is known for as long as it is worked on.
"""

from __future__ import annotations

import datetime as dt

import anyio
import pytest

from tests.executor.execution_harness import (
    NOW,
    ExecutionHarness,
    VirtualClock,
    answering,
    echo,
    outputs,
    plan_of,
    statuses,
)
from wavewright.executor.run.execution import Execution, execute
from wavewright.executor.run.kept_answers import JournalReplayCache
from wavewright.executor.store.journal import MemoryJournal
from wavewright.planner.types import Json, RunId, StepId
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.tool import ToolCall

pytestmark = pytest.mark.anyio

SAME = plan_of({"id": "a", "params": {"v": 1}}, {"id": "b", "params": {"v": 1}})


async def test_an_equal_call_that_is_done_is_not_made_again() -> None:
    bench = ExecutionHarness().add(echo, deterministic=True)
    state = await bench.run(
        plan_of(
            {"id": "a", "params": {"v": 1}}, {"id": "b", "params": {"v": 1}, "depends_on": ["a"]}
        )
    )

    assert statuses(state) == {"a": "ok", "b": "reused"}
    assert outputs(state) == {"a": {"v": 1}, "b": {"v": 1}}
    assert state.steps[StepId("b")].reason == "an equal call was made by 'a'"
    assert bench.called == ["a"]


async def test_every_call_of_a_tool_that_is_not_deterministic_is_made() -> None:
    numbers = iter(range(9))
    bench = ExecutionHarness().add(lambda _: next(numbers), "dice")
    state = await bench.run(
        plan_of(
            {"id": "thrown", "tool": "dice", "for_each": [1, 2, 3], "params": {}},
            {"id": "again", "tool": "dice", "params": {}, "depends_on": ["thrown"]},
        )
    )

    assert outputs(state) == {"thrown": [0, 1, 2], "again": 3}


async def test_an_equal_call_in_flight_serves_both() -> None:
    clock = VirtualClock()

    async def answer(call: ToolCall) -> Json:
        await clock.sleep(1)
        return echo(call)

    bench = ExecutionHarness().add(answer, deterministic=True)
    state = await bench.run(SAME, clock=clock)

    assert statuses(state) == {"a": "ok", "b": "reused"}
    assert bench.called == ["a"]


async def test_a_call_whose_equal_fails_is_made_for_itself() -> None:
    clock = VirtualClock()

    async def answer(call: ToolCall) -> Json:
        await clock.sleep(1)
        if call.step == "a":
            raise ToolError("not for a")
        return echo(call)

    bench = ExecutionHarness().add(answer, deterministic=True)
    state = await bench.run(SAME, clock=clock)

    assert statuses(state) == {"a": "failed", "b": "ok"}
    assert bench.called == ["a", "b"]


@pytest.mark.parametrize("effect", ["write", "egress"])
async def test_two_equal_calls_with_an_effect_are_two(effect: str) -> None:
    bench = ExecutionHarness().add(echo, effects=[effect], deterministic=True)

    assert statuses(await bench.run(SAME)) == {"a": "ok", "b": "ok"}


async def test_two_equal_questions_to_somebody_outside_are_one() -> None:
    bench = ExecutionHarness().add(echo, effects=["read", "egress"], deterministic=True)

    assert sorted(statuses(await bench.run(SAME)).values()) == ["ok", "reused"]


async def test_a_step_that_supersedes_another_makes_its_call() -> None:
    bench = ExecutionHarness().add(echo, deterministic=True)
    plan = plan_of(
        {"id": "a", "params": {"v": 1}},
        {"id": "a_2", "params": {"v": 1}, "supersedes": "a", "depends_on": ["a"]},
    )

    assert statuses(await bench.run(plan)) == {"a": "ok", "a_2": "ok"}


async def run_at(
    bench: ExecutionHarness, journal: MemoryJournal, run: str, now: dt.datetime
) -> dict[str, str]:
    plan = plan_of({"id": "a", "params": {"v": 1}})
    return statuses(
        await execute(Execution(plan, bench.tools, run=RunId(run), now=now, journal=journal))
    )


async def test_another_run_reuses_a_result_as_long_as_the_tool_allows() -> None:
    bench = ExecutionHarness().add(echo, cache_for="1h")
    journal = MemoryJournal()

    assert await run_at(bench, journal, "one", NOW) == {"a": "ok"}
    assert await run_at(bench, journal, "two", NOW + dt.timedelta(minutes=59)) == {"a": "reused"}
    assert await run_at(bench, journal, "three", NOW + dt.timedelta(minutes=61)) == {"a": "ok"}


async def test_a_result_ages_for_a_run_whose_now_stands_still() -> None:
    bench = ExecutionHarness().add(echo, cache_for="1h")
    journal, clock = MemoryJournal(), VirtualClock()
    plan = plan_of({"id": "a", "params": {"v": 1}})
    ended = list[dict[str, str]]()
    for run in ("one", "two", "three"):
        state = await execute(
            Execution(plan, bench.tools, run=RunId(run), now=NOW, journal=journal, clock=clock)
        )
        ended.append(statuses(state))
        await clock.sleep(2000)

    assert ended == [{"a": "ok"}, {"a": "reused"}, {"a": "ok"}]


async def test_another_run_reuses_nothing_of_a_tool_that_does_not_allow_it() -> None:
    bench = ExecutionHarness().add(echo, deterministic=True)
    journal = MemoryJournal()

    assert await run_at(bench, journal, "one", NOW) == {"a": "ok"}
    assert await run_at(bench, journal, "two", NOW) == {"a": "ok"}


async def test_a_stored_output_that_no_longer_fits_the_schema_is_not_reused() -> None:
    journal = MemoryJournal()
    await run_at(ExecutionHarness().add(echo, cache_for="1h"), journal, "one", NOW)
    bench = ExecutionHarness().add(
        answering("text"), cache_for="1h", output_schema={"type": "string"}
    )

    assert await run_at(bench, journal, "two", NOW) == {"a": "ok"}


async def test_followers_of_a_cancelled_call_are_cancelled_with_it() -> None:
    is_called = anyio.Event()
    journal = MemoryJournal()

    async def answer(call: ToolCall) -> Json:
        is_called.set()
        await anyio.sleep_forever()
        return None

    bench = ExecutionHarness().add(answer, deterministic=True)
    async with anyio.create_task_group() as group:

        async def run() -> None:
            await bench.run(SAME, journal=journal)

        group.start_soon(run)
        await is_called.wait()
        group.cancel_scope.cancel()
    ended = [event for event in await journal.load(RunId("run_1")) if hasattr(event, "status")]

    assert len(ended) == 3


async def test_a_stored_output_serves_every_equal_call_of_the_run() -> None:
    bench = ExecutionHarness().add(echo, cache_for="1h")
    journal = MemoryJournal()
    await run_at(bench, journal, "one", NOW)
    bench.calls.clear()
    again = await execute(Execution(SAME, bench.tools, run=RunId("two"), now=NOW, journal=journal))

    assert statuses(again) == {"a": "reused", "b": "reused"}
    assert bench.calls == []


RUN = RunId("20261122-060000-abc123")


async def test_a_run_that_is_given_up_takes_no_room_and_what_it_was_told_can_be_learnt_again() -> (
    None
):
    journal = MemoryJournal()
    await journal.open_run(RUN)
    memory = JournalReplayCache(journal)
    await memory.put(RUN, "key", {"text": "one"})
    await memory.put(RUN, "key", {"text": "two"})
    await memory.load(RUN)
    first = memory.get(RUN, "key")

    memory.evict(RUN)
    forgotten = memory.get(RUN, "key")
    await memory.load(RUN)

    assert (first, forgotten) == ({"text": "one"}, None)
    assert [memory.get(RUN, "key") for _ in range(3)] == [{"text": "one"}, {"text": "two"}, None]
