"""Recovery actions: what would mend a finding, in a fixed vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wavewright.planner.goals import Goal, Recipe
from wavewright.reviewer.findings import FailedGate, StepProblem
from wavewright.reviewer.records import Action, RecoveryAction

_FALLBACK_HINTS = {
    "fresh_within": "fetch newer data, or set the job's as_of to the day that the data is of",
    "required": "fetch again, or from a source that has the missing fields",
    "schema": "fetch again, or correct the source whose output breaks the schema",
    "check": "correct the data that the condition looks at, or the condition",
    "judge": "make the output anew, so that it passes the rubric",
}
_NO_JUDGE_HINT = "configure a model, so that the rubric can be judged"
_LIMIT_HINT = "raise the limit that was reached, under 'limits' in the goal template or the job's overrides"
"""A run that was stopped from outside is resumed before anybody reviews it, so what is reviewed met a limit."""
_ACTION_BY_KIND: dict[str, Action] = {
    "fresh_within": "refetch",
    "required": "refetch",
    "schema": "refetch",
    "check": "replace_step",
    "judge": "replace_step",
}


def recipe_for(gate: FailedGate, goal: Goal | None) -> Recipe | None:
    """Return the goal's recipe for a gate, found by its own id or by the template's."""
    if goal is None:
        return None
    wanted = {gate.gate, gate.template_gate, gate.gate.partition("__")[0]}
    return next((recipe for recipe in goal.recipes if recipe.gate in wanted), None)


def recovery_actions(
    gates: Iterable[FailedGate], ends: Iterable[StepProblem], goal: Goal | None
) -> tuple[RecoveryAction, ...]:
    """Return one action for each red gate, and for each step that failed by itself."""
    actions = [_gate_action(gate, goal) for gate in gates]
    actions += [action for end in ends for action in _problem_actions(end)]
    return tuple(dict.fromkeys(actions))


def _gate_action(gate: FailedGate, goal: Goal | None) -> RecoveryAction:
    if gate.kind == "judge" and gate.is_undecided:
        hint = gate.hint or _NO_JUDGE_HINT
        return RecoveryAction(action="configure", step=gate.step, gate=gate.gate, hint=hint)
    recipe = recipe_for(gate, goal)
    hint = gate.hint or (recipe.reason if recipe else _FALLBACK_HINTS[gate.kind])
    if recipe is not None:
        action: Action = "add_step" if recipe.add and not recipe.set_params else "refetch"
        return RecoveryAction(action=action, step=gate.step, gate=gate.gate, hint=hint, recipe=recipe.gate)
    return RecoveryAction(action=_ACTION_BY_KIND[gate.kind], step=gate.step, gate=gate.gate, hint=hint)


def _problem_actions(end: StepProblem) -> Iterator[RecoveryAction]:
    """Yield what would mend a step's own failure; a blocked step needs nothing but what blocked it."""
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
            hint = end.hint or "provide what the tool could not find, or configure it"
            yield RecoveryAction(action="provide_input", step=end.step, hint=hint)
