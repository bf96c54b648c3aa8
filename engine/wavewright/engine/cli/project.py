"""The project that a command works in: its settings and its journal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.config.settings import load_settings
from wavewright.engine.cli.failures import CommandError

if TYPE_CHECKING:
    from wavewright.config.settings import Settings
    from wavewright.executor.journal_sqlite import SqliteJournal
    from wavewright.executor.postgres.journal import PostgresJournal


def project_settings() -> Settings:
    """Return the settings of the project around the working directory."""
    return load_settings(Path.cwd())


def has_journal(settings: Settings) -> bool:
    """Whether anything may have run here; whoever only reads asks first, and so creates no empty journal."""
    return settings.journal_url is not None or settings.journal.exists()


def no_journal(settings: Settings) -> CommandError:
    """Return the error of a command that wants a run where nothing has run yet, to be raised."""
    return CommandError(
        "there are no runs yet", hint="`wavewright run JOB` makes one", place=str(settings.journal)
    )


def open_journal(settings: Settings) -> SqliteJournal | PostgresJournal:
    """Return the project's journal, to be entered; it is made where there is none."""
    from wavewright.executor.stores import journal_of

    return journal_of(settings)
