"""Removing runs from a file: the disk gets back what they took, and ids that are given again
mislead nobody.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.executor.event_examples import run_finished, run_started, step_finished
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.executor.store.retention import LINKS_PAGE_SIZE, RunRemoval, remove_groups
from wavewright.planner.types import RunId, StepKey

pytestmark = pytest.mark.anyio

OLD, NEW = RunId("20261101-000000-aaaaaa"), RunId("20261102-000000-bbbbbb")


async def add(journal: SqliteJournal, run: RunId, steps: int, *, output: str = "") -> None:
    events = [
        step_finished(f"s{number}", key=f"{run} {number}", output=output) for number in range(steps)
    ]
    await journal.append(run, [run_started(run), *events, run_finished()])
    await journal.close_run(run)


async def remove(journal: SqliteJournal) -> list[RunId]:
    return [run async for one in remove_groups(RunRemoval(journal), 100.0) for run in one.runs]


async def test_a_file_is_shorter_once_runs_are_removed_and_has_no_free_page(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    async with SqliteJournal(path) as journal:
        await add(journal, OLD, 500, output="x" * 5000)
    before = path.stat().st_size

    async with SqliteJournal(path) as journal:
        assert await remove(journal) == [OLD]

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)
    assert before > 2_500_000
    assert path.stat().st_size < 300_000


async def test_outputs_are_found_where_their_events_have_ids_of_removed_ones(
    tmp_path: Path,
) -> None:
    async with SqliteJournal(tmp_path / "journal.sqlite") as journal:
        await add(journal, OLD, 1500)
        # So many events are indexed when somebody looks.
        assert await journal.find_output(StepKey(f"{OLD} 7")) is not None

        await remove(journal)
        await add(journal, NEW, 20)

        assert await journal.find_output(StepKey(f"{OLD} 7")) is None
        found = await journal.find_output(StepKey(f"{NEW} 7"))
    assert found is not None
    assert found.run == NEW


async def test_links_are_found_beyond_the_first_part_of_the_events(tmp_path: Path) -> None:
    async with SqliteJournal(tmp_path / "journal.sqlite") as journal:
        await add(journal, OLD, LINKS_PAGE_SIZE + 10)
        removal = RunRemoval(journal)

        _, first = await removal.links(0)
        assert first == LINKS_PAGE_SIZE
        _, second = await removal.links(first)
        assert second == LINKS_PAGE_SIZE + 12
        assert await removal.links(second) == ([], None)


async def test_part_of_a_run_can_still_not_be_deleted(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    async with SqliteJournal(path) as journal:
        await add(journal, OLD, 3)
        await add(journal, NEW, 3)
        await remove(journal)
        await add(journal, NEW, 3)

    with (
        closing(sqlite3.connect(path)) as other,
        pytest.raises(sqlite3.IntegrityError, match="append-only"),
    ):
        other.execute("DELETE FROM event WHERE seq = 2")
