"""The verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wavewright.engine.context import Ports, RunContext
from wavewright.engine.pipeline import StepResult, go_on
from wavewright.engine.recording import note
from wavewright.reviewer.review import review_by_code


@dataclass(frozen=True, slots=True)
class ReviewRun:
    """Judge the run by its gates and outputs, compute the confidence and cap it."""

    ports: Ports
    name: str = "review_run"

    async def run(self, context: RunContext) -> StepResult[RunContext]:
        """Review by code, since no model is configured to judge what code cannot."""
        assert context.plan is not None
        assert context.goal is not None
        review = review_by_code(context.plan, context.goal, context.state, context.signatures)
        context = await note(self.ports, context, "review", review.model_dump(mode="json"))
        return go_on(replace(context, review=review))
