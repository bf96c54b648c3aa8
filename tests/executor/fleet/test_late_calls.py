"""A worker in this process that is late with a call, or whose database is away."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import pytest
from asyncpg import Record

from tests.support.postgres import PostgresServer
from wavewright.config.redaction import Redactor
from wavewright.executor.fleet import tables, worker as worker_module
from wavewright.executor.fleet.call_messages import LOST, CallAnswer, CallRequest
from wavewright.executor.fleet.remote_calls import ToolHost, entrypoint_of
from wavewright.executor.fleet.tables import (
    ANSWER,
    READ_GOAL,
    SEND,
    SEND_GOAL,
    FleetDatabase,
    open_fleet_database,
)
from wavewright.executor.fleet.worker import FleetWorker
from wavewright.planner.language.goals import Goal
from wavewright.planner.types import RunId, StepId, StepKey
from wavewright.tools.functions.registry import make_tool
from wavewright.tools.functions.tool import ToolCall

pytestmark = pytest.mark.anyio

RUN = RunId("20260601-120000-3f2a7c")
CALL = "the call"
HEARTBEAT = 0.3


@dataclass(frozen=True)
class Late(FleetDatabase):
    """A database that answers with a goal when the worker may have been taken for dead, and perhaps
    was.
    """

    is_lost: bool = False

    async def fetch(self, query: str, *values: object) -> list[Record]:
        rows = await super().fetch(query, *values)
        if query == READ_GOAL:
            await anyio.sleep(HEARTBEAT * 1.1)
            if self.is_lost:
                await super().fetch("UPDATE wavewright_fleet.call SET answer = $1", LOST.to_bytes())
        return rows


@dataclass(frozen=True)
class Away(FleetDatabase):
    """A database that is away when answers are written, three times."""

    tries: list[str] = field(default_factory=list[str])

    async def fetch(self, query: str, *values: object) -> list[Record]:
        if query == ANSWER and len(self.tries) < 3:
            self.tries.append(query)
            raise ConnectionRefusedError
        return await super().fetch(query, *values)


@asynccontextmanager
async def counting_worker(database: FleetDatabase) -> AsyncGenerator[list[int]]:
    """Send a call and have a worker take it; yield what grows with each time that it is made."""
    made: list[int] = []

    def count() -> int:
        """Count."""
        made.append(1)
        return len(made)

    tool = make_tool(count)
    goal = Goal(job="count", name="count", text="Count", inputs={}, tools=())
    goal_bytes = goal.model_dump_json(by_alias=True).encode()
    await database.fetch(SEND_GOAL, RUN, goal_bytes, "a process")
    call = ToolCall(
        RUN, StepId("one"), "count", {}, StepKey("key"), dt.datetime(2026, 6, 1, tzinfo=dt.UTC)
    )
    body = CallRequest.of(tool, call).to_bytes()
    await database.fetch(
        SEND, [CALL], [RUN], [body], [entrypoint_of(tool)], "a coordinator", "a process"
    )
    worker = FleetWorker(
        database=database,
        name="a worker",
        slots=1,
        heartbeat=HEARTBEAT,
        entrypoints=[entrypoint_of(tool)],
        labels=[],
        host=ToolHost(
            "a worker",
            lambda _run, _goal: {"count": tool},
            asyncio.get_running_loop(),
            Redactor([]),
        ),
        on_call=lambda _tool, _ending, _seconds: None,
        on_heartbeat=lambda _fault: None,
    )
    async with anyio.create_task_group() as group:
        group.start_soon(worker.run, anyio.sleep_forever)
        yield made
        group.cancel_scope.cancel()


async def answer_of(database: FleetDatabase) -> CallAnswer:
    """Return the answer of the call, once it is taken out of the queue."""
    with anyio.fail_after(10):
        while await database.fetch("SELECT FROM wavewright_fleet.pgqueuer"):  # noqa: ASYNC110 - the worker does that
            await anyio.sleep(0.01)
    [row] = await database.fetch("SELECT answer FROM wavewright_fleet.call")
    return CallAnswer.from_bytes(row["answer"])


@pytest.mark.parametrize("is_lost", [True, False])
async def test_a_call_that_was_lost_before_it_is_made_is_not_made(
    postgres: PostgresServer,
    is_lost: bool,  # noqa: FBT001 - a case
) -> None:
    async with (
        open_fleet_database(postgres.database()) as database,
        counting_worker(Late(database.pool, database.url, is_lost)) as made,
    ):
        answer = await answer_of(database)

    assert (answer, made) == ((LOST, []) if is_lost else (CallAnswer("ok", 1), [1]))


async def test_an_answer_is_written_though_the_database_is_away_for_longer_than_a_write_waits(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_PATIENCE_SECONDS", -1.0)
    monkeypatch.setattr(worker_module, "_RECONNECT_SECONDS", 0.01)
    async with open_fleet_database(postgres.database()) as database:
        away = Away(database.pool, database.url)
        async with counting_worker(away):
            answer = await answer_of(database)

    assert (answer, len(away.tries)) == (CallAnswer("ok", 1), 3)
