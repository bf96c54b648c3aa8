"""The context that phases pass on, the request that a run begins with, and the ports that phases
use.

A context is frozen: a phase returns a new one with `dataclasses.replace`, or with `extended` if the
run has reached a further stage. Everything with side effects (journal, clock, approver, settings)
is in `Ports`. The texts of a rejection
come from outside: they are journaled, become an input of the run, and are read only by steps.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar

from pydantic import JsonValue

from wavewright.config.documents import Document
from wavewright.config.errors import WavewrightError
from wavewright.config.settings import Settings
from wavewright.config.sources import DocumentError
from wavewright.engine.run.jobs.inputs import InputOverrides
from wavewright.engine.run.jobs.plan_drafts import PlanDraft
from wavewright.engine.run.jobs.resolving import ResolvedJob
from wavewright.engine.run.jobs.saved_plan import SavedPlanError
from wavewright.engine.run.pipeline.cancellation import CancellationToken, Cycles, FindCancelRequest
from wavewright.engine.run.pipeline.phase import PhaseEvent, PhaseListener
from wavewright.executor.events.state import RunState
from wavewright.executor.events.types import Event, Noted, RetryOf
from wavewright.executor.store.journal import Journal
from wavewright.planner.diagnostics.diagnostic import Diagnostic, PlanError, error_diagnostics
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Plan, PlanPatch
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.planning.records import UserQuestion
from wavewright.planner.ports.model_port import ModelError
from wavewright.planner.types import Json, JsonObject, RunId, Schedule, StepId
from wavewright.prompts import PromptError
from wavewright.reviewer.records import Package, ReviewResult
from wavewright.tools.functions.errors import ToolDefinitionError
from wavewright.tools.functions.tool import Runtime, Tool
from wavewright.tools.packs import PackError
from wavewright.tools.workers.services import Services

FEEDBACK_TOPIC: Final = "feedback"
"""Topic of the note that a package was rejected."""
_DEFAULT_FEEDBACK: Final = ("The package was rejected.",)


@dataclass(frozen=True, slots=True)
class Feedback:
    """A rejection of the last package of a run."""

    package: str
    iteration: int
    """Number of the package of the job, from 1."""
    texts: tuple[str, ...]
    max_packages: int
    """Maximum number of packages of one job."""

    @property
    def texts_for_steps(self) -> tuple[str, ...]:
        """The texts that steps read; a default text if the rejection has none."""
        return self.texts or _DEFAULT_FEEDBACK


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


def feedback_notes(state: RunState) -> list[Noted]:
    """Return the rejections that a run has taken, the latest last."""
    return [noted for noted in state.notes if noted.topic == FEEDBACK_TOPIC]


def feedback_note(feedback: Feedback, state: RunState) -> JsonObject:
    """Return the body of the note of a rejection."""
    texts: list[Json] = [*feedback.texts_for_steps]
    return {
        "package": feedback.package,
        "iteration": feedback.iteration,
        "texts": texts,
        "round": state.round,
    }


def goal_with_feedback(goal: Goal, state: RunState) -> Goal:
    """Return the goal of a run with the feedback that it has taken."""
    from wavewright.reviewer.recovery.recipes import with_feedback_input

    for noted in feedback_notes(state):
        package, texts = noted.body.get("iteration"), noted.body.get("texts")
        if isinstance(package, int) and isinstance(texts, list):
            goal = with_feedback_input(goal, package, [str(text) for text in texts])
    return goal


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What a person is asked to approve."""

    subject: Literal["step", "patch"]
    text: str
    """The calls of the step, or the effect of the patch, as text."""
    needs: tuple[str, ...]
    """Why a person is asked: each tool that needs approval, each new side effect."""
    binding: JsonObject = field(default_factory=dict[str, JsonValue])
    """What an approval is valid for: the hash of the plan, and the step with the hash of its
    parameters.
    """


class Approver(Protocol):
    """Answers approval requests: a terminal, a policy, or a stored answer."""

    async def approve(self, request: ApprovalRequest) -> bool | None:
        """Return whether the request is approved; None if there is no answer yet, and the run has
        to wait.
        """
        ...


class Asker(Protocol):
    """Answers the questions of planner and steps: at a terminal, or with answers given beforehand."""

    async def ask(self, question: UserQuestion) -> str | None:
        """Return the answer; None where no person can give one."""
        ...


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


Clock: TypeAlias = Callable[[], dt.datetime]

Publish: TypeAlias = Callable[[Package, Path], tuple[Path, ...]]
"""Publishes a package, as files in the folder if it writes any, and returns them; raises
`PackageNotPublished`.
"""


class PackageNotPublished(WavewrightError):
    """A package cannot be published, now or later; its run is left without an end."""


def write_package_files(package: Package, folder: Path) -> tuple[Path, ...]:
    """Write the package and its report."""
    from wavewright.reviewer.package.builder import write_package
    from wavewright.reviewer.report.page import write_report

    return (write_package(package, folder), write_report(package, folder))


def withhold_package(package: Package, folder: Path) -> tuple[Path, ...]:
    """Publish nothing; the caller of the run uses its package."""
    del package, folder
    return ()


def utc_now() -> dt.datetime:
    """Return the time of the system's clock, in UTC."""
    return dt.datetime.now(dt.UTC)


