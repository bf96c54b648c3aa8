"""A database of an older format is brought to this one, whole or not at all, and what is not known is never guessed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import asyncpg
import pytest

from tests.executor.job_examples import request_of
from tests.executor.postgres.journal_helpers import RUN, until
from tests.support.postgres import PostgresServer
from wavewright.executor.events.types import Noted, RunFinished
from wavewright.executor.postgres.budget_store import PostgresBudgetStore
from wavewright.executor.postgres.job_store import PostgresJobStore
from wavewright.executor.postgres.journal import PostgresJournal
from wavewright.executor.postgres.schema import FORMAT
from wavewright.executor.sqlite.event_store import SqliteEventStore
from wavewright.executor.store.errors import JournalError, JournalNotOpened
from wavewright.planner.ports.budgets import BudgetScope, Spend
from wavewright.planner.types import StepKey

pytestmark = pytest.mark.anyio


NAMES = """
    SELECT table_name::text, column_name::text, data_type::text, is_nullable::text, column_default::text
    FROM information_schema.columns WHERE table_schema = 'wavewright' ORDER BY 1, 2"""
INDEXES = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'wavewright' ORDER BY 1"
FUNCTIONS = r"""
    SELECT proname::text, regexp_replace(prosrc, '\s+', ' ', 'g') FROM pg_proc
    WHERE pronamespace = 'wavewright'::regnamespace ORDER BY 1"""


@pytest.fixture
def old(postgres: PostgresServer) -> str:
    """A database of format 1."""
    url = postgres.database()
    postgres.run(Path(__file__).with_name("postgres_format_1.sql").read_text(encoding="utf-8"), url)
    return url


def format_of(postgres: PostgresServer, url: str) -> int:
    ((found,),) = postgres.fetch("SELECT format FROM wavewright.format", url)
    assert isinstance(found, int)
    return found


def tables(postgres: PostgresServer, url: str) -> list[tuple[object, ...]]:
    return postgres.fetch(
        "SELECT tablename::text FROM pg_tables WHERE schemaname = 'wavewright' ORDER BY 1", url
    )


def events(postgres: PostgresServer, url: str) -> list[tuple[object, ...]]:
    return postgres.fetch("SELECT * FROM wavewright.event ORDER BY id", url)


async def test_an_older_run_goes_on_in_the_new_format_and_no_event_is_touched(
    postgres: PostgresServer, old: str
) -> None:
    before = events(postgres, old)

    async with PostgresJournal(old) as journal:
        await journal.open_run(RUN)
        await journal.append(RUN, [Noted(1_795_400_000.0, "review", {})])
        loaded = await journal.load(RUN)
        found = await journal.find_output(StepKey("k"))
        (row,) = await journal.list_runs()
        receipt = await PostgresJobStore(journal).receive(request_of(1))

    assert format_of(postgres, old) == FORMAT
    assert events(postgres, old)[:-1] == before
    assert isinstance(loaded[-2], RunFinished)
    assert found is not None
    assert found.output == [1]
    assert row.job == "prices"
    assert receipt.action == "accept"


async def test_a_purse_may_be_the_first_to_open_an_older_database(postgres: PostgresServer, old: str) -> None:
    async with PostgresBudgetStore(old) as purse:
        await purse.reserve(BudgetScope(run=RUN), Spend(tokens=7))

        assert (await purse.left(BudgetScope(run=RUN))).run.spent.tokens == 7
    assert format_of(postgres, old) == FORMAT


async def test_a_new_database_and_one_brought_to_the_format_have_the_same_schema(
    postgres: PostgresServer, old: str
) -> None:
    new = postgres.database()
    for url in (old, new):
        async with PostgresJournal(url):
            pass

    for query in (NAMES, INDEXES, FUNCTIONS):
        assert postgres.fetch(query, old) == postgres.fetch(query, new)


async def test_what_is_beside_the_events_has_the_same_columns_in_a_database_as_in_a_file(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url, path = postgres.database(), tmp_path / "journal.sqlite"
    async with PostgresJournal(url):
        pass
    SqliteEventStore(path).close()
    with closing(sqlite3.connect(path)) as connection:
        in_file = {
            (table, column)
            for (table,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table'"
            ).fetchall()
            for (_, column, *_) in connection.execute(f"PRAGMA table_info({table})").fetchall()
        }
    in_database = {(table, column) for table, column, *_ in postgres.fetch(NAMES, url)}

    # Who has a run open is a table of its own in a database, and outputs need no index of ours.
    differing = {table for table, _ in in_file ^ in_database}
    assert differing == {"run", "opening", "format", "result", "indexed"}


async def test_a_migration_that_cannot_be_finished_leaves_the_database_as_it_was(
    postgres: PostgresServer, old: str
) -> None:
    # Somebody's own table stands where the last one would be made.
    postgres.run("CREATE TABLE wavewright.decision (mine text)", old)
    before = tables(postgres, old)

    with pytest.raises(JournalError, match="decision"):
        await PostgresJournal(old).__aenter__()

    assert format_of(postgres, old) == 1
    assert tables(postgres, old) == before


async def test_a_migration_whose_connection_breaks_in_the_middle_is_made_anew(
    postgres: PostgresServer, old: str
) -> None:
    other = await asyncpg.connect(old)
    await other.execute("BEGIN; CREATE TABLE wavewright.decision (mine text)")

    async def open_it() -> None:
        async with PostgresJournal(old):
            pass

    async with anyio.create_task_group() as group:
        group.start_soon(open_it)
        # All tables but the last are made, in a transaction that waits for the other's end.
        await until(lambda: bool(postgres.fetch(_WAITING, old)))
        assert format_of(postgres, old) == 1
        postgres.run("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted", old)
        await other.execute("ROLLBACK")
        await other.close()
    assert format_of(postgres, old) == FORMAT


_WAITING = "SELECT pid FROM pg_locks WHERE NOT granted"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(
            "UPDATE format SET format = 99", "has format 99, made by a newer wavewright", id="newer"
        ),
        pytest.param("UPDATE format SET format = 0", "does not say which format it has", id="none"),
        pytest.param("DELETE FROM format", "does not say which format it has", id="empty"),
        pytest.param("ALTER TABLE format RENAME format TO mine", "of another program", id="other columns"),
        pytest.param("ALTER TABLE format ALTER format TYPE text", "of another program", id="other type"),
    ],
)
async def test_a_format_that_is_not_known_is_refused_and_left_as_it_is(
    postgres: PostgresServer, old: str, change: str, told: str
) -> None:
    postgres.run(f"SET search_path TO wavewright; {change}", old)
    before = [postgres.fetch(query, old) for query in (NAMES, "SELECT * FROM wavewright.format")]

    for opened in (PostgresJournal(old), PostgresBudgetStore(old)):
        with pytest.raises(JournalNotOpened, match=told):
            await opened.__aenter__()

    assert [postgres.fetch(query, old) for query in (NAMES, "SELECT * FROM wavewright.format")] == before
