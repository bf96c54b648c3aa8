"""Messages of a daemon, as a pack defines them: own requests and packages, own names of statuses,
fields and queues.

A pack gives a `MessageContract`; a daemon whose setting `daemon.pack` names that pack uses it. What
the contract does not name keeps its neutral form, which the
daemon defines.
"""

from __future__ import annotations

import datetime as dt
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, SkipValidation

from wavewright.config import LogLevel
from wavewright.config.value_types import AtLeastOne
from wavewright.planner import JsonObject

UUID_PATTERN: Final = (
    r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
)

_CONTROL_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories of invisible characters that change how text reads: controls, bidi marks, line
separators.
"""


class WireModel(BaseModel):
    """Part of a message. Unknown fields are refused, and no value is converted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class Payload(WireModel):
    """Payload of a message.

    >>> from typing import ClassVar
    >>> from wavewright.tools import Payload
    >>> class Verdict(Payload):
    ...     message_type: ClassVar = "verdict"
    ...     accepted: bool
    >>> Verdict(accepted=True).message_type
    'verdict'
    """

    message_type: ClassVar[str]
    """Type of the messages that carry it."""


def _check_printable(text: str) -> str:
    if any(unicodedata.category(char) in _CONTROL_CATEGORIES for char in text):
        msg = "must hold no control characters"
        raise ValueError(msg)
    return text


Uuid: TypeAlias = Annotated[str, Field(pattern=UUID_PATTERN), AfterValidator(str.lower)]
"""A UUID, in lower case."""
MessageName: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=128), AfterValidator(_check_printable)
]
"""A name on one line."""
MessageText: TypeAlias = Annotated[str, Field(min_length=1, max_length=4_000)]
TargetDepth: TypeAlias = Annotated[int, Field(ge=0, le=5)]
"""Waves of targets after the first."""
TokenBudget: TypeAlias = Annotated[int, Field(ge=1, le=10_000_000)]
UncheckedObject: TypeAlias = dict[str, SkipValidation[JsonValue]]
"""A JSON object whose members are not validated."""

JobStatus: TypeAlias = Literal[
    "ACCEPTED",
    "JOB_STARTED",
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
    "JOB_CANCELLED",
]
"""What happened to a job."""
TargetField: TypeAlias = Literal["target", "targets_completed", "targets_total", "targets_failed"]
"""Fields of statuses and log lines that a pack may rename."""


class RequestPayload(Payload):
    """Payload that asks for a job.

    >>> from typing import ClassVar
    >>> from wavewright.tools import RequestPayload
    >>> class ZoneRequest(RequestPayload):
    ...     message_type: ClassVar = "zone_request"
    ...     zone: str
    >>> sorted(ZoneRequest.model_fields)
    ['job_id', 'zone']
    """

    job_id: Uuid
    """The sender's id of the job: another request with it is the same job."""


