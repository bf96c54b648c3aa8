"""Findings of a review: failed gates, steps without a complete output, and which steps feed which
fields of a result.

A *finding* holds all that one gate, or the end of one step, has against a run: the step, its items
and the reason. A failed gate counts until the same gate is evaluated on the step that superseded
its own, and on the items that it failed on.

A step *feeds* a field if the field's part of the plan's `result` reads it, or reads what depends on
it. A step that only states the confidence of a field feeds it too, but not by what that step was
made of. A field that the plan's `result` does not name is fed by the outputs that state a
confidence of it.

Where a field is one of an output whose tool declares the run data that it is made of
(`output_data`), only the steps that have written that data feed it, and not all that the step of
the output depends on. Nothing feeds a field by way of a step whose tool has a confidence of its
own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from wavewright.executor import ErrorKind, GateRecord, ItemFinished, StepStatus
from wavewright.executor.events.state import SUCCESSES, written_data
from wavewright.planner import (
    Plan,
    PlanGraph,
    Step,
    StepId,
    ToolSignatures,
    as_object,
)
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.planner.plans.binding import repoint_step, template_gate_of
from wavewright.planner.plans.graph import superseded_by
from wavewright.planner.plans.uses import value_reads
from wavewright.planner.types import GateId, GateKind, GateSeverity
from wavewright.reviewer.review.items import item_labels, item_subjects, labels_of, rendered
from wavewright.reviewer.review.results import ReviewedRun
from wavewright.reviewer.values import grouped, listing, shorten


@dataclass(frozen=True, slots=True)
class FailedGate:
    """A gate that has not passed, on a step that counts."""

    gate: GateId
    step: StepId
    severity: GateSeverity
    kind: GateKind
    labels: tuple[str, ...]
    """Labels of the items that it failed on; empty where it was evaluated once."""
    message: str
    """The message of the first failed record."""
    hint: str | None
    template_gate: GateId | None
    is_undecided: bool = False
    """Whether no failed record holds a verdict: the gate could not be evaluated, or no judge was
    configured.
    """
    is_unevaluated: bool = False
    """Whether its step had no items to evaluate."""


@dataclass(frozen=True, slots=True)
class StepProblem:
    """A step without an output, or with failed items."""

    step: StepId
    status: StepStatus | None
    """None for a step that never ended."""
    optional: bool
    error: ErrorKind | None
    message: str
    hint: str | None
    labels: tuple[str, ...] = ()
    """Labels of the items that failed."""


@dataclass(frozen=True, slots=True)
class DroppedItems:
    """Items that a step left out which stands for another."""

    step: StepId
    instead_of: StepId
    labels: tuple[str, ...]
    """Labels of the items that are left out, where they are known."""
    kept: int
    total: int
    is_allowed: bool
    """Whether the goal's `may_drop` names the step's tool or one of its gates."""

    @property
    def text(self) -> str:
        """What is left out, in words."""
        named = f": {listing(self.labels, 8)}" if self.labels else ""
        left_out = self.total - self.kept
        return f"{left_out} of {self.total} items of {self.instead_of!r} were left out{named}"


def dropped_items(run: ReviewedRun) -> tuple[DroppedItems, ...]:
    """Return what the steps left out that stand for others, the most of each."""
    by_step: dict[StepId, DroppedItems] = {}
    for old, new in run.replaced.items():
        dropped = _dropped(run, old, new)
        if dropped is not None and (new not in by_step or dropped.kept < by_step[new].kept):
            by_step[new] = dropped
    return tuple(by_step.values())


def _dropped(run: ReviewedRun, old: StepId, new: StepId) -> DroppedItems | None:
    before, after = run.state.steps.get(old), run.state.steps.get(new)
    if before is None or after is None or after.status not in SUCCESSES:
        return None
    if before.items is None:
        # A step that runs once has items all the same where a parameter of it is a list.
        return _dropped_entries(run, old, new)
    total = before.items[1]
    if after.items is None:
        # A step that runs once may stand for all items only where it is another tool's.
        if run.plan.step(old).tool != run.plan.step(new).tool or total <= 1:
            return None
        return DroppedItems(new, old, (), 1, total, _may_drop(run, old, new))
    asked = item_subjects(run, old, old)
    missing = Counter(asked) - Counter(item_subjects(run, new, old))
    # A list as long that asks for other items leaves some out, and so does a shorter one whose items
    # cannot be resolved.
    left_out = max(missing.total(), total - after.items[1])
    if left_out <= 0:
        return None
    kept = max(0, total - left_out)
    allowed = _may_drop(run, old, new)
    if not _may_drop_all(run, old, new):
        # A gate that `may_drop` names permits to leave out what it has stopped, and no other item.
        stopped = Counter[str]()
        for step in (step for step, by in run.replaced.items() if by == new):
            stopped |= Counter(_stopped_items(run, step, old))
        allowed = allowed and left_out == missing.total() and missing <= stopped
    label_of = dict(zip(asked, item_labels(run, old), strict=True))
    labels = tuple(label_of[subject] for subject in missing.elements())
    return DroppedItems(new, old, labels, kept, total, allowed)


def _dropped_entries(run: ReviewedRun, old: StepId, new: StepId) -> DroppedItems | None:
    """Return the entries of a list that the new step is no longer given, though the steps that they
    are read from have them.
    """
    before, after = run.plan.step(old), run.plan.step(new)
    if before.tool != after.tool or before.for_each is not None or after.for_each is not None:
        return None
    # What the old step read may be superseded as well, and is then no fewer for it.
    for stale, fresh in run.replaced.items():
        before = repoint_step(before, stale, fresh)
    for name, value in before.params.items():
        entries, kept = rendered(run, value), rendered(run, after.params.get(name))
        if not isinstance(entries, list) or not isinstance(kept, list):
            continue
        if len(kept) < len(entries):
            missing = Counter(labels_of(run, entries)) - Counter(labels_of(run, kept))
            labels, allowed = tuple(missing.elements()), _may_drop(run, old, new)
            return DroppedItems(new, old, labels, len(kept), len(entries), allowed)
    return None


def _may_drop(run: ReviewedRun, *steps: StepId) -> bool:
    """Whether the goal lets a recovery leave out items of some of these steps."""
    if not run.goal.may_drop:
        return False
    ends = (run.state.steps.get(step) for step in steps)
    records = (record for end in ends if end is not None for record in end.gates)
    return _may_drop_all(run, *steps) or any(_lets_drop(run, record) for record in records)


def _may_drop_all(run: ReviewedRun, *steps: StepId) -> bool:
    """Whether the goal lets a recovery leave out any item of some of these steps."""
    return not run.goal.may_drop.isdisjoint({*steps, *(run.plan.step(step).tool for step in steps)})


def _lets_drop(run: ReviewedRun, record: GateRecord) -> bool:
    """Whether `may_drop` names a gate."""
    return not run.goal.may_drop.isdisjoint({record.gate, _template_gate(record)})


def _stopped_items(run: ReviewedRun, step: StepId, old: StepId) -> list[str]:
    """Return what the items ask for that failed a gate which `may_drop` names, or whose call failed, so
    that the gate could not be evaluated.
    """
    end = run.state.steps.get(step)
    records = end.gates if end is not None else ()
    stopped = {record.index for record in records if record.has_failed and _lets_drop(run, record)}
    items: Mapping[int, ItemFinished] = run.state.items.get(step) or {}
    stopped |= {index for index, item in items.items() if item.error is not None}
    subjects = enumerate(item_subjects(run, step, old))
    return [subject for index, subject in subjects if index in stopped]


def failed_gates(run: ReviewedRun) -> tuple[FailedGate, ...]:
    """Return the failed gates that count, block gates first, then warnings; each in the plan's
    order.
    """
    gates: list[FailedGate] = []
    for step in run.plan.steps:
        end = run.state.steps.get(step.id)
        records = end.gates if end is not None else ()
        failed = [
            record
            for record in records
            if record.has_failed and not _is_evaluated_again(record, run)
        ]
        by_gate = grouped(failed, lambda record: record.gate)
        gates += [_failed_gate(run, records) for records in by_gate.values()]
    return tuple(sorted(gates, key=lambda gate: gate.severity != "block"))


def unchecked_gates(run: ReviewedRun) -> tuple[FailedGate, ...]:
    """Return the block gates that should have been evaluated and were not, which counts as failed.

    A gate on a step that was skipped, is optional or was replaced has nothing to evaluate; for a
    step that failed or never ran, the step's own end is the finding.
    """
    steps = {step.id: step for step in run.plan.steps}
    unchecked: list[FailedGate] = []
    for gate in run.plan.gates:
        # A judge is a model, and without one its gate only warns: code demands no such verdict.
        if gate.severity != "block" or gate.judge is not None:
            continue
        if gate.on is None or gate.on in run.replaced:
            continue
        step, end = steps.get(gate.on), run.state.steps.get(gate.on)
        if step is None or step.optional or end is None or end.status not in SUCCESSES:
            continue
        if any(record.gate == gate.id for record in end.gates):
            continue
        unchecked.append(
            FailedGate(
                gate=gate.id,
                step=gate.on,
                severity="block",
                kind=gate.kind,
                labels=(),
                message="was not evaluated",
                hint=gate.hint,
                template_gate=template_gate_of(gate.id, run.goal),
            )
        )
    return tuple(unchecked)


def step_problems(run: ReviewedRun) -> tuple[StepProblem, ...]:
    """Return the steps that failed, were blocked or cancelled, never ended or have failed items, in
    plan order.
    """
    steps = (step for step in run.plan.steps if step.id not in run.replaced)
    problems = (_step_problem(run, step) for step in steps)
    return tuple(problem for problem in problems if problem is not None)


def _step_problem(run: ReviewedRun, step: Step) -> StepProblem | None:
    end = run.state.steps.get(step.id)
    if end is None:
        return StepProblem(step.id, None, step.optional, None, "never ran", None)
    has_failed_items = end.items is not None and end.items[0] < end.items[1]
    if end.status == "skipped" or (end.status in SUCCESSES and not has_failed_items):
        return None
    items: Mapping[int, ItemFinished] = run.state.items.get(step.id) or {}
    errors = {index: item.error for index, item in sorted(items.items()) if item.error is not None}
    # The step's own error says more of its end than those of its items, and quotes one of them.
    own = end.error
    told = [
        error for error in errors.values() if own is None or not own.message.endswith(error.message)
    ]
    told = told if own is None else [own, *told]
    messages = [*dict.fromkeys(error.message for error in told)]
    hints = dict.fromkeys(error.hint for error in told if error.hint)
    return StepProblem(
        step=step.id,
        status=end.status,
        optional=step.optional,
        error=told[0].kind if told else None,
        message=_reasons(messages) or shorten(end.reason or end.status, 300),
        hint="; ".join([*hints][:_MAX_REASONS]) or None,
        labels=_failed_item_labels(run, step.id, [*errors]),
    )


_MAX_REASONS: Final = 3


def _reasons(messages: Sequence[str]) -> str:
    """Return why items failed: no reason of one of them stands for the others."""
    shown = [shorten(message, 300) for message in messages[:_MAX_REASONS]]
    left = len(messages) - len(shown)
    return "; ".join([*shown, f"and {counted(left, 'other reason')}"] if left else shown)


def _is_evaluated_again(record: GateRecord, run: ReviewedRun) -> bool:
    """Whether the same gate was evaluated on the step that supersedes the gate's own, and on the
    item that it had failed on.

    Only then the old verdict no longer counts; the new records say whether the gate passed. A list
    without the item lifts no gate, unless the goal lets items of it be left out. See
    `docs/explanation/recovery.md`.
    """
    successor = run.replaced.get(record.step)
    end = run.state.steps.get(successor) if successor is not None else None
    if successor is None or end is None:
        return False
    evaluated = {
        newer.index
        for newer in end.gates
        if _template_gate(newer) == _template_gate(record) and newer.verdict != "not_evaluated"
    }
    may_lack = _may_drop_all(run, record.step, successor) or _lets_drop(run, record)
    if record.index is None or may_lack:
        return bool(evaluated)
    subjects = item_subjects(run, record.step, record.step)
    if end.items is None or record.index >= len(subjects):
        return False
    # An item whose call has failed has no record, so that leaves the old verdict.
    failed = subjects[record.index]
    places = enumerate(item_subjects(run, successor, record.step))
    return any(subject == failed and place in evaluated for place, subject in places)


def _template_gate(record: GateRecord) -> str:
    return record.template_gate or record.gate.partition("__")[0]


def _failed_gate(run: ReviewedRun, records: list[GateRecord]) -> FailedGate:
    """Return a gate with its failed records on one step."""
    first = records[0]
    positions = [record.index for record in records if record.index is not None]
    return FailedGate(
        gate=first.gate,
        step=first.step,
        severity=first.severity,
        kind=first.kind,
        labels=_failed_item_labels(run, first.step, positions),
        message=first.message,
        hint=first.hint,
        template_gate=first.template_gate or template_gate_of(first.gate, run.goal),
        is_undecided=all(record.verdict == "error" for record in records),
        is_unevaluated=first.verdict == "not_evaluated",
    )


def _failed_item_labels(run: ReviewedRun, step_id: StepId, positions: list[int]) -> tuple[str, ...]:
    labels = item_labels(run, step_id) if positions else ()
    return tuple(labels[at] if at < len(labels) else f"item {at}" for at in positions)


Feeders: TypeAlias = Mapping[StepId, StepId | None]
"""The steps that feed a field, each with the next step on its way there; None for one that the
field reads.
"""


Writers: TypeAlias = Mapping[StepId, Mapping[str, Collection[StepId]]]
"""By step and field of its output: the steps before it that have written the run data which the
field is made of.
"""


_NO_WRITERS: Final[Writers] = {}
_NO_MAKERS: Final[Mapping[StepId, Collection[StepId]]] = {}
_NO_TOOLS: Final[ToolSignatures] = {}


def confidence_sources(plan: Plan, tools: ToolSignatures) -> dict[StepId, frozenset[StepId]]:
    """Return the steps whose confidence bounds that of each step: all that it depends on, unless it
    has its own.
    """
    own = {name for name, tool in tools.items() if tool.confidence == "own"}
    graph = PlanGraph.of(plan)
    return {
        step.id: frozenset() if step.tool in own else frozenset(graph.dependencies[step.id])
        for step in plan.steps
    }


def data_writers(run: ReviewedRun) -> Writers:
    """Return the writers of the fields that tools declare, as the run has written them."""
    graph = PlanGraph.of(run.plan)
    writers: dict[StepId, dict[str, list[StepId]]] = {}
    for step in run.plan.steps:
        signature = run.tools.get(step.tool)
        if signature is None or not signature.output_data:
            continue
        written = {
            before: {name for data in written_data(run.state, before) for name in data}
            for before in sorted(graph.ancestors(step.id))
        }
        writers[step.id] = {
            field: [before for before, names in written.items() if names & made_of]
            for field, made_of in signature.output_data.items()
        }
    return writers


def field_feeders(
    plan: Plan,
    claimants: Mapping[str, Collection[StepId]],
    writers: Writers = _NO_WRITERS,
    tools: ToolSignatures = _NO_TOOLS,
) -> dict[str, Feeders]:
    """Return what feeds each field; a field of which nothing is known is left out.

    Args:
        plan: The bound plan in force.
        claimants: Further fields, each with the terminal steps whose outputs state a confidence of
            it.
        writers: What is known of the run data that fields of outputs are made of.
        tools: Signatures by name.
    """
    sources = confidence_sources(plan, tools)
    result = plan.result
    members = as_object(result)
    stated = members.get("confidence")
    declared = [field for fields in writers.values() for field in fields]
    by_field: dict[str, Feeders] = {}
    for field in dict.fromkeys((*members, *claimants, *declared)):
        if field == "confidence":
            continue
        claim = stated.get(field) if isinstance(stated, dict) else stated
        stating = value_reads(claim)
        if field in members:
            # A step that only states the confidence of a field feeds it, and nothing before it does.
            feeders = _ways(plan, sources, value_reads(members[field]))
            by_field[field] = {**dict.fromkeys(stating, None), **feeders}
        elif result is not None and not members:
            # The result is made of outputs as wholes; of one that is the result as it is, the
            # tool's word on what its fields are made of counts.
            read = value_reads(result)
            is_output = [f"${{steps.{step}}}" for step in read] == [result]
            known_writers = writers if is_output else _NO_WRITERS
            by_field[field] = _ways_to_field(plan, sources, read, field, known_writers)
        elif stating:
            by_field[field] = _ways(plan, sources, stating)
        elif claimants.get(field):
            by_field[field] = _ways_to_field(plan, sources, claimants[field], field, writers)
    return by_field


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
    """Return all that leads to a field of the outputs of some steps; `sum.size` is made as `sum`
    is.
    """
    makers: dict[StepId, Collection[StepId]] = {}
    for step, fields in writers.items():
        made_by = fields.get(field, fields.get(field.partition(".")[0]))
        if made_by is not None:
            makers[step] = made_by
    ways = dict(_ways(plan, sources, read, makers))
    for step in makers.keys() & ways.keys():
        is_read_itself = ways[step] is None
        if is_read_itself:
            # Who has written the confidence that the output states feeds all of its fields.
            ways = {**dict.fromkeys(writers[step].get("confidence", ()), step), **ways}
    return ways


def _ways(
    plan: Plan,
    sources: Mapping[StepId, Collection[StepId]],
    read: Iterable[StepId],
    makers: Mapping[StepId, Collection[StepId]] = _NO_MAKERS,
) -> Feeders:
    """Return all that leads to steps that are read; a step that supersedes another is read in its
    place.

    To one of these that has `makers`, only those lead; to others, what `sources` says.
    """
    stand_ins = superseded_by(plan)
    ways: dict[StepId, StepId | None] = {}
    waiting: list[tuple[StepId, StepId | None]] = [(step, None) for step in read]
    # The nearest first, so that each way is a shortest one.
    while waiting:
        further: list[tuple[StepId, StepId | None]] = []
        for step, after in waiting:
            if step in ways or step not in sources:
                continue
            ways[step] = after
            if step in stand_ins:
                further.append((stand_ins[step], after))
            # What a tool says of its output's fields is known of an output that is read itself only.
            made_by = makers.get(step) if after is None else None
            before = sources[step] if made_by is None else made_by
            further += [(source, step) for source in before]
        waiting = further
    return ways
