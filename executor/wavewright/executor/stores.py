"""The journal and the budget store that the settings name: parts of one file or database."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from wavewright.config import Settings
from wavewright.executor.sqlite.journal import SqliteBudgetStore, SqliteJournal

if TYPE_CHECKING:
    from wavewright.executor.budgets.stores import StoredBudgetStore
    from wavewright.executor.store.stored_journal import StoredJournal


def place_of_journal(settings: Settings) -> str:
    """Return where the journal is, as it may be shown: the file, or the database without its
    password.
    """
    if settings.journal_url is None:
        return str(settings.journal)
    # Imported here and below: the driver of a database is an extra.
    from wavewright.executor.postgres.driver import display_url

    return display_url(settings.journal_url)


def journal_of(settings: Settings, *, clock: Callable[[], float] = time.time) -> StoredJournal:
    """Return the journal that the settings name, to be entered; it is created where there is none,
    and opened to be read where it cannot be written.

    Raises:
        JournalError: with the place and the fix.
    """
    if settings.journal_url is not None:
        from wavewright.executor.postgres.journal import PostgresJournal

        return PostgresJournal(settings.journal_url)
    return SqliteJournal(settings.journal, clock=clock)


def budget_store_of(
    settings: Settings, *, clock: Callable[[], float] = time.time
) -> StoredBudgetStore:
    """Return the budget store beside that journal, to be entered.

    Raises:
        JournalError: with the place and the fix.

    >>> from pathlib import Path
    >>> import anyio
    >>> from wavewright.config import load_settings
    >>> from wavewright.executor import budget_store_of
    >>> async def remaining() -> object:
    ...     async with budget_store_of(load_settings(Path.cwd(), {})) as store:
    ...         return type(store).__name__
    >>> anyio.run(remaining)
    'SqliteBudgetStore'
    """
    if settings.journal_url is not None:
        from wavewright.executor.postgres.journal import PostgresBudgetStore

        return PostgresBudgetStore(settings.journal_url, settings.budgets, clock)
    return SqliteBudgetStore(settings.journal, settings.budgets, clock)
