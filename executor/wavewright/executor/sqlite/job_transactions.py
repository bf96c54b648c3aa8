"""What the job store does in one transaction each, in the journal's file.

A *transaction* here is called on the thread that owns the file, between the beginning and the end that
`JournalStore.grant` makes; whatever it raises, nothing of it is written. A job is worked on by whoever holds its root
run, and every change of a job checks that hold's fence first.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import get_args

from wavewright.executor.sqlite.event_store import SqliteEventStore
from wavewright.executor.sqlite.job_tables import SqliteJobTables, changed_job, require_job
from wavewright.executor.store.errors import JournalError, RunBusy
from wavewright.executor.store.job_records import (
    Decision,
    DecisionId,
    DecisionMade,
    JobChange,
    JobId,
    JobRequested,
    JobRow,
    JobState,
    MessageId,
    OutgoingMessage,
    Receipt,
    ReceivedMessage,
    ReceptionView,
    Request,
    RetentionCursor,
    VerdictGiven,
)
from wavewright.executor.store.job_rows import outgoing_row
from wavewright.executor.store.job_rules import (
    TRUSTED_ATTEMPTS,
    apply_verdict,
    begin_attempt,
    can_apply_verdict,
    choose_run_id,
    dead_letter,
    has_exhausted_attempts,
    is_poison_candidate,
    new_job,
    receipt_for,
    receipt_for_answer,
    receipt_for_deferred,
    resume_job,
)
from wavewright.executor.store.job_store import OUTBOX_LEASE_SECONDS, ProjectJob
from wavewright.executor.store.leases import LeaseProbes
from wavewright.planner.types import RunId


class SqliteJobTransactions:
    """The job store's side of an open journal."""

    def __init__(
        self,
        store: SqliteEventStore,
        *,
        clock: Callable[[], float],
        outbox_lease: float = OUTBOX_LEASE_SECONDS,
    ) -> None:
        """Work on the journal's own connection, as its owner.

        Args:
            store: The open journal.
            clock: Seconds since the epoch.
            outbox_lease: Seconds for which messages of the outbox are this owner's to publish.
        """
        self._store = store
        self._tables: SqliteJobTables = store.jobs
        self._clock = clock
        self._outbox_lease = outbox_lease
        self._lease_probes = LeaseProbes()

    # Messages and answers

    def receive(self, message: ReceivedMessage, tell: ProjectJob) -> Receipt:
        """Judge a message and take its effect."""
        now = self._clock()
        if self._tables.is_seen(message.message):
            # Whatever it names: what is known of that does not matter.
            return receipt_for(message, ReceptionView(now, is_seen=True))
        view = self._view(message.request, now)
        receipt = receipt_for(message, view)
        if receipt.action == "accept":
            is_done = self._take_effect(message.request, view, tell)
            self._tables.remember(message, now, is_kept=not is_done)
        elif receipt.action == "defer":
            self._tables.remember(message, now, is_kept=True)
        return receipt

    def decide(self, made: DecisionMade, tell: ProjectJob) -> Receipt:
        """Take an answer that came by another door than a message."""
        view = self._view(made, self._clock())
        receipt = receipt_for_answer(made, view)
        if receipt.action == "accept":
            self._take_effect(made, view, tell)
        # There is nothing that could be kept: whoever is at this door can see what is asked.
        return replace(receipt, action="dead_letter") if receipt.action == "defer" else receipt

    def _view(self, request: Request, now: float, *, before: int | None = None) -> ReceptionView:
        if isinstance(request, DecisionMade):
            decision = self._tables.find_decision(request.decision)
            job = None if decision is None else self._tables.find_job(decision.job)
            return ReceptionView(now, job=job, decision=decision)
        job = self._tables.find_job(request.job)
        if isinstance(request, JobRequested):
            return ReceptionView(now, job=job)
        kept = self._tables.kept_verdicts(request.job, before)
        return ReceptionView(now, job=job, kept=kept)

    def _take_effect(self, request: Request, view: ReceptionView, tell: ProjectJob) -> bool:
        """Return whether the request had its effect; else its turn is still to come."""
        match request:
            case JobRequested():
                job = new_job(request, choose_run_id(request.job, view.now, self._tables.has_run), view.now)
                self._tables.add_job(job)
                self._project(job, tell)
            case VerdictGiven():
                assert view.job is not None
                if not can_apply_verdict(view.job, request):
                    return False
                self._save(apply_verdict(view.job, request, view.now), tell)
            case DecisionMade():
                self._tables.answer(request.decision, request.choice, request.by, view.now)
                if view.job is not None and (job := resume_job(view.job, view.now)) != view.job:
                    self._save(job, tell)
        return True

    def _apply_deferred(self, tell: ProjectJob, now: float) -> None:
        """Take the effect of messages that were kept and whose turn has come."""
        for kept in self._tables.ripe_messages():
            view = self._view(kept.request, now, before=kept.no)
            action = receipt_for_deferred(kept.message, view).action
            is_done = action != "defer"
            if action == "accept":
                is_done = self._take_effect(kept.request, view, tell)
            self._tables.set_judged(kept.no, is_done=is_done)

    # Jobs

    def claim(self, most_weight: float | None, tell: ProjectJob) -> JobRow | None:
        """Take the next job and hold its run."""
        now = self._clock()
        self._apply_deferred(tell, now)
        most = math.inf if most_weight is None else most_weight
        waiting = self._tables.waiting_jobs(most, now)
        with closing(waiting):
            for candidate in heapq.merge(self._tables.begun_jobs(most), waiting):
                if not self._acquires(candidate.run):
                    continue
                job = self._tables.find_job(candidate.job)
                assert job is not None
                if is_poison_candidate(job) and self._holds_poison_candidate(beside=job.run):
                    self._store.release_lease(job.run)
                    continue
                if not has_exhausted_attempts(job):
                    job = begin_attempt(job, now)
                    self._tables.save_job(job)
                    return self._with_owner(job)
                self._save(dead_letter(job, now), tell)
                self._store.release_lease(job.run)
        return None

    def _holds_poison_candidate(self, *, beside: RunId) -> bool:
        runs = self._tables.poison_candidate_runs(TRUSTED_ATTEMPTS)
        return any(self._store.holds(run) for run in runs if run != beside)

    def _acquires(self, run: RunId) -> bool:
        """Hold the run, where nobody else does; one who may be dead is watched until the next call."""
        if self._store.holds(run):
            return False
        try:
            watch = self._store.acquire_lease(run, unmoved=self._lease_probes.expired_heartbeat(run))
        except RunBusy:
            self._lease_probes.note(run, None)
            return False
        self._lease_probes.note(run, watch)
        return watch is None

    def change(self, change: JobChange, tell: ProjectJob) -> None:
        """Say how a job stands that is held here."""
        now = self._clock()
        before = self._require_job(change.job)
        # A job that is resumed later goes on where its events end, whichever they are.
        self._store.check(before.run, despite_faults=change.state == "queued")
        job = changed_job(self._tables, before, change, now)
        self._save(job, tell)
        if change.state != "running":
            self._store.release_lease(job.run)
        if job.state in {"awaiting", "parked"}:
            self._apply_deferred(tell, now)

    def find_job(self, job: JobId) -> JobRow | None:
        """Return one job, with who works on it."""
        found = self._tables.find_job(job)
        return None if found is None else self._with_owner(found)

    def list_jobs(self, states: Sequence[JobState]) -> list[JobRow]:
        """Return jobs in the order in which they came."""
        return [self._with_owner(job) for job in self._tables.list_jobs(states)]

    def count_states(self) -> dict[JobState, int]:
        """Return how many jobs are in each state, none included."""
        known = self._tables.count_states()
        return {state: known.get(state, 0) for state in get_args(JobState)}

    def _require_job(self, job: JobId) -> JobRow:
        return require_job(self._tables, job)

    def _save(self, job: JobRow, tell: ProjectJob) -> None:
        self._tables.save_job(job)
        self._project(job, tell)

    def _project(self, job: JobRow, tell: ProjectJob) -> None:
        self._tables.outbox.put([outgoing_row(message) for message in tell(job)])

    def _with_owner(self, job: JobRow) -> JobRow:
        return replace(job, owner=self._store.owner_of(job.run)) if job.state == "running" else job

    # Decisions

    def list_decisions(self, *, is_open: bool, job: JobId | None) -> list[Decision]:
        """Return decisions in the order in which they were asked."""
        return self._tables.list_decisions(is_open=is_open, job=job)

    def find_decision(self, prefix: str) -> Decision | None:
        """Return the one decision whose id starts so.

        Raises:
            JournalError: there are several.
        """
        found = self._tables.match_decisions(prefix) if prefix else []
        if len(found) > 1:
            raise JournalError(
                f"{len(found)} decisions start with {prefix!r}",
                place=str(self._store.path),
                hint="type more of the id; `wavewright decisions` lists them",
            )
        return found[0] if found else None

    def take_answer(self, decision: DecisionId) -> Decision | None:
        """Return an answer that was not taken before, and mark it as taken."""
        return self._tables.find_decision(decision) if self._tables.take(decision, self._clock()) else None

    # The outbox

    def pending(self, most: int) -> list[OutgoingMessage]:
        """Return messages that must go out, and lease them."""
        return self._tables.outbox.lease(self._store.token, self._clock(), self._outbox_lease, most)

    def renew(self, messages: Sequence[MessageId]) -> None:
        """Lease messages for as long again."""
        self._tables.outbox.renew(self._store.token, messages, self._clock())

    def forget(self, before: float, beyond: RetentionCursor) -> RetentionCursor | None:
        """Forget the ids of messages from before an instant."""
        return self._tables.forget_messages(before, beyond)

    def mark_sent(self, messages: Sequence[MessageId]) -> None:
        """Note that these messages were confirmed."""
        self._tables.outbox.mark_sent(messages, self._clock())

    def mark_refused(self, message: MessageId, reason: str) -> None:
        """Keep a message out of the way that cannot be delivered."""
        self._tables.outbox.mark_refused(message, reason)

    def list_refused(self) -> list[OutgoingMessage]:
        """Return messages that could not be delivered, in their order."""
        return self._tables.outbox.list_refused()

    def release(self, messages: Sequence[MessageId]) -> None:
        """Have messages that were refused go out again."""
        self._tables.outbox.release(messages)
