"""Patches of the plan: after a review that finds the goal not achieved, and after a rejection."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wavewright.engine.run.context import (
    FEEDBACK_TOPIC,
    CandidatePlan,
    Feedback,
    PlannedContext,
    RunContext,
    feedback_note,
    feedback_notes,
)
from wavewright.engine.run.endings import run_failed
from wavewright.engine.run.model_phases import ModelEventRecorder, run_model_phase
from wavewright.engine.run.ports import Attempt, Means
from wavewright.engine.run.recording import record_note, record_refusal
from wavewright.executor import RunState
from wavewright.planner import JsonObject
from wavewright.reviewer import ReviewedRun, ReviewResult, review_by_code
from wavewright.reviewer.package.builder import last_review
from wavewright.reviewer.recovery.feedback import recipes_for_feedback, with_feedback_input

if TYPE_CHECKING:
    from wavewright.reviewer import ReplanResult
    from wavewright.reviewer.recovery.boundary import FeedbackView

_TIME_LIMIT = "the run's time limit was reached"


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a recovery has brought."""

    context: PlannedContext
    """With the patched plan as its candidate, if there is a patch."""
    reason: str | None = None
    """Of the patch, or why there is none."""


def goal_not_achieved(context: RunContext) -> bool:
    """Whether the review found the goal not achieved; the recovery counts the remaining rounds."""
    return context.review is not None and not context.review.goal_achieved


async def recover(context: PlannedContext, attempt: Attempt, means: Means) -> Recovery:
    """Have a patch made, by a recipe of the goal or else by a model.

    Raises:
        RunHalted: the run was stopped.
    """
    if context.time_left == 0:
        return await _without_patch(context, _TIME_LIMIT, attempt)
    review = context.review or _last_review(context)
    tried = tried_patches(context.state)
    context, replanned = await _replan(context, review, attempt, means, seen=tried)
    if replanned is None:
        return await _without_patch(context, _TIME_LIMIT, attempt)
    context = await _with_patch(context, replanned, attempt)
    if replanned.patch is None or context.candidate is None:
        return await _without_patch(context, "; ".join(replanned.reasons), attempt)
    return Recovery(context, replanned.patch.reason)


async def _without_patch(context: PlannedContext, reason: str, attempt: Attempt) -> Recovery:
    """Return a recovery without a patch, and journal why nothing more is tried."""
    context = await record_note(attempt, context, "no_recovery", {"reason": reason})
    return Recovery(context, reason)


async def take_feedback(
    context: PlannedContext, feedback: Feedback, attempt: Attempt, means: Means
) -> Recovery:
    """Have the plan patched after a rejection: steps that take feedback are done again, or a model
    says which.

    Raises:
        RunHalted: no packages are left, no step takes the feedback, or the run was stopped.
    """
    # What the goal's author says goes before the daemon's setting.
    most = context.goal.limits.iterations
    if most is None:
        most = feedback.max_packages
    if feedback.iteration >= most:
        packages = f"{most} of {most} packages were" if most > 1 else "the package was"
        raise await run_failed(attempt, context, f"{packages} rejected")
    taken = feedback_notes(context.state)
    if not taken or taken[-1].body.get("iteration") != feedback.iteration:
        context = await _with_feedback(context, feedback, attempt)
    elif _is_patched_since_feedback(context):
        # A crash came after the patch was accepted: it is not made again.
        return Recovery(context, "the plan was patched before")
    return await _patch_for_feedback(context, feedback, attempt, means)


async def _with_feedback(
    context: PlannedContext, feedback: Feedback, attempt: Attempt
) -> PlannedContext:
    """Journal the rejection, and return the context whose goal has it as an input."""
    body = feedback_note(feedback, context.state)
    context = await record_note(attempt, context, FEEDBACK_TOPIC, body)
    # The goal already holds earlier rejections.
    goal = with_feedback_input(context.goal, feedback.iteration, feedback.texts_for_steps)
    return replace(context, goal=goal)


async def _patch_for_feedback(
    context: PlannedContext, feedback: Feedback, attempt: Attempt, means: Means
) -> Recovery:
    # Imported here: few runs have a package that was rejected.
    from wavewright.reviewer.recovery.boundary import FeedbackView

    recipes = recipes_for_feedback(context.goal, feedback.texts)
    view = FeedbackView(feedback.iteration, len(feedback.texts_for_steps), recipes)
    review = _last_review(context)
    context, replanned = await _replan(context, review, attempt, means, feedback=view)
    if replanned is None:
        raise await run_failed(attempt, context, _TIME_LIMIT)
    context = await _with_patch(context, replanned, attempt)
    if context.candidate is None:
        reasons = "; ".join(replanned.reasons)
        reason = f"package {feedback.iteration} was rejected, and nothing mends it: {reasons}"
        raise await run_failed(attempt, context, reason)
    return Recovery(context)


async def _replan(
    context: PlannedContext,
    review: ReviewResult,
    attempt: Attempt,
    means: Means,
    *,
    seen: frozenset[str] = frozenset(),
    feedback: FeedbackView | None = None,
) -> tuple[PlannedContext, ReplanResult | None]:
    # Imported here: most runs need no recovery.
    from wavewright.reviewer import replan

    services = means.services

    async def work(recorder: ModelEventRecorder) -> ReplanResult:
        asking = recorder.listen(services.asking("recovery"))
        if services.models is None:
            # Without models the recipe is no fallback, so its rung is not recorded.
            asking = replace(asking, on_rung=None)
        run = ReviewedRun(context.plan, context.goal, context.state, context.signatures)
        return await replan(run, review, asking, seen=seen, feedback=feedback)

    return await run_model_phase(attempt, context, work)


async def _with_patch(
    context: PlannedContext, replanned: ReplanResult, attempt: Attempt
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
        if replanned.notes:
            body["read"] = [*replanned.notes]
        context = await record_note(attempt, context, "recovery", body)
        return replace(
            context, candidate=CandidatePlan(checked.plan, patch, checked.needs_approval)
        )
    if replanned.diagnostics:
        context = await record_refusal(attempt, context, "patch_refused", replanned.diagnostics)
    return context


def tried_patches(state: RunState) -> frozenset[str]:
    """Return the fingerprints of the patches that a run has tried, before a resume as well.

    A patch was tried once its plan was accepted; one that a crash cut off before that is proposed
    again.
    """
    tried = set[str]()
    for noted in state.notes:
        if noted.topic != "recovery":
            continue
        fingerprint, round_number = noted.body.get("fingerprint"), noted.body.get("round")
        if not isinstance(fingerprint, str) or not isinstance(round_number, int):
            continue
        if round_number <= state.round:
            tried.add(fingerprint)
    return frozenset(tried)


def _is_patched_since_feedback(context: RunContext) -> bool:
    """Whether the plan has seen a patch since the rejection: a crash came after it."""
    before = feedback_notes(context.state)[-1].body.get("round")
    return isinstance(before, int) and context.state.round > before


def _last_review(context: PlannedContext) -> ReviewResult:
    """Return the last review of the run; one by code where none was noted."""
    return last_review(context.state) or review_by_code(
        context.plan, context.goal, context.state, context.signatures
    )
