"""The stores at a place, be it a file or the address of a database, for tests that ask the same of
both.
"""

from __future__ import annotations

from wavewright.config.value_types import is_url
from wavewright.engine.service.job_store.store import JobStore
from wavewright.executor.postgres.journal import PostgresJournal
from wavewright.executor.sqlite.journal import SqliteJournal


def journal_at(place: str, *, lease: float = 10.0) -> SqliteJournal | PostgresJournal:
    """Return the journal there, to be entered."""
    return (
        PostgresJournal(place, lease=lease) if is_url(place) else SqliteJournal(place, lease=lease)
    )


def jobs_of(journal: SqliteJournal | PostgresJournal, *, outbox_lease: float = 5.0) -> JobStore:
    """Return the job store beside an open journal."""
    return JobStore(journal, outbox_lease=outbox_lease)
