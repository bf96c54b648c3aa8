"""A database is made a journal once, and whatever keeps it from being one is told, without its
password.
"""

from __future__ import annotations

from typing import NoReturn
from urllib.parse import urlsplit

import anyio
import asyncpg
import pytest

from tests.executor.event_examples import run_started
from tests.executor.postgres.journal_helpers import OTHER, RUN, steps, until
from tests.support.postgres import PASSWORD, OwnServer, PostgresServer
from wavewright.executor.postgres.driver import display_url
from wavewright.executor.postgres.journal import PostgresEventStore, PostgresJournal
from wavewright.executor.postgres.schema import FORMAT, LOCK
from wavewright.executor.store.errors import JournalError, JournalNotOpened, JournalNotWritten

pytestmark = pytest.mark.anyio


async def test_journals_opened_at_once_make_the_tables_once(postgres: PostgresServer) -> None:
    url = postgres.database()

    async def open_it() -> None:
        async with PostgresJournal(url):
            pass

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(open_it)

    assert postgres.fetch("SELECT format FROM wavewright.format", url) == [(FORMAT,)]


async def test_whoever_only_reads_leaves_no_trace_of_an_owner(postgres: PostgresServer) -> None:
    url = postgres.database()
    async with PostgresJournal(url) as journal:
        await journal.list_runs()
        await journal.load(RUN)

        assert postgres.fetch("SELECT count(*) FROM wavewright.session", url) == [(0,)]


async def test_a_closed_journal_leaves_no_trace_of_an_owner(postgres: PostgresServer) -> None:
    url = postgres.database()
    async with PostgresJournal(url) as journal:
        await journal.open_run(RUN)

    assert postgres.fetch("SELECT count(*) FROM wavewright.session", url) == [(0,)]


async def test_a_newer_format_is_refused_and_left_as_it_is(postgres: PostgresServer) -> None:
    url = postgres.database()
    async with PostgresJournal(url):
        pass
    postgres.run("UPDATE wavewright.format SET format = format + 1", url)

    assert await refusal(url) == (
        f"the journal has format {FORMAT + 1}, made by a newer wavewright; this one reads format {FORMAT}\n"
        f"  --> {display_url(url)}\n"
        "  = help: upgrade wavewright, or name another database; this one was left as it is"
    )
    assert postgres.fetch("SELECT format FROM wavewright.format", url) == [(FORMAT + 1,)]


async def test_a_schema_of_another_program_is_left_alone(postgres: PostgresServer) -> None:
    url = postgres.database()
    postgres.run("CREATE SCHEMA wavewright; CREATE TABLE wavewright.run (mine text)", url)

    assert "has a schema 'wavewright' of another program" in await refusal(url)


async def refusal(url: str) -> str:
    with pytest.raises(JournalError) as caught:
        async with PostgresJournal(url):
            pass
    return str(caught.value)


async def test_a_server_that_is_not_there_is_told_at_once(postgres: PostgresServer) -> None:
    assert await refusal("postgresql://ada:geheimnis@127.0.0.1:1/notes") == (
        "the database cannot be reached: no server listens there\n"
        "  --> postgresql://ada@127.0.0.1:1/notes\n"
        "  = help: start the server or fix the network, then resume; all that was journaled before is safe"
    )


async def test_a_certificate_that_is_not_there_is_told(postgres: PostgresServer) -> None:
    told = await refusal(f"{postgres.database()}?sslmode=verify-full&sslrootcert=/none/ca.pem")

    assert "a file that its address names is not there: a certificate" in told


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (
            "sslmode=maybe",
            "an option of the address cannot be used: `sslmode` parameter must be one of",
        ),
        (
            "sslmode=verify-full",
            "an option of the address cannot be used: root certificate file",
        ),
        ("sslmode=require", "no encrypted connection was made"),
        (
            "colour=red",
            'refuses an option of the address: unrecognized configuration parameter "colour"',
        ),
    ],
)
async def test_an_option_of_the_address_that_is_wrong_is_told(
    postgres: PostgresServer, option: str, told: str
) -> None:
    assert told in await refusal(f"{postgres.url}?{option}")


async def test_the_server_that_answers_is_used_of_several(postgres: PostgresServer) -> None:
    url = postgres.database().replace("@127", "@127.0.0.1:1,127")

    async with PostgresJournal(url) as journal:
        assert await journal.list_runs() == []
    assert ",127.0.0.1:" in display_url(url)


async def test_a_database_that_is_not_there_is_told(postgres: PostgresServer) -> None:
    assert "there is no such database on the server" in await refusal(postgres.url_of("nobody"))


