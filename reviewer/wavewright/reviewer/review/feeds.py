"""Which steps feed which fields of a result, along the plan's graph.

A step *feeds* a field if the field's part of the plan's `result` reads it, or reads what depends on it. A step that
only states the confidence of a field feeds it too, but not by what that step was made of. A field that the plan's
`result` does not name is fed by the outputs that state a confidence of it.

Where a field is one of an output whose tool declares the run data that it is made of (`output_data`), only the steps
that have written that data feed it, and not all that the step of the output depends on. Nothing feeds a field by way of
a step whose tool has a confidence of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeAlias

from wavewright.executor.events.state import RunState, written_data
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.graph import PlanGraph, superseded_by
from wavewright.planner.plans.uses import value_reads
from wavewright.planner.types import StepId, as_object

Feeders: TypeAlias = Mapping[StepId, StepId | None]
"""The steps that feed a field, each with the next step on its way there; None for one that the field reads."""


Writers: TypeAlias = Mapping[StepId, Mapping[str, Collection[StepId]]]
"""By step and field of its output: the steps before it that have written the run data which the field is made of."""


_NO_WRITERS: Final[Writers] = {}
_NO_MAKERS: Final[Mapping[StepId, Collection[StepId]]] = {}
_NO_TOOLS: Final[Mapping[str, ToolSignature]] = {}


def confidence_sources(plan: Plan, tools: Mapping[str, ToolSignature]) -> dict[StepId, frozenset[StepId]]:
    """Return the steps whose confidence bounds that of each step: all that it depends on, unless it has its own."""
    own = {name for name, tool in tools.items() if tool.confidence == "own"}
    graph = PlanGraph.of(plan)
    return {
        step.id: frozenset() if step.tool in own else frozenset(graph.dependencies[step.id])
        for step in plan.steps
    }


def data_writers(plan: Plan, state: RunState, tools: Mapping[str, ToolSignature]) -> Writers:
    """Return the writers of the fields that tools declare, as the run has written them."""
    graph, found = PlanGraph.of(plan), dict[StepId, dict[str, list[StepId]]]()
    for step in plan.steps:
        made_of = tools[step.tool].output_data if step.tool in tools else {}
        before = sorted(graph.ancestors(step.id)) if made_of else []
        written = {one: {name for part in written_data(state, one) for name in part} for one in before}
        if made_of:
            found[step.id] = {
                field: [one for one, names in written.items() if names & made]
                for field, made in made_of.items()
            }
    return found


def field_feeders(
    plan: Plan,
    claimants: Mapping[str, Collection[StepId]],
    writers: Writers = _NO_WRITERS,
    tools: Mapping[str, ToolSignature] = _NO_TOOLS,
) -> dict[str, Feeders]:
    """Return what feeds each field; a field of which nothing is known is left out.

    Args:
        plan: The bound plan in force.
        claimants: Further fields, each with the terminal steps whose outputs state a confidence of it.
        writers: What is known of the run data that fields of outputs are made of.
        tools: Signatures by name.
    """
    sources = confidence_sources(plan, tools)
    result = plan.result
    members = as_object(result)
    stated = members.get("confidence")
    found: dict[str, Feeders] = {}
    declared = [field for fields in writers.values() for field in fields]
    for field in dict.fromkeys((*members, *claimants, *declared)):
        if field == "confidence":
            continue
        claim = stated.get(field) if isinstance(stated, dict) else stated
        told_by = value_reads(claim)
        if field in members:
            feeders = _ways(plan, sources, value_reads(members[field]))
            found[field] = {**dict.fromkeys(told_by, None), **feeders}
        elif result is not None and not members:
            is_output = [f"${{steps.{step}}}" for step in value_reads(result)] == [result]
            found[field] = _ways_to_field(
                plan, sources, value_reads(result), field, writers if is_output else _NO_WRITERS
            )
        elif told_by:
            found[field] = _ways(plan, sources, told_by)
        elif claimants.get(field):
            found[field] = _ways_to_field(plan, sources, claimants[field], field, writers)
    return found


def way_of(feeders: Feeders, step: StepId) -> tuple[StepId, ...]:
    """Return the steps from one that feeds a field to the one that the field reads."""
    way, after = [step], feeders[step]
    while after is not None:
        way.append(after)
        after = feeders[after]
    return tuple(way)


def _ways_to_field(
    plan: Plan,
    sources: Mapping[StepId, Collection[StepId]],
    read: Iterable[StepId],
    field: str,
    writers: Writers,
) -> Feeders:
    """Return all that leads to a field of the outputs of some steps; `sum.size` is made as `sum` is."""
    makers = {
        step: made_by
        for step, fields in writers.items()
        if (made_by := fields.get(field, fields.get(field.partition(".")[0]))) is not None
    }
    found = dict(_ways(plan, sources, read, makers))
    for step in makers.keys() & found.keys():
        if found[step] is None:
            found = {**dict.fromkeys(writers[step].get("confidence", ()), step), **found}
    return found


def _ways(
    plan: Plan,
    sources: Mapping[StepId, Collection[StepId]],
    read: Iterable[StepId],
    makers: Mapping[StepId, Collection[StepId]] = _NO_MAKERS,
) -> Feeders:
    """Return all that leads to steps that are read; a step that supersedes another is read in its place.

    To one of these that has `makers`, only those lead; to others, what `sources` says.
    """
    stand_ins = superseded_by(plan)
    found: dict[StepId, StepId | None] = {}
    waiting: list[tuple[StepId, StepId | None]] = [(step, None) for step in read]
    # The nearest first, so that each way is a shortest one.
    while waiting:
        further: list[tuple[StepId, StepId | None]] = []
        for step, after in waiting:
            if step in found or step not in sources:
                continue
            found[step] = after
            if step in stand_ins:
                further.append((stand_ins[step], after))
            made_by = makers.get(step) if after is None else None
            before = sources[step] if made_by is None else made_by
            further += [(one, step) for one in before]
        waiting = further
    return found
