"""The job store in a database keeps what every job store promises, and some things that only a
database can show.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace

import anyio
import asyncpg
import pytest

from tests.engine.service.job_store.job_examples import (
    DaemonStores,
    claimed,
    decision_of,
    job_id,
    outgoing,
    project_state,
    published_states,
    received,
    request_of,
    send_package,
    verdict,
)
from tests.engine.service.job_store.job_store_contract import JobStoreContract
from tests.executor.event_examples import step_finished
from tests.executor.postgres.journal_helpers import RUN, each_lost_in_turn, steps, until
from tests.support.lossy_proxy import LossyLine
from tests.support.postgres import OwnServer, PostgresServer
from wavewright.engine.service.job_store.outbox_writes import OutboxWrites
from wavewright.engine.service.job_store.records import DecisionMade, JobChange, JobRow
from wavewright.engine.service.job_store.store import JobStore, lease_messages
from wavewright.engine.service.job_store.stores import Stores
from wavewright.engine.service.job_store.transactions import receive
from wavewright.executor.postgres.journal import PostgresBudgetStore, PostgresJournal
from wavewright.executor.store.errors import JournalError, JournalUnreachable, RunLost


class PostgresDaemonStores:
    """Opens one database several times in this process."""

    def __init__(self, server: PostgresServer, opened: AsyncExitStack) -> None:
        self.server = server
        self.url = server.database()
        self._opened = opened

    async def open(self) -> Stores:
        journal = await self._opened.enter_async_context(PostgresJournal(self.url))
        budget_store = await self._opened.enter_async_context(PostgresBudgetStore(self.url))
        return Stores(journal, JobStore(journal), budget_store)

    async def kill(self, stores: Stores) -> None:
        """Write down another start of its process than its own, as if its pid had gone to a later
        one.
        """
        assert isinstance(stores.journal, PostgresJournal)
        token = stores.journal.store.session.owner.token
        set_start = (
            f"UPDATE wavewright.session SET process_start = 'before' WHERE token = '{token}'"  # noqa: S608
        )
        self.server.run(set_start, self.url)

    async def expire_leases(self) -> None:
        self.server.run("UPDATE wavewright.outbox SET leased = leased - 3600", self.url)

    async def forbid_writes(self) -> None:
        self.server.run(
            """CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
               $$ BEGIN RAISE EXCEPTION 'full' USING ERRCODE = 'disk_full'; END $$;
               CREATE TRIGGER full_disk BEFORE UPDATE ON wavewright.run EXECUTE FUNCTION refuse();
               CREATE TRIGGER full_disk BEFORE INSERT ON wavewright.event EXECUTE FUNCTION refuse()""",
            self.url,
        )

    async def allow_writes(self) -> None:
        self.server.run("DROP FUNCTION refuse() CASCADE", self.url)


@pytest.fixture
async def daemons(postgres: PostgresServer) -> AsyncIterator[PostgresDaemonStores]:
    async with AsyncExitStack() as opened:
        yield PostgresDaemonStores(postgres, opened)


def check_shape(daemons: PostgresDaemonStores) -> DaemonStores:
    """Let the type checkers compare the two."""
    return daemons


class TestPostgresJobStore(JobStoreContract):
    """The contract."""


@pytest.mark.anyio
async def test_a_message_that_comes_to_two_daemons_at_once_makes_one_job(
    daemons: PostgresDaemonStores,
) -> None:
    one, other = await daemons.open(), await daemons.open()
    receipts = list[str]()

    async def receive(stores: Stores, number: int) -> None:
        receipts.append((await stores.jobs.receive(request_of(number), project_state)).action)

    async with anyio.create_task_group() as tasks:
        for number in range(30):
            tasks.start_soon(receive, one, number)
            tasks.start_soon(receive, other, number)

    assert sorted(receipts) == ["accept"] * 30 + ["ack_duplicate"] * 30
    assert len(await one.jobs.list_jobs()) == 30
    assert len(await published_states(one)) == 30


@pytest.mark.anyio
async def test_a_verdict_that_comes_to_two_daemons_at_once_is_taken_once(
    daemons: PostgresDaemonStores,
) -> None:
    one, other = await daemons.open(), await daemons.open()
    for number in range(8):
        await one.jobs.receive(request_of(number))
        await send_package(one, await claimed(one, number), number, 1)

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            given = received(verdict(number, 1), message=50 + number)
            tasks.start_soon(one.jobs.receive, given, project_state)
            tasks.start_soon(other.jobs.receive, given, project_state)

    jobs = await one.jobs.list_jobs()
    assert [(job.state, len(job.feedback)) for job in jobs] == [("queued", 1)] * 8


@pytest.mark.anyio
async def test_whatever_answer_is_lost_a_job_is_received_claimed_and_changed_once(
    daemons: PostgresDaemonStores,
) -> None:
    with LossyLine(daemons.url) as line:
        async with PostgresJournal(line.url) as journal:
            jobs = JobStore(journal)
            number = 0
            async for answers in each_lost_in_turn(line, stride=2):
                number += 1

                async def work(number: int = number) -> None:
                    assert (
                        await jobs.receive(request_of(number), project_state)
                    ).action == "accept"
                    job = await jobs.claim(project=project_state)
                    assert job is not None
                    assert (job.job, job.attempts) == (job_id(number), 1)
                    beside = OutboxWrites(messages=(outgoing(number, job=number),))
                    await journal.append(job.run, [step_finished("a")], beside)
                    await jobs.change(JobChange(job.job, "completed"), project_state)

                done = asyncio.ensure_future(work())
                await answers.lose(done)
                await done
            rows, messages = await jobs.list_jobs(), await jobs.pending(1000)
            runs = [await journal.load(job.run) for job in rows]

    assert number > 10
    assert [(job.state, job.attempts) for job in rows] == [("completed", 0)] * number
    assert runs == [[step_finished("a")]] * number
    assert [message.kind for message in messages] == ["queued", "job_status", "completed"] * number


@pytest.mark.anyio
async def test_a_claim_of_which_nobody_could_be_told_is_made_again_by_the_same_daemon(
    daemons: PostgresDaemonStores,
) -> None:
    other, attempts = await daemons.open(), set[int]()
    with LossyLine(daemons.url) as line:
        async with PostgresJournal(line.url, patience=0.0) as journal:
            jobs, number = JobStore(journal), 0
            async for answers in each_lost_in_turn(line):
                number += 1
                await other.jobs.receive(request_of(number))
                claiming = asyncio.ensure_future(jobs.claim())
                await answers.lose(claiming)
                line.let_through()
                with suppress(JournalUnreachable):
                    await claiming
                job: JobRow | None = None if claiming.exception() else claiming.result()
                # Until the server has found the broken connection, it keeps the job locked.
                with anyio.fail_after(20):
                    while job is None:
                        job = await jobs.claim()
                assert job.job == job_id(number)
                attempts.add(job.attempts)

    # The first answer lost came before the commit or after it; a claim after the commit counted as
    # an attempt.
    assert attempts == {1, 2}


@pytest.mark.anyio
async def test_whatever_answer_is_lost_a_question_is_asked_answered_and_acted_on_once(
    daemons: PostgresDaemonStores,
) -> None:
    with LossyLine(daemons.url) as line:
        async with PostgresJournal(line.url) as journal:
            jobs = JobStore(journal)
            number = 0
            async for answers in each_lost_in_turn(line, stride=5):
                number += 1

                async def work(number: int = number) -> None:
                    await jobs.receive(request_of(number), project_state)
                    job = await jobs.claim()
                    assert job is not None
                    asked = decision_of(number, job.run, id_=number)
                    waiting = JobChange(job.job, "waiting")
                    await journal.append(
                        job.run,
                        [step_finished("a")],
                        OutboxWrites(decisions=(asked,), change=waiting),
                    )
                    receipt = await jobs.decide(DecisionMade(asked.id, "yes", "ada"), project_state)
                    again = await jobs.claim()
                    assert again is not None
                    assert (receipt.action, again.job) == ("accept", job.job)
                    await journal.append(
                        job.run, [step_finished("b")], OutboxWrites(taken=(asked.id,))
                    )
                    await journal.close_run(job.run)
                    await journal.open_run(job.run)
                    await jobs.change(JobChange(job.job, "completed"), project_state)
                    *sent, refused = await jobs.pending()
                    await jobs.mark_sent([message.message for message in sent])
                    await jobs.mark_refused(refused.message, "no such queue")

                done = asyncio.ensure_future(work())
                await answers.lose(done)
                await done
            rows, answered = await jobs.list_jobs(), await jobs.list_decisions(is_open=False)
            waiting, refused = await jobs.pending(), await jobs.list_refused()
            runs = [await journal.load(job.run) for job in rows]

    assert number > 7
    assert [job.state for job in rows] == ["completed"] * number
    assert runs == [[step_finished("a"), step_finished("b")]] * number
    assert [one.used is not None for one in answered] == [True] * number
    assert (waiting, [message.kind for message in refused]) == ([], ["completed"] * number)


@pytest.mark.anyio
async def test_an_owner_on_another_machine_is_watched_from_one_claim_to_the_next(
    daemons: PostgresDaemonStores,
) -> None:
    gone, other = await daemons.open(), await daemons.open()
    await gone.jobs.receive(request_of(1))
    await claimed(gone, 1)
    assert isinstance(gone.journal, PostgresJournal)
    token = gone.journal.store.session.owner.token
    session = f"UPDATE wavewright.session SET {{}} WHERE token = '{token}'"  # noqa: S608 - a token made here

    def set_session(columns: str) -> None:
        daemons.server.run(session.format(columns), daemons.url)

    set_session(
        "pid_namespace = 'far', lease = 60.0, heartbeat = 7, heartbeat_at = wavewright.clock_seconds()"
    )
    believed = await other.jobs.claim()
    set_session("lease = 0.0, heartbeat_at = heartbeat_at - 1")

    first = await other.jobs.claim()
    set_session("heartbeat = 8")
    after_a_beat = await other.jobs.claim()
    after_silence = await other.jobs.claim()

    assert (believed, first, after_a_beat) == (None, None, None)
    assert after_silence is not None
    assert after_silence.attempts == 2


@pytest.mark.anyio
async def test_a_lease_from_before_the_clock_went_back_keeps_no_message_waiting(
    daemons: PostgresDaemonStores,
) -> None:
    one, other = await daemons.open(), await daemons.open()
    await one.jobs.receive(request_of(1), project_state)

    assert (await published_states(one), await published_states(other)) == (["queued"], [])
    daemons.server.run("UPDATE wavewright.outbox SET leased = leased + 3600", daemons.url)
    assert await published_states(other) == ["queued"]


@pytest.mark.anyio
async def test_daemons_outlive_a_restart_of_the_server(own_postgres: OwnServer) -> None:
    async with AsyncExitStack() as opened:
        daemons = PostgresDaemonStores(own_postgres, opened)
        stores = [await daemons.open(), await daemons.open()]
        ended = list[JobRow]()

        async def receive() -> None:
            for number in range(20):
                await stores[0].jobs.receive(request_of(number), project_state)

        async def work(one: Stores) -> None:
            while len(ended) < 20:
                job = await one.jobs.claim()
                if job is None:
                    await anyio.sleep(0.005)
                    continue
                for event in ("a", "b"):
                    await one.journal.append(job.run, [step_finished(event)])
                await one.jobs.change(JobChange(job.job, "completed"), project_state)
                ended.append(job)

        async with anyio.create_task_group() as tasks:
            for one in stores:
                tasks.start_soon(work, one)
            tasks.start_soon(receive)
            for _ in range(3):
                await anyio.sleep(0.05)
                await anyio.to_thread.run_sync(own_postgres.restart)

        jobs = await stores[0].jobs.list_jobs()
        assert [job.state for job in jobs] == ["completed"] * 20
        assert len({job.job for job in ended}) == len(ended) == 20
        for job in jobs:
            assert await stores[0].journal.load(job.run) == [step_finished("a"), step_finished("b")]


@pytest.mark.anyio
async def test_an_answer_that_comes_while_its_question_is_written_is_not_overlooked(
    daemons: PostgresDaemonStores,
) -> None:
    one = await daemons.open()
    await one.jobs.receive(request_of(1))
    job = await claimed(one, 1)
    asked = decision_of(1, job.run)
    answer = received(DecisionMade(asked.id, "yes", "ada"), message=7)
    assert isinstance(one.journal, PostgresJournal)

    # What another daemon does, up to its commit.
    other = await asyncpg.connect(daemons.url)
    await other.execute("SET search_path TO wavewright; BEGIN")
    now = await other.fetchval("SELECT clock_seconds()")
    transaction = one.journal.store.begin(other, now)
    receipt = await receive(transaction, answer, project_state)
    await transaction.flush()
    change = JobChange(job.job, "waiting")
    asking = asyncio.ensure_future(
        waited(
            one.journal.append(
                job.run, [step_finished("a")], OutboxWrites(decisions=(asked,), change=change)
            )
        )
    )
    await until(lambda: asking.done() or bool(daemons.server.fetch(WAITING)))
    await other.execute("COMMIT")
    await other.close()
    await asking
    again = await claimed(one, 1)

    assert receipt.action == "defer"
    assert again.job == job.job
    assert [decision.choice for decision in await one.jobs.list_decisions(is_open=False)] == ["yes"]


WAITING = "SELECT pid FROM pg_locks WHERE NOT granted"


async def waited(append: Awaitable[None]) -> None:
    await append


@pytest.mark.anyio
async def test_what_is_told_of_a_step_is_written_once_whichever_answer_is_lost(
    postgres: PostgresServer,
) -> None:
    url = postgres.database()
    with LossyLine(url) as line:
        async with PostgresJournal(line.url) as journal:
            await journal.open_run(RUN)
            count = 0
            async for answers in each_lost_in_turn(line):
                count += 1
                beside = OutboxWrites(
                    messages=(outgoing(count), outgoing(100 + count), outgoing(count))
                )
                told_of = asyncio.ensure_future(
                    waited(journal.append(RUN, steps(1, start=count), beside))
                )
                await answers.lose(told_of)
                await told_of
            messages = await JobStore(journal).pending()

    assert [message.message for message in messages] == [
        outgoing(number).message for told in range(1, count + 1) for number in (told, 100 + told)
    ]
    assert {message.body for message in messages} == {b"{}"}


@pytest.mark.anyio
async def test_events_and_what_daemons_want_at_once_share_a_transaction(
    daemons: PostgresDaemonStores,
) -> None:
    one = await daemons.open()
    for number in (1, 2):
        await one.jobs.receive(request_of(number))
    first, second = await claimed(one, 1), await claimed(one, 2)
    turn = "SELECT transaction_id FROM wavewright.session ORDER BY no"
    ((before,), *_) = daemons.server.fetch(turn, daemons.url)

    other = await asyncpg.connect(daemons.url)
    await other.execute("BEGIN; SELECT FROM wavewright.run FOR UPDATE")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waited, one.journal.append(first.run, steps(1)))
        # While that waits for its row, all else comes.
        await until(lambda: bool(daemons.server.fetch(WAITING)))
        tasks.start_soon(waited, one.journal.append(second.run, steps(3)))
        for number in range(3, 12):
            tasks.start_soon(one.jobs.receive, request_of(number), project_state)
        tasks.start_soon(one.jobs.count_states)
        tasks.start_soon(waited, one.journal.append(first.run, steps(1, start=1)))
        await anyio.wait_all_tasks_blocked()
        await other.execute("COMMIT")
        await other.close()

    ((after,), *_) = daemons.server.fetch(turn, daemons.url)
    assert isinstance(before, int)
    assert after == before + 2
    assert len(await one.jobs.list_jobs()) == 11
    assert await one.journal.load(first.run) == steps(2)
    assert await one.journal.load(second.run) == steps(3)


@pytest.mark.anyio
async def test_neither_events_nor_others_pay_for_what_cannot_be_done_beside_them(
    daemons: PostgresDaemonStores,
) -> None:
    one, other = await daemons.open(), await daemons.open()
    for number in (1, 2):
        await one.jobs.receive(request_of(number))
    mine = await claimed(one, 1)
    theirs = await claimed(other, 2)
    refused = list[JournalError]()

    async def change() -> None:
        try:
            await one.jobs.change(JobChange(theirs.job, "completed"), project_state)
        except JournalError as error:
            refused.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waited, one.journal.append(mine.run, steps(2)))
        tasks.start_soon(change)
        tasks.start_soon(one.jobs.receive, request_of(3), project_state)

    assert [type(error) for error in refused] == [RunLost]
    assert await one.journal.load(mine.run) == steps(2)
    assert [job.state for job in await one.jobs.list_jobs()] == ["running", "running", "queued"]


@pytest.mark.anyio
async def test_messages_that_another_daemon_leases_while_this_one_waits_are_left_to_it(
    daemons: PostgresDaemonStores,
) -> None:
    one = await daemons.open()
    await one.jobs.receive(request_of(1), project_state)
    assert isinstance(one.journal, PostgresJournal)

    # What another daemon does, up to its commit.
    other = await asyncpg.connect(daemons.url)
    await other.execute("SET search_path TO wavewright; BEGIN")
    theirs = one.journal.store.begin(other, 0.0)
    theirs.owner = replace(theirs.owner, token="another")  # noqa: S106 - a token of a lease
    leased = await lease_messages(theirs, seconds=5.0, most=100)
    leasing = asyncio.ensure_future(one.jobs.pending())
    await until(lambda: leasing.done() or bool(daemons.server.fetch(WAITING)))
    await other.execute("UPDATE outbox SET leased = clock_seconds()")
    await other.execute("COMMIT")
    await other.close()

    assert len(leased) == 1
    assert await leasing == []
