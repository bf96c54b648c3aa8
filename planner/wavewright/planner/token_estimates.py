"""What the models that a plan calls may take, before any of it ran.

An *estimate* is the sum of what the tools say that one call takes, times the items where a step runs once an item.
Where the number of items is known to nobody yet, one is counted, and the estimate says *at least*.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from wavewright.planner.known_values import known_items
from wavewright.planner.models import Plan, Step
from wavewright.planner.replacements import superseded_by
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.types import StepId

_NO_ITEMS_DONE: Final[Mapping[StepId, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class StepEstimate:
    """What one step may take."""

    step: StepId
    number: int
    """Its place in the plan."""
    calls: int
    """Of the tool; each asks a model at least once."""
    tokens: int
    """Read and written, of all its calls."""
    is_lower_bound: bool
    """Whether the number of its items is not known yet."""


@dataclass(frozen=True, slots=True)
class PlanEstimate:
    """What a plan may take; steps that ask no model are left out."""

    steps: tuple[StepEstimate, ...] = ()

    @property
    def calls(self) -> int:
        """Calls of tools that ask models."""
        return sum(step.calls for step in self.steps)

    @property
    def tokens(self) -> int:
        """Tokens, read and written."""
        return sum(step.tokens for step in self.steps)

    @property
    def is_lower_bound(self) -> bool:
        """Whether a step's number of items is not known yet."""
        return any(step.is_lower_bound for step in self.steps)


def estimate_plan_tokens(
    plan: Plan,
    tools: Mapping[str, ToolSignature],
    *,
    finished: Collection[StepId] = frozenset(),
    items_done: Mapping[StepId, int] = _NO_ITEMS_DONE,
) -> PlanEstimate:
    """Return what the steps of a plan may take that are still to run.

    Args:
        plan: The plan.
        tools: Signatures; a step whose tool is not among them counts as nothing.
        finished: Steps that have run. One that another step supersedes does not run again either.
        items_done: Of steps that run once an item and have not ended, how many items have run.
    """
    done = {*finished, *superseded_by(plan)}
    found: list[StepEstimate] = []
    for number, step in enumerate(plan.steps):
        signature = tools.get(step.tool)
        if signature is None or not signature.expected_tokens or step.id in done:
            continue
        known = _call_count(plan, step)
        calls = 1 if known is None else max(0, known - items_done.get(step.id, 0))
        found.append(StepEstimate(step.id, number, calls, signature.expected_tokens * calls, known is None))
    return PlanEstimate(tuple(found))


def _call_count(plan: Plan, step: Step) -> int | None:
    """Return how many calls a step makes; None where that depends on an output."""
    if step.for_each is None:
        return 1
    items = known_items(plan, step)
    return None if items is None else len(items)
