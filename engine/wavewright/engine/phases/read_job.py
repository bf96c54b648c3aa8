"""What is asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wavewright.config.settings import Settings
from wavewright.engine.context import Ports, RetryRequest, RunContext, RunRequest
from wavewright.engine.feedback import goal_with_feedback
from wavewright.engine.inline_jobs import resolve_inline_job
from wavewright.engine.jobs import resolve_job_file
from wavewright.engine.pipeline import PhaseResult, proceed
from wavewright.engine.recording import pending_draft
from wavewright.engine.retrying import steps_to_repeat
from wavewright.executor.events import RetryOf
from wavewright.executor.state import RunState, fold
from wavewright.planner.goals import Goal
from wavewright.planner.models import Plan


@dataclass(frozen=True, slots=True)
class ReadJob:
    """Fold the job and its goal template into a goal; a resumed run has its own in the journal."""

    ports: Ports
    name: str = "read_job"

    async def run(self, context: RunContext) -> PhaseResult[RunContext]:
        """Read the job of a new run, or the events of one that is resumed."""
        request, settings = context.request, self.ports.settings
        if request.run is not None:
            # Opened before it is read: what another process still appends would be missing here.
            await self.ports.journal.open_run(request.run)
            if events := await self.ports.journal.load(request.run):
                return proceed(await self._resumed(context, fold(events)))
        if request.retry is not None:
            return proceed(await self._retried(context, request.retry))
        if request.resolved_job is not None:
            order = request.resolved_job
        elif request.job is not None:
            order = resolve_inline_job(request.job, settings)
        else:
            assert request.job_file is not None
            order = resolve_job_file(request.job_file, request.plan_file, settings, request.inputs)
        goal = _as_requested(order.goal, request, settings)
        with_targets = order if order.targets is not None else None
        return proceed(replace(context, goal=goal, draft=order.draft, resolved_job=with_targets))

    async def _retried(self, context: RunContext, request: RetryRequest) -> RunContext:
        """Return the context of a new run that repeats another one."""
        donor = fold(await self.ports.journal.load(request.run))
        assert donor.started is not None
        goal = Goal.model_validate(donor.started.goal)
        goal = goal.model_copy(update={"inputs": {**goal.inputs, **request.inputs}})
        draft = pending_draft(donor)
        earlier = donor.started.retry
        retry = RetryOf(
            run=request.run,
            origin=request.run if earlier is None else earlier.origin,
            anew=steps_to_repeat(donor, request.start),
        )
        return replace(
            context,
            goal=_as_requested(goal, context.request, self.ports.settings),
            # Whoever made the plan, it is this one that is tried again.
            draft=replace(draft, is_saved=True) if draft is not None else None,
            donor=donor,
            retry=retry,
        )

    async def _resumed(self, context: RunContext, state: RunState) -> RunContext:
        """Return the context of a run as its events tell it."""
        assert state.started is not None
        if (retry := state.started.retry) is not None:
            donor = fold(await self.ports.journal.load(retry.run))
            context = replace(context, donor=donor, retry=retry)
        goal = goal_with_feedback(Goal.model_validate(state.started.goal), state)
        goal = _as_requested(goal, context.request, self.ports.settings)
        if state.plan is None:
            return replace(context, state=state, goal=goal, draft=pending_draft(state))
        return replace(context, state=state, goal=goal, plan=Plan.model_validate(state.plan))


def _as_requested(goal: Goal, request: RunRequest, settings: Settings) -> Goal:
    """Return the goal with what the command line, or else the settings, say in place of what the files say."""
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
