"""The request that a run begins with, and the context that its phases pass on.

A context is frozen: a phase returns a new one with `dataclasses.replace`, or with `extended` if the
run has reached a further stage. The texts of a rejection come from outside: they are journaled,
become an input of the run, and are read only by steps.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import JsonValue

from wavewright.config import Document
from wavewright.engine.run.jobs.inputs import InputOverrides
from wavewright.engine.run.jobs.plan_drafts import PlanDraft
from wavewright.engine.run.jobs.resolving import ResolvedJob
from wavewright.engine.run.target_waves import TargetWaves
from wavewright.executor import Noted, RunState
from wavewright.executor.events.types import RetryOf
from wavewright.planner import (
    Diagnostic,
    Goal,
    Json,
    JsonObject,
    Plan,
    PlanPatch,
    RunId,
    StepId,
    ToolSignature,
)
from wavewright.planner.types import Schedule, read_run_id
from wavewright.reviewer import Package, ReviewResult
from wavewright.reviewer.recovery.feedback import with_feedback_input
from wavewright.tools import Tool, Tools

if TYPE_CHECKING:
    from wavewright.planner.checks.permits import Permits

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


def goal_with_feedback(state: RunState) -> Goal:
    """Return the goal of a run that has begun, with the feedback that it has taken."""
    assert state.started is not None
    goal = Goal.model_validate(state.started.goal)
    for noted in feedback_notes(state):
        package, texts = noted.body.get("iteration"), noted.body.get("texts")
        if isinstance(package, int) and isinstance(texts, list):
            goal = with_feedback_input(goal, package, [str(text) for text in texts])
    return goal


@dataclass(frozen=True, slots=True)
class RetryRequest:
    """The run to repeat, and the steps to repeat in it."""

    run: RunId
    start: StepId | None = None
    """This step and all that depend on it are called again."""
    inputs: JsonObject = field(default_factory=dict[str, JsonValue])
    """They replace that run's inputs of these names."""
    again: tuple[StepId, ...] = ()
    """Steps that are called again although it is not known whether their writes took effect."""
    only_failed: bool = False
    """Whether what succeeded is kept also where the code of its tool has changed."""


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
    permits: Permits | None = None
    """What the run may do; what the file beside its plan or job says where it is absent."""

    def __post_init__(self) -> None:
        """Refuse an id that can be none: every way to a run, from Python, the command line, the
        API, a message or a database, comes by here before anything is called.

        Raises:
            RunIdRefused: `run` can be no id of a run.
        """
        if self.run is not None:
            read_run_id(self.run)


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
    tools: Tools = field(default_factory=dict[str, Tool])
    state: RunState = RunState()
    """The fold of the run's events so far."""
    donor: RunState | None = None
    """The run that this one repeats, if it is a retry."""
    donors_before: tuple[RunState, ...] = ()
    """The runs that the donor repeats in its turn, the newest first."""
    other_retries: tuple[RunState, ...] = ()
    """Other retries of the first run that is repeated: their writes are not repeated either."""
    retry: RetryOf | None = None
    draft: PlanDraft | None = None
    """The plan as its author wrote it, until it is accepted."""
    candidate: CandidatePlan | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    """The checker's diagnostics of the latest candidate."""
    executed_seconds: float = 0.0
    """Seconds that this process has spent on executing; the run's time limit covers all rounds."""
    review: ReviewResult | None = None
    permits: Permits | None = None
    """What the run may do; None where nothing says so."""
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
        if self.state.run is None:
            return {"job": self.goal.job}
        return {"job": self.goal.job, "run": self.state.run}

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


@dataclass(frozen=True, slots=True)
class TargetsContext(RunContext):
    """State of a run whose job has several targets."""

    waves: TargetWaves = field(kw_only=True)
    new_job: ResolvedJob | None = field(kw_only=True)
    """The job of a new run; None if the run is resumed."""


_Context = TypeVar("_Context", bound=RunContext)


def extended(kind: type[_Context], context: RunContext, **changes: Any) -> _Context:
    """Return a context as one of a further stage, with the fields that the stage requires."""
    values = {part.name: getattr(context, part.name) for part in fields(context)}
    return kind(**{**values, **changes})
