"""What an expression of the plan may read after a run: the inputs and the outputs that are present."""

from __future__ import annotations

from wavewright.executor.state import RunState
from wavewright.planner.models import Plan
from wavewright.planner.types import Json, JsonObject


def plan_scope(plan: Plan, state: RunState) -> JsonObject:
    """Return the variables of caps and of the plan's result."""
    outputs: dict[str, Json] = {str(step_id): output for step_id, output in state.outputs().items()}
    return {"inputs": plan.inputs, "steps": outputs}
