"""The journal in a database: what is reported is there, in order, and never rewritten."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.executor.event_examples import any_event, run_finished, run_started, step_finished
from tests.executor.postgres.journal_helpers import (
    OTHER,
    RUN,
    all_at_once,
    seen_from_outside,
    steps,
)
from tests.support.postgres import PostgresServer
from wavewright.executor.events.types import Event, StepFinished
from wavewright.executor.postgres.driver import display_url
from wavewright.executor.postgres.journal import PostgresJournal
from wavewright.executor.store.errors import JournalDamaged
from wavewright.planner.types import RunId

pytestmark = pytest.mark.anyio


async def test_what_an_append_reported_is_seen_by_every_other_program(
    postgres: PostgresServer,
) -> None:
    url, expected = postgres.database(), list[Event]()
    async with PostgresJournal(url) as journal:
        for event in (run_started(RUN), step_finished("a"), run_finished()):
            await journal.append(RUN, [event])
            expected.append(event)

            assert await seen_from_outside(url) == expected


async def test_a_journal_opened_again_goes_on_where_it_was(postgres: PostgresServer) -> None:
    url = postgres.database()
    for step in "abc":
        async with PostgresJournal(url) as journal:
            await journal.append(RUN, [step_finished(step)])

    assert await seen_from_outside(url) == [step_finished(step) for step in "abc"]


async def test_appends_that_nobody_awaited_are_written_before_the_journal_closes(
    postgres: PostgresServer,
) -> None:
    url = postgres.database()
    async with PostgresJournal(url) as journal:
        for step in "abc":
            journal.append(RUN, [step_finished(step)])

    assert await seen_from_outside(url) == [step_finished(step) for step in "abc"]


async def test_appends_of_one_tick_share_a_transaction(postgres: PostgresServer) -> None:
    url = postgres.database()
    async with PostgresJournal(url) as journal:
        await journal.open_run(RUN)
        (before,) = postgres.fetch("SELECT transaction_id FROM wavewright.session", url)
        await all_at_once(*(journal.append(RUN, [event]) for event in steps(50)))
        (after,) = postgres.fetch("SELECT transaction_id FROM wavewright.session", url)

    assert (before, after) == ((1,), (2,))
    assert await seen_from_outside(url) == steps(50)


@given(
    plans=st.lists(
        st.tuples(st.sampled_from((RUN, OTHER)), st.lists(st.booleans(), min_size=1, max_size=6)),
        min_size=1,
        max_size=6,
    )
)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_each_run_is_loaded_as_it_was_appended_by_many_at_once(
    postgres: PostgresServer, plans: list[tuple[RunId, list[bool]]]
) -> None:
    appended = dict[RunId, list[Event]]()

    async def appender(
        journal: PostgresJournal, number: int, run: RunId, awaits: list[bool]
    ) -> None:
        for turn, is_awaited in enumerate(awaits):
            event = step_finished(f"{number}_{turn}")
            appended.setdefault(run, []).append(event)
            done = journal.append(run, [event])
            if is_awaited:
                await done
            else:
                await anyio.lowlevel.checkpoint()

    async with PostgresJournal(postgres.database()) as journal:
        async with anyio.create_task_group() as tasks:
            for number, (run, awaits) in enumerate(plans):
                tasks.start_soon(appender, journal, number, run, awaits)
        loaded = {run: await journal.load(run) for run in appended}

    assert loaded == appended


@given(st.lists(any_event, max_size=8))
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_events_are_loaded_as_they_were_written(
    postgres: PostgresServer, events: list[Event]
) -> None:
    async with PostgresJournal(postgres.database()) as journal:
        await journal.append(RUN, events)

        assert await journal.load(RUN) == events
        await journal.list_runs()


async def test_a_cancelled_wait_loses_nothing_and_disturbs_nobody(postgres: PostgresServer) -> None:
    async with PostgresJournal(postgres.database()) as journal:
        await journal.open_run(RUN)
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                tasks.start_soon(all_at_once, journal.append(RUN, [step_finished("b")]))
                scope.cancel()
                await journal.append(RUN, [step_finished("a")])
        loaded = await journal.load(RUN)

    assert sorted(event.step for event in loaded if isinstance(event, StepFinished)) == ["a", "b"]


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("UPDATE wavewright.event SET body = '{}'", id="update"),
        pytest.param("DELETE FROM wavewright.event", id="delete"),
        pytest.param("TRUNCATE wavewright.event", id="truncate"),
    ],
)
async def test_the_database_refuses_to_rewrite_an_event(
    postgres: PostgresServer, statement: str
) -> None:
    url = postgres.database()
    async with PostgresJournal(url) as journal:
        await journal.append(RUN, [run_started(RUN)])

    with pytest.raises(Exception, match="the journal is append-only"):
        postgres.run(statement, url)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(
            "UPDATE wavewright.event SET body = replace(body, 's1', 's9') WHERE seq = 1",
            r"event 1 of run .* \(the checksum differs\)",
            id="altered",
        ),
        pytest.param("DELETE FROM wavewright.event WHERE seq = 1", "event 1 of run .* it is missing", id="missing"),
    ],
)  # fmt: skip
async def test_a_damaged_event_is_told_with_its_place(
    postgres: PostgresServer, damage: str, message: str
) -> None:
    url = postgres.database()
    async with PostgresJournal(url) as journal:
        await journal.append(RUN, steps(3))
        postgres.run(f"SET session_replication_role = replica; {damage}", url)

        with pytest.raises(JournalDamaged, match=message) as caught:
            await journal.load(RUN)

    assert caught.value.place == f"{display_url(url)}, run {RUN}, event 1"
