"""A journal through a real pgbouncer that pools by transaction."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from tests.support.pgbouncer import PROGRAM, pgbouncer
from tests.support.postgres import PostgresServer
from wavewright.engine.main import main
from wavewright.executor.events.types import Noted, RunStarted
from wavewright.executor.fleet.tables import LIVE_WORKERS, open_fleet_database
from wavewright.executor.postgres.driver import display_url
from wavewright.executor.postgres.journal import PostgresBudgetStore, PostgresJournal
from wavewright.executor.store.errors import JournalNotOpened
from wavewright.planner.ports.budgets import BudgetScope
from wavewright.planner.types import RunId

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(
        PROGRAM is None, reason="no pgbouncer here; `make test` installs one where it can"
    ),
]

JOURNALS, EVENTS = 8, 10
"""More journals than the pooler has connections, so that they change between transactions."""


@pytest.fixture
def pooled(postgres: PostgresServer) -> Iterator[str]:
    with (
        tempfile.TemporaryDirectory(prefix="wavewright-pgbouncer-") as home,
        pgbouncer(Path(home), postgres.database()) as url,
    ):
        yield url


async def write(url: str, run: RunId) -> None:
    """Write a run's events, one after the other."""
    async with PostgresJournal(url) as journal:
        await journal.open_run(run)
        await journal.append(run, [RunStarted(run=run, at=0.0, job="job", goal={}, now=0.0)])
        for number in range(EVENTS):
            await journal.append(run, [Noted(float(number), "noted", {"number": number})])
        await journal.close_run(run)


async def test_more_journals_than_connections_write_all_of_their_events(pooled: str) -> None:
    runs = [RunId(f"run-{number}") for number in range(JOURNALS)]
    async with anyio.create_task_group() as group:
        for run in runs:
            group.start_soon(write, pooled, run)

    async with PostgresJournal(pooled) as journal:
        assert {run: len(await journal.load(run)) for run in runs} == dict.fromkeys(
            runs, EVENTS + 1
        )
        assert await journal.is_pooled()


async def test_budgets_are_kept_through_the_pooler(pooled: str) -> None:
    async with PostgresBudgetStore(pooled) as budgets:
        assert (await budgets.left(BudgetScope())).day.spent.calls == 0


async def test_nothing_that_was_set_is_left_behind_for_others(
    pooled: str, postgres: PostgresServer
) -> None:
    await write(pooled, RunId("run"))

    ((path,),) = postgres.fetch("SHOW search_path", pooled)
    assert path == '"$user", public'


async def test_a_fleet_is_refused_where_the_pooler_shares_its_sessions(pooled: str) -> None:
    with pytest.raises(JournalNotOpened, match="over which no fleet can listen") as refused:
        async with open_fleet_database(pooled):
            pass

    assert refused.value.place == display_url(pooled)
    assert "`pool_mode = session`" in str(refused.value.hint)


async def test_a_fleet_works_through_a_pooler_that_gives_each_a_session(
    postgres: PostgresServer,
) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="wavewright-pgbouncer-") as home,
        pgbouncer(Path(home), postgres.database(), size=5, mode="session") as url,
    ):
        async with open_fleet_database(url) as database:
            assert await database.fetch(LIVE_WORKERS, 10.0) == []


async def test_a_direct_connection_keeps_its_prepared_statements(
    postgres: PostgresServer,
) -> None:
    async with PostgresJournal(postgres.database()) as journal:
        assert not await journal.is_pooled()


def test_the_doctor_says_that_a_pooler_is_in_between(
    pooled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WAVEWRIGHT_PG_URL", pooled)
    main(["doctor", "--offline"])

    assert "through a connection pooler: no prepared statements are used" in capfd.readouterr().out
