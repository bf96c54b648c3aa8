"""Stores that several processes work on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.support.postgres import PostgresServer
from wavewright.executor.postgres.journal import PostgresJournal
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.executor.store.stored_journal import StoredJournal


@pytest.fixture(params=["sqlite", "postgres"])
async def journals(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[StoredJournal, StoredJournal]]:
    """Return the journal as two processes have it open."""
    async with AsyncExitStack() as stack:
        if request.param == "sqlite":
            file = tmp_path / "journal.db"
            yield (
                await stack.enter_async_context(SqliteJournal(file)),
                await stack.enter_async_context(SqliteJournal(file)),
            )
        else:
            server: PostgresServer = request.getfixturevalue("postgres")
            address = server.database()
            yield (
                await stack.enter_async_context(PostgresJournal(address)),
                await stack.enter_async_context(PostgresJournal(address)),
            )
