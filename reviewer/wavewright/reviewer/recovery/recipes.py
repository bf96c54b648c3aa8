"""Patches without a model: from the goal template's recipes, or for feedback on a rejected package.

A *recipe* says what to try when a gate fails. It depends on the *recovery view* alone, so no text
from outside can reach a patch. A patch only adds steps: a finished step is superseded, never
changed.

The patch for feedback calls again each step whose tool takes a parameter `feedback`, each step of
which a recipe for feedback says so, and every step that reads one of those, directly or not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from wavewright.executor import RunState
from wavewright.executor.events.state import SUCCESSES
from wavewright.planner import (
    Goal,
    JsonObject,
    Plan,
    PlanGraph,
    PlanPatch,
    Step,
    StepId,
    ToolSignatures,
    plan_hash,
)
from wavewright.planner.language.goals import Recipe
from wavewright.planner.language.plan import AddStep
from wavewright.planner.language.signatures import FEEDBACK_PARAM
from wavewright.planner.plans.binding import recipes_for_gate
from wavewright.planner.plans.graph import superseding_origins
from wavewright.planner.plans.patches import patch_fingerprint
from wavewright.planner.types import GATE_ID_SEPARATOR, GateId
from wavewright.reviewer.records import ReviewResult
from wavewright.reviewer.recovery.boundary import (
    FailedGateView,
    FeedbackView,
    RecoveryView,
    view_for_recovery,
)
from wavewright.reviewer.recovery.feedback import feedback_input

_MAX_ID_CHARS = 63


def propose_patch(
    plan: Plan, goal: Goal, state: RunState, review: ReviewResult, seen: Collection[str] = ()
) -> PlanPatch | None:
    """Return the patch that the template's recipes give for the failed gates, or None if nothing is
    left to try.

    Nothing is proposed for a goal that is achieved, beyond the goal's rounds, where a recipe would
    call a step again with the same parameters, or where the same failed gates gave the same patch
    before.

    Args:
        plan: The bound plan in force, which the patch is bound to by its hash.
        goal: Carries recipes and the number of rounds.
        state: The state of the run.
        review: The last verdict.
        seen: Fingerprints of earlier patches; see
            `wavewright.planner.plans.patches.patch_fingerprint`.

    The example goes on from that of `review_by_code`.

    >>> from wavewright.reviewer import propose_patch, review_by_code
    >>> propose_patch(plan, goal, run.state, review_by_code(plan, goal, run.state, tools)) is None
    True
    """
    if review.goal_achieved:
        return None
    view = view_for_recovery(plan, goal, state)
    if view.round >= goal.limits.rounds:
        return None
    patch = _patch_from_recipes(plan, goal, view)
    if patch is None:
        return None
    # What did not help the same gates before would not help them now.
    fingerprint = patch_fingerprint(plan, patch, [gate.gate for gate in view.failed_gates])
    return None if fingerprint in seen else patch


def _patch_from_recipes(plan: Plan, goal: Goal, view: RecoveryView) -> PlanPatch | None:
    """Return the patch that the recipes give, as a pure function of plan, goal and view."""
    taken = {step.id.lower() for step in plan.steps}
    refetched: dict[StepId, Step] = {}
    added: dict[StepId, Step] = {}
    reasons: list[str] = []
    expect: list[GateId] = []
    finished = frozenset(step.step for step in view.steps if step.status in {*SUCCESSES, "failed"})
    graph = PlanGraph.of(plan)
    for gate in view.failed_gates:
        if any(reader in finished for reader in graph.dependants[gate.step]):
            # The step is optional and its readers have finished without it: their outputs stay as
            # they are.
            continue
        for recipe in recipes_for_gate(goal, gate.gate, gate.template_gate):
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


def _recipe_steps(
    recipe: Recipe,
    plan: Plan,
    gate: FailedGateView,
    taken: set[str],
    refetched: dict[StepId, Step],
    added: dict[StepId, Step],
) -> Iterator[Step]:
    """Yield the steps that one recipe adds to the plan, and record them in `taken`, `refetched` and
    `added`.
    """
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
        # The same call would fail the same gate.
        return
    # Two gates may have failed on one step: it is called again once, with what both recipes set.
    new_id = old.id if gate.step in refetched else _next_id(plan.step(gate.step), plan, taken)
    taken.add(new_id.lower())
    new = old.model_copy(
        update={"id": new_id, "params": params, "supersedes": gate.step, "why": recipe.reason}
    )
    refetched[gate.step] = new
    yield new


def _next_id(step: Step, plan: Plan, taken: set[str]) -> StepId:
    """Return the first step's id with `_2`, or with the next number whose id is not taken."""
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
    """Return the gate's id on the superseding step: a gate that was derived from a tool's gate is
    derived anew.
    """
    new = refetched.get(gate.step)
    if new is None or gate.template_gate is None:
        return gate.gate
    is_of_tool = gate.gate == f"{gate.template_gate}{GATE_ID_SEPARATOR}{gate.step}"
    is_own_gate = any(known.id == gate.template_gate for known in plan.gates)
    if not is_of_tool or is_own_gate:
        return gate.gate
    return GateId(f"{gate.template_gate}{GATE_ID_SEPARATOR}{new.id}")


