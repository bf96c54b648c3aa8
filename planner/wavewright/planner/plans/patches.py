"""Patches: changes of a plan during a run, checked and applied like any other plan.

A *patch* is made for one plan (its base hash) and adds, replaces, removes and rewires steps.
Finished steps are never changed: to repeat one, a patch adds a step that *supersedes* it, and
readers of the old step read the new one. A patch is refused if a reader has already finished with
the old output, unless the patch supersedes that reader too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from wavewright.config.errors import WavewrightError
from wavewright.planner.diagnostics.diagnostic import Diagnostic, make_diagnostic, suggest_name
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.hashing import canonical_json, plan_hash
from wavewright.planner.language.plan import (
    AddStep,
    Plan,
    PlanPatch,
    RemoveStep,
    ReplaceStep,
    RewireStep,
    Step,
)
from wavewright.planner.language.signatures import AGENT, ToolSignature, asks_approval
from wavewright.planner.plans.binding import (
    bind_plan,
    repoint_step,
)
from wavewright.planner.plans.graph import superseding_origins
from wavewright.planner.plans.patch_application import PatchApplication
from wavewright.planner.plans.patch_evidence import (
    evidence_faults,
    only_faults,
    stopped_data_faults,
)
from wavewright.planner.types import GateId, Json, JsonObject, StepId


class PatchRefused(WavewrightError):
    """A patch that cannot be applied; `diagnostics` says why, with places in the patch."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        self.diagnostics = diagnostics
        super().__init__("; ".join(f"{each.code}: {each.message}" for each in diagnostics))


@dataclass(frozen=True, slots=True)
class PatchCheck:
    """What is to be said of a patch before it is applied.

    >>> from wavewright.planner import Plan, PlanPatch, Step, check_patch
    >>> plan = Plan(steps=(Step(id="a", tool="fetch"),))
    >>> other = PlanPatch(base="sha256:0", reason="It was made for another plan.", ops=[])
    >>> check_patch(plan, other, finished=()).plan is None
    True
    """

    diagnostics: tuple[Diagnostic, ...]
    """Why it is refused; empty where it is not."""
    plan: Plan | None
    """The plan that it makes, bound to the goal; checking that one as a plan is the caller's
    business.
    """
    needs_approval: tuple[StepId, ...]
    """New and replaced steps with an effect outside the run, for which a person has to answer."""
    allowed: tuple[StepId, ...]
    """Those that need no answer, because the goal's `recovery.allow` covers them."""
    fingerprint: str
    """Equal for patches that try the same against the same failed gates."""


def check_patch(
    plan: Plan,
    patch: PlanPatch,
    *,
    finished: Collection[StepId],
    goal: Goal | None = None,
    tools: Mapping[str, ToolSignature] | None = None,
    round_number: int = 1,
    failed_gates: Iterable[GateId] = (),
    tried: Collection[str] = frozenset(),
    written_by_model: bool = False,
) -> PatchCheck:
    """Return whether a patch can be applied to a bound plan, and to what it leads.

    Args:
        plan: The plan of the run, bound to its goal.
        patch: The patch; places in the diagnostics are places in it.
        finished: Steps that ran to an end. A blocked or skipped step is none of them.
        goal: The goal, with its allow-list, its rounds, and what binding adds.
        tools: Signatures, for the effects of new steps.
        round_number: Which recovery this is, from 1.
        failed_gates: The gates that made the patch necessary.
        tried: Fingerprints of patches that were applied before.
        written_by_model: Whether a model wrote the patch, which may then supply no data.

    >>> from wavewright.planner import Plan, PlanPatch, Step, check_patch
    >>> plan = Plan(steps=(Step(id="a", tool="fetch"),))
    >>> other = PlanPatch(base="sha256:0", reason="It was made for another plan.", ops=[])
    >>> check_patch(plan, other, finished=()).diagnostics[0].code
    'E409'
    """
    signatures, failed_gates = tools or {}, [*failed_gates]
    mark = patch_fingerprint(plan, patch, failed_gates)
    change = PatchApplication(plan, patch, frozenset(finished), goal)
    faults = [
        *_patch_faults(plan, patch, goal, round_number, tried=mark in tried),
        *change.faults,
    ]
    acting = [step for step in _new_steps(patch) if _has_effect(signatures.get(step.tool))]
    asking = tuple(step.id for step in acting if not _is_allowed(step, plan, goal, signatures))
    made = change.plan() if goal is None else bind_plan(change.plan(), goal, signatures)
    if not faults:
        faults += _finished_step_changes(plan, made, finished)
    if not faults:
        faults += only_faults(plan, patch)
        faults += stopped_data_faults(plan, made, patch, frozenset(failed_gates), signatures)
    if not faults and written_by_model:
        faults += evidence_faults(plan, made, patch, goal, signatures)
    if not faults and plan_hash(made) == plan_hash(plan):
        faults.append(
            make_diagnostic(
                "E409", "/ops", "the patch changes nothing", "change a step, or end the recovery"
            )
        )
    return PatchCheck(
        diagnostics=tuple(faults),
        plan=None if faults else made,
        needs_approval=asking,
        allowed=tuple(step.id for step in acting if step.id not in asking),
        fingerprint=mark,
    )


