"""What a daemon does beside its jobs: periodic maintenance of the store, and copies of where jobs
stand.

A question for an approval *expires*; a late answer is refused. The daemon then queues the waiting
job, and its run asks again with a new nonce. A planner's question never expires.

A package whose verdict does not come within `daemon.validation.timeout` is rejected by the daemon
itself.

Message ids are stored to recognise repeats. A message older than `daemon.max_age` is refused
whatever its id is, so older ids are removed. Runs are removed where the setting `retention` is set.

Copies of the progress of jobs are written behind their runs to an MCP server of the project. The
journal stays authoritative: nothing waits for a copy, nothing is read from one, and what cannot be
written is logged and left out. Of copies of one target that wait only the newest is written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

import anyio

from wavewright.config import Settings
from wavewright.engine.run.package import remove_run_files
from wavewright.engine.service.job_store.message_retention import RUN_OF_OPEN_JOB
from wavewright.engine.service.job_store.records import (
    RETENTION_START,
    Decision,
    DecisionId,
    JobChange,
    ReceivedMessage,
    RetentionCursor,
    SentPackage,
    VerdictGiven,
)
from wavewright.engine.service.job_store.rules import ProjectJob
from wavewright.engine.service.job_store.store import JobStore
from wavewright.engine.service.messages.models import ValidationResult, message_id
from wavewright.engine.service.operations.logs import StructuredLog
from wavewright.executor import JournalError, RunBusy, RunLost
from wavewright.executor.store.retention import RunRemoval, remove_groups
from wavewright.executor.store.stored_journal import StoredJournal
from wavewright.planner import RunId, StepId, StepKey
from wavewright.planner.ports.budgets import BudgetScope
from wavewright.tools import CheckpointForm, JobProgress, Services, ToolCall
from wavewright.tools.functions.tool import ServerCaller

RENEWAL_POLL_SECONDS: Final = 30.0
"""How often expired questions are searched for."""


@dataclass(frozen=True, slots=True)
class ApprovalRenewal:
    """Queues the jobs whose approval has expired."""

    jobs: JobStore
    journal: StoredJournal
    clock: Callable[[], float]
    drained: Callable[[], Awaitable[None]]
    """Waits for the effect of every message that the broker has got before."""
    _renewed: set[DecisionId] = field(default_factory=set[DecisionId])
    """Questions whose jobs were queued here and that are still open."""

    async def renew(self) -> int:
        """Queue the jobs whose last question has expired and return their number.

        An expired question stays open where its run has asked again or has ended. Its job is queued
        once for it, and not again each time that the job waits for another question.
        """
        now, renewed = self.clock(), 0
        decisions = await self.jobs.list_decisions()
        if any(_is_expired(decision, now) for decision in decisions):
            # Their answers may have come in time and wait at the broker.
            await self.drained()
            decisions = await self.jobs.list_decisions()
        self._renewed.intersection_update([decision.id for decision in decisions])
        # Questions before the last one of a run are not waited for.
        for decision in {decision.run: decision for decision in decisions}.values():
            if (
                _is_expired(decision, now)
                and decision.id not in self._renewed
                and await self._requeue_job(decision)
            ):
                self._renewed.add(decision.id)
                renewed += 1
        return renewed

    async def _requeue_job(self, decision: Decision) -> bool:
        job = await self.jobs.find_job(decision.job)
        if job is None or job.state != "waiting":
            return False
        run, is_queued = job.run, False
        try:
            await self.journal.open_run(run)
        except RunBusy:
            # Another daemon handles it.
            return False
        try:
            job = await self.jobs.find_job(decision.job)
            if job is not None and job.state == "waiting":
                await self.jobs.change(
                    JobChange(decision.job, "queued", reason="nobody has answered in time")
                )
                is_queued = True
        except RunLost:
            return False
        finally:
            if not is_queued:
                # Otherwise no daemon could claim the job as long as this process lives.
                with anyio.CancelScope(shield=True):
                    await self.journal.close_run(run)
        return is_queued


def _is_expired(decision: Decision, now: float) -> bool:
    return decision.expires is not None and decision.expires <= now


VERDICT_POLL_SECONDS: Final = 30.0
"""How often packages without a verdict are searched for, at least."""
MIN_VERDICT_POLL_SECONDS: Final = 1.0
"""The same at most, where they wait for less than that."""


async def reject_overdue(
    jobs: JobStore,
    seconds: float,
    now: float,
    project: ProjectJob,
    drained: Callable[[], Awaitable[None]],
) -> list[VerdictGiven]:
    """Reject the packages of jobs that have waited so many seconds for verdicts alone; return the
    verdicts.

    Args:
        jobs: The job store.
        seconds: Time that a package waits at most.
        now: Seconds since the epoch.
        project: Makes the messages about the jobs.
        drained: Waits for the effect of every message that the broker has got before: a verdict
            that came in time is judged first, and the first verdict stands.
    """
    rejected = list[VerdictGiven]()
    validating = await jobs.list_jobs(("validating",))
    overdue = [job for job in validating if now - job.state_since >= seconds]
    if overdue:
        await drained()
    for job in overdue:
        for sent in job.sent or (SentPackage(job.package or "", job.iteration),):
            reason = f"no verdict came within {seconds:g} seconds"
            verdict = VerdictGiven(
                job.job, sent.package, sent.iteration, accepted=False, feedback=(reason,)
            )
            message = message_id(job.job, sent.iteration, "verdict_overdue", sent.package)
            received = ReceivedMessage(message, ValidationResult.message_type, "", now, verdict)
            if (await jobs.receive(received, project)).action == "accept":
                rejected.append(verdict)
    return rejected


PRUNE_POLL_SECONDS: Final = 600.0
"""How often old message ids are removed."""
BETWEEN_GROUPS_SECONDS: Final = 0.05
"""Between two groups, so that other transactions do not wait."""


async def remove_message_ids(jobs: JobStore, before: float) -> None:
    """Remove the ids of messages from before an instant, a group at a time."""
    cursor: RetentionCursor | None = RETENTION_START
    while cursor is not None:
        cursor = await jobs.forget(before, cursor)
        await anyio.sleep(BETWEEN_GROUPS_SECONDS)


async def remove_runs(
    journal: StoredJournal, settings: Settings, log: StructuredLog, before: float
) -> None:
    """Remove the runs that ended before an instant, with their files on this machine, a group at a
    time.
    """
    runs, size = 0, 0
    try:
        async for removed in remove_groups(RunRemoval(journal, RUN_OF_OPEN_JOB), before):
            runs += len(removed.runs)
            size += removed.bytes
            size += await anyio.to_thread.run_sync(remove_run_files, settings, removed.runs)
    finally:
        if runs:
            log.write("runs_removed", runs=runs, bytes=size)


async def repeat(
    work: Callable[[], Awaitable[object]], pause: float, on_fault: Callable[[JournalError], None]
) -> None:
    """Do some work again and again, `pause` seconds after its end, until this is cancelled."""
    while True:
        try:
            await work()
        except JournalError as fault:
            on_fault(fault)
        await anyio.sleep(pause)


def checkpoint_writer(
    settings: Settings, services: Services, log: StructuredLog, clock: Callable[[], float]
) -> CheckpointWriter | None:
    """Return what copies the progress of jobs, where the pack has a form for it and the project
    names its server.
    """
    form, bound, budget_store = (
        log.contract.checkpoint,
        settings.budgets.day.tokens,
        services.budget_store,
    )
    if form is None or services.mcp is None or form.server not in settings.mcp.servers:
        return None

    async def tokens_today() -> int:
        if bound is None or budget_store is None:
            return 0
        left = (await budget_store.left(BudgetScope())).day.tokens
        return 0 if left is None else bound - max(0, left)

    return CheckpointWriter(form, services.mcp, log, clock, tokens_today)


class CheckpointWriter:
    """Writes the newest progress of a daemon's jobs in the form of its pack."""

    def __init__(
        self,
        form: CheckpointForm,
        sessions: ServerCaller,
        log: StructuredLog,
        clock: Callable[[], float],
        tokens_today: Callable[[], Awaitable[int]],
    ) -> None:
        self._form = form
        self._sessions = sessions
        self._log = log
        self._clock = clock
        self._tokens_today = tokens_today
        self._newest = dict[str, JobProgress]()
        """What waits, by target."""
        self._is_wanted = anyio.Event()

    def note(self, progress: JobProgress) -> None:
        """Take over where a job stands; it is written soon."""
        self._newest[progress.target] = progress
        self._is_wanted.set()

    async def run(self) -> None:
        """Write what is noted, until this is cancelled."""
        while True:
            await self._is_wanted.wait()
            self._is_wanted = anyio.Event()
            waiting, self._newest = self._newest, {}
            for progress in waiting.values():
                await self._write(progress)

    async def _write(self, progress: JobProgress) -> None:
        form, now = self._form, datetime.fromtimestamp(self._clock(), UTC)
        run, step = RunId(progress.run), StepId("checkpoint")
        try:
            known = replace(progress, tokens_today=await self._tokens_today())
            params = form.params(known, now.date())
            call = ToolCall(
                run=run, step=step, tool=form.tool, params=params, key=StepKey(""), now=now
            )
            await self._sessions.call(form.server, form.tool, call)
        except Exception as error:  # noqa: BLE001 - a copy that cannot be made must not stop the daemon
            self._log.write("checkpoint_not_saved", "warning", target=progress.target, error=error)
