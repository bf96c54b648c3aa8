"""Daemons with shared stores, killed or frozen at any moment, lose no job, repeat no step, say
nothing twice.

A process that is killed while it removes runs leaves each of them whole or gone.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from tests.engine.service.job_store.job_examples import job_id, outgoing, project_state, request_of
from tests.engine.service.job_store.open_stores import jobs_of, journal_at
from tests.executor.event_examples import run_finished, run_started, step_finished
from tests.support.postgres import PostgresServer
from tests.support.prepared_command import PipedCommand, run_prepared_python, run_python
from wavewright.config.value_types import is_url
from wavewright.engine.service.job_store.message_retention import RUN_OF_OPEN_JOB
from wavewright.engine.service.job_store.records import JobRow
from wavewright.executor.events.types import StepFinished
from wavewright.executor.store.retention import RunRemoval, remove_groups
from wavewright.planner.types import RunId

JOBS, STEPS = 60, 6

# Works on jobs, several at once, publishes what the outbox has, and writes down what it does in the
# order in which it does it. It ends when no job is left and all is published, or kills itself after
# so many lines.
WORKER = """
import os, signal, sys
import anyio
from tests.engine.service.job_store.job_examples import outgoing, project_state
from wavewright.executor.events.types import StepFinished
from wavewright.engine.service.job_store.records import JobChange
from wavewright.engine.service.job_store.outbox_writes import OutboxWrites
from tests.engine.service.job_store.open_stores import jobs_of, journal_at

place, log, steps, slots, lines = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
diary = os.open(log, os.O_APPEND | os.O_WRONLY | os.O_CREAT)

def note(*words):
    global lines
    os.write(diary, (" ".join(map(str, words)) + "\\n").encode())
    lines -= 1
    if lines == 0:
        os.kill(os.getpid(), signal.SIGKILL)

async def is_over(jobs):
    states = await jobs.count_states()
    return not states["queued"] and not states["running"]

async def work(journal, jobs):
    while True:
        job = await jobs.claim(project=project_state)
        if job is None:
            if await is_over(jobs):
                return
            await anyio.sleep(0.002)
            continue
        done = {event.step for event in await journal.load(job.run)}
        number = int(job.job[-12:], 16) - 1000
        for step in range(steps):
            if f"s{step}" not in done:
                note("called", number, step)
                event = StepFinished(at=1.0, step=f"s{step}", status="ok", output=step)
                message = outgoing(number * 100 + step, job=number)
                await journal.append(job.run, [event], OutboxWrites(messages=(message,)))
                note("journaled", number, step)
        await jobs.change(JobChange(job.job, "completed"), project_state)

async def publish(jobs):
    while True:
        waiting = await jobs.pending(7)
        for message in waiting:
            note("sent", message.message)
        await jobs.mark_sent([message.message for message in waiting])
        if not waiting:
            if await is_over(jobs):
                return
            await anyio.sleep(0.002)

async def main():
    async with journal_at(place) as journal:
        jobs = jobs_of(journal, outbox_lease=0.2)
        async with anyio.create_task_group() as tasks:
            for _ in range(slots):
                tasks.start_soon(work, journal, jobs)
            tasks.start_soon(publish, jobs)

anyio.run(main)
"""


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the stores are: a file or a database."""
    if request.param == "sqlite":
        return str(tmp_path / "journal.sqlite")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.database()


async def send_jobs(place: str, count: int) -> None:
    async with journal_at(place) as journal:
        jobs = jobs_of(journal)
        async with anyio.create_task_group() as tasks:
            for number in range(count):
                tasks.start_soon(jobs.receive, request_of(number), project_state)


