"""Which step stands for which.

A step that a patch adds may *supersede* a finished one, and stands for it from then on; of steps that supersede each
other in turn the first is the *origin* of the line.
"""

from __future__ import annotations

from wavewright.planner.models import Plan
from wavewright.planner.types import StepId


def superseded_by(plan: Plan) -> dict[StepId, StepId]:
    """Return which step stands for which, in the plan's order."""
    known = {step.id for step in plan.steps}
    return {
        step.supersedes: step.id
        for step in plan.steps
        if step.supersedes is not None and step.supersedes in known and step.supersedes != step.id
    }


def superseding_origins(plan: Plan) -> dict[StepId, StepId]:
    """Return, for each step that supersedes another, the first step of that line."""
    found: dict[StepId, StepId] = {}
    for old, new in superseded_by(plan).items():
        found[new] = found.get(old, old)
    return found
