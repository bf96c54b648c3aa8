"""What recovery may see of a run.

The *recovery view* holds ids of steps and gates, statuses, kinds of errors, positions and names of
fields: values that the plan, the goal or this program defines. No field can hold text from a tool,
a document or another model, so none of those can influence a patch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from wavewright.executor import ErrorKind, PlanAccepted, RunState, StepStatus
from wavewright.executor.events.json_values import is_empty
from wavewright.executor.events.state import SUCCESSES
from wavewright.planner import Gate, Goal, Json, Plan, Step, StepId
from wavewright.planner.plans.let_and_stop import in_authors_words
from wavewright.planner.types import GateId, GateKind
from wavewright.reviewer.records import Action, DemandKind, ReviewResult
from wavewright.reviewer.review.findings import FailedGate, failed_gates
from wavewright.reviewer.review.results import ReviewedRun
from wavewright.reviewer.values import look_up

_MAX_ITEMS = 50


@dataclass(frozen=True, slots=True)
class StepEndView:
    """How a step ended, without its output."""

    step: StepId
    status: StepStatus | None
    error: ErrorKind | None
    items: tuple[int, int] | None = None
    """Succeeded and total items, for a `for_each` step."""
    failed_items: tuple[FailedItemView, ...] = ()
    """The items whose calls failed, at most 50."""


@dataclass(frozen=True, slots=True)
class FailedItemView:
    """An item of a `for_each` step whose call failed."""

    item: int
    """Its position, from 0."""
    error: ErrorKind | None


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
    condition: str = ""
    """The gate's condition, as the plan or the goal writes it."""


@dataclass(frozen=True, slots=True)
class RequestedActionView:
    """An action that a review requests: from the vocabulary, on a step of the plan, by a tool of
    the goal.
    """

    action: Action
    step: StepId | None
    tool: str | None
    kind: DemandKind | None = None
    """What is wrong with the output of the step."""
    fields: tuple[str, ...] = ()
    """Fields that it is about, as tools and plan name them."""
    gate: GateId | None = None


@dataclass(frozen=True, slots=True)
class EarlierPatchView:
    """An earlier patch of the run: what it changed and how its steps ended."""

    round: int
    steps: tuple[tuple[str, str, str, str], ...]
    """Of each step: its id, its tool, the step that it superseded, and its status."""
    failed_gates: tuple[GateId, ...]
    """Gates that its steps failed."""


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
    """What a recovery planner may see of a run, besides the approved plan and the goal.

    The example goes on from that of `review_by_code`.

    >>> from wavewright.reviewer import view_for_recovery
    >>> view_for_recovery(plan, goal, run.state).failed_gates
    ()
    """

    round: int
    steps: tuple[StepEndView, ...]
    failed_gates: tuple[FailedGateView, ...]
    wanted: tuple[RequestedActionView, ...] = ()
    feedback: FeedbackView | None = None
    """The rejection of a package, if this recovery follows one."""
    missing: int = 0
    """How many things a review finds missing from the result."""
    earlier: tuple[EarlierPatchView, ...] = ()

    @property
    def has_anything_to_recover(self) -> bool:
        """Whether a gate or a step failed, an action is requested, something is missing, or a package
        was rejected.
        """
        failed = any(step.status not in {*SUCCESSES, "skipped"} for step in self.steps)
        asked = bool(self.failed_gates or self.wanted or self.missing)
        return asked or self.feedback is not None or failed


def view_for_recovery(
    plan: Plan, goal: Goal, state: RunState, review: ReviewResult | None = None
) -> RecoveryView:
    """Return the view: step statuses in the plan's order, failed block gates that count, and
    requested actions.

    The example goes on from that of `review_by_code`.

    >>> from wavewright.reviewer import view_for_recovery
    >>> [step.status for step in view_for_recovery(plan, goal, run.state).steps]
    ['ok']
    """
    gates = {gate.id: gate for gate in plan.gates}
    in_words = in_authors_words(plan)
    return RecoveryView(
        state.round,
        tuple(_step_end(step, state) for step in plan.steps),
        tuple(
            _failed_gate(failed, gates[failed.gate], state, in_words)
            for failed in failed_gates(ReviewedRun(plan, goal, state, {}))
            if failed.severity == "block" and failed.gate in gates
        ),
        tuple(_requested_actions(plan, goal, review)),
        missing=0 if review is None else len(review.missing_data),
        earlier=tuple(_earlier_patches(plan, state)),
    )


