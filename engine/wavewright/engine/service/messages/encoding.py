"""Encoding of outgoing messages.

A report has the same bytes whenever it is encoded: names are sorted, the id is given, and the
timestamp is that of the reported event. So a message that is published again after a crash is the
same message. Known secrets are redacted, and in statuses also text that looks like one.

A job about a target is answered by the first package form of the contract that builds a payload
from its package. Where the contract has no package form, or the job no target, the package goes out
whole, as the neutral `package`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from pydantic import ValidationError

from wavewright.config import WavewrightError
from wavewright.config.redaction import Redactor
from wavewright.engine.service.job_store.records import JobId, JobRow, MessageId, OutgoingMessage
from wavewright.engine.service.messages.decoding import (
    PAYLOAD_KEY,
    TRACE_KEY,
    TYPE_KEY,
    correlation_of,
    stored_text,
)
from wavewright.engine.service.messages.delivery import SIGNATURE_HEADER, sign
from wavewright.engine.service.messages.models import (
    VERSION,
    VERSION_HEADER,
    JobStatusUpdate,
    PackageReport,
    UserDecisionRequired,
    package_id,
)
from wavewright.executor.events.json_values import make_encoder, storable_text
from wavewright.planner import Json, JsonObject
from wavewright.planner.language.json_values import map_texts
from wavewright.reviewer import records
from wavewright.reviewer.values import shorten
from wavewright.tools import MessageContract, PackageForm, PackagePayload, Payload

_encode: Final = make_encoder(sort_keys=True)
_NO_SECRETS: Final = Redactor()
_UNSTORABLE_ESCAPE: Final = re.compile(r"\\u(?:0000|d[89a-f])")
"""What stands in the text of a document that may hold NUL or half of a surrogate pair."""
_UNREDACTED_FIELDS: Final = frozenset({"job_id", "status", "package_id", "decision_id"})
"""Fields of statuses and questions with ids and fixed words, which hold no secret."""

_NEUTRAL: Final = MessageContract()


@dataclass(frozen=True, slots=True)
class MessageAddress:
    """Sender, recipient and route of messages."""

    source: str
    """The agent that sends."""
    target: str
    """The recipient."""
    exchange: str
    routing_key: str
    key: bytes | None = field(default=None, repr=False)
    """Key of signatures; without one messages are not signed."""
    redactor: Redactor = field(default=_NO_SECRETS, repr=False)
    """Redacts secrets."""
    trace: str | None = None
    """The header `traceparent` of the messages; none without it."""


def encode(
    payload: Payload,
    address: MessageAddress,
    *,
    message: MessageId,
    correlation: str,
    at: float,
    job: JobId | None = None,
    contract: MessageContract = _NEUTRAL,
) -> OutgoingMessage:
    """Return a message that is ready to be published.

    Args:
        payload: Its content.
        address: Sender, recipient and route.
        message: Its id; see `message_id`.
        correlation: UUID shared by the messages that belong together.
        at: When the reported event happened, in seconds since the epoch.
        job: The job concerned, for the outbox.
        contract: Names of statuses and fields.
    """
    content = _redacted_payload(payload, address.redactor)
    if isinstance(payload, JobStatusUpdate):
        content = _renamed(content, contract)
    redacts_known = isinstance(payload, PackagePayload)
    return _outgoing(
        payload.message_type,
        content,
        address,
        message,
        correlation,
        at,
        job,
        redacts_known=redacts_known,
    )


def encode_request(job: JobRow, address: MessageAddress, *, message: MessageId) -> OutgoingMessage:
    """Return the request of a job as a new message, with the payload as it was sent."""
    payload = request_payload(job) or {"job_id": job.job, "job": job.request["job"]}
    kind = stored_text(job, TYPE_KEY) or "job_request"
    return _outgoing(kind, payload, address, message, correlation_of(job), job.received, job.job)


def request_payload(job: JobRow) -> JsonObject | None:
    """Return the payload of the request form that a job came by; None for a job document."""
    sent = job.request.get(PAYLOAD_KEY)
    return sent if isinstance(sent, dict) else None


def _outgoing(
    kind: str,
    payload: JsonObject,
    address: MessageAddress,
    message: MessageId,
    correlation: str,
    at: float,
    job: JobId | None,
    *,
    redacts_known: bool = False,
) -> OutgoingMessage:
    # An envelope, made without `Envelope`: all that it would check is made by this module.
    document: JsonObject = {
        "message_id": message.lower(),
        "source_agent": address.source,
        "target_agent": address.target,
        "message_type": kind,
        "timestamp": datetime.fromtimestamp(at, UTC).isoformat(),
        "correlation_id": correlation.lower(),
        "payload": payload,
    }
    body = _body(document, address.redactor if redacts_known else None)
    return OutgoingMessage(
        message=message,
        kind=kind,
        exchange=address.exchange,
        routing_key=address.routing_key,
        body=body,
        job=job,
        headers=_headers(document, body, address),
        at=at,
    )


def _renamed(content: JsonObject, contract: MessageContract) -> JsonObject:
    """Return a status, or a failed target of one, with the contract's names."""
    fields = dict[str, str](contract.fields.items())
    statuses = dict[str, str](contract.statuses.items())
    renamed = {fields.get(name, name): member for name, member in content.items()}
    if "status" in content:
        renamed["status"] = statuses.get(str(content["status"]), content["status"])
    if isinstance(failed := content.get("targets_failed"), list):
        failures: list[Json] = [
            _renamed(failure, contract) for failure in failed if isinstance(failure, dict)
        ]
        renamed[fields.get("targets_failed", "targets_failed")] = failures
    return renamed


