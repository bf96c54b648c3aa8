"""The stores of a daemon, opened and closed together: journal, job store and budget store.

They are parts of one file or database, which the settings name.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from wavewright.config import Settings
from wavewright.engine.service.job_store.store import JobStore
from wavewright.executor import budget_store_of
from wavewright.executor.budgets.stores import StoredBudgetStore
from wavewright.executor.store.stored_journal import StoredJournal
from wavewright.executor.stores import journal_of


@dataclass(frozen=True, slots=True)
class Stores:
    """The open stores of one owner."""

    journal: StoredJournal
    jobs: JobStore
    budget_store: StoredBudgetStore


@asynccontextmanager
async def open_stores(
    settings: Settings, *, clock: Callable[[], float] = time.time, must_write: bool = False
) -> AsyncGenerator[Stores]:
    """Open the stores that the settings name, and close them in the end; created where there are
    none.

    Args:
        settings: The project's.
        clock: Seconds since the epoch.
        must_write: Whether stores that can only be read are refused.

    Raises:
        JournalError: with the place and the fix.
    """
    async with journal_of(settings, clock=clock) as journal:
        if must_write:
            await journal.check_writable()
        async with budget_store_of(settings, clock=clock) as budget_store:
            yield Stores(journal, JobStore(journal), budget_store)
