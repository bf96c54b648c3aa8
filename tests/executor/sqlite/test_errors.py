"""A file that is no journal, or one that fails, ends in one clear message, and what was written
stays.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.executor.event_examples import run_started, step_finished
from tests.executor.sqlite.inline_store import InlineEventStore
from wavewright.executor.events.types import Event
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.executor.sqlite.schema import APPLICATION_ID, FORMAT
from wavewright.executor.sqlite.transaction import JournalReader
from wavewright.executor.store.entries import append_entry
from wavewright.executor.store.errors import JournalDamaged, JournalNotOpened, JournalNotWritten
from wavewright.planner.types import RunId, StepKey

RUN = RunId("20261121-231907-3f2a7c")
OTHER = RunId("20261121-231908-b00b1e")


def _steps(count: int, *, size: int = 10) -> list[Event]:
    return [run_started(RUN), *(step_finished(f"s{n}", output="x" * size) for n in range(count))]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal of one run with 40 steps, closed."""
    path = tmp_path / "j.db"
    with InlineEventStore(path) as store:
        store.write([append_entry(RUN, _steps(40, size=400))])
        store.write([append_entry(OTHER, [run_started(OTHER)])])
    return path


# Files that are not a journal


def _database(path: Path, *, application: int, version: int) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE notes (text)")
        other.execute(f"PRAGMA application_id = {application}")
        other.execute(f"PRAGMA user_version = {version}")


def _make_text(path: Path) -> None:
    path.write_text("job: equities\n" * 100, encoding="utf-8")


def _make_foreign(path: Path) -> None:
    _database(path, application=0, version=0)


def _make_newer(path: Path) -> None:
    _database(path, application=APPLICATION_ID, version=FORMAT + 1)


def _make_older(path: Path) -> None:
    _database(path, application=APPLICATION_ID, version=0)


def _make_folder(path: Path) -> None:
    path.mkdir()


def _make_pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("make", "message", "mend"),
    [
        pytest.param(
            _make_text, "the file is not a journal, nor any database", "another path", id="text"
        ),
        pytest.param(_make_foreign, "a database of another program", "another path", id="foreign"),
        pytest.param(
            _make_newer,
            f"has format {FORMAT + 1}, made by a newer wavewright",
            "upgrade",
            id="newer",
        ),
        pytest.param(
            _make_older,
            "has format 0, made before the first release",
            "program that made it",
            id="older",
        ),
        pytest.param(_make_folder, "a folder is no journal", "path of a file", id="folder"),
        pytest.param(_make_pipe, "not a regular file", "path", id="pipe"),
    ],
)
def test_what_is_no_journal_is_refused_and_left_as_it_is(
    tmp_path: Path, make: Callable[[Path], None], message: str, mend: str
) -> None:
    path = tmp_path / "j.db"
    make(path)
    before = (stat.S_IFMT(path.stat().st_mode), path.is_file() and path.read_bytes())

    for opened in (InlineEventStore, JournalReader.open):
        with pytest.raises(JournalNotOpened) as caught:
            opened(path)

        assert message in caught.value.message
        assert caught.value.place == str(path)
        assert mend in str(caught.value.hint)
    assert (stat.S_IFMT(path.stat().st_mode), path.is_file() and path.read_bytes()) == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "name", ["", "a\0b", "x" * 300, "file.txt/j.db"], ids=["empty", "nul", "long", "below-a-file"]
)
def test_a_path_that_no_file_can_have_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file.txt").write_text("")

    with pytest.raises(JournalNotOpened) as caught:
        InlineEventStore(f"{tmp_path}/{name}")

    assert caught.value.hint


# Damage


def test_a_damaged_page_is_named_and_other_files_of_the_folder_are_left_alone(
    journal: Path,
) -> None:
    content = bytearray(journal.read_bytes())
    page = int.from_bytes(content[16:18], "big")
    content[2 * page :] = b"\xa5" * (len(content) - 2 * page)
    journal.write_bytes(content)

    with pytest.raises(JournalDamaged) as caught, JournalReader.open(journal) as reader:
        reader.load(RUN)

    assert caught.value.message.startswith("the journal is damaged: ")
    assert str(journal) in str(caught.value.place)
    assert f"sqlite3 {journal} .recover" in str(caught.value.hint)


