"""The tables are made whole or not at all, and those of another format are left as they are."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import anyio
import asyncpg
import pytest

from tests.executor.event_examples import run_finished, run_started, step_finished
from tests.executor.postgres.journal_helpers import until
from tests.executor.sqlite.inline_store import InlineEventStore
from tests.support.postgres import PostgresServer
from wavewright.executor.postgres import schema
from wavewright.executor.postgres.journal import PostgresBudgetStore, PostgresJournal
from wavewright.executor.store.errors import JournalNotOpened
from wavewright.planner.types import RunId

pytestmark = pytest.mark.anyio

RUN = RunId("20261121-231907-3f2a7c")


NAMES = """
    SELECT table_name::text, column_name::text, data_type::text, is_nullable::text, column_default::text
    FROM information_schema.columns WHERE table_schema = 'wavewright' ORDER BY 1, 2"""


def tables(postgres: PostgresServer, url: str) -> list[tuple[object, ...]]:
    return postgres.fetch(
        "SELECT tablename::text FROM pg_tables WHERE schemaname = 'wavewright' ORDER BY 1", url
    )


async def test_what_is_beside_the_events_has_the_same_columns_in_a_database_as_in_a_file(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url, path = postgres.database(), tmp_path / "journal.sqlite"
    async with PostgresJournal(url):
        pass
    InlineEventStore(path).close()
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
    assert differing == {"run", "session", "format", "result", "indexed"}


async def test_a_connection_that_breaks_while_the_tables_are_made_leaves_none_and_they_are_made_anew(
    postgres: PostgresServer,
) -> None:
    url = postgres.database()
    other = await asyncpg.connect(url)
    await other.execute(
        "CREATE SCHEMA wavewright; BEGIN; CREATE TABLE wavewright.decision (mine text)"
    )

    async def open_it() -> None:
        async with PostgresJournal(url):
            pass

    async with anyio.create_task_group() as group:
        group.start_soon(open_it)
        # All tables but the last are made, in a transaction that waits for the other's end.
        await until(lambda: bool(postgres.fetch(_WAITING, url)))
        assert tables(postgres, url) == []
        postgres.run("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted", url)
        await other.execute("ROLLBACK")
        await other.close()
    assert ("decision",) in tables(postgres, url)


_WAITING = "SELECT pid FROM pg_locks WHERE NOT granted"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param("UPDATE format SET format = 99", "made by a newer wavewright", id="newer"),
        pytest.param("UPDATE format SET format = 1", "made before the first release", id="older"),
        pytest.param("UPDATE format SET format = 0", "does not say which format it has", id="none"),
        pytest.param("DELETE FROM format", "does not say which format it has", id="empty"),
        pytest.param(
            "ALTER TABLE format RENAME format TO mine", "of another program", id="other columns"
        ),
        pytest.param(
            "ALTER TABLE format ALTER format TYPE text", "of another program", id="other type"
        ),
    ],
)
async def test_a_format_that_is_not_known_is_refused_and_left_as_it_is(
    postgres: PostgresServer, change: str, message: str
) -> None:
    url = postgres.database()
    async with PostgresJournal(url):
        pass
    postgres.run(f"SET search_path TO wavewright; {change}", url)
    before = [postgres.fetch(query, url) for query in (NAMES, "SELECT * FROM wavewright.format")]

    for store in (PostgresJournal(url), PostgresBudgetStore(url)):
        with pytest.raises(JournalNotOpened, match=message):
            await store.__aenter__()

    assert [
        postgres.fetch(query, url) for query in (NAMES, "SELECT * FROM wavewright.format")
    ] == before


def test_every_format_since_the_first_release_has_a_migration() -> None:
    assert sorted(schema.MIGRATIONS) == [*range(schema.FIRST_RELEASED_FORMAT, schema.FORMAT)]


async def test_tables_of_format_8_get_those_of_schedules_and_what_jobs_are_found_by(
    postgres: PostgresServer,
) -> None:
    url = postgres.database()
    async with PostgresJournal(url) as journal:
        for run in ("run-1", "run-2"):
            started = replace(run_started(run, job="paper"), goal={"origin": "jobs/päper.yaml"})
            await journal.append(RunId(run), [started, run_finished()])
    made = postgres.fetch(NAMES, url)
    postgres.run(
        """SET search_path TO wavewright; DROP TABLE schedule, schedule_instant, notice, notice_rule;
           DELETE FROM run_label WHERE kind = 'goal'; UPDATE format SET format = 8""",
        url,
    )

    async with PostgresJournal(url) as journal:
        rows = await journal.list_achieved("paper", "jobs/päper.yaml", limit=9)

    assert [row.run for row in rows] == ["run-2", "run-1"]
    assert postgres.fetch(NAMES, url) == made


async def test_tables_of_the_release_before_are_migrated_when_they_are_opened(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.database()
    async with PostgresJournal(url) as journal:
        await journal.append(RUN, [step_finished("a")])
        before = await journal.load(RUN)
    addition = {schema.FORMAT: "ALTER TABLE run ADD COLUMN note text"}
    monkeypatch.setattr(schema, "MIGRATIONS", {**schema.MIGRATIONS, **addition})
    monkeypatch.setattr(schema, "FORMAT", schema.FORMAT + 1)

    async with PostgresJournal(url) as journal:
        assert await journal.load(RUN) == before

    assert postgres.fetch("SELECT note FROM wavewright.run", url) == [(None,)]
    assert postgres.fetch("SELECT format FROM wavewright.format", url) == [(schema.FORMAT,)]
