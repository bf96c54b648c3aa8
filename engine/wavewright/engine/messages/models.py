"""Kinds of fields that messages are made of.

Every field is read as it is or not at all: a text is no number, nothing is stripped, and what would read differently
from what it is (a control character, a mark that turns the direction of writing) is refused in names.

What every message is wrapped in.

An *envelope* says who sends what to whom, and when; its *payload* is one of the models of `requests` and `reports`,
as its message type says. A *repeat* is the same message with the same id: whoever reads takes it in once.

What the daemon is asked for and told: jobs, verdicts on packages, answers to questions.

A *job request* has two forms. The generic one holds a whole job document; the short one holds a goal in words, and the
daemon's settings name the goal template that it is for.

What the daemon tells: how jobs stand, what came out, and what a person must decide.

A *report* is made of what is journaled, never of what the clock says when it is sent. Fields that do not apply are left
out of a status, so that a reader sees what it is about; and no text is refused here, for what tools have found must be
told whatever it looks like.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    SkipValidation,
)

from wavewright.planner.types import JsonObject

UUID_PATTERN: Final = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
INSTANT_PATTERN: Final = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$"
)
"""RFC 3339, with the zone that makes it an instant."""

_CONTROL_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of what is not seen and changes what is: controls, marks of direction, line separators."""


class WireModel(BaseModel):
    """Part of a message: what it does not know, it refuses."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


def _check_printable(text: str) -> str:
    if any(unicodedata.category(char) in _CONTROL_CATEGORIES for char in text):
        msg = "must hold no control characters"
        raise ValueError(msg)
    return text


def read_instant(value: object) -> object:
    """Return the instant that a text names; what is an instant already passes through.

    Raises:
        ValueError: it is no instant in RFC 3339, or names no zone.
    """
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not re.fullmatch(INSTANT_PATTERN, value, re.ASCII):
        msg = "must be an instant with its zone, as 2026-06-01T12:00:00Z"
        raise ValueError(msg)
    return datetime.fromisoformat(value)


Uuid: TypeAlias = Annotated[str, Field(pattern=UUID_PATTERN), AfterValidator(str.lower)]
"""A UUID in its usual form; whichever case it is written in, it is the same id."""
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_check_printable)]
"""What somebody or something is called, on one line."""
Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=4_000)]
Instant: TypeAlias = Annotated[
    datetime,
    BeforeValidator(read_instant, json_schema_input_type=Annotated[str, Field(pattern=INSTANT_PATTERN)]),
    PlainSerializer(datetime.isoformat, return_type=str),
]
UncheckedObject: TypeAlias = dict[str, SkipValidation[JsonValue]]
"""An object whose members are not looked at here; they are JSON, for they were read from it."""


VERSION: Final = 1
"""Of the envelope and of all payloads together."""
VERSION_HEADER: Final = "x-wavewright-version"

RequestType: TypeAlias = Literal["job_request", "validation_result", "user_decision_response"]
"""What the daemon takes in."""
ReportType: TypeAlias = Literal["job_status", "package", "research_package", "user_decision_required"]
"""What the daemon sends."""


class Envelope(WireModel):
    """Who sends what to whom, and when."""

    message_id: Uuid
    """What a repeat is known by."""
    source_agent: Name
    """Who sends it."""
    target_agent: str
    """Whom it is for; one that is not the reader's own name, empty or not, is for somebody else."""
    message_type: str
    """What the payload is."""
    timestamp: Instant
    """When what it tells of happened."""
    correlation_id: Uuid
    """What messages have in common that belong together: a request, what is told of it, and its answers."""
    payload: UncheckedObject
    """What is said, by the message type."""


class JobRequest(WireModel):
    """`job_request`: a job document is to be run."""

    job_id: Uuid
    """The sender's own id of the job: another request with it is the same job."""
    job: Annotated[UncheckedObject, Field(min_length=1)]
    """A job document, as a job file holds it."""


class GoalRequest(WireModel):
    """`job_request`, the short form: a goal is to be reached by the daemon's own goal template."""

    job_id: Uuid
    """The sender's own id of the job: another request with it is the same job."""
    goal: Text
    """What is wanted, in words."""
    depth: Annotated[int, Field(ge=0, le=5)]
    """Waves of targets after the first."""
    budget_tokens: Annotated[int, Field(ge=1, le=10_000_000)]
    """Tokens that the job may spend on models."""
    zone_name: Name
    """The first target."""


class ValidationResult(WireModel):
    """`validation_result`: the verdict on a package."""

    job_id: Uuid
    """The job whose package it was."""
    package_id: Annotated[str, Field(min_length=1, max_length=200)]
    """The package, by the id that it came with."""
    accepted: bool
    """Whether it will do."""
    iteration: Annotated[int, Field(ge=1, le=10)]
    """Which package of the job it was: 1 is the first."""
    feedback: Annotated[list[Annotated[str, Field(max_length=2_000)]], Field(max_length=50)]
    """What is wrong or missing; may be empty."""


