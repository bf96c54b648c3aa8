"""The project that a test belongs to: where it is, its settings and files, and its plans and dry
runs.

The *project under test* is the folder with `wavewright.yaml` nearest above the test's own file, so
that a test does the same from whichever folder pytest is started. What the tester's environment
says of models, journals and folders does not count, but for live tests.

The fixtures `plan` and `dry_run` load plans by the name of their file. A *plan view* is always of a
valid plan: an invalid one fails the test that loads it, with its diagnostics.

What a test asserts says why it fails: a *claim* is true or false and shows its reason; an explained
text or number is a plain one with the reason for it. pytest shows the reason only where an
assertion fails, and comparisons are those of the plain values.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
from collections.abc import Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Self, TypeAlias

import pytest

from wavewright.config import Settings, WavewrightError, exit_codes, load_settings
from wavewright.config.settings import find_settings_file
from wavewright.config.value_types import Place
from wavewright.engine.interfaces.api.loaded_plan import LoadedPlan
from wavewright.engine.interfaces.cli.common.arguments import parse_instant
from wavewright.engine.interfaces.cli.common.error_text import error_text
from wavewright.engine.rehearsal.dry_run.forecast import DryRun, forecast
from wavewright.engine.run.context import RunRequest
from wavewright.engine.run.jobs.goal_in_words import with_kept_plan
from wavewright.engine.run.jobs.resolving import ResolvedJob
from wavewright.engine.run.ports import utc_now
from wavewright.engine.run.project.tools import signatures_to_check, tools_of_goal
from wavewright.engine.run.read_job import requested_job
from wavewright.planner import (
    Diagnostic,
    Goal,
    Plan,
    PlanError,
    PlanGraph,
    Step,
    StepId,
    ToolSignature,
    check,
    suggest_name,
)
from wavewright.planner.diagnostics.diagnostic import error_diagnostics
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.ports.model_port import ModelError

Loadable: TypeAlias = Place | LoadedPlan
"""A job, a plan or a goal template: its file, or as the program has loaded or built it."""


@contextmanager
def errors_as_failures() -> Generator[None]:
    """Turn the engine's errors for users into the message of a failed test, without a traceback."""
    __tracebackhide__ = True
    try:
        yield
    except WavewrightError as error:
        if error.exit_code == exit_codes.INTERNAL and not isinstance(error, ModelError):
            raise
        # From nothing: pytest would show what was caught, traceback and all, above the message.
        raise assertion_failure(error_text(error)) from None


@dataclass(frozen=True, slots=True)
class ProjectUnderTest:
    """Where the test's project is, and where the test."""

    root: Path
    tests: Path
    """Folder of the test's own file."""
    is_live: bool = False
    """Whether the test may ask models."""

    @classmethod
    def containing(cls, tests: Path, otherwise: Path, *, is_live: bool) -> ProjectUnderTest:
        """Return the project that a folder of tests lies in; `otherwise` where there are no
        settings above it.
        """
        file = find_settings_file(tests)
        return cls(otherwise if file is None else file.parent, tests, is_live)

    def settings(self) -> Settings:
        """Return the project's settings; faulty ones fail the test."""
        __tracebackhide__ = True
        with errors_as_failures():
            return load_settings(self.root, os.environ if self.is_live else {})

    def file(self, name: Place) -> Path:
        """Return a file by its name: relative to the project or else to the test, and short where
        it can be.
        """
        __tracebackhide__ = True
        path = Path(name)
        for folder in (self.root, self.tests):
            file = folder / path
            if file.is_file():
                inside = file.is_relative_to(self.root)
                return file.relative_to(self.root) if inside else file
        raise assertion_failure(f"there is no file {str(path)!r} in the project {self.root}")

    def run_request(
        self,
        file: Loadable,
        plan: Place | None,
        as_of: dt.date | str | None,
    ) -> RunRequest:
        """Return the request to run a job, a plan or a goal template."""
        __tracebackhide__ = True
        return RunRequest(
            job_file=None if isinstance(file, LoadedPlan) else self.file(file),
            resolved_job=file.job if isinstance(file, LoadedPlan) else None,
            plan_file=None if plan is None else self.file(plan),
            as_of=read_instant(as_of, "as_of"),
        )

    @contextlib.contextmanager
    def as_working_folder(self) -> Generator[None]:
        """Work in the project's folder, as its commands do; what is wrong with its documents fails
        the test.
        """
        __tracebackhide__ = True
        with contextlib.chdir(self.root), errors_as_failures():
            yield


