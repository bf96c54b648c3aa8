"""What tools let be known while they work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

import anyio
import pytest
from anyio import to_thread

from tests.executor.execution_harness import RUN, ExecutionHarness, VirtualClock, plan_of, statuses
from wavewright.executor.events.types import (
    Event,
    LoopToolCalled,
    ModelCalled,
    OutputStreamed,
    RungTaken,
    StepFinished,
)
from wavewright.executor.run.emissions import FLUSH_CHARS, FLUSH_SECONDS
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.executor.store.journal import MemoryJournal
from wavewright.planner.language.plan import Budget
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.ports.model_port import ModelUse
from wavewright.planner.types import Json, StepId
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.injected import TextChunk
from wavewright.tools.functions.tool import AgentToolCall, Emission, ToolCall

pytestmark = pytest.mark.anyio

A = StepId("a")
USE = ModelUse("worker", "summarize", "acme:one", "answered", 10, 5, usd=0.01, seconds=0.5)
RUNG = RungRecord("worker summarize", "agent", "reached", seconds=1.0)
LOOP_CALL = AgentToolCall("fetch", {"code": "GNP"}, "ok", 0.1)


class Heard(list[Event]):
    """Events in the order in which they were told."""

    def __call__(self, event: Event) -> None:
        self.append(event)

    @property
    def kinds(self) -> list[str]:
        """Names of the events."""
        return [type(event).__name__ for event in self]

    @property
    def pieces(self) -> list[str]:
        """The streamed pieces of text."""
        return [event.text for event in self if isinstance(event, OutputStreamed)]


def emitting(*emissions: Emission) -> Callable[[ToolCall], Json]:
    """Return a tool's function that lets all this be known."""

    def call(request: ToolCall) -> Json:
        for emission in emissions:
            request.emit(emission)
        return "done"

    return call


def keeping(kept: list[ToolCall]) -> Callable[[ToolCall], Json]:
    """Return a tool's function that holds on to its call."""

    def call(request: ToolCall) -> Json:
        kept.append(request)
        return "done"

    return call


async def test_every_emission_becomes_an_event_of_its_step_before_the_steps_end() -> None:
    heard = Heard()
    bench = ExecutionHarness().add(
        emitting(USE, RUNG, TextChunk("once "), LOOP_CALL, TextChunk("more"))
    )

    state = await bench.run(plan_of({"id": "a"}), schedule="dataflow", on_event=heard)

    assert heard.kinds == [
        "StepStarted",
        "ModelCalled",
        "RungTaken",
        "LoopToolCalled",
        "OutputStreamed",
        "StepFinished",
    ]
    assert heard.pieces == ["once more"]
    assert [(use.model, use.step, use.index) for use in state.uses.values()] == [
        ("acme:one", A, None)
    ]
    assert [(taken.rung, taken.step) for taken in state.rungs] == [(RUNG, A)]
    assert [made.call for made in state.loop_calls[A]] == [LOOP_CALL]


async def test_an_item_is_named_and_a_step_that_is_given_stays() -> None:
    elsewhere = ModelUse("judge", "fresh", "acme:one", "answered", step=StepId("other"), index=7)
    heard = Heard()
    plan = plan_of({"id": "a", "for_each": [1, 2], "params": {"n": "${item}"}, "concurrency": 1})

    await ExecutionHarness().add(emitting(USE, elsewhere, RUNG)).run(plan, on_event=heard)

    uses = [event.use for event in heard if isinstance(event, ModelCalled)]
    assert [(use.step, use.index) for use in uses] == [(A, 0), ("other", 7), (A, 1), ("other", 7)]
    assert [(event.step, event.index) for event in heard if isinstance(event, RungTaken)] == [
        (A, 0),
        (A, 1),
    ]


async def test_emissions_are_told_while_the_tool_is_still_at_work() -> None:
    heard = Heard()

    async def work(call: ToolCall) -> Json:
        call.emit(USE)
        return [type(event).__name__ for event in heard]

    state = (
        await ExecutionHarness()
        .add(work)
        .run(plan_of({"id": "a"}), schedule="dataflow", on_event=heard)
    )

    assert state.steps[A].output == ["StepStarted", "ModelCalled"]


