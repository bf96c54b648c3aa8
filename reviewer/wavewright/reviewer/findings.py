"""What keeps a run from being good, in the plan's own names.

A *finding* gathers all that one gate, or one step's end, has against a run: the step, the items by their key (a
stock's code, say), and the reason. Findings become missing data, recovery actions and the review's summary. A red
gate counts until the very same gate is green on the step that superseded its own.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

from wavewright.executor.events import ErrorKind, GateRecord, StepFinished, StepStatus
from wavewright.executor.state import SUCCESSES, RunState
from wavewright.planner.binding import template_gate_of
from wavewright.planner.goals import Goal
from wavewright.planner.models import Plan, Step
from wavewright.planner.types import GateId, GateSeverity, StepId
from wavewright.reviewer.evidence import superseded_steps
from wavewright.reviewer.items import item_labels
from wavewright.reviewer.values import shorten


@dataclass(frozen=True, slots=True)
class FailedGate:
    """A gate that is not green on a step that counts."""

    gate: GateId
    step: StepId
    severity: GateSeverity
    kind: str
    labels: tuple[str, ...]
    """Items it is red on, by their key; empty where it was asked once."""
    message: str
    """Of the first record that is red."""
    hint: str | None
    template_gate: GateId | None
    asked: bool = True
    """False for a block gate whose step ended without an output to look at."""
    is_undecided: bool = False
    """Whether none of its red records is a verdict: the gate could not be asked, or nobody could judge it."""
    is_unevaluated: bool = False
    """Whether there was no item to ask it about."""


@dataclass(frozen=True, slots=True)
class StepProblem:
    """A step that brought nothing, or not all."""

    step: StepId
    status: StepStatus | None
    """None for a step that never ended."""
    optional: bool
    error: ErrorKind | None
    message: str
    hint: str | None
    labels: tuple[str, ...] = ()
    """Items that failed, by their key."""


def failed_gates(plan: Plan, goal: Goal, state: RunState, now: dt.datetime) -> tuple[FailedGate, ...]:
    """Return the red gates that count, block gates first, then warnings; each in the plan's order."""
    replaced = superseded_steps(plan)
    found: list[FailedGate] = []
    for end in (state.steps[step.id] for step in plan.steps if step.id in state.steps):
        by_gate: dict[GateId, list[GateRecord]] = {}
        for entry in end.gates:
            if entry.has_failed and not _is_asked_again(entry, replaced, state):
                by_gate.setdefault(entry.gate, []).append(entry)
        for gate_id, entries in by_gate.items():
            found.append(_failed_gate(plan, goal, state, now, gate_id, entries))
    return tuple(sorted(found, key=lambda gate: gate.severity != "block"))


def unchecked_gates(plan: Plan, goal: Goal, state: RunState) -> tuple[FailedGate, ...]:
    """Return the block gates that should have been asked and were not: one that nobody asked is not green.

    A gate on a step that was skipped, is optional or was replaced has nothing to look at; one on a step that failed
    or never ran is told by that step's own end.
    """
    replaced = superseded_steps(plan)
    steps = {step.id: step for step in plan.steps}
    found: list[FailedGate] = []
    for gate in plan.gates:
        if gate.on is None or gate.on in replaced or gate.judge is not None or gate.severity != "block":
            continue
        step, end = steps.get(gate.on), state.steps.get(gate.on)
        if step is None or step.optional or end is None or end.status not in SUCCESSES:
            continue
        if any(entry.gate == gate.id for entry in end.gates):
            continue
        found.append(
            FailedGate(
                gate=gate.id,
                step=gate.on,
                severity="block",
                kind=gate.kind,
                labels=(),
                message="was not asked",
                hint=gate.hint,
                template_gate=template_gate_of(gate.id, goal),
                asked=False,
            )
        )
    return tuple(found)


def step_problems(plan: Plan, goal: Goal, state: RunState, now: dt.datetime) -> tuple[StepProblem, ...]:
    """Return the steps that failed, were blocked or cancelled, never ended, or lost items; in the plan's order."""
    replaced = superseded_steps(plan)
    return tuple(
        end
        for step in plan.steps
        if step.id not in replaced
        for end in _step_problem(plan, goal, state, now, step, state.steps.get(step.id))
    )


def _step_problem(
    plan: Plan, goal: Goal, state: RunState, now: dt.datetime, step: Step, end: StepFinished | None
) -> Iterator[StepProblem]:
    if end is None:
        yield StepProblem(step.id, None, step.optional, None, "never ran", None)
        return
    items = state.items.get(step.id)
    failed = {index: item.error for index, item in items.items() if item.error is not None} if items else {}
    lost_items = end.items is not None and end.items[0] < end.items[1]
    if end.status == "skipped" or (end.status in SUCCESSES and not lost_items):
        return
    first = end.error or next((failed[index] for index in sorted(failed)), None)
    yield StepProblem(
        step=step.id,
        status=end.status,
        optional=step.optional,
        error=first.kind if first else None,
        message=shorten((first.message if first else None) or end.reason or end.status, 300),
        hint=first.hint if first else None,
        labels=_failed_item_labels(plan, goal, state, now, step.id, sorted(failed)),
    )


def _is_asked_again(entry: GateRecord, replaced: dict[StepId, StepId], state: RunState) -> bool:
    """Whether the step that supersedes the gate's own was asked the same gate.

    Only then does the old verdict no longer count; whether the new one is green is told by its own records.
    """
    successor = replaced.get(entry.step)
    end = state.steps.get(successor) if successor is not None else None
    return end is not None and any(_template_gate(other) == _template_gate(entry) for other in end.gates)


def _template_gate(entry: GateRecord) -> str:
    return entry.template_gate or entry.gate.partition("__")[0]


def _failed_gate(
    plan: Plan,
    goal: Goal,
    state: RunState,
    now: dt.datetime,
    gate_id: GateId,
    entries: list[GateRecord],
) -> FailedGate:
    first = entries[0]
    positions = [entry.index for entry in entries if entry.index is not None]
    return FailedGate(
        gate=gate_id,
        step=first.step,
        severity=first.severity,
        kind=first.kind,
        labels=_failed_item_labels(plan, goal, state, now, first.step, positions),
        message=first.message,
        hint=first.hint,
        template_gate=first.template_gate or template_gate_of(gate_id, goal),
        is_undecided=all(entry.verdict == "error" for entry in entries),
        is_unevaluated=first.verdict == "not_evaluated",
    )


def _failed_item_labels(
    plan: Plan, goal: Goal, state: RunState, now: dt.datetime, step_id: StepId, positions: list[int]
) -> tuple[str, ...]:
    if not positions:
        return ()
    labels = item_labels(plan, goal, state, now, step_id)
    return tuple(labels[at] if at < len(labels) else f"item {at}" for at in positions)
