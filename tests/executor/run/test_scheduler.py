"""When steps run: waves and dataflow, limits, priorities, and what a limit cuts off."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from tests.crash.run_size import volume
from tests.executor.execution_harness import (
    RUN,
    ExecutionHarness,
    VirtualClock,
    echo,
    outputs,
    plan_of,
    statuses,
)
from wavewright.executor.events.state import RunState, fold
from wavewright.executor.events.types import (
    Event,
    StepFinished,
    StepStarted,
    WaveFinished,
    WaveStarted,
)
from wavewright.executor.store.journal import MemoryJournal
from wavewright.planner.language.plan import Limits, Plan
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.types import Json, Schedule, StepId
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.tool import ToolCall

pytestmark = pytest.mark.anyio

SCHEDULES: list[Schedule] = ["waves", "dataflow"]


def seconds_of(call: ToolCall) -> float:
    seconds = call.params.get("seconds", 1)
    assert isinstance(seconds, int | float)
    return float(seconds)


class Timed:
    """A bench whose calls take the seconds that their parameters say, and that notes when each one
    started.
    """

    def __init__(self, **signature: Any) -> None:
        self.clock = VirtualClock()
        self.start = self.clock.now
        self.started: dict[str, float] = {}
        self.under_way = Counter[str]()
        self.most = Counter[str]()
        self.bench = ExecutionHarness().add(self.answer, **signature)

    async def answer(self, call: ToolCall) -> Json:
        self.started[call.step] = self.clock.now - self.start
        for name in (call.tool, "all"):
            self.under_way[name] += 1
            self.most[name] = max(self.most[name], self.under_way[name])
        await self.clock.sleep(seconds_of(call))
        for name in (call.tool, "all"):
            self.under_way[name] -= 1
        if call.params.get("fail"):
            raise ToolError("asked to fail")
        return echo(call)

    async def run(self, plan: Plan, **options: object) -> RunState:
        return await self.bench.run(plan, clock=self.clock, **options)

    @property
    def took(self) -> float:
        return self.clock.now - self.start


UNEVEN = (
    {"id": "quick", "params": {"seconds": 1}},
    {"id": "slow", "params": {"seconds": 5}},
    {"id": "after_quick", "params": {"seconds": 5, "v": "${steps.quick}"}},
    {"id": "after_slow", "params": {"seconds": 1, "v": "${steps.slow}"}},
)


async def test_in_waves_a_step_waits_for_the_whole_wave_before() -> None:
    timed = Timed()
    await timed.run(plan_of(*UNEVEN), schedule="waves")

    assert timed.started == {"quick": 0, "slow": 0, "after_quick": 5, "after_slow": 5}
    assert timed.took == 10


async def test_in_dataflow_a_step_waits_for_its_own_dependencies_only() -> None:
    timed = Timed()
    await timed.run(plan_of(*UNEVEN), schedule="dataflow")

    assert timed.started == {"quick": 0, "slow": 0, "after_quick": 1, "after_slow": 5}
    assert timed.took == 6


async def test_waves_are_told_in_order_around_the_endings_of_their_steps() -> None:
    told: list[object] = []

    def tell(event: Event) -> None:
        match event:
            case WaveStarted(wave=wave, steps=steps):
                told.append(("start", wave, steps))
            case WaveFinished(wave=wave):
                told.append(("finish", wave))
            case StepFinished(step=step):
                told.append(step)
            case StepStarted():
                pass
            case _:
                told.append(event)

    state = await Timed().run(plan_of(*UNEVEN), on_event=tell)

    assert told == [
        ("start", 0, ("quick", "slow")),
        "quick",
        "slow",
        ("finish", 0),
        ("start", 1, ("after_quick", "after_slow")),
        "after_slow",
        "after_quick",
        ("finish", 1),
    ]
    assert [(wave.wave, wave.steps, wave.finished is not None) for wave in state.waves] == [
        (0, ("quick", "slow"), True),
        (1, ("after_quick", "after_slow"), True),
    ]


async def test_dataflow_tells_of_no_waves() -> None:
    state = await Timed().run(plan_of(*UNEVEN), schedule="dataflow")

    assert state.waves == ()


@pytest.mark.parametrize("schedule", SCHEDULES)
async def test_no_more_calls_run_at_once_than_allowed(schedule: Schedule) -> None:
    timed = Timed()
    plan = plan_of(*({"id": f"s{number}"} for number in range(10)))
    await timed.run(plan, schedule=schedule, limits=Limits(concurrency=3))

    assert timed.most["all"] == 3
    assert timed.took == 4


async def test_a_tools_own_limit_leaves_the_workers_to_other_tools() -> None:
    timed = Timed(concurrency=1)
    timed.bench.add(timed.answer, "other")
    plan = plan_of(
        *({"id": f"s{number}", "params": {"seconds": 2, "n": number}} for number in range(3)),
        *(
            {"id": f"o{number}", "tool": "other", "params": {"seconds": 1, "n": number}}
            for number in range(4)
        ),
    )
    await timed.run(plan, limits=Limits(concurrency=2))

    assert (timed.most["work"], timed.most["other"], timed.most["all"]) == (1, 1, 2)
    assert timed.started["o0"] == 0
    assert timed.took == 6


async def test_the_goal_may_narrow_a_tools_limit() -> None:
    timed = Timed(concurrency=5)
    plan = plan_of(*({"id": f"s{number}"} for number in range(4)))
    await timed.run(plan, limits=Limits(tool_concurrency={"work": 2}))

    assert timed.most["work"] == 2


async def test_among_ready_steps_the_one_with_the_longest_way_to_the_end_goes_first() -> None:
    timed = Timed(expected_seconds=1)
    timed.bench.add(timed.answer, "long", expected_seconds=10)
    plan = plan_of(
        {"id": "short"},
        {"id": "head"},
        {"id": "tail", "depends_on": ["head"]},
        {"id": "heavy", "tool": "long", "params": {"seconds": 10}},
        {"id": "second"},
    )
    await timed.run(plan, schedule="dataflow", limits=Limits(concurrency=1))

    assert timed.bench.called == ["heavy", "head", "short", "tail", "second"]


async def test_steps_beyond_the_last_allowed_wave_are_cancelled_with_the_reason() -> None:
    bench = ExecutionHarness().add(echo)
    plan = plan_of({"id": "a"}, {"id": "b", "depends_on": ["a"]}, {"id": "c", "depends_on": ["b"]})

    for schedule in SCHEDULES:
        state = await bench.run(plan, schedule=schedule, limits=Limits(max_waves=2))

        assert statuses(state) == {"a": "ok", "b": "ok", "c": "cancelled"}
        assert (
            state.steps[StepId("c")].reason
            == "it is in wave 3, and a run has at most 2 waves (max_waves)"
        )


async def test_a_run_has_ten_waves_unless_the_goal_says_otherwise() -> None:
    bench = ExecutionHarness().add(echo)
    plan = plan_of(
        {"id": "s0"},
        *({"id": f"s{number}", "depends_on": [f"s{number - 1}"]} for number in range(1, 12)),
    )
    ended = Counter(statuses(await bench.run(plan)).values())

    assert ended == {"ok": 10, "cancelled": 2}


async def test_steps_of_a_cycle_are_cancelled_with_the_reason() -> None:
    bench = ExecutionHarness().add(echo)
    plan = plan_of({"id": "a", "depends_on": ["b"]}, {"id": "b", "depends_on": ["a"]}, {"id": "c"})

    for schedule in SCHEDULES:
        state = await bench.run(plan, schedule=schedule)

        assert statuses(state) == {"a": "cancelled", "b": "cancelled", "c": "ok"}
        assert state.steps[StepId("a")].reason == "its dependencies form a cycle"


@pytest.mark.parametrize("schedule", SCHEDULES)
async def test_a_time_limit_keeps_what_is_done_and_cancels_the_rest(schedule: Schedule) -> None:
    async def forever(call: ToolCall) -> Json:
        await anyio.sleep_forever()
        return None

    bench = ExecutionHarness().add(echo).add(forever, "hang")
    plan = plan_of({"id": "a"}, {"id": "b", "tool": "hang"}, {"id": "c", "depends_on": ["b"]})
    state = await bench.run(plan, schedule=schedule, limits=Limits(run_timeout=0.05))

    assert statuses(state) == {"a": "ok", "b": "cancelled", "c": "cancelled"}
    assert (
        state.steps[StepId("c")].reason
        == "the run's time limit of 0.05 s was reached (run_timeout)"
    )
    assert not state.is_interrupted


# -- laws over random plans


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Return a sound plan with failures, conditions, optional steps and items."""
    steps: list[dict[str, object]] = []
    for number in range(draw(st.integers(1, 9))):
        before = [f"s{earlier}" for earlier in range(number)]
        read = draw(st.lists(st.sampled_from(before), max_size=3, unique=True)) if before else []
        params: dict[str, object] = {
            "n": number,
            "seconds": draw(st.sampled_from([0.5, 1, 2, 7])),
            "fail": draw(st.integers(0, 5)) == 0,
            **{name: f"${{has(steps.{name}) ? steps.{name} : null}}" for name in read},
        }
        step: dict[str, object] = {"id": f"s{number}", "params": params}
        if before:
            step["depends_on"] = draw(st.lists(st.sampled_from(before), max_size=1))
        if draw(st.integers(0, 3)) == 0:
            step["optional"] = True
        if read and draw(st.integers(0, 3)) == 0:
            step["when"] = f"has(steps.{read[0]})"
        if draw(st.integers(0, 3)) == 0:
            items: list[bool] = draw(st.lists(st.booleans(), max_size=3))
            step["for_each"] = items
            params["fail"] = "${item && index > 0}"
            params["index"] = "${index}"
            step["min_ok"] = draw(st.sampled_from([None, 0, 1]))
        steps.append(step)
    return plan_of(*steps)


