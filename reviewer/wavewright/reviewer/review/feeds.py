"""Which steps feed which fields of a result, along the plan's graph.

A step *feeds* a field if the field's part of the plan's `result` reads it, or reads what depends on it. A step that
only states the confidence of a field feeds it too, but not by what that step was made of. A field that the plan's
`result` does not name is fed by the outputs that state a confidence of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

from wavewright.planner.language.plan import Plan
from wavewright.planner.plans.graph import PlanGraph, superseded_by
from wavewright.planner.plans.uses import value_reads
from wavewright.planner.types import StepId

Feeders: TypeAlias = Mapping[StepId, StepId | None]
"""The steps that feed a field, each with the next step on its way there; None for one that the field reads."""


def field_feeders(plan: Plan, claimants: Mapping[str, Collection[StepId]]) -> dict[str, Feeders]:
    """Return what feeds each field; a field of which nothing is known is left out.

    Args:
        plan: The bound plan in force.
        claimants: Further fields, each with the terminal steps whose outputs state a confidence of it.
    """
    result = plan.result
    members = result if isinstance(result, dict) else {}
    stated = members.get("confidence")
    found: dict[str, Feeders] = {}
    for field in dict.fromkeys((*members, *claimants)):
        if field == "confidence":
            continue
        claim = stated.get(field) if isinstance(stated, dict) else stated
        told_by = value_reads(claim)
        if field in members:
            feeders = _ways(plan, value_reads(members[field]))
            found[field] = {**dict.fromkeys(told_by, None), **feeders}
        elif result is not None and not members:
            found[field] = _ways(plan, value_reads(result))
        elif told_by:
            found[field] = _ways(plan, told_by)
        elif claimants[field]:
            found[field] = _ways(plan, claimants[field])
    return found


def way_of(feeders: Feeders, step: StepId) -> tuple[StepId, ...]:
    """Return the steps from one that feeds a field to the one that the field reads."""
    way, after = [step], feeders[step]
    while after is not None:
        way.append(after)
        after = feeders[after]
    return tuple(way)


def _ways(plan: Plan, sources: Iterable[StepId]) -> Feeders:
    """Return all that leads to some steps; a step that supersedes another is read in its place."""
    graph, stand_ins = PlanGraph.of(plan), superseded_by(plan)
    found: dict[StepId, StepId | None] = {}
    waiting: list[tuple[StepId, StepId | None]] = [(step, None) for step in sources]
    # The nearest first, so that each way is a shortest one.
    while waiting:
        further: list[tuple[StepId, StepId | None]] = []
        for step, after in waiting:
            if step in found or step not in graph.steps:
                continue
            found[step] = after
            if step in stand_ins:
                further.append((stand_ins[step], after))
            further += [(before, step) for before in graph.dependencies[step]]
        waiting = further
    return found
