"""The package of a run: built from what the run has given and published, and its files.

This is the one place where a path is made from the id of a run.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import cast

from wavewright.config import Settings
from wavewright.engine.run.context import PackagedContext, PlannedContext, extended
from wavewright.engine.run.endings import record_end
from wavewright.engine.run.ports import Attempt, Publish
from wavewright.engine.run.recording import record_note
from wavewright.planner import RunId
from wavewright.planner.types import RunIdRefused, read_run_id
from wavewright.reviewer import build_package as package_of_run
from wavewright.reviewer.package.builder import PACKAGE_NAME
from wavewright.reviewer.records import RunStatus


def build_package(context: PlannedContext) -> PackagedContext:
    """Gather result, documents, gates, confidence, plan, patches and log into one package.

    It is built from the goal, the review and the state of the run alone.
    """
    package = package_of_run(
        context.plan, context.goal, context.state, context.review, context.signatures
    )
    return extended(PackagedContext, context, package=package)


async def publish_package(
    context: PackagedContext, attempt: Attempt, publish: Publish, settings: Settings
) -> PackagedContext:
    """Publish the package, by default as files with a report, and end the run in the journal.

    The end comes last: a crash between the two repeats the publishing.

    Raises:
        PackageNotPublished: it cannot be published; the run is left without an end.
    """
    package = context.package.model_copy(
        update={"journal_head": await attempt.journal.head(context.run)}
    )
    folder = run_folder(context.request.output_dir or settings.output_dir, context.run)
    files = publish(package, folder)
    if files:
        paths = [str(path) for path in files]
        context = await record_note(attempt, context, "package", {"files": [*paths]})
    reason = "" if package.review is None else package.review.summary
    # What is published goes on no more.
    status = cast("RunStatus", package.status)
    context = await record_end(attempt, context, status, reason)
    return replace(context, package=package, files=files)


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
