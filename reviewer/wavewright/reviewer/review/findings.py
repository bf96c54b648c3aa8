"""Findings of a review: failed gates and steps without a complete output, and the actions that would fix them.

A *finding* holds all that one gate, or the end of one step, has against a run: the step, its items and the reason.
A failed gate counts until the same gate is evaluated on the step that superseded its own. Items are named by their
*label*: the field that the goal names as a target's identifier (a product's `code`), else a usual identifier field,
else the item itself where it is short, else its position.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from wavewright.executor.events.state import SUCCESSES
from wavewright.executor.events.types import ErrorKind, GateRecord, StepStatus
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Step
from wavewright.planner.plans.binding import recipes_for_gate, template_gate_of
from wavewright.planner.plans.expressions import evaluate, render
from wavewright.planner.types import GateId, GateKind, GateSeverity, Json, JsonObject, StepId, as_list
from wavewright.reviewer.records import Action, RecoveryAction
from wavewright.reviewer.review.results import ReviewedRun
from wavewright.reviewer.values import shorten

_LABEL_KEYS = ("code", "id", "name", "key", "title")


def item_labels(run: ReviewedRun, step_id: StepId) -> tuple[str, ...]:
    """Return the labels of a step's items, in their order; empty where its list can no longer be resolved."""
    items = run.plan.step(step_id).for_each
    if isinstance(items, str):
        variables: JsonObject = {
            "inputs": run.plan.inputs,
            "steps": {name: end.output for name, end in run.state.steps.items() if end.status in SUCCESSES},
        }
        try:
            items = as_list(render(items, lambda expression: evaluate(expression, variables, run.now)))
        except ExpressionError:
            return ()
    key = run.goal.targets.key
    return tuple(_label(item, position, key) for position, item in enumerate(items or []))


def _label(item: Json, position: int, key: str | None) -> str:
    if isinstance(item, dict):
        for name in (key, *_LABEL_KEYS):
            value = item.get(name) if name is not None else None
            if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "":
                return shorten(str(value), 40)
    if isinstance(item, (str, int)) and not isinstance(item, bool) and item != "":
        return shorten(str(item), 40)
    return f"item {position}"


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
    asked: bool = True
    """False for a block gate whose step ended without an output."""
    is_undecided: bool = False
    """Whether no failed record holds a verdict: the gate could not be evaluated, or no judge was configured."""
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


def failed_gates(run: ReviewedRun) -> tuple[FailedGate, ...]:
    """Return the failed gates that count, block gates first, then warnings; each in the plan's order."""
    ends = run.state.steps
    found: list[FailedGate] = []
    for end in (ends[step.id] for step in run.plan.steps if step.id in ends):
        by_gate: dict[GateId, list[GateRecord]] = {}
        for entry in end.gates:
            if entry.has_failed and not _is_asked_again(entry, run):
                by_gate.setdefault(entry.gate, []).append(entry)
        found += [_failed_gate(run, entries) for entries in by_gate.values()]
    return tuple(sorted(found, key=lambda gate: gate.severity != "block"))


def unchecked_gates(run: ReviewedRun) -> tuple[FailedGate, ...]:
    """Return the block gates that should have been evaluated and were not, which counts as failed.

    A gate on a step that was skipped, is optional or was replaced has nothing to evaluate; for a step that failed or
    never ran, the step's own end is the finding.
    """
    steps = {step.id: step for step in run.plan.steps}
    found: list[FailedGate] = []
    for gate in run.plan.gates:
        if gate.on is None or gate.on in run.replaced or gate.judge is not None or gate.severity != "block":
            continue
        step, end = steps.get(gate.on), run.state.steps.get(gate.on)
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
                message="was not evaluated",
                hint=gate.hint,
                template_gate=template_gate_of(gate.id, run.goal),
                asked=False,
            )
        )
    return tuple(found)


def step_problems(run: ReviewedRun) -> tuple[StepProblem, ...]:
    """Return the steps that failed, were blocked or cancelled, never ended or have failed items, in plan order."""
    counted = (step for step in run.plan.steps if step.id not in run.replaced)
    return tuple(end for step in counted for end in _step_problem(run, step))


def _step_problem(run: ReviewedRun, step: Step) -> Iterator[StepProblem]:
    end = run.state.steps.get(step.id)
    if end is None:
        yield StepProblem(step.id, None, step.optional, None, "never ran", None)
        return
    items = run.state.items.get(step.id)
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
        labels=_failed_item_labels(run, step.id, sorted(failed)),
    )


