"""The project that a command works in: its settings and its journal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.config.settings import load_settings

if TYPE_CHECKING:
    from wavewright.config.settings import Settings
    from wavewright.executor.journal_sqlite import SqliteJournal


def project_settings() -> Settings:
    """Return the settings of the project around the working directory."""
    return load_settings(Path.cwd())


def open_journal(settings: Settings) -> SqliteJournal:
    """Return the project's journal, to be entered."""
    from wavewright.executor.journal_sqlite import SqliteJournal

    return SqliteJournal(settings.journal)