def work_under_kills(place: str, log: Path, seed: int) -> int:
    """Let two daemons work until they are killed at random, and start them anew; return the number
    of kills.
    """
    chance, kills = random.Random(seed), 0  # noqa: S311 - only to choose when to kill
    while True:
        lines = [chance.randrange(5, 60) if kills < 6 else -1 for _ in range(2)]
        workers = [
            PipedCommand(
                "-c", WORKER, place, str(log), str(STEPS), "3", str(count), target=run_python
            )
            for count in lines
        ]
        told = [worker.communicate() for worker in workers]
        ends = [worker.wait() for worker in workers]
        if ends == [0, 0]:
            return kills
        assert set(ends) <= {0, -signal.SIGKILL}, told
        kills += ends.count(-signal.SIGKILL)


@pytest.mark.anyio
async def test_killed_daemons_lose_no_job_repeat_no_journaled_step_and_keep_every_message(
    place: str, tmp_path: Path
) -> None:
    log = tmp_path / "diary"
    await send_jobs(place, JOBS)

    kills = await anyio.to_thread.run_sync(work_under_kills, place, log, 5)

    async with journal_at(place) as journal:
        jobs = jobs_of(journal)
        rows = await jobs.list_jobs()
        assert kills >= 6
        assert [row.state for row in rows] == ["completed"] * JOBS
        for row in rows:
            events = [
                event for event in await journal.load(row.run) if isinstance(event, StepFinished)
            ]
            assert [event.step for event in events] == [f"s{step}" for step in range(STEPS)]
        assert await jobs.pending() == []
        expected = [await expected_messages(row, number) for number, row in enumerate(rows)]
    check_diary(log.read_text(encoding="utf-8").splitlines(), expected)


async def expected_messages(row: JobRow, number: int) -> list[str]:
    """Return the ids of what was told of a job, in its order."""
    steps = [outgoing(number * 100 + step).message for step in range(STEPS)]
    return [f"{number} queued 0 0 0", *steps, f"{number} completed 0 0 0"]


def check_diary(lines: Sequence[str], expected: Sequence[Sequence[str]]) -> None:
    journaled, sent = set[tuple[str, ...]](), dict[str, int]()
    for place, line in enumerate(lines):
        match line.split(" ", 1):
            case ["called", what]:
                assert (what,) not in journaled, f"step {what} was called again"
            case ["journaled", what]:
                journaled.add((what,))
            case ["sent", message]:
                sent.setdefault(message, place)
            case _:
                raise AssertionError(line)
    assert set(sent) == {message for messages in expected for message in messages}
    for messages in expected:
        assert sorted(messages, key=lambda message: sent[message]) == list(messages)


# Claims a job as if on another machine, says so and is frozen. When it wakes up it tries to go on.
FROZEN = """
import os, signal, sys
import anyio
from tests.engine.service.job_store.open_stores import jobs_of, journal_at
from tests.executor.event_examples import step_finished
from tests.engine.service.job_store.job_examples import outgoing, project_state
from wavewright.executor.store import leases
from wavewright.engine.service.job_store.records import JobChange
from wavewright.engine.service.job_store.outbox_writes import OutboxWrites
from wavewright.executor.store.errors import RunLost

leases.current_pid_namespace = lambda: "another machine"

async def main():
    async with journal_at(sys.argv[1], lease=0.3) as journal:
        jobs = jobs_of(journal)
        job = await jobs.claim()
        print("claimed", job.job, flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
        for late in (
            lambda: jobs.change(JobChange(job.job, "failed"), project_state),
            lambda: journal.append(job.run, [step_finished("late")], OutboxWrites(messages=(outgoing(9),))),
        ):
            try:
                await late()
            except RunLost as error:
                print("refused", error.message, flush=True)
            else:
                print("written", flush=True)

anyio.run(main)
"""


