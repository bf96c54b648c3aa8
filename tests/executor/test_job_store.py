"""The job store in a SQLite file keeps what every job store promises, and some things that only a file can show."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest

from tests.executor.stores_contract import Daemons, JobStoreContract
from wavewright.executor.job_store.sqlite import SqliteJobStore
from wavewright.executor.journal_sqlite import SqliteJournal
from wavewright.executor.purse_sqlite import SqlitePurse
from wavewright.executor.stores import Stores


class SqliteDaemons:
    """Opens one file several times in this process."""

    def __init__(self, path: Path, opened: AsyncExitStack) -> None:
        self.path = path
        self._opened = opened

    async def open(self) -> Stores:
        journal = await self._opened.enter_async_context(SqliteJournal(self.path))
        purse = await self._opened.enter_async_context(SqlitePurse(self.path))
        return Stores(journal, SqliteJobStore(journal), purse)

    async def bury(self, stores: Stores) -> None:
        """Write down another start of its process than its own, as if its pid had gone to a later one."""
        assert isinstance(stores.journal, SqliteJournal)
        self.write("UPDATE run SET born = 'before' WHERE owner = ?", stores.journal.store.token)

    async def let_leases_pass(self) -> None:
        self.write("UPDATE outbox SET leased = leased - 3600")

    def write(self, statement: str, *values: object) -> None:
        with closing(sqlite3.connect(self.path, timeout=10)) as connection, connection:
            connection.execute(statement, values)


@pytest.fixture
async def daemons(tmp_path: Path) -> AsyncIterator[SqliteDaemons]:
    async with AsyncExitStack() as opened:
        yield SqliteDaemons(tmp_path / "journal.sqlite", opened)


def check_shape(daemons: SqliteDaemons) -> Daemons:
    """Let the type checkers compare the two."""
    return daemons


class TestSqliteJobStore(JobStoreContract):
    """The contract."""
