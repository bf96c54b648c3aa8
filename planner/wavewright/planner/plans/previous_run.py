"""The run before: whether a plan reads it, and what the results of its runs are made of."""

from __future__ import annotations

from collections.abc import Iterator

from wavewright.planner.language.plan import Plan
from wavewright.planner.types import Json


def reads_previous(plan: Plan) -> bool:
    """Return whether an expression of the plan may read `previous`; a text with the word counts."""
    texts = plan.model_dump_json(include={"steps", "gates", "caps", "let", "stop", "result"})
    return "previous" in texts


def declared_results(plan: Plan) -> Iterator[Json]:
    """Yield the structures that a run's result is one of: that of `stop`, then that of the plan."""
    if plan.stop is not None:
        yield plan.stop.result
    if plan.result is not None:
        yield plan.result
