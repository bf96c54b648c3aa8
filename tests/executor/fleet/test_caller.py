"""What the process of a run takes from its workers."""

from __future__ import annotations

import datetime as dt

import anyio
import pytest
from asyncpg import Record

from tests.support.postgres import PostgresServer
from wavewright.executor.fleet.call_messages import CallAnswer, emission_bytes
from wavewright.executor.fleet.caller import FleetCaller
from wavewright.executor.fleet.tables import (
    ANSWER,
    BEGIN,
    EMIT,
    READ_ANSWERS,
    TAKE_EMISSIONS,
    FleetDatabase,
    open_fleet_database,
)
from wavewright.planner.language.goals import Goal
from wavewright.planner.types import RunId, StepId, StepKey
from wavewright.tools.functions.registry import make_tool
from wavewright.tools.functions.tool import Emission, TextChunk, ToolCall

pytestmark = pytest.mark.anyio

WORKER = "a worker"


class AnsweredBetween(FleetDatabase):
    """A database in which a worker ends the call between the two statements that look for what there is."""

    async def fetch(self, query: str, *values: object) -> list[Record]:
        rows = await super().fetch(query, *values)
        if query in {TAKE_EMISSIONS, READ_ANSWERS}:
            async with self.transaction() as connection:
                if await connection.fetch(BEGIN, values[0], WORKER):
                    await connection.execute(EMIT, values[0], [emission_bytes(TextChunk("so far"))])
                    await connection.execute(ANSWER, values[0], [CallAnswer("ok", 1).to_bytes()], WORKER)
        return rows


async def test_what_a_call_emitted_with_its_answer_is_taken_before_the_answer(
    postgres: PostgresServer,
) -> None:
    def count() -> int:
        """Count."""
        return 1

    emitted: list[Emission] = []
    call = ToolCall(
        RunId("20260601-120000-3f2a7c"),
        StepId("one"),
        "count",
        {},
        StepKey("key"),
        dt.datetime(2026, 6, 1, tzinfo=dt.UTC),
        emit=emitted.append,
    )
    async with open_fleet_database(postgres.database()) as database, anyio.create_task_group() as group:
        caller = FleetCaller(AnsweredBetween(database.pool, database.url), ["*"], heartbeat=1.0)
        group.start_soon(caller.run)
        tools = caller.route(
            {"count": make_tool(count)}, Goal(job="count", name="count", text="Count", inputs={}, tools=())
        )

        assert await tools["count"].call(call) == 1
        group.cancel_scope.cancel()

    assert emitted == [TextChunk("so far")]
