"""The beginning of a run: its job is read, or what the journal has of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wavewright.config import Settings
from wavewright.engine.run.context import (
    PlannedContext,
    RetryRequest,
    RunContext,
    RunRequest,
    TargetsContext,
    extended,
    goal_with_feedback,
)
from wavewright.engine.run.decisions.approvals import goal_with_answers
from wavewright.engine.run.jobs.resolving import ResolvedJob, resolve_job_file
from wavewright.engine.run.permits import permits_beside, permits_of_run, within_permits
from wavewright.engine.run.pipeline.phase import PipelineError
from wavewright.engine.run.ports import Attempt
from wavewright.engine.run.recording import pending_draft
from wavewright.engine.run.target_waves import TargetWaves, target_waves
from wavewright.executor import RunStarted, RunState, fold
from wavewright.executor.events.types import RetryOf
from wavewright.planner import Goal, JsonObject, Plan, PlanGraph, StepId, as_object
from wavewright.planner.plans.goal_resolution import rendered_goal
from wavewright.planner.plans.graph import superseded_before


async def read_job(request: RunRequest, attempt: Attempt, settings: Settings) -> RunContext:
    """Read the job of a new run, or the events of one that is resumed or repeated, and what it may
    do.
    """
    context = await _read_context(request, attempt, settings)
    if context.state.started is not None:
        # A resumed run keeps the permits that it began with, whatever the file says by now.
        return replace(context, permits=permits_of_run(context.state))
    inherited = None if context.donor is None else permits_of_run(context.donor)
    permits = request.permits or permits_beside(request) or inherited
    return replace(context, permits=permits, goal=within_permits(context.goal, permits))


async def _read_context(request: RunRequest, attempt: Attempt, settings: Settings) -> RunContext:
    if request.run is not None:
        # Opened before it is read: what another process still appends would be missing here.
        await attempt.journal.open_run(request.run)
        state = fold(await attempt.journal.load(request.run))
        if state.started is not None:
            # What was journaled is the run: the job's file may have changed since, and is not read.
            return await _resumed(request, state, state.started, attempt, settings)
    if request.retry is not None:
        return await _retried(request, request.retry, attempt, settings)
    job = _resolved_job(request, settings)
    goal = as_requested(job.goal, request, settings)
    if job.targets is not None:
        waves = TargetWaves(job.targets, goal.written or goal.text)
        return TargetsContext(request, goal, draft=job.draft, waves=waves, new_job=job)
    return RunContext(request, goal, draft=job.draft)


async def _resumed(
    request: RunRequest,
    state: RunState,
    started: RunStarted,
    attempt: Attempt,
    settings: Settings,
) -> RunContext:
    """Return the context of a run as it follows from its events."""
    retry = started.retry
    goal = goal_with_answers(goal_with_feedback(state), state)
    context = RunContext(request, as_requested(goal, request, settings), state=state, retry=retry)
    if retry is not None:
        # What the run before has done is taken over by this attempt as well.
        donor = fold(await attempt.journal.load(retry.run))
        context = await _with_donors(context, donor, attempt)
    waves = target_waves(state)
    if waves is not None:
        context = extended(TargetsContext, context, waves=waves, new_job=None)
    if state.plan is None:
        # It was stopped before its plan was accepted; a draft that was made is not paid for again.
        return replace(context, draft=pending_draft(state))
    return extended(PlannedContext, context, plan=Plan.model_validate(state.plan))


async def _retried(
    request: RunRequest, retried: RetryRequest, attempt: Attempt, settings: Settings
) -> RunContext:
    """Return the context of a new run that repeats another one.

    Raises:
        PipelineError: that run has not begun.
    """
    # Imported here: few runs repeat others.
    from wavewright.engine.run.repeated_runs import first_run_of

    donor = fold(await attempt.journal.load(retried.run))
    if donor.started is None:
        raise PipelineError(
            f"run {retried.run!r} has not begun; a run that has ended can be repeated"
        )
    goal = goal_with_answers(Goal.model_validate(donor.started.goal), donor)
    goal = _with_inputs(goal, retried.inputs, donor)
    draft = pending_draft(donor)
    if draft is not None:
        # Saved, so that no planner replaces the plan that is repeated.
        draft = replace(draft, is_saved=True)
    retry = RetryOf(
        run=retried.run,
        # Keys of writes are those of the first run of the chain, so that servers know the calls.
        origin=first_run_of(donor),
        anew=steps_to_repeat(donor, retried.start),
        again=steps_called_again(donor, retried.again),
        only_failed=retried.only_failed,
        by=request.by,
    )
    context = RunContext(request, as_requested(goal, request, settings), draft=draft, retry=retry)
    return await _with_donors(context, donor, attempt)


async def _with_donors(context: RunContext, donor: RunState, attempt: Attempt) -> RunContext:
    """Return the context of a retry with the runs whose results it takes over."""
    # As above.
    from wavewright.engine.run.repeated_runs import other_retries, runs_repeated_by

    before = await runs_repeated_by(donor, attempt.journal)
    others = await other_retries(donor, before, attempt.journal, own=context.state.run)
    return replace(context, donor=donor, donors_before=before, other_retries=others)


def _with_inputs(goal: Goal, changed: JsonObject, donor: RunState) -> Goal:
    """Return the goal of a run with other inputs, which its text reads: that of its job or template,
    or of a plan that is its own goal.
    """
    inputs, text = {**goal.inputs, **changed}, goal.text
    of_plan = as_object(donor.plan).get("goal")
    written = goal.written or (of_plan if isinstance(of_plan, str) else "")
    if rendered_goal(written, goal.inputs, goal.as_of) == text:
        text = rendered_goal(written, inputs, goal.as_of) or text
    return goal.model_copy(update={"inputs": inputs, "text": text})


def steps_to_repeat(donor: RunState, start: StepId | None) -> tuple[StepId, ...]:
    """Return a step of the run's plan and all that depend on it, in the plan's order; empty if
    `start` is None. Of a sub-plan or a loop these are all of its steps, and of a step that a patch
    replaced also those in its place.
    """
    if start is None or donor.plan is None:
        return ()
    plan = Plan.model_validate(donor.plan)
    graph = PlanGraph.of(plan)
    repeated = set[StepId]()
    for name in _steps_of(plan, start):
        repeated |= {name, *graph.descendants(name)}
    return tuple(step.id for step in plan.steps if step.id in repeated)


def steps_called_again(donor: RunState, names: Sequence[StepId]) -> tuple[StepId, ...]:
    """Return the steps that are named, and those that patches put in their place; of a sub-plan or
    a loop these are all of its steps.
    """
    if donor.plan is None:
        return tuple(names)
    plan = Plan.model_validate(donor.plan)
    again = set[StepId]().union(*(_steps_of(plan, name) for name in names))
    return tuple(step.id for step in plan.steps if step.id in again)


def _steps_of(plan: Plan, name: StepId) -> set[StepId]:
    # A sub-plan stands in the plan as its steps, whose ids begin with that of the sub-plan.
    named = {step.id for step in plan.steps if step.id == name or step.id.startswith(f"{name}.")}
    # What a patch put in the place of a step is that step again; see "Replaced by a patch" in
    # docs/explanation/semantics.md.
    lines = superseded_before(plan)
    return named | {step for step, older in lines.items() if not named.isdisjoint(older)}


def requested_job(request: RunRequest, settings: Settings) -> ResolvedJob:
    """Return the job of a new run with the overrides of its request, or else of the settings.

    Raises:
        DocumentError, PlanError: the job or its template is faulty.
    """
    job = _resolved_job(request, settings)
    return replace(job, goal=as_requested(job.goal, request, settings))


def _resolved_job(request: RunRequest, settings: Settings) -> ResolvedJob:
    if request.resolved_job is not None:
        return request.resolved_job
    if request.job is not None:
        # Loaded for a job that came by a message: others stand in a file.
        from wavewright.engine.run.jobs.inline import resolve_inline_job

        return resolve_inline_job(request.job, settings)
    if request.job_file is not None:
        return resolve_job_file(request.job_file, request.plan_file, settings, request.inputs)
    raise PipelineError("a request for a new run names no job; give it `job_file` or `job`")


def as_requested(goal: Goal, request: RunRequest, settings: Settings) -> Goal:
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
