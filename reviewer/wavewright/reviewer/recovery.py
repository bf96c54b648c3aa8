"""Recovery without a model: from red gates, through the template's recipes, to a patch.

A *recipe* says what to try when a gate is red. It decides on a *recovery view* and nothing else, so no text from
outside can reach a patch. A patch only adds: a finished step is superseded, never changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from wavewright.executor.state import SUCCESSES, RunState
from wavewright.planner.goals import Goal, Recipe
from wavewright.planner.graph import PlanGraph
from wavewright.planner.hashing import plan_hash
from wavewright.planner.models import AddStep, Gate, Plan, PlanPatch, Step
from wavewright.planner.patches import patch_fingerprint
from wavewright.planner.types import GATE_ID_SEPARATOR, GateId, StepId
from wavewright.reviewer.records import ReviewResult
from wavewright.reviewer.recovery_view import (
    FailedGateView,
    RecoveryView,
    RequestedActionView,
    StepEndView,
    view_for_recovery,
)

__all__ = [
    "FailedGateView",
    "RecoveryView",
    "RequestedActionView",
    "StepEndView",
    "patch_from_recipes",
    "propose_patch",
    "view_for_recovery",
]

_MAX_ID_CHARS = 63


def propose_patch(
    plan: Plan, goal: Goal, state: RunState, review: ReviewResult, seen: Collection[str] = ()
) -> PlanPatch | None:
    """Return the patch that the template's recipes give for the red gates, or None where nothing is left to try.

    Nothing is proposed for a goal that is achieved, beyond the goal's rounds, where a recipe would call a step again
    with the very same parameters, or where the same gates gave the same patch before.

    Args:
        plan: The bound plan in force, which the patch is bound to by its hash.
        goal: Carries recipes and the number of rounds.
        state: What happened.
        review: The last verdict.
        seen: Fingerprints of what was tried; see `wavewright.planner.patches.fingerprint`.
    """
    if review.goal_achieved:
        return None
    view = view_for_recovery(plan, goal, state)
    if view.round >= goal.limits.rounds:
        return None
    patch = patch_from_recipes(plan, goal, view)
    if patch is None or patch_fingerprint(plan, patch, [gate.gate for gate in view.red]) in seen:
        return None
    return patch


def patch_from_recipes(plan: Plan, goal: Goal, view: RecoveryView) -> PlanPatch | None:
    """Return the patch for what the view shows. Pure: the plan, the goal and the view decide it alone."""
    taken = {step.id.lower() for step in plan.steps}
    refetched: dict[StepId, Step] = {}
    added: dict[StepId, Step] = {}
    reasons: list[str] = []
    expect: list[GateId] = []
    finished = frozenset(step.step for step in view.steps if step.status in {*SUCCESSES, "failed"})
    graph = PlanGraph.of(plan)
    for gate in view.red:
        if any(reader in finished for reader in graph.dependants[gate.step]):
            # Its step is optional and its readers went on without it: what they made stays as it is.
            continue
        for recipe in _gate_recipes(goal, gate):
            steps = list(_recipe_steps(recipe, plan, gate, taken, refetched, added))
            if steps:
                reasons.append(recipe.reason)
                expect.append(_expected_gate(gate, plan, refetched))
    if not reasons:
        return None
    return PlanPatch(
        base=plan_hash(plan),
        reason="; ".join(dict.fromkeys(reasons)),
        ops=tuple(AddStep(step=step) for step in (*added.values(), *refetched.values())),
        expect=tuple(dict.fromkeys(expect)),
    )


def _gate_recipes(goal: Goal, gate: FailedGateView) -> Iterator[Recipe]:
    for recipe in goal.recipes:
        if recipe.gate in {gate.gate, gate.template_gate, gate.gate.partition(GATE_ID_SEPARATOR)[0]}:
            yield recipe


def _recipe_steps(
    recipe: Recipe,
    plan: Plan,
    gate: FailedGateView,
    taken: set[str],
    refetched: dict[StepId, Step],
    added: dict[StepId, Step],
) -> Iterator[Step]:
    """Yield the steps that one recipe asks for and that the plan lacks, and note them in what the patch holds."""
    for step in recipe.add:
        if step.id in added or step.id.lower() not in taken:
            taken.add(step.id.lower())
            added[step.id] = step
            yield step
    if not recipe.set_params:
        return
    old = refetched.get(gate.step) or plan.step(gate.step)
    params = {**old.params, **recipe.set_params}
    if params == old.params:
        return
    # Two gates may be red on one step: it is called again once, with what both recipes set.
    new_id = old.id if gate.step in refetched else next_id(plan.step(gate.step), plan, taken)
    taken.add(new_id.lower())
    new = old.model_copy(
        update={"id": new_id, "params": params, "supersedes": gate.step, "why": recipe.reason}
    )
    refetched[gate.step] = new
    yield new


def next_id(step: Step, plan: Plan, taken: set[str]) -> StepId:
    """Return `<id>_2`, or the next number that is free of those taken, counted from the step that was there first."""
    first = step
    while first.supersedes is not None:
        first = plan.step(first.supersedes)
    number = 2
    while True:
        suffix = f"_{number}"
        new_id = first.id[: _MAX_ID_CHARS - len(suffix)] + suffix
        if new_id.lower() not in taken:
            return StepId(new_id)
        number += 1


def _expected_gate(gate: FailedGateView, plan: Plan, refetched: dict[StepId, Step]) -> GateId:
    """Return the id that the gate has on the step which takes over: a gate made of a tool's gate is made anew."""
    new = refetched.get(gate.step)
    made = f"{gate.template_gate}{GATE_ID_SEPARATOR}{gate.step}"
    if (
        new is None
        or gate.template_gate is None
        or gate.gate != made
        or _has_gate(plan.gates, gate.template_gate)
    ):
        return gate.gate
    return GateId(f"{gate.template_gate}{GATE_ID_SEPARATOR}{new.id}")


def _has_gate(gates: tuple[Gate, ...], gate_id: GateId) -> bool:
    return any(gate.id == gate_id for gate in gates)
