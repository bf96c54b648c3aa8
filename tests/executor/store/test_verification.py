"""Whether a run's events are what was written: changes and cuts are seen, in a file and in a
database, by the hash chain.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from functools import partial
from hashlib import sha256
from pathlib import Path

import anyio
import pytest
from hypothesis import given, strategies as st

from tests.executor.event_examples import any_event, run_finished, run_started, step_finished
from tests.support.postgres import PostgresServer
from wavewright.executor.events.codec import encode
from wavewright.executor.events.types import Event, Noted
from wavewright.executor.postgres.journal import PostgresJournal
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.executor.store.errors import EventDamaged
from wavewright.executor.store.journal import Journal, MemoryJournal, RunHead, first_hash, next_hash
from wavewright.executor.store.retention import RunRemoval, remove_groups
from wavewright.executor.store.stored_journal import StoredJournal
from wavewright.executor.store.verification import Breach, VerifiedRun, verify_run
from wavewright.planner.types import RunId

pytestmark = pytest.mark.anyio

RUN = RunId("20261121-231907-3f2a7c")
OTHER = RunId("20261121-231908-b00b1e")
EVENTS: list[Event] = [
    run_started(RUN),
    *(step_finished(f"s{number}") for number in range(4)),
    run_finished(),
]


class StoredRuns:
    """A store with a finished run and another one, and what somebody does to its tables."""

    def __init__(
        self,
        open_journal: Callable[[], StoredJournal],
        change: Callable[[str], None],
        literal: Callable[[str], str],
    ) -> None:
        self.open = open_journal
        self.literal = literal
        """Writes bytes, given as hexadecimal digits, in SQL."""
        self._change = change

    def change(self, statement: str, **values: object) -> None:
        """Change the tables as somebody who drops what protects them."""
        self._change(statement.format(of_run=_OF_RUN, **values))

    async def verified(self, run: RunId = RUN) -> VerifiedRun:
        async with self.open() as journal:
            return await journal.read(partial(verify_run, run=run))


@pytest.fixture(params=["sqlite", "postgres"])
async def stored(request: pytest.FixtureRequest, tmp_path: Path) -> StoredRuns:
    if request.param == "sqlite":
        path = tmp_path / "journal.db"
        runs = StoredRuns(partial(SqliteJournal, path), partial(_change_file, path), "x'{}'".format)
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.database()
        runs = StoredRuns(
            partial(PostgresJournal, url), partial(_change_database, server, url), "'\\x{}'".format
        )
    async with runs.open() as journal:
        await journal.append(OTHER, [run_started(OTHER)])
        for event in EVENTS[:3]:
            await journal.append(RUN, [event])
        await journal.append(RUN, EVENTS[3:])
    return runs


def _change_file(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TRIGGER IF EXISTS event_unchanged")
        connection.execute("DROP TRIGGER IF EXISTS event_kept")
        connection.execute(statement)


def _change_database(server: PostgresServer, url: str, statement: str) -> None:
    server.run("DROP TRIGGER IF EXISTS event_kept ON wavewright.event", url)
    server.run("DROP TRIGGER IF EXISTS event_removed ON wavewright.event", url)
    server.run(f"SET search_path TO wavewright; {statement}", url)


_OF_RUN = "run = (SELECT no FROM run WHERE run = '20261121-231907-3f2a7c')"


async def test_an_untouched_run_is_intact_and_has_the_head_of_its_events(
    stored: StoredRuns,
) -> None:
    verified = await stored.verified()

    assert verified.verdict == "intact"
    assert verified.head == await _head_in_memory(EVENTS)


async def test_the_chain_can_be_computed_by_anybody_from_kinds_and_texts() -> None:
    link = sha256(RUN.encode()).digest()
    for event in EVENTS:
        kind, body = encode(event)
        link = sha256(link + kind.encode() + b"\n" + body.encode()).digest()

    assert await _head_in_memory(EVENTS) == RunHead(len(EVENTS), link.hex())


@pytest.mark.parametrize("seq", range(len(EVENTS)))
async def test_a_changed_text_is_found_at_its_event(stored: StoredRuns, seq: int) -> None:
    stored.change(
        "UPDATE event SET body = replace(body, '\"at\":', '\"at\":1') WHERE {of_run} AND seq = {seq}",
        seq=seq,
    )

    assert (await stored.verified()).breach == Breach("text", seq)


async def test_a_change_with_a_new_hash_is_found_at_the_event_after_it(stored: StoredRuns) -> None:
    kind, body = encode(step_finished("other"))
    link = next_hash(bytes.fromhex((await stored.verified()).hashes[1]), kind, body).hex()
    stored.change(
        "UPDATE event SET body = '{body}', step = 'other', crc = {crc}, hash = {link}"
        " WHERE {of_run} AND seq = 2",
        body=body,
        crc=zlib.crc32(body.encode()),
        link=stored.literal(link),
    )

    assert (await stored.verified()).breach == Breach("text", 3)


@pytest.mark.parametrize(
    "change",
    ["status = 'failed'", "step = 'other'", "at = at + 1", "key = 'other'", "crc = crc + 1"],
)
async def test_a_changed_column_is_found_at_its_event(stored: StoredRuns, change: str) -> None:
    stored.change("UPDATE event SET {change} WHERE {of_run} AND seq = 3", change=change)

    assert (await stored.verified()).breach == Breach("column", 3)


@pytest.mark.parametrize(
    "change",
    [
        "status = 'failed'",
        "status = NULL",
        "job = 'another'",
        "created = created - 1",
        "finished = finished + 1",
        "finished = NULL",
        "steps = 9",
        "ok = 0",
        "failed = 1",
    ],
)
async def test_a_changed_row_of_the_run_is_found(stored: StoredRuns, change: str) -> None:
    stored.change("UPDATE run SET {change} WHERE run = '{run}'", change=change, run=RUN)

    assert (await stored.verified()).breach == Breach("row", len(EVENTS) - 1)


@pytest.mark.parametrize("kind", ["goal", "template", "tag", "gate", "model"])
async def test_a_label_that_the_events_have_not_given_is_found(
    stored: StoredRuns, kind: str
) -> None:
    added = "INSERT INTO run_label (kind, value, run) SELECT '{kind}', 'other', no FROM run WHERE run = '{run}'"
    stored.change(added, kind=kind, run=RUN)

    assert (await stored.verified()).breach == Breach("row", len(EVENTS) - 1)
    assert (await stored.verified(OTHER)).verdict == "intact"


@pytest.mark.parametrize(
    "change", ["DELETE FROM run_label WHERE", "UPDATE run_label SET kind = 'answer' WHERE"]
)
async def test_a_label_that_the_events_have_given_and_that_is_gone_is_found(
    stored: StoredRuns, change: str
) -> None:
    stored.change(change + " kind = 'goal' AND {of_run}")

    assert (await stored.verified()).breach == Breach("row", len(EVENTS) - 1)


async def test_an_event_that_is_missing_within_a_run_is_a_cut(stored: StoredRuns) -> None:
    stored.change("DELETE FROM event WHERE {of_run} AND seq = 2")

    verified = await stored.verified()

    assert (verified.breach, verified.verdict) == (Breach("missing", 2), "cut")


@pytest.mark.parametrize("left", range(len(EVENTS)))
async def test_events_that_are_missing_at_the_end_are_a_cut(stored: StoredRuns, left: int) -> None:
    stored.change("DELETE FROM event WHERE {of_run} AND seq >= {left}", left=left)

    verified = await stored.verified()

    assert (verified.breach, verified.verdict) == (Breach("tail", left), "cut")


async def test_a_run_without_its_head_is_a_cut(stored: StoredRuns) -> None:
    stored.change("DELETE FROM run_head WHERE {of_run}")

    assert (await stored.verified()).breach == Breach("no_head", len(EVENTS))


async def test_a_change_of_one_run_is_none_of_another(stored: StoredRuns) -> None:
    stored.change("UPDATE event SET body = '{{}}' WHERE {of_run}")

    assert (await stored.verified(OTHER)).verdict == "intact"


async def test_a_run_whose_end_was_cut_cannot_be_continued(stored: StoredRuns) -> None:
    stored.change("DELETE FROM event WHERE {of_run} AND seq >= 3")

    async with stored.open() as journal:
        with pytest.raises(EventDamaged, match="not those that were written"):
            await journal.open_run(RUN)


async def test_a_run_that_is_continued_stays_intact(stored: StoredRuns) -> None:
    before = (await stored.verified()).head
    async with stored.open() as journal:
        await journal.open_run(RUN)
        await journal.append(RUN, [Noted(10.0, "resumed", {}), step_finished("s9")])
        await journal.append(RUN, [run_finished(at=11.0)])

    verified = await stored.verified()

    assert verified.verdict == "intact"
    assert verified.head.events == len(EVENTS) + 3
    assert verified.compared_with(before) is None


async def test_a_journal_that_was_rewritten_as_a_whole_differs_from_a_head_kept_elsewhere(
    stored: StoredRuns,
) -> None:
    kept = (await stored.verified()).head
    async with stored.open() as journal:
        forged = RunId("20261121-231909-f0f0f0")
        await journal.append(forged, [*EVENTS[:2], step_finished("other"), *EVENTS[3:]])

    verified = await stored.verified(forged)

    assert verified.verdict == "intact"
    assert verified.compared_with(kept) == Breach("head", len(EVENTS) - 1)
    shorter = RunHead(len(EVENTS) + 1, kept.hash)
    assert verified.compared_with(shorter) == Breach("tail", len(EVENTS))


async def test_a_removed_run_keeps_its_head(stored: StoredRuns) -> None:
    kept = (await stored.verified()).head
    async with stored.open() as journal:
        removed = [one async for one in remove_groups(RunRemoval(journal), before=1e18)]

    verified = await stored.verified()

    assert [one.runs for one in removed] == [(RUN,)]
    assert verified.removed is not None
    assert verified.head == kept
    assert verified.compared_with(kept) is None
    assert verified.compared_with(RunHead(kept.events, "0" * 64)) is not None


@given(st.lists(any_event, max_size=6))
async def test_a_journal_in_memory_has_the_head_of_one_in_a_file(events: list[Event]) -> None:
    in_memory = await _head_in_memory(events)
    link = first_hash(RUN)
    for event in events:
        link = next_hash(link, *encode(event))

    assert in_memory == RunHead(len(events), link.hex())


async def _head_in_memory(events: list[Event]) -> RunHead:
    journal: Journal = MemoryJournal()
    for event in events:
        await journal.append(RUN, [event])
        await journal.head(RUN)
    return await journal.head(RUN)


async def test_runs_that_are_written_at_once_have_a_chain_each(tmp_path: Path) -> None:
    runs = [RunId(f"20261121-231907-{number:06x}") for number in range(20)]
    async with SqliteJournal(tmp_path / "j.db") as journal:

        async def work(run: RunId) -> None:
            await journal.append(run, [run_started(run)])
            for number in range(5):
                await journal.append(run, [step_finished(f"s{number}")])

        async with anyio.create_task_group() as tasks:
            for run in runs:
                tasks.start_soon(work, run)
        verified = [await journal.read(partial(verify_run, run=run)) for run in runs]

    assert [one.verdict for one in verified] == ["intact"] * len(runs)
    assert {one.head.events for one in verified} == {6}
