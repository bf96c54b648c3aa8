"""Schedules in the job store: up to where each is decided, who has paused it, and its instants.

A row for each schedule and instant says what came of it. It is written in the transaction that
takes the job in, under the schedule's lock, so of several daemons one begins the job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from wavewright.engine.service.job_store import transactions
from wavewright.engine.service.job_store.records import JobId, ReceivedMessage
from wavewright.engine.service.job_store.rules import OPEN_STATES, ProjectJob, project_nothing
from wavewright.engine.service.job_store.store import JobStore, TransactionalJournal
from wavewright.engine.service.schedules.rules import Outcome, ScheduleState, ScheduleTick
from wavewright.executor import JournalError
from wavewright.executor.store import run_queries
from wavewright.executor.store.journal import CancelRequest
from wavewright.executor.store.transaction import SEPARATE, StoreTransaction

_PUT_INSTANT: Final = """
    INSERT INTO schedule_instant (name, instant, outcome, job) VALUES ($1, $2, $3, $4)
    ON CONFLICT (name, instant) DO UPDATE SET outcome = excluded.outcome, job = excluded.job
    WHERE schedule_instant.outcome = 'waiting'
    RETURNING instant"""
_PUT_SCHEDULE: Final = """
    INSERT INTO schedule (name, seen) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET seen = excluded.seen"""
_PAUSE: Final = """
    INSERT INTO schedule (name, seen, paused_by, paused_at) VALUES ($1, $2, $3, $2)
    ON CONFLICT (name) DO UPDATE SET seen = excluded.seen, paused_by = excluded.paused_by,
                                     paused_at = excluded.paused_at"""
_RESUME: Final = """
    UPDATE schedule SET seen = $2, paused_by = NULL, paused_at = NULL
    WHERE name = $1 AND paused_by IS NOT NULL"""
SEEN_SECONDS: Final = 30.0
"""How often it is written up to where a schedule is decided, while nothing comes of it."""
_KEPT_INSTANTS: Final = 1_000
"""Instants that are remembered of a schedule."""


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """What the store has of a schedule, for people."""

    paused_by: str | None = None
    paused_at: float | None = None
    last: tuple[float, Outcome] | None = None
    """The latest instant, and what came of it."""
    last_job: JobId | None = None
    """The job that was begun last."""


class InstantFaulty(JournalError):
    """The request for the job of an instant cannot be made; nothing is written of it."""


@dataclass(frozen=True, slots=True)
class Ticked:
    """What was written at a tick."""

    tick: ScheduleTick
    begun: tuple[JobId, ...] = ()


class ScheduleStore:
    """The schedules in the database of an open journal."""

    def __init__(self, journal: TransactionalJournal) -> None:
        """Use the database of a journal."""
        self._journal = journal

    async def tick(
        self,
        name: str,
        decide: Callable[[ScheduleState], ScheduleTick],
        request: Callable[[float], ReceivedMessage],
        project: ProjectJob = project_nothing,
    ) -> Ticked:
        """Decide on a schedule by what the store has of it, and write what comes of it.

        Args:
            name: The schedule.
            decide: Returns what is done.
            request: Returns the request for the job of an instant; raises `InstantFaulty`.
            project: Tells of jobs that are taken in or cancelled.

        Raises:
            JournalError: nothing was written.
        """

        async def work(transaction: StoreTransaction, project: ProjectJob) -> Ticked:
            await transaction.lock(f"schedule {name}")
            state, open_jobs = await _state_of(transaction, name)
            tick = decide(state)
            if _is_idle(state, tick):
                return Ticked(tick)
            begun, outcomes = list[JobId](), list[tuple[float, Outcome]]()
            for instant, outcome in tick.outcomes:
                message = request(instant) if outcome == "begun" else None
                job = None if message is None else JobId(message.message)
                if not await transaction.fetch(_PUT_INSTANT, name, instant, outcome, job):
                    # Something came of it before the clock went back.
                    continue
                outcomes.append((instant, outcome))
                if message is not None and job is not None:
                    await transactions.receive(transaction, message, project)
                    begun.append(job)
            # Of an instant that was decided before the clock went back nothing takes the place.
            if tick.cancels_other and any(outcome != "skipped" for _, outcome in outcomes):
                for job in open_jobs:
                    await _cancel(transaction, job, name, project)
            await transaction.execute(_PUT_SCHEDULE, name, tick.seen)
            if outcomes:
                await _forget_old(transaction, name)
            return Ticked(replace(tick, outcomes=outcomes), tuple(begun))

        return await JobStore(self._journal).transact(work, project, SEPARATE)

    async def begin(self, message: ReceivedMessage, project: ProjectJob = project_nothing) -> None:
        """Take a job in that somebody has asked for beside the schedule."""
        await JobStore(self._journal).receive(message, project)

    async def pause(self, name: str, by: str, now: float) -> None:
        """Begin nothing by a schedule until `resume`."""
        await self._journal.transact(
            lambda transaction: transaction.execute(_PAUSE, name, now, by), order=SEPARATE
        )

    async def resume(self, name: str, now: float) -> None:
        """Begin jobs by a schedule again; no instant of the pause counts as missed. One that is not
        paused stays as it is, with what it has missed while nothing served it.
        """
        await self._journal.transact(
            lambda transaction: transaction.execute(_RESUME, name, now), order=SEPARATE
        )

    async def stored(self, names: Sequence[str]) -> dict[str, StoredSchedule]:
        """Return what the store has of schedules."""

        async def read(transaction: StoreTransaction) -> dict[str, StoredSchedule]:
            return {name: await _stored(transaction, name) for name in names}

        return await self._journal.read(read)


def _is_idle(state: ScheduleState, tick: ScheduleTick) -> bool:
    """Whether nothing has come of a tick that must be written now."""
    if state.seen is None or tick.outcomes or tick.passes:
        return False
    return 0 <= tick.seen - state.seen < SEEN_SECONDS


async def _state_of(
    transaction: StoreTransaction, name: str
) -> tuple[ScheduleState, tuple[JobId, ...]]:
    row = await transaction.fetch_one("SELECT seen, paused_by FROM schedule WHERE name = $1", name)
    if row is None:
        return ScheduleState(), ()
    waiting = await transaction.fetch(
        "SELECT instant FROM schedule_instant WHERE name = $1 AND outcome = 'waiting' ORDER BY instant",
        name,
    )
    states = transaction.in_list("$2", "text")
    jobs = await transaction.fetch(
        f"""SELECT job.job FROM schedule_instant JOIN job ON job.job = schedule_instant.job
            WHERE name = $1 AND state {states}""",  # noqa: S608 - constants
        name,
        [*OPEN_STATES],
    )
    seen, paused_by = row
    state = ScheduleState(
        seen, paused_by is not None, bool(jobs), tuple(instant for (instant,) in waiting)
    )
    return state, tuple(JobId(job) for (job,) in jobs)


async def _cancel(
    transaction: StoreTransaction, job: JobId, name: str, project: ProjectJob
) -> None:
    """Cancel a job that waits, or have the owner of its run do so."""
    by = f"schedule {name}"
    ended = await transactions.cancel_waiting(
        transaction, job, f"the next run of {by} has taken its place", project
    )
    if ended.state == "running":
        request = CancelRequest(by, transaction.now)
        await run_queries.request_cancel(transaction, run=ended.run, wanted=request)


async def _forget_old(transaction: StoreTransaction, name: str) -> None:
    await transaction.execute(
        f"""DELETE FROM schedule_instant WHERE name = $1 AND outcome <> 'waiting' AND instant < (
                SELECT min(instant) FROM (SELECT instant FROM schedule_instant WHERE name = $1
                                          ORDER BY instant DESC LIMIT {_KEPT_INSTANTS}) AS kept)""",  # noqa: S608 - a constant
        name,
    )


async def _stored(transaction: StoreTransaction, name: str) -> StoredSchedule:
    paused = await transaction.fetch_one(
        "SELECT paused_by, paused_at FROM schedule WHERE name = $1", name
    )
    last = await transaction.fetch_one(
        "SELECT instant, outcome FROM schedule_instant WHERE name = $1 ORDER BY instant DESC LIMIT 1",
        name,
    )
    job = await transaction.fetch_one(
        """SELECT job FROM schedule_instant WHERE name = $1 AND job IS NOT NULL
           ORDER BY instant DESC LIMIT 1""",
        name,
    )
    by, at = (None, None) if paused is None else paused
    return StoredSchedule(
        by, at, None if last is None else (last[0], last[1]), None if job is None else JobId(job[0])
    )
