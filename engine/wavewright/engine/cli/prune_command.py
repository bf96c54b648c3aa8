"""`wavewright runs prune`: old runs are removed, with their events and files."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import anyio

from wavewright.engine.cli import exit_codes
from wavewright.engine.cli.dates import parse_seconds
from wavewright.engine.cli.failures import CommandError
from wavewright.engine.cli.journal_commands import runs_table
from wavewright.engine.cli.project import has_journal, open_journal, project_settings
from wavewright.engine.run_files import remove_run_files
from wavewright.executor.retention import find_groups, remove_groups
from wavewright.executor.stores import removal_of

if TYPE_CHECKING:
    from wavewright.config.settings import Settings


def prune(keep: str, *, is_dry: bool) -> int:
    """Remove the runs that `keep` does not spare, or list them, and print how many they are.

    Raises:
        CommandError: `keep` is neither a duration nor a number.
    """
    number = int(keep) if keep.isascii() and keep.isdecimal() else None
    seconds = 0.0 if number is not None else _max_age(keep)
    settings = project_settings()
    if not has_journal(settings):
        sys.stdout.write("no runs yet\n")
        return exit_codes.OK
    anyio.run(_prune_runs, settings, time.time() - seconds, number or 0, is_dry)
    return exit_codes.OK


def _max_age(keep: str) -> float:
    try:
        return parse_seconds(keep, "--keep")
    except CommandError as error:
        message = f"--keep {keep!r} is neither a time nor a number of runs"
        raise CommandError(message, hint="write it as 30d, 12h or 100") from error


async def _prune_runs(settings: Settings, before: float, newest: int, is_dry: bool) -> None:  # noqa: FBT001 - anyio.run passes no names
    async with open_journal(settings) as journal:
        removal, rows = removal_of(journal), await journal.list_runs()
        spared = {row.run for row in rows[:newest]}
        if is_dry:
            groups, _ = await find_groups(removal, before, spared)
            found = {run for group in groups for run in group}
            if found:
                table = runs_table([row for row in rows if row.run in found])
                sys.stdout.write("".join(f"{line}\n" for line in table))
            sys.stdout.write(f"would remove {_counted_runs(len(found))}\n")
            return
        runs, size = 0, 0
        try:
            async for removed in remove_groups(removal, before, spared):
                runs += len(removed.runs)
                size += removed.bytes + await anyio.to_thread.run_sync(
                    remove_run_files, settings, removed.runs
                )
        finally:
            sys.stdout.write(f"removed {_counted_runs(runs)}, {size:,} bytes\n")


def _counted_runs(runs: int) -> str:
    return "1 run" if runs == 1 else f"{runs:,} runs"
