"""Decoding of incoming messages.

Nothing is repaired or guessed. The size is bounded before a message is parsed, and the sender is
checked before the payload. Only content type, encoding, signature, the broker's user and, of jobs,
priority and trace are read from the properties: all others are set by the sender.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Final, TypeVar

from pydantic import ValidationError

from wavewright.config.identities import claimed
from wavewright.engine.service.job_store.records import (
    PRIORITY_KEY,
    DecisionId,
    DecisionMade,
    JobId,
    JobRequested,
    JobRow,
    MessageId,
    ReceivedMessage,
    Request,
    VerdictGiven,
)
from wavewright.engine.service.messages.delivery import (
    SIGNATURE_HEADER,
    AcceptanceRules,
    Delivery,
    DocumentRule,
    looks_like_signature,
    verify_signature,
)
from wavewright.engine.service.messages.models import (
    VERSION,
    VERSION_HEADER,
    CorrelatedValidationResult,
    Envelope,
    JobRequest,
    UserDecisionResponse,
    ValidationResult,
    package_id,
)
from wavewright.engine.service.messages.reading import (
    MessageRejected,
    read_strict_json,
    rejection_for,
    rejection_of_unknown_fields,
)
from wavewright.planner import Json, JsonObject, as_list
from wavewright.tools import RequestPayload
from wavewright.tools.message_contract import GOAL_KEY, WireModel, stored_goal

_Model = TypeVar("_Model", bound=WireModel)

CORRELATION_KEY: Final = "correlation_id"
"""Key of a stored request: the correlation id of its message."""
TRACE_KEY: Final = "traceparent"
"""Header of messages that names the span to which they belong (W3C Trace Context, level 1)."""
_TRACEPARENT: Final = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
PRIORITY_HEADER: Final = "priority"
"""Header of messages that says how urgent a job is: 0 to 9, the most urgent."""
_PRIORITY: Final = re.compile("[0-9]", re.ASCII)
SOURCE_KEY: Final = "source_agent"
"""Key of a stored request: its sender."""
SUBMITTER_KEY: Final = "submitted_by"
"""Key of a stored request: the name that somebody gave who sent it in the live page."""
TYPE_KEY: Final = "message_type"
"""Key of a stored request that came by a request form: the type of its message."""
PAYLOAD_KEY: Final = "payload"
"""Key of a stored request that came by a request form: the payload as it was sent."""
TARGET_KEY: Final = "target"
"""Key of a stored request with a job document whose packages have a form of a pack: its first
target.
"""

_TOKENS_PER_STEP: Final = 5_000
_TARGETS_PER_WAVE: Final = 10
"""That a target is likely to lead to."""
_MAX_MEMBERS: Final = 100
"""Of an envelope or a payload, and far more than any has; looking at each of a hundred thousand
takes too long.
"""


def decode(delivery: Delivery, rules: AcceptanceRules, now: float) -> ReceivedMessage:
    """Return the message of a delivery.

    Args:
        delivery: A message as the broker delivered it.
        rules: What it must fulfil.
        now: Seconds since the epoch.

    Raises:
        MessageRejected: it is not accepted.
    """
    _check_content(delivery, rules)
    document = read_strict_json(delivery.body, max_depth=rules.max_depth)
    envelope = _read(Envelope, document, "envelope")
    _check_signature(delivery, document, rules)
    kind = _request_type(envelope, rules)
    _check_sender(delivery, envelope, kind, rules)
    _check_time(envelope, rules, now)
    request = _request(kind, envelope, rules)
    if isinstance(request, JobRequested):
        headers = _job_headers(delivery, rules)
        request = replace(request, request={**request.request, **headers})
    return ReceivedMessage(
        message=MessageId(envelope.message_id),
        kind=kind,
        source=envelope.source_agent,
        at=envelope.timestamp.timestamp(),
        request=request,
    )


def _job_headers(delivery: Delivery, rules: AcceptanceRules) -> JsonObject:
    """Return what is stored of the headers of a job's message."""
    known: JsonObject = {}
    trace = delivery.headers.get(TRACE_KEY)
    if isinstance(trace, str) and _TRACEPARENT.fullmatch(trace):
        known[TRACE_KEY] = trace
    if priority := _priority(delivery, rules):
        known[PRIORITY_KEY] = priority
    return known


def _priority(delivery: Delivery, rules: AcceptanceRules) -> int:
    """Return how urgent a job is: by the header of its message, or its property, or the settings."""
    # A property that was not set is 0 with some clients.
    priority = delivery.headers.get(PRIORITY_HEADER, delivery.priority or rules.priority)
    if _PRIORITY.fullmatch(str(priority)) is None:
        raise MessageRejected(
            "bad_payload", f"the header {PRIORITY_HEADER} must be a whole number from 0 to 9"
        )
    return int(str(priority))


