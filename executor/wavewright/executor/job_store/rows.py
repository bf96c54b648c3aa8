"""Rows of jobs and of kept messages, as every database gives them.

The columns of a job stand here once, in the order in which they are read; what differs between databases is only how
they are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from wavewright.executor.job_store.records import JobId, JobRow, ReceivedMessage
from wavewright.executor.job_store.texts import (
    DeferredRequest,
    feedback_text,
    from_json_text,
    read_deferred,
    read_feedback,
    read_sent,
    sent_text,
)
from wavewright.planner.types import RunId

SELECT_JOB: Final = """
    SELECT job.job, job.run, state, (SELECT request FROM job_request WHERE job_request.no = job.no), received,
           weight, attempts, iteration, package, feedback, sent, reason, not_before, finished, since, turn, job.no
    FROM job"""
"""For `read_job`."""


class WaitingJob(NamedTuple):
    """A job that may be next."""

    queue_rank: float
    no: int
    job: JobId
    run: RunId


class DeferredMessage(NamedTuple):
    """A message that waited for its turn."""

    no: int
    message: ReceivedMessage
    request: DeferredRequest


def read_job(row: Sequence[Any]) -> JobRow:
    """Return the job in those columns."""
    job, run, state, request, received, weight, attempts, iteration, package, *others = row
    feedback, sent, reason, not_before, finished, since, turn, _ = others
    return JobRow(
        job=JobId(job),
        run=RunId(run),
        state=state,
        request=from_json_text(request),
        received=received,
        weight=weight,
        attempts=attempts,
        iteration=iteration,
        package=package,
        feedback=read_feedback(feedback),
        sent=read_sent(sent),
        reason=reason,
        not_before=not_before,
        finished=finished,
        state_since=since,
        queue_rank=turn,
    )


def mutable_columns(job: JobRow) -> tuple[object, ...]:
    """Return the columns of a job that can change, from its state to its turn."""
    return (
        job.state,
        job.attempts,
        job.iteration,
        job.package,
        feedback_text(job.feedback),
        sent_text(job.sent),
        job.reason,
        job.not_before,
        job.finished,
        job.state_since,
        job.queue_rank,
    )


def read_deferred_message(row: Sequence[Any]) -> DeferredMessage:
    """Return the message in the columns `no, message, kind, source, at, kept`."""
    no, message, kind, source, at, kept = row
    request = read_deferred(kept)
    return DeferredMessage(no, ReceivedMessage(message, kind, source, at, request), request)
