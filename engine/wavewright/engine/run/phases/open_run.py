"""The beginning of a run: its job is read, its tools are imported, and it is opened in the journal."""

from __future__ import annotations

import datetime as dt
import platform
from dataclasses import dataclass, replace

from wavewright.config.settings import Settings
from wavewright.engine.run.jobs.inline import resolve_inline_job
from wavewright.engine.run.jobs.resolving import ResolvedJob, resolve_job_file
from wavewright.engine.run.phases.execute_plan import steps_to_repeat
from wavewright.engine.run.pipeline.context import (
    PlannedContext,
    Ports,
    RetryRequest,
    RunContext,
    RunRequest,
    extended,
    goal_with_feedback,
)
from wavewright.engine.run.pipeline.phase import PhaseResult, proceed
from wavewright.engine.run.pipeline.pipeline import PipelineError
from wavewright.engine.run.pipeline.services import (
    draft_note,
    pending_draft,
    record,
    record_resumed,
)
from wavewright.engine.run.pipeline.target_root import TargetsContext
from wavewright.engine.run.pipeline.target_waves import TargetWaves, target_waves
from wavewright.engine.run.pipeline.version import __version__
from wavewright.engine.run.project.tools import tools_of_goal, tools_with_redacted_outputs
from wavewright.executor.events.state import RunState, fold
from wavewright.executor.events.types import RetryOf, RunStarted
from wavewright.executor.run.emissions import taken_emissions
from wavewright.executor.store.journal import new_run_id
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Plan
from wavewright.planner.types import RunId
from wavewright.tools.functions.registry import Registry


@dataclass(frozen=True, slots=True)
class ReadJob:
    """Resolve the job and its goal template to a goal; a resumed run has its own in the journal."""

    ports: Ports
    name: str = "read_job"

    async def run(self, request: RunRequest) -> PhaseResult[RunContext]:
        """Read the job of a new run, or the events of one that is resumed."""
        settings = self.ports.settings
        if request.run is not None:
            # Opened before it is read: what another process still appends would be missing here.
            await self.ports.journal.open_run(request.run)
            state = fold(await self.ports.journal.load(request.run))
            if state.started is not None:
                return proceed(await self._resumed(request, state, state.started))
        if request.retry is not None:
            return proceed(await self._retried(request, request.retry))
        job = _resolved_job(request, settings)
        goal = _as_requested(job.goal, request, settings)
        if job.targets is not None:
            waves = TargetWaves(job.targets, job.text)
            return proceed(TargetsContext(request, goal, draft=job.draft, waves=waves, new_job=job))
        return proceed(RunContext(request, goal, draft=job.draft))

    async def _retried(self, request: RunRequest, retried: RetryRequest) -> RunContext:
        """Return the context of a new run that repeats another one.

        Raises:
            PipelineError: that run has not begun.
        """
        donor = fold(await self.ports.journal.load(retried.run))
        if donor.started is None:
            raise PipelineError(
                f"run {retried.run!r} has not begun; a run that has ended can be repeated"
            )
        goal = Goal.model_validate(donor.started.goal)
        goal = goal.model_copy(update={"inputs": {**goal.inputs, **retried.inputs}})
        draft = pending_draft(donor)
        earlier = donor.started.retry
        retry = RetryOf(
            run=retried.run,
            origin=retried.run if earlier is None else earlier.origin,
            anew=steps_to_repeat(donor, retried.start),
            by=request.by,
        )
        return RunContext(
            request,
            _as_requested(goal, request, self.ports.settings),
            # Saved, so that no planner replaces the plan that is repeated.
            draft=replace(draft, is_saved=True) if draft is not None else None,
            donor=donor,
            retry=retry,
        )

    async def _resumed(
        self, request: RunRequest, state: RunState, started: RunStarted
    ) -> RunContext:
        """Return the context of a run as it follows from its events."""
        retry = started.retry
        goal = goal_with_feedback(Goal.model_validate(started.goal), state)
        context = RunContext(
            request,
            _as_requested(goal, request, self.ports.settings),
            state=state,
            donor=None if retry is None else fold(await self.ports.journal.load(retry.run)),
            retry=retry,
        )
        if (waves := target_waves(state)) is not None:
            context = extended(TargetsContext, context, waves=waves, new_job=None)
        if state.plan is None:
            return replace(context, draft=pending_draft(state))
        return extended(PlannedContext, context, plan=Plan.model_validate(state.plan))