async def test_emissions_are_in_the_journal(tmp_path: Any) -> None:
    async with SqliteJournal(tmp_path / "j.db") as journal:
        bench = ExecutionHarness().add(emitting(USE, RUNG, TextChunk("text"), LOOP_CALL))
        state = await bench.run(plan_of({"id": "a"}), journal=journal)
        events = await journal.load(RUN)

    assert {"ModelCalled", "RungTaken", "OutputStreamed", "LoopToolCalled"} < {
        type(event).__name__ for event in events
    }
    assert len(state.uses) == 1


async def test_a_call_carries_its_steps_budget() -> None:
    bench = ExecutionHarness().add(emitting())

    await bench.run(plan_of({"id": "a", "budget": {"tokens": 9}}, {"id": "b"}))

    assert {call.step: call.budget for call in bench.calls} == {"a": Budget(tokens=9), "b": None}


async def test_text_is_told_a_few_times_a_second() -> None:
    clock, heard = VirtualClock(), Heard()

    async def write(call: ToolCall) -> Json:
        for number in range(20):
            call.emit(TextChunk(f"{number} "))
            await clock.sleep(0.1)
        return "done"

    await ExecutionHarness().add(write).run(plan_of({"id": "a"}), clock=clock, on_event=heard)

    times = [event.at for event in heard if isinstance(event, OutputStreamed)]
    assert "".join(heard.pieces) == "".join(f"{number} " for number in range(20))
    assert 2.0 / FLUSH_SECONDS / 2 < len(times) <= 2.0 / FLUSH_SECONDS
    assert all(later - earlier >= FLUSH_SECONDS for earlier, later in pairwise(times[:-1]))


async def test_much_text_is_told_as_soon_as_it_is_there() -> None:
    heard = Heard()
    bench = ExecutionHarness().add(emitting(*[TextChunk("x" * 150)] * 40, TextChunk("")))

    await bench.run(plan_of({"id": "a"}), clock=VirtualClock(), on_event=heard)

    assert [len(piece) for piece in heard.pieces] == [2_100, 2_100, 1_800]
    assert all(len(piece) < FLUSH_CHARS + 150 for piece in heard.pieces)


async def test_text_of_a_failed_attempt_is_told_before_that_of_the_next() -> None:
    heard = Heard()

    def write(call: ToolCall) -> Json:
        call.emit(TextChunk(f"attempt {call.attempt}"))
        if call.attempt == 1:
            raise ToolError("not yet", transient=True)
        return "done"

    bench = ExecutionHarness().add(write, retry={"attempts": 2})
    state = await bench.run(plan_of({"id": "a"}), clock=VirtualClock(), on_event=heard)

    assert statuses(state) == {"a": "ok"}
    assert heard.pieces == ["attempt 1", "attempt 2"]


async def test_a_tool_in_a_thread_may_emit() -> None:
    heard = Heard()

    def work(call: ToolCall) -> str:
        call.emit(USE)
        call.emit(TextChunk("from a thread"))
        return threading.current_thread().name

    async def call(request: ToolCall) -> Json:
        return await to_thread.run_sync(work, request)

    state = (
        await ExecutionHarness()
        .add(call)
        .run(plan_of({"id": "a"}), schedule="dataflow", on_event=heard)
    )

    assert state.steps[A].output != threading.current_thread().name
    assert heard.kinds == ["StepStarted", "ModelCalled", "OutputStreamed", "StepFinished"]


async def test_many_threads_may_emit_at_once_and_nothing_is_lost() -> None:
    heard = Heard()

    def work(call: ToolCall) -> None:
        for _ in range(50):
            call.emit(USE)

    async def call(request: ToolCall) -> Json:
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(to_thread.run_sync, work, request)
        return "done"

    state = await ExecutionHarness().add(call).run(plan_of({"id": "a"}), on_event=heard)

    assert len(state.uses) == 400
    assert sum(use.tokens for use in state.uses.values()) == 400 * 15


async def test_what_is_emitted_after_the_call_has_ended_is_dropped() -> None:
    heard = Heard()
    kept = list[ToolCall]()

    async def later(call: ToolCall) -> Json:
        # From this very thread, and from another one.
        kept[0].emit(USE)
        await to_thread.run_sync(kept[0].emit, TextChunk("too late"))
        return "done"

    bench = ExecutionHarness().add(keeping(kept)).add(later, "later")
    plan = plan_of({"id": "a"}, {"id": "b", "tool": "later", "depends_on": ["a"]})
    state = await bench.run(plan, on_event=heard)
    kept[0].emit(USE)

    assert statuses(state) == {"a": "ok", "b": "ok"}
    assert not {"ModelCalled", "OutputStreamed"} & set(heard.kinds)


