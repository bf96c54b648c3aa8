"""Plans and dry runs, loaded by the name of their file: what the fixtures `plan` and `dry_run` are.

A *plan view* is always of a valid plan: an invalid one fails the test that loads it, with its diagnostics.
"""

from __future__ import annotations

import datetime as dt
import os
from dataclasses import dataclass, field
from functools import cached_property

from wavewright.engine.api.loaded_plan import LoadedPlan
from wavewright.engine.dry_run.forecast import DryRun, forecast
from wavewright.engine.jobs.errors import no_plan_error
from wavewright.engine.jobs.resolving import ResolvedJob, resolve_job_file
from wavewright.engine.pipeline.context import utc_now
from wavewright.engine.project.tools import signatures_to_check, tools_of_goal
from wavewright.engine.testing.claims import Claim, unknown_name
from wavewright.engine.testing.project import Loadable, ProjectUnderTest
from wavewright.planner.checks.checker import check
from wavewright.planner.diagnostics.diagnostic import Diagnostic, PlanError, error_diagnostics
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.types import StepId


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
        found = StepId(step_id)
        if found not in self.graph.steps:
            raise unknown_name(step_id, self.steps, what="step", of=f"plan {self.name!r}")
        return found

    def _path(self, step: StepId, wanted: StepId) -> list[StepId] | None:
        """Return a shortest path from a step that is waited for to the one that waits."""
        if step == wanted:
            return None
        import networkx as nx

        try:
            return nx.bidirectional_shortest_path(self.graph.digraph, wanted, step)
        except nx.NetworkXNoPath:
            return None


@dataclass(frozen=True, slots=True, repr=False)
class PlanLoader:
    """Reads, binds and checks a plan."""

    project: ProjectUnderTest

    def __repr__(self) -> str:
        return f"<loads plans of {self.project.root}>"

    def __call__(self, file: Loadable, *, plan: str | os.PathLike[str] | None = None) -> PlanView:
        """Return the plan of a job, a plan or a goal template; an invalid one fails the test.

        Args:
            file: The job, the plan or the goal template, by its file or as `ww` has it.
            plan: A plan in place of the job's own.
        """
        __tracebackhide__ = True
        with self.project.as_working_folder():
            order, tools = read_tested_plan(self.project, file, plan)
            if order.draft is None:
                raise no_plan_error(order.goal, order.source)
            bound = bind_plan(order.draft.plan, order.goal, tools)
            found = order.draft.origin.place(check(bound, order.goal, tools))
            if error_diagnostics(found):
                raise PlanError(found, order.draft.origin.document.source)
        return PlanView(bound, order.goal, tools, found)


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
        plan: str | os.PathLike[str] | None = None,
        now: dt.datetime | None = None,
    ) -> DryRun:
        """Return the dry run of a job, a plan or a goal template; an invalid plan fails the test.

        Args:
            file: The job, the plan or the goal template, by its file or as `ww` has it.
            plan: A plan in place of the job's own.
            now: What `now()` gives; the job's instant or else the present where absent.
        """
        __tracebackhide__ = True
        with self.project.as_working_folder():
            order, tools = read_tested_plan(self.project, file, plan)
            return forecast(order, tools, now=now or order.goal.as_of or utc_now())


def read_tested_plan(
    project: ProjectUnderTest, file: Loadable, plan: str | os.PathLike[str] | None
) -> tuple[ResolvedJob, dict[str, ToolSignature]]:
    """Return what a file comes to, and the tools that its plan is checked against."""
    __tracebackhide__ = True
    if isinstance(file, LoadedPlan):
        settings, order = file.settings, file.job
    else:
        settings = project.settings()
        order = resolve_job_file(project.file(file), None if plan is None else project.file(plan), settings)
    if order.draft is None:
        return order, tools_of_goal(order.goal, settings).signatures
    return order, signatures_to_check(order.draft.plan, order.goal, settings)
