"""Another try, after somebody has rejected the package."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from wavewright.engine.context import Ports, RunContext
from wavewright.engine.feedback import FEEDBACK_TOPIC, Feedback, feedback_note, feedback_notes
from wavewright.engine.model_phases import ModelEventRecorder, run_model_phase
from wavewright.engine.pipeline import PhaseResult, halt, proceed
from wavewright.engine.recording import STOPPED_REASON, diagnostics_json, end_interrupted, record, record_note
from wavewright.executor.events import RunFinished
from wavewright.planner.types import JsonObject
from wavewright.reviewer.feedback import with_feedback_input
from wavewright.reviewer.records import ReviewResult
from wavewright.reviewer.recovery_view import FeedbackView
from wavewright.reviewer.replanning import ReplanResult, replan
from wavewright.reviewer.review import review_by_code


def has_feedback(context: RunContext) -> bool:
    """Whether the run's last package came back."""
    return context.request.feedback is not None and context.plan is not None


@dataclass(frozen=True, slots=True)
class TakeFeedback:
    """Have the plan patched after a rejection: steps that take feedback are done again, or a model says which."""

    ports: Ports
    name: str = "take_feedback"

    async def run(self, context: RunContext) -> PhaseResult[RunContext]:
        """Go on with a patched plan; end the run where packages are used up or nothing takes the feedback."""
        feedback, goal = context.request.feedback, context.goal
        assert feedback is not None
        assert goal is not None
        most = feedback.max_packages if goal.limits.iterations is None else goal.limits.iterations
        if feedback.iteration >= most:
            times = f"{most} of {most} packages were" if most > 1 else "the package was"
            return await self._fail(context, f"{times} rejected")
        taken = feedback_notes(context.state)
        if not taken or taken[-1].body.get("iteration") != feedback.iteration:
            context = await record_note(
                self.ports, context, FEEDBACK_TOPIC, feedback_note(feedback, context.state)
            )
            # Rejections before this one are in the goal already.
            context = replace(
                context, goal=with_feedback_input(goal, feedback.iteration, feedback.texts_for_steps)
            )
        elif _is_patched_since_feedback(context):
            return proceed(context, "the plan was patched before")
        return await self._patch(context, feedback)

    async def _patch(self, context: RunContext, feedback: Feedback) -> PhaseResult[RunContext]:
        asked = await run_model_phase(self.ports, context, self._replan(context, feedback))
        context, replanned = asked.context, asked.value
        if asked.was_stopped:
            return halt(await end_interrupted(self.ports, context, STOPPED_REASON), "interrupted")
        if replanned is None:
            return await self._fail(context, "the run's time limit was reached")
        patch, checked = replanned.patch, replanned.checked
        if patch is None or checked is None:
            if replanned.diagnostics:
                body: JsonObject = {"diagnostics": [*diagnostics_json(replanned.diagnostics)]}
                context = await record_note(self.ports, context, "patch_refused", body)
            reasons = "; ".join(replanned.reasons)
            return await self._fail(
                context, f"package {feedback.iteration} was rejected, and nothing mends it: {reasons}"
            )
        body = {
            "reason": patch.reason,
            "fingerprint": checked.fingerprint,
            "round": context.state.round + 1,
            "rung": replanned.rung,
        }
        context = await record_note(self.ports, context, "recovery", body)
        return proceed(
            replace(context, candidate=checked.plan, patch=patch, side_effects=checked.needs_approval)
        )

    def _replan(
        self, context: RunContext, feedback: Feedback
    ) -> Callable[[ModelEventRecorder], Awaitable[ReplanResult]]:
        services, plan, goal = self.ports.services, context.plan, context.goal
        assert plan is not None
        assert goal is not None
        review = _last_review(context)

        async def work(recorder: ModelEventRecorder) -> ReplanResult:
            return await replan(
                plan,
                goal,
                context.state,
                review,
                context.signatures,
                models=services.models,
                prompts=services.prompts,
                ladder=services.ladders["recovery"],
                history=services.history,
                feedback=FeedbackView(feedback.iteration, len(feedback.texts_for_steps)),
                on_use=recorder.record_use,
                on_rung=recorder.record_rung if services.models is not None else None,
            )

        return work

    async def _fail(self, context: RunContext, reason: str) -> PhaseResult[RunContext]:
        ended = RunFinished(self.ports.clock().timestamp(), "failed", reason)
        return halt(await record(self.ports, context, ended), reason)


def _is_patched_since_feedback(context: RunContext) -> bool:
    """Whether the plan has seen a patch since the rejection: a crash came after it."""
    before = feedback_notes(context.state)[-1].body.get("round")
    return isinstance(before, int) and context.state.round > before


def _last_review(context: RunContext) -> ReviewResult:
    """Return the verdict on what was rejected."""
    assert context.plan is not None
    assert context.goal is not None
    noted = next((noted for noted in reversed(context.state.notes) if noted.topic == "review"), None)
    if noted is not None:
        return ReviewResult.model_validate(noted.body)
    return review_by_code(context.plan, context.goal, context.state, context.signatures)
