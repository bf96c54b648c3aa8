"""Egress of data, and the flow of untrusted text.

The *trust boundary* is around the project: a step whose tool has the effect `egress` sends data over it, and a tool
with untrusted output brings in text from outside. Both follow from the tools' signatures and from what expressions
read; order without data (`depends_on`) carries nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from wavewright.engine.dry_run.estimates import ModelPrice
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.plans.uses import step_texts
from wavewright.planner.types import StepId


@dataclass(frozen=True, slots=True)
class Egress:
    """A step that sends data out of the run."""

    step: StepId
    tool: str
    to: str
    """`model PROVIDER:NAME`, or `outside` if only the tool knows."""
    inputs: tuple[str, ...]
    """Inputs that are sent."""
    steps: tuple[StepId, ...]
    """Steps whose outputs are sent."""
    params: tuple[str, ...]
    """Names of the parameters that it sends."""
    carries_untrusted: bool
    """Whether it contains untrusted text, also by way of other steps."""


@dataclass(frozen=True, slots=True)
class UntrustedFlow:
    """A step with untrusted output, and the steps that read it."""

    step: StepId
    tool: str
    read_by: tuple[StepId, ...]
    """Steps that read it themselves."""
    reaches: tuple[StepId, ...]
    """All steps that it reaches, also by way of others; in the plan's order."""
    acting_steps: tuple[StepId, ...]
    """Of these: steps that will write or send."""


@dataclass(frozen=True, slots=True)
class Trust:
    """What crosses the trust boundary of one plan."""

    egress: tuple[Egress, ...] = ()
    untrusted: tuple[UntrustedFlow, ...] = ()


def judge_trust(
    plan: Plan,
    graph: PlanGraph,
    tools: Mapping[str, ToolSignature],
    *,
    skipped: Collection[StepId],
    silent: Collection[StepId],
    prices: Mapping[str, ModelPrice],
) -> Trust:
    """Return what crosses the boundary.

    Steps that these inputs skip send and bring nothing; silent ones, done already or blocked, do nothing more.
    """
    steps = [step for step in plan.steps if step.id not in skipped]
    readers = _readers(graph, frozenset(step.id for step in steps))
    acting = {
        step.id for step in steps if tools[step.tool].effects & {"write", "egress"} and step.id not in silent
    }
    flows = tuple(
        _untrusted_flow(step, steps, readers, acting) for step in steps if tools[step.tool].untrusted_output
    )
    tainted = {step_id for flow in flows for step_id in flow.reaches}
    egress = tuple(
        _egress_of(step, graph, prices.get(step.tool), is_tainted=step.id in tainted)
        for step in steps
        if "egress" in tools[step.tool].effects and step.id not in silent
    )
    return Trust(egress, flows)


def _readers(graph: PlanGraph, steps: frozenset[StepId]) -> dict[StepId, list[StepId]]:
    readers: dict[StepId, list[StepId]] = {}
    for reader, read in graph.reads.items():
        if reader in steps:
            for name in dict.fromkeys(read):
                readers.setdefault(name, []).append(reader)
    return readers


def _untrusted_flow(
    source: Step,
    steps: list[Step],
    readers: Mapping[StepId, list[StepId]],
    acting: Collection[StepId],
) -> UntrustedFlow:
    reached: set[StepId] = set()
    waiting = list(readers.get(source.id, ()))
    while waiting:
        step_id = waiting.pop()
        if step_id not in reached:
            reached.add(step_id)
            waiting += readers.get(step_id, ())
    ordered = tuple(step for step in steps if step.id in reached) if reached else ()
    return UntrustedFlow(
        step=source.id,
        tool=source.tool,
        read_by=tuple(readers.get(source.id, ())),
        reaches=tuple(step.id for step in ordered),
        acting_steps=tuple(step.id for step in ordered if step.id in acting),
    )


def _egress_of(step: Step, graph: PlanGraph, price: ModelPrice | None, *, is_tainted: bool) -> Egress:
    return Egress(
        step=step.id,
        tool=step.tool,
        to="outside" if price is None else f"model {price.model}",
        inputs=_inputs_read(step),
        steps=tuple(dict.fromkeys(name for name in graph.reads[step.id] if name in graph.steps)),
        params=tuple(step.params),
        carries_untrusted=is_tainted,
    )


def _inputs_read(step: Step) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for text in step_texts(step, 0):
        for read in text.reads.values():
            if not isinstance(read, ExpressionError):
                found |= {one.name or "all": None for one in read if one.root == "inputs"}
    return tuple(found)