def _redacted_payload(payload: Payload, redactor: Redactor) -> JsonObject:
    match payload:
        case PackageReport():
            # Its package is JSON as it stands, and large.
            return {name: member for name, member in payload if member is not None}
        case JobStatusUpdate() | UserDecisionRequired():
            # Who decides sees what will be done as it is: an address that looks like a secret may
            # be the worst of it. See docs/how-to/decide.md.
            is_decision = isinstance(payload, UserDecisionRequired)
            redact = redactor.redact_known if is_decision else redactor.redact
            return {
                name: member if name in _UNREDACTED_FIELDS else map_texts(member, redact, redact)
                for name, member in payload.model_dump(mode="json", exclude_none=True).items()
            }
        case _:
            return payload.model_dump(mode="json", exclude_none=True)


def _body(document: JsonObject, redactor: Redactor | None) -> bytes:
    """Return a document's bytes, without the secrets that the redactor knows.

    Text that a strict reader refuses is replaced.
    """
    text = _encode(document)
    if redactor is not None and redactor.may_contain_secret(text):
        document["payload"] = map_texts(
            document["payload"], redactor.redact_known, redactor.redact_known
        )
        text = _encode(document)
    if _UNSTORABLE_ESCAPE.search(text):
        text = _encode(map_texts(document, storable_text, storable_text))
    return text.encode("ascii")


def _headers(document: JsonObject, body: bytes, address: MessageAddress) -> JsonObject:
    headers: JsonObject = {VERSION_HEADER: VERSION}
    if address.trace is not None:
        headers[TRACE_KEY] = address.trace
    if address.key is not None:
        headers[SIGNATURE_HEADER] = sign(
            address.key,
            body=body,
            message_id=str(document["message_id"]),
            timestamp=str(document["timestamp"]),
            routing_key=address.routing_key,
        )
    return headers


_MAX_FAULTS: Final = 3


class InvalidResult(WavewrightError):
    """A result does not fit the package form of its contract; the message names the fields."""


def package_report(
    job: JobId,
    iteration: int,
    package: records.Package,
    *,
    target: str | None = None,
    forms: tuple[PackageForm, ...] = (),
    goal_target: str | None = None,
    request: JsonObject | None = None,
) -> Payload:
    """Return the payload for a package.

    Args:
        job: The job.
        iteration: Number of the package within the job, from 1.
        package: Package of the run.
        target: The target that the package is about, where the job has several.
        forms: Package forms of the contract.
        goal_target: The target for the package forms; without one the package is neutral.
        request: The payload of the request, where the job came by a request form.

    Raises:
        InvalidResult: a form built a payload that does not fit its model, or no form built one.
    """
    # What tools print stays on the machine that ran them.
    content: JsonObject = package.model_dump(mode="json", exclude={"failed_attempts"})
    for form in forms if goal_target is not None else ():
        built = form.build(content, goal_target or "", request or {})
        if built is not None:
            return _read(form, {**built, **_ids(form, job, iteration, target)})
    if forms and goal_target is not None:
        kinds = ", ".join(form.payload.message_type for form in forms)
        raise InvalidResult(f"its result is no {kinds}, which is what this daemon sends")
    return PackageReport(
        job_id=job,
        package_id=package_id(job, iteration, target),
        iteration=iteration,
        target=target,
        package=content,
    )


def failure_report(
    job: JobId,
    reason: str,
    *,
    forms: tuple[PackageForm, ...],
    goal_target: str,
    request: JsonObject,
) -> Payload | None:
    """Return the payload that answers the request of a failed job; None where no form has one.

    Args:
        job: The job.
        reason: Why it has failed.
        forms: Package forms of the contract.
        goal_target: The target of the job.
        request: The payload of its request.

    Raises:
        InvalidResult: a form built a payload that does not fit its model.
    """
    for form in forms:
        built = (
            None if form.build_failure is None else form.build_failure(reason, goal_target, request)
        )
        if built is not None:
            return _read(form, {**built, **_ids(form, job, 1)})
    return None


def _ids(form: PackageForm, job: JobId, iteration: int, target: str | None = None) -> JsonObject:
    """Return the fields of a `PackagePayload`; none for another payload."""
    if not issubclass(form.payload, PackagePayload):
        return {}
    return {"job_id": job, "package_id": package_id(job, iteration, target), "iteration": iteration}


def _read(form: PackageForm, payload: JsonObject) -> Payload:
    try:
        return form.payload.model_validate(payload)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        shown = [
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults[:_MAX_FAULTS]
        ]
        more = [f"and {len(faults) - _MAX_FAULTS} more"] * (len(faults) > _MAX_FAULTS)
        listed = shorten("; ".join([*shown, *more]), 400)
        kind = form.payload.message_type
        raise InvalidResult(f"its result does not fit the message `{kind}`: {listed}") from error
