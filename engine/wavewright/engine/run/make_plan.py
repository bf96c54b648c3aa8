"""The plan of a new run: the one that is given, one that was kept, or one that the planner makes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from wavewright.config import Source
from wavewright.engine.run.context import CandidatePlan, RunContext
from wavewright.engine.run.endings import record_end
from wavewright.engine.run.jobs.documents import no_plan_error
from wavewright.engine.run.ports import Attempt, Means, People
from wavewright.engine.run.recording import (
    KEPT_PLAN_TOPIC,
    draft_note,
    record,
    record_note,
)
from wavewright.planner import PlanError
from wavewright.planner.checks.checker import refuse_faulty_goal
from wavewright.planner.plans.binding import bind_plan

if TYPE_CHECKING:
    from wavewright.engine.run.jobs.goal_in_words import KeptPlan


async def make_plan(
    context: RunContext, attempt: Attempt, means: Means, people: People
) -> RunContext:
    """Take the job's plan, or else have the planner make one down its ladder, and bind it to the
    goal: inputs, the goal's gates and caps, what terminal steps are given.

    Raises:
        RunHalted: there is no plan, or a person must answer first.
        DocumentError: the job has no plan, and no model could make one.
        PlanError: the goal has errors that no plan can mend, or no rung of the planner's ladder
            gave a valid plan.
    """
    kept = _find_kept_plan(context, means)
    if kept is not None and kept.is_exact:
        # The same goal was planned before, and a person kept the plan: no model is asked.
        context = await record_note(attempt, context, KEPT_PLAN_TOPIC, kept.note(None))
        context = await record(attempt, context, draft_note(kept.draft, attempt.now()))
        context = replace(context, draft=kept.draft)
    elif _asks_planner(context, means):
        # Imported here: a run whose plan is given loads no planner.
        from wavewright.engine.run.ask_planner import Planning

        try:
            refuse_faulty_goal(context.goal, context.signatures)
        except PlanError:
            await record_end(attempt, context, "failed", "the goal template has errors")
            raise

        context = await Planning(attempt, means, people).plan(context, kept)
    if context.draft is None:
        error = no_plan_error(context.goal, Source(str(context.request.job_file), ""))
        await record_end(attempt, context, "failed", "there is no plan")
        raise error
    candidate = bind_plan(context.draft.plan, context.goal)
    return replace(context, candidate=CandidatePlan(candidate))


def _find_kept_plan(context: RunContext, means: Means) -> KeptPlan | None:
    """Return a kept plan for the goal, unless a plan is given or tools are replaced, as in a
    replay.
    """
    if means.runtime is not None:
        return None
    if context.draft is not None and not _asks_planner(context, means):
        return None
    # Imported here: a run whose plan is given looks for no other.
    from wavewright.engine.run.jobs.goal_in_words import find_kept_plan

    return find_kept_plan(context.goal, means.settings, context.signatures)


def _asks_planner(context: RunContext, means: Means) -> bool:
    """Whether there is a model, and no plan that it may not replace: given, saved, or planned
    before a resume.
    """
    may_replace = context.draft is None or context.draft.is_fallback
    return means.services.models is not None and may_replace
