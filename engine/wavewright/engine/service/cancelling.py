"""The end of a run, or of a job of a daemon, that somebody wants to be over for good.

A run that no process has open is ended here. Else the request is kept in the journal, where the
run's owner looks for one each second, and the owner is waited for.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import anyio

from wavewright.config import Settings, WavewrightError, exit_codes
from wavewright.engine.run.cancellation import cancel_reason, end_cancelled
from wavewright.engine.run.find_run import find_run, root_run_of
from wavewright.engine.service.daemon.outbox import OutboxJournal
from wavewright.engine.service.daemon.reports import Reporter
from wavewright.engine.service.job_store.records import JobRow
from wavewright.engine.service.job_store.rules import OPEN_STATES
from wavewright.engine.service.job_store.stores import Stores, open_stores
from wavewright.engine.service.requested_jobs import job_of_run, named_job
from wavewright.executor import RunBusy, RunNotFound, fold
from wavewright.executor.store.journal import CancelRequest
from wavewright.planner import RunId

_OWNER_SECONDS: Final = 30.0
"""For which a run's owner may take to end it."""
_POLL_SECONDS: Final = 0.2
"""Seconds between two looks at a run that has an owner."""


class CancelRefused(WavewrightError):
    """A run that cannot be cancelled, or whose owner does not end it."""

    exit_code = exit_codes.MISUSE
    is_shown_whole = True


async def cancel_run(settings: Settings, wanted: str, request: CancelRequest) -> RunId:
    """End a run of a project, or a job, for good and return the run; one that is cancelled already
    stays as it is.

    Args:
        settings: Those of the project.
        wanted: A run or a job of a daemon, or the beginning of its id.
        request: Who wants it, and when.

    Raises:
        CancelRefused: it has come to another end, it is the run of a target, or its owner does not
            end it.
        RunNotFound: there is no such run.
    """
    async with open_stores(settings) as stores:
        return await _cancel(stores, wanted, request, Reporter.of(settings))


async def _cancel(stores: Stores, wanted: str, request: CancelRequest, reporter: Reporter) -> RunId:
    run, job = await _find_run_to_cancel(stores, wanted)
    if job is None:
        async with _opened_to_cancel(stores, run, request):
            state = fold(await stores.journal.load(run))
            if state.finished is None or not state.has_ended:
                await end_cancelled(stores.journal, run, request, time.time())
            else:
                _check_cancelled(run, state.finished.status)
        return run
    if not await _has_ended(stores, job, request, reporter):
        async with _opened_to_cancel(stores, run, request):
            if not await _has_ended(stores, job, request, reporter):
                outbox = OutboxJournal(stores.journal, job, reporter)
                await end_cancelled(outbox, run, request, time.time())
    return run


async def _find_run_to_cancel(stores: Stores, wanted: str) -> tuple[RunId, JobRow | None]:
    """Return a run and its job, found by the beginning of the id of either; a job that waits has no
    run to find yet.

    Raises:
        CancelRefused: it is the run of a target.
        RunNotFound: there is no such run, or there are several.
    """
    rows = await stores.jobs.list_jobs(OPEN_STATES)
    named = [row for row in rows if wanted and (row.job.startswith(wanted) or row.run == wanted)]
    if len(named) == 1:
        return named[0].run, named[0]
    try:
        run = await find_run(stores.journal, wanted)
    except RunNotFound:
        # Whoever names a job that has ended is told how, not that there is no such run.
        ended = await named_job(stores.jobs, wanted)
        if ended is None:
            raise
        return ended.run, ended
    job = await job_of_run(stores.journal, stores.jobs, run)
    root = await root_run_of(stores.journal, run) if job is None else job.run
    if root != run:
        raise CancelRefused(
            f"run {run} is that of one of several targets",
            hint=f"cancel their job: wavewright cancel {root}",
        )
    return run, job


@asynccontextmanager
async def _opened_to_cancel(
    stores: Stores, run: RunId, request: CancelRequest
) -> AsyncGenerator[None]:
    """Open a run, once its owner has ended it where it has one.

    Raises:
        CancelRefused: the owner still has it.
    """
    until, is_asked = time.monotonic() + _OWNER_SECONDS, False
    while True:
        try:
            await stores.journal.open_run(run)
            break
        except RunBusy as busy:
            if time.monotonic() > until:
                hint = f"its owner was asked to end it and will once it can; {busy.hint}"
                raise CancelRefused(
                    busy.message, hint=hint, exit_code=exit_codes.ENVIRONMENT
                ) from busy
        if not is_asked:
            await stores.journal.request_cancel(run, request)
            is_asked = True
        await anyio.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        await stores.journal.close_run(run)


async def _has_ended(
    stores: Stores, job: JobRow, request: CancelRequest, reporter: Reporter
) -> bool:
    """Cancel a job whose run has not begun, or has its end; return False for any other job.

    Raises:
        CancelRefused: the job has come to another end.
    """
    state = fold(await stores.journal.load(job.run))
    if state.started is not None and not state.has_ended:
        return False
    ended = await stores.jobs.cancel_waiting(
        job.job, cancel_reason(request), reporter.state_reports
    )
    if ended.state == "running":
        return False
    _check_cancelled(job.run, ended.state)
    return True


def _check_cancelled(run: RunId, end: str) -> None:
    if end != "cancelled":
        hint = f"`wavewright show {run}` shows it"
        raise CancelRefused(
            f"run {run} has ended ({end.replace('_', ' ')})", hint, exit_code=exit_codes.NEGATIVE
        )
