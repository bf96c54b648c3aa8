"""What phases reach the world by, as named records: each phase is handed those that it uses.

- `Attempt`: the journal, the clock, who hears of events, and what stops the run;
- `Means`: the settings, the models and sessions, and what makes calls in the place of the tools;
- `People`: who approves and who answers;
- `TargetPorts`: what only a job with several targets needs.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias, cast

from pydantic import JsonValue

from wavewright.config import Settings, WavewrightError, exit_codes
from wavewright.engine.run.cancellation import CancellationToken, Cycles, FindCancelRequest
from wavewright.engine.run.pipeline.phase import PhaseEvent, PhaseListener
from wavewright.executor import Event, Journal
from wavewright.executor.store.journal import LeftAnswer
from wavewright.planner import JsonObject, RunId, StepId, UserQuestion
from wavewright.reviewer import Package, write_package
from wavewright.tools import Runtime, Services

Clock: TypeAlias = Callable[[], dt.datetime]


def utc_now() -> dt.datetime:
    """Return the time of the system's clock, in UTC."""
    return dt.datetime.now(dt.UTC)


def ignore_event(event: object) -> None:
    """Do nothing with an event of a run, a phase or a model."""
    del event


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt at a run: where its events go, its clock, and what stops it."""

    journal: Journal
    clock: Clock = utc_now
    on_event: Callable[[Event], None] = ignore_event
    """Called with each event once it is journaled."""
    cancellation: CancellationToken = field(default_factory=CancellationToken)
    announces_calls: bool = False
    """Whether the start of every call is journaled, because the process of an earlier attempt has
    died.
    """

    def now(self) -> float:
        """Return the clock's time in seconds since 1970, as events have it."""
        return self.clock().timestamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What a run is made with."""

    settings: Settings
    services: Services
    """Language models with their budgets, prompts and ladders; `models` is None if none is
    configured.
    """
    runtime: Runtime | None = None
    """Answers calls in the place of the tools, with stubs or from a recording."""


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """One call that a person is asked to approve."""

    step: StepId
    tool: str
    params: JsonObject
    """Its arguments, as they will be sent; of a patch, what is not known yet as it is written."""
    awaits: tuple[str, ...] = ()
    """Of a patch: what must happen before all of them are known."""


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What a person is asked to approve.

    >>> from wavewright.engine import ApprovalRequest
    >>> ApprovalRequest("step", "pay alice 5", ("it writes",)).calls
    ()
    """

    subject: Literal["step", "patch"]
    text: str
    """The calls of the step, or the effect of the patch, as text."""
    needs: tuple[str, ...]
    """Why a person is asked: each tool that needs approval, each new side effect."""
    binding: JsonObject = field(default_factory=dict[str, JsonValue])
    """What an approval is valid for: the hash of the plan, and the step with the hash of its
    parameters.
    """
    calls: tuple[RequestedCall, ...] = ()
    """The calls with their values, for policies in code: all that the text shows."""


@dataclass(frozen=True, slots=True)
class Approval:
    """The answer to a request for approval.

    >>> from wavewright.engine import Approval
    >>> Approval(False, "too dear", by="auditor").approved
    False
    """

    approved: bool
    reason: str = ""
    """Why it is not approved, where no person has said so; the failed step has it."""
    by: str = ""
    """Who has answered, where that is known."""


class Approver(Protocol):
    """Answers approval requests: a terminal, a policy, or a stored answer."""

    async def approve(self, request: ApprovalRequest) -> Approval | bool | None:
        """Return whether the request is approved; None if there is no answer yet, and the run has
        to wait.
        """
        ...


class Asker(Protocol):
    """Answers the questions of planner and steps: at a terminal, or with answers given beforehand."""

    async def ask(self, question: UserQuestion) -> str | None:
        """Return the answer; None where no person can give one."""
        ...


async def ask_approver(approver: Approver, request: ApprovalRequest) -> Approval | None:
    """Return the answer to a request for approval; None if there is none yet.

    Only `True` and an `Approval` that says so approve. Approvers are also functions of programs,
    and what is merely true, such as the text "no", approves nothing.
    """
    answer = cast("object", await approver.approve(request))
    if answer is None:
        return None
    if answer is True or answer is False:
        return Approval(answer)
    if isinstance(answer, Approval):
        return Approval(answer.approved is True, answer.reason, answer.by)
    shown = ascii(answer)[:_SHOWN_CHARACTERS]
    return Approval(
        approved=False,
        reason=f"the answer to the request was {shown}, and only True or Approval(True) approves",
    )


