"""Rows of the job store: jobs, messages and outbox writes as JSON texts and columns for any database.

Texts are ASCII, and reading returns what was written. Outbox writes are converted before they are handed to the writer,
so later changes of their values do not change what is written. The columns of a job are listed here once, in their
order.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final, NamedTuple, TypeAlias, cast

from wavewright.executor.events.json_values import make_encoder
from wavewright.executor.store.errors import JournalNotWritten
from wavewright.executor.store.job_records import (
    Decision,
    DecisionId,
    DecisionMade,
    JobChange,
    JobId,
    JobRow,
    MessageId,
    OutboxWrites,
    OutgoingMessage,
    ReceivedMessage,
    Request,
    SentPackage,
    VerdictGiven,
)
from wavewright.planner.types import JsonObject, RunId

_TO_TEXT: Final = make_encoder(sort_keys=False)
DeferredRequest: TypeAlias = VerdictGiven | DecisionMade
"""Requests that can wait for their turn."""


def to_json_text(value: object, *, place: str) -> str:
    """Return a JSON text.

    Raises:
        JournalNotWritten: it is not JSON; names the place.
    """
    try:
        return _TO_TEXT(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise JournalNotWritten(
            f"{place} cannot be written as JSON: {error}", place=place, hint="only JSON values can be kept"
        ) from error


def from_json_text(text: str) -> Any:
    """Return what `to_json_text` wrote."""
    return json.loads(text)


# Outgoing messages


class OutgoingRow(NamedTuple):
    """A message of the outbox as columns, its body last."""

    message: str
    kind: str
    exchange: str
    routing_key: str
    job: str | None
    headers: str
    at: float
    body: bytes


def outgoing_row(message: OutgoingMessage) -> OutgoingRow:
    """Return a message as columns."""
    return OutgoingRow(
        message.message,
        message.kind,
        message.exchange,
        message.routing_key,
        message.job,
        to_json_text(message.headers, place=f"message {message.message}"),
        message.at,
        message.body,
    )


def read_outgoing(row: Sequence[Any], *, refused: str | None = None) -> OutgoingMessage:
    """Return the message in those columns."""
    found = OutgoingRow(*row)
    return OutgoingMessage(
        message=MessageId(found.message),
        kind=found.kind,
        exchange=found.exchange,
        routing_key=found.routing_key,
        body=bytes(found.body),
        job=None if found.job is None else JobId(found.job),
        headers=from_json_text(found.headers),
        at=found.at,
        refused=refused,
    )


# Decisions

DECISION_COLUMNS: Final = (
    "id, job, run, subject, question, options, context, binding, asked, expires, "
    "choice, answered_by, answered, used"
)
"""In the order of `Decision`'s fields; `by` is a word of SQL's own."""
assert len(DECISION_COLUMNS.split(", ")) == len(fields(Decision))


def decision_row(decision: Decision) -> tuple[object, ...]:
    """Return a decision as columns."""
    place = f"decision {decision.id}"
    return (
        decision.id,
        decision.job,
        decision.run,
        decision.subject,
        decision.question,
        to_json_text(list(decision.options), place=place),
        decision.context,
        to_json_text(decision.binding, place=place),
        decision.asked,
        decision.expires,
        decision.choice,
        decision.by,
        decision.answered,
        decision.used,
    )


def read_decision(row: Sequence[Any]) -> Decision:
    """Return the decision in those columns."""
    id_, job, run, subject, question, options, context, binding, *rest = row
    asked, expires, choice, by, answered, used = rest
    return Decision(
        id=DecisionId(id_),
        job=JobId(job),
        run=RunId(run),
        subject=subject,
        question=question,
        options=tuple(from_json_text(options)),
        context=context,
        binding=from_json_text(binding),
        asked=asked,
        expires=expires,
        choice=choice,
        by=by,
        answered=answered,
        used=used,
    )


# Verdicts, and requests that are kept


def _verdict_json(verdict: VerdictGiven) -> JsonObject:
    return {
        "job": verdict.job,
        "package": verdict.package,
        "iteration": verdict.iteration,
        "accepted": verdict.accepted,
        "feedback": list(verdict.feedback),
    }


def _read_verdict(value: JsonObject) -> VerdictGiven:
    # Written by `_verdict_json` and by nothing else.
    known = cast("Any", value)
    return VerdictGiven(
        job=JobId(known["job"]),
        package=known["package"],
        iteration=known["iteration"],
        accepted=known["accepted"],
        feedback=tuple(known["feedback"]),
    )


def feedback_text(verdicts: Sequence[VerdictGiven]) -> str:
    """Return a job's verdicts as a text."""
    return to_json_text([_verdict_json(verdict) for verdict in verdicts], place="a verdict")


def read_feedback(text: str) -> tuple[VerdictGiven, ...]:
    """Return the verdicts in a text."""
    return tuple(_read_verdict(value) for value in from_json_text(text))


def sent_text(packages: Sequence[SentPackage]) -> str:
    """Return the packages that await their verdicts, as a text."""
    return to_json_text([[one.package, one.iteration] for one in packages], place="a package's id")


def read_sent(text: str) -> tuple[SentPackage, ...]:
    """Return the packages in a text."""
    return tuple(SentPackage(*one) for one in from_json_text(text))


def job_of_request(request: Request) -> JobId | None:
    """Return the job that a message names; an answer names a decision only."""
    return None if isinstance(request, DecisionMade) else request.job


def deferred_text(request: DeferredRequest) -> str:
    """Return a request that waits for its turn, as a text."""
    if isinstance(request, VerdictGiven):
        return to_json_text({"verdict": _verdict_json(request)}, place="a verdict")
    answer = {"decision": request.decision, "choice": request.choice, "by": request.by}
    return to_json_text({"answer": answer}, place="an answer")


def read_deferred(text: str) -> DeferredRequest:
    """Return the request in a text."""
    value = from_json_text(text)
    if "verdict" in value:
        return _read_verdict(value["verdict"])
    return DecisionMade(**value["answer"])


def subject_of(message: ReceivedMessage) -> tuple[str, int | None]:
    """Return the id of the job or decision that a message names, and the iteration where it is about one."""
    request = message.request
    if isinstance(request, DecisionMade):
        return request.decision, None
    return request.job, request.iteration if isinstance(request, VerdictGiven) else None


# What goes alongside events


class OutboxRows(NamedTuple):
    """What one append writes beside its events, ready to be written."""

    messages: Sequence[OutgoingRow]
    decisions: Sequence[tuple[object, ...]]
    taken: Sequence[DecisionId]
    change: JobChange | None


def outbox_rows(outbox_writes: OutboxWrites) -> OutboxRows | None:
    """Return it as rows; nothing where it is empty.

    Raises:
        JournalNotWritten: a value is not JSON.
    """
    if outbox_writes == _NO_WRITES:
        return None
    return OutboxRows(
        [outgoing_row(message) for message in outbox_writes.messages],
        [decision_row(decision) for decision in outbox_writes.decisions],
        outbox_writes.taken,
        outbox_writes.change,
    )


_NO_WRITES: Final = OutboxWrites()


SELECT_JOB: Final = """
    SELECT job.job, job.run, state, (SELECT request FROM job_request WHERE job_request.no = job.no), received,
           weight, attempts, iteration, package, feedback, sent, reason, not_before, finished, since, queue_rank, job.no
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
    feedback, sent, reason, not_before, finished, since, queue_rank, _ = others
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
        queue_rank=queue_rank,
    )


def mutable_columns(job: JobRow) -> tuple[object, ...]:
    """Return the columns of a job that can change, from its state to its queue rank."""
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
