"""Requests that go on from an earlier run: `wavewright resume` and `wavewright retry`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio

from wavewright.config import Settings, exit_codes
from wavewright.engine.interfaces.cli.common.arguments import (
    open_journal,
    project_settings,
    require_journal,
)
from wavewright.engine.interfaces.cli.common.named_runs import find_named_run, load_run
from wavewright.engine.interfaces.cli.common.output import (
    CommandError,
    print_aside,
    print_lines,
)
from wavewright.engine.interfaces.cli.common.terminal import local_user
from wavewright.engine.interfaces.cli.runs.run_command import require_tools_here
from wavewright.engine.run.context import RunRequest
from wavewright.engine.run.jobs.inputs import InputOverrides
from wavewright.engine.run.permits import read_permits
from wavewright.engine.run.project.tools import tools_of_plan
from wavewright.engine.run.repeated_runs import other_retries, runs_repeated_by
from wavewright.engine.run.retry import first_plan, outlook_lines, retry_of_run, retry_outlook
from wavewright.engine.service.job_store.stores import open_stores
from wavewright.engine.service.requested_jobs import job_of_run
from wavewright.executor import RunState, fold
from wavewright.planner import RunId
from wavewright.planner.diagnostics.rendering import printable
from wavewright.tools import Tools


def resume_request(
    run: str | None, *, concurrency: int | None, output: Path | None, by: str | None
) -> RunRequest:
    """Return the request of the options of `resume`; `run` is found as by `find_named_run`.

    Raises:
        CommandError: there are no runs yet, or the run belongs to a job of a daemon.
        RunNotFound: there is no such run.
    """
    run_id = anyio.run(find_resumable_run, run, project_settings())
    return RunRequest(run=run_id, concurrency=concurrency, output_dir=output, by=by or local_user())


async def find_resumable_run(prefix: str | None, settings: Settings) -> RunId:
    """Return a run, found as by `find_named_run`, that belongs to no daemon's job.

    The daemon would not know that such a run continues.

    Raises:
        CommandError: there are no runs yet, or the run belongs to a job of a daemon.
        RunNotFound: there is no such run.
    """
    async with open_stores(require_journal(settings)) as stores:
        run = await find_named_run(stores.journal, prefix)
        job = await job_of_run(stores.journal, stores.jobs, run)
    if job is not None:
        msg = f"run {run!r} belongs to a job of a daemon, {job.job}, which is {job.state}"
        is_waiting = job.state == "waiting"
        hint = (
            "`wavewright decisions` lists what it waits for"
            if is_waiting
            else "a daemon continues it"
        )
        raise CommandError(msg, hint=hint, exit_code=exit_codes.NEGATIVE)
    return run


def retry_request(
    run: str | None,
    *,
    start: str | None,
    again: Sequence[str] = (),
    inputs: Sequence[str],
    concurrency: int | None,
    output: Path | None,
    by: str | None,
    only_failed: bool = False,
    permits: Path | None = None,
) -> RunRequest:
    """Return the request of the options of `retry`; `run` is found as by `find_named_run`.

    Raises:
        RetryRefused: the run has not ended, it has several targets, or it has no step of that name.
        CommandError: its tools are functions of a Python program.
        RunNotFound: there is no such run.
        DocumentError: an input has another type, or there is no place for it; the file of permits
            cannot be read.
    """
    settings = project_settings()
    run_id, events = anyio.run(load_run, settings, run)
    retry = retry_of_run(
        run_id,
        events,
        start=start,
        again=again,
        inputs=InputOverrides(assignments=tuple(inputs)),
        only_failed=only_failed,
    )
    require_tools_here(fold(events), settings)
    return RunRequest(
        retry=retry,
        concurrency=concurrency,
        output_dir=output,
        by=by or local_user(),
        permits=None if permits is None else read_permits(permits),
    )


def show_retry(request: RunRequest, *, as_outcome: bool, is_silent: bool) -> None:
    """Print what a retry will call, reuse and leave: to standard output where that is all that is
    asked for, else as progress, unless that is silent.
    """
    if is_silent and not as_outcome:
        return
    assert request.retry is not None
    settings = project_settings()
    donors, others = anyio.run(_load_donors, request.retry.run, settings)
    plan = first_plan(donors)
    tools: Tools = {} if plan is None else tools_of_plan(plan, settings)
    steps = retry_outlook(request.retry, donors, tools, others=others)
    lines = outlook_lines(request.retry.run, steps)
    if as_outcome:
        print_lines(lines)
    else:
        print_aside("\n".join(map(printable, lines)))


async def _load_donors(
    run: RunId, settings: Settings
) -> tuple[list[RunState], tuple[RunState, ...]]:
    """Return a run and those that it repeats, the newest first, and the other retries of the first."""
    async with open_journal(settings) as journal:
        newest = fold(await journal.load(run))
        before = await runs_repeated_by(newest, journal)
        return [newest, *before], await other_retries(newest, before, journal)
