"""The verdict.

A second chance, as a patch.

Another try, after somebody has rejected the package.

What leaves the run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from wavewright.engine.pipeline.context import (
    FEEDBACK_TOPIC,
    Feedback,
    Ports,
    RunContext,
    feedback_note,
    feedback_notes,
)
from wavewright.engine.pipeline.pipeline import PhaseResult, branch, halt, proceed
from wavewright.engine.pipeline.services import (
    STOPPED_REASON,
    ModelEventRecorder,
    diagnostics_json,
    end_interrupted,
    record,
    record_note,
    run_model_phase,
)
from wavewright.executor.events.types import RunFinished, RungTaken
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.types import JsonObject
from wavewright.reviewer.package.artifacts import RedactedRun
from wavewright.reviewer.package.builder import build_package
from wavewright.reviewer.records import Package, ReviewResult
from wavewright.reviewer.recovery.recipes import with_feedback_input
from wavewright.reviewer.recovery.replanning import ReplanResult, replan
from wavewright.reviewer.recovery.view import FeedbackView
from wavewright.reviewer.review.by_code import review_by_code
from wavewright.reviewer.review.by_model import review_by_model
from wavewright.reviewer.review.caps import CODE_REVIEW_CEILING


@dataclass(frozen=True, slots=True)
class ReviewRun:
    """Judge the run by its gates and outputs, ask a model what code cannot tell, compute and cap the confidence."""

    ports: Ports
    name: str = "review_run"

    async def run(self, context: RunContext) -> PhaseResult[RunContext]:
        """Review by code; where a model is configured it reads the result too and can only lower the verdict."""
        assert context.plan is not None
        assert context.goal is not None
        review = review_by_code(context.plan, context.goal, context.state, context.signatures)
        if self.ports.services.models is not None:
            asked = await run_model_phase(self.ports, context, self._by_model(context, review))
            context = asked.context
            if asked.was_stopped:
                return halt(await end_interrupted(self.ports, context, STOPPED_REASON), "interrupted")
            review = asked.value or review
            if asked.value is None:
                context = await self._interrupted(context)
        shown = RedactedRun(context.state).review(review)
        context = await record_note(self.ports, context, "review", shown.model_dump(mode="json"))
        return proceed(replace(context, review=review))

    async def _interrupted(self, context: RunContext) -> RunContext:
        """Journal that the review by code stands because the run's time was up."""
        at = self.ports.clock().timestamp()
        reason = "the run's time limit was reached"
        rungs = (
            RungRecord("reviewer", "model", "fallen", reason),
            RungRecord(
                "reviewer",
                "code",
                "reached",
                ceiling=CODE_REVIEW_CEILING.max,
                because=CODE_REVIEW_CEILING.because,
            ),
        )
        return await record(self.ports, context, *(RungTaken(at, rung) for rung in rungs))

    def _by_model(
        self, context: RunContext, by_code: ReviewResult
    ) -> Callable[[ModelEventRecorder], Awaitable[ReviewResult]]:
        services, plan, goal = self.ports.services, context.plan, context.goal
        assert services.models is not None
        assert plan is not None
        assert goal is not None
        models = services.models

        async def work(recorder: ModelEventRecorder) -> ReviewResult:
            return await review_by_model(
                plan,
                goal,
                context.state,
                context.signatures,
                by_code,
                models=models,
                prompts=services.prompts,
                ladder=services.ladders["reviewer"],
                history=services.history,
                on_use=recorder.record_use,
                on_rung=recorder.record_rung,
            )

        return work


def goal_not_achieved(context: RunContext) -> bool:
    """Whether the review said no; the rounds that are left are the recovery's to count."""
    return context.review is not None and not context.review.goal_achieved


@dataclass(frozen=True, slots=True)
class Recover:
    """Have a patch made, by a recipe of the goal or else by a model, and the patched plan checked and executed."""

    ports: Ports
    name: str = "recover"

    async def run(self, context: RunContext) -> PhaseResult[RunContext]:
        """Branch to the checker with a patched plan, or go on where nothing helps."""
        if context.time_left == 0:
            return proceed(context, "the run's time limit was reached")
        asked = await run_model_phase(self.ports, context, self._replan(context))
        context, replanned = asked.context, asked.value
        if asked.was_stopped:
            return halt(await end_interrupted(self.ports, context, STOPPED_REASON), "interrupted")
        if replanned is None:
            return proceed(context, "the run's time limit was reached")
        patch, checked = replanned.patch, replanned.checked
        if patch is None or checked is None:
            if replanned.diagnostics:
                body: JsonObject = {"diagnostics": [*diagnostics_json(replanned.diagnostics)]}
                context = await record_note(self.ports, context, "patch_refused", body)
            return proceed(context, "; ".join(replanned.reasons))
        body = {
            "reason": patch.reason,
            "fingerprint": checked.fingerprint,
            "round": context.state.round + 1,
            "rung": replanned.rung,
        }
        context = await record_note(self.ports, context, "recovery", body)
        context = replace(context, candidate=checked.plan, patch=patch, side_effects=checked.needs_approval)
        return branch(context, "check_plan", patch.reason)

    def _replan(self, context: RunContext) -> Callable[[ModelEventRecorder], Awaitable[ReplanResult]]:
        services, plan, goal, review = self.ports.services, context.plan, context.goal, context.review
        assert plan is not None
        assert goal is not None
        assert review is not None

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
                seen=_tried_patches(context),
                on_use=recorder.record_use,
                # A recipe that stands alone is no fallback of anything.
                on_rung=recorder.record_rung if services.models is not None else None,
            )

        return work


def _tried_patches(context: RunContext) -> frozenset[str]:
    """Return the fingerprints of the patches that this run has tried, before a resume as well.

    A patch was tried once its plan was accepted; one that a crash cut off before that is proposed again.
    """
    state = context.state
    return frozenset(
        fingerprint
        for noted in state.notes
        if noted.topic == "recovery"
        and isinstance(fingerprint := noted.body.get("fingerprint"), str)
        and isinstance(round_number := noted.body.get("round"), int)
        and round_number <= state.round
    )


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


@dataclass(frozen=True, slots=True)
class BuildPackage:
    """Gather result, documents, gates, confidence, plan, patches and log into one package."""

    ports: Ports
    name: str = "build_package"

    async def run(self, context: RunContext) -> PhaseResult[RunContext]:
        """Build the package from the goal, the review and the state of the run alone."""
        assert context.plan is not None
        assert context.goal is not None
        package = build_package(context.plan, context.goal, context.state, context.review, context.signatures)
        return proceed(replace(context, package=package))


@dataclass(frozen=True, slots=True)
class PublishPackage:
    """Let the package out, as files with a report unless told otherwise, and end the run in the journal."""

    ports: Ports
    name: str = "publish_package"

    async def run(self, context: RunContext) -> PhaseResult[RunContext]:
        """Publish, then journal the end; a crash between the two repeats the publishing."""
        package = context.package
        assert package is not None
        folder = (context.request.output_dir or self.ports.settings.output_dir) / context.run
        files = self.ports.publish(package, folder)
        if files:
            context = await record_note(
                self.ports, context, "package", {"files": [str(path) for path in files]}
            )
        ended = RunFinished(self.ports.clock().timestamp(), package.status, _finish_reason(package))
        context = await record(self.ports, context, ended)
        return proceed(replace(context, files=files))


def _finish_reason(package: Package) -> str:
    return package.review.summary if package.review is not None else ""
