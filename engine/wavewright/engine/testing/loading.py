"""Plans and dry runs, loaded by the name of their file: what the fixtures `plan` and `dry_run` are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavewright.engine.testing.plan_view import PlanView
from wavewright.engine.testing.project import ProjectUnderTest

if TYPE_CHECKING:
    import datetime as dt

    from wavewright.engine.dry_run import DryRun
    from wavewright.engine.jobs import ResolvedJob
    from wavewright.planner.signatures import ToolSignature


@dataclass(frozen=True, slots=True, repr=False)
class PlanLoader:
    """Reads, binds and checks a plan."""

    project: ProjectUnderTest

    def __repr__(self) -> str:
        return f"<loads plans of {self.project.root}>"

    def __call__(
        self, file: str | os.PathLike[str], *, plan: str | os.PathLike[str] | None = None
    ) -> PlanView:
        """Return the plan of a job, a plan or a goal template; an unsound one fails the test.

        Args:
            file: The job, the plan or the goal template.
            plan: A plan in place of the job's own.
        """
        from wavewright.engine.job_faults import no_plan_error
        from wavewright.planner.binding import bind_plan
        from wavewright.planner.checker import check
        from wavewright.planner.diagnostics import PlanError

        __tracebackhide__ = True
        with self.project.as_working_folder():
            order, tools = read_tested_plan(self.project, file, plan)
            if order.draft is None:
                raise no_plan_error(order.goal, order.source)
            bound = bind_plan(order.draft.plan, order.goal, tools)
            found = order.draft.origin.place(check(bound, order.goal, tools))
            if any(diagnostic.severity == "error" for diagnostic in found):
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
        file: str | os.PathLike[str],
        *,
        plan: str | os.PathLike[str] | None = None,
        now: dt.datetime | None = None,
    ) -> DryRun:
        """Return the dry run of a job, a plan or a goal template; an unsound plan fails the test.

        Args:
            file: The job, the plan or the goal template.
            plan: A plan in place of the job's own.
            now: What `now()` gives; the job's instant or else the present where absent.
        """
        from wavewright.engine.dry_run import forecast
        from wavewright.engine.session import utc_now

        __tracebackhide__ = True
        with self.project.as_working_folder():
            order, tools = read_tested_plan(self.project, file, plan)
            return forecast(order, tools, now=now or order.goal.as_of or utc_now())


def read_tested_plan(
    project: ProjectUnderTest, file: str | os.PathLike[str], plan: str | os.PathLike[str] | None
) -> tuple[ResolvedJob, dict[str, ToolSignature]]:
    """Return what a file comes to, and the tools that its plan is checked against."""
    from wavewright.engine.jobs import resolve_job_file
    from wavewright.engine.toolbox import signatures_to_check, tools_of_goal

    __tracebackhide__ = True
    settings = project.settings()
    order = resolve_job_file(project.file(file), None if plan is None else project.file(plan), settings)
    if order.draft is None:
        return order, tools_of_goal(order.goal, settings).signatures
    return order, signatures_to_check(order.draft.plan, order.goal, settings)
