"""Calls whose start is journaled, so that a death of the process shows which of them were under way."""

from __future__ import annotations

import anyio
import pytest

from tests.executor.execution_harness import RUN, ExecutionHarness, VirtualClock, plan_of, statuses
from wavewright.executor.events.types import Event, StepFinished, StepStarted
from wavewright.executor.store.journal import MemoryJournal
from wavewright.planner.language.plan import Limits
from wavewright.planner.types import Json, StepId
from wavewright.tools.functions.tool import ToolCall, ToolError

pytestmark = pytest.mark.anyio


async def test_a_run_that_announces_its_calls_journals_the_start_of_each_before_it_is_made() -> None:
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

    plan = plan_of({"id": "a"}, {"id": "b", "depends_on": ["a"], "retry": {"attempts": 2, "wait_initial": 1}})
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


async def test_a_reading_call_that_was_announced_and_broken_off_is_cancelled_and_no_unclear_write() -> None:
    async def answer(call: ToolCall) -> None:
        await anyio.sleep_forever()

    state = (
        await ExecutionHarness()
        .add(answer)
        .run(plan_of({"id": "a"}), announces=True, limits=Limits(run_timeout=0.01))
    )

    assert (statuses(state), state.steps[StepId("a")].error) == ({"a": "cancelled"}, None)
