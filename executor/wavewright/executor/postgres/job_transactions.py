"""What the job store does in one transaction each, in the database.

A *transaction* here is given the connection in it; whatever it raises, nothing of it is written. A job is worked on
by whoever holds its root run, and every change of a job checks that hold's fence first. Whoever changes a job has its
row locked; who looks for one to begin leaves out those that others have locked, and never waits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args

from wavewright.executor.postgres.append import changed_job, require_job
from wavewright.executor.postgres.driver import Connection
from wavewright.executor.postgres.event_store import PostgresEventStore
from wavewright.executor.postgres.job_tables import BegunJob, PostgresJobTables
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
    Receipt,
    ReceivedMessage,
    ReceptionView,
    Request,
    VerdictGiven,
)
from wavewright.executor.store.job_rows import WaitingJob, outgoing_row
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
from wavewright.executor.store.job_store import ProjectJob
from wavewright.executor.store.leases import HeldLease, LeaseProbe, LeaseProbes, judge_lease
from wavewright.planner.types import RunId


@dataclass(frozen=True, slots=True)
class ClaimedJob:
    """A job that was begun, with the hold of its run."""

    job: JobRow
    held: HeldLease


class PostgresJobTransactions:
    """The job store's side of an open journal."""

    def __init__(self, store: PostgresEventStore) -> None:
        """Work on the connection of an open journal, as its owner."""
        self._store = store
        self._lease_probes = LeaseProbes()

    # Messages and answers

    async def receive(
        self, connection: Connection, now: float, message: ReceivedMessage, tell: ProjectJob
    ) -> Receipt:
        """Judge a message and take its effect."""
        tables = PostgresJobTables(connection)
        # The job's row is locked first: of two that bring the same message, one sees what the other did.
        view = await self._view(tables, message.request, now)
        view = replace(view, is_seen=await tables.is_seen(message.message))
        receipt = receipt_for(message, view)
        if receipt.action == "accept":
            is_done = await self._take_effect(tables, message.request, view, tell)
            await tables.remember(message, now, is_kept=not is_done)
        elif receipt.action == "defer":
            await tables.remember(message, now, is_kept=True)
        return receipt

    async def decide(
        self, connection: Connection, now: float, made: DecisionMade, tell: ProjectJob
    ) -> Receipt:
        """Take an answer that came by another door than a message."""
        tables = PostgresJobTables(connection)
        view = await self._view(tables, made, now)
        receipt = receipt_for_answer(made, view)
        if receipt.action == "accept":
            await self._take_effect(tables, made, view, tell)
        # There is nothing that could be kept: whoever is at this door can see what is asked.
        return replace(receipt, action="dead_letter") if receipt.action == "defer" else receipt

    async def _view(
        self, tables: PostgresJobTables, request: Request, now: float, *, before: int | None = None
    ) -> ReceptionView:
        if isinstance(request, DecisionMade):
            await tables.lock_decision(request.decision)
            asked = await tables.find_decision(request.decision)
            job = None if asked is None else await tables.find_job(asked.job, locked=True)
            # As it is now that nobody else can answer it.
            decision = None if asked is None else await tables.find_decision(asked.id, locked=True)
            return ReceptionView(now, job=job, decision=decision)
        job = await tables.find_job(request.job, locked=True)
        if isinstance(request, JobRequested):
            return ReceptionView(now, job=job)
        return ReceptionView(now, job=job, kept=await tables.kept_verdicts(request.job, before))

    async def _take_effect(
        self, tables: PostgresJobTables, request: Request, view: ReceptionView, tell: ProjectJob
    ) -> bool:
        """Return whether the request had its effect; else its turn is still to come."""
        match request:
            case JobRequested():
                await _project(tables, await _add(tables, request, view.now), tell)
            case VerdictGiven():
                assert view.job is not None
                if not can_apply_verdict(view.job, request):
                    return False
                await _save(tables, apply_verdict(view.job, request, view.now), tell)
            case DecisionMade():
                await tables.answer(request.decision, request.choice, request.by, view.now)
                if view.job is not None and (job := resume_job(view.job, view.now)) != view.job:
                    await _save(tables, job, tell)
        return True

    async def _apply_deferred(self, tables: PostgresJobTables, tell: ProjectJob, now: float) -> None:
        """Take the effect of messages that were kept and whose turn has come, but for what others have locked."""
        for kept in await tables.ripe_messages():
            if not await tables.lock_ripe(kept):
                continue
            view = await self._view(tables, kept.request, now, before=kept.no)
            action = receipt_for_deferred(kept.message, view).action
            is_done = action != "defer"
            if action == "accept":
                is_done = await self._take_effect(tables, kept.request, view, tell)
            await tables.set_judged(kept.no, is_done=is_done)

    # Jobs

    async def may_claim(self, connection: Connection, most_weight: float | None) -> bool:
        """Return whether `claim` could find anything; looking costs the database no commit."""
        tables, most = PostgresJobTables(connection), _max_weight(most_weight)
        has_work, now = await tables.has_work(most)
        return has_work or bool(await self._abandoned_jobs(tables, most, now))

    async def claim(
        self, connection: Connection, now: float, most_weight: float | None, tell: ProjectJob
    ) -> ClaimedJob | None:
        """Take the next job and hold its run; the hold is to be noted once this is committed."""
        tables, most = PostgresJobTables(connection), _max_weight(most_weight)
        await self._apply_deferred(tables, tell, now)
        begun = await self._abandoned_jobs(tables, most, now)
        waiting = await tables.next_waiting(most, now, None)
        while begun or waiting is not None:
            if waiting is None or (begun and begun[0] < waiting[0]):
                place, job = None, await tables.lock_begun(begun.pop(0).job)
            else:
                place, job = waiting
            claimed = None if job is None else await self._begin(connection, job, now, tell)
            if claimed is not None:
                return claimed
            if place is not None:
                waiting = await tables.next_waiting(most, now, place)
        return None

    async def _begin(
        self, connection: Connection, job: JobRow, now: float, tell: ProjectJob
    ) -> ClaimedJob | None:
        """Begin a job that is locked here; none where its run is not to be had, or it was begun too often."""
        held = await self._acquire(connection, job.run)
        if held is None:
            return None
        tables = PostgresJobTables(connection)
        if is_poison_candidate(job) and await self._holds_poison_candidate(tables, beside=job.run):
            await self._store.leases.release(connection, held)
            return None
        if has_exhausted_attempts(job):
            await _save(tables, dead_letter(job, now), tell)
            await self._store.leases.release(connection, held)
            return None
        job = begin_attempt(job, now)
        await tables.save_job(job)
        return ClaimedJob(replace(job, owner=str(self._store.session.owner)), held)

    async def _holds_poison_candidate(self, tables: PostgresJobTables, *, beside: RunId) -> bool:
        runs = await tables.poison_candidate_runs(TRUSTED_ATTEMPTS, await self._store.session.number())
        return any(
            run != beside and self._holds(run, is_taken_now=is_taken_now) for run, is_taken_now in runs
        )

    async def _abandoned_jobs(self, tables: PostgresJobTables, most: float, now: float) -> list[WaitingJob]:
        """Return begun jobs, not those that are held here or by somebody else who lives."""
        return [one.place for one in await tables.begun_jobs(most) if self._may_take(one, now)]

    def _may_take(self, begun: BegunJob, now: float) -> bool:
        if self._holds(begun.place.run, is_taken_now=begun.is_taken_now):
            return False
        # One of this process's own is left over from a fault: it could not be given up, or was never told of.
        if begun.lease is None or begun.lease.owner.token == self._store.session.owner.token:
            return True
        return judge_lease(begun.lease, now=now, realm=self._store.pid_namespace) != "busy"

    def _holds(self, run: RunId, *, is_taken_now: bool) -> bool:
        """Return whether the run is held here; one that was taken in this very transaction is not noted yet."""
        # Also where something could not be written: whoever works on it has not given it up yet.
        return is_taken_now or self._store.held_lease(run, despite_faults=True) is not None

    async def _acquire(self, connection: Connection, run: RunId) -> HeldLease | None:
        """Hold the run, where nobody else does; one who may be dead is watched until the next call."""
        if self._store.held_lease(run, despite_faults=True) is not None:
            return None
        opening = await self._store.session.number()
        try:
            taken = await self._store.leases.acquire(
                connection,
                run,
                opening=opening,
                unmoved=self._lease_probes.expired_heartbeat(run),
                waits=False,
            )
        except RunBusy:
            self._lease_probes.note(run, None)
            return None
        if isinstance(taken, LeaseProbe):
            self._lease_probes.note(run, taken)
            return None
        self._lease_probes.note(run, None)
        return taken

    async def change(
        self, connection: Connection, now: float, change: JobChange, tell: ProjectJob
    ) -> RunId | None:
        """Say how a job stands that is held here; return its run if that was given up."""
        tables = PostgresJobTables(connection)
        before = await tables.find_job(change.job)
        if before is not None:
            # Before the job's row is locked, as where events are written.
            # A job that is resumed later goes on where its events end, whichever they are.
            await self._store.check(connection, before.run, despite_faults=change.state == "queued")
        job = await changed_job(tables, await require_job(tables, change.job), change, now)
        await _save(tables, job, tell)
        held = self._store.held_lease(job.run, despite_faults=True)
        if change.state != "running" and held is not None:
            await self._store.leases.release(connection, held)
        if job.state in {"awaiting", "parked"}:
            await self._apply_deferred(tables, tell, now)
        return None if change.state == "running" else job.run

    async def find_job(self, connection: Connection, job: JobId) -> JobRow | None:
        """Return one job, with who works on it."""
        found = await PostgresJobTables(connection).find_job(job)
        return None if found is None else await self._with_owner(connection, found)

    async def list_jobs(self, connection: Connection, states: Sequence[JobState]) -> list[JobRow]:
        """Return jobs in the order in which they came."""
        jobs = await PostgresJobTables(connection).list_jobs(states)
        return [await self._with_owner(connection, job) for job in jobs]

    async def count_states(self, connection: Connection) -> dict[JobState, int]:
        """Return how many jobs are in each state, none included."""
        known = await PostgresJobTables(connection).count_states()
        return {state: known.get(state, 0) for state in get_args(JobState)}

    async def _with_owner(self, connection: Connection, job: JobRow) -> JobRow:
        if job.state != "running":
            return job
        return replace(job, owner=await self._store.leases.owner_of(connection, job.run))

    # Decisions

    async def find_decision(self, connection: Connection, prefix: str) -> Decision | None:
        """Return the one decision whose id starts so.

        Raises:
            JournalError: there are several.
        """
        found = await PostgresJobTables(connection).match_decisions(prefix) if prefix else []
        if len(found) > 1:
            raise JournalError(
                f"{len(found)} decisions start with {prefix!r}",
                place=self._store.place,
                hint="type more of the id; `wavewright decisions` lists them",
            )
        return found[0] if found else None

    async def take_answer(self, connection: Connection, now: float, decision: DecisionId) -> Decision | None:
        """Return an answer that was not taken before, and mark it as taken."""
        tables = PostgresJobTables(connection)
        is_taken = await tables.take(decision, now)
        return await tables.find_decision(decision) if is_taken else None


async def _add(tables: PostgresJobTables, request: JobRequested, now: float) -> JobRow:
    taken = set[RunId]()
    while True:
        job = new_job(request, choose_run_id(request.job, now, taken.__contains__), now)
        if await tables.add_job(job):
            return job
        taken.add(job.run)


async def _save(tables: PostgresJobTables, job: JobRow, tell: ProjectJob) -> None:
    await tables.save_job(job)
    await _project(tables, job, tell)


async def _project(tables: PostgresJobTables, job: JobRow, tell: ProjectJob) -> None:
    await tables.outbox.put([outgoing_row(message) for message in tell(job)])


def _max_weight(weight: float | None) -> float:
    return math.inf if weight is None else weight