@pytest.mark.anyio
async def test_a_frozen_daemon_that_wakes_up_late_writes_nothing_more(place: str) -> None:
    await send_jobs(place, 1)
    with PipedCommand("-c", FROZEN, place, target=run_python) as frozen:
        assert frozen.stdout.readline() == f"claimed {job_id(0)}\n"
        async with journal_at(place) as journal:
            jobs = jobs_of(journal)
            job = await jobs.claim()
            while job is None:
                await anyio.sleep(0.02)
                job = await jobs.claim()
            await journal.append(job.run, [step_finished("here")])
            os.kill(frozen.pid, signal.SIGCONT)
            late = frozen.stdout.readlines()

            row = await jobs.find_job(job.job)
            assert row is not None
            assert (row.state, row.attempts) == ("running", 2)
            assert await journal.load(job.run) == [step_finished("here")]
    assert len(late) == 2
    assert all(
        line.startswith(f"refused run {job.run} was taken over by pid {os.getpid()}")
        for line in late
    )


RUNS, RUN_STEPS = 40, 60

# Removes all that may be removed, says so of each run, and kills itself in the middle of the
# transaction of one.
REMOVER = """
import os, signal, sys
import anyio, asyncpg
from tests.engine.service.job_store.open_stores import journal_at
from wavewright.engine.service.job_store.message_retention import RUN_OF_OPEN_JOB
from wavewright.executor.store.retention import RunRemoval, remove_groups
from wavewright.executor.sqlite.transaction import SqliteStatements

place, left = sys.argv[1], int(sys.argv[2])
sqlite_execute, execute = SqliteStatements.execute, asyncpg.Connection.execute

def count(statement):
    global left
    left -= statement.startswith(("DELETE FROM run", "DELETE FROM event"))
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

async def counted_sqlite_execute(self, statement, *values):
    count(statement)
    return await sqlite_execute(self, statement, *values)

async def counted_execute(self, statement, *values, **options):
    count(statement)
    return await execute(self, statement, *values, **options)

SqliteStatements.execute, asyncpg.Connection.execute = counted_sqlite_execute, counted_execute

async def main():
    async with journal_at(place) as journal:
        async for removed in remove_groups(RunRemoval(journal, RUN_OF_OPEN_JOB), 100.0):
            print(*removed.runs, flush=True)

anyio.run(main)
"""


def events_without_a_run(place: str, request: pytest.FixtureRequest) -> object:
    asked = (
        "SELECT count(*) FROM {0}event WHERE NOT EXISTS (SELECT 1 FROM {0}run WHERE no = event.run)"
    )
    if is_url(place):
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.fetch(asked.format("wavewright."), place)[0][0]
    with closing(sqlite3.connect(place)) as connection:
        return connection.execute(asked.format("")).fetchone()[0]


@pytest.mark.anyio
@pytest.mark.parametrize("kills_at", [1, 2, 31])
async def test_a_killed_removal_leaves_every_run_whole_or_gone_and_is_ended_by_the_next(
    place: str, kills_at: int, request: pytest.FixtureRequest
) -> None:
    runs = [RunId(f"20261101-0000{number:02}-aaaaaa") for number in range(RUNS)]
    async with journal_at(place) as journal:
        for run in runs:
            steps = [
                step_finished(f"s{number}", key=f"{run} {number}") for number in range(RUN_STEPS)
            ]
            await journal.append(run, [run_started(run), *steps, run_finished()])
            await journal.close_run(run)

    killed = run_prepared_python("-c", REMOVER, place, str(kills_at))

    told = {RunId(run) for run in killed.stdout.split()}
    assert killed.returncode == -signal.SIGKILL
    assert events_without_a_run(place, request) == 0
    async with journal_at(place) as journal:
        left = {row.run for row in await journal.list_runs()}
        lengths = {run: len(await journal.load(run)) for run in runs}
        assert lengths == {run: RUN_STEPS + 2 if run in left else 0 for run in runs}
        assert told.isdisjoint(left)
        assert left
        assert {
            run
            async for one in remove_groups(RunRemoval(journal, RUN_OF_OPEN_JOB), 100.0)
            for run in one.runs
        } == left
    assert events_without_a_run(place, request) == 0