async def test_a_user_who_may_make_nothing_is_told_what_to_ask_for(own_postgres: OwnServer) -> None:
    url = own_postgres.database()
    guarded = own_postgres.url_of(url.rpartition("/")[2], user="guarded", password=PASSWORD)

    told = await refusal(guarded)

    assert "may not make or use the journal's tables" in told
    assert "GRANT CREATE ON DATABASE" in told


async def test_a_standby_is_told_apart(postgres: PostgresServer) -> None:
    url = postgres.database()
    async with PostgresJournal(url):
        pass
    postgres.run(
        f"ALTER DATABASE {url.rpartition('/')[2]} SET default_transaction_read_only = on", url
    )

    async with PostgresJournal(url) as journal:
        with pytest.raises(JournalNotWritten, match="the database is read-only"):
            await journal.open_run(RUN)
        assert await journal.list_runs() == []


async def test_no_message_shows_the_password(own_postgres: OwnServer) -> None:
    wrong = own_postgres.url_of("postgres", user="guarded", password="another-secret-word")  # noqa: S106
    odd = "postgresql://ada:pass@word@[::1/notes"

    told = [await refusal(wrong), await refusal(odd), repr(PostgresEventStore(wrong))]

    assert "refuses the user or the password" in told[0]
    assert "the address of the database is faulty" in told[1]
    assert [text for text in told if "another-secret" in text or "pass@word" in text] == []


@pytest.mark.parametrize(
    ("url", "place"),
    [
        (
            "postgresql://ada:pw@db.example:5433/notes?sslmode=require&password=pw",
            "ada@db.example:5433/notes",
        ),
        ("postgres://db.example/notes", "db.example/notes"),
        ("postgresql://ada:p%40w@[::1]/notes", "ada@[::1]/notes"),
        ("postgresql:///notes?host=/run/postgresql", "/notes"),
        ("postgresql://ada:12/pw@db.example/notes", "…"),
    ],
)
def test_an_address_is_shown_without_what_is_secret(url: str, place: str) -> None:
    assert display_url(url) == f"postgresql://{place}"


async def test_who_makes_tables_waits_for_whoever_makes_them_already(
    postgres: PostgresServer,
) -> None:
    url = postgres.database()
    async with anyio.create_task_group() as group:
        other = await asyncpg.connect(url)
        await other.execute(f"SELECT pg_advisory_lock({LOCK})")

        async def open_it() -> None:
            async with PostgresJournal(url):
                pass

        group.start_soon(open_it)
        await until(lambda: postgres.fetch("SELECT 1 FROM pg_locks WHERE NOT granted", url) != [])
        assert postgres.fetch("SELECT to_regclass('wavewright.format')", url) == [(None,)]
        await other.close()

    assert postgres.fetch("SELECT format FROM wavewright.format", url) == [(FORMAT,)]


async def test_a_closed_journal_says_so(postgres: PostgresServer) -> None:
    journal = PostgresJournal(postgres.database())
    await journal.aclose()

    with pytest.raises(JournalError, match="the journal is closed"):
        journal.append(RUN, [run_started(RUN)])
    with pytest.raises(JournalError, match="the journal is closed"):
        await journal.load(RUN)


async def test_a_fault_of_its_own_is_told_to_everybody_who_waits(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with PostgresJournal(postgres.database()) as journal:
        await journal.append(RUN, [run_started(RUN)])

        async def break_down(*_: object) -> NoReturn:
            raise ZeroDivisionError

        monkeypatch.setattr(journal.store, "_write_at_once", break_down)
        first, second = journal.append(RUN, steps(1)), journal.append(OTHER, steps(1))
        with pytest.raises(JournalError, match="stopped at an error of its own: ZeroDivisionError"):
            await first
        with pytest.raises(JournalError, match="ZeroDivisionError"):
            await second
        with pytest.raises(JournalError, match="ZeroDivisionError"):
            await journal.load(RUN)


async def test_a_database_that_takes_no_writes_is_refused_by_who_must_write(
    postgres: PostgresServer,
) -> None:
    """Who reads is shown what it holds."""
    url = postgres.database()
    name = urlsplit(url).path[1:]
    async with PostgresJournal(url) as journal:
        await journal.append(RUN, [run_started(RUN)])
        await journal.close_run(RUN)
        await journal.check_writable()
    postgres.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")

    async with PostgresJournal(url) as journal:
        assert [row.run for row in await journal.list_runs()] == [RUN]
        with pytest.raises(JournalNotOpened, match="the database is read-only"):
            await journal.check_writable()