def apply_patch(
    plan: Plan,
    patch: PlanPatch,
    *,
    finished: Collection[StepId],
    goal: Goal | None = None,
    tools: Mapping[str, ToolSignature] | None = None,
    round_number: int = 1,
    failed_gates: Iterable[GateId] = (),
    tried: Collection[str] = frozenset(),
) -> Plan:
    """Return the plan that a patch makes of a bound plan, bound again; see `check_patch` for the
    arguments.

    Raises:
        PatchRefused: the patch cannot be applied.

    >>> from wavewright.planner import Plan, PlanPatch, Step, apply_patch, plan_hash
    >>> plan = Plan(steps=(Step(id="a", tool="fetch"),))
    >>> add = {"op": "add", "step": {"id": "a2", "tool": "fetch", "supersedes": "a"}}
    >>> patch = PlanPatch(base=plan_hash(plan), reason="It was stale.", ops=[add])
    >>> [step.id for step in apply_patch(plan, patch, finished={"a"}).steps]
    ['a', 'a2']
    """
    checked = check_patch(
        plan,
        patch,
        finished=finished,
        goal=goal,
        tools=tools,
        round_number=round_number,
        failed_gates=failed_gates,
        tried=tried,
    )
    if checked.plan is None:
        raise PatchRefused(checked.diagnostics)
    return checked.plan


def patch_fingerprint(plan: Plan, patch: PlanPatch, failed_gates: Iterable[GateId]) -> str:
    """Return what a patch tries, so that trying the same twice is seen.

    Steps that stand for others count as the first of their line: calling `prices` again as
    `prices_3`, because the gate on `prices_2` failed, equals what was tried as `prices_2`.
    """
    first = superseding_origins(plan)
    for step in _new_steps(patch):
        if step.supersedes is not None:
            first[step.id] = first.get(step.supersedes, step.supersedes)
    content: list[Json] = [
        list[Json](sorted({_original_gate(gate, first) for gate in failed_gates})),
        [_original_op(op, first) for op in patch.ops],
    ]
    return hashlib.sha256(canonical_json(content)).hexdigest()


def _original_gate(gate: GateId, first: Mapping[StepId, StepId]) -> str:
    root, joint, step_id = gate.partition("__")
    return f"{root}{joint}{first.get(StepId(step_id), step_id)}"


