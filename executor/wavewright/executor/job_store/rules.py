"""How a job changes: one rule for every store.

Each function takes a job as it stands and returns it as it stands afterwards; none of them looks at a clock or a
database, so stores cannot differ. A job's *turn* is when it came, moved back by its weight: a heavy one lets lighter
ones pass that came a little later, and never waits longer than `LONGEST_STEP_BACK` for them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Final

from wavewright.executor.job_store.port import MAX_ATTEMPTS
from wavewright.executor.job_store.reception import FINAL_STATES
from wavewright.executor.job_store.records import (
    JobChange,
    JobId,
    JobRequested,
    JobRow,
    JobState,
    VerdictGiven,
)
from wavewright.executor.journal_errors import JournalError
from wavewright.executor.journal_runs import new_run_id
from wavewright.planner.types import RunId

SECONDS_PER_WEIGHT: Final = 1.0
"""How much later a job is taken for each unit of its weight."""
TRUSTED_ATTEMPTS: Final = 2
"""Attempts that may come to nothing before a job is suspected of ending its process."""
MAX_CLOCK_STEP_BACK: Final = 600.0
"""Seconds that the heaviest job is moved back, so that small ones cannot keep it waiting for ever."""


def queue_rank(at: float, weight: float) -> float:
    """Return the place in the queue of a job that has been waiting since then."""
    if not weight > 0:
        return at
    return at + min(weight * SECONDS_PER_WEIGHT, MAX_CLOCK_STEP_BACK)


def choose_run_id(job: JobId, now: float, is_taken: Callable[[RunId], bool]) -> RunId:
    """Return an id for the job's root run; its tail is made of the job's id."""
    tried = (new_run_id(now, _hash_bytes(f"{job}/{number}")) for number in count())
    return next(run for run in tried if not is_taken(run))


def _hash_bytes(text: str) -> Callable[[int], bytes]:
    """Return what gives the first bytes of a text's hash, where random ones are asked for."""
    digest = hashlib.sha256(text.encode()).digest()
    return lambda length: digest[:length]


def new_job(request: JobRequested, run: RunId, now: float) -> JobRow:
    """Return a job that has just come in."""
    return JobRow(
        job=request.job,
        run=run,
        state="queued",
        request=request.request,
        received=now,
        weight=request.weight,
        state_since=now,
        queue_rank=queue_rank(now, request.weight),
    )


def has_exhausted_attempts(job: JobRow) -> bool:
    """Return whether it was begun too often to be begun again."""
    return job.attempts >= MAX_ATTEMPTS


def is_poison_candidate(job: JobRow) -> bool:
    """Return whether it was there each time when a process ended, and may be why.

    One owner works on one such job at a time: its neighbours are cleared of it by advancing, and the one that ends
    its process takes none of them along.
    """
    return TRUSTED_ATTEMPTS <= job.attempts < MAX_ATTEMPTS


def begin_attempt(job: JobRow, now: float) -> JobRow:
    """Return the job as it is begun: the attempt counts before anything is done."""
    return replace(job, state="running", attempts=job.attempts + 1, not_before=None, state_since=now)


def dead_letter(job: JobRow, now: float) -> JobRow:
    """Return a worn-out job, dead."""
    reason = f"begun {job.attempts} times, and never came to an end"
    if job.reason:
        reason = f"{reason}; the last that it said: {job.reason}"
    return replace(job, state="dead", reason=reason, not_before=None, finished=now, state_since=now)


def can_apply_verdict(job: JobRow, verdict: VerdictGiven) -> bool:
    """Whether a verdict that fits has its effect now; one that comes while the job is worked on waits."""
    is_of_target = any(one.package == verdict.package for one in job.sent)
    # Verdicts on several targets may come before anybody goes on with the first.
    return job.state == "awaiting" or (is_of_target and job.state in {"parked", "queued"})


def apply_verdict(job: JobRow, verdict: VerdictGiven, now: float) -> JobRow:
    """Return a job that awaited this verdict; one with several targets always goes on."""
    sent = tuple(one for one in job.sent if one.package != verdict.package)
    is_of_target = sent != job.sent
    job = replace(job, feedback=(*job.feedback, verdict), sent=sent, attempts=0, reason="", state_since=now)
    if verdict.accepted and not is_of_target:
        return replace(job, state="completed", not_before=None, finished=now)
    return _enqueue(job, now)


def resume_job(job: JobRow, now: float) -> JobRow:
    """Return a job whose question was answered: one that was parked for it is queued."""
    return (
        _enqueue(replace(job, attempts=0, reason="", state_since=now), now) if job.state == "parked" else job
    )


def change_job(job: JobRow, change: JobChange, now: float) -> JobRow:
    """Return a job as its owner says that it stands.

    Raises:
        JournalError: it has ended, and not so.
    """
    if job.state in FINAL_STATES:
        if job.state == change.state:
            return job
        raise JournalError(
            f"job {job.job} is {job.state}; it cannot become {change.state}",
            place=f"job {job.job}, run {job.run}",
            mend="send the work again as a new job",
        )
    is_same = job.state == change.state
    job = replace(
        job,
        state=change.state,
        reason=change.reason,
        iteration=job.iteration if change.iteration is None else change.iteration,
        package=job.package if change.package is None else change.package,
        sent=(*job.sent, *(one for one in change.sent if one not in job.sent)),
        not_before=change.not_before if change.state == "queued" else None,
        attempts=_attempts_after(job, change),
        state_since=job.state_since if is_same else now,
        finished=now if change.state in FINAL_STATES else None,
    )
    return _enqueue(job, now, not_before=job.not_before) if change.state == "queued" else job


def _attempts_after(job: JobRow, change: JobChange) -> int:
    match change.state:
        case "running" if change.has_advanced:
            return min(job.attempts, 1)
        case "running" | "dead":
            return job.attempts
        case "queued":
            return job.attempts if change.is_failed_attempt else max(0, job.attempts - 1)
        case _:
            return 0


def _enqueue(job: JobRow, now: float, *, not_before: float | None = None) -> JobRow:
    waits_from = now if not_before is None else max(now, not_before)
    queued: JobState = "queued"
    return replace(job, state=queued, not_before=not_before, queue_rank=queue_rank(waits_from, job.weight))