def _check_content(delivery: Delivery, rules: AcceptanceRules) -> None:
    if len(delivery.body) > rules.max_body:
        size = len(delivery.body)
        raise MessageRejected(
            "too_large", f"the body has {size} bytes, and at most {rules.max_body} are taken in"
        )
    kind, *parameters = (part.strip().lower() for part in (delivery.content_type or "").split(";"))
    if kind != "application/json" or any(
        parameter not in {"charset=utf-8", 'charset="utf-8"'} for parameter in parameters
    ):
        raise MessageRejected("bad_content_type", "the content type must be application/json")
    if (delivery.content_encoding or "utf-8").lower() not in {"utf-8", "identity"}:
        raise MessageRejected(
            "bad_content_type",
            "the content encoding must be utf-8; compressed bodies are not opened",
        )
    if str(delivery.headers.get(VERSION_HEADER, VERSION)) != str(VERSION):
        raise MessageRejected(
            "bad_content_type",
            f"messages of version {VERSION} are taken in, and this is another one",
        )
    if rules.key is not None and not looks_like_signature(delivery.headers.get(SIGNATURE_HEADER)):
        raise MessageRejected(
            "bad_signature", f"the header {SIGNATURE_HEADER} must hold 64 hexadecimal digits"
        )


def _check_signature(delivery: Delivery, document: JsonObject, rules: AcceptanceRules) -> None:
    if rules.key is None:
        return
    is_right = verify_signature(
        str(delivery.headers[SIGNATURE_HEADER]),
        rules.key,
        body=delivery.body,
        message_id=str(document["message_id"]),
        timestamp=str(document["timestamp"]),
        routing_key=delivery.routing_key,
    )
    if not is_right:
        reason = (
            "the signature is not that of this message with this routing key by the configured key"
        )
        raise MessageRejected("bad_signature", reason)


def _request_type(envelope: Envelope, rules: AcceptanceRules) -> str:
    if envelope.message_type in rules.message_types:
        return envelope.message_type
    raise MessageRejected(
        "unknown_type", f"message_type must be one of {', '.join(rules.message_types)}"
    )


def _check_sender(
    delivery: Delivery, envelope: Envelope, kind: str, rules: AcceptanceRules
) -> None:
    if envelope.target_agent != rules.agent:
        raise MessageRejected(
            "wrong_target", f"target_agent must be {rules.agent!r}, who reads this queue"
        )
    if not rules.identities:
        return
    identity = rules.identities.get(envelope.source_agent)
    if identity is None:
        raise MessageRejected("wrong_identity", "source_agent is no sender that is known here")
    if identity.user_id is not None and delivery.user_id != identity.user_id:
        raise MessageRejected(
            "wrong_identity", "the property user_id is not the broker's user of that source_agent"
        )
    if kind not in identity.may_send:
        raise MessageRejected("wrong_identity", f"that source_agent may not send {kind}")


def _check_time(envelope: Envelope, rules: AcceptanceRules, now: float) -> None:
    age = now - envelope.timestamp.timestamp()
    if age < -rules.skew:
        raise MessageRejected(
            "bad_timestamp", f"the timestamp lies more than {rules.skew:g} seconds in the future"
        )
    if age > rules.max_age:
        raise MessageRejected("stale", f"the message is older than {rules.max_age:g} seconds")


def _read(model: type[_Model], value: JsonObject, where: str) -> _Model:
    if len(value) > _MAX_MEMBERS:
        raise rejection_of_unknown_fields(model, where)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise rejection_for(error, model, where) from None


def _request(kind: str, envelope: Envelope, rules: AcceptanceRules) -> Request:
    match kind:
        case "validation_result":
            return _verdict(envelope, rules)
        case "user_decision_response":
            answer = _read(UserDecisionResponse, envelope.payload, "payload")
            return DecisionMade(
                decision=DecisionId(answer.decision_id),
                choice=answer.choice,
                by=claimed(envelope.source_agent),
                is_vouched_for=rules.authenticates(envelope.source_agent),
            )
        case "job_request" if "job" in envelope.payload:
            job_request = _read(JobRequest, envelope.payload, "payload")
            if (reason := document_refusal(job_request.job, rules.documents)) is not None:
                raise MessageRejected("bad_payload", reason)
            return document_request(
                JobId(job_request.job_id), job_request.job, rules.documents, _origin(envelope)
            )
        case _:
            return _requested_goal(kind, envelope, rules)


def document_request(
    job: JobId, document: JsonObject, rule: DocumentRule, origin: JsonObject
) -> JobRequested:
    """Return the request for the job of a document that a daemon takes, with what is stored of who
    sent it.
    """
    target = document_target(document) if rule == "with target" else None
    named: JsonObject = {} if target is None else {TARGET_KEY: target}
    return JobRequested(job, {"job": document, **named, **origin}, _estimated_steps(document))


def document_target(job: JsonObject) -> str | None:
    """Return the first target that a job document names: in `targets`, as the input `target`, or as
    its variable.
    """
    targets, inputs, variables = (job.get(name) for name in ("targets", "inputs", "variables"))
    first = targets.get("first") if isinstance(targets, dict) else None
    of_inputs = [inputs.get("target")] if isinstance(inputs, dict) else []
    own = variables if isinstance(variables, list) and len(variables) == 1 else []
    for item in (*as_list(first), *of_inputs, *own):
        name = item.get("name") if isinstance(item, dict) else item
        if isinstance(name, str) and name:
            return name
    return None


