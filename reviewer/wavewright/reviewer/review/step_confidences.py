"""The confidence in each step's output, along the plan's graph.

It is the least of the ceilings of the step (its worker's rung, its gates) and of the confidences of the steps that it
was made of; a step whose tool has a confidence of its own counts its ceilings alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from wavewright.executor.events.state import RunState
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.types import StepId
from wavewright.reviewer.records import StepConfidence
from wavewright.reviewer.review.caps import step_ceilings
from wavewright.reviewer.review.feeds import confidence_sources


def step_confidences(
    plan: Plan, state: RunState, tools: Mapping[str, ToolSignature]
) -> tuple[StepConfidence, ...]:
    """Return the confidences of the present outputs that are below 1, each with the way by which it came.

    Args:
        plan: The bound plan in force.
        state: What happened.
        tools: Signatures by name.
    """
    waves, sources = PlanGraph.of(plan).wave_of(), confidence_sources(plan, tools)
    found: dict[StepId, StepConfidence] = {}
    ceilings = step_ceilings(plan, state)
    for step in sorted((each.id for each in plan.steps if state.is_present(each.id)), key=waves.__getitem__):
        own = (
            StepConfidence(step=step, confidence=ceiling.max, because=ceiling.because, way=(step,))
            for ceiling in ceilings
            if ceiling.step == step
        )
        handed_on = (
            found[one].model_copy(update={"step": step, "way": (*found[one].way, step)})
            for one in sorted(sources[step] & found.keys())
        )
        least = min((*own, *handed_on), key=lambda each: each.confidence, default=None)
        if least is not None and least.confidence < 1:
            found[step] = least
    return tuple(found[step.id] for step in plan.steps if step.id in found)
