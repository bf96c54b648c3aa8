"""The job store in a SQLite file keeps what every job store promises, and some things that only a
file can show.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest

from tests.engine.service.job_store.job_examples import (
    DaemonStores,
    job_id,
    project_state,
    received,
    request_of,
)
from tests.engine.service.job_store.job_store_contract import JobStoreContract
from tests.executor.event_examples import run_started
from wavewright.config.settings import load_settings
from wavewright.engine.service.job_store.records import JobChange, JobRequested
from wavewright.engine.service.job_store.store import JobStore
from wavewright.engine.service.job_store.stores import Stores, open_stores
from wavewright.executor.sqlite.journal import SqliteBudgetStore, SqliteJournal
from wavewright.executor.store.errors import JournalNotWritten
from wavewright.planner.ports.budgets import BudgetScope, Spend


class SqliteDaemonStores:
    """Opens one file several times in this process."""

    def __init__(self, path: Path, opened: AsyncExitStack) -> None:
        self.path = path
        self._opened = opened

    async def open(self) -> Stores:
        journal = await self._opened.enter_async_context(SqliteJournal(self.path))
        budget_store = await self._opened.enter_async_context(SqliteBudgetStore(self.path))
        return Stores(journal, JobStore(journal), budget_store)

    async def kill(self, stores: Stores) -> None:
        """Write down another start of its process than its own, as if its pid had gone to a later
        one.
        """
        assert isinstance(stores.journal, SqliteJournal)
        write(
            self.path,
            "UPDATE run SET process_start = 'before' WHERE owner = ?",
            stores.journal.store.token,
        )

    async def expire_leases(self) -> None:
        write(self.path, "UPDATE outbox SET leased = leased - 3600")

    async def forbid_writes(self) -> None:
        write(
            self.path,
            "CREATE TRIGGER full BEFORE UPDATE ON run BEGIN SELECT RAISE(ABORT, 'full'); END",
        )
        write(
            self.path,
            "CREATE TRIGGER too_full BEFORE INSERT ON event BEGIN SELECT RAISE(ABORT, 'full'); END",
        )

    async def allow_writes(self) -> None:
        write(self.path, "DROP TRIGGER full")
        write(self.path, "DROP TRIGGER too_full")


def write(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path, timeout=10)) as connection, connection:
        connection.execute(statement, values)


@pytest.fixture
async def daemons(tmp_path: Path) -> AsyncIterator[SqliteDaemonStores]:
    async with AsyncExitStack() as opened:
        yield SqliteDaemonStores(tmp_path / "journal.sqlite", opened)


def check_shape(daemons: SqliteDaemonStores) -> DaemonStores:
    """Let the type checkers compare the two."""
    return daemons


class TestSqliteJobStore(JobStoreContract):
    """The contract."""


@pytest.fixture
def seconds() -> list[float]:
    """The time, to be moved."""
    return [1000.0]


@pytest.fixture
async def stores(
    tmp_path: Path, seconds: list[float]
) -> AsyncIterator[tuple[SqliteJournal, JobStore]]:
    async with SqliteJournal(tmp_path / "journal.sqlite", clock=lambda: seconds[0]) as journal:
        yield journal, JobStore(journal)


@pytest.mark.anyio
async def test_a_clock_that_went_back_keeps_no_job_and_no_message_waiting(
    stores: tuple[SqliteJournal, JobStore], seconds: list[float]
) -> None:
    journal, jobs = stores
    await jobs.receive(request_of(1), project_state)
    job = await jobs.claim()
    assert job is not None
    await jobs.change(JobChange(job.job, "queued", not_before=1060.0))
    # As another daemon would have left it.
    write(journal.path, "UPDATE outbox SET owner = 'another', leased = 1000.0")

    waiting = await jobs.claim(), await jobs.pending()
    seconds[0] = 400.0

    assert waiting == (None, [])
    assert await jobs.claim() is not None
    assert len(await jobs.pending()) == 1


@pytest.mark.anyio
async def test_the_body_of_a_message_is_kept_until_it_was_sent(
    stores: tuple[SqliteJournal, JobStore],
) -> None:
    journal, jobs = stores
    await jobs.receive(request_of(1), project_state)
    await jobs.receive(request_of(2), project_state)
    first, second = await jobs.pending()

    await jobs.mark_sent([first.message])

    with closing(sqlite3.connect(journal.path)) as connection:
        bodies = connection.execute("SELECT body FROM outbox_body").fetchall()
    assert bodies == [(second.body,)]


@pytest.mark.anyio
async def test_an_owner_on_another_machine_is_watched_from_one_claim_to_the_next(
    stores: tuple[SqliteJournal, JobStore], seconds: list[float]
) -> None:
    journal, jobs = stores
    await jobs.receive(request_of(1))
    job = await jobs.claim()
    assert job is not None
    elsewhere = """
        UPDATE run SET owner = 'other', host = 'far', pid_namespace = 'far', lease = 0.0, heartbeat = 7,
                       heartbeat_at = ?"""
    await journal.close_run(job.run)
    write(journal.path, elsewhere, seconds[0])
    believed = await jobs.claim()
    seconds[0] += 1

    first = await jobs.claim()
    write(journal.path, "UPDATE run SET heartbeat = 8")
    after_a_beat = await jobs.claim()
    after_silence = await jobs.claim()

    assert (believed, first, after_a_beat) == (None, None, None)
    assert after_silence is not None
    assert after_silence.attempts == 2


@pytest.mark.anyio
async def test_a_full_disk_takes_no_message_and_spoils_none(
    stores: tuple[SqliteJournal, JobStore],
) -> None:
    journal, jobs = stores
    await jobs.receive(request_of(1))
    connection = journal.store._connection  # pyright: ignore[reportPrivateUsage] - a limit is a connection's own
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    large = received(JobRequested(job_id(2), {"text": "x" * 1_000_000}), message=2)

    with pytest.raises(JournalNotWritten, match="the disk is full"):
        await jobs.receive(large, project_state)
    connection.execute("PRAGMA max_page_count = 1000000")

    assert [job.job for job in await jobs.list_jobs()] == [job_id(1)]
    assert (await jobs.receive(large, project_state)).action == "accept"


@pytest.mark.anyio
async def test_a_message_waits_for_another_programs_lock_and_is_then_taken(tmp_path: Path) -> None:
    async with SqliteJournal(tmp_path / "journal.sqlite", patience=0.05) as journal:
        jobs = JobStore(journal)
        with closing(sqlite3.connect(journal.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(JournalNotWritten, match="locked"):
                await jobs.receive(request_of(1))
            other.execute("ROLLBACK")

        assert (await jobs.receive(request_of(1))).action == "accept"


@pytest.mark.anyio
@pytest.mark.parametrize(("count", "size"), [(60, 200_000), (400, 10)])
async def test_the_write_ahead_log_is_copied_however_it_has_grown(
    stores: tuple[SqliteJournal, JobStore], count: int, size: int
) -> None:
    journal, jobs = stores
    for number in range(count):
        await jobs.receive(
            received(JobRequested(job_id(number), {"text": "x" * size}), message=number)
        )

    assert journal.path.with_name("journal.sqlite-wal").stat().st_size < 6 * 2**20


@pytest.mark.anyio
async def test_the_stores_of_a_project_share_one_file(tmp_path: Path) -> None:
    (tmp_path / "wavewright.yaml").write_text("journal: here.sqlite\n", encoding="utf-8")

    async with open_stores(load_settings(tmp_path)) as opened:
        await opened.jobs.receive(request_of(1))
        job = await opened.jobs.claim()
        assert job is not None
        await opened.journal.append(job.run, [run_started(job.run)])
        await opened.budget_store.reserve(BudgetScope(run=job.run), Spend(tokens=5))

    with closing(sqlite3.connect(tmp_path / "here.sqlite")) as connection:
        counts = "SELECT (SELECT count(*) FROM job), (SELECT count(*) FROM event), (SELECT count(*) FROM model_call)"
        assert connection.execute(counts).fetchone() == (1, 1, 1)