def document_refusal(job: JsonObject, rule: DocumentRule) -> str | None:
    """Return why a daemon does not take a job document; None where it does."""
    if rule == "none":
        return "this daemon takes no job documents: it answers the messages of its pack"
    if rule == "with target" and document_target(job) is None:
        return (
            "this daemon sends a package for each target, and the job names none: give `targets.first`, "
            "the input `target`, or one entry of `variables`"
        )
    return None


def _verdict(envelope: Envelope, rules: AcceptanceRules) -> VerdictGiven:
    sent = envelope.payload
    if "job_id" in sent or "package_id" in sent:
        named = _read(ValidationResult, sent, "payload")
        verdict = VerdictGiven(
            JobId(named.job_id), named.package_id, named.iteration, named.accepted
        )
        return replace(verdict, feedback=tuple(map(str, named.feedback)))
    own = rules.target_field
    renamed = {("target" if name == own else name): value for name, value in sent.items()}
    result = _read(CorrelatedValidationResult, renamed, "payload")
    verdict = VerdictGiven(JobId(envelope.correlation_id), "", result.iteration, result.accepted)
    return replace(verdict, feedback=tuple(map(str, result.feedback)), target=result.target)


def resolved_verdict(verdict: VerdictGiven, jobs: Sequence[JobRow]) -> VerdictGiven:
    """Return a verdict that came without the ids of job and package with both, by the jobs that
    have not ended.

    Its job is one whose messages have the verdict's correlation id. Without such a job the verdict
    is unchanged.
    """
    correlated = [job for job in jobs if correlation_of(job) == verdict.job]
    named = [
        (job, package_id(job.job, verdict.iteration, target))
        for job in correlated
        for target in (None, verdict.target)
    ]
    for job, package in named:
        judged = {earlier.package for earlier in job.feedback}
        if package in {job.package, *judged, *(sent.package for sent in job.sent)}:
            return replace(verdict, job=job.job, package=package)
    return replace(verdict, job=named[0][0].job, package=named[0][1]) if named else verdict


def _requested_goal(kind: str, envelope: Envelope, rules: AcceptanceRules) -> JobRequested:
    form = rules.forms[kind]
    payload = _read(form.payload, envelope.payload, "payload")
    goal = form.goal(envelope.payload)
    if goal.template is None and not rules.takes_goals:
        reason = (
            "jobs are taken as job documents only, in the field job: no goal template is configured"
        )
        raise MessageRejected("bad_payload", reason)
    sent, job = envelope.payload, JobId(envelope.message_id)
    if isinstance(payload, RequestPayload):
        job = JobId(payload.job_id)
        sent = {**sent, "job_id": job}
    fields: JsonObject = {name: value for name, value in asdict(goal).items() if value is not None}
    stored: JsonObject = {TYPE_KEY: kind, PAYLOAD_KEY: sent, GOAL_KEY: fields}
    return JobRequested(
        job=job,
        request={**stored, **_origin(envelope)},
        weight=max(1.0, (goal.budget_tokens or 0) / _TOKENS_PER_STEP),
    )


def _origin(envelope: Envelope) -> JsonObject:
    return {CORRELATION_KEY: envelope.correlation_id, SOURCE_KEY: envelope.source_agent}


def target_of(job: JobRow) -> str | None:
    """Return the first target of a job; None where its messages are neutral."""
    if (goal := stored_goal(job.request)) is not None:
        return goal.target
    return stored_text(job, TARGET_KEY)


def correlation_of(job: JobRow) -> str:
    """Return what all messages of a job have in common: what its request was correlated by, or the
    job's own id.
    """
    return stored_text(job, CORRELATION_KEY) or job.job


def came_by_broker(job: JobRow) -> bool:
    """Return whether somebody asked for a job through a broker, where its messages are waited for."""
    return stored_text(job, CORRELATION_KEY) is not None


def trace_of(job: JobRow) -> str | None:
    """Return the header `traceparent` of the message that asked for a job; None where it had none."""
    return stored_text(job, TRACE_KEY)


def sender_of(job: JobRow) -> str | None:
    """Return the agent that asked for a job, where it came as a message."""
    return stored_text(job, SOURCE_KEY)


def stored_text(job: JobRow, key: str) -> str | None:
    """Return a text of a stored request by its key; None where it has none."""
    known = job.request.get(key)
    return known if isinstance(known, str) else None


def _estimated_steps(job: JsonObject) -> float:
    """Return the estimated number of steps of a job document, over all its targets."""
    plan = job.get("plan")
    steps = plan.get("steps") if isinstance(plan, dict) else None
    a_run = float(max(1, len(steps))) if isinstance(steps, list) else 1.0
    return a_run * _estimated_runs(job.get("targets"))


def _estimated_runs(targets: Json) -> int:
    """Return how many runs a job with targets is likely to be; one where it has none."""
    if not isinstance(targets, dict):
        return 1
    first, depth = targets.get("first"), targets.get("depth")
    known = len(first) if isinstance(first, list) else 1
    further = depth if isinstance(depth, int) and depth > 0 else 0
    return max(1, known) * (1 + _TARGETS_PER_WAVE * further)
