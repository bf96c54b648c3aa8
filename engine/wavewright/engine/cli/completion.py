"""What the shell offers after the tab key.

A completion answers while a person waits, so it reads file names and one column of the journal, and imports nothing
of the engine. It never raises: nothing to offer is an answer too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from wavewright.config.user_state import user_state_dir

_MAX_COMPLETIONS = 50
_SETTINGS_FILES = ("wavewright.yaml", "wavewright.yml")


def run_ids(incomplete: str) -> list[str]:
    """Return the newest runs whose id begins so."""
    journal = _journal()
    if not journal.is_file():
        return []
    import sqlite3  # every command imports this module, and hardly one asks the journal here

    try:
        connection = sqlite3.connect(f"{journal.as_uri()}?mode=ro", uri=True, timeout=0.2)
        try:
            found = connection.execute(
                "SELECT run FROM run WHERE substr(run, 1, ?) = ? ORDER BY run DESC LIMIT ?",
                (len(incomplete), incomplete, _MAX_COMPLETIONS),
            )
            return [str(row[0]) for row in found]
        finally:
            connection.close()
    except sqlite3.Error:
        return []


def template_names(incomplete: str) -> list[str]:
    """Return the goal templates, the project's and the shipped ones, whose name begins so."""
    names = {name for name in _template_names() if name.startswith(incomplete)}
    return sorted(names)


def _template_names() -> Iterator[str]:
    project = (_project() or Path.cwd()) / "config" / "goals"
    if project.is_dir():
        yield from (path.stem for path in project.glob("*.yaml"))
    from importlib.resources import files

    shipped = files("wavewright.config.goals")
    yield from (
        entry.name.removesuffix(".yaml") for entry in shipped.iterdir() if entry.name.endswith(".yaml")
    )


def _journal() -> Path:
    """Return the journal where the environment or the default puts it; the settings file is not read for this."""
    if journal := os.environ.get("WAVEWRIGHT_JOURNAL"):
        return Path(journal).absolute()
    if state := os.environ.get("WAVEWRIGHT_STATE"):
        return Path(state).absolute() / "journal.sqlite"
    project = _project()
    return (user_state_dir() if project is None else project / ".wavewright") / "journal.sqlite"


def _project() -> Path | None:
    here = Path.cwd()
    for folder in (here, *here.parents):
        if any((folder / name).is_file() for name in _SETTINGS_FILES):
            return folder
    return None
