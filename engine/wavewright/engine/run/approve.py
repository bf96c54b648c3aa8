"""The approval of a patch by a person, and the acceptance of a plan: from there on the run follows it.

Steps are approved when they are ready (`decisions/step_questions.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from wavewright.config import Settings, known_secrets_redactor
from wavewright.engine.run.context import CandidatePlan, PlannedContext, RunContext, extended
from wavewright.engine.run.decisions.approvals import (
    APPROVAL_USED,
    APPROVAL_WANTED,
    GivenAnswer,
    approval_binding,
    has_expired,
    matches_binding,
    open_question,
    recorded_answer,
    used_answer,
    with_nonce,
)
from wavewright.engine.run.decisions.shown_calls import CallDescriptions
from wavewright.engine.run.endings import patch_dropped, run_stopped, run_waits
from wavewright.engine.run.permits import needs_beyond, permits_notes, with_permits_for
from wavewright.engine.run.ports import (
    ApprovalRequest,
    Attempt,
    People,
    RequestedCall,
    ask_approver,
)
from wavewright.engine.run.recording import diagnostics_json, record, record_note
from wavewright.executor import Noted, PlanAccepted
from wavewright.executor.run.rules import kept_items
from wavewright.planner import (
    Goal,
    JsonObject,
    Plan,
    Step,
    StepId,
    ToolSignatures,
    plan_hash,
)
from wavewright.planner.diagnostics.rendering import printable
from wavewright.planner.language.signatures import asks_approval
from wavewright.reviewer.recovery.feedback import is_feedback
from wavewright.reviewer.review.results import run_instant


async def approve(
    context: RunContext, attempt: Attempt, settings: Settings, people: People
) -> RunContext:
    """Ask a person where a patch brings a new side effect, or a step that needs approval.

    The answer is journaled before the patch is followed.

    Raises:
        PatchDropped: the patch is refused.
        RunHalted: nobody has answered yet.
    """
    candidate = context.candidate
    if candidate is None or candidate.patch is None:
        return context
    steps = steps_needing_approval(candidate, context.plan, context.goal, context.signatures)
    beyond = needs_beyond(
        context.permits, candidate.plan, context.goal, context.signatures, settings
    )
    needs = approval_reasons(steps, beyond, context.goal)
    if not needs:
        return context
    text, calls = _approval_text(context, candidate.plan, tuple(steps), settings)
    binding = approval_binding(context.run, candidate.plan, tuple(steps))
    request = ApprovalRequest("patch", text, needs, binding, calls)
    # An answer may have come while the run was interrupted: then nobody is asked again.
    request_note = _pending_request(context, request, attempt.now())
    answer = None if request_note is None else recorded_answer(context.state, request_note)
    if answer is None:
        with attempt.cancellation.scope() as scope:
            approval = await ask_approver(people.approver, request)
            answer = None if approval is None else GivenAnswer.of_approval(approval)
        if scope.cancelled_caught:
            raise await run_stopped(attempt, context)
    about: JsonObject = {"subject": request.subject, "needs": [*request.needs]}
    if answer is None:
        if request_note is None:
            # Journaled, so that it can be answered later.
            body: JsonObject = {
                **about,
                "text": request.text,
                "steps": len(candidate.plan.steps),
                "binding": with_nonce(request.binding),
            }
            context = await record_note(attempt, context, APPROVAL_WANTED, body)
        raise await run_waits(attempt, context, f"a person must agree: {'; '.join(needs)}")
    context = await record_note(attempt, context, APPROVAL_USED, used_answer(about, answer))
    if not answer.is_approval:
        # What the run has done so far is packaged without the patch.
        context = replace(context, candidate=None)
        raise patch_dropped(context, answer.reason or "the recovery patch was not approved")
    if beyond:
        # The person was shown what the patch needs more, and has agreed to it.
        return with_permits_for(context, candidate.plan, settings)
    return context


async def accept_plan(context: RunContext, attempt: Attempt) -> PlannedContext:
    """Journal the candidate, its hash and the rung that made it; a resumed run without one keeps
    its plan.
    """
    if context.candidate is None:
        assert isinstance(context, PlannedContext), "a run without a plan has a candidate"
        return context
    plan, patch = context.candidate.plan, context.candidate.patch
    # A patch begins a round; how the first plan was made stays its rung.
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


def _pending_request(context: RunContext, request: ApprovalRequest, now: float) -> Noted | None:
    """Return the journaled request for exactly this approval, unless it has expired."""
    request_note = open_question(context.state)
    if request_note is None or has_expired(request_note, now):
        return None
    if not matches_binding(request_note.body.get("binding"), request.binding):
        return None
    return request_note


def steps_needing_approval(
    patched: CandidatePlan, before: Plan | None, goal: Goal, tools: ToolSignatures
) -> dict[StepId, str]:
    """Return the steps of a patched plan that a person must approve before it is followed, each with
    the reason.
    """
    known = {step.id for step in before.steps} if before is not None else set[StepId]()
    reasons: dict[StepId, str] = {}
    for step in patched.plan.steps:
        # Steps of the plan so far are approved when they are ready.
        if step.id in known or step.tool not in tools:
            continue
        if asks_approval(step, tools[step.tool]):
            reasons[step.id] = f"step {step.id!r} calls {step.tool!r}, which needs approval"
    for step_id in patched.side_effects:
        step = patched.plan.step(step_id)
        signature = tools[step.tool]
        effects = ", ".join(sorted(signature.effects - {"read"}))
        if step_id not in reasons and effects and not _is_repeated_read(step, before, goal, tools):
            reasons[step_id] = (
                f"the patch brings step {step_id!r}, which calls {signature.name!r} ({effects})"
            )
    return reasons


def approval_reasons(
    asked: Mapping[StepId, str], beyond: Iterable[str], goal: Goal
) -> tuple[str, ...]:
    """Return why a person is asked before a patch is followed; none where nobody is.

    Args:
        asked: Why its steps need approval.
        beyond: What it needs beyond the permits of the run.
        goal: Its author may have every patch wait.
    """
    reasons = [*asked.values()]
    if not goal.auto_approve and not asked:
        reasons.append("the goal lets no patch apply without a person's word")
    reasons += (f"the patch needs more than the permits: {entry}" for entry in beyond)
    return tuple(reasons)


def _is_repeated_read(step: Step, plan: Plan | None, goal: Goal, tools: ToolSignatures) -> bool:
    """Whether a step repeats a read of the plan, as a recipe of the goal or a validator says.

    Each parameter is the old one, comes from the recipe, or is the feedback on a package.
    """
    if plan is None or step.supersedes is None or tools[step.tool].writes:
        return False
    old = plan.step(step.supersedes)
    if (step.tool, step.for_each) != (old.tool, old.for_each):
        return False
    # The goal's author wrote its recipes, and feedback is an input like any other: no model has
    # chosen a parameter.
    allowed = [old.params, *(recipe.set_params for recipe in goal.recipes)]
    for name, value in step.params.items():
        is_known = any(name in params and params[name] == value for params in allowed)
        if not is_known and not is_feedback(name, value):
            return False
    return True


def _approval_text(
    context: RunContext, plan: Plan, asked: Collection[StepId], settings: Settings
) -> tuple[str, tuple[RequestedCall, ...]]:
    """Return the steps or changes as text, with the parameters of the steps that need approval, or
    of all new ones, and these calls.
    """
    if context.plan is not None:
        # Imported here: few runs are patched.
        from wavewright.planner import diff_plans

        lines = str(diff_plans(context.plan, plan, context.signatures)).split("\n")
    else:
        lines = [f"{step.id}: {step.tool}" for step in plan.steps]
    redactor = known_secrets_redactor(settings)
    calls = CallDescriptions(plan, context.state, run_instant(context.state), redactor)
    known = {step.id for step in context.plan.steps} if context.plan else set[StepId]()
    requested: list[RequestedCall] = []
    for step_id in asked or [step.id for step in plan.steps if step.id not in known]:
        lines += ["", *calls.lines(plan.step(step_id))]
        requested += calls.requested(plan.step(step_id))
    return "\n".join(printable(line) for line in lines), tuple(requested)
