"""Stopping a run and going on with it: nothing finished is called again, and no write is repeated
blindly.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.executor.execution_harness import (
    NOW,
    RUN,
    ExecutionHarness,
    echo,
    output_of,
    plan_of,
    statuses,
)
from wavewright.executor.events.state import RunState, fold
from wavewright.executor.events.types import (
    Event,
    PlanAccepted,
    RunFinished,
    RunStarted,
    StepStarted,
)
from wavewright.executor.run.execution import Execution, execute
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.executor.store.journal import Journal, MemoryJournal
from wavewright.executor.store.transaction import Alongside
from wavewright.planner.language.plan import Limits, Plan
from wavewright.planner.types import Json, PlanHash, RunId, Schedule, StepId
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.tool import ToolCall

pytestmark = pytest.mark.anyio

SCHEDULES: list[Schedule] = ["waves", "dataflow"]


class Stalling:
    """Tools over one bench, some of whose calls wait for ever until the stall is lifted."""

    def __init__(self, **signature: Any) -> None:
        self.stalled: set[str] = set()
        self.is_stalled = anyio.Event()
        self.bench = ExecutionHarness().add(self.answer, **signature).add(echo, "look")

    async def answer(self, call: ToolCall) -> Json:
        name = call.step if call.index is None else f"{call.step}[{call.index}]"
        if name in self.stalled:
            self.is_stalled.set()
            await anyio.sleep_forever()
        return echo(call)

    async def run_until_stalled(self, plan: Plan, *stalled: str, **options: object) -> None:
        """Start the plan and cancel it as soon as one of these calls is under way."""
        self.stalled = set(stalled)
        async with anyio.create_task_group() as group:

            async def run() -> None:
                await self.bench.run(plan, **options)

            group.start_soon(run)
            await self.is_stalled.wait()
            group.cancel_scope.cancel()
        self.stalled = set()
        self.bench.calls.clear()

    async def go_on(self, plan: Plan, journal: Journal, **options: object) -> RunState:
        prior = fold(await journal.load(RUN))
        return await self.bench.run(plan, journal=journal, prior=prior, **options)


PLAN = plan_of(
    {"id": "a"},
    {"id": "b", "depends_on": ["a"]},
    {
        "id": "fan",
        "for_each": [1, 2, 3],
        "params": {"n": "${item}"},
        "depends_on": ["a"],
        "concurrency": 1,
    },
    {"id": "c", "depends_on": ["b", "fan"]},
)


@pytest.mark.parametrize("schedule", SCHEDULES)
async def test_a_cancelled_run_keeps_what_was_finished_and_says_that_it_was_interrupted(
    schedule: Schedule,
) -> None:
    journal = MemoryJournal()
    await Stalling().run_until_stalled(PLAN, "fan[1]", journal=journal, schedule=schedule)
    state = fold(await journal.load(RUN))

    assert state.is_interrupted
    assert statuses(state) == {"a": "ok", "b": "ok", "fan": "cancelled", "c": "cancelled"}
    assert state.steps[StepId("c")].reason == "the run was interrupted"
    assert [item.index for item in state.items[StepId("fan")].values()] == [0]


@pytest.mark.parametrize("schedule", SCHEDULES)
async def test_a_resumed_run_calls_only_what_was_not_finished(schedule: Schedule) -> None:
    journal = MemoryJournal()
    stalling = Stalling()
    await stalling.run_until_stalled(PLAN, "fan[1]", journal=journal, schedule=schedule)
    state = await stalling.go_on(PLAN, journal, schedule=schedule)

    assert statuses(state) == {"a": "ok", "b": "ok", "fan": "ok", "c": "ok"}
    assert [(call.step, call.index) for call in stalling.bench.calls] == [
        ("fan", 1),
        ("fan", 2),
        ("c", None),
    ]
    assert output_of(state, "fan") == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert not state.is_interrupted


@pytest.mark.parametrize("schedule", SCHEDULES)
async def test_a_resumed_run_that_is_stopped_at_once_forgets_nothing(
    schedule: Schedule, tmp_path: Path
) -> None:
    stalling = Stalling()
    async with SqliteJournal(tmp_path / "journal.db") as journal:
        await stalling.run_until_stalled(PLAN, "c", journal=journal, schedule=schedule)
        prior = fold(await journal.load(RUN))
        stalling.stalled = {"c"}
        with anyio.CancelScope() as stopped:
            stopped.cancel()
            await stalling.bench.run(PLAN, journal=journal, prior=prior, schedule=schedule)
        between = fold(await journal.load(RUN))
        stalling.stalled = set()
        state = await stalling.go_on(PLAN, journal, schedule=schedule)

    assert stopped.cancelled_caught
    assert statuses(between) == {"a": "ok", "b": "ok", "fan": "ok", "c": "cancelled"}
    assert set(stalling.bench.called) == {"c"}
    assert statuses(state) == {"a": "ok", "b": "ok", "fan": "ok", "c": "ok"}


async def test_a_finished_run_that_is_resumed_calls_nothing_and_ends_the_same() -> None:
    journal = MemoryJournal()
    stalling = Stalling()
    first = await stalling.bench.run(PLAN, journal=journal)
    stalling.bench.calls.clear()
    again = await stalling.go_on(PLAN, journal)

    assert stalling.bench.calls == []
    assert again.steps == first.steps


async def test_a_run_resumes_from_a_file_in_another_journal_object(tmp_path: Path) -> None:
    stalling = Stalling()
    async with SqliteJournal(tmp_path / "journal.db") as journal:
        await stalling.run_until_stalled(PLAN, "c", journal=journal)
    async with SqliteJournal(tmp_path / "journal.db") as journal:
        state = await stalling.go_on(PLAN, journal)

    assert stalling.bench.called == ["c"]
    assert statuses(state) == {"a": "ok", "b": "ok", "fan": "ok", "c": "ok"}


async def test_a_step_whose_parameters_changed_is_called_again_and_so_are_its_readers() -> None:
    journal = MemoryJournal()
    stalling = Stalling()
    await stalling.bench.run(
        plan_of(
            {"id": "a", "params": {"v": 1}},
            {"id": "b", "params": {"w": "${steps.a.v}"}},
            {"id": "c"},
        ),
        journal=journal,
    )
    stalling.bench.calls.clear()
    changed = plan_of(
        {"id": "a", "params": {"v": 2}}, {"id": "b", "params": {"w": "${steps.a.v}"}}, {"id": "c"}
    )
    state = await stalling.go_on(changed, journal)

    assert stalling.bench.called == ["a", "b"]
    assert output_of(state, "b") == {"w": 2}


async def test_a_patched_plan_runs_its_new_steps_only() -> None:
    journal = MemoryJournal()
    bench = ExecutionHarness().add(echo).add(lambda call: call.params["force"], "fetch")
    first = plan_of(
        {"id": "prices", "tool": "fetch", "params": {"force": False}},
        {"id": "sum", "params": {"v": "${steps.prices}"}},
    )
    await bench.run(first, journal=journal)
    bench.calls.clear()
    patched = plan_of(
        {"id": "prices", "tool": "fetch", "params": {"force": False}},
        {"id": "sum", "params": {"v": "${steps.prices_2}"}},
        {"id": "prices_2", "tool": "fetch", "params": {"force": True}, "supersedes": "prices"},
    )
    state = await bench.run(patched, journal=journal, prior=fold(await journal.load(RUN)))

    assert bench.called == ["prices_2", "sum"]
    assert output_of(state, "sum") == {"v": True}


async def test_a_failure_stands_until_it_is_asked_to_be_tried_again() -> None:
    journal = MemoryJournal()
    answers: list[Json] = []

    def answer(call: ToolCall) -> Json:
        if not answers:
            raise ToolError("not yet")
        return answers[0]

    bench = ExecutionHarness().add(answer)
    plan = plan_of({"id": "a"}, {"id": "fan", "for_each": [1, 2], "params": {"n": "${item}"}})
    await bench.run(plan, journal=journal)
    answers.append("there")
    bench.calls.clear()
    prior = fold(await journal.load(RUN))
    kept = await bench.run(plan, journal=journal, prior=prior)

    assert (statuses(kept), bench.calls) == ({"a": "failed", "fan": "failed"}, [])

    tried = await bench.run(plan, journal=journal, prior=prior, retry_failed=True)

    assert statuses(tried) == {"a": "ok", "fan": "ok"}


# -- writes

WRITE = plan_of(
    {"id": "w", "params": {"v": 1}}, {"id": "after", "tool": "look", "depends_on": ["w"]}
)


async def test_the_start_of_a_write_is_journaled_before_the_call() -> None:
    journal = MemoryJournal()
    seen: list[type[Event]] = []

    async def answer(call: ToolCall) -> Json:
        seen.extend(type(event) for event in await journal.load(RUN))
        return "written"

    bench = ExecutionHarness().add(answer, effects=["write"])
    state = await bench.run(plan_of({"id": "w"}), journal=journal, schedule="dataflow")

    assert seen == [StepStarted]
    assert len(state.begun) == 0


async def test_a_write_that_was_under_way_is_reported_and_not_repeated() -> None:
    journal = MemoryJournal()
    stalling = Stalling(effects=["write"], idempotent=False)
    await stalling.run_until_stalled(WRITE, "w", journal=journal)
    interrupted = fold(await journal.load(RUN)).steps[StepId("w")]

    assert interrupted.status == "cancelled"
    assert interrupted.error is not None
    assert interrupted.error.message == "the call was in progress and may have taken effect"

    state = await stalling.go_on(WRITE, journal)
    error = state.steps[StepId("w")].error

    assert stalling.bench.calls == []
    assert statuses(state) == {"w": "failed", "after": "blocked"}
    assert error is not None
    assert error.kind == "interrupted"

    later = await stalling.go_on(WRITE, journal, retry_failed=True)

    assert stalling.bench.calls == []
    assert statuses(later)["w"] == "failed"


@pytest.mark.parametrize(
    ("outlives", "called", "ended"),
    [
        (False, [], {"w": "failed", "after": "blocked"}),
        (True, ["w", "after"], {"w": "ok", "after": "ok"}),
    ],
)
async def test_a_write_of_a_killed_process_is_waited_for_where_it_outlived_it(
    outlives: bool,  # noqa: FBT001
    called: list[str],
    ended: dict[str, str],
) -> None:
    async def is_under_way(*_: object) -> bool:
        return outlives

    journal = MemoryJournal()
    bench = ExecutionHarness().add(echo, effects=["write"], idempotent=False).add(echo, "look")
    bench.tools["work"] = replace(bench.tools["work"], is_under_way=is_under_way)
    told: list[Event] = []
    await bench.run(WRITE, on_event=told.append)
    # What a process that is killed leaves behind: the start of the write and nothing after it.
    await journal.append(RUN, [event for event in told if isinstance(event, StepStarted)])
    bench.calls.clear()
    state = await bench.run(WRITE, journal=journal, prior=fold(await journal.load(RUN)))

    assert bench.called == called
    assert statuses(state) == ended


async def test_an_idempotent_write_is_repeated_with_the_same_key() -> None:
    journal = MemoryJournal()
    stalling = Stalling(effects=["write"], idempotent=True)
    await stalling.run_until_stalled(WRITE, "w", journal=journal)
    [begun] = fold(await journal.load(RUN)).begun.values()
    state = await stalling.go_on(WRITE, journal)

    assert [call.key for call in stalling.bench.calls if call.step == "w"] == [begun.key]
    assert statuses(state) == {"w": "ok", "after": "ok"}


async def test_a_finished_write_is_not_repeated() -> None:
    journal = MemoryJournal()
    stalling = Stalling(effects=["write"], idempotent=False)
    await stalling.run_until_stalled(
        plan_of({"id": "w"}, {"id": "x", "depends_on": ["w"]}), "x", journal=journal
    )
    state = await stalling.go_on(plan_of({"id": "w"}, {"id": "y", "depends_on": ["w"]}), journal)

    assert stalling.bench.called == ["y"]
    assert statuses(state)["w"] == "ok"


# -- the journal


class FullDisk(MemoryJournal):
    """A journal that can take only so many batches, and says so."""

    def __init__(self, batches: int) -> None:
        super().__init__()
        self.batches = batches

    def append(
        self, run: RunId, events: Sequence[Event], alongside: Alongside | None = None
    ) -> Awaitable[None]:
        self.batches -= 1
        if self.batches < 0:
            raise OSError("no space left on device")
        return super().append(run, events, alongside)


async def test_a_journal_that_cannot_be_written_stops_the_run_with_its_own_error() -> None:
    bench = ExecutionHarness().add(echo)

    with pytest.raises(OSError, match="no space left on device"):
        await bench.run(PLAN, journal=FullDisk(2))


async def test_a_listener_that_fails_stops_the_run_with_its_own_error() -> None:
    def listen(event: Event) -> None:
        raise LookupError(f"cannot draw {event}")

    with pytest.raises(LookupError, match="cannot draw"):
        await ExecutionHarness().add(echo).run(PLAN, on_event=listen)


async def test_dependants_start_only_after_their_inputs_are_committed(tmp_path: Path) -> None:
    async with SqliteJournal(tmp_path / "journal.db") as journal:
        missing: list[str] = []

        async def answer(call: ToolCall) -> Json:
            journaled = fold(await journal.load(RUN)).steps
            wanted = {"b": ["a"], "fan": ["a"], "c": ["b", "fan"]}.get(call.step, [])
            missing.extend(name for name in wanted if StepId(name) not in journaled)
            return echo(call)

        state = await ExecutionHarness().add(answer).run(PLAN, journal=journal, schedule="dataflow")

        assert missing == []
        assert fold(await journal.load(RUN)) == state


async def test_what_the_listener_hears_is_what_the_journal_holds(tmp_path: Path) -> None:
    told: list[Event] = []
    async with SqliteJournal(tmp_path / "journal.db") as journal:
        await ExecutionHarness().add(echo).run(PLAN, journal=journal, on_event=told.append)

        assert await journal.load(RUN) == told


async def test_the_events_of_a_round_carry_on_from_the_state_before() -> None:
    started = RunStarted(run=RUN, at=1.0, job="daily", goal={}, now=NOW.timestamp())
    accepted = PlanAccepted(
        at=2.0, plan={"steps": []}, plan_hash=PlanHash("sha256:0"), rung="given", round=1
    )
    prior = fold([started, accepted, RunFinished(3.0, "interrupted")])
    bench = ExecutionHarness().add(echo)
    state = await execute(
        Execution(plan_of({"id": "a"}), bench.tools, run=RUN, now=NOW, prior=prior, limits=Limits())
    )

    assert (state.started, state.rung, state.finished) == (started, "given", None)
    assert [(wave.round, wave.wave) for wave in state.waves] == [(1, 0)]
    assert bench.calls[0].job == "daily"
