"""Another try, after somebody has rejected the package."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from wavewright.engine.context import Ports, RunContext
from wavewright.engine.feedback import TOPIC, Feedback, note_of, noted_feedback
from wavewright.engine.model_phases import Recorder, ask_models
from wavewright.engine.pipeline import StepResult, go_on, halt
from wavewright.engine.recording import STOPPED, end_interrupted, found_json, note, record
from wavewright.executor.events import RunFinished
from wavewright.planner.types import JsonObject
from wavewright.reviewer.feedback import with_feedback
from wavewright.reviewer.records import ReviewResult
from wavewright.reviewer.recovery_view import FeedbackView
from wavewright.reviewer.replanning import Replanned, replan
from wavewright.reviewer.review import review_by_code


def has_feedback(context: RunContext) -> bool:
    """Whether the run's last package came back."""
    return context.request.feedback is not None and context.plan is not None


@dataclass(frozen=True, slots=True)
class TakeFeedback:
    """Have the plan patched after a rejection: steps that take feedback are done again, or a model says which."""

    ports: Ports
    name: str = "take_feedback"

    async def run(self, context: RunContext) -> StepResult[RunContext]:
        """Go on with a patched plan; end the run where packages are used up or nothing takes the feedback."""
        feedback, goal = context.request.feedback, context.goal
        assert feedback is not None
        assert goal is not None
        most = feedback.most if goal.limits.iterations is None else goal.limits.iterations
        if feedback.iteration >= most:
            times = f"{most} of {most} packages were" if most > 1 else "the package was"
            return await self._fail(context, f"{times} rejected")
        taken = noted_feedback(context.state)
        if not taken or taken[-1].body.get("iteration") != feedback.iteration:
            context = await note(self.ports, context, TOPIC, note_of(feedback, context.state))
            # Rejections before this one are in the goal already.
            context = replace(context, goal=with_feedback(goal, feedback.iteration, feedback.told))
        elif _is_patched(context):
            return go_on(context, "the plan was patched before")
        return await self._patch(context, feedback)

    async def _patch(self, context: RunContext, feedback: Feedback) -> StepResult[RunContext]:
        asked = await ask_models(self.ports, context, self._replan(context, feedback))
        context, replanned = asked.context, asked.value
        if asked.was_stopped:
            return halt(await end_interrupted(self.ports, context, STOPPED), "interrupted")
        if replanned is None:
            return await self._fail(context, "the run's time limit was reached")
        patch, checked = replanned.patch, replanned.checked
        if patch is None or checked is None:
            if replanned.diagnostics:
                body: JsonObject = {"diagnostics": [*found_json(replanned.diagnostics)]}
                context = await note(self.ports, context, "patch_refused", body)
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
        context = await note(self.ports, context, "recovery", body)
        return go_on(
            replace(context, candidate=checked.plan, patch=patch, side_effects=checked.needs_approval)
        )

    def _replan(self, context: RunContext, feedback: Feedback) -> Callable[[Recorder], Awaitable[Replanned]]:
        services, plan, goal = self.ports.services, context.plan, context.goal
        assert plan is not None
        assert goal is not None
        review = _last_review(context)

        async def work(recorder: Recorder) -> Replanned:
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
                feedback=FeedbackView(feedback.iteration, len(feedback.told)),
                on_use=recorder.use,
                on_rung=recorder.rung if services.models is not None else None,
            )

        return work

    async def _fail(self, context: RunContext, reason: str) -> StepResult[RunContext]:
        ended = RunFinished(self.ports.clock().timestamp(), "failed", reason)
        return halt(await record(self.ports, context, ended), reason)


def _is_patched(context: RunContext) -> bool:
    """Whether the plan has seen a patch since the rejection: a crash came after it."""
    before = noted_feedback(context.state)[-1].body.get("round")
    return isinstance(before, int) and context.state.round > before


def _last_review(context: RunContext) -> ReviewResult:
    """Return the verdict on what was rejected."""
    assert context.plan is not None
    assert context.goal is not None
    noted = next((noted for noted in reversed(context.state.notes) if noted.topic == "review"), None)
    if noted is not None:
        return ReviewResult.model_validate(noted.body)
    return review_by_code(context.plan, context.goal, context.state, context.signatures)