def patch_from_feedback(
    plan: Plan,
    state: RunState,
    tools: ToolSignatures,
    feedback: FeedbackView,
    reason: str,
    recipes: Sequence[Recipe] = (),
) -> PlanPatch | None:
    """Return the patch that calls steps again with the feedback, or as recipes say; None if nothing
    is to be called.

    Args:
        plan: The bound plan in force.
        state: The state of the run.
        tools: Signatures by name.
        feedback: Which package was rejected.
        recipes: The goal's recipes for what the feedback says.
        reason: The reason of the patch, for the report.
    """
    replaced = {step.supersedes for step in plan.steps}
    live = [step for step in plan.steps if step.id not in replaced]
    ended = {step.id for step in live if state.status(step.id) in {*SUCCESSES, "failed"}}
    takers = {step.id for step in live if step.id in ended and _takes_feedback(step, tools)}
    changed = _params_by_step(recipes, plan, live)
    taken = {step.id.lower() for step in plan.steps}
    added = [step for recipe in recipes for step in recipe.add if step.id.lower() not in taken]
    again = _with_readers({*takers, *changed}, plan, {step.id for step in live})
    if not (again or added):
        return None
    reasons = [reason] if takers else []
    reasons += [recipe.reason for recipe in recipes]
    reason = "; ".join(dict.fromkeys(reasons))
    taken |= {step.id.lower() for step in added}
    reference = f"${{inputs.{feedback_input(feedback.package)}}}"
    ops = [AddStep(step=step) for step in {step.id: step for step in added}.values()]
    for step in live:
        if step.id not in again:
            continue
        new_id = _next_id(step, plan, taken)
        taken.add(new_id.lower())
        params = {**step.params, **changed.get(step.id, {})}
        if step.id in takers:
            params[FEEDBACK_PARAM] = reference
        changes = {"id": new_id, "params": params, "supersedes": step.id, "why": reason}
        ops.append(AddStep(step=step.model_copy(update=changes)))
    return PlanPatch(base=plan_hash(plan), reason=reason, ops=tuple(ops), expect=())


def _params_by_step(
    recipes: Sequence[Recipe], plan: Plan, live: Sequence[Step]
) -> dict[StepId, JsonObject]:
    """Return what recipes set, by the live step that stands for the one that a recipe names, where
    it changes any.
    """
    origins = superseding_origins(plan)
    by_step: dict[StepId, JsonObject] = {}
    for step in live:
        named = {step.id, origins.get(step.id, step.id)}
        params: JsonObject = {}
        for recipe in recipes:
            if recipe.step in named:
                params |= recipe.set_params
        if any(step.params.get(name) != value for name, value in params.items()):
            by_step[step.id] = params
    return by_step


def _takes_feedback(step: Step, tools: ToolSignatures) -> bool:
    signature = tools.get(step.tool)
    properties = signature.input_schema.get("properties") if signature is not None else None
    return isinstance(properties, dict) and FEEDBACK_PARAM in properties


def _with_readers(steps: set[StepId], plan: Plan, live: set[StepId]) -> set[StepId]:
    """Return the steps with all live steps that depend on them, directly or not."""
    graph = PlanGraph.of(plan)
    reached, waiting = set[StepId](), [*steps]
    while waiting:
        step = waiting.pop()
        if step in live and step not in reached:
            reached.add(step)
            waiting += graph.dependants.get(step, ())
    return reached
