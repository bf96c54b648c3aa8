"""Killed while it removes runs, a process leaves each of them whole or gone."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.executor.event_examples import run_finished, run_started, step_finished
from tests.executor.open_stores import journal_at
from tests.support.postgres import PostgresServer
from tests.support.prepared_command import run_prepared_python
from wavewright.config.value_types import is_url
from wavewright.executor.store.retention import RunRemoval, remove_groups
from wavewright.planner.types import RunId

RUNS, STEPS = 40, 60

# Removes all that may be removed, says so of each run, and kills itself in the middle of the transaction of one.
WORKER = """
import os, signal, sys
import anyio, asyncpg
from tests.executor.open_stores import journal_at
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
        async for removed in remove_groups(RunRemoval(journal), 100.0):
            print(*removed.runs, flush=True)

anyio.run(main)
"""


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the journal is: a file or a database."""
    if request.param == "sqlite":
        return str(tmp_path / "journal.sqlite")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.database()


def events_without_a_run(place: str, request: pytest.FixtureRequest) -> object:
    asked = "SELECT count(*) FROM {0}event WHERE NOT EXISTS (SELECT 1 FROM {0}run WHERE no = event.run)"
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
            steps = [step_finished(f"s{number}", key=f"{run} {number}") for number in range(STEPS)]
            await journal.append(run, [run_started(run), *steps, run_finished()])
            await journal.close_run(run)

    killed = run_prepared_python("-c", WORKER, place, str(kills_at))

    told = {RunId(run) for run in killed.stdout.split()}
    assert killed.returncode == -signal.SIGKILL
    assert events_without_a_run(place, request) == 0
    async with journal_at(place) as journal:
        left = {row.run for row in await journal.list_runs()}
        lengths = {run: len(await journal.load(run)) for run in runs}
        assert lengths == {run: STEPS + 2 if run in left else 0 for run in runs}
        assert told.isdisjoint(left)
        assert left
        assert {run async for one in remove_groups(RunRemoval(journal), 100.0) for run in one.runs} == left
    assert events_without_a_run(place, request) == 0
