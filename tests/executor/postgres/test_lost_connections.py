"""Connections that break and servers that go away: nothing that was reported is lost, nothing is
written twice.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.executor.event_examples import run_finished, run_started
from tests.executor.postgres.journal_helpers import (
    RUN,
    all_at_once,
    breaking_connections,
    each_lost_in_turn,
    seen_from_outside,
    steps,
    until,
)
from tests.support.lossy_proxy import LossyLine
from tests.support.postgres import OwnServer, PostgresServer
from wavewright.executor.postgres.driver import display_url
from wavewright.executor.postgres.journal import PostgresJournal
from wavewright.executor.store.errors import JournalNotWritten

pytestmark = pytest.mark.anyio


async def test_a_transaction_whose_answer_was_lost_is_not_made_again(
    postgres: PostgresServer,
) -> None:
    url = postgres.database()
    with LossyLine(url) as line:
        async with PostgresJournal(line.url) as journal:
            await journal.append(RUN, [run_started(RUN)])
            line.hold("answers")
            append = asyncio.ensure_future(journal.append(RUN, steps(2)))
            await until(line.kept_back.is_set)
            line.cut_clients()
            await append
            await journal.append(RUN, steps(1, start=2))

    assert await seen_from_outside(url) == [run_started(RUN), *steps(3)]


async def test_the_end_of_a_run_whose_answer_was_lost_is_noted_once(
    postgres: PostgresServer,
) -> None:
    url = postgres.database()
    with LossyLine(url) as line:
        async with PostgresJournal(line.url) as journal:
            await journal.append(RUN, [run_started(RUN), *steps(2)])
            count = 0
            async for answers in each_lost_in_turn(line):
                append = asyncio.ensure_future(journal.append(RUN, [run_finished()]))
                await answers.lose(append)
                await append
                count += 1
            (row,) = await journal.list_runs()
            events = await journal.load(RUN)

    assert count
    assert (row.status, row.steps) == ("achieved", 2)
    assert events == [run_started(RUN), *steps(2), *[run_finished()] * count]


async def test_a_transaction_that_was_lost_on_the_way_is_made_again(
    postgres: PostgresServer,
) -> None:
    url = postgres.database()
    with LossyLine(url) as line:
        async with PostgresJournal(line.url) as journal:
            await journal.append(RUN, [run_started(RUN)])
            line.hold("requests")
            append = asyncio.ensure_future(journal.append(RUN, steps(2)))
            await until(line.kept_back.is_set)
            line.cut_clients()
            await append

    assert await seen_from_outside(url) == [run_started(RUN), *steps(2)]


async def test_a_request_that_arrives_after_it_was_repeated_changes_nothing(
    postgres: PostgresServer,
) -> None:
    url = postgres.database()
    with LossyLine(url) as line:
        async with PostgresJournal(line.url) as journal:
            await journal.append(RUN, [run_started(RUN)])
            line.hold("requests")
            append = asyncio.ensure_future(journal.append(RUN, steps(2)))
            await until(line.kept_back.is_set)
            line.cut_clients()
            await append
            line.let_through()
            # The late request has been answered once its connection is gone.
            await until(lambda: len(postgres.fetch(_CONNECTIONS, url)) == 1)
            await journal.append(RUN, steps(1, start=2))

    assert await seen_from_outside(url) == [run_started(RUN), *steps(3)]


_CONNECTIONS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


async def test_connections_that_break_all_the_time_lose_and_repeat_nothing(
    postgres: PostgresServer,
) -> None:
    url = postgres.database()
    async with PostgresJournal(url) as journal:
        await journal.append(RUN, [run_started(RUN)])
        async with breaking_connections(postgres, url) as note_progress:
            for event in steps(40):
                await journal.append(RUN, [event])
                note_progress()

    assert await seen_from_outside(url) == [run_started(RUN), *steps(40)]


@pytest.mark.parametrize(
    "is_killed", [pytest.param(False, id="stopped"), pytest.param(True, id="killed")]
)
async def test_a_server_that_is_started_again_is_waited_for(
    own_postgres: OwnServer,
    is_killed: bool,  # noqa: FBT001
) -> None:
    url = own_postgres.database()
    async with PostgresJournal(url) as journal:
        appends = [journal.append(RUN, [event]) for event in steps(20)]
        if is_killed:
            own_postgres.kill()
        else:
            own_postgres.stop()
        appends += [journal.append(RUN, [event]) for event in steps(20, start=20)]
        own_postgres.start()
        await all_at_once(*appends)
        await journal.append(RUN, steps(1, start=40))

    assert await seen_from_outside(url) == steps(41)


async def test_a_server_that_stays_away_fails_the_run_until_it_is_opened_again(
    own_postgres: OwnServer,
) -> None:
    url = own_postgres.database()
    async with PostgresJournal(url, patience=0.1) as journal:
        await journal.append(RUN, steps(1))
        own_postgres.stop()
        with pytest.raises(JournalNotWritten, match="the database cannot be reached") as caught:
            await journal.append(RUN, steps(1, start=1))
        own_postgres.start()
        with pytest.raises(JournalNotWritten):
            await journal.append(RUN, steps(1, start=2))
        await journal.open_run(RUN)
        await journal.append(RUN, steps(1, start=1))

        assert await journal.load(RUN) == steps(2)
    assert caught.value.place == display_url(url)
    assert "start the server" in str(caught.value.hint)


@pytest.mark.anyio
async def test_a_statement_that_the_database_ends_is_no_lock(postgres: PostgresServer) -> None:
    url = f"{postgres.database()}?statement_timeout=200"
    async with PostgresJournal(url) as journal:
        with pytest.raises(JournalNotWritten, match="ended a statement before it was done"):
            await journal.read(lambda transaction: transaction.fetch("SELECT pg_sleep(2)"))
