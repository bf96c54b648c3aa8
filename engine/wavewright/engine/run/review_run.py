"""The review of a run: its verdict and its confidence, by code and then by a model."""

from __future__ import annotations

from dataclasses import replace

from wavewright.engine.run.context import PlannedContext
from wavewright.engine.run.model_phases import ModelEventRecorder, run_model_phase
from wavewright.engine.run.ports import Attempt, Means
from wavewright.engine.run.recording import record, record_note
from wavewright.executor.events.types import RungTaken
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.reviewer import ReviewedRun, ReviewResult, review_by_code
from wavewright.reviewer.package.artifacts import RedactedRun
from wavewright.reviewer.review.caps import CODE_REVIEW_CEILING


async def review_run(context: PlannedContext, attempt: Attempt, means: Means) -> PlannedContext:
    """Judge the run by its gates and outputs, ask a model what code cannot tell, compute and cap
    the confidence.

    A configured model reads the result too and can only lower the verdict.

    Raises:
        RunHalted: the run was stopped.
    """
    # By code first: what gates and figures say stands, and a model may only find more against it.
    by_code = review_by_code(context.plan, context.goal, context.state, context.signatures)
    review = by_code
    if means.services.models is not None:
        # Imported here: a run without a model does not need it.
        from wavewright.reviewer import review_by_model

        run = ReviewedRun(context.plan, context.goal, context.state, context.signatures)
        asking = means.services.asking("reviewer")

        async def work(recorder: ModelEventRecorder) -> ReviewResult:
            return await review_by_model(run, by_code, recorder.listen(asking))

        context, by_model = await run_model_phase(attempt, context, work)
        if by_model is None:
            # The review by code stands, under the ceiling of a review without a model.
            context = await _record_time_limit(context, attempt)
        else:
            review = by_model
    # A review quotes outputs: in the journal it holds no secret of them.
    shown = RedactedRun(context.state).review(review)
    context = await record_note(attempt, context, "review", shown.model_dump(mode="json"))
    return replace(context, review=review)


async def _record_time_limit(context: PlannedContext, attempt: Attempt) -> PlannedContext:
    """Journal that the review by code is final because the run's time limit was reached."""
    at = attempt.now()
    reason = "the run's time limit was reached"
    failed = RungRecord("reviewer", "model", "fallen", reason)
    reached = RungRecord(
        "reviewer",
        "code",
        "reached",
        ceiling=CODE_REVIEW_CEILING.max,
        because=CODE_REVIEW_CEILING.because,
    )
    return await record(attempt, context, RungTaken(at, failed), RungTaken(at, reached))