class AnswerUnusable(WavewrightError):
    """A program's function has answered a question with what is no text."""

    exit_code = exit_codes.MISUSE


async def ask_asker(asker: Asker | None, question: UserQuestion) -> str | None:
    """Return the answer to a question; None where there is none.

    Only text is an answer: 0, False or a list would become one that nobody has given.

    Raises:
        AnswerUnusable: a function has answered with something else.
    """
    if asker is None:
        return None
    answer = cast("object", await asker.ask(question))
    if answer is None or isinstance(answer, str):
        return answer
    shown = ascii(answer)[:_SHOWN_CHARACTERS]
    raise AnswerUnusable(
        f"{question.asked_by} asked {question.question!r}, and the answer was {shown}, which is no text",
        "return the answer as text, or None where the run has to wait",
    )


_SHOWN_CHARACTERS: Final = 60


FindAnswer: TypeAlias = Callable[[RunId, str], Awaitable[LeftAnswer | None]]
"""Returns the answer that was left to a question of a run, by the question's nonce."""


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """Who approves and who answers."""

    approver: Approver
    asker: Asker | None = None
    """Answers the questions of planner and steps; without one, a run with a question is
    interrupted.
    """
    find_answer: FindAnswer | None = None
    """Called once a second while a question is open and other steps run."""
    can_ask: bool = True
    """Whether a person can be asked for the approvals that steps need; a plan that needs them is
    refused otherwise.
    """
    can_answer: bool = True
    """Whether a person can answer the questions of steps; a plan with one that has no default is
    refused otherwise.
    """
    answered: Collection[str] = ()
    """Steps for which an answer was given beforehand; a plan in which one of them asks nothing is
    refused.
    """


@dataclass(frozen=True, slots=True)
class PackageVerdict:
    """The verdict on a package of one of a job's targets."""

    accepted: bool
    package: str
    iteration: int
    """Number of the package of the target, from 1."""
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PackageValidation:
    """The external validation of the packages of a job's targets."""

    max_packages: int
    """Maximum number of packages of one target, unless the goal says otherwise; 0 turns validation
    off.
    """
    verdict_on: Callable[[str, int], PackageVerdict | None]
    """Returns the verdict on a target's package of that number; None until there is one."""


PeopleForRun: TypeAlias = Callable[[RunId], tuple[Approver, Asker]]
"""Returns the approver and the asker of a run."""
TargetObserver: TypeAlias = Callable[
    [str], AbstractContextManager[Callable[[Event | PhaseEvent], None]]
]
"""Returns a context, open while a target's run is executed, with the listener of its events and
phases.
"""


def ignore_target_events(
    target: str,
) -> AbstractContextManager[Callable[[Event | PhaseEvent], None]]:
    """Ignore the events within the run of a target; the root run has those of its start and end."""
    del target
    return nullcontext(ignore_event)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPorts:
    """What only a job with several targets needs."""

    people_for_run: PeopleForRun | None = None
    """Returns the approver and asker of a target's run, if they are not those of the root run."""
    observe: TargetObserver = ignore_target_events
    validation: PackageValidation | None = None
    """Returns the verdicts on packages of targets; without it runs do not wait for verdicts."""
    cycles: Cycles | None = None
    """Of a standing job: its targets run one after the other, each in a cycle."""


class PackageNotPublished(WavewrightError):
    """A package cannot be published, now or later; its run is left without an end."""


Publish: TypeAlias = Callable[[Package, Path], tuple[Path, ...]]
"""Publishes a package, as files in the folder if it writes any, and returns them; raises
`PackageNotPublished`.
"""


def write_package_files(package: Package, folder: Path) -> tuple[Path, ...]:
    """Write the package and its report."""
    # Imported here: the report's templates are loaded only where one is written.
    from wavewright.reviewer.report.page import write_report

    return (write_package(package, folder), write_report(package, folder))


def withhold_package(package: Package, folder: Path) -> tuple[Path, ...]:
    """Publish nothing; the caller of the run uses its package."""
    del package, folder
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Everything with side effects that a run uses."""

    attempt: Attempt
    means: Means
    people: People
    targets: TargetPorts = TargetPorts()
    publish: Publish = write_package_files
    on_phase: PhaseListener = ignore_event
    """Called at the start and at the end of each phase."""
    find_cancel_request: FindCancelRequest | None = None
    """Called once a second while the run goes on; None where its cancellation cannot be requested.
    """