async def ending_of(plan: Plan, schedule: Schedule, concurrency: int) -> object:
    state = await Timed().run(plan, schedule=schedule, limits=Limits(concurrency=concurrency))
    reasons = {step_id: record.reason for step_id, record in state.steps.items()}
    keys = {step_id: record.key for step_id, record in state.steps.items()}
    return statuses(state), outputs(state), reasons, keys


@given(plans())
@settings(max_examples=volume(20, 60), deadline=None)
async def test_every_schedule_and_every_limit_give_the_same_endings(plan: Plan) -> None:
    expected = await ending_of(plan, "waves", 1)

    assert await ending_of(plan, "waves", 3) == expected
    assert await ending_of(plan, "dataflow", 1) == expected
    assert await ending_of(plan, "dataflow", 4) == expected


@given(plans(), st.sampled_from(SCHEDULES))
@settings(max_examples=40, deadline=None)
async def test_every_step_ends_once_and_after_what_it_waits_for(
    plan: Plan, schedule: Schedule
) -> None:
    ended: list[StepId] = []

    def tell(event: Event) -> None:
        if isinstance(event, StepFinished):
            ended.append(event.step)

    await Timed().run(plan, schedule=schedule, on_event=tell)
    place = {step_id: number for number, step_id in enumerate(ended)}

    assert sorted(ended) == sorted(step.id for step in plan.steps)
    assert all(place[before] < place[after] for before, after in PlanGraph.of(plan).edges)


