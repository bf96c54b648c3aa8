"""A run that is wound down ends between two calls; one that is stopped ends where it stands."""

from __future__ import annotations

import asyncio
from typing import Literal

import anyio
import pytest

from tests.executor.execution_harness import RUN as RUN_OF_BENCH, ExecutionHarness, plan_of, statuses
from wavewright.engine.pipeline.cancellation import CancellationToken
from wavewright.executor.events.state import fold
from wavewright.executor.run.ports import DrainSignal
from wavewright.executor.store.journal import MemoryJournal
from wavewright.planner.types import Json, RunId, StepId
from wavewright.tools.functions.tool import ToolCall

pytestmark = pytest.mark.anyio

RUN = RunId("20261122-060000-abc123")


@pytest.mark.parametrize("schedule", ["waves", "dataflow"])
async def test_calls_under_way_come_to_their_end_and_no_other_begins(
    schedule: Literal["waves", "dataflow"],
) -> None:
    token, drain_signal, journal = CancellationToken(), DrainSignal(), MemoryJournal()
    gate, begun = anyio.Event(), anyio.Event()
    stopped_at_once = list[bool]()

    async def work(call: ToolCall) -> Json:
        if len(bench.called) == 2:
            begun.set()
        if call.step == StepId("long"):
            await gate.wait()
        return call.step

    bench = ExecutionHarness().add(work)
    plan = plan_of({"id": "quick"}, {"id": "long"}, {"id": "late", "depends_on": ["long"]})
    await journal.open_run(RUN)

    async def run() -> None:
        with token.scope(drain_signal):
            await bench.run(plan, journal=journal, drain_signal=drain_signal, schedule=schedule)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await begun.wait()
        token.drain()
        stopped_at_once.append(token.is_cancelled)
        gate.set()

    state = fold(await journal.load(bench.calls[0].run))
    assert (stopped_at_once, token.is_cancelled) == ([False], True)
    assert sorted(bench.called) == ["long", "quick"]
    assert statuses(state) == {"quick": "ok", "long": "ok", "late": "cancelled"}
    assert state.is_interrupted


@pytest.mark.parametrize("schedule", ["waves", "dataflow"])
@pytest.mark.parametrize("is_at_once", [False, True])
async def test_a_stop_in_the_very_turn_in_which_a_step_ends_interrupts_the_run_and_nothing_else(
    schedule: Literal["waves", "dataflow"], *, is_at_once: bool
) -> None:
    token, drain_signal, journal = CancellationToken(), DrainSignal(), MemoryJournal()

    async def work(call: ToolCall) -> Json:
        await anyio.wait_all_tasks_blocked()
        if call.step == StepId("slow"):
            # By the time that it ends, whoever performed the quick one waits for more to do.
            await anyio.wait_all_tasks_blocked()
            if is_at_once:
                asyncio.get_running_loop().call_soon(token.cancel)
            else:
                token.drain()
        return call.step

    late = [{"id": name, "depends_on": ["slow"]} for name in ("one", "other") if is_at_once]
    await journal.open_run(RUN_OF_BENCH)
    with token.scope(drain_signal) as scope:
        plan = plan_of({"id": "quick"}, {"id": "slow"}, *late)
        await (
            ExecutionHarness()
            .add(work)
            .run(plan, journal=journal, schedule=schedule, drain_signal=drain_signal)
        )

    state = fold(await journal.load(RUN_OF_BENCH))
    ended = statuses(state)
    assert scope.cancelled_caught
    assert state.is_interrupted
    assert ended == {"quick": "ok", "slow": "ok"} | {str(step["id"]): "cancelled" for step in late}


async def test_whoever_waits_for_another_attempt_is_not_waited_for() -> None:
    token, drain_signal = CancellationToken(), DrainSignal()
    failed = anyio.Event()

    def work(call: ToolCall) -> Json:
        failed.set()
        raise ConnectionError(call.step)

    bench = ExecutionHarness().add(work)
    plan = plan_of({"id": "again", "retry": {"attempts": 5, "wait_initial": 600, "wait_max": 600}})

    async def run() -> None:
        with token.scope(drain_signal):
            await bench.run(plan, drain_signal=drain_signal)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await failed.wait()
        await anyio.wait_all_tasks_blocked()
        token.drain()

    assert token.is_cancelled
    assert bench.called == ["again"]


async def test_what_has_no_drain_signal_is_under_way_until_it_is_left() -> None:
    token = CancellationToken()
    with token.scope() as scope:
        token.drain()
        was_stopped = token.is_cancelled
        await anyio.lowlevel.checkpoint()
    with token.scope() as next_scope:
        await anyio.lowlevel.checkpoint()

    assert (was_stopped, scope.cancelled_caught) == (False, False)
    assert next_scope.cancelled_caught


async def test_several_runs_of_one_job_are_stopped_when_all_are_at_rest() -> None:
    token, one, other = CancellationToken(), DrainSignal(), DrainSignal()
    is_busy = True
    other.attach(lambda: is_busy)
    with token.scope(one), token.scope(other):
        token.drain()
        before = token.is_cancelled
        is_busy = False
        other.notify_if_drained()

    assert (before, token.is_cancelled) == (False, True)


async def test_what_never_comes_to_its_end_is_stopped_when_its_time_is_over() -> None:
    token = CancellationToken()
    with anyio.fail_after(10), token.scope() as scope:
        token.drain(0.01)
        await anyio.sleep_forever()

    assert scope.cancelled_caught
    assert token.is_cancelled
