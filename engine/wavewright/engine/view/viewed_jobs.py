"""The jobs of daemons as viewers see and steer them: what waits, what went wrong, and what is left of the day."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from pydantic import BaseModel

from wavewright.engine.jobs.job_requests import job_name
from wavewright.engine.messages.decoding import PAYLOAD_KEY, SUBMITTER_KEY
from wavewright.engine.targets.waves import OPEN_JOB_STATES
from wavewright.engine.view.viewed_project import ViewedProject
from wavewright.executor.store.errors import JournalError, RunNotFound
from wavewright.executor.store.job_records import (
    JobId,
    JobRequested,
    JobRow,
    JobState,
    MessageId,
    OutgoingMessage,
    ReceivedMessage,
)
from wavewright.executor.stores import place_of_journal
from wavewright.planner.ports.budgets import BudgetScope, InspectableBudgetStore, RemainingBudget
from wavewright.planner.types import JsonObject, RunId

VIEW_REQUEST: Final = "view_request"
"""Kind of a request that comes from the live page, not by a message."""
_MAX_JOBS: Final = 200
"""In one list."""
_RATE_SECONDS: Final = 3600.0
_GIVEN_UP: Final[Sequence[JobState]] = ("dead", "failed")


class JobSummary(BaseModel):
    """A job, without what was sent with it."""

    job: JobId
    name: str
    state: JobState
    reason: str
    run: RunId
    received: float
    state_since: float
    not_before: float | None
    attempts: int
    owner: str | None
    """Who works on it."""
    submitted_by: str | None
    """The name that was given in the live page."""


class RefusedMessage(BaseModel):
    """A message of a daemon that the broker does not take."""

    message: MessageId
    kind: str
    job: JobId | None
    at: float
    reason: str


class JobOverview(BaseModel):
    """The jobs of all daemons on one store."""

    counts: dict[JobState, int]
    open: list[JobSummary]
    """Those that have not ended, of the newest; those at work first, then the queue in its order."""
    given_up: list[JobSummary]
    """The newest of those that failed or are dead."""
    refused: list[RefusedMessage]
    slots: int
    """Of each daemon."""
    daemons: list[str]
    """Those that work on a job now."""
    lag: float | None
    """Seconds for which the job that may start next has waited; null where none may."""
    ended_last_hour: dict[JobState, int]
    day: RemainingBudget
    """What all runs of the day (UTC) have spent, and may still spend."""
    store: str
    """Where journal, jobs and budgets are."""


class SentJob(BaseModel):
    """A job that was put into the queue."""

    job: JobId


@dataclass(frozen=True, slots=True)
class ViewedJobs:
    """The jobs of a project's daemons."""

    project: ViewedProject
    budgets: InspectableBudgetStore

    async def overview(self) -> JobOverview:
        """Return how the jobs stand."""
        jobs, now, settings = self.project.jobs, time.time(), self.project.settings
        rows = await jobs.list_jobs(OPEN_JOB_STATES, newest=_MAX_JOBS)
        rows.sort(key=lambda row: (row.state != "running", row.state != "queued", row.queue_rank))
        due = [row.state_since for row in rows if row.state == "queued" and (row.not_before or 0.0) <= now]
        return JobOverview(
            counts=await jobs.count_states(),
            open=[_summary(row) for row in rows],
            given_up=[_summary(row) for row in await jobs.list_jobs(_GIVEN_UP, newest=_MAX_JOBS)],
            refused=[_refused(message) for message in (await jobs.list_refused())[:_MAX_JOBS]],
            slots=settings.daemon.slots,
            daemons=sorted({row.owner for row in rows if row.owner is not None}),
            lag=max(0.0, now - min(due)) if due else None,
            ended_last_hour=await jobs.count_ended(now - _RATE_SECONDS),
            day=(await self.budgets.left(BudgetScope())).day,
            store=place_of_journal(settings),
        )

    async def send_again(self, job: JobId, by: str) -> JobId:
        """Put the request of a job that failed or is dead into the queue as a new job, and return its id.

        Raises:
            RunNotFound: there is no such job.
            JournalError: it has not failed, or nothing could be written.
        """
        row = await self.project.jobs.find_job(job)
        if row is None:
            raise RunNotFound(f"there is no job {job!r}", hint="the page of jobs lists them")
        if row.state not in _GIVEN_UP:
            raise JournalError(
                f"job {job} is {row.state}", hint="only a job that failed or is dead is sent again"
            )
        new, sent = JobId(str(uuid4())), row.request.get(PAYLOAD_KEY)
        payload: JsonObject = {PAYLOAD_KEY: {**sent, "job_id": new}} if isinstance(sent, dict) else {}
        await self.enqueue(JobRequested(new, {**row.request, **payload}, row.weight), by)
        return new

    async def enqueue(self, request: JobRequested, by: str) -> None:
        """Put a job into the queue; the request and the memory of messages keep who did it, and when.

        Raises:
            JournalError: nothing was written.
        """
        known = JobRequested(request.job, {**request.request, SUBMITTER_KEY: by}, request.weight)
        message = ReceivedMessage(MessageId(str(uuid4())), VIEW_REQUEST, by, time.time(), known)
        receipt = await self.project.jobs.receive(message)
        if receipt.action != "accept":
            raise JournalError(f"the job was not taken: {receipt.reason}")


def _summary(row: JobRow) -> JobSummary:
    by = row.request.get(SUBMITTER_KEY)
    return JobSummary(
        job=row.job,
        name=job_name(row),
        state=row.state,
        reason=row.reason,
        run=row.run,
        received=row.received,
        state_since=row.state_since,
        not_before=row.not_before,
        attempts=row.attempts,
        owner=row.owner,
        submitted_by=by if isinstance(by, str) else None,
    )


def _refused(message: OutgoingMessage) -> RefusedMessage:
    return RefusedMessage(
        message=message.message,
        kind=message.kind,
        job=message.job,
        at=message.at,
        reason=message.refused or "",
    )
