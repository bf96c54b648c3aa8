"""The recovery view: the part of a run's state that recipes and recovery planners may see.

It holds ids of steps and gates, statuses, kinds of errors, positions and names of fields: values that the plan, the
goal or this program defines. No field can hold text from a tool, a document or another model, so none of those can
influence a patch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wavewright.executor.events.state import SUCCESSES, RunState
from wavewright.executor.events.types import ErrorKind, StepStatus
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Gate, Plan
from wavewright.planner.types import GateId, GateKind, Json, StepId
from wavewright.reviewer.records import Action, ReviewResult
from wavewright.reviewer.review.by_code import run_instant
from wavewright.reviewer.review.findings import failed_gates
from wavewright.reviewer.values import is_empty, look_up

_MAX_ITEMS = 50


@dataclass(frozen=True, slots=True)
class StepEndView:
    """How a step ended, without its output."""

    step: StepId
    status: StepStatus | None
    error: ErrorKind | None
    items: tuple[int, int] | None = None
    """Succeeded and total items, for a `for_each` step."""


@dataclass(frozen=True, slots=True)
class FailedGateView:
    """A failed block gate: which, where and of what kind."""

    gate: GateId
    template_gate: GateId | None
    step: StepId
    kind: GateKind
    items: tuple[int, ...] = ()
    """Positions of the items that it failed on, at most 50; empty where it was evaluated once."""
    missing: tuple[str, ...] = ()
    """Fields that the gate requires and that are missing."""


@dataclass(frozen=True, slots=True)
class RequestedActionView:
    """An action that a review requests: from the vocabulary, on a step of the plan, by a tool of the goal."""

    action: Action
    step: StepId | None
    tool: str | None


@dataclass(frozen=True, slots=True)
class FeedbackView:
    """The rejection of a package, without its texts, which only steps read."""

    package: int
    """Number of the package within the job, from 1."""
    remarks: int
    """Number of texts."""
    recipes: tuple[int, ...] = ()
    """Which of the goal's recipes are for some of the texts: their numbers, from 0."""


@dataclass(frozen=True, slots=True)
class RecoveryView:
    """What a recovery planner may see of a run, besides the approved plan and the goal."""

    round: int
    steps: tuple[StepEndView, ...]
    failed_gates: tuple[FailedGateView, ...]
    wanted: tuple[RequestedActionView, ...] = ()
    feedback: FeedbackView | None = None
    """The rejection of a package, if this recovery follows one."""

    @property
    def has_anything_to_recover(self) -> bool:
        """Whether a gate or a step failed, an action is requested, or a package was rejected."""
        failed = any(step.status not in {*SUCCESSES, "skipped"} for step in self.steps)
        return bool(self.failed_gates or self.wanted) or self.feedback is not None or failed


def view_for_recovery(
    plan: Plan, goal: Goal, state: RunState, review: ReviewResult | None = None
) -> RecoveryView:
    """Return the view: step statuses in the plan's order, failed block gates that count, and requested actions."""
    steps: list[StepEndView] = []
    for step in plan.steps:
        end = state.steps.get(step.id)
        error = end.error.kind if end and end.error else None
        steps.append(StepEndView(step.id, end.status if end else None, error, end.items if end else None))
    gates = {gate.id: gate for gate in plan.gates}
    gate_views = tuple(
        FailedGateView(
            found.gate,
            found.template_gate,
            found.step,
            gates[found.gate].kind,
            _failed_items(state, found.step, found.gate),
            tuple(_missing_fields(gates[found.gate], state, found.step)),
        )
        for found in failed_gates(plan, goal, state, run_instant(state))
        if found.severity == "block" and found.gate in gates
    )
    return RecoveryView(state.round, tuple(steps), gate_views, tuple(_requested_actions(plan, goal, review)))


def _failed_items(state: RunState, step: StepId, gate: GateId) -> tuple[int, ...]:
    records = state.steps[step].gates
    found = [
        entry.index
        for entry in records
        if entry.gate == gate and entry.has_failed and entry.index is not None
    ]
    return tuple(found[:_MAX_ITEMS])


def _missing_fields(gate: Gate, state: RunState, step: StepId) -> Iterator[str]:
    """Yield the fields, as the gate names them, that some output of the step lacks."""
    output = state.steps[step].output
    outputs: list[Json] = output if isinstance(output, list) else [output]
    for name in gate.required or ():
        if any(
            not found or is_empty(value)
            for entry in outputs
            for _place, value, found in look_up(entry, name.split("."))
        ):
            yield name


def _requested_actions(plan: Plan, goal: Goal, review: ReviewResult | None) -> Iterator[RequestedActionView]:
    if review is None:
        return
    steps = {step.id for step in plan.steps}
    wanted = [action for action in review.recovery_actions if action.origin == "model"]
    views = (RequestedActionView(action.action, action.step, action.tool) for action in wanted)
    for view in dict.fromkeys(views):
        if (view.step is None or view.step in steps) and (view.tool is None or view.tool in goal.tool_names):
            yield view