@st.composite
def timed_plans(draw: st.DrawFn) -> Plan:
    """Return a plan whose steps all succeed, each with a tool of its own that says how long it
    takes.
    """
    steps: list[dict[str, object]] = []
    for number in range(draw(st.integers(1, 10))):
        before = [f"s{earlier}" for earlier in range(number)]
        after = draw(st.lists(st.sampled_from(before), max_size=3, unique=True)) if before else []
        steps.append({"id": f"s{number}", "tool": f"t{number}", "depends_on": after})
    return plan_of(*steps)


@given(timed_plans(), st.data())
@settings(max_examples=40, deadline=None)
async def test_dataflow_takes_exactly_the_critical_path_where_nothing_limits_it(
    plan: Plan, data: st.DataObject
) -> None:
    clock = VirtualClock()
    start = clock.now
    bench = ExecutionHarness()
    seconds = {step.id: float(data.draw(st.integers(1, 20))) for step in plan.steps}

    async def answer(call: ToolCall) -> Json:
        await clock.sleep(seconds[call.step])
        return call.step

    for step in plan.steps:
        bench.add(answer, step.tool, expected_seconds=seconds[step.id])
    await bench.run(plan, schedule="dataflow", clock=clock)

    assert clock.now - start == PlanGraph.of(plan).critical_path(seconds).seconds


