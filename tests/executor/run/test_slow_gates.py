"""Gates that somebody has to be waited for: a step ends when they have answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
import pytest

from tests.executor.execution_harness import (
    NOW,
    RUN,
    ExecutionHarness,
    VirtualClock,
    answering,
    echo,
    plan_of,
    statuses,
)
from wavewright.executor.events.state import fold
from wavewright.executor.events.types import Event, GateRecord, StepFinished, WaveStarted
from wavewright.executor.run.execution import Execution, execute
from wavewright.executor.run.ports import GateRecords, GateView
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.executor.store.journal import Journal, MemoryJournal
from wavewright.planner.language.plan import Limits
from wavewright.planner.types import GateId, GateSeverity, Json, JsonObject, RunId, Schedule, StepId
from wavewright.tools.functions.tool import ToolCall

pytestmark = pytest.mark.anyio

A, B = StepId("a"), StepId("b")


def record(step: StepId, *, severity: GateSeverity = "block", is_red: bool = False) -> GateRecord:
    return GateRecord(
        GateId("g"), step, "judge", severity, "fail" if is_red else "pass", "the rubric"
    )


@dataclass
class SlowJudge:
    """A verifier that takes its time over the steps that it is told."""

    clock: VirtualClock
    seconds: dict[str, float]
    red: frozenset[str] = frozenset()
    asked: list[str] = field(default_factory=list[str])

    def __call__(
        self, step_id: StepId, output: Json, view: GateView
    ) -> GateRecords | Awaitable[GateRecords]:
        del output, view
        self.asked.append(step_id)
        return self._judge(step_id) if step_id in self.seconds else ()

    async def _judge(self, step_id: StepId) -> GateRecords:
        await self.clock.sleep(self.seconds[step_id])
        return (record(step_id, is_red=step_id in self.red),)


GATES = [{"id": "g", "on": "a", "judge": {"rubric": "is it so?"}, "hint": "ask again"}]
SCHEDULES: list[Schedule] = ["waves", "dataflow"]


@pytest.mark.parametrize("schedule", SCHEDULES)
async def test_a_step_ends_when_its_gates_have_answered_and_dependants_wait(
    schedule: Schedule,
) -> None:
    clock, events = VirtualClock(), list[Event]()
    start = clock.now
    judge = SlowJudge(clock, {"a": 5.0})
    plan = plan_of({"id": "a"}, {"id": "b", "depends_on": ["a"]})

    state = (
        await ExecutionHarness()
        .add(echo)
        .run(plan, verify=judge, clock=clock, schedule=schedule, on_event=events.append)
    )

    assert statuses(state) == {"a": "ok", "b": "ok"}
    assert state.steps[A].gates == (record(A),)
    assert (state.steps[A].at - start, state.steps[A].seconds) == (5.0, 5.0)
    started = state.steps[B].started
    assert started is not None
    assert started - start >= 5.0
    endings = [event.step for event in events if isinstance(event, StepFinished)]
    assert endings == [A, B]


async def test_a_red_answer_blocks_the_dependants() -> None:
    clock = VirtualClock()
    judge = SlowJudge(clock, {"a": 5.0}, red=frozenset({"a"}))

    state = (
        await ExecutionHarness()
        .add(echo)
        .run(plan_of({"id": "a"}, {"id": "b", "depends_on": ["a"]}), verify=judge, clock=clock)
    )

    assert statuses(state) == {"a": "ok", "b": "blocked"}


async def test_the_next_wave_starts_when_the_last_gate_has_answered() -> None:
    clock, events = VirtualClock(), list[Event]()
    start = clock.now
    judge = SlowJudge(clock, {"a": 1.0, "b": 7.0})
    plan = plan_of({"id": "a"}, {"id": "b"}, {"id": "c", "depends_on": ["a"]})

    await (
        ExecutionHarness()
        .add(echo)
        .run(plan, verify=judge, clock=clock, schedule="waves", on_event=events.append)
    )

    assert [event.at - start for event in events if isinstance(event, WaveStarted)] == [0.0, 7.0]


async def test_waiting_for_gates_keeps_no_worker_from_other_calls() -> None:
    clock = VirtualClock()
    start = clock.now
    judge = SlowJudge(clock, {f"s{number}": 10.0 for number in range(5)})
    plan = plan_of(*({"id": f"s{number}"} for number in range(5)))

    state = (
        await ExecutionHarness()
        .add(echo, concurrency=1)
        .run(plan, verify=judge, clock=clock, limits=Limits(concurrency=1))
    )

    assert {record.at - start for record in state.steps.values()} == {10.0}


async def test_the_gates_of_every_follower_of_an_equal_call_are_waited_for() -> None:
    clock = VirtualClock()
    judge = SlowJudge(clock, {"a": 2.0, "b": 3.0, "c": 4.0}, red=frozenset({"b"}))

    async def fetch(call: ToolCall) -> Json:
        await clock.sleep(1.0)
        return "the same"

    bench = ExecutionHarness().add(fetch, deterministic=True)
    same: JsonObject = {}
    plan = plan_of(*({"id": name, "params": same} for name in "abc"))
    state = await bench.run(plan, verify=judge, clock=clock)

    assert len(bench.calls) == 1
    assert sorted(statuses(state).values()) == ["ok", "reused", "reused"]
    assert {step: ending.gates for step, ending in state.steps.items()} == {
        "a": (record(A),),
        "b": (record(B, is_red=True),),
        "c": (record(StepId("c")),),
    }


async def test_a_call_that_is_served_later_has_its_own_gates_asked() -> None:
    clock = VirtualClock()
    judge = SlowJudge(clock, {"b": 2.0})
    bench = ExecutionHarness().add(answering("the same"), deterministic=True)
    plan = plan_of({"id": "a", "params": {}}, {"id": "b", "params": {}, "depends_on": ["a"]})

    state = await bench.run(plan, verify=judge, clock=clock)

    assert statuses(state) == {"a": "ok", "b": "reused"}
    assert state.steps[B].gates == (record(B),)


async def test_an_output_of_another_run_has_its_gates_asked() -> None:
    clock = VirtualClock()
    judge = SlowJudge(clock, {"a": 2.0})
    bench = ExecutionHarness().add(answering("kept"), cache_for=10_000)
    plan = plan_of({"id": "a", "params": {}})
    async with MemoryJournal() as journal:
        another = Execution(plan, bench.tools, RunId("run_0"), NOW, journal, clock=clock)
        await execute(another)
        state = await bench.run(plan, journal=journal, verify=judge, clock=clock)

    assert len(bench.calls) == 1
    assert statuses(state) == {"a": "reused"}
    assert state.steps[A].gates == (record(A),)


async def test_a_step_over_items_asks_once_for_all_of_them() -> None:
    clock = VirtualClock()
    seen = list[object]()

    async def judge(items: object) -> GateRecords:
        seen.append(items)
        await clock.sleep(1.0)
        return (record(A),)

    def verify(step_id: StepId, output: Json, view: GateView) -> Awaitable[GateRecords]:
        return judge((output, view.items))

    plan = plan_of({"id": "a", "for_each": [1, 2], "params": {"n": "${item}"}})
    state = await ExecutionHarness().add(echo).run(plan, verify=verify, clock=clock)

    assert seen == [([{"n": 1}, {"n": 2}], [(0, 1), (1, 2)])]
    assert state.steps[A].gates == (record(A),)
    assert state.steps[A].items == (2, 2)


async def test_an_empty_list_of_items_is_judged_too() -> None:
    clock = VirtualClock()

    state = (
        await ExecutionHarness()
        .add(echo)
        .run(plan_of({"id": "a", "for_each": []}), verify=SlowJudge(clock, {"a": 1.0}), clock=clock)
    )

    assert statuses(state) == {"a": "empty"}
    assert state.steps[A].gates == (record(A),)


async def test_a_failed_step_is_not_judged() -> None:
    clock = VirtualClock()
    judge = SlowJudge(clock, {"a": 1.0})

    def fail(call: ToolCall) -> Json:
        raise ValueError("no")

    state = await ExecutionHarness().add(fail).run(plan_of({"id": "a"}), verify=judge, clock=clock)

    assert statuses(state) == {"a": "failed"}
    assert judge.asked == []


async def raises() -> GateRecords:
    raise RuntimeError("out of order")


async def cancels_itself() -> GateRecords:
    raise asyncio.CancelledError


def raises_at_once() -> Awaitable[GateRecords]:
    raise RuntimeError("out of order")


@pytest.mark.parametrize(
    ("judge", "why"),
    [
        pytest.param(raises, "RuntimeError: out of order", id="raises"),
        pytest.param(
            raises_at_once,
            "RuntimeError: out of order",
            id="raises before there is anything to await",
        ),
        pytest.param(cancels_itself, "it was cancelled", id="cancels itself"),
    ],
)
async def test_a_judge_that_breaks_its_promise_makes_the_gates_red_and_the_run_goes_on(
    judge: Callable[[], Awaitable[GateRecords]], why: str
) -> None:
    def verify(
        step_id: StepId, output: Json, view: GateView
    ) -> GateRecords | Awaitable[GateRecords]:
        return judge() if step_id == "a" else ()

    plan = plan_of({"id": "a"}, {"id": "b"}, {"id": "c", "depends_on": ["a"]}, gates=GATES)
    state = await ExecutionHarness().add(echo).run(plan, verify=verify)

    (red,) = state.steps[A].gates
    assert (red.verdict, red.kind, red.hint) == ("error", "judge", "ask again")
    assert red.message == f"the gate could not be evaluated: {why}"
    assert statuses(state) == {"a": "ok", "b": "ok", "c": "blocked"}


async def journals(tmp_path: object, name: str) -> Journal:
    return MemoryJournal() if name == "memory" else SqliteJournal(f"{tmp_path}/j.db")


@pytest.mark.parametrize("name", ["memory", "sqlite"])
async def test_a_run_that_is_stopped_while_a_gate_is_asked_can_be_resumed(
    tmp_path: object, name: str
) -> None:
    def wait_for_ever(step_id: StepId, output: Json, view: GateView) -> Awaitable[GateRecords]:
        scope.cancel()
        return sleep_for_ever()

    async def sleep_for_ever() -> GateRecords:
        await anyio.sleep_forever()
        return ()

    bench = ExecutionHarness().add(echo)
    journal = await journals(tmp_path, name)
    with anyio.CancelScope() as scope:
        await bench.run(plan_of({"id": "a"}), verify=wait_for_ever, journal=journal)
    stopped = fold(await journal.load(RUN))

    assert scope.cancelled_caught
    assert statuses(stopped) == {"a": "cancelled"}
    assert stopped.is_interrupted

    state = await bench.run(plan_of({"id": "a"}), journal=journal, prior=stopped)
    await journal.aclose()

    assert statuses(state) == {"a": "ok"}
    assert len(bench.calls) == 2


async def test_the_runs_time_limit_ends_a_judge_that_does_not() -> None:
    async def judge() -> GateRecords:
        await anyio.sleep_forever()
        return ()

    def verify(
        step_id: StepId, output: Json, view: GateView
    ) -> GateRecords | Awaitable[GateRecords]:
        return judge() if step_id == "a" else ()

    state = (
        await ExecutionHarness()
        .add(echo)
        .run(plan_of({"id": "a"}, {"id": "b"}), verify=verify, limits=Limits(run_timeout=0.2))
    )

    assert statuses(state) == {"a": "cancelled", "b": "ok"}
    assert "run_timeout" in (state.steps[A].reason or "")


async def test_slow_gates_end_steps_in_a_journal_on_disk(tmp_path: object) -> None:
    async def judge(step_id: StepId) -> GateRecords:
        await anyio.lowlevel.checkpoint()
        return (record(step_id),)

    def verify(step_id: StepId, output: Json, view: GateView) -> Awaitable[GateRecords]:
        return judge(step_id)

    plan = plan_of(
        {"id": "a"}, {"id": "b", "depends_on": ["a"]}, {"id": "c", "params": {"x": "${steps.b}"}}
    )
    async with SqliteJournal(f"{tmp_path}/j.db") as journal:
        state = await ExecutionHarness().add(echo).run(plan, verify=verify, journal=journal)
        again = fold(await journal.load(RUN))

    assert statuses(state) == {"a": "ok", "b": "ok", "c": "ok"}
    assert again == state
    assert all(ending.gates for ending in again.steps.values())
