"""What a run carries from phase to phase, and the ports that its phases use.

A context is frozen: a phase returns a new one with `dataclasses.replace`, or with `extended` where the run has reached
a further stage. What a phase cannot compute (journal, clock, approver, settings) stands in `Ports`. The texts of a
rejection come from outside: they are journaled, become an input of the run, and are read by steps alone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar

from pydantic import JsonValue

from wavewright.config.documents import Document, DocumentError
from wavewright.config.errors import WavewrightError
from wavewright.config.settings import Settings
from wavewright.engine.jobs.input_overrides import InputOverrides
from wavewright.engine.jobs.resolving import PlanDraft, ResolvedJob
from wavewright.engine.jobs.saved_plan import SavedPlanError
from wavewright.engine.pipeline.cancellation import CancellationToken
from wavewright.executor.events.state import RunState
from wavewright.executor.events.types import Event, Noted, RetryOf
from wavewright.executor.store.journal import Journal
from wavewright.planner.diagnostics.diagnostic import Diagnostic, PlanError
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Plan, PlanPatch
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.planning.planner import UserQuestion
from wavewright.planner.ports.budgets import InspectableBudgetStore
from wavewright.planner.ports.model_port import ModelError
from wavewright.planner.types import Json, JsonObject, RunId, Schedule, StepId
from wavewright.prompts import PromptError
from wavewright.reviewer.records import Package, ReviewResult
from wavewright.tools.functions.contracts import ToolDefinitionError
from wavewright.tools.functions.tool import Tool
from wavewright.tools.packs import PackError
from wavewright.tools.workers.services import Services

FEEDBACK_TOPIC: Final = "feedback"
"""Of the note that a package was rejected."""
_DEFAULT_FEEDBACK: Final = ("The package was rejected.",)


@dataclass(frozen=True, slots=True)
class Feedback:
    """A rejection of the package that a run has sent last."""

    package: str
    iteration: int
    """Which package of the job it was, from 1."""
    texts: tuple[str, ...]
    max_packages: int
    """Packages of one job, at most."""

    @property
    def texts_for_steps(self) -> tuple[str, ...]:
        """What steps read; a rejection without a word is one all the same."""
        return self.texts or _DEFAULT_FEEDBACK


@dataclass(frozen=True, slots=True)
class PackageVerdict:
    """What somebody says of the package of one of a job's targets."""

    accepted: bool
    package: str
    iteration: int
    """Which package of the target it is about, from 1."""
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PackageValidation:
    """Somebody looks at the packages of a job's targets, each for itself."""

    max_packages: int
    """Packages of one target, at most; none is looked at where it is 0, and the goal's own word comes first."""
    verdict_on: Callable[[str, int], PackageVerdict | None]
    """Gives the verdict on a target's package of that number; none as long as there is none."""


def feedback_notes(state: RunState) -> list[Noted]:
    """Return the rejections that a run has taken, the latest last."""
    return [noted for noted in state.notes if noted.topic == FEEDBACK_TOPIC]


def feedback_note(feedback: Feedback, state: RunState) -> JsonObject:
    """Return what the note of a rejection says."""
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

    subject: Literal["plan", "patch"]
    text: str
    """The plan's or the patch's effect, as text."""
    needs: tuple[str, ...]
    """Why a person is asked: each tool that needs approval, each new side effect."""
    binding: JsonObject = field(default_factory=dict[str, JsonValue])
    """What the word is for and nothing else: the hash of the whole plan, and of each step that is asked for."""


class Approver(Protocol):
    """Whoever says yes or no: a terminal, a policy, somebody who answers tomorrow."""

    async def approve(self, request: ApprovalRequest) -> bool | None:
        """Return whether it may go ahead; none where nobody has said so yet, and the run is to wait for it."""
        ...


class Asker(Protocol):
    """Whoever can answer a planner's question: a person at a terminal, answers given beforehand."""

    async def ask(self, question: UserQuestion) -> str | None:
        """Return the answer; none where nobody is there to give it."""
        ...


PeopleForRun: TypeAlias = Callable[[RunId], tuple[Approver, Asker]]
"""Gives whom a run asks."""
TargetObserver: TypeAlias = Callable[[str], AbstractContextManager[Callable[[Event], None]]]
"""Gives whoever is told of the events of one target's run, for as long as it is worked on."""


def ignore_target_events(target: str) -> AbstractContextManager[Callable[[Event], None]]:
    """Watch nothing of what goes on within the run of a target: the root run tells how it begins and ends."""
    del target

    def ignore(event: Event) -> None:
        del event

    return nullcontext(ignore)


Clock: TypeAlias = Callable[[], dt.datetime]

ToolWrapper: TypeAlias = Callable[[Mapping[str, Tool]], Mapping[str, Tool]]
"""Puts others (stubs, recordings) in the place of tools, with the same names and signatures."""


def keep_tools(tools: Mapping[str, Tool]) -> Mapping[str, Tool]:
    """Leave the tools alone."""
    return tools


Publish: TypeAlias = Callable[[Package, Path], tuple[Path, ...]]
"""Lets a package out, into a folder where it becomes files, and returns the files; or raises `Unpublishable`."""


class PackageNotPublished(WavewrightError):
    """A package that cannot be let out, now or later; its run is left without an end."""


