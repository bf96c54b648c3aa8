"""Several daemons with one database, and messages in any order at all of them: each job ends,
nobody in a circle.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import anyio
import pytest

from tests.engine.service.job_store.job_examples import (
    decision_of,
    job_id,
    outgoing,
    package_id,
    project_state,
    received,
    request_of,
    verdict,
)
from tests.executor.event_examples import step_finished
from tests.support.postgres import PostgresServer
from wavewright.engine.service.job_store.outbox_writes import OutboxWrites
from wavewright.engine.service.job_store.records import (
    DecisionMade,
    JobChange,
    JobId,
    JobRow,
    ReceivedMessage,
)
from wavewright.engine.service.job_store.store import JobStore
from wavewright.executor.postgres.journal import PostgresJournal
from wavewright.planner.types import RunId

JOBS = 40


class Daemon:
    """Works on jobs: each asks a question first, and has its second package accepted."""

    def __init__(self, journal: PostgresJournal) -> None:
        self.journal = journal
        self.jobs = JobStore(journal)

    async def work(self, numbers: dict[JobId, int], asked: set[JobId], ended: anyio.Event) -> None:
        while not ended.is_set():
            job = await self.jobs.claim(project=project_state)
            if job is not None:
                await self._advance(job, numbers[job.job], asked)
                continue
            if (await self.jobs.count_states())["completed"] == JOBS:
                ended.set()
            await anyio.sleep(0.005)

    async def _advance(self, job: JobRow, number: int, asked: set[JobId]) -> None:
        iteration = job.iteration + 1
        if job.job in asked:
            package = package_id(number, iteration)
            change = JobChange(job.job, "validating", iteration=iteration, package=package)
            beside = OutboxWrites(
                messages=(outgoing(number * 10 + iteration, job=number),), change=change
            )
        else:
            asked.add(job.job)
            decision = decision_of(number, job.run, id_=number)
            beside = OutboxWrites(decisions=(decision,), change=JobChange(job.job, "waiting"))
        await self.journal.append(job.run, [step_finished(f"s{iteration}")], beside)


def messages_of(number: int) -> list[ReceivedMessage]:
    answer = DecisionMade(decision_of(number, RunId("any"), id_=number).id, "yes", "ada")
    return [
        request_of(number),
        received(verdict(number, 1), message=20_000 + number),
        received(verdict(number, 2, accepted=True), message=30_000 + number),
        received(answer, message=40_000 + number),
    ]


@pytest.fixture
async def daemons(postgres: PostgresServer) -> AsyncIterator[list[Daemon]]:
    url = postgres.database()
    database = url.rpartition("/")[2]
    postgres.run(f"ALTER DATABASE {database} SET deadlock_timeout = '20ms'")
    async with AsyncExitStack() as opened:
        yield [Daemon(await opened.enter_async_context(PostgresJournal(url))) for _ in range(3)]
    # A transaction that waits in a circle is ended by the server, by default after a second in
    # which others wait, too.
    assert postgres.fetch(
        f"SELECT deadlocks FROM pg_stat_database WHERE datname = '{database}'"  # noqa: S608
    ) == [(0,)]


@pytest.mark.anyio
@pytest.mark.parametrize("order", range(3))
async def test_jobs_whose_messages_come_twice_to_several_daemons_in_any_order_all_end(
    daemons: list[Daemon], order: int
) -> None:
    messages = [message for number in range(JOBS) for message in messages_of(number)]
    chance = random.Random(order)  # noqa: S311 - an order, no secret
    messages += messages
    chance.shuffle(messages)
    numbers = {job_id(number): number for number in range(JOBS)}
    asked, ended = set[JobId](), anyio.Event()

    async def receive(daemon: Daemon, share: list[ReceivedMessage]) -> None:
        # Several at once, so that they share a transaction.
        for place in range(0, len(share), 8):
            async with anyio.create_task_group() as together:
                for message in share[place : place + 8]:
                    together.start_soon(daemon.jobs.receive, message, project_state)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for place in range(6):
                group.start_soon(receive, daemons[place % 3], messages[place::6])
                group.start_soon(daemons[place % 3].work, numbers, asked, ended)

    rows = await daemons[0].jobs.list_jobs()
    assert [(row.state, row.iteration, len(row.feedback)) for row in rows] == [
        ("completed", 2, 2)
    ] * JOBS
    answered = await daemons[0].jobs.list_decisions(is_open=False)
    assert len(answered) == JOBS
