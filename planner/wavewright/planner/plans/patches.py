"""Patches: changes of a plan during a run, checked and applied like any other plan.

A *patch* is made for one plan (its base hash) and adds, replaces, removes and rewires steps.
Finished steps are never changed: to repeat one, a patch adds a step that *supersedes* it, and
readers of the old step read the new one. A patch is refused if a reader has already finished with
the old output, unless the patch supersedes that reader too.
Operations are applied in order; those that cannot be are left out and reported.
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
    SUB_PLAN,
    AddStep,
    Cap,
    Gate,
    Plan,
    PlanPatch,
    RemoveStep,
    ReplaceStep,
    RewireStep,
    Step,
)
from wavewright.planner.language.signatures import (
    AGENT,
    ToolSignature,
    ToolSignatures,
    asks_approval,
)
from wavewright.planner.plans.binding import (
    bind_plan,
    mandatory_caps,
    mandatory_gates,
    repoint_gate,
    repoint_step,
    repointing,
)
from wavewright.planner.plans.graph import PlanGraph, superseding_origins
from wavewright.planner.plans.let_and_stop import with_let, with_stop, without_names
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
        super().__init__("; ".join(f"{fault.code}: {fault.message}" for fault in diagnostics))


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
    tools: ToolSignatures | None = None,
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
    patch = _without_names(patch, plan)
    mark = patch_fingerprint(plan, patch, failed_gates)
    change = PatchApplication(plan, patch, frozenset(finished), goal)
    faults = [
        *_patch_faults(plan, patch, goal, round_number, tried=mark in tried),
        *change.faults,
    ]
    acting = [step for step in _new_steps(patch) if _has_effect(signatures.get(step.tool))]
    asking = tuple(step.id for step in acting if not _is_allowed(step, plan, goal, signatures))
    patched = change.plan() if goal is None else bind_plan(change.plan(), goal)
    if not faults:
        faults += _finished_step_changes(plan, patched, finished)
    if not faults:
        faults += only_faults(plan, patch)
        faults += stopped_data_faults(plan, patched, patch, frozenset(failed_gates), signatures)
    if not faults and written_by_model:
        faults += evidence_faults(plan, patched, patch, goal, signatures)
    if not faults and plan_hash(patched) == plan_hash(plan):
        faults.append(
            make_diagnostic(
                "E409", "/ops", "the patch changes nothing", "change a step, or end the recovery"
            )
        )
    return PatchCheck(
        diagnostics=tuple(faults),
        plan=None if faults else patched,
        needs_approval=asking,
        allowed=tuple(step.id for step in acting if step.id not in asking),
        fingerprint=mark,
    )


def _without_names(patch: PlanPatch, plan: Plan) -> PlanPatch:
    """Return a patch whose steps read no name of the plan's `let`.

    A step is judged by what it reads: a name is no data of the patch's own, and what it stands for
    is what the plan's steps read.
    """
    ops = tuple(
        op.model_copy(update={"step": without_names(op.step, plan)})
        if isinstance(op, AddStep | ReplaceStep)
        else op
        for op in patch.ops
    )
    return patch.model_copy(update={"ops": ops})


def apply_patch(
    plan: Plan,
    patch: PlanPatch,
    *,
    finished: Collection[StepId],
    goal: Goal | None = None,
    tools: ToolSignatures | None = None,
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
    for number, op in enumerate(patch.ops):
        if isinstance(op, AddStep | ReplaceStep) and op.step.repeat is not None:
            from wavewright.planner.plans.sub_plans import loop_faults  # few patches have a loop

            yield from loop_faults(op.step, f"/ops/{number}/step")
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


def _is_allowed(step: Step, plan: Plan, goal: Goal | None, tools: ToolSignatures) -> bool:
    """Whether the goal's policy lets a new step act without approval: the plan calls the same tool
    without one.

    A tool always has the same effects; an agent has those of the tools that it is given.
    """
    if goal is None or goal.recovery.allow != "same-effects":
        return False
    known = [old for old in plan.steps if old.tool == step.tool]
    if any(asks_approval(caller, tools[step.tool]) for caller in (step, *known)):
        return False
    return any(step.tool != AGENT or _is_within_agent(step, old) for old in known)


def _is_within_agent(step: Step, old: Step) -> bool:
    """Whether an agent can do no more than one of the plan: the same agent, with a part of its
    tools.
    """
    tools, allowed = step.params.get("tools"), old.params.get("tools")
    if step.params.get("agent") != old.params.get("agent"):
        return False
    if not allowed or tools == allowed:
        return True
    if not isinstance(tools, list) or not isinstance(allowed, list):
        return False
    return bool(tools) and all(name in allowed for name in tools)


class PatchApplication:
    """A plan while the operations of a patch are applied to it, one after the other."""

    def __init__(
        self, plan: Plan, patch: PlanPatch, finished: frozenset[StepId], goal: Goal | None
    ) -> None:
        self.faults: list[Diagnostic] = []
        self._before = plan
        self._finished = finished
        self._steps: dict[StepId, Step] = {step.id: step for step in plan.steps}
        self._removed: dict[StepId, str] = {}
        # What the goal put there is taken out and comes back when the new plan is bound.
        imposed = () if goal is None else mandatory_gates(plan, goal)
        self._gates: tuple[Gate, ...] = tuple(gate for gate in plan.gates if gate not in imposed)
        imposed_caps = () if goal is None else mandatory_caps(plan, goal)
        self._caps: tuple[Cap, ...] = tuple(cap for cap in plan.caps if cap not in imposed_caps)
        self._result = plan.result
        self._let: dict[str, Json] = plan.let
        self._stop = plan.stop
        self._written = frozenset(
            op.step.id for op in patch.ops if isinstance(op, AddStep | ReplaceStep)
        )
        for number, op in enumerate(patch.ops):
            self._apply(op, f"/ops/{number}")
        self._supersede(patch)
        self._check_readers_of_removed()
        self._gates = tuple(gate for gate in self._gates if gate.on not in self._removed)

    def plan(self) -> Plan:
        """Return the plan as it stands after all operations."""
        plan = self._before.model_copy(
            update={
                "let": self._let,
                "steps": tuple(self._steps.values()),
                "gates": self._gates,
                "caps": self._caps,
                "stop": self._stop,
                "result": self._result,
            }
        )
        # What the patch wrote may join items with outputs, and ends early with the plan.
        return with_stop(with_let(plan)[0], among=self._written)

    def _apply(self, op: AddStep | ReplaceStep | RemoveStep | RewireStep, pointer: str) -> None:
        match op:
            case AddStep(step=step):
                self._add(step, pointer)
            case ReplaceStep(step=step):
                if self._is_changeable(step.id, f"{pointer}/step/id"):
                    self._steps[step.id] = step
            case RemoveStep(id=step_id):
                if self._is_changeable(step_id, f"{pointer}/id"):
                    del self._steps[step_id]
                    self._removed[step_id] = pointer
            case RewireStep(id=step_id, depends_on=names):
                if self._is_changeable(step_id, f"{pointer}/id"):
                    self._steps[step_id] = self._steps[step_id].model_copy(
                        update={"depends_on": names}
                    )

    def _add(self, step: Step, pointer: str) -> None:
        taken = {
            step_id.lower(): step_id
            for step_id in (*self._steps, *(old.id for old in self._before.steps))
        }
        if step.id.lower() in taken:
            self._refuse(
                f"{pointer}/step/id",
                f"the plan has a step {taken[step.id.lower()]!r} already",
                f"call the new step {_free_id(step.id, taken)!r}, for example",
            )
            return
        self._steps[step.id] = step

    def _is_changeable(self, step_id: StepId, pointer: str) -> bool:
        """Return whether a step is there and may still be changed; say so where it may not."""
        if step_id not in self._steps:
            self._refuse(
                pointer,
                f"the patch speaks of step {step_id!r}, which the plan does not have",
                suggest_name(step_id, self._steps, what="steps"),
            )
            return False
        if step_id in self._finished:
            self._refuse(
                pointer,
                f"step {step_id!r} has finished and cannot be changed",
                f"add a step that `supersedes: {step_id}`; its readers are pointed at the new one",
            )
            return False
        return True

    def _supersede(self, patch: PlanPatch) -> None:
        pairs: dict[StepId, StepId] = {}
        places: dict[StepId, str] = {}
        earlier = {
            step.supersedes: step.id for step in self._before.steps if step.supersedes is not None
        }
        for number, op in enumerate(patch.ops):
            if (
                not isinstance(op, AddStep)
                or op.step.supersedes is None
                or op.step.id not in self._steps
            ):
                continue
            old, pointer = op.step.supersedes, f"/ops/{number}/step/supersedes"
            standing = pairs.get(old) or earlier.get(old)
            if old not in self._steps or old == op.step.id:
                self._refuse_superseding(
                    pointer,
                    f"step {op.step.id!r} supersedes {old!r}, which the plan does not have",
                    suggest_name(old, self._steps, what="steps"),
                )
            elif standing is not None:
                self._refuse_superseding(
                    pointer,
                    f"{old!r} is superseded by {standing!r} already",
                    f"supersede {standing!r} instead",
                )
            else:
                pairs[old], places[old] = op.step.id, pointer
        stale = self._stale_readers(pairs)
        while results := [(reader, old) for reader, old in stale if self._is_result(reader)]:
            # No tool that a patch may call gives the result of a sub-plan: it follows its steps.
            for reader, old in results:
                if reader not in pairs:
                    pairs[reader] = self._redo(reader)
                    places[reader] = places[old]
            stale = self._stale_readers(pairs)
        for reader, old in stale:
            self._refuse_superseding(
                places[old],
                f"step {reader!r} has finished with what it read from {old!r}",
                f"supersede {reader!r} in the same patch as well",
            )
        for old, new in pairs.items():
            self._repoint(old, new, superseded=frozenset(pairs) | frozenset(earlier))

    def _is_result(self, step_id: StepId) -> bool:
        """Whether a step only gives the result of a sub-plan."""
        return self._steps[step_id].tool == SUB_PLAN

    def _redo(self, step_id: StepId) -> StepId:
        """Add a step that does a finished one again, and return its id."""
        again = StepId(_free_id(step_id, {taken.lower(): taken for taken in self._steps}))
        update = {"id": again, "supersedes": step_id}
        self._steps[again] = self._steps[step_id].model_copy(update=update)
        return again

    def _stale_readers(self, pairs: Mapping[StepId, StepId]) -> list[tuple[StepId, StepId]]:
        graph = PlanGraph.of(self._before)
        superseded_before = {step.supersedes for step in self._before.steps}
        return [
            (reader, old)
            for old in pairs
            for reader in graph.dependants.get(old, ())
            if reader in self._finished and reader not in pairs and reader not in superseded_before
        ]

    def _repoint(self, old: StepId, new: StepId, *, superseded: frozenset[StepId]) -> None:
        """Point everybody who reads `old` at `new`: but for the new step itself, and for what is
        past.
        """
        for step_id, step in self._steps.items():
            if step_id != new and step_id not in superseded and step_id not in self._finished:
                self._steps[step_id] = repoint_step(step, old, new)
        self._gates = tuple(repoint_gate(gate, old, new) for gate in self._gates)
        moved = repointing(old, new)
        self._caps = tuple(map(moved.cap, self._caps))
        self._result = moved.value(self._result)
        self._let = {name: moved.value(value) for name, value in self._let.items()}
        self._stop = moved.stop(self._stop)

    def _check_readers_of_removed(self) -> None:
        if not self._removed:
            return
        graph = PlanGraph.of(
            self._before.model_copy(
                update={"steps": (*self._steps.values(), *self._removed_steps())}
            )
        )
        for step_id, pointer in self._removed.items():
            readers = [
                reader for reader in graph.dependants.get(step_id, ()) if reader in self._steps
            ]
            if readers:
                named = ", ".join(map(repr, readers))
                self._refuse(
                    f"{pointer}/id",
                    f"step {step_id!r} cannot be removed: {named} waits for it",
                    f"replace {readers[0]!r} as well, or leave {step_id!r}",
                )

    def _removed_steps(self) -> list[Step]:
        """Return the removed steps, so that the graph can say who would miss them."""
        return [
            step
            for step in self._before.steps
            if step.id in self._removed and step.id not in self._steps
        ]

    def _refuse(self, pointer: str, message: str, hint: str | None) -> None:
        self.faults.append(make_diagnostic("E409", pointer, message, hint))

    def _refuse_superseding(self, pointer: str, message: str, hint: str | None) -> None:
        self.faults.append(make_diagnostic("E408", pointer, message, hint))


def _free_id(step_id: StepId, taken: Mapping[str, StepId]) -> str:
    number = 2
    while f"{step_id}_{number}".lower() in taken:
        number += 1
    return f"{step_id}_{number}"
