"""The acceptance of a checked plan: from here on the run follows it."""

from __future__ import annotations

from wavewright.engine.run.context import PlannedContext, RunContext, extended
from wavewright.engine.run.permits import permits_notes
from wavewright.engine.run.ports import Attempt
from wavewright.engine.run.recording import diagnostics_json, record
from wavewright.executor.events.types import PlanAccepted
from wavewright.executor.run.rules import kept_items
from wavewright.planner.language.hashing import plan_hash


async def accept_plan(context: RunContext, attempt: Attempt) -> PlannedContext:
    """Journal the candidate, its hash and the rung that made it; a resumed run without one keeps
    its plan.
    """
    if context.candidate is None:
        assert isinstance(context, PlannedContext), "a run without a plan has a candidate"
        return context
    plan, patch = context.candidate.plan, context.candidate.patch
    rung, round_number = "given", context.state.round
    if patch is not None:
        rung, round_number = "patch", round_number + 1
    elif context.draft is not None:
        rung = context.draft.rung
    accepted = PlanAccepted(
        at=attempt.now(),
        plan=plan.model_dump(mode="json", by_alias=True, exclude_unset=True),
        plan_hash=plan_hash(plan),
        rung=rung,
        round=round_number,
        warnings=tuple(diagnostics_json(context.diagnostics)),
        patch=None if patch is None else patch.model_dump(mode="json"),
    )
    kept = kept_items(plan, context.state, accepted.at)
    notes = permits_notes(context, accepted.at)
    context = await record(attempt, context, accepted, *notes, *kept)
    return extended(PlannedContext, context, plan=plan, candidate=None, draft=None)
