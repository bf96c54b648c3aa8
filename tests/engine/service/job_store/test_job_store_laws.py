"""Whatever comes in whatever order, and whichever daemon dies: jobs stand as a plain model says
that they stand.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar, cast

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from tests.crash.run_size import volume
from tests.engine.service.job_store.job_examples import project_state
from tests.engine.service.job_store.job_store_machine import OUTBOX_LEASE, JobStoreMachine
from tests.engine.service.job_store.job_store_model import SyncJobStore
from tests.executor.event_examples import step_finished
from tests.executor.sqlite.inline_store import InlineEventStore
from tests.support.postgres import PostgresServer
from wavewright.engine.service.job_store.outbox_writes import OutboxWrites
from wavewright.engine.service.job_store.records import (
    Decision,
    DecisionId,
    DecisionMade,
    JobChange,
    JobRow,
    MessageId,
    OutgoingMessage,
    Receipt,
    ReceivedMessage,
)
from wavewright.engine.service.job_store.rules import MAX_CLOCK_STEP_BACK, queue_rank
from wavewright.engine.service.job_store.store import JobStore
from wavewright.executor.events.types import Event
from wavewright.executor.postgres.journal import PostgresJournal
from wavewright.executor.store.entries import append_entry
from wavewright.executor.store.transaction import ANY_ORDER, LockOrder, TransactionWork
from wavewright.executor.store.writer import run_inline
from wavewright.planner.types import RunId

T = TypeVar("T")


class SqliteSyncJobStore:
    """An opening of a file, without the threads that a daemon would have."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self.store = InlineEventStore(path, clock=clock)
        # What is asked here is not what survives a power cut.
        self.store.store._connection.execute("PRAGMA synchronous = OFF")  # pyright: ignore[reportPrivateUsage]
        self._jobs = JobStore(self, outbox_lease=OUTBOX_LEASE)

    async def transact(self, work: TransactionWork[T], *, order: LockOrder = ANY_ORDER) -> T:
        (result,) = self.store.execute([work])
        return cast("T", result)

    async def read(self, ask: TransactionWork[T]) -> T:
        return self.store.read(ask)

    def receive(self, message: ReceivedMessage) -> Receipt:
        return run_inline(self._jobs.receive(message, project_state))

    def claim(self, most_weight: float | None) -> JobRow | None:
        return asyncio.run(self._jobs.claim(most_weight=most_weight, project=project_state))

    def change(self, change: JobChange) -> None:
        run_inline(self._jobs.change(change, project_state))

    def decide(self, made: DecisionMade) -> Receipt:
        return run_inline(self._jobs.decide(made, project_state))

    def take_answer(self, decision: DecisionId) -> Decision | None:
        return asyncio.run(self._jobs.take_answer(decision))

    def pending(self, most: int) -> Sequence[OutgoingMessage]:
        return run_inline(self._jobs.pending(most))

    def mark_sent(self, messages: Sequence[MessageId]) -> None:
        run_inline(self._jobs.mark_sent(messages))

    def list_jobs(self) -> Sequence[JobRow]:
        return run_inline(self._jobs.list_jobs())

    def append(self, run: RunId, step: str, alongside: OutboxWrites) -> None:
        if fault := self.store.write([append_entry(run, [step_finished(step)], alongside)]).get(
            run
        ):
            raise fault

    def load(self, run: RunId) -> Sequence[Event]:
        return self.store.reader.load(run)

    def holds(self, run: RunId) -> bool:
        return self.store.holds(run)

    def close(self) -> None:
        self.store.close()


class SqliteJobStoreMachine(JobStoreMachine):
    """Two daemons with one file."""

    def begin_anew(self) -> None:
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name) / "journal.sqlite"

    def open_store(self) -> SqliteSyncJobStore:
        return SqliteSyncJobStore(self.path, lambda: self.now)

    def expire_lease(self, daemon: SyncJobStore) -> None:
        assert isinstance(daemon, SqliteSyncJobStore)
        with closing(sqlite3.connect(self.path, timeout=10)) as connection, connection:
            connection.execute(
                "UPDATE run SET process_start = 'before' WHERE owner = ?",
                (daemon.store.store.token,),
            )

    def messages(self) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(
                "SELECT message, sent IS NOT NULL FROM outbox ORDER BY no"
            ).fetchall()

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


