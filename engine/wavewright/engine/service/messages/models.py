"""The envelope of messages, and the neutral payloads that the daemon reads and sends.

An *envelope* names sender, recipient and time; its *payload* is one of the models here or one that
a pack defines, as the message type says. A message with an id that was read before is a repeat, and
has no effect; ids are made of what they name, so that one that is made again, after a crash or on
another machine, is the same.

A *job request* has two forms: one holds a whole job document; the short one holds a goal in words,
for the goal template of the settings. Reports are made of journaled events, so a repeated report
has the same bytes. Fields that do not apply are left out of a status.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, ClassVar, Final, TypeAlias
from urllib.parse import quote
from uuid import UUID, uuid5

from pydantic import BeforeValidator, Field, PlainSerializer

from wavewright.config.value_types import NonNegative
from wavewright.engine.service.job_store.records import DecisionId, JobId, MessageId
from wavewright.planner import JsonObject
from wavewright.tools import (
    MessageName,
    MessageText,
    PackagePayload,
    Payload,
    RequestedGoal,
    RequestForm,
    RequestPayload,
    TargetDepth,
    TokenBudget,
)
from wavewright.tools.message_contract import JobStatus, UncheckedObject, Uuid, WireModel

NAMESPACE: Final = UUID("8f0e3c4e-6d0f-5c0a-9a55-3a1f8d1c7b21")
"""Of all ids that wavewright makes; it never changes."""


def message_id(job: JobId, iteration: int, kind: str, *what: str | int) -> MessageId:
    """Return the id of a message.

    Args:
        job: The job that it tells of.
        iteration: Packages that had gone out before.
        kind: Its message type.
        what: What tells it from others of that type and iteration: a status and a target, say.
    """
    return MessageId(_id("message", job, iteration, kind, *what))


def package_id(job: JobId, iteration: int, target: str | None = None) -> str:
    """Return the id of a job's package, the first has the iteration 1; or of the package of one of
    its targets.
    """
    return (
        _id("package", job, iteration) if target is None else _id("package", job, iteration, target)
    )


def standing_job_id(*what: str | int) -> JobId:
    """Return the id of the job that a daemon starts by itself, made of the settings that make the
    job.
    """
    return JobId(_id("standing", *what))


def decision_id(job: JobId, *what: str | int) -> DecisionId:
    """Return the id of a question, made of the job and of all that the answer would be for."""
    return DecisionId(_id("decision", job, *what))


def _id(*parts: str | int) -> str:
    # Escaped, so that no part can hold the joint and no two lists of parts are one name.
    return str(uuid5(NAMESPACE, "/".join(quote(str(part), safe="") for part in parts)))


INSTANT_PATTERN: Final = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})$"
)
"""RFC 3339, with a UTC offset."""


def read_instant(value: object) -> object:
    """Return the instant that a text names; a datetime is returned as it is.

    Raises:
        ValueError: the text is not an RFC 3339 instant with a UTC offset.
    """
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not re.fullmatch(INSTANT_PATTERN, value, re.ASCII):
        msg = "must be an instant with a UTC offset, as 2026-06-01T12:00:00Z"
        raise ValueError(msg)
    return datetime.fromisoformat(value)


Instant: TypeAlias = Annotated[
    datetime,
    BeforeValidator(
        read_instant, json_schema_input_type=Annotated[str, Field(pattern=INSTANT_PATTERN)]
    ),
    PlainSerializer(datetime.isoformat, return_type=str),
]

VERSION: Final = 1
"""Of the envelope and of all payloads together."""
VERSION_HEADER: Final = "x-wavewright-version"


class Envelope(WireModel):
    """Sender, recipient, time and payload of a message."""

    message_id: Uuid
    """Two messages with one id are the same message."""
    source_agent: MessageName
    """Sender."""
    target_agent: str
    """Recipient; a message for another agent is refused."""
    message_type: str
    """Which payload it is."""
    timestamp: Instant
    """When the reported event happened."""
    correlation_id: Uuid
    """Shared by messages that belong together: a request, its reports and their answers."""
    payload: UncheckedObject
    """Content, by the message type."""


class JobRequest(RequestPayload):
    """`job_request`: run a job document."""

    message_type: ClassVar = "job_request"

    job: Annotated[UncheckedObject, Field(min_length=1)]
    """A job document, as a job file holds it."""


class GoalRequest(RequestPayload):
    """`job_request`, the short form: a goal for the goal template of the settings."""

    message_type: ClassVar = "job_request"

    goal: MessageText
    """What is wanted, in words."""
    depth: TargetDepth
    """Waves of targets after the first."""
    budget_tokens: TokenBudget
    """Tokens that the job may spend on models."""
    target: MessageName
    """First target."""


def _goal(request: JsonObject) -> RequestedGoal:
    named = GoalRequest.model_validate(request)
    return RequestedGoal(
        goal=named.goal, target=named.target, depth=named.depth, budget_tokens=named.budget_tokens
    )


GOAL_FORM: Final = RequestForm(GoalRequest, _goal)


_Remark: TypeAlias = Annotated[str, Field(max_length=2_000)]


class FieldFeedback(WireModel):
    """What is wrong with one field of a package."""

    field: _Remark
    """Which field it is, as `items.0.name`."""
    reason: _Remark
    suggestion: _Remark | None = None
    """What would be better."""

    def __str__(self) -> str:
        """Return it as one remark."""
        more = f"; {self.suggestion}" if self.suggestion else ""
        return f"{self.field}: {self.reason}{more}"


class _Verdict(Payload):
    message_type: ClassVar = "validation_result"

    accepted: bool
    """Whether the package is accepted."""
    iteration: Annotated[int, Field(ge=1, le=10)]
    """Number of the package within the job, or of its target, from 1."""
    feedback: Annotated[list[_Remark | FieldFeedback], Field(max_length=50)]
    """What is wrong or missing, in words or by field; may be empty."""


class ValidationResult(_Verdict):
    """`validation_result`: the verdict on a package."""

    job_id: Uuid
    """The job whose package it was."""
    package_id: Annotated[str, Field(min_length=1, max_length=200)]
    """The package, by the id that it came with."""


class CorrelatedValidationResult(_Verdict):
    """`validation_result` without ids: the package is known by the message's correlation id, target
    and iteration.
    """

    target: MessageName
    """The target that the package is about."""


class UserDecisionResponse(Payload):
    """`user_decision_response`: a person's answer."""

    message_type: ClassVar = "user_decision_response"

    decision_id: Uuid
    """The question, by its id."""
    choice: MessageText
    """One of the options; any text where there were none."""


