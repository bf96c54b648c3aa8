"""Encoding of outgoing messages.

A report has the same bytes whenever it is encoded: names are sorted, the id is given, and the timestamp is that of the
reported event. So a message that is published again after a crash is the same message. Known secrets are redacted, and
in statuses and questions also text that looks like one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from wavewright.config.redaction import Redactor
from wavewright.engine.messages.decoding import PAYLOAD_KEY, SOURCE_KEY, TRACE_KEY, TYPE_KEY, correlation_of
from wavewright.engine.messages.models import (
    VERSION,
    VERSION_HEADER,
    JobStatusUpdate,
    PackageReport,
    UserDecisionRequired,
)
from wavewright.engine.messages.rules import SIGNATURE_HEADER, sign
from wavewright.executor.events.json_values import make_encoder, valid_text
from wavewright.executor.store.job_records import JobId, JobRow, MessageId, OutgoingMessage
from wavewright.planner.language.json_texts import map_texts
from wavewright.planner.types import Json, JsonObject
from wavewright.tools.message_contract import MessageContract, PackagePayload, Payload

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
        message: Its id; see `ids`.
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
        payload.message_type, content, address, message, correlation, at, job, redacts_known=redacts_known
    )


def encode_request(job: JobRow, address: MessageAddress, *, message: MessageId) -> OutgoingMessage:
    """Return the request of a job as a new message, with the payload as it was sent."""
    payload = request_payload(job) or {"job_id": job.job, "job": job.request["job"]}
    kind = _text(job, TYPE_KEY) or "job_request"
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


def sender_of(job: JobRow) -> str | None:
    """Return the agent that asked for a job, where it came as a message."""
    return _text(job, SOURCE_KEY)


def _text(job: JobRow, field_name: str) -> str | None:
    value = job.request.get(field_name)
    return value if isinstance(value, str) else None


def _renamed(content: JsonObject, contract: MessageContract) -> JsonObject:
    """Return a status, or a failed target of one, with the contract's names."""
    fields = dict[str, str](contract.fields.items())
    statuses = dict[str, str](contract.statuses.items())
    renamed = {fields.get(name, name): member for name, member in content.items()}
    if "status" in content:
        renamed["status"] = statuses.get(str(content["status"]), content["status"])
    if isinstance(failed := content.get("targets_failed"), list):
        failures: list[Json] = [_renamed(one, contract) for one in failed if isinstance(one, dict)]
        renamed[fields.get("targets_failed", "targets_failed")] = failures
    return renamed


def _redacted_payload(payload: Payload, redactor: Redactor) -> JsonObject:
    match payload:
        case PackageReport():
            # Its package is JSON as it stands, and large.
            return {name: member for name, member in payload if member is not None}
        case JobStatusUpdate() | UserDecisionRequired():
            return {
                name: member
                if name in _UNREDACTED_FIELDS
                else map_texts(member, redactor.redact, redactor.redact)
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
        document["payload"] = map_texts(document["payload"], redactor.redact_known, redactor.redact_known)
        text = _encode(document)
    if _UNSTORABLE_ESCAPE.search(text):
        text = _encode(map_texts(document, _storable_text, _storable_text))
    return text.encode("ascii")


def _storable_text(text: str) -> str:
    """Return a text in which NUL and halves of surrogate pairs are replaced by the sign for what cannot be shown."""
    return valid_text(text).replace("\0", "\ufffd")


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
