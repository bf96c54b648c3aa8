"""Transactions of the job store, one per function.

If a function raises, nothing of its transaction is written. A job's owner holds the lease of its
root run, and every change of a job checks that lease first. Changing a job locks its row; a search
for a job to start skips locked rows and never waits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from wavewright.engine.service.job_store.records import (
    Decision,
    DecisionId,
    DecisionMade,
    JobChange,
    JobId,
    JobRequested,
    JobRow,
    JobState,
    MessageId,
    Receipt,
    ReceivedMessage,
    ReceptionView,
    Request,
    VerdictGiven,
)
from wavewright.engine.service.job_store.rows import WaitingJob
from wavewright.engine.service.job_store.rules import (
    FINAL_STATES,
    ProjectJob,
    apply_verdict,
    attempt_is_due,
    begin_attempt,
    can_apply_verdict,
    change_job,
    choose_run_id,
    dead_letter,
    has_exhausted_attempts,
    new_job,
    receipt_for,
    receipt_for_answer,
    receipt_for_deferred,
    resume_job,
    revive_job,
)
from wavewright.engine.service.job_store.tables import BegunJob, FoundWork, JobTables
from wavewright.executor import JournalError, RunBusy
from wavewright.executor.store.leases import LeaseProbes, judge_lease
from wavewright.executor.store.transaction import StoreTransaction
from wavewright.planner import RunId

# Messages and answers


async def receive(
    transaction: StoreTransaction, message: ReceivedMessage, project: ProjectJob
) -> Receipt:
    """Decide on a message and apply its effect."""
    tables, now = JobTables(transaction), transaction.now
    # The job's row is locked first: of two transactions with the same message, one sees the other's
    # effect.
    view = await _view(tables, message.request, now, message=message.message)
    receipt = receipt_for(message, view)
    if receipt.action == "accept":
        if message.arrived is not None and isinstance(message.request, DecisionMade):
            view = replace(view, now=min(message.arrived, now))
        is_done = await _apply(transaction, message.request, view, project)
        await tables.remember(message, now, is_kept=not is_done)
    elif receipt.action == "defer":
        await tables.remember(message, now, is_kept=True)
    return receipt


async def decide(transaction: StoreTransaction, made: DecisionMade, project: ProjectJob) -> Receipt:
    """Apply an answer that was not sent as a message."""
    view = await _view(JobTables(transaction), made, transaction.now)
    receipt = receipt_for_answer(made, view)
    if receipt.action == "accept":
        await _apply(transaction, made, view, project)
    # Nothing to defer: this way of answering requires an existing question.
    return replace(receipt, action="dead_letter") if receipt.action == "defer" else receipt


async def _view(
    tables: JobTables,
    request: Request,
    now: float,
    *,
    message: MessageId | None = None,
    before: int | None = None,
) -> ReceptionView:
    """Lock and return the rows that a request is about.

    Args:
        tables: The tables of the transaction.
        request: The request.
        now: Seconds since the epoch.
        message: Its message, if that may have been received before.
        before: The number of a deferred message; of other deferred ones, those before it count.
    """
    if isinstance(request, DecisionMade):
        await tables.lock_decision(request.decision)
        unlocked = await tables.find_decision(request.decision)
        job = None if unlocked is None else await tables.find_job(unlocked.job, locked=True)
        # Read again, now that the lock excludes other answers.
        decision = (
            None if unlocked is None else await tables.find_decision(unlocked.id, locked=True)
        )
        is_seen = message is not None and await tables.is_seen(message)
        return ReceptionView(now, is_seen=is_seen, job=job, decision=decision)
    if message is None:
        job, is_seen = await tables.find_job(request.job, locked=True), False
    else:
        job, is_seen = await tables.lock_job_and_message(request.job, message)
    is_verdict = isinstance(request, VerdictGiven)
    kept = await tables.kept_verdicts(request.job, before) if is_verdict else ()
    return ReceptionView(now, is_seen=is_seen, job=job, kept=kept)


async def _apply(
    transaction: StoreTransaction, request: Request, view: ReceptionView, project: ProjectJob
) -> bool:
    """Apply a request and return whether it took effect; otherwise it stays deferred."""
    tables = JobTables(transaction)
    match request:
        case JobRequested() if view.job is not None:
            await _save(transaction, revive_job(view.job, view.now), project)
        case JobRequested():
            await _project(transaction, await _add(tables, request, view.now), project)
        case VerdictGiven():
            assert view.job is not None
            if not can_apply_verdict(view.job, request):
                return False
            await _save(transaction, apply_verdict(view.job, request, view.now), project)
        case DecisionMade():
            await tables.answer(request.decision, request.choice, request.by, view.now)
            if view.job is not None and (job := resume_job(view.job, view.now)) != view.job:
                await _save(transaction, job, project)
    return True


async def _add(tables: JobTables, request: JobRequested, now: float) -> JobRow:
    taken = set[RunId]()
    while True:
        job = new_job(request, choose_run_id(request.job, now, taken.__contains__), now)
        if await tables.add_job(job):
            return job
        taken.add(job.run)


async def _apply_deferred(transaction: StoreTransaction, project: ProjectJob) -> None:
    """Apply deferred messages that are due, without those that others have locked."""
    tables, now = JobTables(transaction), transaction.now
    for kept in await tables.ripe_messages():
        if not await tables.lock_ripe(kept):
            continue
        view = await _view(tables, kept.request, now, before=kept.no)
        action = receipt_for_deferred(kept.message, view).action
        is_done = action != "defer"
        if action == "accept":
            is_done = await _apply(transaction, kept.request, view, project)
        await tables.set_judged(kept.no, is_done=is_done)


async def _save(transaction: StoreTransaction, job: JobRow, project: ProjectJob) -> None:
    await JobTables(transaction).save_job(job)
    await _project(transaction, job, project)


async def _project(transaction: StoreTransaction, job: JobRow, project: ProjectJob) -> None:
    await JobTables(transaction).put_messages(project(job))


# Claims


class JobClaims:
    """The claims of one daemon."""

    def __init__(self) -> None:
        self._lease_probes = LeaseProbes()

    async def may_claim(self, transaction: StoreTransaction, most_weight: float | None) -> bool:
        """Return whether `claim` could find a job, by a query without a commit."""
        work = await JobTables(transaction).find_work(_max_weight(most_weight))
        return work.has_ripe_message or work.has_due_job or bool(_abandoned_jobs(transaction, work))

    async def claim(
        self, transaction: StoreTransaction, most_weight: float | None, project: ProjectJob
    ) -> JobRow | None:
        """Start the next job and acquire the lease of its run."""
        tables, now, most = JobTables(transaction), transaction.now, _max_weight(most_weight)
        work = await tables.find_work(most)
        if work.has_ripe_message:
            await _apply_deferred(transaction, project)
        begun = _abandoned_jobs(transaction, work)
        waiting = await tables.next_waiting(most, now, None)
        while begun or waiting is not None:
            if waiting is None or (begun and begun[0] < waiting[0]):
                place, job = None, await tables.lock_begun(begun.pop(0).job)
            else:
                place, job = waiting
            if (
                job is not None
                and (claimed := await self._begin(transaction, job, project)) is not None
            ):
                return claimed
            if place is not None:
                waiting = await tables.next_waiting(most, now, place)
        return None

    async def _begin(
        self, transaction: StoreTransaction, job: JobRow, project: ProjectJob
    ) -> JobRow | None:
        """Start a job that is locked here; None if its run is held elsewhere, or it has had too
        many attempts.
        """
        if not await self._acquires(transaction, job.run):
            return None
        if has_exhausted_attempts(job):
            await _save(transaction, dead_letter(job, transaction.now), project)
            await transaction.release(job.run)
            return None
        job = begin_attempt(job, transaction.now)
        await JobTables(transaction).save_job(job)
        return replace(job, owner=str(transaction.owner))

    async def _acquires(self, transaction: StoreTransaction, run: RunId) -> bool:
        """Acquire the run's lease if it is free; an owner who may be dead is probed until the next
        call.
        """
        if transaction.held_lease(run) is not None:
            return False
        probe = None
        try:
            probe = await transaction.acquire(
                run, unmoved=self._lease_probes.expired_heartbeat(run)
            )
            return probe is None
        except RunBusy:
            return False
        finally:
            self._lease_probes.note(run, probe)


def _abandoned_jobs(transaction: StoreTransaction, work: FoundWork) -> list[WaitingJob]:
    """Return started jobs that are held neither here nor by another living owner."""
    return [begun.place for begun in work.begun if _may_take(transaction, begun, work.now)]


def _may_take(transaction: StoreTransaction, begun: BegunJob, now: float) -> bool:
    if transaction.held_lease(begun.place.run) is not None:
        return False
    if not attempt_is_due(begun.attempts, begun.since, now):
        return False
    # A job of this process is left over from an error: it could not be released, or was never
    # reported.
    if begun.lease is None or begun.lease.owner.token == transaction.owner.token:
        return True
    return (
        judge_lease(begun.lease, now=now, pid_namespace=transaction.owner.pid_namespace) != "busy"
    )


def _max_weight(weight: float | None) -> float:
    return math.inf if weight is None else weight


# Changes by the owner


async def change(transaction: StoreTransaction, wanted: JobChange, project: ProjectJob) -> None:
    """Change a job that is held here."""
    tables = JobTables(transaction)
    before = await tables.find_job(wanted.job)
    if before is not None:
        # Before the job's row is locked, as where events are written.
        # A job that is resumed later continues after its last event.
        await transaction.check(before.run, despite_faults=wanted.state == "queued")
    job = await changed_job(tables, await require_job(tables, wanted.job), wanted, transaction.now)
    await _save(transaction, job, project)
    if wanted.state != "running":
        await transaction.release(job.run)
    if job.state in {"validating", "waiting"}:
        await _apply_deferred(transaction, project)


async def cancel_waiting(
    transaction: StoreTransaction, job: JobId, reason: str, project: ProjectJob
) -> JobRow:
    """Cancel a job that no daemon works on, and return it; any other is returned unchanged."""
    row = await require_job(JobTables(transaction), job)
    if row.state == "running" or row.state in FINAL_STATES:
        return row
    ended = change_job(row, JobChange(job, "cancelled", reason=reason), transaction.now)
    await _save(transaction, ended, project)
    return ended


async def changed_job(tables: JobTables, job: JobRow, wanted: JobChange, now: float) -> JobRow:
    """Return the job with a change by its owner; if the answer that it waits for is there, it is
    queued.

    Raises:
        JournalError: it has another end.
    """
    job = change_job(job, wanted, now)
    is_answered = job.state == "waiting" and await tables.has_untaken_answer(job.job)
    return resume_job(job, now) if is_answered else job


async def require_job(tables: JobTables, job: JobId) -> JobRow:
    row = await tables.find_job(job, locked=True)
    if row is None:
        raise JournalError(
            f"there is no job {job}", hint="a job is made by the message that asks for it"
        )
    return row


# Questions


async def find_job(transaction: StoreTransaction, job: JobId) -> JobRow | None:
    """Return one job with its owner."""
    row = await JobTables(transaction).find_job(job)
    return None if row is None else await _with_owner(transaction, row)


async def list_jobs(
    transaction: StoreTransaction, states: Sequence[JobState], newest: int | None
) -> list[JobRow]:
    """Return jobs in the order of arrival, or so many newest, these first."""
    rows = await JobTables(transaction).list_jobs(states, newest)
    return [await _with_owner(transaction, job) for job in rows]


async def _with_owner(transaction: StoreTransaction, job: JobRow) -> JobRow:
    return (
        replace(job, owner=await transaction.owner_of(job.run)) if job.state == "running" else job
    )


async def find_decision(transaction: StoreTransaction, prefix: str) -> Decision | None:
    """Return the one decision whose id has this prefix.

    Raises:
        JournalError: several decisions have it.
    """
    decisions = await JobTables(transaction).match_decisions(prefix) if prefix else []
    if len(decisions) > 1:
        raise JournalError(
            f"{len(decisions)} decisions start with {prefix!r}",
            place=transaction.place,
            hint="type more of the id; `wavewright decisions` lists them",
        )
    return decisions[0] if decisions else None


async def take_answer(transaction: StoreTransaction, decision: DecisionId) -> Decision | None:
    """Return an answered decision that was not taken, and mark it as taken."""
    tables = JobTables(transaction)
    return (
        await tables.find_decision(decision)
        if await tables.take(decision, transaction.now)
        else None
    )
