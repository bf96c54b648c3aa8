"""Whether a mended plan does what the plan did before it was mended.

Two plans *do the same* where every step that both have makes the same call, waits for the same steps, directly or
not, and is held up by the failure of the same ones. `depends_on` is no part of that: what follows from it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from wavewright.planner.graph import PlanGraph
from wavewright.planner.models import Cap, Gate, Plan, Step
from wavewright.planner.superseding import repoint_cap, repoint_gate, repoint_step, repoint_value
from wavewright.planner.types import Json, StepId
from wavewright.planner.uses import step_reads

MergedSteps = Mapping[StepId, StepId]
"""Steps that are gone, and which step stands for each."""


def difference(old: Plan, new: Plan, merged: MergedSteps) -> str | None:
    """Return what a plan does otherwise than before, in words; `None` where both do the same."""
    kept = [step for step in old.steps if step.id not in merged]
    if [step.id for step in kept] != [step.id for step in new.steps]:
        return "it has other steps"
    for before, after in zip(kept, new.steps, strict=True):
        if _call(before, merged) != _call(after, {name: name for name in merged.values()}):
            return f"step {before.id!r} makes another call"
    if _gates_and_outputs(old, merged) != _gates_and_outputs(new, {name: name for name in merged.values()}):
        return "its gates, its caps or its result differ"
    graphs = PlanGraph.of(old), PlanGraph.of(new)
    if old.result is None and graphs[0].terminal != graphs[1].terminal:
        return "without a `result` the outputs of other steps would be the result"
    holding = _BlockingSteps(old), _BlockingSteps(new)
    for step in new.steps:
        if _renamed(graphs[0].ancestors(step.id), merged) != graphs[1].ancestors(step.id):
            return f"step {step.id!r} would wait for other steps"
        if _renamed(holding[0].blocking(step.id), merged) != holding[1].blocking(step.id):
            return f"step {step.id!r} would run although a step that it waits for failed"
    return None


class _BlockingSteps:
    """Whose failure keeps a step from running: past an optional step a failure does not go."""

    def __init__(self, plan: Plan) -> None:
        optional = {step.id for step in plan.steps if step.optional}
        self._own = {
            step.id: frozenset((*step.depends_on, *step_reads(step))) - optional for step in plan.steps
        }

    def blocking(self, step_id: StepId) -> frozenset[StepId]:
        """Return the steps that hold a step up where they fail."""
        found: set[StepId] = set()
        waiting = [step_id]
        while waiting:
            new = self._own[waiting.pop()] - found
            found |= new
            waiting.extend(new)
        return frozenset(found)


def _call(step: Step, merged: MergedSteps) -> dict[str, Json]:
    for old, new in merged.items():
        step = repoint_step(step, old, new)
    return step.model_dump(mode="json", exclude={"depends_on"})


def _gates_and_outputs(
    plan: Plan, merged: MergedSteps
) -> tuple[list[Gate], list[Cap], Json, dict[str, Json]]:
    gates, caps, result = list(plan.gates), list(plan.caps), plan.result
    for old, new in merged.items():
        gates = [repoint_gate(gate, old, new) for gate in gates]
        caps = [repoint_cap(cap, old, new) for cap in caps]
        result = repoint_value(result, old, new)
    return gates, caps, result, plan.inputs


def _renamed(names: frozenset[StepId], merged: MergedSteps) -> frozenset[StepId]:
    return frozenset(merged.get(name, name) for name in names)
