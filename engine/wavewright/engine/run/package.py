"""The package of a run: built from what the run has given, published, and the run ended."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from wavewright.config.settings import Settings
from wavewright.engine.run.context import PackagedContext, PlannedContext, extended
from wavewright.engine.run.endings import record_end
from wavewright.engine.run.ports import Attempt, Publish
from wavewright.engine.run.recording import record_note
from wavewright.engine.run.run_files import run_folder
from wavewright.reviewer.package.builder import build_package as package_of_run
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