@dataclass(frozen=True, eq=False, repr=False)
class PlanView:
    """A valid plan, bound to its goal."""

    plan: Plan
    """As a run follows it: with the goal's inputs and gates."""
    goal: Goal
    signatures: dict[str, ToolSignature] = field(default_factory=dict[str, ToolSignature])
    """Of the tools that the goal allows."""
    warnings: tuple[Diagnostic, ...] = ()

    @cached_property
    def graph(self) -> PlanGraph:
        """Who waits for whom."""
        return PlanGraph.of(self.plan)

    @property
    def name(self) -> str:
        """Of the job."""
        return self.goal.job

    @property
    def steps(self) -> tuple[str, ...]:
        """Ids of the steps, in the plan's order."""
        return tuple(step.id for step in self.plan.steps)

    @property
    def tools(self) -> frozenset[str]:
        """Names of the tools that the steps call."""
        return frozenset(step.tool for step in self.plan.steps)

    @property
    def gates(self) -> tuple[str, ...]:
        """Ids of the gates, the goal template's included."""
        return tuple(gate.id for gate in self.plan.gates)

    @property
    def waves(self) -> tuple[tuple[str, ...], ...]:
        """Ids of the steps, wave by wave."""
        return tuple(tuple(wave) for wave in self.graph.waves)

    @property
    def width(self) -> int:
        """How many steps the widest wave has."""
        return self.graph.width

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """Pairs of a step and one that waits for it."""
        return tuple(self.graph.edges)

    def step(self, step_id: str) -> Step:
        """Return a step."""
        __tracebackhide__ = True
        return self.graph.steps[self._known(step_id)]

    def depends(self, step_id: str, *, on: str, directly: bool = False) -> Claim:
        """Return whether a step waits for another one: at any distance, or `directly`."""
        __tracebackhide__ = True
        step, wanted = self._known(step_id), self._known(on)
        path = self._path(step, wanted)
        waits_for = ", ".join(map(repr, self.graph.dependencies[step])) or "no step"
        if path is None:
            return Claim(False, f"{step!r} does not depend on {wanted!r}: it waits for {waits_for}")
        shown = " → ".join(path)
        if directly and len(path) > 2:
            return Claim(False, f"{step!r} depends on {wanted!r} only through others: {shown}")
        return Claim(True, f"{step!r} depends on {wanted!r}: {shown}")

    def __repr__(self) -> str:
        shape = " | ".join(", ".join(wave) for wave in self.waves)
        return f"<plan {self.name!r}: {shape}>"

    def _known(self, step_id: str) -> StepId:
        __tracebackhide__ = True
        step = StepId(step_id)
        if step not in self.graph.steps:
            raise unknown_name(step_id, self.steps, what="step", of=f"plan {self.name!r}")
        return step

    def _path(self, step: StepId, wanted: StepId) -> list[StepId] | None:
        """Return a shortest path from a step that is waited for to the one that waits."""
        return None if step == wanted else self.graph.digraph.path(wanted, step)