def _rewrite_event(path: Path, seq: int, **columns: object) -> None:
    """Alter an event behind the journal's back."""
    with closing(sqlite3.connect(path)) as other:
        other.execute("DROP TRIGGER event_unchanged")
        for column, value in columns.items():
            other.execute(f"UPDATE event SET {column} = ? WHERE run = 1 AND seq = ?", (value, seq))  # noqa: S608 - the names stand below
        other.commit()


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        pytest.param({"body": '{"at":2.0,"step":"s2","sta'}, "the checksum differs", id="torn"),
        pytest.param({"body": b"\xff\xfe\x00"}, "the checksum differs", id="bytes"),
        pytest.param({"body": ""}, "the checksum differs", id="empty"),
        pytest.param({"crc": 7}, "the checksum differs", id="checksum"),
        pytest.param({"kind": "step_flown"}, "unknown kind of event 'step_flown'", id="kind"),
        pytest.param(
            {"kind": "wave_started"}, "wave_started has an unknown field 'step'", id="other-kind"
        ),
    ],
)
def test_a_damaged_event_is_named_and_all_before_it_can_be_read(
    journal: Path, columns: dict[str, object], reason: str
) -> None:
    _rewrite_event(journal, 3, **columns)

    with JournalReader.open(journal) as reader:
        events, fault = reader.salvage(RUN)
        with pytest.raises(JournalDamaged):
            reader.load(RUN)

        assert events == _steps(40, size=400)[:3]
        assert fault is not None
        assert fault.message.startswith(f"the journal is damaged at event 3 of run {RUN}: ")
        assert reason in fault.message
        assert fault.place == f"{journal}, run {RUN}, event 3"
        assert reader.load(OTHER) == [run_started(OTHER)]


def test_a_missing_event_is_told(journal: Path) -> None:
    with closing(sqlite3.connect(journal)) as other:
        other.execute("DROP TRIGGER event_kept")
        other.execute("DELETE FROM event WHERE run = 1 AND seq = 5")
        other.commit()

    with (
        JournalReader.open(journal) as reader,
        pytest.raises(JournalDamaged, match=r"event 5 .* it is missing"),
    ):
        reader.load(RUN)


def test_a_damaged_run_is_read_up_to_the_damaged_event(journal: Path) -> None:
    with JournalReader.open(journal) as reader:
        whole, _ = reader.salvage(RUN)
        _rewrite_event(journal, 3, crc=7)
        events, fault = reader.salvage(RUN)

    assert events == whole[:3]
    assert isinstance(fault, JournalDamaged)


def test_a_damaged_output_is_never_reused(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    with InlineEventStore(path) as store:
        store.write([append_entry(RUN, [step_finished("a", key="k", output=1)])])
    _rewrite_event(path, 0, body='{"at":2.0,"step":"a","status":"ok","key":"k","output":9}')

    with JournalReader.open(path) as reader, pytest.raises(JournalDamaged, match="checksum"):
        reader.find_output(StepKey("k"))


# Disks and locks


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 400 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    mounted = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(folder)], check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting is not allowed here")
    yield folder
    subprocess.run([mount.replace("mount", "umount"), str(folder)], check=True)


@pytest.mark.anyio
async def test_a_full_disk_fails_the_append_and_keeps_all_that_was_reported(
    small_disk: Path,
) -> None:
    path = small_disk / "j.db"
    journal = SqliteJournal(path)
    reported = list[Event]()

    async def fill() -> None:
        for number in range(1000):
            event = step_finished(f"s{number}", output="x" * 4000)
            await journal.append(RUN, [event])
            reported.append(event)

    with pytest.raises(JournalNotWritten, match="the disk is full") as caught:
        await fill()

    assert "free some space and resume the run" in str(caught.value.hint)
    assert await journal.load(RUN) == reported
    await journal.aclose()
    with JournalReader.open(path) as reader:
        assert reader.load(RUN) == reported


