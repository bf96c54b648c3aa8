"""A journal of an older format is read as it is, and brought to this one in place when something is written."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from wavewright.executor.events.types import Noted, RunFinished, StepFinished
from wavewright.executor.sqlite.budget_store import SqliteBudgetStore
from wavewright.executor.sqlite.event_store import SqliteEventStore
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.executor.sqlite.reader import JournalReader
from wavewright.executor.sqlite.schema import FORMAT
from wavewright.executor.store.errors import JournalError, JournalNotOpened
from wavewright.planner.ports.budgets import BudgetScope, Spend
from wavewright.planner.types import RunId, StepKey

pytestmark = pytest.mark.anyio

RUN = RunId("20261122-020000-c0ffee")
TABLES = {
    *("run", "event", "result", "indexed"),
    *("purse_entry", "purse_total"),
    *("job", "job_request", "inbox", "outbox", "outbox_body", "decision"),
}


@pytest.fixture(params=[1, 2])
def old(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A file of an older format."""
    path = tmp_path / "j.db"
    script = Path(__file__).with_name(f"journal_format_{request.param}.sql")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script.read_text(encoding="utf-8"))
    return path


def marks(path: Path) -> tuple[int, set[str]]:
    """Return a file's format and its tables."""
    with closing(sqlite3.connect(path)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return version, {name for (name,) in tables}


def bodies(path: Path) -> list[tuple[object, ...]]:
    """Return all that is known of the events."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM event ORDER BY id").fetchall()


def test_an_older_file_is_read_without_a_change(old: Path) -> None:
    before = old.read_bytes()

    with JournalReader.open(old) as reader:
        events = reader.load(RUN)
        stored = reader.find_run("c0ffee")

    assert [type(event).__name__ for event in events][-2:] == ["StepFinished", "RunFinished"]
    assert stored == RUN
    assert old.read_bytes() == before


def test_opening_an_older_file_to_write_brings_it_to_this_format_and_touches_no_event(old: Path) -> None:
    before = bodies(old)

    with SqliteEventStore(old) as store:
        events = store.reader.load(RUN)

    assert marks(old) == (FORMAT, TABLES)
    assert bodies(old) == before
    assert [event.status for event in events if isinstance(event, StepFinished)] == ["ok"]


async def test_an_older_run_goes_on_in_the_new_format(old: Path) -> None:
    async with SqliteJournal(old) as journal:
        await journal.open_run(RUN)
        await journal.append(RUN, [Noted(1_795_400_000.0, "review", {})])
        events = await journal.load(RUN)
        found = await journal.find_output(StepKey("k1"))

    assert isinstance(events[-2], RunFinished)
    assert isinstance(events[-1], Noted)
    assert found is not None
    assert found.output == {"close": 1.5}


async def test_a_purse_may_be_the_first_to_open_an_older_file(old: Path) -> None:
    async with SqliteBudgetStore(old) as purse:
        await purse.reserve(BudgetScope(run=RUN), Spend(tokens=5))
        left = await purse.left(BudgetScope(run=RUN))

    assert marks(old) == (FORMAT, TABLES)
    assert left.run.spent.tokens == 5


def test_two_programs_may_open_an_older_file_at_once(old: Path) -> None:
    with SqliteEventStore(old) as one, SqliteEventStore(old) as other:
        assert one.reader.load(RUN) == other.reader.load(RUN)

    assert marks(old)[0] == FORMAT


def test_a_new_file_and_one_brought_to_the_format_have_the_same_tables(old: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.db"
    for path in (old, new):
        SqliteEventStore(path).close()

    def schema(path: Path) -> set[tuple[str, str]]:
        with closing(sqlite3.connect(path)) as connection:
            rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
        return {(name, " ".join(sql.split())) for name, sql in rows}

    assert schema(old) == schema(new)


def test_a_migration_that_cannot_be_finished_leaves_the_file_as_it_was(old: Path) -> None:
    with closing(sqlite3.connect(old)) as connection:
        # Somebody's own table stands where the last one would be made.
        connection.execute("CREATE TABLE decision (mine)")
        connection.commit()
    before = marks(old)

    with pytest.raises(JournalError, match="decision"):
        SqliteEventStore(old)

    assert marks(old) == before
    assert "job" not in before[1]
    with JournalReader.open(old) as reader:
        assert len(reader.load(RUN)) == 5


@pytest.mark.parametrize("opened", [SqliteEventStore, SqliteBudgetStore], ids=["journal", "purse"])
def test_a_newer_file_is_refused_and_left_as_it_is(
    old: Path, opened: type[SqliteEventStore | SqliteBudgetStore]
) -> None:
    with closing(sqlite3.connect(old)) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    copy = shutil.copy(old, old.with_suffix(".copy"))

    with pytest.raises(JournalNotOpened) as caught:
        opened(old)

    assert caught.value.message == (
        f"the journal has format {FORMAT + 1}, made by a newer wavewright; this one reads format {FORMAT}"
    )
    assert "upgrade wavewright" in str(caught.value.hint)
    assert old.read_bytes() == Path(copy).read_bytes()