@dataclass(frozen=True, slots=True, repr=False)
class PlanLoader:
    """Reads, binds and checks a plan."""

    project: ProjectUnderTest

    def __repr__(self) -> str:
        return f"<loads plans of {self.project.root}>"

    def __call__(self, file: Loadable, *, plan: Place | None = None) -> PlanView:
        """Return the plan of a job, a plan or a goal template; an invalid one fails the test.

        Args:
            file: The job, the plan or the goal template, by its file or as `ww` has it.
            plan: A plan in place of the job's own.
        """
        __tracebackhide__ = True
        with self.project.as_working_folder():
            order, tools = read_tested_plan(self.project, file, plan)
            draft = order.require_draft()
            bound = bind_plan(draft.plan, order.goal)
            diagnostics = draft.origin.place(check(bound, order.goal, tools))
            if error_diagnostics(diagnostics):
                raise PlanError(diagnostics, draft.origin.document.source)
        return PlanView(bound, order.goal, tools, diagnostics)


@dataclass(frozen=True, slots=True, repr=False)
class DryRunLoader:
    """Works out what a run would do."""

    project: ProjectUnderTest

    def __repr__(self) -> str:
        return f"<dry-runs plans of {self.project.root}>"

    def __call__(
        self,
        file: Loadable,
        *,
        plan: Place | None = None,
        now: dt.date | str | None = None,
    ) -> DryRun:
        """Return the dry run of a job, a plan or a goal template; an invalid plan fails the test.

        Args:
            file: The job, the plan or the goal template, by its file or as `ww` has it.
            plan: A plan in place of the job's own.
            now: What `now()` gives, in UTC where it has no offset; the job's instant or else the present where absent.
        """
        __tracebackhide__ = True
        with self.project.as_working_folder():
            order, tools = read_tested_plan(self.project, file, plan)
            instant = read_instant(now, "now") or order.goal.as_of or utc_now()
            return forecast(order, tools, now=instant)


def read_instant(given: dt.date | str | None, name: str) -> dt.datetime | None:
    """Return the instant that a test names: one without an offset is in UTC on every machine."""
    return parse_instant(None if given is None else str(given), name)


def read_tested_plan(
    project: ProjectUnderTest, file: Loadable, plan: Place | None
) -> tuple[ResolvedJob, dict[str, ToolSignature]]:
    """Return what a file comes to, and the tools that its plan is checked against."""
    __tracebackhide__ = True
    settings = file.settings if isinstance(file, LoadedPlan) else project.settings()
    request = project.run_request(file, plan, None)
    order = with_kept_plan(requested_job(request, settings), settings)
    if order.draft is None:
        return order, tools_of_goal(order.goal, settings).signatures
    return order, signatures_to_check(order.draft.plan, order.goal, settings)


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """Something that holds or not, and why; `assert` shows the reason."""

    holds: bool
    why: str

    def __bool__(self) -> bool:
        """Whether it holds."""
        return self.holds

    def __repr__(self) -> str:
        return self.why


class ExplainedText(str):
    """A word with the reason for it."""

    __slots__ = ("why",)

    why: str

    def __new__(cls, word: str, why: str) -> Self:
        """Return the word, with its reason."""
        explained = super().__new__(cls, word)
        explained.why = why
        return explained


class ExplainedNumber(float):
    """A number with the reason for it."""

    why: str

    def __new__(cls, number: float, why: str) -> Self:
        """Return the number, with its reason."""
        explained = super().__new__(cls, number)
        explained.why = why
        return explained


def assertion_failure(message: str) -> BaseException:
    """Return what fails the test with a message alone: what is wrong lies in a plan, not in the
    lines that led here.
    """
    return pytest.fail.Exception(message, pytrace=False)


def unknown_name(name: str, known: Collection[str], *, what: str, of: str) -> BaseException:
    """Return what fails the test because it names something that is not there; the traceback shows
    where it does.
    """
    hint = suggest_name(name, known, what=f"{what}s") or f"it has no {what}s"
    return pytest.fail.Exception(f"{of} has no {what} {name!r}; {hint}")


def comparison_reasons(*sides: object) -> list[str]:
    """Return the reasons that the sides of a comparison carry."""
    return [side.why for side in sides if isinstance(side, ExplainedText | ExplainedNumber)]
