"""`wavewright run` and `wavewright resume`."""

from __future__ import annotations

import asyncio
import datetime as dt
import signal
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from wavewright.engine.cli import exit_codes
from wavewright.engine.cli.approving import approver_of
from wavewright.engine.cli.failures import CommandError, print_error
from wavewright.engine.cli.progress import Progress, progress_for
from wavewright.engine.cli.project import open_journal, project_settings
from wavewright.engine.context import RunContext, RunRequest
from wavewright.engine.pipeline import PipelineRun
from wavewright.engine.session import run_request
from wavewright.engine.stopping import Stopper
from wavewright.executor.events import Event, RunFinished
from wavewright.planner.types import RunId

if TYPE_CHECKING:
    from wavewright.config.settings import Settings
    from wavewright.planner.types import Schedule


def read_request(
    *,
    job: Path,
    plan: Path | None,
    schedule: Schedule | None,
    concurrency: int | None,
    as_of: str | None,
    output: Path | None,
) -> RunRequest:
    """Return the request that the options of `run` make.

    Raises:
        CommandError: the date of `--as-of` is none.
    """
    return RunRequest(
        job_file=job,
        plan_file=plan,
        schedule=schedule,
        concurrency=concurrency,
        as_of=_instant(as_of),
        output_dir=output,
    )


def resume_request(run: str, *, concurrency: int | None, output: Path | None) -> RunRequest:
    """Return the request that the options of `resume` make; the run's id may still be a prefix."""
    return RunRequest(run=RunId(run), concurrency=concurrency, output_dir=output)


def run(request: RunRequest, *, approve: str, as_json: bool) -> int:
    """Run or resume, show what happens, and return the exit code."""
    settings = project_settings()
    progress = progress_for(as_json=as_json)
    with progress:
        outcome = anyio.run(_run, request, settings, progress, approve)
    return _conclude(outcome, progress)


async def _run(
    request: RunRequest, settings: Settings, progress: Progress, approve: str
) -> PipelineRun[RunContext]:
    stopper = Stopper()
    async with open_journal(settings) as journal:
        if request.run is not None:
            found = await journal.find_run(request.run)
            _refuse_finished(found, await journal.load(found))
            request = replace(request, run=found)
        with _stopped_by_signals(stopper, progress):
            return await run_request(
                request,
                settings=settings,
                journal=journal,
                approver=approver_of(approve, progress),
                on_event=progress.show,
                stopper=stopper,
            )


@contextmanager
def _stopped_by_signals(stopper: Stopper, progress: Progress) -> Generator[None]:
    """Turn Ctrl-C and SIGTERM into a stop that leaves a run to be resumed."""
    # Not anyio's receiver: it needs a task group, which would wrap every error of the run in a group.
    loop = asyncio.get_running_loop()

    def stop() -> None:
        progress.say("stopping: what is finished is journaled")
        stopper.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _refuse_finished(run_id: RunId, events: Sequence[Event]) -> None:
    last = events[-1] if events else None
    if isinstance(last, RunFinished) and last.status != "interrupted":
        msg = f"run {run_id!r} has ended ({last.status.replace('_', ' ')}); there is nothing to resume"
        raise CommandError(
            msg, hint=f"`wavewright show {run_id}` shows it; `wavewright run JOB` makes a new run"
        )


def _conclude(outcome: PipelineRun[RunContext], progress: Progress) -> int:
    context = outcome.context
    if context.state.is_interrupted:
        print_error(f"run {context.run} was interrupted", f"go on with: wavewright resume {context.run}")
        return exit_codes.INTERRUPTED
    if outcome.halted is not None:
        print_error(outcome.halted)
        return exit_codes.NEGATIVE
    assert context.package is not None
    progress.conclude(context.package, context.files)
    return exit_codes.OK if context.package.status == "achieved" else exit_codes.NEGATIVE


def _instant(text: str | None) -> dt.datetime | None:
    if text is None:
        return None
    try:
        instant = dt.datetime.fromisoformat(text)
    except ValueError as error:
        msg = f"--as-of {text!r} is no date"
        raise CommandError(msg, hint="write it as 2010-03-01 or 2010-03-01T12:00:00+00:00") from error
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=dt.UTC)