def test_calls_run_at_once_on_a_plain_loop_of_asyncio() -> None:
    # Where sniffio is installed, anyio finds the loop from inside a task only, unless it started
    # the loop itself.
    async def run() -> RunState:
        arrived = 0
        everybody = anyio.Event()

        async def meet(call: ToolCall) -> Json:
            nonlocal arrived
            arrived += 1
            if arrived == 5:
                everybody.set()
            await everybody.wait()
            return call.step

        plan = plan_of(*({"id": f"s{number}", "timeout": 20} for number in range(5)))
        return await ExecutionHarness().add(meet).run(plan)

    state = asyncio.run(run())

    assert set(statuses(state).values()) == {"ok"}


async def test_a_run_that_announces_its_calls_journals_the_start_of_each_before_it_is_made() -> (
    None
):
    journal = MemoryJournal()
    await journal.open_run(RUN)
    told = list[tuple[str, str]]()

    def answer(call: ToolCall) -> Json:
        told.append(("called", call.step))
        if call.step == "b":
            raise ToolError("the service said no", transient=True)
        return call.step

    def on_event(event: Event) -> None:
        if isinstance(event, StepStarted | StepFinished):
            told.append((type(event).__name__, event.step))

    plan = plan_of(
        {"id": "a"}, {"id": "b", "depends_on": ["a"], "retry": {"attempts": 2, "wait_initial": 1}}
    )
    bench = ExecutionHarness().add(answer)
    await bench.run(plan, journal=journal, on_event=on_event, announces=True, clock=VirtualClock())

    assert told == [
        ("StepStarted", "a"),
        ("called", "a"),
        ("StepFinished", "a"),
        ("StepStarted", "b"),
        ("called", "b"),
        ("called", "b"),
        ("StepFinished", "b"),
    ]


async def test_the_journal_says_which_step_runs_while_it_runs() -> None:
    journal = MemoryJournal()
    await journal.open_run(RUN)
    heard = anyio.Event()

    def on_event(event: Event) -> None:
        if isinstance(event, StepStarted):
            heard.set()

    async def answer(call: ToolCall) -> Json:
        with anyio.fail_after(10):
            await heard.wait()
        return [*fold(await journal.load(RUN)).under_way]

    plan = plan_of({"id": "a", "for_each": [1, 2]})
    bench = ExecutionHarness().add(answer)
    state = await bench.run(plan, journal=journal, on_event=on_event)

    assert state.outputs() == {"a": [["a"], ["a"]]}
    assert not fold(await journal.load(RUN)).under_way


async def test_the_start_of_a_step_that_only_reads_is_told_once_for_all_items() -> None:
    heard = list[Event]()

    bench = ExecutionHarness().add(lambda call: call.step)
    plan = plan_of({"id": "a", "for_each": [1, 2, 3]})
    await bench.run(plan, on_event=heard.append)

    starts = [event for event in heard if isinstance(event, StepStarted)]
    assert [(start.step, start.key) for start in starts] == [("a", None)]


async def test_a_reading_call_that_was_announced_and_broken_off_is_cancelled_and_no_unclear_write() -> (
    None
):
    async def answer(call: ToolCall) -> None:
        await anyio.sleep_forever()

    state = (
        await ExecutionHarness()
        .add(answer)
        .run(plan_of({"id": "a"}), announces=True, limits=Limits(run_timeout=0.01))
    )

    assert (statuses(state), state.steps[StepId("a")].error) == ({"a": "cancelled"}, None)