async def test_a_timed_out_attempt_in_a_thread_is_heard_no_more_while_the_next_one_runs() -> None:
    heard = Heard()
    second_has_begun, first_has_emitted = threading.Event(), anyio.Event()

    def first(call: ToolCall) -> None:
        assert second_has_begun.wait(20)
        call.emit(TextChunk("from the first"))

    async def work(call: ToolCall) -> Json:
        if call.attempt == 1:
            try:
                await to_thread.run_sync(first, call, abandon_on_cancel=True)
            finally:
                first_has_emitted.set()
        second_has_begun.set()
        await first_has_emitted.wait()
        call.emit(TextChunk("from the second"))
        return "done"

    bench = ExecutionHarness().add(
        work, retry={"attempts": 2, "on": ["timeout"], "wait_initial": 0.01}
    )
    state = await bench.run(plan_of({"id": "a", "timeout": 0.2}), on_event=heard)

    assert state.steps[A].attempts == 2
    assert heard.pieces == ["from the second"]


async def test_emitting_after_the_loop_has_closed_is_dropped() -> None:
    kept = list[ToolCall]()

    def run() -> None:
        bench = ExecutionHarness().add(keeping(kept))
        anyio.run(bench.run, plan_of({"id": "a"}))

    await to_thread.run_sync(run)

    kept[0].emit(USE)
    assert len(kept) == 1


@pytest.mark.parametrize(
    "emission",
    [
        pytest.param("text", id="no emission"),
        pytest.param(TextChunk(cast("str", 5)), id="a piece that is no text"),
        pytest.param(
            ModelUse("worker", "n", "m", cast("Any", "perhaps")), id="an outcome there is not"
        ),
        pytest.param(
            RungRecord("l", "r", "reached", seconds=float("nan")), id="seconds that are no number"
        ),
    ],
)
async def test_an_emission_that_could_not_be_read_back_fails_the_call_and_not_the_run(
    emission: Any,
) -> None:
    async with MemoryJournal() as journal:
        state = (
            await ExecutionHarness()
            .add(emitting(emission))
            .run(plan_of({"id": "a"}), journal=journal)
        )
        events = await journal.load(RUN)

    assert statuses(state) == {"a": "failed"}
    assert [
        event for event in events if isinstance(event, ModelCalled | RungTaken | OutputStreamed)
    ] == []


async def test_parameters_that_a_model_made_up_are_left_out_where_they_are_no_json() -> None:
    call = AgentToolCall("fetch", {"code": float("inf")}, "refused", message="no such argument")

    state = await ExecutionHarness().add(emitting(call)).run(plan_of({"id": "a"}))

    (made,) = state.loop_calls[A]
    assert made.call.params == {}
    assert made.call.message == "no such argument; its parameters are not JSON and left out"


async def test_figures_that_are_no_numbers_do_not_end_the_call() -> None:
    use = ModelUse("worker", "n", "m", "answered", usd=float("nan"), seconds=float("inf"))

    state = await ExecutionHarness().add(emitting(use)).run(plan_of({"id": "a"}))

    assert (state.uses[0].usd, state.uses[0].seconds) == (None, 0.0)


async def test_text_that_was_not_told_yet_is_told_when_the_run_is_stopped() -> None:
    heard = Heard()

    async def work(call: ToolCall) -> Json:
        call.emit(TextChunk("as far as it came"))
        scope.cancel()
        await anyio.sleep_forever()
        return "never"

    with anyio.CancelScope() as scope:
        await ExecutionHarness().add(work).run(plan_of({"id": "a"}), on_event=heard)

    assert heard.pieces == ["as far as it came"]
    assert [event.status for event in heard if isinstance(event, StepFinished)] == ["cancelled"]


async def test_an_agents_calls_are_events_of_its_item() -> None:
    heard = Heard()
    plan = plan_of({"id": "a", "for_each": [1, 2], "params": {"n": "${item}"}, "concurrency": 1})

    await ExecutionHarness().add(emitting(LOOP_CALL)).run(plan, on_event=heard)

    assert [(event.step, event.index) for event in heard if isinstance(event, LoopToolCalled)] == [
        (A, 0),
        (A, 1),
    ]
