"""The review of a run, its recovery and feedback by patches of the plan, and its package."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wavewright.engine.run.pipeline.context import (
    FEEDBACK_TOPIC,
    CandidatePlan,
    Feedback,
    PackagedContext,
    PlannedContext,
    Ports,
    RunContext,
    extended,
    feedback_note,
    feedback_notes,
)
from wavewright.engine.run.pipeline.phase import PhaseResult, branch, proceed
from wavewright.engine.run.pipeline.services import (
    ModelEventRecorder,
    ModelPhaseResult,
    halt_failed,
    halt_stopped,
    record,
    record_end,
    record_note,
    record_refusal,
    run_model_phase,
)
from wavewright.executor.events.types import RungTaken
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.types import JsonObject
from wavewright.reviewer.package.artifacts import RedactedRun
from wavewright.reviewer.package.builder import build_package, last_review
from wavewright.reviewer.records import ReviewResult
from wavewright.reviewer.review.by_code import review_by_code
from wavewright.reviewer.review.caps import CODE_REVIEW_CEILING
from wavewright.reviewer.review.results import ReviewedRun

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from wavewright.reviewer.recovery.boundary import FeedbackView
    from wavewright.reviewer.recovery.replanning import ReplanResult


@dataclass(frozen=True, slots=True)
class ReviewRun:
    """Judge the run by its gates and outputs, ask a model what code cannot tell, compute and cap
    the confidence.
    """

    ports: Ports
    name: str = "review_run"

    async def run(self, context: PlannedContext) -> PhaseResult[PlannedContext]:
        """Review by code; a configured model reads the result too and can only lower the verdict."""
        review = review_by_code(context.plan, context.goal, context.state, context.signatures)
        if self.ports.services.models is not None:
            asked = await run_model_phase(self.ports, context, self._by_model(context, review))
            context = asked.context
            if asked.was_stopped:
                return await halt_stopped(self.ports, context)
            review = asked.value or review
            if asked.value is None:
                context = await self._interrupted(context)
        shown = RedactedRun(context.state).review(review)
        context = await record_note(self.ports, context, "review", shown.model_dump(mode="json"))
        return proceed(replace(context, review=review))

    async def _interrupted(self, context: PlannedContext) -> PlannedContext:
        """Journal that the review by code is final because the run's time limit was reached."""
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
        self, context: PlannedContext, by_code: ReviewResult
    ) -> Callable[[ModelEventRecorder], Awaitable[ReviewResult]]:
        from wavewright.reviewer.review.by_model import review_by_model

        services = self.ports.services

        async def work(recorder: ModelEventRecorder) -> ReviewResult:
            asking = services.asking(
                "reviewer", on_use=recorder.record_use, on_rung=recorder.record_rung
            )
            return await review_by_model(_reviewed_run(context), by_code, asking)

        return work


def _reviewed_run(context: PlannedContext) -> ReviewedRun:
    return ReviewedRun(context.plan, context.goal, context.state, context.signatures)


def goal_not_achieved(context: RunContext) -> bool:
    """Whether the review found the goal not achieved; the recovery counts the remaining rounds."""
    return context.review is not None and not context.review.goal_achieved


@dataclass(frozen=True, slots=True)
class Recover:
    """Have a patch made, by a recipe of the goal or else by a model, and the patched plan checked
    and executed.
    """

    ports: Ports
    name: str = "recover"

    async def run(self, context: PlannedContext) -> PhaseResult[PlannedContext]:
        """Branch to the checker with a patched plan, or proceed if there is no patch."""
        if context.time_left == 0:
            return proceed(context, "the run's time limit was reached")
        review = context.review or _last_review(context)
        asked = await _replan(self.ports, context, review, seen=_tried_patches(context))
        context = asked.context
        if asked.was_stopped:
            return await halt_stopped(self.ports, context)
        if asked.value is None:
            return proceed(context, "the run's time limit was reached")
        context = await _with_patch(self.ports, context, asked.value)
        if asked.value.patch is None or context.candidate is None:
            return proceed(context, "; ".join(asked.value.reasons))
        return branch(context, "check_plan", asked.value.patch.reason)


async def _replan(
    ports: Ports,
    context: PlannedContext,
    review: ReviewResult,
    *,
    seen: frozenset[str] = frozenset(),
    feedback: FeedbackView | None = None,
) -> ModelPhaseResult[PlannedContext, ReplanResult]:
    from wavewright.reviewer.recovery.replanning import replan

    services = ports.services

    async def work(recorder: ModelEventRecorder) -> ReplanResult:
        asking = services.asking(
            "recovery",
            on_use=recorder.record_use,
            # Without models the recipe is no fallback, so its rung is not recorded.
            on_rung=recorder.record_rung if services.models is not None else None,
        )
        return await replan(_reviewed_run(context), review, asking, seen=seen, feedback=feedback)

    return await run_model_phase(ports, context, work)


