"""What a retry does anew: what the user names, what depends on that, and what reads with other code than before."""

from __future__ import annotations

from collections.abc import Mapping

from wavewright.executor.events import RetryOf
from wavewright.executor.reuse import ReuseSource
from wavewright.executor.state import RunState
from wavewright.planner.graph import PlanGraph
from wavewright.planner.models import Plan
from wavewright.planner.types import StepId
from wavewright.tools.calls import Tool


def steps_to_repeat(donor: RunState, start: StepId | None) -> tuple[StepId, ...]:
    """Return a step of the run's plan and all that depend on it, in the plan's order; none where none is named."""
    if start is None or donor.plan is None:
        return ()
    plan = Plan.model_validate(donor.plan)
    graph = PlanGraph.of(plan)
    found = {start}
    for wave in graph.waves:
        found.update(step for step in wave if not found.isdisjoint(graph.dependencies[step]))
    return tuple(step.id for step in plan.steps if step.id in found)


def retry_donor(plan: Plan, tools: Mapping[str, Tool], state: RunState, retry: RetryOf) -> ReuseSource:
    """Return what a retry takes over of a run: nothing of steps that read with code that has changed since.

    A step that writes has taken effect: only its own name makes it happen again.
    """
    assert state.started is not None
    known = state.started.tool_code
    changed = {
        name
        for name, tool in tools.items()
        if name in known and known[name] != tool.code and not tool.signature.writes
    }
    anew = {step.id for step in plan.steps if step.tool in changed}
    return ReuseSource(state, retry.origin, frozenset({*retry.anew, *anew}))
