"""Log events that tools define."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, cast

import pytest

from tests.executor.execution_harness import NOW, RUN, plan_of, statuses
from wavewright.executor import Execution, execute
from wavewright.executor.events.state import RunState
from wavewright.executor.events.types import Event, Noted
from wavewright.executor.store.journal import MemoryJournal
from wavewright.tools import Emit, LogEvent, Registry, ToolDefinitionError

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class PageRead(LogEvent):
    place: str
    pages: int
    note: str | None = None


class NoDataclass(LogEvent):
    pages: int


async def run_emitting(emitted: object) -> tuple[RunState, list[Event]]:
    """Return state and journal of a run whose one tool emits this from its thread."""

    def work(*, emit: Emit) -> str:
        emit(cast("LogEvent", emitted))
        return "done"

    registry = Registry()
    registry.add(work)
    async with MemoryJournal() as journal:
        state = await execute(
            Execution(
                plan_of({"id": "a", "params": {}}), registry, run=RUN, now=NOW, journal=journal
            )
        )
        return state, await journal.load(RUN)


async def test_an_event_is_a_note_of_the_run_without_secrets() -> None:
    secret = "sk-" + "a1B2" * 12

    state, events = await run_emitting(PageRead(f"with {secret}", 3))

    assert statuses(state) == {"a": "ok"}
    (note,) = [event for event in events if isinstance(event, Noted)]
    assert note.topic == "tool_event"
    assert note.body == {
        "event": "page_read",
        "step": "a",
        "index": None,
        "fields": {"place": "with [redacted]", "pages": 3, "note": None},
    }


@pytest.mark.parametrize(
    ("emitted", "message"),
    [
        pytest.param({"event": "page_read"}, "cannot emit a dict", id="no declared event"),
        pytest.param(NoDataclass(), "NoDataclass is no dataclass", id="no dataclass"),
        pytest.param(PageRead(cast("Any", ["x"]), 1), "field 'place' .* is list", id="value"),
        pytest.param(PageRead("x", cast("Any", float("nan"))), "", id="no number"),
    ],
)
async def test_what_is_not_declared_fails_the_call(emitted: object, message: str) -> None:
    state, events = await run_emitting(emitted)

    assert statuses(state) == {"a": "failed"}
    assert not [event for event in events if isinstance(event, Noted)]
    (record,) = state.steps.values()
    assert record.error is not None
    assert re.search(message, record.error.message)


def test_a_field_that_is_not_declared_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
        PageRead("x", 1, size=3)  # type: ignore[call-arg]


def test_a_field_that_every_line_has_is_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="log event 'odd' has the field 'job_id'"):

        class Odd(LogEvent):  # pyright: ignore[reportUnusedClass]
            job_id: str