def write_package_files(package: Package, folder: Path) -> tuple[Path, ...]:
    """Write the package and its report."""
    from wavewright.reviewer.package.builder import write_package
    from wavewright.reviewer.report.page import write_report

    return (write_package(package, folder), write_report(package, folder))


def withhold_package(package: Package, folder: Path) -> tuple[Path, ...]:
    """Let nothing out: the package is built, and whoever has asked for the run looks at it."""
    del package, folder
    return ()


def utc_now() -> dt.datetime:
    """Return the time of the system's clock, in UTC."""
    return dt.datetime.now(dt.UTC)


def ignore_event(event: Event) -> None:
    """Do nothing with an event."""
    del event


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Everything that is not pure, in one place."""

    journal: Journal
    settings: Settings
    services: Services
    """Language models, and what goes with them; its `models` is absent where none is configured."""
    budget_store: InspectableBudgetStore | None = None
    """Keeps the budgets of models; absent where none is configured."""
    approver: Approver
    asker: Asker | None = None
    """Is asked the planner's questions; without one, a run that asks is interrupted."""
    clock: Clock = utc_now
    on_event: Callable[[Event], None] = ignore_event
    """Called with each event once it is journaled."""
    cancellation: CancellationToken = field(default_factory=CancellationToken)
    wrap_tools: ToolWrapper = keep_tools
    publish: Publish = write_package_files
    people_for_run: PeopleForRun | None = None
    """Gives whom the run of one of several targets asks, where that is not whom the root run asks."""
    observe_target: TargetObserver = ignore_target_events
    validation: PackageValidation | None = None
    """Gives the verdicts on packages of targets; without it none is waited for."""
    announces_calls: bool = False
    """Whether the start of every call is journaled: the process of an earlier attempt has died."""


@dataclass(frozen=True, slots=True)
class RetryRequest:
    """Which run is to be repeated, and what of it."""

    run: RunId
    start: StepId | None = None
    """This step and all that depend on it are called anew."""
    inputs: JsonObject = field(default_factory=dict[str, JsonValue])
    """In the place of that run's inputs of these names."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What was asked for on the command line or by a caller."""

    job_file: Path | None = None
    job: Document | None = None
    """The job where it came otherwise than as a file; it names nothing outside the project's folder."""
    resolved_job: ResolvedJob | None = None
    """What the job comes to, where it was read before: for one target of a job that has several."""
    run: RunId | None = None
    """The run's id: it is resumed, or begins where nothing was journaled of it yet; a new id where absent."""
    retry: RetryRequest | None = None
    """A run that has ended, whose goal and plan the new run has."""
    plan_file: Path | None = None
    """A plan that replaces the job's."""
    schedule: Schedule | None = None
    concurrency: int | None = None
    inputs: InputOverrides = field(default_factory=InputOverrides)
    """What takes the place of the job's inputs."""
    as_of: dt.datetime | None = None
    output_dir: Path | None = None
    feedback: Feedback | None = None
    """What was said of the package that the run has sent last, where it was rejected."""


@dataclass(frozen=True, slots=True)
class CandidatePlan:
    """A bound plan that is to be checked and accepted."""

    plan: Plan
    patch: PlanPatch | None = None
    """The patch that made it; absent for the first plan."""
    side_effects: tuple[StepId, ...] = ()
    """Steps that the patch brings and that write or send, which the run did not do so far."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """State of a run between two phases, from the moment when its job was read."""

    request: RunRequest
    goal: Goal
    resolved_job: ResolvedJob | None = None
    """What the job comes to, where it has several targets."""
    tools: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    state: RunState = RunState()
    """The fold of the run's events so far."""
    donor: RunState | None = None
    """The run that this one repeats, where it is a retry."""
    retry: RetryOf | None = None
    draft: PlanDraft | None = None
    """The plan as its author wrote it, until it is accepted."""
    candidate: CandidatePlan | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    """What the checker said of the latest candidate."""
    executed_seconds: float = 0.0
    """Seconds that this process has spent on executing so far; the run's time limit is over all rounds."""
    review: ReviewResult | None = None
    files: tuple[Path, ...] = ()
    """What was written: the package, then the report."""
    plan: Plan | None = None
    """The bound plan that the run follows; the executor and the reviewer see this one."""
    package: Package | None = None

    @property
    def run(self) -> RunId:
        """The run's id; there is one as soon as the run is open."""
        assert self.state.run is not None
        return self.state.run

    @property
    def time_left(self) -> float | None:
        """Seconds that are left of the run's time limit; none where it has no limit."""
        limit = self.goal.limits.run_timeout
        return None if limit is None else max(0.0, limit - self.executed_seconds)

    @property
    def signatures(self) -> dict[str, ToolSignature]:
        """What the planner, the checker and the reviewer know of the tools."""
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
    """Return a context as one of a further stage, with the fields that this one requires."""
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
    """Return what a fault says of a job, without the place in the code."""
    if isinstance(fault, DocumentError):
        return "; ".join(one.message for one in fault.faults)
    if isinstance(fault, PlanError):
        found = (one for error in (fault, *fault.others) for one in error.diagnostics)
        return "; ".join(one.message for one in found if one.severity == "error")
    return str(fault)
