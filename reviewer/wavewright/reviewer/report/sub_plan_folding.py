"""The pictures of a plan: whole, and with each sub-plan folded into the step that calls it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from wavewright.planner import StepId
from wavewright.reviewer.records import StepReport
from wavewright.reviewer.report.plan_picture import MAX_DRAWN, PlanPicture, draw_plan

Drawings: TypeAlias = Literal["both", "folded", "open"]
"""Which pictures of a plan with sub-plans are wanted."""
_FIRST_TO_SEE = (
    "failed",
    "blocked",
    "asking",
    "running",
    "cancelled",
    "ready",
    "waiting",
    "not_run",
)
"""Of the standings of a sub-plan's steps, that of the whole."""


@dataclass(frozen=True, slots=True)
class DrawnPlan:
    """One picture, with what its boxes show."""

    picture: PlanPicture
    failed_gate_steps: Mapping[StepId, str]
    hidden: int = 0
    """Steps of sub-plans that it does not show."""
    shows_sub_plans: bool = False
    """Whether it shows steps of sub-plans that could be folded."""


def draw_plans(
    log: Sequence[StepReport],
    failed_gate_steps: Mapping[StepId, str],
    drawings: Drawings = "both",
) -> list[DrawnPlan]:
    """Return the picture with sub-plans folded, if there are any, and that of all steps; none of a
    huge plan.

    Without sub-plans that is one picture, whichever is wanted.
    """
    if len(log) > MAX_DRAWN:
        return []
    callers = _callers(log)
    folded = _fold_sub_plans(log, callers) if callers else None
    if folded is None or drawings == "open":
        return [DrawnPlan(draw_plan(log), failed_gate_steps, shows_sub_plans=folded is not None)]
    gates = defaultdict[StepId, str](str)
    for step, severity in failed_gate_steps.items():
        caller = callers.get(step, step)
        gates[caller] = "block" if "block" in (severity, gates[caller]) else severity
    closed = DrawnPlan(draw_plan(folded), gates, len(log) - len(folded))
    if drawings == "folded":
        return [closed]
    return [closed, DrawnPlan(draw_plan(log), failed_gate_steps, shows_sub_plans=True)]


def _fold_sub_plans(
    log: Sequence[StepReport], callers: Mapping[StepId, StepId]
) -> list[StepReport] | None:
    """Return a log with one entry for each sub-plan, in the waves that follow; None where that has
    no order.

    Args:
        log: The execution log.
        callers: The step that calls the sub-plan, by each of its steps.
    """
    import networkx as nx  # few plans have sub-plans

    groups: dict[StepId, list[StepReport]] = {}
    graph: nx.DiGraph[StepId] = nx.DiGraph()
    for entry in log:
        name = callers.get(entry.id, entry.id)
        groups.setdefault(name, []).append(entry)
        graph.add_node(name)
        sources = {callers.get(source, source) for source in entry.depends_on} - {name}
        graph.add_edges_from((source, name) for source in sources)
    try:
        generations = list(nx.topological_generations(graph))
    except nx.NetworkXUnfeasible:
        # A step outside reads one in the middle of a sub-plan, and one further on reads it.
        return None
    waves = {name: number for number, names in enumerate(generations, 1) for name in names}
    return [
        _folded(name, entries, waves[name], tuple(graph.predecessors(name)))
        for name, entries in groups.items()
    ]


def _callers(log: Sequence[StepReport]) -> dict[StepId, StepId]:
    ids = {entry.id for entry in log}
    callers: dict[StepId, StepId] = {}
    for entry in log:
        parts = entry.id.split(".")
        above = (StepId(".".join(parts[:length])) for length in range(1, len(parts)))
        caller = next((name for name in above if name in ids), None)
        if caller is not None:
            callers[entry.id] = caller
    return callers


def _folded(
    name: StepId, entries: Sequence[StepReport], wave: int, sources: tuple[StepId, ...]
) -> StepReport:
    own = next(entry for entry in entries if entry.id == name)
    update: dict[str, object] = {"wave": wave, "depends_on": sources}
    if len(entries) > 1:
        ends = {entry.status for entry in entries}
        update |= {
            "tool": f"{len(entries) - 1} steps",
            "status": next((status for status in _FIRST_TO_SEE if status in ends), own.status),
            "seconds": sum(entry.seconds for entry in entries),
        }
    return own.model_copy(update=update)
