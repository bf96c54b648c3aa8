"""What is told of the store: once, as long as it holds, and not by halves."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping

import anyio
import pytest

from tests.engine.service.bus.bus_doubles import until
from wavewright.engine.service.job_store.records import JobState
from wavewright.engine.service.operations import monitoring as store_watch
from wavewright.engine.service.operations.health import HealthStatus
from wavewright.engine.service.operations.logs import StructuredLog
from wavewright.engine.service.operations.metrics import Metrics
from wavewright.engine.service.operations.monitoring import StoreMonitor
from wavewright.executor.store.errors import JournalNotWritten, JournalUnreachable

FULL = JournalNotWritten("the disk is full")


class Watched:
    """A watch with a clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.log = io.StringIO()
        self.health = HealthStatus()
        log = StructuredLog(agent="a", domain="d", stream=self.log)
        self.store = StoreMonitor(log, Metrics(), self.health, clock=lambda: self.now)

    @property
    def told(self) -> list[str]:
        return [json.loads(line)["message"] for line in self.log.getvalue().splitlines()]


def test_a_store_that_can_be_read_and_not_written_is_not_ready() -> None:
    watched = Watched()
    watched.store.mark_failed(FULL)
    watched.store.mark_worked()

    assert watched.health.faults == {"store": "the disk is full"}

    watched.store.mark_worked(wrote=True)

    assert watched.health.is_ready


def test_a_fault_of_writing_that_nobody_has_met_again_is_over() -> None:
    watched = Watched()
    watched.store.mark_failed(FULL)
    watched.now += 36
    watched.store.mark_worked()

    assert watched.health.is_ready


def test_a_fault_is_told_once_a_minute_and_anew_when_it_comes_back() -> None:
    watched = Watched()
    for _ in range(100):
        watched.store.mark_failed(FULL)
        watched.now += 1
    assert watched.told == ["the disk is full"] * 2

    watched.store.mark_worked(wrote=True)
    watched.store.mark_failed(FULL)

    assert watched.told == ["the disk is full"] * 3


def test_a_database_that_is_back_is_ready_as_soon_as_it_answers() -> None:
    watched = Watched()
    watched.store.mark_failed(JournalUnreachable("nobody listens there"))
    watched.store.mark_worked()

    assert watched.health.is_ready


@pytest.mark.anyio
async def test_a_store_that_gives_no_answer_is_told_of_while_it_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_watch, "STORE_TIMEOUT_SECONDS", 0.04)
    watched, answer = Watched(), anyio.Event()

    async def count() -> Mapping[JobState, int]:
        await answer.wait()
        return {}

    async with anyio.create_task_group() as looking:
        looking.start_soon(watched.store.run, count)
        await anyio.wait_all_tasks_blocked()
        watched.now += 1
        await until(lambda: "has not answered" in str(watched.health.faults.get("store")))
        answer.set()
        await until(lambda: watched.health.is_ready)
        looking.cancel_scope.cancel()
