"""Egress of data, and the flow of untrusted text.

The *trust boundary* is around the project: a step whose tool has the effect `egress` sends data
over it, and a tool
with untrusted output brings in text from outside. Where that text goes is what the checker follows
(`DataFlow`): a number or a choice carries no text on, nor does order without data (`depends_on`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from wavewright.engine.rehearsal.dry_run.estimates import ModelPrice
from wavewright.planner import Step, StepId
from wavewright.planner.checks.context import CheckContext
from wavewright.planner.checks.data_flow import DataFlow, Reading
from wavewright.planner.plans.uses import step_texts


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
    """Steps that read it themselves, in a parameter or a condition."""
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
    subject: CheckContext,
    *,
    skipped: Collection[StepId],
    silent: Collection[StepId],
    prices: Mapping[str, ModelPrice],
) -> Trust:
    """Return what crosses the boundary.

    Steps that these inputs skip send and bring nothing; silent ones, done already or blocked, do
    nothing more.
    """
    steps = tuple(step for step in subject.plan.steps if step.id not in skipped)
    if skipped:
        subject = replace(subject, plan=subject.plan.model_copy(update={"steps": steps}))
    sending = {step.id for step in steps if "egress" in subject.tools[step.tool].effects} - {
        *silent
    }
    writing = {step.id for step in steps if subject.tools[step.tool].writes} - {*silent}
    flows, carrying = list[UntrustedFlow](), set[StepId]()
    for source in steps:
        signature = subject.tools[source.tool]
        if signature.brings_untrusted:
            later = subject.graph.descendants(source.id)
            flow = DataFlow(subject, {source.id: signature.untrusted}, among={source.id, *later})
            held = {step for step in later if flow.gives_text(step)}
            carrying |= held
            flows.append(_untrusted_flow(source, steps, flow.readings, held, sending | writing))
    egress = (
        _egress_of(step, subject, prices.get(step.tool), is_untrusted=step.id in carrying)
        for step in steps
        if step.id in sending
    )
    return Trust(tuple(egress), tuple(flows))


def _untrusted_flow(
    source: Step,
    steps: Sequence[Step],
    readings: Sequence[Reading],
    held: Collection[StepId],
    acting: Collection[StepId],
) -> UntrustedFlow:
    read = [reading for reading in readings if reading.role != "params" or reading.reads_text]
    reached = {reading.step.id for reading in read}.union(held)
    readers = {reading.step.id for reading in read if reading.origin == source.id}
    return UntrustedFlow(
        step=source.id,
        tool=source.tool,
        read_by=tuple(step.id for step in steps if step.id in readers),
        reaches=tuple(step.id for step in steps if step.id in reached),
        acting_steps=tuple(step.id for step in steps if step.id in reached and step.id in acting),
    )


def _egress_of(
    step: Step, subject: CheckContext, price: ModelPrice | None, *, is_untrusted: bool
) -> Egress:
    graph = subject.graph
    return Egress(
        step=step.id,
        tool=step.tool,
        to="outside" if price is None else f"model {price.model}",
        inputs=_inputs_read(step),
        steps=tuple(dict.fromkeys(name for name in graph.reads[step.id] if name in graph.steps)),
        params=tuple(step.params),
        carries_untrusted=is_untrusted,
    )


def _inputs_read(step: Step) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for text in step_texts(step, 0):
        for read in text.all_reads:
            if read.root == "inputs":
                names[read.name or "all"] = None
    return tuple(names)