class PostgresSyncJobStore:
    """An opening of a database, as a daemon has it."""

    def __init__(self, url: str, loop: asyncio.Runner) -> None:
        self._loop = loop
        self.journal = PostgresJournal(url)
        self._jobs = JobStore(self.journal, outbox_lease=OUTBOX_LEASE)

    def _now(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(work)

    def receive(self, message: ReceivedMessage) -> Receipt:
        return self._now(self._jobs.receive(message, project_state))

    def claim(self, most_weight: float | None) -> JobRow | None:
        return self._now(self._jobs.claim(most_weight=most_weight, project=project_state))

    def change(self, change: JobChange) -> None:
        self._now(self._jobs.change(change, project_state))

    def decide(self, made: DecisionMade) -> Receipt:
        return self._now(self._jobs.decide(made, project_state))

    def take_answer(self, decision: DecisionId) -> Decision | None:
        return self._now(self._jobs.take_answer(decision))

    def pending(self, most: int) -> Sequence[OutgoingMessage]:
        return self._now(self._jobs.pending(most))

    def mark_sent(self, messages: Sequence[MessageId]) -> None:
        self._now(self._jobs.mark_sent(messages))

    def list_jobs(self) -> Sequence[JobRow]:
        return self._now(self._jobs.list_jobs())

    def append(self, run: RunId, step: str, alongside: OutboxWrites) -> None:
        async def append() -> None:
            await self.journal.append(run, [step_finished(step)], alongside)

        self._now(append())

    def load(self, run: RunId) -> Sequence[Event]:
        return self._now(self.journal.load(run))

    def holds(self, run: RunId) -> bool:
        return self.journal.store.holds(run)

    def close(self) -> None:
        self._now(self.journal.aclose())


class PostgresJobStoreMachine(JobStoreMachine):
    """Two daemons with one database, whose clock is the test's and whose connections break at
    times.
    """

    server: PostgresServer
    url: str

    def begin_anew(self) -> None:
        self.loop = asyncio.Runner()
        self.server.run(_EMPTY, self.url)
        self.set_clock()

    def open_store(self) -> PostgresSyncJobStore:
        return PostgresSyncJobStore(self.url, self.loop)

    def expire_lease(self, daemon: SyncJobStore) -> None:
        assert isinstance(daemon, PostgresSyncJobStore)
        token = daemon.journal.store.session.owner.token
        set_start = (
            f"UPDATE wavewright.session SET process_start = 'before' WHERE token = '{token}'"  # noqa: S608
        )
        self.server.run(set_start, self.url)

    def set_clock(self) -> None:
        self.server.run(f"UPDATE shown_time SET seconds = {self.now}", self.url)  # noqa: S608 - a number

    def messages(self) -> list[tuple[object, ...]]:
        return self.server.fetch(
            "SELECT message, sent IS NOT NULL FROM wavewright.outbox ORDER BY no", self.url
        )

    @rule()
    def break_connections(self) -> None:
        self.server.kill_connections(self.url)

    def teardown(self) -> None:
        super().teardown()
        self.loop.close()


_SHOWN_TIME = """
    CREATE TABLE shown_time (seconds double precision); INSERT INTO shown_time VALUES (0);
    CREATE OR REPLACE FUNCTION wavewright.clock_seconds() RETURNS double precision LANGUAGE sql VOLATILE AS
    $$ SELECT seconds FROM public.shown_time $$"""
_EMPTY = """
    SET session_replication_role = replica;
    TRUNCATE wavewright.run, wavewright.event, wavewright.session, wavewright.job, wavewright.job_request,
             wavewright.inbox, wavewright.outbox, wavewright.outbox_body, wavewright.decision"""

TestJobsInAFile = SqliteJobStoreMachine.TestCase
TestJobsInAFile.settings = settings(max_examples=volume(12, 40), stateful_step_count=40)


@pytest.mark.timeout(120)
def test_jobs_in_a_database_stand_as_the_same_model_says(postgres: PostgresServer) -> None:
    class Machine(PostgresJobStoreMachine):
        server = postgres
        url = postgres.database()

    async def make_tables() -> None:
        async with PostgresJournal(Machine.url):
            pass

    asyncio.run(make_tables())
    postgres.run(_SHOWN_TIME, Machine.url)

    run_state_machine_as_test(Machine, settings=settings(max_examples=5, stateful_step_count=20))


@given(
    came=st.lists(st.tuples(st.floats(0, 1e6), st.floats(allow_nan=True)), min_size=2, max_size=20),
)
def test_no_job_waits_long_for_others_that_came_later(came: list[tuple[float, float]]) -> None:
    turns = [(at, queue_rank(at, weight)) for at, weight in came]

    for at, turn in turns:
        assert at <= turn <= at + MAX_CLOCK_STEP_BACK
        # Whatever weighs what: who came so much later waits.
        assert all(
            turn <= later_turn for later, later_turn in turns if later >= at + MAX_CLOCK_STEP_BACK
        )


@given(
    at=st.floats(0, 1e6), light=st.floats(0, 1e3), more=st.floats(0, 1e3), later=st.floats(0, 1e3)
)
def test_of_two_jobs_the_lighter_one_is_first_unless_it_came_much_later(
    at: float, light: float, more: float, later: float
) -> None:
    heavy = light + more

    assert queue_rank(at, light) <= queue_rank(at, heavy)
    if later > more:
        assert queue_rank(at, heavy) <= queue_rank(at + later, light) + 1e-6