class TargetFailure(WireModel):
    """A target without a result."""

    target: str
    error: str
    """Why, without text from a tool or a page."""


class JobStatusUpdate(Payload):
    """`job_status`: something happened to a job."""

    message_type: ClassVar = "job_status"

    job_id: Uuid
    """The job, by its sender's id."""
    status: JobStatus
    """What happened."""
    target: str | None = None
    """The target concerned."""
    targets_completed: NonNegative | None = None
    targets_total: NonNegative | None = None
    """Targets known so far; each wave may add some."""
    targets_failed: list[TargetFailure] | None = None
    step: str | None = None
    """The step that ended last."""
    steps_completed: NonNegative | None = None
    steps_total: NonNegative | None = None
    """Steps of the current plan; a recovery may add some."""
    iteration: NonNegative | None = None
    """Number of the package concerned."""
    package_id: str | None = None
    """The package concerned."""
    decision_id: Uuid | None = None
    """The question concerned."""
    reason: str | None = None
    """Why, in a sentence, where the status alone does not say."""


class PackageReport(PackagePayload):
    """`package`: the package of a job's run."""

    message_type: ClassVar = "package"

    target: str | None = None
    """The target concerned, where the job has several; each has packages of its own."""
    package: UncheckedObject
    """See `wavewright schema package`."""


class UserDecisionRequired(Payload):
    """`user_decision_required`: the job waits until a person has answered."""

    message_type: ClassVar = "user_decision_required"

    question: str
    options: list[str]
    """Possible answers; empty where any text is accepted."""
    context: str
    """Why it is asked; for an approval, all that would be done."""
    decision_id: Uuid
    """What the answer must name."""


REQUESTS: Final[tuple[type[Payload], ...]] = (
    JobRequest,
    GoalRequest,
    ValidationResult,
    CorrelatedValidationResult,
    UserDecisionResponse,
)
"""Neutral payloads that the daemon reads."""
REPORTS: Final[tuple[type[Payload], ...]] = (JobStatusUpdate, PackageReport, UserDecisionRequired)
"""Neutral payloads that the daemon sends."""
