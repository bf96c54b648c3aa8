"""Stores of both kinds, for what must be so in each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.postgres import PostgresServer
from wavewright.engine.service.job_store.store import JobStore
from wavewright.engine.service.job_store.stores import Stores
from wavewright.executor.postgres.journal import PostgresBudgetStore, PostgresJournal
from wavewright.executor.sqlite.journal import SqliteBudgetStore, SqliteJournal


@pytest.fixture(params=["sqlite", "postgres"])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stores]:
    if request.param == "sqlite":
        path = tmp_path / "journal.sqlite"
        async with SqliteJournal(path) as journal, SqliteBudgetStore(path) as budget_store:
            yield Stores(journal, JobStore(journal), budget_store)
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    url = server.database()
    async with PostgresJournal(url) as in_database, PostgresBudgetStore(url) as shared:
        yield Stores(in_database, JobStore(in_database), shared)