def _step_end(step: Step, state: RunState) -> StepEndView:
    end = state.steps.get(step.id)
    if end is None:
        return StepEndView(step.id, None, None)
    failed = [
        FailedItemView(item.index, item.error.kind if item.error else None)
        for _, item in sorted(state.items.get(step.id, {}).items())
        if item.status not in SUCCESSES
    ]
    return StepEndView(
        step.id,
        end.status,
        end.error.kind if end.error else None,
        end.items,
        tuple(failed[:_MAX_ITEMS]),
    )


def _failed_gate(
    failed: FailedGate, gate: Gate, state: RunState, in_words: Callable[[str], str]
) -> FailedGateView:
    return FailedGateView(
        failed.gate,
        failed.template_gate,
        failed.step,
        gate.kind,
        _failed_items(state, failed.step, failed.gate),
        tuple(_missing_fields(gate, state, failed.step)),
        in_words(gate.check or ""),
    )


def _earlier_patches(plan: Plan, state: RunState) -> Iterator[EarlierPatchView]:
    """Yield the earlier patches, by what they added: each step is still in the plan."""
    steps = {step.id: step for step in plan.steps}
    for before, after in pairwise(state.plans):
        old_steps = _step_ids(before)
        added = [
            steps[name] for name in _step_ids(after) if name not in old_steps and name in steps
        ]
        step_ends: list[tuple[str, str, str, str]] = []
        gates: list[GateId] = []
        for step in added:
            end = state.steps.get(step.id)
            status = "never ran" if end is None else end.status
            step_ends.append((step.id, step.tool, step.supersedes or "", status))
            if end is not None:
                gates += [record.gate for record in end.gates if record.has_failed]
        yield EarlierPatchView(after.round, tuple(step_ends), tuple(dict.fromkeys(gates)))


def _step_ids(accepted: PlanAccepted) -> list[StepId]:
    return [step.id for step in Plan.model_validate(accepted.plan).steps]


def _failed_items(state: RunState, step: StepId, gate: GateId) -> tuple[int, ...]:
    failed = [record for record in state.steps[step].gates if record.has_failed]
    items = [record.index for record in failed if record.gate == gate and record.index is not None]
    return tuple(items[:_MAX_ITEMS])


def _missing_fields(gate: Gate, state: RunState, step: StepId) -> Iterator[str]:
    """Yield the fields, as the gate names them, that some output of the step lacks."""
    output = state.steps[step].output
    outputs: list[Json] = output if isinstance(output, list) else [output]
    for name in gate.required or ():
        path = name.split(".")
        values = [looked_up for entry in outputs for looked_up in look_up(entry, path)]
        if any(not is_there or is_empty(value) for _place, value, is_there in values):
            yield name


def _requested_actions(
    plan: Plan, goal: Goal, review: ReviewResult | None
) -> Iterator[RequestedActionView]:
    if review is None:
        return
    steps = {step.id for step in plan.steps}
    # A model may repeat in a field's name what it has read; only the plan's own words pass.
    known = {*_NAME.findall(plan.model_dump_json()), *_NAME.findall(str(goal.output_schema))}
    views: list[RequestedActionView] = []
    for action in review.recovery_actions:
        if action.origin != "model":
            continue
        if action.step is not None and action.step not in steps:
            continue
        if action.tool is not None and action.tool not in goal.tool_names:
            continue
        fields = tuple(name for name in action.fields if known.issuperset(_NAME.findall(name)))
        views.append(
            RequestedActionView(
                action.action, action.step, action.tool, action.kind, fields, action.gate
            )
        )
    yield from dict.fromkeys(views)


_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
