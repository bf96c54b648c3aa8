"""An owner that slept through the loss of its run begins nothing more: what it would do was done by another."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest

from tests.executor.execution_harness import RUN, ExecutionHarness, plan_of
from tests.executor.open_stores import journal_at
from tests.support.postgres import PostgresServer
from wavewright.config.value_types import is_url
from wavewright.executor.run.ports import LoopClock, Timer
from wavewright.executor.store.errors import RunLost
from wavewright.executor.store.leases import LEASE_SECONDS
from wavewright.planner.language.plan import Limits
from wavewright.tools.functions.tool import ToolCall

pytestmark = pytest.mark.anyio
PLAN = plan_of({"id": "first"}, {"id": "second"})
ONE_AT_A_TIME = Limits(concurrency=1)
REPLACE = "UPDATE run SET fence = fence + 1"


class SleepyClock:
    """The machine's clock, while it was not looked at for some seconds."""

    def __init__(self) -> None:
        self.slept = 0.0
        self._clock = LoopClock()

    def wall(self) -> float:
        return time.time() + self.slept

    def monotonic(self) -> float:
        return time.monotonic() + self.slept

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return self._clock.call_later(seconds, callback)

    def jitter(self, upper: float) -> float:
        return self._clock.jitter(upper)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the journal is."""
    if request.param == "sqlite":
        return str(tmp_path / "j.sqlite")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.database()


async def replace_owner(place: str) -> None:
    """Do what somebody does who takes a run over."""
    if not is_url(place):
        with closing(sqlite3.connect(place, timeout=10)) as file, file:
            file.execute(REPLACE)
        return
    connection = await asyncpg.connect(place, server_settings={"search_path": "wavewright"})
    await connection.execute(REPLACE)
    await connection.close()


async def test_a_reading_call_that_waited_for_its_turn_is_not_begun_by_an_owner_that_was_replaced(
    place: str,
) -> None:
    """Nothing is written before a reading call begins, so that no refusal would tell."""
    clock, bench = SleepyClock(), ExecutionHarness()

    async def sleep_and_lose(_call: ToolCall) -> str:
        await replace_owner(place)
        clock.slept += LEASE_SECONDS + 1
        return "late"

    bench.add(sleep_and_lose)
    async with journal_at(place) as journal:
        await journal.open_run(RUN)
        with pytest.raises(RunLost):
            await bench.run(PLAN, journal=journal, clock=clock, limits=ONE_AT_A_TIME)

    assert bench.called == ["first"]


async def test_an_owner_that_slept_and_was_not_replaced_goes_on(place: str) -> None:
    clock, bench = SleepyClock(), ExecutionHarness()

    def sleep(_call: ToolCall) -> str:
        clock.slept += LEASE_SECONDS + 1
        return "late"

    bench.add(sleep)
    async with journal_at(place) as journal:
        await journal.open_run(RUN)
        await bench.run(PLAN, journal=journal, clock=clock, limits=ONE_AT_A_TIME)

    assert bench.called == ["first", "second"]
