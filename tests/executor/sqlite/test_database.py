"""A file of another format is refused, and the write-ahead log is no longer than the commits to
come need.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.executor.event_examples import run_finished, run_started, step_finished
from tests.executor.sqlite.inline_store import InlineEventStore
from wavewright.engine.service.schedules.schedule_store import ScheduleStore
from wavewright.executor.sqlite import database
from wavewright.executor.sqlite.journal import SqliteBudgetStore, SqliteJournal
from wavewright.executor.sqlite.schema import FIRST_RELEASED_FORMAT, FORMAT, MIGRATIONS
from wavewright.executor.sqlite.transaction import JournalReader
from wavewright.executor.store.errors import JournalError, JournalNotOpened
from wavewright.planner.types import RunId


@pytest.mark.parametrize(
    ("format_", "age", "hint"),
    [
        (FORMAT + 1, "by a newer wavewright", "upgrade"),
        (FIRST_RELEASED_FORMAT - 1, "before the first release", "the program that made it"),
    ],
)
@pytest.mark.parametrize("opened", [InlineEventStore, SqliteBudgetStore, JournalReader.open])
def test_a_file_of_another_format_is_refused_and_left_as_it_is(
    tmp_path: Path,
    opened: Callable[[Path], object],
    format_: int,
    age: str,
    hint: str,
) -> None:
    path = tmp_path / "journal.sqlite"
    InlineEventStore(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {format_}")
    copy = shutil.copy(path, path.with_suffix(".copy"))

    with pytest.raises(JournalNotOpened) as caught:
        opened(path)

    assert caught.value.message == (
        f"the journal has format {format_}, made {age}; this one reads format {FORMAT}"
    )
    assert hint in str(caught.value.hint)
    assert path.read_bytes() == Path(copy).read_bytes()


def test_every_format_since_the_first_release_has_a_migration() -> None:
    assert sorted(MIGRATIONS) == [*range(FIRST_RELEASED_FORMAT, FORMAT)]


@pytest.mark.anyio
async def test_a_journal_of_format_9_gets_the_tables_of_schedules_and_what_jobs_are_found_by(
    tmp_path: Path,
) -> None:
    path, goal = tmp_path / "journal.sqlite", {"origin": "jobs/päper.yaml"}
    async with SqliteJournal(path) as journal:
        for run in ("run-1", "run-2"):
            started = replace(run_started(run, job="paper"), goal={**goal})
            await journal.append(RunId(run), [started, run_finished()])
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("""
            DROP TABLE schedule_instant; DROP TABLE notice; DROP TABLE notice_rule;
            DELETE FROM run_label WHERE kind = 'goal'; PRAGMA user_version = 9""")
        # As a program had it that made this table by itself.
        connection.execute("INSERT INTO schedule (name, paused_by) VALUES ('morning', 'ann')")
        connection.commit()

    async with SqliteJournal(path) as journal:
        rows = await journal.list_achieved("paper", "jobs/päper.yaml", limit=9)
        stored = await ScheduleStore(journal).stored(["morning"])

    assert [row.run for row in rows] == ["run-2", "run-1"]
    assert stored["morning"].paused_by == "ann"


@pytest.fixture
def next_format(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Make this release one whose tables have a format more, by a statement."""

    def become(statement: str) -> None:
        monkeypatch.setattr(database, "FORMAT", FORMAT + 1)
        monkeypatch.setattr(database, "MIGRATIONS", {**MIGRATIONS, FORMAT: (statement,)})

    return become


@pytest.mark.anyio
@pytest.mark.parametrize("reads_first", [False, True], ids=["written", "read"])
async def test_a_journal_of_the_release_before_is_migrated_when_it_is_opened(
    tmp_path: Path, next_format: Callable[[str], None], *, reads_first: bool
) -> None:
    path = tmp_path / "journal.sqlite"
    async with SqliteJournal(path) as journal:
        await journal.append(RUN, [step_finished("a")])
        before = await journal.load(RUN)
    next_format("ALTER TABLE run ADD COLUMN note TEXT")

    if reads_first:
        JournalReader.open(path).close()
    async with SqliteJournal(path) as journal:
        assert await journal.load(RUN) == before
        await journal.append(RUN, [step_finished("b")])

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT run, note FROM run").fetchall() == [(RUN, None)]
        assert connection.execute("PRAGMA user_version").fetchone() == (FORMAT + 1,)


def test_a_migration_that_fails_changes_nothing(
    tmp_path: Path, next_format: Callable[[str], None]
) -> None:
    path = tmp_path / "journal.sqlite"
    InlineEventStore(path).close()
    before = path.read_bytes()
    next_format("ALTER TABLE nowhere ADD COLUMN note TEXT")

    with pytest.raises(JournalError):
        InlineEventStore(path)

    assert path.read_bytes() == before


def test_a_journal_that_cannot_be_written_says_that_it_must_be_migrated(
    tmp_path: Path, next_format: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.sqlite"
    InlineEventStore(path).close()
    next_format("ALTER TABLE run ADD COLUMN note TEXT")

    def refuse(_path: Path, _mode: int) -> bool:
        return False

    monkeypatch.setattr("os.access", refuse)

    with pytest.raises(JournalNotOpened, match="must be written once to be read") as caught:
        JournalReader.open(path)

    assert "copy it" in str(caught.value.hint)


RUN = RunId("20261121-231907-3f2a7c")
MIB = 2**20


@pytest.mark.anyio
async def test_a_log_is_grown_step_by_step_before_a_commit_needs_it(tmp_path: Path) -> None:
    log = tmp_path / "j.db-wal"
    lengths, left = list[int](), list[int]()
    async with SqliteJournal(tmp_path / "j.db", quick=60.0) as journal:
        await journal.open_run(RUN)
        lengths.append(log.stat().st_size)
        for number in range(34):
            await journal.append(RUN, [step_finished(f"s{number}", output="x" * 100_000)])
            lengths.append(log.stat().st_size)
            left.append(lengths[-1] - _end_of_the_last_commit(log.read_bytes()))

    assert lengths[0] < MIB
    assert 3 * MIB < lengths[-1] < 6 * MIB
    # No commit has made it longer by itself.
    assert len(set(lengths)) <= 5
    assert min(left) > 0


def _end_of_the_last_commit(log: bytes) -> int:
    """Return where the last frame ends that ends a commit and bears the log's present salt."""
    page, salt = int.from_bytes(log[8:12], "big"), log[16:24]
    ends = range(32 + 24 + page, len(log) + 1, 24 + page)
    frames = ((end, log[end - 24 - page : end - page]) for end in ends)
    return max(end for end, frame in frames if frame[8:16] == salt and frame[4:8] != bytes(4))