class PackagePayload(Payload):
    """Payload that carries the result of a job or of one of its targets.

    >>> from typing import ClassVar
    >>> from wavewright.tools import PackagePayload
    >>> class ZonePackage(PackagePayload):
    ...     message_type: ClassVar = "zone_package"
    ...     zone: str
    >>> sorted(ZonePackage.model_fields)
    ['iteration', 'job_id', 'package_id', 'zone']
    """

    job_id: Uuid
    package_id: str
    """Derived from job and iteration: a repeated message has the same id and the same bytes."""
    iteration: AtLeastOne
    """Number of the package within the job, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedGoal:
    """A goal that a request asks for; the goal template of the settings makes a job of it.

    >>> from wavewright.tools import RequestedGoal
    >>> RequestedGoal(goal="Research a zone", target="Harrow Fen").depth
    0
    """

    goal: str
    target: str
    """First target."""
    depth: int = 0
    """Waves of targets after the first."""
    budget_tokens: int | None = None
    """Tokens that the job may spend on models; as the goal template says where absent."""
    inputs: JsonObject | None = None
    """Inputs of the job; `depth` alone where absent."""
    template: str | None = None
    """Goal template; the one that the settings name where absent."""
    forks: Literal["all", "ask"] | None = None
    """What is done where a target has found several others, as `targets.forks` of a job; a goal
    with it has targets also where its template finds none.
    """


GOAL_KEY: Final = "goal"
"""Where a stored request keeps the goal that it asks for."""


def stored_goal(request: JsonObject) -> RequestedGoal | None:
    """Return the goal of a stored request that came by a request form; None for a job document."""
    goal = request.get(GOAL_KEY)
    return RequestedGoal(**cast("dict[str, Any]", goal)) if isinstance(goal, dict) else None


@dataclass(frozen=True, slots=True)
class RequestForm:
    """An incoming message that starts a job: its payload, and the goal that a payload asks for.

    The id of the job is the payload's `job_id` where it is a `RequestPayload`, else that of the
    message: so a package that another daemon sends may start a job, each iteration of it another
    one.

    >>> from typing import ClassVar
    >>> from wavewright.tools import RequestedGoal, RequestForm, RequestPayload
    >>> class ZoneRequest(RequestPayload):
    ...     message_type: ClassVar = "zone_request"
    ...     zone: str
    >>> form = RequestForm(
    ...     ZoneRequest, lambda payload: RequestedGoal(goal="Research", target=payload["zone"])
    ... )
    >>> form.goal({"zone": "Harrow Fen"}).target
    'Harrow Fen'
    """

    payload: type[Payload]
    goal: Callable[[JsonObject], RequestedGoal]
    """Called with a payload that its model has validated."""


@dataclass(frozen=True, slots=True)
class PackageForm:
    """A message that carries a result in a form of the pack's own.

    >>> from typing import ClassVar
    >>> from wavewright.tools import PackageForm, PackagePayload
    >>> class ZonePackage(PackagePayload):
    ...     message_type: ClassVar = "zone_package"
    ...     zone: str
    >>> form = PackageForm(ZonePackage, lambda package, target, request: {"zone": target})
    >>> form.build({}, "Harrow Fen", {})
    {'zone': 'Harrow Fen'}
    """

    payload: type[Payload]
    """The fields of a `PackagePayload` are filled in; any other payload is as it was built."""
    build: Callable[[JsonObject, str, JsonObject], JsonObject | None]
    """Called with a package (see `wavewright schema package`), its target, and the payload of the
    request, which is empty for a job document. Returns the message's payload, without the fields
    that are filled in; `None` where it is no message of this form.
    """
    log_fields: Callable[[JsonObject], JsonObject] | None = None
    """Given the message's payload, returns the fields of its log line `package_sent`: `target`,
    `data_point_count` and `total_sources`.
    """
    build_failure: Callable[[str, str, JsonObject], JsonObject | None] | None = None
    """Called with the reason why a job has failed, its target, and the payload of its request.
    Returns the payload that answers the request in place of a package, like `build`; where absent,
    a failed job is told by statuses alone.
    """


@dataclass(frozen=True, slots=True)
class LogForm:
    """How a log event of the engine or of a tool is written.

    >>> from wavewright.tools import LogForm
    >>> LogForm("zone_read", "debug", {"target": "zone_name"}).level
    'debug'
    """

    name: str
    level: LogLevel | None = None
    """Its own level where absent."""
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    """Own names of fields; they win over those of the contract."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """Where a job stands, as its events tell it.

    >>> from wavewright.tools import JobProgress
    >>> JobProgress(run="r1", target="Harrow Fen", steps=("npcs",)).waiting
    ()
    """

    run: str
    """The job's run."""
    target: str
    """The current target."""
    steps: tuple[str, ...]
    """Steps of its run that have ended."""
    waiting: tuple[str, ...] = ()
    """Targets that have not begun, in their order."""
    chosen: tuple[str, ...] = ()
    """Those of them that a person has chosen."""
    completed: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Targets of which nothing came, with the reason."""
    packages: Mapping[str, int] = field(default_factory=dict[str, int])
    """Packages sent so far, by target."""
    tokens_today: int = 0
    """Tokens of the current day, where the settings bound them."""


@dataclass(frozen=True, slots=True)
class CheckpointForm:
    """A copy of a job's progress for readers outside the engine: written after each step, and never
    read.

    >>> from wavewright.tools import CheckpointForm
    >>> form = CheckpointForm("store", "save", lambda progress, day: {"run": progress.run})
    >>> form.tool
    'save'
    """

    server: str
    """MCP server; nothing is written where the project does not name it."""
    tool: str
    params: Callable[[JobProgress, dt.date], JsonObject]
    """Returns the parameters of the call, given the day in UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageContract:
    """What a pack defines of a daemon's messages, log and queues.

    Who reads the packages of a daemon with package forms understands only those. So a job document
    is taken there if it names the one target that it is about, or its targets, and a result of no
    form fails its job. A daemon without package forms answers a job document in the neutral form.
    Own log events and log fields are used for every line.

    >>> from wavewright.tools import MessageContract
    >>> MessageContract(takes_documents=False).requests
    ()
    """

    requests: tuple[RequestForm, ...] = ()
    """One for each message type; a form of `job_request` replaces the neutral short form."""
    packages: tuple[PackageForm, ...] = ()
    """The first one that builds a payload is sent."""
    takes_documents: bool = True
    """Whether job documents are taken; without them jobs come by the request forms alone."""
    statuses: Mapping[JobStatus, str] = field(default_factory=dict[JobStatus, str])
    fields: Mapping[TargetField, str] = field(default_factory=dict[TargetField, str])
    log_events: Mapping[str, str | LogForm] = field(default_factory=dict[str, str | LogForm])
    """By the event's own name."""
    domain: str | None = None
    """Value of `domain` in every log line; the goal template of the settings where absent."""
    daemon: JsonObject = field(default_factory=dict[str, JsonValue])
    """Defaults of the settings section `daemon`: names of exchanges, queues and agents, goal
    template, identities.
    """
    budgets: JsonObject = field(default_factory=dict[str, JsonValue])
    """Defaults of the settings section `budgets`, for a daemon."""
    model: str | None = None
    """Default of the setting `model`, for a daemon."""
    checkpoint: CheckpointForm | None = None
    """Where progress is copied to; nowhere where absent."""
    roles: Mapping[str, MessageContract] = field(default_factory=dict[str, "MessageContract"])
    """Contracts of the pack's other daemons, such as a validator: the setting `daemon.role` names
    one.
    """