def _resolved_job(request: RunRequest, settings: Settings) -> ResolvedJob:
    if request.resolved_job is not None:
        return request.resolved_job
    if request.job is not None:
        return resolve_inline_job(request.job, settings)
    if request.job_file is not None:
        return resolve_job_file(request.job_file, request.plan_file, settings, request.inputs)
    raise PipelineError("a request for a new run names no job; give it `job_file` or `job`")


def _as_requested(goal: Goal, request: RunRequest, settings: Settings) -> Goal:
    """Return the goal with the overrides of the request, or else of the settings."""
    limits = goal.limits
    if concurrency := request.concurrency or settings.concurrency:
        limits = limits.model_copy(update={"concurrency": concurrency})
    return goal.model_copy(
        update={
            "limits": limits,
            "schedule": request.schedule or settings.schedule or goal.schedule,
            "as_of": request.as_of or goal.as_of,
        }
    )


@dataclass(frozen=True, slots=True)
class GatherTools:
    """Find the tools that the goal allows, in the project and in the packs."""

    ports: Ports
    name: str = "gather_tools"

    async def run(self, context: RunContext) -> PhaseResult[RunContext]:
        """Import the tools; the checker reports those that do not exist."""
        services = self.ports.services.for_goal(context.goal)
        tools = tools_of_goal(context.goal, self.ports.settings, services)
        taken = taken_emissions(context.state)
        for runtime in (services.runtime, self.ports.runtime):
            if runtime is not None:
                tools = Registry(runtime.routed(tool, context.goal) for tool in tools.values())
                if context.state.run is not None and taken:
                    runtime.resume(context.state.run, taken)
        return proceed(
            replace(context, tools=tools_with_redacted_outputs(tools, self.ports.settings))
        )


@dataclass(frozen=True, slots=True)
class OpenRun:
    """Open the run in the journal, so that no other process works on it."""

    ports: Ports
    name: str = "open_run"

    async def run(self, context: RunContext) -> PhaseResult[RunContext]:
        """Journal that the run has started, with its user-supplied plan if there is one, or that it
        is resumed.
        """
        if context.state.started is not None:
            self._limit_spending(context, context.run)
            return proceed(await record_resumed(self.ports, context))
        now = self.ports.clock()
        run = context.request.run or new_run_id(now.timestamp())
        self._limit_spending(context, run)
        if context.request.run is None:
            await self.ports.journal.open_run(run)
        started = RunStarted(
            run=run,
            at=now.timestamp(),
            job=context.goal.title,
            goal=context.goal.model_dump(mode="json", by_alias=True),
            now=_run_instant(context, now),
            versions={
                "wavewright": __version__,
                "python": platform.python_version(),
                **{
                    f"tool {name}": tool.signature.version
                    for name, tool in sorted(context.tools.items())
                },
            },
            tool_code={
                name: tool.code for name, tool in sorted(context.tools.items()) if tool.code
            },
            retry=context.retry,
        )
        # One append: a run that is stopped before its plan is accepted can still be resumed with
        # that plan.
        given = () if context.draft is None else (draft_note(context.draft, now.timestamp()),)
        return proceed(await record(self.ports, context, started, *given, run=run))

    def _limit_spending(self, context: RunContext, run: RunId) -> None:
        """Limit the cost of models to the goal's own budget."""
        if self.ports.services.budget_store is not None:
            self.ports.services.budget_store.limit_run(run, context.goal.limits.budget)


def _run_instant(context: RunContext, now: dt.datetime) -> float:
    """Return the instant that `now()` returns; a retry uses that of the run it repeats."""
    if (
        context.request.as_of is None
        and context.donor is not None
        and context.donor.started is not None
    ):
        return context.donor.started.now
    return (context.goal.as_of or now).timestamp()