def ignore_event(event: object) -> None:
    """Do nothing with an event of a run, a phase or a model."""
    del event


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Everything with side effects that phases use."""

    journal: Journal
    settings: Settings
    services: Services
    """Language models with their budgets, prompts and ladders; `models` is None if none is
    configured.
    """
    approver: Approver
    asker: Asker | None = None
    """Answers the questions of planner and steps; without one, a run with a question is
    interrupted.
    """
    can_ask: bool = True
    """Whether a person can be asked for the approvals that steps need; a plan that needs them is
    refused otherwise.
    """
    can_answer: bool = True
    """Whether a person can answer the questions of steps; a plan with one that has no default is
    refused otherwise.
    """
    clock: Clock = utc_now
    on_event: Callable[[Event], None] = ignore_event
    """Called with each event once it is journaled."""
    on_phase: PhaseListener = ignore_event
    """Called at the start and at the end of each phase."""
    cancellation: CancellationToken = field(default_factory=CancellationToken)
    find_cancel_request: FindCancelRequest | None = None
    """Called once a second while the run goes on; None where its cancellation cannot be requested.
    """
    runtime: Runtime | None = None
    """Answers calls in the place of the tools, with stubs or from a recording."""
    publish: Publish = write_package_files
    people_for_run: PeopleForRun | None = None
    """Returns the approver and asker of a target's run, if they are not those of the root run."""
    observe_target: TargetObserver = ignore_target_events
    validation: PackageValidation | None = None
    """Returns the verdicts on packages of targets; without it runs do not wait for verdicts."""
    cycles: Cycles | None = None
    """Of a standing job: its targets run one after the other, each in a cycle."""
    announces_calls: bool = False
    """Whether the start of every call is journaled, because the process of an earlier attempt has
    died.
    """


@dataclass(frozen=True, slots=True)
class RetryRequest:
    """The run to repeat, and the steps to repeat in it."""

    run: RunId
    start: StepId | None = None
    """This step and all that depend on it are called again."""
    inputs: JsonObject = field(default_factory=dict[str, JsonValue])
    """They replace that run's inputs of these names."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A request to execute or resume a run, from the command line or another caller."""

    job_file: Path | None = None
    job: Document | None = None
    """The job, if it did not come as a file; it may name only files in the project's folder."""
    resolved_job: ResolvedJob | None = None
    """The job, if it is resolved already: for one target of a job that has several."""
    run: RunId | None = None
    """The run's id: the run is resumed, or begun if nothing of it is journaled; None for a new id.
    """
    retry: RetryRequest | None = None
    """A run that has ended, whose goal and plan the new run repeats."""
    plan_file: Path | None = None
    """A plan that replaces the job's."""
    schedule: Schedule | None = None
    concurrency: int | None = None
    inputs: InputOverrides = field(default_factory=InputOverrides)
    """They replace inputs of the job."""
    as_of: dt.datetime | None = None
    output_dir: Path | None = None
    feedback: Feedback | None = None
    """The rejection of the run's last package, if it was rejected."""
    by: str | None = None
    """Who resumes the run or repeats another one; it is journaled."""


@dataclass(frozen=True, slots=True)
class CandidatePlan:
    """A bound plan that is to be checked and accepted."""

    plan: Plan
    patch: PlanPatch | None = None
    """The patch that made it; None for the first plan."""
    side_effects: tuple[StepId, ...] = ()
    """Steps added by the patch that write or send, as no step of the run did before."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """State of a run between two phases, once its job is read."""

    request: RunRequest
    goal: Goal
    tools: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    state: RunState = RunState()
    """The fold of the run's events so far."""
    donor: RunState | None = None
    """The run that this one repeats, if it is a retry."""
    retry: RetryOf | None = None
    draft: PlanDraft | None = None
    """The plan as its author wrote it, until it is accepted."""
    candidate: CandidatePlan | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    """The checker's diagnostics of the latest candidate."""
    executed_seconds: float = 0.0
    """Seconds that this process has spent on executing; the run's time limit covers all rounds."""
    review: ReviewResult | None = None
    files: tuple[Path, ...] = ()
    """The files written: the package, then the report."""
    plan: Plan | None = None
    """The bound plan that the run follows; the executor and the reviewer see this one."""
    package: Package | None = None

    @property
    def run(self) -> RunId:
        """The run's id; only valid once the run is open."""
        assert self.state.run is not None
        return self.state.run

    @property
    def labels(self) -> Mapping[str, str]:
        """The job and, once it is open, the run."""
        return {"job": self.goal.job} | ({} if self.state.run is None else {"run": self.state.run})

    @property
    def time_left(self) -> float | None:
        """Seconds that are left of the run's time limit; None if it has none."""
        limit = self.goal.limits.run_timeout
        return None if limit is None else max(0.0, limit - self.executed_seconds)

    @property
    def signatures(self) -> dict[str, ToolSignature]:
        """The signatures of the tools, by name."""
        return {name: tool.signature for name, tool in self.tools.items()}


@dataclass(frozen=True, slots=True)
class PlannedContext(RunContext):
    """State of a run whose plan is accepted."""

    plan: Plan = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class PackagedContext(PlannedContext):
    """State of a run whose package is built."""

    package: Package = field(kw_only=True)


_Context = TypeVar("_Context", bound=RunContext)


def extended(kind: type[_Context], context: RunContext, **changes: Any) -> _Context:
    """Return a context as one of a further stage, with the fields that the stage requires."""
    values = {part.name: getattr(context, part.name) for part in fields(context)}
    return kind(**{**values, **changes})


PERMANENT_ERRORS: Final = (
    DocumentError,
    PlanError,
    SavedPlanError,
    ToolDefinitionError,
    PackError,
    PromptError,
    ModelError,
    PackageNotPublished,
)


def permanent_error_text(fault: Exception) -> str:
    """Return the message of a permanent error, without the place in a document."""
    if isinstance(fault, DocumentError):
        return "; ".join(one.message for one in fault.faults)
    if isinstance(fault, PlanError):
        found = (one for error in (fault, *fault.others) for one in error.diagnostics)
        return "; ".join(one.message for one in error_diagnostics(found))
    return str(fault)