@pytest.mark.anyio
async def test_after_a_failed_append_the_run_takes_no_more_until_it_is_opened_again(
    tmp_path: Path,
) -> None:
    path = tmp_path / "j.db"
    async with SqliteJournal(path, patience=0.05) as journal:
        await journal.append(RUN, [run_started(RUN)])
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            first = journal.append(RUN, [step_finished("a")])
            with pytest.raises(JournalNotWritten, match="another program keeps the journal locked"):
                await first
        with pytest.raises(JournalNotWritten, match="locked"):
            await journal.append(RUN, [step_finished("b")])
        await journal.append(OTHER, [run_started(OTHER)])
        await journal.open_run(RUN)
        await journal.append(RUN, [step_finished("a")])

        assert await journal.load(RUN) == [run_started(RUN), step_finished("a")]
        assert await journal.load(OTHER) == [run_started(OTHER)]


@pytest.mark.anyio
async def test_a_journal_deleted_under_a_run_is_told_at_the_next_append(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    async with SqliteJournal(path) as journal:
        await journal.append(RUN, [run_started(RUN)])
        path.unlink()

        with pytest.raises(JournalNotWritten, match="moved or deleted while it was open"):
            await journal.append(RUN, [step_finished("a")])


@pytest.mark.anyio
async def test_a_commit_waits_for_a_short_lock(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    async with SqliteJournal(path) as journal:
        await journal.append(RUN, [run_started(RUN)])
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            appended = journal.append(RUN, [step_finished("a")])
            other.execute("COMMIT")
            await appended

        assert await journal.load(RUN) == [run_started(RUN), step_finished("a")]


def test_one_runs_fault_costs_another_run_in_the_same_commit_nothing(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    with (
        InlineEventStore(path) as store,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        store.claim(RUN)
        other.execute("UPDATE run SET fence = fence + 1 WHERE run = ?", (RUN,))

        faults = store.write(
            [append_entry(RUN, [run_started(RUN)]), append_entry(OTHER, [run_started(OTHER)])]
        )

        assert list(faults) == [RUN]
        assert store.reader.load(OTHER) == [run_started(OTHER)]
        assert store.reader.load(RUN) == []


READ_ONLY = """
import os, sys
import urllib.parse  # pathlib imports it late on newer Pythons, when one under /root can be read no more
from wavewright.executor.events.types import RunFinished
from wavewright.executor.store.errors import JournalError
from wavewright.executor.sqlite.transaction import JournalReader
from wavewright.executor.store.entries import append_entry
from wavewright.executor.sqlite.event_store import SqliteEventStore
from wavewright.executor.store.writer import run_inline
path, run = sys.argv[1:]
if os.geteuid() == 0:
    os.setuid(65534)
try:
    store = SqliteEventStore(path)
    print(run_inline(store.write([append_entry(run, [RunFinished(1.0, "failed")])]))[run])
    run_inline(store.close())
except JournalError as error:
    print(error)
print("--")
with JournalReader.open(path) as reader:
    print(len(reader.load(run)))
"""


@pytest.mark.parametrize("folder_mode", [0o555, 0o777], ids=["folder", "file"])
def test_a_read_only_journal_can_be_read_and_says_that_it_cannot_be_written(
    journal: Path, folder_mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _folder_for_all(journal, folder_mode)
    monkeypatch.chdir(folder)
    try:
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(folder / "j.db"), RUN],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        folder.chmod(0o700)
        shutil.rmtree(folder)

    assert done.stderr == ""
    message, _, count = done.stdout.partition("--\n")
    assert "the journal is read-only" in message or "cannot be opened for writing" in message
    assert str(folder / "j.db") in message
    assert "= help: " in message
    assert count == "41\n"


def _folder_for_all(journal: Path, mode: int) -> Path:
    """Copy the journal to where a user without rights may look at it."""
    folder = Path(tempfile.mkdtemp())
    shutil.copy(journal, folder / "j.db")
    (folder / "j.db").chmod(0o444)
    folder.chmod(mode)
    return folder


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where a folder should be")

    with pytest.raises(JournalNotOpened, match="cannot be opened") as caught:
        InlineEventStore(tmp_path / "taken" / "deeper" / "j.db")

    assert "where files can be written" in str(caught.value.hint)