async def _with_patch(
    ports: Ports, context: PlannedContext, replanned: ReplanResult
) -> PlannedContext:
    """Journal the result of replanning; return the context with the patched plan, if any, as its
    candidate.
    """
    patch, checked = replanned.patch, replanned.checked
    if patch is not None and checked is not None and checked.plan is not None:
        body: JsonObject = {
            "reason": patch.reason,
            "fingerprint": checked.fingerprint,
            "round": context.state.round + 1,
            "rung": replanned.rung,
        }
        if checked.allowed:
            body["allowed"] = [*checked.allowed]
        context = await record_note(ports, context, "recovery", body)
        return replace(
            context, candidate=CandidatePlan(checked.plan, patch, checked.needs_approval)
        )
    if replanned.diagnostics:
        context = await record_refusal(ports, context, "patch_refused", replanned.diagnostics)
    return context


def _tried_patches(context: RunContext) -> frozenset[str]:
    """Return the fingerprints of the patches that this run has tried, before a resume as well.

    A patch was tried once its plan was accepted; one that a crash cut off before that is proposed
    again.
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


def has_feedback(context: RunContext) -> TypeIs[PlannedContext]:
    """Whether the run's last package was rejected."""
    return context.request.feedback is not None and isinstance(context, PlannedContext)


@dataclass(frozen=True, slots=True)
class TakeFeedback:
    """Have the plan patched after a rejection: steps that take feedback are done again, or a model
    says which.
    """

    ports: Ports
    name: str = "take_feedback"

    async def run(self, context: PlannedContext) -> PhaseResult[PlannedContext]:
        """Proceed with a patched plan; end the run if no packages are left or no step takes the
        feedback.
        """
        if (feedback := context.request.feedback) is None:
            return proceed(context)
        most = context.goal.limits.iterations
        most = feedback.max_packages if most is None else most
        if feedback.iteration >= most:
            times = f"{most} of {most} packages were" if most > 1 else "the package was"
            return await halt_failed(self.ports, context, f"{times} rejected")
        taken = feedback_notes(context.state)
        if not taken or taken[-1].body.get("iteration") != feedback.iteration:
            body = feedback_note(feedback, context.state)
            context = await record_note(self.ports, context, FEEDBACK_TOPIC, body)
            from wavewright.reviewer.recovery.recipes import with_feedback_input

            # The goal already holds earlier rejections.
            goal = with_feedback_input(context.goal, feedback.iteration, feedback.texts_for_steps)
            context = replace(context, goal=goal)
        elif _is_patched_since_feedback(context):
            return proceed(context, "the plan was patched before")
        return await self._patch(context, feedback)

    async def _patch(
        self, context: PlannedContext, feedback: Feedback
    ) -> PhaseResult[PlannedContext]:
        from wavewright.reviewer.recovery.boundary import FeedbackView
        from wavewright.reviewer.recovery.recipes import recipes_for_feedback

        recipes = recipes_for_feedback(context.goal, feedback.texts)
        view = FeedbackView(feedback.iteration, len(feedback.texts_for_steps), recipes)
        asked = await _replan(self.ports, context, _last_review(context), feedback=view)
        context = asked.context
        if asked.was_stopped:
            return await halt_stopped(self.ports, context)
        if asked.value is None:
            return await halt_failed(self.ports, context, "the run's time limit was reached")
        context = await _with_patch(self.ports, context, asked.value)
        if context.candidate is not None:
            return proceed(context)
        reasons = "; ".join(asked.value.reasons)
        return await halt_failed(
            self.ports,
            context,
            f"package {feedback.iteration} was rejected, and nothing mends it: {reasons}",
        )


def _is_patched_since_feedback(context: RunContext) -> bool:
    """Whether the plan has seen a patch since the rejection: a crash came after it."""
    before = feedback_notes(context.state)[-1].body.get("round")
    return isinstance(before, int) and context.state.round > before


def _last_review(context: PlannedContext) -> ReviewResult:
    """Return the last review of the run; one by code where none was noted."""
    return last_review(context.state) or review_by_code(
        context.plan, context.goal, context.state, context.signatures
    )


@dataclass(frozen=True, slots=True)
class BuildPackage:
    """Gather result, documents, gates, confidence, plan, patches and log into one package."""

    ports: Ports
    name: str = "build_package"

    async def run(self, context: PlannedContext) -> PhaseResult[PackagedContext]:
        """Build the package from the goal, the review and the state of the run alone."""
        package = build_package(
            context.plan, context.goal, context.state, context.review, context.signatures
        )
        return proceed(extended(PackagedContext, context, package=package))


@dataclass(frozen=True, slots=True)
class PublishPackage:
    """Publish the package, by default as files with a report, and end the run in the journal."""

    ports: Ports
    name: str = "publish_package"

    async def run(self, context: PackagedContext) -> PhaseResult[PackagedContext]:
        """Publish, then journal the end; a crash between the two repeats the publishing."""
        package = context.package
        folder = (context.request.output_dir or self.ports.settings.output_dir) / context.run
        files = self.ports.publish(package, folder)
        if files:
            context = await record_note(
                self.ports, context, "package", {"files": [str(path) for path in files]}
            )
        reason = package.review.summary if package.review is not None else ""
        context = await record_end(self.ports, context, package.status, reason)
        return proceed(replace(context, files=files))
