"""The jobs of daemons as viewers see, steer and make them.

They see what waits, what went wrong and what is left of the day. A new job is made of a goal
template or a job with its inputs, dry-run, and put into the queue.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from markupsafe import Markup
from pydantic import BaseModel

from wavewright.config import DocumentError, WavewrightError, read_document, read_document_file
from wavewright.engine.interfaces.view.viewed_project import ViewedProject
from wavewright.engine.rehearsal.dry_run.outlook import forecast_job
from wavewright.engine.rehearsal.dry_run.page import dry_run_figure, headline_figures
from wavewright.engine.run.jobs.goal_in_words import with_kept_plan
from wavewright.engine.run.jobs.inline import portable_job, resolve_inline_job
from wavewright.engine.run.jobs.inputs import InputOverrides
from wavewright.engine.run.jobs.resolving import ResolvedJob
from wavewright.engine.run.project.templates import read_template, template_names
from wavewright.engine.run.project.used_packs import pack_use
from wavewright.engine.service.job_store.records import (
    PRIORITY_KEY,
    JobId,
    JobRequested,
    JobRow,
    JobState,
    MessageId,
    OutgoingMessage,
    ReceivedMessage,
)
from wavewright.engine.service.job_store.rules import OPEN_STATES
from wavewright.engine.service.messages.contract import message_contract
from wavewright.engine.service.messages.decoding import (
    PAYLOAD_KEY,
    SOURCE_KEY,
    SUBMITTER_KEY,
    document_refusal,
    document_request,
    stored_text,
)
from wavewright.engine.service.messages.delivery import document_rule
from wavewright.engine.service.requested_jobs import job_name
from wavewright.executor import JournalError, RunNotFound
from wavewright.executor.stores import place_of_journal
from wavewright.planner import JsonObject, RunId, as_object
from wavewright.planner.ports.budgets import BudgetScope, InspectableBudgetStore, RemainingBudget

_VIEW_REQUEST: Final = "view_request"
"""Kind of a request that comes from the live page, not by a message."""
_MAX_JOBS: Final = 200
"""In one list."""
_RATE_SECONDS: Final = 3600.0
_GIVEN_UP: Final[Sequence[JobState]] = ("dead", "failed")
_OVER: Final[Sequence[JobState]] = ("completed", "cancelled")
_MAX_COMPLETED: Final = 50


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
    """Those that have not ended, of the newest; those at work first, then the queue in its order.
    """
    given_up: list[JobSummary]
    """The newest of those that failed or are dead."""
    completed: list[JobSummary]
    """The newest of those that came to their end, or that a person has cancelled."""
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
        rows = await jobs.list_jobs(OPEN_STATES, newest=_MAX_JOBS)
        rows.sort(key=lambda row: (row.state != "running", row.state != "queued", row.queue_rank))
        due = [
            row.state_since
            for row in rows
            if row.state == "queued" and (row.not_before or 0.0) <= now
        ]
        return JobOverview(
            counts=await jobs.count_states(),
            open=[_summary(row) for row in rows],
            given_up=[_summary(row) for row in await jobs.list_jobs(_GIVEN_UP, newest=_MAX_JOBS)],
            completed=[_summary(row) for row in await jobs.list_jobs(_OVER, newest=_MAX_COMPLETED)],
            refused=[_refused(message) for message in (await jobs.list_refused())[:_MAX_JOBS]],
            slots=settings.daemon.slots,
            daemons=sorted({row.owner for row in rows if row.owner is not None}),
            lag=max(0.0, now - min(due)) if due else None,
            ended_last_hour=await jobs.count_ended(now - _RATE_SECONDS),
            day=(await self.budgets.left(BudgetScope())).day,
            store=place_of_journal(settings),
        )

    async def send_again(self, job: JobId, by: str) -> JobId:
        """Put the request of a failed job into the queue as a new job, or continue the run of a
        dead one; return the job's id.

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
        if row.state == "dead":
            await self.enqueue(JobRequested(job, row.request, row.weight), by)
            return job
        new, sent = JobId(str(uuid4())), row.request.get(PAYLOAD_KEY)
        payload: JsonObject = (
            {PAYLOAD_KEY: {**sent, "job_id": new}} if isinstance(sent, dict) else {}
        )
        await self.enqueue(JobRequested(new, {**row.request, **payload}, row.weight), by)
        return new

    async def enqueue(self, request: JobRequested, by: str) -> None:
        """Put a job into the queue; the request and the memory of messages keep who did it, and
        when.

        Raises:
            JournalError: nothing was written.
        """
        known = JobRequested(request.job, {**request.request, SUBMITTER_KEY: by}, request.weight)
        message = ReceivedMessage(MessageId(str(uuid4())), _VIEW_REQUEST, by, time.time(), known)
        receipt = await self.project.jobs.receive(message)
        if receipt.action != "accept":
            raise JournalError(f"the job was not taken: {receipt.reason}")


def _summary(row: JobRow) -> JobSummary:
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
        submitted_by=stored_text(row, SUBMITTER_KEY),
    )


