"""`wavewright cancel`: ends a run, or a job of the daemon, for good.

A run that no process has open is ended here. Else the request is kept in the journal, where the run's owner looks for
one each second, and this command waits until the owner has ended the run.
"""

from __future__ import annotations

import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import anyio

from wavewright.config import exit_codes
from wavewright.engine.cli.common.arguments import (
    find_run,
    has_journal,
    no_journal,
    project_settings,
    root_run_of,
)
from wavewright.engine.cli.common.output import CommandError
from wavewright.engine.cli.common.terminal import local_user
from wavewright.engine.daemon.outbox import OutboxJournal
from wavewright.engine.daemon.reports import Reporter
from wavewright.engine.decisions.cancelling import cancel_reason, end_cancelled, has_ended
from wavewright.engine.targets.waves import OPEN_JOB_STATES, job_of_run
from wavewright.executor.events.state import fold
from wavewright.executor.store.errors import RunBusy
from wavewright.executor.store.journal import CancelRequest
from wavewright.executor.stores import Stores, open_stores

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from wavewright.config.settings import Settings
    from wavewright.executor.store.job_records import JobRow
    from wavewright.planner.types import RunId

_OWNER_SECONDS: Final = 30.0
"""For which a run's owner may take to end it."""
_PAUSE: Final = 0.2
"""Seconds between two looks at a run that has an owner."""


def cancel(wanted: str, *, by: str | None) -> int:
    """End a run or a job for good, and say so; one that is cancelled already stays as it is.

    Raises:
        CommandError: it has come to another end, it is the run of a target, or its owner does not end it.
        RunNotFound: there is no such run.
    """
    settings = project_settings()
    if not has_journal(settings):
        raise no_journal(settings)
    run = anyio.run(_cancel, settings, wanted, CancelRequest(by or local_user(), time.time()))
    sys.stdout.write(f"run {run} is cancelled\n")
    return exit_codes.OK


async def _cancel(settings: Settings, wanted: str, request: CancelRequest) -> RunId:
    async with open_stores(settings) as stores:
        run, job = await _find(stores, wanted)
        if job is None:
            async with _opened(stores, run, request):
                await _end_run(stores, run, request)
            return run
        reporter = Reporter.of(settings)
        if not await _has_ended(stores, job, request, reporter):
            async with _opened(stores, run, request):
                if not await _has_ended(stores, job, request, reporter):
                    outbox = OutboxJournal(stores.journal, job, reporter)
                    await end_cancelled(outbox, run, request, time.time())
    return run


async def _find(stores: Stores, wanted: str) -> tuple[RunId, JobRow | None]:
    """Return a run and its job, found by the beginning of the id of either; a job that waits has no run to find yet.

    Raises:
        CommandError: it is the run of a target.
        RunNotFound: there is no such run, or there are several.
    """
    rows = await stores.jobs.list_jobs(OPEN_JOB_STATES)
    named = [row for row in rows if wanted and (row.job.startswith(wanted) or row.run == wanted)]
    if len(named) == 1:
        return named[0].run, named[0]
    run = await find_run(stores.journal, wanted)
    job = await job_of_run(stores.journal, stores.jobs, run)
    root = await root_run_of(stores.journal, run) if job is None else job.run
    if root != run:
        raise CommandError(
            f"run {run} is that of one of several targets", hint=f"cancel their job: wavewright cancel {root}"
        )
    return run, job


@asynccontextmanager
async def _opened(stores: Stores, run: RunId, request: CancelRequest) -> AsyncGenerator[None]:
    """Open a run, once its owner has ended it where it has one.

    Raises:
        CommandError: the owner still has it.
    """
    until, is_asked = time.monotonic() + _OWNER_SECONDS, False
    while True:
        try:
            await stores.journal.open_run(run)
            break
        except RunBusy as busy:
            if time.monotonic() > until:
                hint = f"its owner was asked to end it and will once it can; {busy.hint}"
                raise CommandError(busy.message, hint=hint, exit_code=exit_codes.ENVIRONMENT) from busy
        if not is_asked:
            await stores.jobs.request_cancel(run, request)
            is_asked = True
        await anyio.sleep(_PAUSE)
    try:
        yield
    finally:
        await stores.journal.close_run(run)


async def _end_run(stores: Stores, run: RunId, request: CancelRequest) -> None:
    state = fold(await stores.journal.load(run))
    if has_ended(state):
        assert state.finished is not None
        _check_cancelled(run, state.finished.status)
    else:
        await end_cancelled(stores.journal, run, request, time.time())


async def _has_ended(stores: Stores, job: JobRow, request: CancelRequest, reporter: Reporter) -> bool:
    """Cancel a job whose run has not begun, or has its end; return False for any other job.

    Raises:
        CommandError: the job has come to another end.
    """
    state = fold(await stores.journal.load(job.run))
    if state.started is not None and not has_ended(state):
        return False
    ended = await stores.jobs.cancel_waiting(job.job, cancel_reason(request), reporter.state_reports)
    if ended.state == "running":
        return False
    _check_cancelled(job.run, ended.state)
    return True


def _check_cancelled(run: RunId, end: str) -> None:
    if end != "cancelled":
        hint = f"`wavewright show {run}` shows it"
        raise CommandError(
            f"run {run} has ended ({end.replace('_', ' ')})", hint, exit_code=exit_codes.NEGATIVE
        )
