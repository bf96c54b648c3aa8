"""The approval of a patch by a person; steps are approved when they are ready (`decisions/step_questions.py`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from wavewright.config.redaction import known_secrets_redactor
from wavewright.config.settings import Settings
from wavewright.engine.decisions.approvals import (
    APPROVAL_USED,
    APPROVAL_WANTED,
    APPROVE,
    CallDescriptions,
    approval_binding,
    has_expired,
    matches_binding,
    pending_approval,
    recorded_answer,
    with_nonce,
)
from wavewright.engine.pipeline.context import ApprovalRequest, CandidatePlan, Ports, RunContext
from wavewright.engine.pipeline.phase import PhaseResult, branch, halt, proceed
from wavewright.engine.pipeline.services import STOPPED_REASON, end_interrupted, record_note
from wavewright.executor.events.types import Noted
from wavewright.planner.diagnostics.rendering import printable
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.language.signatures import asks_approval
from wavewright.planner.types import JsonObject, StepId
from wavewright.reviewer.recovery.recipes import is_feedback
from wavewright.reviewer.review.by_code import run_instant


@dataclass(frozen=True, slots=True)
class Approve:
    """Ask a person where a patch brings a new side effect, or a step that needs approval."""

    ports: Ports
    name: str = "approve"

    async def run(self, context: RunContext) -> PhaseResult[RunContext]:
        """Proceed if no approval is needed or it is given; the answer is journaled."""
        if (candidate := context.candidate) is None or candidate.patch is None:
            return proceed(context)
        asked = _steps_needing_approval(context, candidate)
        needs = _approval_reasons(context, candidate, asked)
        if not needs:
            return proceed(context)
        text = _approval_text(context, candidate.plan, tuple(asked), self.ports.settings)
        binding = approval_binding(context.run, candidate.plan, tuple(asked))
        request = ApprovalRequest("patch", text, needs, binding)
        approved = self._recorded_answer(context, request)
        if approved is None:
            with self.ports.cancellation.scope() as scope:
                approved = await self.ports.approver.approve(request)
            if scope.cancelled_caught:
                return halt(await end_interrupted(self.ports, context, STOPPED_REASON), "interrupted")
        body: JsonObject = {"subject": request.subject, "needs": [*needs]}
        if approved is None:
            steps = len(candidate.plan.steps)
            return await self._wait_for_approval(context, {**body, "text": text, "steps": steps}, request)
        body["approved"] = approved
        context = await record_note(self.ports, context, APPROVAL_USED, body)
        if approved:
            return proceed(context)
        context = replace(context, candidate=None)
        return branch(context, "build_package", "the recovery patch was not approved")

    def _recorded_answer(self, context: RunContext, request: ApprovalRequest) -> bool | None:
        """Return the journaled answer to exactly this request."""
        wanted = self._pending_answer(context, request)
        answer = None if wanted is None else recorded_answer(context.state, wanted)
        return None if answer is None else answer == APPROVE

    def _pending_answer(self, context: RunContext, request: ApprovalRequest) -> Noted | None:
        """Return the journaled request for exactly this approval, unless it has expired."""
        wanted = pending_approval(context.state)
        if wanted is None or has_expired(wanted, self.ports.clock().timestamp()):
            return None
        return wanted if matches_binding(wanted.body.get("binding"), request.binding) else None

    async def _wait_for_approval(
        self, context: RunContext, body: JsonObject, request: ApprovalRequest
    ) -> PhaseResult[RunContext]:
        """Interrupt the run; the request is in the journal and can be answered later."""
        if self._pending_answer(context, request) is None:
            body = {**body, "binding": with_nonce(request.binding)}
            context = await record_note(self.ports, context, APPROVAL_WANTED, body)
        reason = "a person must agree: " + "; ".join(request.needs)
        return halt(await end_interrupted(self.ports, context, reason), reason)


def _steps_needing_approval(context: RunContext, candidate: CandidatePlan) -> dict[StepId, str]:
    """Return the steps that need approval, each with the reason."""
    known = {step.id for step in context.plan.steps} if context.plan else set[str]()
    asked = {
        step.id: f"step {step.id!r} calls {step.tool!r}, which needs approval"
        for step in candidate.plan.steps
        if step.id not in known
        and step.tool in context.tools
        and asks_approval(step, context.tools[step.tool].signature)
    }
    for step_id in candidate.side_effects:
        step = candidate.plan.step(step_id)
        signature = context.tools[step.tool].signature
        effects = ", ".join(sorted(signature.effects - {"read"}))
        if step_id not in asked and effects and not _is_repeated_read(step, context):
            asked[step_id] = f"the patch brings step {step_id!r}, which calls {signature.name!r} ({effects})"
    return asked


def _approval_reasons(
    context: RunContext, candidate: CandidatePlan, asked: Mapping[StepId, str]
) -> tuple[str, ...]:
    if candidate.patch is not None and not context.goal.auto_approve and not asked:
        return ("the goal lets no patch apply without a person's word",)
    return tuple(asked.values())


def _is_repeated_read(step: Step, context: RunContext) -> bool:
    """Whether a step repeats a read of the plan, as a recipe of the goal or a validator says.

    Each parameter is the old one, comes from the recipe, or is the feedback on a package.
    """
    plan = context.plan
    if plan is None or step.supersedes is None or context.tools[step.tool].signature.writes:
        return False
    old = plan.step(step.supersedes)
    allowed = [old.params, *(recipe.set_params for recipe in context.goal.recipes)]
    return (step.tool, step.for_each) == (old.tool, old.for_each) and all(
        any(name in given and given[name] == value for given in allowed) or is_feedback(name, value)
        for name, value in step.params.items()
    )


def _approval_text(context: RunContext, plan: Plan, asked: Collection[StepId], settings: Settings) -> str:
    """Return the steps or changes as text, with the parameters of the steps that need approval, or of all new ones."""
    if context.plan is not None:
        from wavewright.planner.plans.diff import diff_plans

        lines = str(diff_plans(context.plan, plan, context.signatures)).split("\n")
    else:
        lines = [f"{step.id}: {step.tool}" for step in plan.steps]
    redactor = known_secrets_redactor(settings)
    calls = CallDescriptions(plan, context.state, run_instant(context.state), redactor)
    known = {step.id for step in context.plan.steps} if context.plan else set[StepId]()
    for step_id in asked or [step.id for step in plan.steps if step.id not in known]:
        lines += ["", *calls.lines(plan.step(step_id))]
    return "\n".join(printable(line) for line in lines)
