"""The journal in a file: what is reported is on the disk, in order, and never rewritten."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import stat
import threading
from collections.abc import Awaitable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings, strategies as st

from tests.executor.event_examples import any_event, run_finished, run_started, step_finished
from tests.executor.sqlite.inline_store import InlineEventStore
from wavewright.executor.events.types import Event, StepFinished
from wavewright.executor.sqlite import transaction as sqlite_dialect
from wavewright.executor.sqlite.event_store import SqliteEventStore
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.executor.sqlite.schema import APPLICATION_ID, FORMAT
from wavewright.executor.sqlite.transaction import JournalReader
from wavewright.executor.store.entries import append_entry
from wavewright.executor.store.errors import JournalError, JournalNotOpened, JournalNotWritten
from wavewright.planner.types import Json, RunId, StepKey

RUN = RunId("20261121-231907-3f2a7c")
OTHER = RunId("20261121-231908-b00b1e")

in_place_and_beside = pytest.mark.parametrize(
    "quick", [pytest.param(0.0, id="beside-the-loop"), pytest.param(60.0, id="in-place")]
)


def _seen_from_outside(path: Path, run: RunId = RUN) -> list[Event]:
    with JournalReader.open(path) as reader:
        return reader.load(run)


@in_place_and_beside
@pytest.mark.anyio
async def test_what_an_append_reported_is_seen_by_every_other_program(
    tmp_path: Path, quick: float
) -> None:
    path = tmp_path / "j.db"
    expected = list[Event]()
    async with SqliteJournal(path, quick=quick) as journal:
        for event in (run_started(RUN), step_finished("a"), run_finished()):
            await journal.append(RUN, [event])
            expected.append(event)

            assert _seen_from_outside(path) == expected


@pytest.mark.anyio
async def test_a_journal_opened_again_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    for step in "abc":
        async with SqliteJournal(path) as journal:
            await journal.append(RUN, [step_finished(step)])

    assert _seen_from_outside(path) == [step_finished(step) for step in "abc"]


@pytest.mark.anyio
async def test_appends_that_nobody_awaited_are_written_before_the_journal_closes(
    tmp_path: Path,
) -> None:
    async with SqliteJournal(tmp_path / "j.db") as journal:
        for step in "abc":
            journal.append(RUN, [step_finished(step)])

    assert _seen_from_outside(tmp_path / "j.db") == [step_finished(step) for step in "abc"]


@pytest.mark.anyio
async def test_appends_of_one_tick_share_a_commit(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    async with SqliteJournal(path) as journal:
        await journal.open_run(RUN)
        with closing(sqlite3.connect(path)) as outside:
            before = outside.execute("PRAGMA data_version").fetchone()
            async with anyio.create_task_group() as tasks:
                for number in range(50):
                    tasks.start_soon(_append, journal, step_finished(f"s{number}"))
            log = path.with_name("j.db-wal").read_bytes()
            after = outside.execute("PRAGMA data_version").fetchone()

    assert before != after
    assert _commits_since_the_last_copy(log) == 2  # The owner's claim, and all fifty steps.


@pytest.mark.anyio
async def test_a_burst_after_lone_appends_costs_one_commit_more(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    async with SqliteJournal(path, quick=60.0) as journal:
        await journal.open_run(RUN)
        for step in "abc":
            await journal.append(RUN, [step_finished(step)])
            await anyio.lowlevel.checkpoint()
        before = _commits_since_the_last_copy(path.with_name("j.db-wal").read_bytes())
        async with anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(_append, journal, step_finished(f"s{number}"))
        after = _commits_since_the_last_copy(path.with_name("j.db-wal").read_bytes())

    assert after - before == 2
    assert len(_seen_from_outside(path)) == 53


async def _append(journal: SqliteJournal, event: Event) -> None:
    await journal.append(RUN, [event])


def _commits_since_the_last_copy(log: bytes) -> int:
    """Count the frames of SQLite's write-ahead log that end a commit and bear the log's present
    salt.
    """
    page, salt = int.from_bytes(log[8:12], "big"), log[16:24]
    frames = (log[at : at + 24] for at in range(32, len(log), 24 + page))
    return sum(frame[8:16] == salt and frame[4:8] != bytes(4) for frame in frames)


@pytest.mark.anyio
async def test_the_loop_runs_on_while_a_commit_waits(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    async with SqliteJournal(path) as journal:
        await journal.append(RUN, [run_started(RUN)])
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            appended = asyncio.ensure_future(journal.append(RUN, [step_finished("a")]))
            for _ in range(20):
                await anyio.sleep(0.001)
            assert not appended.done()
            other.execute("COMMIT")
        with anyio.fail_after(5):
            await appended


@pytest.mark.anyio
async def test_a_cancelled_wait_loses_nothing_and_disturbs_nobody(tmp_path: Path) -> None:
    async with SqliteJournal(tmp_path / "j.db", quick=0) as journal:
        await journal.open_run(RUN)
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                tasks.start_soon(_append, journal, step_finished("b"))
                scope.cancel()
                await journal.append(RUN, [step_finished("a")])
        loaded = await journal.load(RUN)

    assert sorted(event.step for event in loaded if isinstance(event, StepFinished)) == ["a", "b"]


@given(
    plans=st.lists(
        st.tuples(st.sampled_from((RUN, OTHER)), st.lists(st.booleans(), min_size=1, max_size=6)),
        min_size=1,
        max_size=6,
    ),
    quick=st.sampled_from((0.0, 60.0)),
)
@settings(max_examples=25, deadline=None)
def test_each_run_is_loaded_as_it_was_appended_by_many_at_once(
    plans: list[tuple[RunId, list[bool]]], quick: float
) -> None:
    appended = dict[RunId, list[Event]]()

    async def appender(journal: SqliteJournal, number: int, run: RunId, awaits: list[bool]) -> None:
        for turn, is_awaited in enumerate(awaits):
            event = step_finished(f"{number}_{turn}")
            appended.setdefault(run, []).append(event)
            done = journal.append(run, [event])
            if is_awaited:
                await done
            else:
                await anyio.lowlevel.checkpoint()

    async def body(path: Path) -> None:
        async with SqliteJournal(path, quick=quick) as journal:
            async with anyio.create_task_group() as tasks:
                for number, (run, awaits) in enumerate(plans):
                    tasks.start_soon(appender, journal, number, run, awaits)
            loaded = {run: await journal.load(run) for run in appended}
        assert loaded == appended

    with TemporaryDirectory() as folder:
        asyncio.run(body(Path(folder) / "j.db"))


@given(st.lists(any_event, max_size=8))
@settings(max_examples=25, deadline=None)
def test_any_events_are_loaded_as_they_were_written(events: list[Event]) -> None:
    with TemporaryDirectory() as folder, InlineEventStore(Path(folder) / "j.db") as store:
        assert store.write([append_entry(RUN, events)]) == {}
        assert store.reader.load(RUN) == events


@pytest.mark.anyio
async def test_an_output_is_found_among_thousands_of_events(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    async with SqliteJournal(path) as journal:
        await journal.append(
            RUN, [step_finished(f"s{n}", key=f"k{n}", output=n) for n in range(2500)]
        )
        found = [await journal.find_output(StepKey(f"k{n}")) for n in (0, 1200, 2499)]
        await journal.append(RUN, [step_finished("again", key="k0", output="newer")])
        newest = await journal.find_output(StepKey("k0"))
        absent = await journal.find_output(StepKey("k2500"))

    assert [stored and stored.output for stored in found] == [0, 1200, 2499]
    assert newest is not None
    assert newest.output == "newer"
    assert absent is None


@pytest.mark.anyio
async def test_a_false_row_of_the_index_finds_no_output_of_another_call(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    async with SqliteJournal(path) as journal:
        await journal.append(RUN, [step_finished(f"s{n}", key=f"k{n}", output=n) for n in range(3)])
        with closing(sqlite3.connect(path)) as other:
            other.executescript("""
                INSERT INTO result SELECT 'k0', id FROM event WHERE key = 'k2';
                INSERT INTO result SELECT key, id FROM event WHERE key IS NOT NULL;
                INSERT INTO result SELECT 'absent', id FROM event WHERE key = 'k2';
                UPDATE indexed SET upto = (SELECT max(id) FROM event)""")
        own = await journal.find_output(StepKey("k0"))
        absent = await journal.find_output(StepKey("absent"))

    assert own is not None
    assert (own.output, absent) == (0, None)


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("UPDATE event SET body = '{}'", id="update"),
        pytest.param("DELETE FROM event", id="delete"),
    ],
)
def test_the_database_itself_refuses_to_change_an_event(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "j.db"
    with InlineEventStore(path) as store:
        store.write([append_entry(RUN, [run_started(RUN)])])

    with (
        closing(sqlite3.connect(path)) as other,
        pytest.raises(sqlite3.IntegrityError, match="append-only"),
    ):
        other.execute(statement)


def test_the_file_says_what_it_is_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "of" / "mine" / "journal.db"
    with InlineEventStore(path) as store:
        store.claim(RUN)
        modes = {
            name.name: stat.S_IMODE(name.stat().st_mode)
            for name in (path.parent, *path.parent.iterdir())
        }
    with closing(sqlite3.connect(path)) as other:
        marks = [
            other.execute(f"PRAGMA {mark}").fetchone()[0]
            for mark in ("application_id", "user_version")
        ]

    assert marks == [APPLICATION_ID, FORMAT]
    assert modes == {
        "mine": 0o700,
        "journal.db": 0o600,
        "journal.db-wal": 0o600,
        "journal.db-shm": 0o600,
    }


def test_many_openings_at_once_make_one_journal(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    faults = list[BaseException]()
    start = threading.Barrier(6)

    def run(number: int) -> None:
        start.wait()
        try:
            with InlineEventStore(path) as store:
                store.write([append_entry(RunId(f"run-{number}"), [run_started(f"run-{number}")])])
        except (JournalError, sqlite3.Error) as error:
            faults.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert faults == []
    with JournalReader.open(path) as reader:
        assert {row.run for row in reader.list_runs()} == {f"run-{number}" for number in range(6)}


@pytest.mark.anyio
async def test_an_output_that_is_not_json_is_refused_and_the_run_goes_on(tmp_path: Path) -> None:
    bad: Json = float("nan")
    async with SqliteJournal(tmp_path / "j.db") as journal:
        with pytest.raises(JournalNotWritten, match="step_finished of step 'a'"):
            await journal.append(RUN, [step_finished("a", output=bad)])
        await journal.append(RUN, [step_finished("b")])

        assert await journal.load(RUN) == [step_finished("b")]


@pytest.mark.anyio
async def test_a_closed_journal_says_so(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.db")
    await journal.aclose()

    with pytest.raises(JournalError, match="the journal is closed"):
        journal.append(RUN, [run_finished()])
    with pytest.raises(JournalError, match="the journal is closed"):
        await journal.load(RUN)


def _break_down(*_: object, **__: object) -> NoReturn:
    raise ZeroDivisionError


async def _expect_fault(waiting: Awaitable[object]) -> None:
    with pytest.raises(JournalError, match="stopped at an error of its own: ZeroDivisionError"):
        await waiting


@pytest.mark.anyio
async def test_nobody_waits_for_ever_for_a_writer_that_broke_down(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.db", clock=_break_down)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(_expect_fault, journal.append(RUN, [run_started(RUN)]))
            group.start_soon(_expect_fault, journal.append(OTHER, [run_started(OTHER)]))
            group.start_soon(_expect_fault, journal.load(RUN))
            group.start_soon(_expect_fault, journal.list_runs())
        await _expect_fault(journal.find_run("2"))
        with pytest.raises(JournalError, match="error of its own"):
            journal.append(RUN, [run_finished()])
        await journal.aclose()


@pytest.mark.anyio
async def test_nobody_waits_for_ever_when_the_writer_ends_between_two_orders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    appended = threading.Event()

    def break_down(_: object) -> None:
        appended.wait(5)
        _break_down()

    monkeypatch.setattr(SqliteEventStore, "heartbeat", break_down)
    journal = SqliteJournal(tmp_path / "j.db", lease=0.01)
    with anyio.fail_after(10):
        # Appended before the writer ends, handed over after: the loop does not turn in between.
        waiting = journal.append(RUN, [run_started(RUN)])
        appended.set()
        journal._writer._thread.join()  # pyright: ignore[reportPrivateUsage] - no other way to be sure of the order
        await _expect_fault(waiting)
        await journal.aclose()


@pytest.mark.anyio
async def test_a_lone_append_that_breaks_down_is_told_and_ends_the_run_s_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SqliteJournal(tmp_path / "j.db", quick=float("inf")) as journal:
        # The second one is written on the event loop's thread, since the first came alone.
        await journal.append(RUN, [run_started(RUN)])
        with monkeypatch.context() as patch:
            patch.setattr(SqliteEventStore, "write", _break_down)
            with pytest.raises(JournalError, match="error of its own"):
                await journal.append(RUN, [step_finished("a")])
        with pytest.raises(JournalError, match="error of its own"):
            await journal.append(RUN, [step_finished("b")])

        assert await journal.load(RUN) == [run_started(RUN)]


def test_a_journal_serves_one_event_loop_after_another(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.db")

    async def append(step: str) -> None:
        await journal.append(RUN, [step_finished(step)])

    for step in "ab":
        asyncio.run(append(step))
    journal.close()

    assert _seen_from_outside(tmp_path / "j.db") == [step_finished("a"), step_finished("b")]


def test_a_reader_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(JournalNotOpened, match="there is no journal"):
        JournalReader.open(tmp_path / "none" / "j.db")

    assert list(tmp_path.iterdir()) == []


def test_no_statement_numbers_its_parameters() -> None:
    # Python 3.12.0 to 3.12.3 takes `?1` for a name, and warns of every list of values that is given
    # for it.
    folder = Path(sqlite_dialect.__file__).parent
    numbered = [
        file.name
        for file in folder.glob("*.py")
        if re.search(r"\?[0-9]", file.read_text(encoding="utf-8"))
    ]

    assert numbered == []