def _is_asked_again(entry: GateRecord, run: ReviewedRun) -> bool:
    """Whether the same gate was evaluated on the step that supersedes the gate's own.

    Only then the old verdict no longer counts; the new records say whether the gate passed.
    """
    successor = run.replaced.get(entry.step)
    end = run.state.steps.get(successor) if successor is not None else None
    return end is not None and any(_template_gate(other) == _template_gate(entry) for other in end.gates)


def _template_gate(entry: GateRecord) -> str:
    return entry.template_gate or entry.gate.partition("__")[0]


def _failed_gate(run: ReviewedRun, entries: list[GateRecord]) -> FailedGate:
    """Return a gate with its failed records on one step."""
    first = entries[0]
    positions = [entry.index for entry in entries if entry.index is not None]
    return FailedGate(
        gate=first.gate,
        step=first.step,
        severity=first.severity,
        kind=first.kind,
        labels=_failed_item_labels(run, first.step, positions),
        message=first.message,
        hint=first.hint,
        template_gate=first.template_gate or template_gate_of(first.gate, run.goal),
        is_undecided=all(entry.verdict == "error" for entry in entries),
        is_unevaluated=first.verdict == "not_evaluated",
    )


def _failed_item_labels(run: ReviewedRun, step_id: StepId, positions: list[int]) -> tuple[str, ...]:
    labels = item_labels(run, step_id) if positions else ()
    return tuple(labels[at] if at < len(labels) else f"item {at}" for at in positions)


_NO_JUDGE_HINT = "configure a model, so that the rubric can be judged"
_LIMIT_HINT = "raise the limit that was reached, under 'limits' in the goal template or the job's overrides"
"""Hint for a cancelled step: a run that was interrupted is resumed before its review, so a limit was reached."""


def recovery_actions(
    gates: Iterable[FailedGate], ends: Iterable[StepProblem], goal: Goal
) -> tuple[RecoveryAction, ...]:
    """Return one action for each failed gate, and for each step that failed by itself."""
    actions = [_gate_action(gate, goal) for gate in gates]
    actions += [action for end in ends for action in _problem_actions(end)]
    return tuple(dict.fromkeys(actions))


def _gate_action(gate: FailedGate, goal: Goal) -> RecoveryAction:
    if gate.kind == "judge" and gate.is_undecided:
        hint = gate.hint or _NO_JUDGE_HINT
        return RecoveryAction(action="configure", step=gate.step, gate=gate.gate, hint=hint)
    recipe = next(recipes_for_gate(goal, gate.gate, gate.template_gate), None)
    if recipe is not None:
        action: Action = "add_step" if recipe.add and not recipe.set_params else "refetch"
        hint = gate.hint or recipe.reason
        return RecoveryAction(action=action, step=gate.step, gate=gate.gate, hint=hint, recipe=recipe.gate)
    action, hint = _default_action(gate.kind)
    return RecoveryAction(action=action, step=gate.step, gate=gate.gate, hint=gate.hint or hint)


def _default_action(kind: GateKind) -> tuple[Action, str]:
    """Return what is done about a failed gate without a recipe, and the hint where the gate has none."""
    match kind:
        case "fresh_within":
            return "refetch", "fetch newer data, or set the job's as_of to the day that the data is of"
        case "required":
            return "refetch", "fetch again, or from a source that has the missing fields"
        case "schema":
            return "refetch", "fetch again, or correct the source whose output breaks the schema"
        case "check":
            return "replace_step", "correct the data that the condition reads, or the condition"
        case "judge":
            return "replace_step", "make the output anew, so that it passes the rubric"


def _problem_actions(end: StepProblem) -> Iterator[RecoveryAction]:
    """Yield the fixes of a step's own failure; a blocked step needs only what blocked it."""
    match end.error:
        case None:
            if end.status in {"cancelled", None}:
                yield RecoveryAction(action="configure", step=end.step, hint=_LIMIT_HINT)
        case "transient" | "timeout":
            hint = end.hint or "call it again later, or allow more attempts or a longer timeout"
            yield RecoveryAction(action="refetch", step=end.step, hint=hint)
        case "cancelled" | "interrupted":
            yield RecoveryAction(action="refetch", step=end.step, hint=end.hint or _LIMIT_HINT)
        case "params" | "expression" | "items":
            hint = end.hint or "correct the step's parameters, or the inputs that they are made from"
            yield RecoveryAction(action="replace_step", step=end.step, hint=hint)
        case "output":
            hint = (
                end.hint or "the tool's output breaks its own schema: correct the source or use another tool"
            )
            yield RecoveryAction(action="replace_step", step=end.step, hint=hint)
        case "tool":
            hint = end.hint or "correct the tool or what it was given; `wavewright logs` shows what it raised"
            yield RecoveryAction(action="provide_input", step=end.step, hint=hint)
        case "refused":
            return  # a person has decided
