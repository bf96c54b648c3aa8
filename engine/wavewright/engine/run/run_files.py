"""The files of a run: its package and its report, in a folder of its own.

This is the one place where a path is made from the id of a run.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from wavewright.config.settings import Settings
from wavewright.planner.types import RunId, RunIdRefused, read_run_id
from wavewright.reviewer.package.builder import PACKAGE_NAME


def run_folder(home: Path, run: RunId) -> Path:
    """Return the folder of a run's files within the folder of all runs' files.

    Raises:
        RunIdRefused: the id is none, such as one of an older journal that leads out of the folder.
    """
    return home / read_run_id(run)


def remove_run_files(settings: Settings, runs: Iterable[RunId]) -> int:
    """Remove the packages and reports of runs, and their folders where nothing else is in them;
    return the bytes of the files.

    What cannot be removed is left. Only folders within the state folder are looked at: what lies
    elsewhere was asked for there.
    """
    home = settings.output_dir.resolve()
    if not home.is_relative_to(settings.state_dir.resolve()):
        return 0
    removed = 0
    for run in runs:
        # A run of an older journal may have an id that leads elsewhere: nothing of it is removed.
        with suppress(RunIdRefused):
            removed += _remove_made(run_folder(home, run))
    return removed


def _remove_made(folder: Path) -> int:
    """Remove the files that a run has written into its folder, and nothing else."""
    # Imported here: the report's templates are loaded only where something is removed.
    from wavewright.reviewer.report.page import REPORT_NAME

    if folder.is_symlink() or not folder.is_dir():
        return 0
    removed = 0
    for name in (PACKAGE_NAME, REPORT_NAME):
        file = folder / name
        with suppress(OSError):
            size = file.lstat().st_size
            file.unlink()
            removed += size
    with suppress(OSError):
        # Fails where another file is left, which a person or a tool has put there.
        folder.rmdir()
    return removed
