"""The way of a run, declared once: read this file to know what the engine does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavewright.engine.run.phases.execute_plan import Approve, ExecutePlan
from wavewright.engine.run.phases.make_plan import AcceptPlan, CheckPlan, MakePlan, RecheckPlan
from wavewright.engine.run.phases.open_run import GatherTools, OpenRun, ReadJob
from wavewright.engine.run.phases.review_run import (
    BuildPackage,
    PublishPackage,
    Recover,
    ReviewRun,
    TakeFeedback,
    goal_not_achieved,
    has_feedback,
)
from wavewright.engine.run.phases.run_targets import RunTargets, has_targets
from wavewright.engine.run.pipeline.context import PlannedContext, Ports, RunContext, RunRequest
from wavewright.engine.run.pipeline.pipeline import Pipeline

if TYPE_CHECKING:
    from typing_extensions import TypeIs


def has_no_plan(context: RunContext) -> bool:
    """Whether the run follows no plan yet."""
    return context.plan is None


def has_plan(context: RunContext) -> TypeIs[PlannedContext]:
    """Whether the run follows a plan already: it was resumed."""
    return isinstance(context, PlannedContext)


def has_candidate(context: RunContext) -> bool:
    """Whether a plan waits to be checked: the first one, or a patched one."""
    return context.candidate is not None


def default_pipeline(ports: Ports) -> Pipeline[RunRequest, RunContext]:
    """Return the pipeline of a run; `recover` branches to `check_plan` with a patched plan."""
    return (
        Pipeline.builder("run")
        .phase(ReadJob(ports))
        .maybe(has_targets, RunTargets(ports, default_pipeline))
        .phase(GatherTools(ports))
        .phase(OpenRun(ports))
        .maybe(has_plan, RecheckPlan(ports))
        .maybe(has_feedback, TakeFeedback(ports))
        .maybe(has_no_plan, MakePlan(ports))
        .when(has_candidate, [CheckPlan(ports), Approve(ports)])
        .phase(AcceptPlan(ports))
        .phase(ExecutePlan(ports))
        .phase(ReviewRun(ports))
        .maybe(goal_not_achieved, Recover(ports))
        .phase(BuildPackage(ports))
        .phase(PublishPackage(ports))
        .build()
    )