def _original_op(
    op: AddStep | ReplaceStep | RemoveStep | RewireStep, first: Mapping[StepId, StepId]
) -> JsonObject:
    match op:
        case AddStep(step=step) | ReplaceStep(step=step):
            for new, old in first.items():
                step = repoint_step(step, new, old)
            content = step.model_dump(
                mode="json", exclude_defaults=True, exclude={"why", "id", "supersedes"}
            )
            return {"op": op.op, "id": first.get(step.id, step.id), "step": content}
        case RemoveStep(id=step_id):
            return {"op": op.op, "id": first.get(step_id, step_id)}
        case RewireStep(id=step_id, depends_on=names):
            return {
                "op": op.op,
                "id": first.get(step_id, step_id),
                "depends_on": [first.get(name, name) for name in names],
            }


def _patch_faults(
    plan: Plan, patch: PlanPatch, goal: Goal | None, round_number: int, *, tried: bool
) -> Iterable[Diagnostic]:
    """Yield what is wrong with a patch as a whole, whatever its operations do."""
    if patch.base != (now := plan_hash(plan)):
        is_cut = bool(patch.base) and now.startswith(patch.base)
        yield make_diagnostic(
            "E409",
            "/base",
            f"the patch was made for the plan {patch.base}, and the plan is {now} now",
            f"write the whole hash: {now}"
            if is_cut
            else "make the patch again for the plan as it is",
        )
    if tried:
        yield make_diagnostic(
            "E409",
            "/ops",
            "the same patch was tried before against the same failed gates",
            "try something else, or end the recovery",
        )
    if goal is None:
        return
    if round_number > goal.limits.rounds:
        yield make_diagnostic(
            "E409",
            "",
            f"this would be recovery round {round_number}, and {goal.limits.rounds} are allowed",
            "raise `limits.rounds` in the goal, or end the recovery",
        )
    for number, op in enumerate(patch.ops):
        if isinstance(op, AddStep | ReplaceStep) and op.step.tool not in goal.tool_names:
            yield make_diagnostic(
                "E409",
                f"/ops/{number}/step/tool",
                f"step {op.step.id!r} calls {op.step.tool!r}, which this goal does not allow",
                suggest_name(op.step.tool, goal.tool_names, what="allowed tools"),
            )


def _finished_step_changes(
    old: Plan, new: Plan, finished: Collection[StepId]
) -> Iterator[Diagnostic]:
    """Yield finished steps that binding would change: the goal gives last steps parameters of their
    own.
    """
    after = {step.id: step for step in new.steps}
    for step in old.steps:
        if step.id in finished and after.get(step.id) != step:
            yield make_diagnostic(
                "E409",
                "/ops",
                f"the patch would make the finished step {step.id!r} a last step, with other parameters",
                f"leave a step that reads {step.id!r}, or supersede it",
            )


def _new_steps(patch: PlanPatch) -> list[Step]:
    return [op.step for op in patch.ops if isinstance(op, AddStep | ReplaceStep)]


def _has_effect(signature: ToolSignature | None) -> bool:
    return signature is not None and (
        bool(signature.effects & {"write", "egress"}) or signature.needs_approval
    )


def _is_allowed(
    step: Step, plan: Plan, goal: Goal | None, tools: Mapping[str, ToolSignature]
) -> bool:
    """Whether the goal's policy lets a new step act without approval: the plan calls the same tool
    without one.

    A tool always has the same effects; an agent has those of the tools that it is given.
    """
    if goal is None or goal.recovery.allow != "same-effects":
        return False
    known = [old for old in plan.steps if old.tool == step.tool]
    if any(asks_approval(each, tools[step.tool]) for each in (step, *known)):
        return False
    return any(step.tool != AGENT or _is_within_agent(step, old) for old in known)


def _is_within_agent(step: Step, old: Step) -> bool:
    """Whether an agent can do no more than one of the plan: the same agent, with a part of its
    tools.
    """
    given, allowed = step.params.get("tools"), old.params.get("tools")
    if step.params.get("agent") != old.params.get("agent"):
        return False
    if not allowed or given == allowed:
        return True
    if not isinstance(given, list) or not isinstance(allowed, list):
        return False
    return bool(given) and all(name in allowed for name in given)
