"""The verdict."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from wavewright.engine.context import Ports, RunContext
from wavewright.engine.model_phases import ModelEventRecorder, run_model_phase
from wavewright.engine.pipeline import PhaseResult, halt, proceed
from wavewright.engine.recording import STOPPED_REASON, end_interrupted, record, record_note
from wavewright.executor.events import RungTaken
from wavewright.planner.ladder import RungRecord
from wavewright.reviewer.caps import CODE_REVIEW_CEILING
from wavewright.reviewer.model_review import review_by_model
from wavewright.reviewer.records import ReviewResult
from wavewright.reviewer.redacting import RedactedRun
from wavewright.reviewer.review import review_by_code


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
