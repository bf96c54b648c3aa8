"""What the process of a run takes from its workers."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import anyio
import pytest
from asyncpg import Record

from tests.support.postgres import PostgresServer
from wavewright.executor.events.json_values import make_encoder
from wavewright.executor.fleet import tables
from wavewright.executor.fleet.call_messages import CallAnswer, emission_bytes, emission_of
from wavewright.executor.fleet.caller import FleetCaller, call_id
from wavewright.executor.fleet.tables import (
    ANSWER,
    BEGIN,
    DECLARE_LOST,
    EMIT,
    HEARTBEAT,
    IS_KNOWN,
    READ_ANSWERS,
    SEND,
    SEND_GOAL,
    TAKE_EMISSIONS,
    FleetDatabase,
    open_fleet_database,
)
from wavewright.executor.postgres.journal import PostgresEventStore
from wavewright.executor.run.failures import ReportedFailure
from wavewright.executor.store.leases import Owner
from wavewright.planner.language.goals import Goal
from wavewright.planner.types import Json, RunId, StepId, StepKey
from wavewright.tools.functions.injected import LogEvent, TextChunk
from wavewright.tools.functions.registry import make_tool
from wavewright.tools.functions.tool import Emission, EmissionsTaken, ToolCall, ToolFunction

pytestmark = pytest.mark.anyio

RUN = RunId("20260601-120000-3f2a7c")
WORKER = "a worker"
PROCESS = "a process"
GOAL = Goal(job="count", name="count", text="Count", inputs={}, tools=())


class AnsweredBetween(FleetDatabase):
    """A database in which a worker ends the call between the two statements that look for what
    there is.
    """

    async def fetch(self, query: str, *values: object) -> list[Record]:
        rows = await super().fetch(query, *values)
        if query in {TAKE_EMISSIONS, READ_ANSWERS}:
            async with self.pool.acquire() as connection, connection.transaction():
                if await connection.fetch(BEGIN, values[0], WORKER):
                    await connection.execute(EMIT, *emissions(TextChunk("so far")))
                    await connection.execute(ANSWER, *answer())
        return rows


@dataclass(frozen=True)
class Seen(FleetDatabase):
    """A database that keeps which statements it was given."""

    queries: list[str] = field(default_factory=list[str])

    async def fetch(self, query: str, *values: object) -> list[Record]:
        self.queries.append(query)
        return await super().fetch(query, *values)


@dataclass(frozen=True)
class AwayOnce(FleetDatabase):
    """A database that is away when each statement is made for the first time."""

    seen: set[str] = field(default_factory=set[str])

    async def fetch(self, query: str, *values: object) -> list[Record]:
        if query not in self.seen:
            self.seen.add(query)
            raise ConnectionRefusedError
        return await super().fetch(query, *values)


@dataclass(frozen=True)
class Counted(LogEvent):
    """Something was counted."""

    number: int


def count() -> int:
    """Count."""
    return 1


def new_call(emitted: list[Emission]) -> ToolCall:
    return ToolCall(
        RUN,
        StepId("one"),
        "count",
        {},
        StepKey("key"),
        dt.datetime(2026, 6, 1, tzinfo=dt.UTC),
        emit=partial(_journal, emitted),
    )


def _journal(emitted: list[Emission], emission: Emission) -> None:
    """Take an emission, as a run does: what cannot be in a journal is refused."""
    if isinstance(emission, LogEvent):
        make_encoder(sort_keys=False)(emission.to_json())
    emitted.append(emission)


@asynccontextmanager
async def routed(
    database: FleetDatabase, taken: Mapping[str, int], *, heartbeat: float = 60.0
) -> AsyncGenerator[ToolFunction]:
    """Be the process of a run; yield how it makes calls."""
    await database.fetch(HEARTBEAT, WORKER, 1, ["count"], [], [])
    async with anyio.create_task_group() as group:
        caller = FleetCaller(database, ["*"], heartbeat=heartbeat)
        group.start_soon(caller.run)
        caller.resume(RUN, taken)
        yield caller.routed(make_tool(count), GOAL).call
        group.cancel_scope.cancel()


def test_a_text_that_is_cut_within_a_character_is_emitted_as_it_is() -> None:
    cut = TextChunk("\ud83d")
    assert emission_of(emission_bytes(cut)) == cut


async def test_what_a_call_emitted_with_its_answer_is_taken_before_the_answer(
    postgres: PostgresServer,
) -> None:
    emitted: list[Emission] = []
    async with (
        open_fleet_database(postgres.database()) as database,
        routed(AnsweredBetween(database.pool, database.url), {}) as make,
    ):
        assert await make(new_call(emitted)) == 1

    assert emitted == [TextChunk("so far")]


UNREADABLE = [
    b"",
    b"\0",
    b"[" * 100_000,
    b"[]",
    b'{"text": 5}',
    b'{"use": {}}',
    b'{"ending": "won"}',
]


async def test_what_a_worker_should_not_have_written_costs_its_own_call_alone(
    postgres: PostgresServer,
) -> None:
    emitted: list[Emission] = []
    async with open_fleet_database(postgres.database()) as database, routed(database, {}) as make:
        for no, body in enumerate(UNREADABLE):
            async with anyio.create_task_group() as group:
                group.start_soon(unreadable, make, new_call(emitted))
                while not await database.fetch(BEGIN, [CALL], WORKER):  # noqa: ASYNC110 - the call is sent meanwhile
                    await anyio.sleep(0.01)
                numbers = [2 * no + 1, 2 * no + 2]
                forged = [[CALL] * 2, numbers, [body, emission_bytes(TextChunk("so far"))]]
                await database.fetch(EMIT, *forged, [True, True], WORKER)
                await database.fetch(ANSWER, [CALL], [0], [body], WORKER)
            await database.fetch("DELETE FROM wavewright_fleet.call")

    assert shown(emitted) == ["so far"] * len(UNREADABLE)


async def unreadable(make: ToolFunction, call: ToolCall) -> None:
    with anyio.fail_after(20), pytest.raises(ReportedFailure, match="cannot be read"):
        await make(call)


@pytest.mark.parametrize("is_journaled", [True, False])
async def test_a_run_that_is_continued_takes_what_is_not_in_its_journal(
    postgres: PostgresServer,
    is_journaled: bool,  # noqa: FBT001 - a case
) -> None:
    """The process of a run ends after it has taken an emission, before or after it has journaled
    that.
    """
    before: list[Emission] = []
    after: list[Emission] = []
    async with open_fleet_database(postgres.database()) as database:
        async with routed(database, {}) as make, anyio.create_task_group() as group:
            group.start_soon(ended, make, new_call(before))
            while not await database.fetch(BEGIN, [CALL], WORKER):  # noqa: ASYNC110 - the call is sent meanwhile
                await anyio.sleep(0.01)
            for _ in range(2):  # as a worker that has not learnt that its first try was successful
                await database.fetch(EMIT, *emissions(Counted(1), TextChunk("so far")))
            while len(before) < 3:  # noqa: ASYNC110 - a notice comes from the database
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        await database.fetch(EMIT, *emissions(Counted(2), first=3))
        await database.fetch(ANSWER, *answer())
        [mark] = [one for one in before if isinstance(one, EmissionsTaken)]
        async with routed(database, {mark.call: mark.no} if is_journaled else {}) as make:
            assert await make(new_call(after)) == 1

    assert shown(before) == [1, "so far", "taken"]
    assert shown(after) == [2, "taken"] if is_journaled else [1, 2, "taken"]


async def test_a_call_for_which_nobody_beats_is_lost_though_others_are_answered(
    postgres: PostgresServer,
) -> None:
    """Its job is not in the queue any more, so no other worker can find it there."""
    async with (
        open_fleet_database(postgres.database()) as database,
        routed(database, {}, heartbeat=1.0) as make,
        anyio.create_task_group() as group,
    ):
        group.start_soon(ended, make, new_call([]))
        while not await database.fetch(BEGIN, [CALL], WORKER):  # noqa: ASYNC110 - the call is sent meanwhile
            await anyio.sleep(0.01)
        await database.fetch("DELETE FROM wavewright_fleet.pgqueuer")
        with anyio.fail_after(10):
            while not await database.fetch(BEGIN, [AGAIN], "another worker"):
                await database.fetch("SELECT pg_notify('wavewright_fleet_answered', $1)", CALL)
                await anyio.sleep(0.1)
        group.cancel_scope.cancel()


async def test_a_process_that_has_nothing_to_call_forgets_the_calls_of_the_one_before(
    postgres: PostgresServer,
) -> None:
    """A step that failed, and that a patch calls again, would be given the failure of before."""
    async with open_fleet_database(postgres.database()) as database:
        await database.fetch(SEND_GOAL, RUN, b"{}", PROCESS)
        await database.fetch(
            SEND, [CALL], [RUN], [b"{}"], ["count@1"], "the process before", PROCESS
        )
        await database.fetch(BEGIN, [CALL], WORKER)
        await database.fetch(ANSWER, *answer())

        await FleetCaller(database, ["*"], heartbeat=60.0).forget(RUN)

        assert await database.fetch("SELECT FROM wavewright_fleet.call") == []
        assert await database.fetch("SELECT FROM wavewright_fleet.goal") == []


async def test_calls_of_a_run_that_another_process_has_ended_fail_whether_they_were_sent_or_not(
    postgres: PostgresServer,
) -> None:
    """This process was suspended meanwhile, and does not know."""
    async with (
        open_fleet_database(postgres.database()) as database,
        routed(database, {}, heartbeat=1.0) as make,
    ):
        async with anyio.create_task_group() as group:
            group.start_soon(lost_run, make)
            while not await database.fetch(BEGIN, [CALL], WORKER):  # noqa: ASYNC110 - the call is sent meanwhile
                await anyio.sleep(0.01)
            await database.fetch("DELETE FROM wavewright_fleet.call")
        await FleetCaller(database, ["*"], heartbeat=60.0).forget(RUN)
        await lost_run(make)

        assert await database.fetch("SELECT FROM wavewright_fleet.call") == []


@pytest.mark.parametrize("is_ended", [False, True])
async def test_a_process_that_was_suspended_has_no_call_made_of_a_run_that_another_one_took_over(
    postgres: PostgresServer,
    is_ended: bool,  # noqa: FBT001 - a case
) -> None:
    """It was stopped before it sent anything, and the other one has ended the run, or works on it."""
    url = postgres.database()
    other = PostgresEventStore(url, owner=Owner("f00", "elsewhere", 4711, "1", "another boot"))
    await other.claim(RUN)
    if is_ended:
        postgres.run("UPDATE wavewright.run SET owner = NULL", url)
    async with open_fleet_database(url) as database, routed(database, {}) as make:
        await lost_run(make)
        assert await database.fetch(LEFT) == []
        await database.fetch("INSERT INTO wavewright_fleet.goal VALUES ($1, '')", RUN)
        await lost_run(make)
        await FleetCaller(database, ["*"], heartbeat=60.0).forget(RUN)
        assert len(await database.fetch(LEFT)) == 1
    await other.close()


async def test_the_process_that_owns_a_run_has_its_calls_made_and_forgets_them(
    postgres: PostgresServer,
) -> None:
    url = postgres.database()
    own = PostgresEventStore(url)
    await own.claim(RUN)
    async with open_fleet_database(url) as database, routed(database, {}) as make:
        async with anyio.create_task_group() as group:
            group.start_soon(ended, make, new_call([]))
            while not await database.fetch(BEGIN, [CALL], WORKER):  # noqa: ASYNC110 - the call is sent meanwhile
                await anyio.sleep(0.01)
            await database.fetch(ANSWER, *answer())
        # The worker here does not know its number in the queue.
        await database.fetch("DELETE FROM wavewright_fleet.pgqueuer")
        await FleetCaller(database, ["*"], heartbeat=60.0).forget(RUN)
        assert await database.fetch(LEFT) == []
    await own.close()


LEFT = """
    SELECT id FROM wavewright_fleet.call UNION ALL SELECT run FROM wavewright_fleet.goal
    UNION ALL SELECT entrypoint FROM wavewright_fleet.pgqueuer"""


async def lost_run(make: ToolFunction) -> None:
    with (
        anyio.fail_after(20),
        pytest.raises(ReportedFailure, match="another process has continued the run"),
    ):
        await make(new_call([]))


async def test_a_database_that_is_away_for_a_moment_fails_no_call(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_PAUSE_SECONDS", 0.01)
    async with open_fleet_database(postgres.database()) as database:
        away = AwayOnce(database.pool, database.url)
        async with anyio.create_task_group() as group:
            caller = FleetCaller(away, ["*"], heartbeat=60.0)
            group.start_soon(caller.run)
            tool = caller.routed(make_tool(count), GOAL)
            assert tool.is_under_way is not None
            assert not await tool.is_under_way(RUN, StepId("one"), None, StepKey("key"))
            group.start_soon(ended, tool.call, new_call([]))
            while not await database.fetch(BEGIN, [CALL], WORKER):  # noqa: ASYNC110 - the call is sent meanwhile
                await anyio.sleep(0.01)
            assert await tool.is_under_way(RUN, StepId("one"), None, StepKey("key"))
            await database.fetch(ANSWER, *answer())
            while {IS_KNOWN, SEND_GOAL, SEND, READ_ANSWERS} - away.seen:  # noqa: ASYNC110 - a look comes
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()


async def test_workers_have_time_for_a_heartbeat_after_the_process_of_a_run_has_started(
    postgres: PostgresServer,
) -> None:
    """The database may have come back only then, and it restarts many processes at once."""
    async with open_fleet_database(postgres.database()) as database:
        started, seen = anyio.current_time(), Seen(database.pool, database.url)
        async with routed(seen, {}, heartbeat=1.0) as make, anyio.create_task_group() as group:
            group.start_soon(ended, make, new_call([]))
            with anyio.fail_after(10):
                while DECLARE_LOST not in seen.queries:  # noqa: ASYNC110 - a look comes
                    await anyio.sleep(0.01)
            group.cancel_scope.cancel()

    assert anyio.current_time() > started + 1.0


async def test_a_call_that_was_cancelled_before_it_began_is_sent_again_by_the_next_process(
    postgres: PostgresServer,
) -> None:
    async with open_fleet_database(postgres.database()) as database:
        for _ in range(2):
            async with routed(database, {}) as make, anyio.create_task_group() as group:
                group.start_soon(ended, make, new_call([]))
                with anyio.fail_after(10):
                    while not await database.fetch("SELECT FROM wavewright_fleet.pgqueuer"):  # noqa: ASYNC110 - sent meanwhile
                        await anyio.sleep(0.01)
                group.cancel_scope.cancel()

            assert await database.fetch("SELECT FROM wavewright_fleet.pgqueuer") == []


async def test_a_call_that_the_process_before_has_sent_is_cancelled_and_a_lost_one_emits_nothing(
    postgres: PostgresServer,
) -> None:
    emitted: list[Emission] = []
    async with open_fleet_database(postgres.database()) as database:
        await database.fetch(SEND_GOAL, RUN, b"{}", PROCESS)
        await database.fetch(
            SEND, [CALL], [RUN], [b"{}"], ["count@1"], "the process before", PROCESS
        )
        await database.fetch(BEGIN, [CALL], WORKER)
        async with routed(database, {}) as make, anyio.create_task_group() as group:
            group.start_soon(ended, make, new_call(emitted))
            await database.fetch(EMIT, *emissions(Counted(1)))
            while not emitted:  # noqa: ASYNC110 - a notice comes from the database
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        await database.fetch(DECLARE_LOST, [CALL], b"{}", 0.0)
        await database.fetch(EMIT, *emissions(Counted(2), first=2))

        assert await database.fetch("SELECT FROM wavewright_fleet.pgqueuer") == []
        assert len(await database.fetch("SELECT FROM wavewright_fleet.emission")) == 1


async def test_a_process_whose_run_another_one_continues_does_not_cancel_its_calls(
    postgres: PostgresServer,
) -> None:
    async with (
        open_fleet_database(postgres.database()) as database,
        routed(database, {}) as make,
        routed(database, {}) as make_later,
        anyio.create_task_group() as later,
    ):
        async with anyio.create_task_group() as first:
            first.start_soon(ended, make, new_call([]))
            while not await database.fetch(BEGIN, [CALL], WORKER):  # noqa: ASYNC110 - the call is sent meanwhile
                await anyio.sleep(0.01)
            before = await database.fetch(COORDINATOR)
            later.start_soon(ended, make_later, new_call([]))
            while await database.fetch(COORDINATOR) == before:  # noqa: ASYNC110 - the call is sent again meanwhile
                await anyio.sleep(0.01)
            first.cancel_scope.cancel()
        assert len(await database.fetch("SELECT FROM wavewright_fleet.pgqueuer")) == 1
        later.cancel_scope.cancel()


async def ended(make: ToolFunction, call: ToolCall) -> None:
    await make(call)


COORDINATOR = "SELECT coordinator FROM wavewright_fleet.call"
CALL = call_id(RUN, StepId("one"), None, StepKey("key"), 1, 0)
AGAIN = call_id(RUN, StepId("one"), None, StepKey("key"), 1, 1)


def answer() -> tuple[list[str], list[int], list[bytes], str]:
    """Return the values with which a worker writes its answer."""
    return [CALL], [0], [CallAnswer("ok", 1, has_emitted=True).to_bytes()], WORKER


def emissions(
    *made: Emission, first: int = 1
) -> tuple[list[str], list[int], list[bytes], list[bool], str]:
    """Return the values with which a worker writes them."""
    return (
        [CALL] * len(made),
        [*range(first, first + len(made))],
        [emission_bytes(one) for one in made],
        [isinstance(one, TextChunk) for one in made],
        WORKER,
    )


def shown(emitted: list[Emission]) -> list[Json]:
    shown: list[Json] = []
    for one in emitted:
        match one:
            case LogEvent():
                shown.append(one.to_json()["number"])
            case TextChunk():
                shown.append(one.text)
            case _:
                shown.append("taken")
    return shown
