"""What the job store keeps, as data.

A *job* is one request for work with an id of its sender's; it has one *root run*, and whoever holds
that run works on the job. A *decision* is a question that only a person can answer. The *inbox*
remembers every message that was taken in, the *outbox* every message that must go out. Times are
seconds since the epoch (UTC).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, NewType, TypeAlias

from pydantic import JsonValue

from wavewright.planner import JsonObject, RunId

JobId = NewType("JobId", str)
"""A UUID, as the request gives it."""
PRIORITY_KEY: Final = "priority"
"""Key of a stored request: how urgent its job is, from 0 to 9; 0 where it is missing."""
DecisionId = NewType("DecisionId", str)
"""A UUID, made of what is asked: the same question has the same id."""
MessageId = NewType("MessageId", str)
"""A UUID; two messages with one id are the same message."""

JobState: TypeAlias = Literal[
    "queued", "running", "waiting", "validating", "completed", "failed", "dead", "cancelled"
]
"""`queued`: ready to run once a slot is free and `not_before` has come. `running`: an owner holds
its run, or died while holding it. `waiting`: a person must answer first. `validating`: its package,
or packages of its targets, are out and have no verdict yet. The others are final; `dead` is a job
that ended its process or failed too often, `cancelled` one that a person has ended.
"""

ReceptionAction: TypeAlias = Literal[
    "accept", "ack_duplicate", "ignore_stale", "defer", "dead_letter"
]
"""What becomes of a message. Only `accept` has an effect now, `defer` has one when its turn comes.
"""


@dataclass(frozen=True, slots=True)
class JobRequested:
    """Work is wanted."""

    job: JobId
    request: JsonObject
    """What the run is made of, as the engine reads it."""
    weight: float = 1.0
    """How much work it is likely to be; small ones are not kept waiting behind large ones."""


@dataclass(frozen=True, slots=True)
class VerdictGiven:
    """The validator has looked at a package."""

    job: JobId
    package: str
    iteration: int
    accepted: bool
    feedback: tuple[str, ...] = ()
    target: str | None = None
    """The target of the package, where the verdict came without ids: until the package is found,
    `package` is empty and `job` is the correlation id.
    """


@dataclass(frozen=True, slots=True)
class DecisionMade:
    """A person has answered."""

    decision: DecisionId
    choice: str
    by: str
    """Who, as the door knows them: the sender of a message, the user at the command line."""
    is_vouched_for: bool = True
    """Whether that identity is verified, by the broker or by the sender's signature; it is not for
    the name alone that a message has in it. Questions may be answered by anyone, approvals only
    with a verified identity.
    """


Request: TypeAlias = JobRequested | VerdictGiven | DecisionMade


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message off the wire that is sound in itself; whether it fits what is going on, the store
    decides.
    """

    message: MessageId
    kind: str
    source: str
    at: float
    request: Request
    arrived: float | None = None
    """When the broker had got it, as far as that is known; deadlines are judged by it."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a message."""

    action: ReceptionAction
    kind: str | None = None
    """From a fixed list (`duplicate`, `duplicate_job`, `stale`, `out_of_order`,
    `unknown_correlation`, …).
    """
    reason: str = ""


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """A message that must go out; published at least once, and always the same bytes."""

    message: MessageId
    """Made by uuid5 of what it says, so that a repeat is the same message."""
    kind: str
    exchange: str
    routing_key: str
    body: bytes
    job: JobId | None = None
    headers: JsonObject = field(default_factory=dict[str, JsonValue])
    at: float = 0.0
    refused: str | None = None
    """Why the broker cannot deliver it, where it said so."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A question for a person, and the answer once there is one."""

    id: DecisionId
    job: JobId
    run: RunId
    subject: Literal["question", "step", "patch"]
    """A question of the planner or of a step, or what is to be approved."""
    question: str
    options: tuple[str, ...] = ()
    """None: any text will do."""
    context: str = ""
    """Why it is asked: for an approval, all that would be done."""
    binding: JsonObject = field(default_factory=dict[str, JsonValue])
    """What an approval is for and nothing else: plan hash, steps, hash of their parameters, nonce.
    """
    asked: float = 0.0
    expires: float | None = None
    choice: str | None = None
    by: str | None = None
    answered: float | None = None
    used: float | None = None
    """When a run took the answer; it can be taken once."""


@dataclass(frozen=True, slots=True)
class SentPackage:
    """A package of one of a job's targets that is out and has no verdict yet."""

    package: str
    iteration: int
    """Which package of its target it is, from 1."""


@dataclass(frozen=True, slots=True)
class JobChange:
    """How a job stands from now on."""

    job: JobId
    state: JobState
    reason: str = ""
    iteration: int | None = None
    package: str | None = None
    not_before: float | None = None
    is_failed_attempt: bool = False
    """For `queued`: whether the attempt counts against the job, because it failed; one that was
    only put off (the daemon is stopped, a budget is spent) does not.
    """
    has_advanced: bool = False
    """For `running`: whether the calls that earlier attempts were cut off in have come to their
    end, so that those attempts count no more; what ended their process may have been a neighbour's
    fault.
    """
    attempts: int | None = None
    """For `running`: how many attempts count from now on, where that changes."""
    sent: tuple[SentPackage, ...] = ()
    """Packages of targets that go out with this change, each to await a verdict of its own."""


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job, as the store shows it."""

    job: JobId
    run: RunId
    state: JobState
    request: JsonObject
    received: float
    weight: float = 1.0
    attempts: int = 0
    """How often an attempt was begun whose end was not recorded."""
    failures: int = 0
    """How often an attempt has failed by an error."""
    iteration: int = 0
    """Packages that have gone out."""
    package: str | None = None
    """The latest one's id."""
    feedback: tuple[VerdictGiven, ...] = ()
    """Verdicts, the latest last."""
    sent: tuple[SentPackage, ...] = ()
    """Packages of targets that await their verdicts."""
    reason: str = ""
    not_before: float | None = None
    finished: float | None = None
    state_since: float = 0.0
    """When it came into this state."""
    queue_rank: float = 0.0
    """Its place in the queue: the lowest is next."""
    owner: str | None = None
    """Who works on it, for people: `pid 4711 on ada`."""

    @property
    def priority(self) -> int:
        """How urgent it is, from 0 to 9."""
        known = self.request.get(PRIORITY_KEY)
        return known if isinstance(known, int) else 0


@dataclass(frozen=True, slots=True)
class RetentionCursor:
    """The position of a reader that looks through all messages, a part at a time."""

    inbox: int = 0
    outbox: int = 0


RETENTION_START: Final = RetentionCursor()


@dataclass(frozen=True, slots=True)
class ReceptionView:
    """What the store knows of what a message is about, when the message is judged."""

    now: float
    is_seen: bool = False
    """Whether a message with this id had an effect, or is kept until its turn comes."""
    job: JobRow | None = None
    """The job that it names, or the one that its decision is about."""
    kept: tuple[VerdictGiven, ...] = ()
    """Verdicts on that job that came earlier and wait for their turn."""
    decision: Decision | None = None
