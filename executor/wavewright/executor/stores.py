"""What a run and a daemon keep, opened together: journal, jobs and purse, wherever the settings say.

The *stores* are parts of one database. They are opened and closed together, so that nothing is written to one after
another was given up.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from wavewright.config.settings import Settings
from wavewright.executor.job_store.port import JobStore
from wavewright.executor.journal import Journal
from wavewright.planner.allowance import OpenPurse


@dataclass(frozen=True, slots=True)
class Stores:
    """One owner's way to all that is kept."""

    journal: Journal
    jobs: JobStore
    purse: OpenPurse


@asynccontextmanager
async def open_stores(
    settings: Settings, *, clock: Callable[[], float] = time.time
) -> AsyncGenerator[Stores]:
    """Open the stores that the settings name, and close them in the end; made where there are none.

    Args:
        settings: The project's.
        clock: Seconds since the epoch.

    Raises:
        JournalError: with the place and the mend.
    """
    from wavewright.executor.job_store.sqlite import SqliteJobStore
    from wavewright.executor.journal_sqlite import SqliteJournal
    from wavewright.executor.purse_sqlite import SqlitePurse

    async with (
        SqliteJournal(settings.journal, clock=clock) as journal,
        SqlitePurse(settings.journal, settings.budgets, clock) as purse,
    ):
        yield Stores(journal, SqliteJobStore(journal, clock=clock), purse)
