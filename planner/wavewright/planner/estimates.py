"""How long the steps of a plan may take, before any of them ran.

An *estimate* is the tool's expected seconds, times the turns that a `for_each` needs where the length of its list is
known. It orders ready steps, draws the critical path and compares plans; nothing is refused because of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from wavewright.planner.goals import Limits
from wavewright.planner.known_values import known_items
from wavewright.planner.models import Plan, Step
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.types import StepId

_DEFAULT_SECONDS = 1.0


def expected_seconds(
    plan: Plan, tools: Mapping[str, ToolSignature], limits: Limits | None = None
) -> dict[StepId, float]:
    """Return the expected seconds of each step."""
    at_once = limits or Limits()
    return {step.id: _step_seconds(plan, step, tools.get(step.tool), at_once) for step in plan.steps}


def _step_seconds(plan: Plan, step: Step, signature: ToolSignature | None, limits: Limits) -> float:
    once = _DEFAULT_SECONDS if signature is None else signature.expected_seconds
    items = known_items(plan, step) if step.for_each is not None else None
    if items is None:
        return once
    bounds = (
        limits.concurrency,
        limits.tool_concurrency.get(step.tool),
        step.concurrency,
        None if signature is None else signature.concurrency,
    )
    return once * math.ceil(len(items) / min(bound for bound in bounds if bound is not None))