class UserDecisionResponse(WireModel):
    """`user_decision_response`: a person's answer."""

    decision_id: Uuid
    """The question, by its id."""
    choice: Text
    """One of the options; any text where there were none."""


RequestPayload: TypeAlias = JobRequest | GoalRequest | ValidationResult | UserDecisionResponse

REQUESTS: Final[dict[RequestType, tuple[type[RequestPayload], ...]]] = {
    "job_request": (JobRequest, GoalRequest),
    "validation_result": (ValidationResult,),
    "user_decision_response": (UserDecisionResponse,),
}
"""Payloads by message type."""


JobStatus: TypeAlias = Literal[
    "ACCEPTED",
    "JOB_STARTED",
    "ZONE_STARTED",
    "ZONE_COMPLETED",
    "ZONE_FAILED",
    "TARGET_STARTED",
    "TARGET_COMPLETED",
    "TARGET_FAILED",
    "STEP_PROGRESS",
    "DECISION_REQUIRED",
    "PACKAGE_SENT",
    "VALIDATION_RECEIVED",
    "JOB_PAUSED",
    "JOB_RESUMED",
    "JOB_COMPLETED",
    "JOB_PARTIALLY_COMPLETED",
    "JOB_FAILED",
]
"""What has happened to a job. Zones are what targets are called where the job came as a goal with a zone."""

_Count: TypeAlias = Annotated[int, Field(ge=0)]


class ZoneFailure(WireModel):
    """A zone of which nothing came."""

    zone_name: str
    error: str
    """Why, without what a tool or a page said."""


class TargetFailure(WireModel):
    """A target of which nothing came."""

    target: str
    error: str
    """Why, without what a tool or a page said."""


class JobStatusUpdate(WireModel):
    """`job_status`: something has happened to a job."""

    job_id: Uuid
    """The job, by its sender's id."""
    status: JobStatus
    """What has happened."""
    zone_name: str | None = None
    """The zone that it happened to."""
    zones_completed: _Count | None = None
    zones_total: _Count | None = None
    """Zones that are known so far; each wave may add some."""
    zones_failed: list[ZoneFailure] | None = None
    target: str | None = None
    """The target that it happened to."""
    targets_completed: _Count | None = None
    targets_total: _Count | None = None
    """Targets that are known so far; each wave may add some."""
    targets_failed: list[TargetFailure] | None = None
    step: str | None = None
    """The step that has ended last."""
    steps_completed: _Count | None = None
    steps_total: _Count | None = None
    """Steps of the plan as it stands; a recovery may add some."""
    iteration: _Count | None = None
    """Which package of the job it is about."""
    package_id: str | None = None
    """The package that it is about."""
    decision_id: Uuid | None = None
    """The question that it is about."""
    reason: str | None = None
    """Why, in a sentence, where the status alone does not say."""


class PackageReport(WireModel):
    """`package`: what came out of a job, as the run's package holds it."""

    job_id: Uuid
    package_id: str
    """Made of job and iteration: a repeat has the same one, and the same bytes."""
    iteration: Annotated[int, Field(ge=1)]
    """Which package of the job it is: 1 is the first."""
    target: str | None = None
    """The target that it is about, where the job has several; each has a package of its own."""
    package: UncheckedObject
    """See `wavewright schema package`."""


class ResearchPackage(WireModel):
    """`research_package`: what was found out about one zone. What each record holds is its goal template's affair."""

    job_id: Uuid
    package_id: str
    """Made of job and iteration: a repeat has the same one, and the same bytes."""
    iteration: Annotated[int, Field(ge=1)]
    """Which package of the job it is: 1 is the first."""
    zone_name: str
    zone_data: JsonObject
    npcs: list[JsonObject] = []
    factions: list[JsonObject] = []
    lore: list[JsonObject] = []
    narrative_items: list[JsonObject] = []
    sources: list[JsonObject] = []
    """Address, domain, tier and time of access of each."""
    confidence: dict[str, Annotated[float, Field(ge=0, le=1)]] = {}
    """From 0 to 1 for each kind of finding."""
    conflicts: list[JsonObject] = []
    """Where two sources say what cannot both be right."""
    quality_warnings: list[str] = []
    """What a reader should know before relying on it."""


class UserDecisionRequired(WireModel):
    """`user_decision_required`: the job is parked until a person has answered."""

    question: str
    options: list[str]
    """What can be answered; empty where any text will do."""
    context: str
    """Why it is asked; for an approval, all that would be done."""
    decision_id: Uuid
    """What the answer must name."""


ReportPayload: TypeAlias = JobStatusUpdate | PackageReport | ResearchPackage | UserDecisionRequired

REPORTS: Final[dict[ReportType, type[ReportPayload]]] = {
    "job_status": JobStatusUpdate,
    "package": PackageReport,
    "research_package": ResearchPackage,
    "user_decision_required": UserDecisionRequired,
}
"""Payloads by message type."""
