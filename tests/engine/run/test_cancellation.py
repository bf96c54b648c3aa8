"""Runs that are wound down or stopped, and the budget of a cycle: what fits, waits, is put off or
is refused.
"""

from __future__ import annotations

import asyncio
from typing import Literal

import anyio
import pytest

from tests.executor.execution_harness import (
    RUN as RUN_OF_BENCH,
    ExecutionHarness,
    plan_of,
    statuses,
)
from wavewright.engine.run.cancellation import CancellationToken, Cycles
from wavewright.executor.events.state import fold
from wavewright.executor.run.ports import DrainSignal
from wavewright.executor.store.journal import MemoryJournal
from wavewright.planner.ports.budgets import BudgetExceeded, CallDeferred
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


NOON = 1_795_348_800.0


class Tokens(list[tuple[int, int]]):
    """What was told of used and remaining tokens."""

    def __call__(self, used: int, remaining: int) -> None:
        self.append((used, remaining))


def cycles(tokens: int | None = 100) -> tuple[Cycles, Tokens, Tokens]:
    """Return cycles with what they tell of a budget that is nearly spent, and of one that is."""
    warned, spent = Tokens(), Tokens()
    return Cycles(600.0, tokens, lambda: NOON, CancellationToken(), warned, spent), warned, spent


async def test_a_call_that_exceeds_what_is_left_stops_the_job_and_is_made_in_the_next_cycle() -> (
    None
):
    cycle, _, spent = cycles()
    cycle.begin(50)

    await cycle.require(50)
    for _ in range(2):
        with pytest.raises(CallDeferred):
            await cycle.require(51)

    assert cycle.is_spent
    assert cycle.cancellation.is_cancelled
    assert spent == [(50, 50)]
    assert cycle.end() == NOON + 600
    assert cycle.is_paused_until(NOON + 600)
    assert not cycle.is_paused_until(NOON)


async def test_a_call_that_exceeds_a_whole_cycle_is_refused_for_it_would_never_be_made() -> None:
    cycle, _, spent = cycles()
    cycle.begin(0)

    with pytest.raises(BudgetExceeded, match="may use 101 tokens, and a cycle has 100"):
        await cycle.require(101)

    assert (cycle.is_spent, cycle.cancellation.is_cancelled, spent) == (False, False, [])


@pytest.mark.parametrize(("came_to", "is_given"), [(10, True), (60, False)])
async def test_a_call_waits_for_others_that_may_use_less_than_was_reserved_for_them(
    came_to: int, *, is_given: bool
) -> None:
    cycle, _, _ = cycles()
    cycle.begin(0)
    await cycle.require(60)
    cycle.reserve(1, 60)
    outcomes = list[bool]()

    async def ask() -> None:
        try:
            await cycle.require(50)
            outcomes.append(True)
        except CallDeferred:
            outcomes.append(False)

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        assert outcomes == []
        cycle.settle(1, came_to)

    assert outcomes == [is_given]


async def test_a_cycle_that_is_nearly_spent_is_told_once() -> None:
    cycle, warned, _ = cycles()
    cycle.begin(80)
    for number, tokens in enumerate((5, 5, 5)):
        cycle.reserve(number, tokens)
        cycle.settle(number, tokens)

    assert warned == [(90, 10)]


async def test_without_a_limit_every_call_is_made() -> None:
    cycle, warned, spent = cycles(None)
    cycle.begin(10**9)
    await cycle.require(10**9)

    assert (warned, spent) == ([], [])