def _refused(message: OutgoingMessage) -> RefusedMessage:
    return RefusedMessage(
        message=message.message,
        kind=message.kind,
        job=message.job,
        at=message.at,
        reason=message.refused or "",
    )


@dataclass(frozen=True, slots=True)
class JobOffer:
    """What a form is made for."""

    name: str
    goal: str
    document: JsonObject
    """The job as it is sent, but for the inputs that are typed."""
    schema: JsonObject
    """Of its inputs."""

    @property
    def inputs_of_plan(self) -> JsonObject:
        """Those of its plan, whose place the job's inputs take."""
        return as_object(as_object(self.document.get("plan")).get("inputs"))


@dataclass(frozen=True, slots=True)
class JobDraft:
    """A job that can be put into the queue."""

    document: JsonObject
    resolved: ResolvedJob


@dataclass(frozen=True, slots=True)
class ShownDryRun:
    """The dry run of a job on a page."""

    facts: Sequence[tuple[str, str]]
    figure: Markup
    """The plan drawn, and a table of its steps."""
    text: str
    """Everything that is known, as the command line prints it."""


@dataclass(frozen=True, slots=True)
class Submissions:
    """What can be submitted to the daemons of a project; its methods read files and import tools."""

    jobs: ViewedJobs

    def names(self) -> tuple[list[str], list[str]]:
        """Return the names of the goal templates, and the paths of the jobs in the project and its
        folders `jobs` and `plans`.
        """
        settings = self.jobs.project.settings
        patterns = ("*.job.yaml", "plans/**/*.job.yaml", "jobs/**/*.yaml")
        files = [file for pattern in patterns for file in settings.root.glob(pattern)]
        unused = pack_use(settings).templates_of_unused()
        templates = [name for name in template_names(settings) if name not in unused]
        return templates, sorted(file.relative_to(settings.root).as_posix() for file in files)

    def offer(self, name: str) -> JobOffer:
        """Return what a form is made for: a goal template, or a job of the project.

        Raises:
            WavewrightError: there is none of that name, or it is faulty.
        """
        settings, (templates, jobs) = self.jobs.project.settings, self.names()
        if name in templates:
            template = read_template(name, settings.root, read_document("{}", "the page"), settings)
            return JobOffer(
                name, template.goal, {"name": name, "goal_template": name}, template.inputs_schema
            )
        if name not in jobs:
            raise WavewrightError(f"there is no goal template and no job {name!r}")
        file = settings.root / name
        document = portable_job(read_document_file(file), file, settings)
        goal = resolve_inline_job(document, settings).goal
        return JobOffer(name, goal.text, as_object(document.value), goal.inputs_schema)

    def draft(self, offer: JobOffer, typed: Mapping[str, str]) -> JobDraft:
        """Return a job with inputs as they were typed; what is empty is left as it is.

        Raises:
            WavewrightError: an input does not fit its schema, or the job is one that no daemon
                takes.
        """
        settings = self.jobs.project.settings
        given = InputOverrides(
            assignments=tuple(f"{name}={value}" for name, value in typed.items() if value)
        )
        own = as_object(offer.document.get("inputs"))
        try:
            inputs = given.applied(
                own, offer.schema, frozenset(typed), of_plan=offer.inputs_of_plan
            )
        except DocumentError as error:
            # Its place is the option of a command, of which a page knows nothing.
            first = error.faults[0]
            raise WavewrightError(first.message, first.hint) from error
        document: JsonObject = {**offer.document, "inputs": inputs}
        if (
            reason := document_refusal(document, document_rule(message_contract(settings)))
        ) is not None:
            raise WavewrightError(reason)
        text = json.dumps(document, indent=2, ensure_ascii=False)
        return JobDraft(document, resolve_inline_job(read_document(text, "the job"), settings))

    def dry_run(self, draft: JobDraft) -> ShownDryRun | None:
        """Return what a run of the job would do; None where a planner makes the plan once it runs.

        Raises:
            WavewrightError: the plan is not valid with these inputs.
        """
        settings = self.jobs.project.settings
        followed = with_kept_plan(draft.resolved, settings)
        if followed.draft is None:
            return None
        forecast = forecast_job(followed, settings)[1]
        figure = Markup(dry_run_figure(forecast, has_style=False))  # noqa: S704 - rendered from escaping templates
        return ShownDryRun(headline_figures(forecast), figure, str(forecast))

    async def send(self, draft: JobDraft, by: str) -> JobId:
        """Put the job into the queue and return its id.

        Raises:
            JournalError: nothing was written.
        """
        job, settings = JobId(str(uuid4())), self.jobs.project.settings
        rule = document_rule(message_contract(settings))
        origin: JsonObject = {SOURCE_KEY: "view"}
        if settings.daemon.priority:
            origin[PRIORITY_KEY] = settings.daemon.priority
        await self.jobs.enqueue(document_request(job, draft.document, rule, origin), by)
        return job
