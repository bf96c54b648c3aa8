"""Rows of the job store: jobs, messages and decisions as JSON texts and columns for any database.

Texts are ASCII, and reading returns what was written. The columns of a job are listed here once, in
their order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, Final, NamedTuple, TypeAlias

from wavewright.engine.service.job_store.records import (
    Decision,
    DecisionMade,
    JobId,
    JobRow,
    OutgoingMessage,
    ReceivedMessage,
    Request,
    SentPackage,
    VerdictGiven,
)
from wavewright.executor.events.json_values import make_encoder
from wavewright.executor.store.errors import JournalNotWritten
from wavewright.planner import JsonObject, RunId

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
            f"{place} cannot be written as JSON: {error}",
            place=place,
            hint="only JSON values can be kept",
        ) from error


# Outgoing messages


def outgoing_row(message: OutgoingMessage) -> tuple[object, ...]:
    """Return a message of the outbox as columns, without its body."""
    headers = to_json_text(message.headers, place=f"message {message.message}")
    return _values(message, _OUTGOING_FIELDS, headers=headers)


_OUTGOING_FIELDS: Final = ("message", "kind", "exchange", "routing_key", "job", "headers", "at")


def read_outgoing(row: Sequence[Any], *, refused: str | None = None) -> OutgoingMessage:
    """Return the message in those columns, of which the last is its body."""
    known: dict[str, Any] = dict(zip(_OUTGOING_FIELDS, row[:-1], strict=True))
    known["headers"] = json.loads(known["headers"])
    return OutgoingMessage(**known, body=bytes(row[-1]), refused=refused)


def _values(record: object, names: Iterable[str], **others: object) -> tuple[Any, ...]:
    """Return the values of a record's fields, `others` in the place of its own."""
    return tuple(others[name] if name in others else getattr(record, name) for name in names)


# Decisions

_DECISION_FIELDS: Final = tuple(field.name for field in fields(Decision))
DECISION_COLUMNS: Final = ", ".join(_DECISION_FIELDS).replace(" by,", " answered_by,")
"""In the order of `Decision`'s fields; `by` is a word of SQL's own."""


def decision_row(decision: Decision) -> tuple[object, ...]:
    """Return a decision as columns."""
    place = f"decision {decision.id}"
    options, binding = (
        to_json_text(value, place=place) for value in (decision.options, decision.binding)
    )
    return _values(decision, _DECISION_FIELDS, options=options, binding=binding)


def read_decision(row: Sequence[Any]) -> Decision:
    """Return the decision in those columns."""
    known: dict[str, Any] = dict(zip(_DECISION_FIELDS, row, strict=True))
    known |= {
        "options": tuple(json.loads(known["options"])),
        "binding": json.loads(known["binding"]),
    }
    return Decision(**known)


# Verdicts, and requests that are kept


_VERDICT_FIELDS: Final = ("job", "package", "iteration", "accepted", "feedback")


def _verdict_json(verdict: VerdictGiven) -> JsonObject:
    return dict(zip(_VERDICT_FIELDS, _values(verdict, _VERDICT_FIELDS), strict=True))


def _read_verdict(value: dict[str, Any]) -> VerdictGiven:
    # Written by `_verdict_json` and by nothing else.
    value["feedback"] = tuple(value["feedback"])
    return VerdictGiven(**value)


def sent_text(packages: Sequence[SentPackage]) -> str:
    """Return the packages that await their verdicts, as a text."""
    return to_json_text(
        [[package.package, package.iteration] for package in packages], place="a package's id"
    )


def read_sent(text: str) -> tuple[SentPackage, ...]:
    """Return the packages in a text."""
    return tuple(SentPackage(*fields) for fields in json.loads(text))


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
    value = json.loads(text)
    if "verdict" in value:
        return _read_verdict(value["verdict"])
    return DecisionMade(**value["answer"])


def subject_of(message: ReceivedMessage) -> tuple[str, int | None]:
    """Return the id of the job or decision that a message names, and the iteration where it is
    about one.
    """
    request = message.request
    if isinstance(request, DecisionMade):
        return request.decision, None
    return request.job, request.iteration if isinstance(request, VerdictGiven) else None


_JOB_FIELDS: Final = ("job", "run", "state", "request", "received", "weight")
_MUTABLE_FIELDS: Final = (
    "attempts",
    "failures",
    "iteration",
    "package",
    "feedback",
    "sent",
    "reason",
    "not_before",
    "finished",
)
_QUEUE_FIELDS: Final = ("state_since", "queue_rank")
_ALL_FIELDS: Final = (*_JOB_FIELDS, *_MUTABLE_FIELDS, *_QUEUE_FIELDS)
SELECT_JOB: Final = f"""
    SELECT job.job, job.run, state, (SELECT request FROM job_request WHERE job_request.no = job.no), received,
           weight, {", ".join(_MUTABLE_FIELDS)}, since, queue_rank, job.no
    FROM job"""  # noqa: S608 - names of our own
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
    """Return the job in those columns, the last of which is its number."""
    known: dict[str, Any] = dict(zip(_ALL_FIELDS, row[:-1], strict=True))
    known |= {
        "request": json.loads(known["request"]),
        "feedback": tuple(map(_read_verdict, json.loads(known["feedback"]))),
        "sent": read_sent(known["sent"]),
    }
    return JobRow(**known)


def mutable_columns(job: JobRow) -> tuple[object, ...]:
    """Return the columns of a job that can change, from its state to its queue rank."""
    feedback = to_json_text([*map(_verdict_json, job.feedback)], place="a verdict")
    texts = {"feedback": feedback, "sent": sent_text(job.sent)}
    return _values(job, ("state", *_MUTABLE_FIELDS, *_QUEUE_FIELDS), **texts)


def read_deferred_message(row: Sequence[Any]) -> DeferredMessage:
    """Return the message in the columns `no, message, kind, source, at, kept`."""
    no, message, kind, source, at, kept = row
    request = read_deferred(kept)
    return DeferredMessage(no, ReceivedMessage(message, kind, source, at, request), request)
