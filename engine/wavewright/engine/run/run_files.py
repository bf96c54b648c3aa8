"""The files of a run: its package and its report, in a folder of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from wavewright.config.settings import Settings
from wavewright.planner.types import RunId


def remove_run_files(settings: Settings, runs: Iterable[RunId]) -> int:
    """Remove the folders of runs and return the bytes of their files; a folder that cannot be
    removed is left.

    Only folders within the state folder are removed: what lies elsewhere was asked for there.
    """
    home = settings.output_dir.resolve()
    if not home.is_relative_to(settings.state_dir.resolve()):
        return 0
    return sum(_remove(home / run) for run in runs if Path(run).name == run)


def _remove(folder: Path) -> int:
    if folder.is_symlink() or not folder.is_dir():
        return 0
    before = _folder_bytes(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return before - _folder_bytes(folder)


def _folder_bytes(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
