"""Apply the operations of a patch to a plan, in order.

Operations that cannot be applied are left out and reported as diagnostics; `plan()` returns the
result of the others.
"""

from __future__ import annotations

from collections.abc import Mapping

from wavewright.planner.diagnostics.diagnostic import Diagnostic, make_diagnostic, suggest_name
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import (
    AddStep,
    Cap,
    Gate,
    Plan,
    PlanPatch,
    PlanStop,
    RemoveStep,
    ReplaceStep,
    RewireStep,
    Step,
)
from wavewright.planner.plans.binding import (
    mandatory_caps,
    mandatory_gates,
    repoint_cap,
    repoint_condition,
    repoint_gate,
    repoint_step,
    repoint_value,
)
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.plans.let_and_stop import with_let, with_stop
from wavewright.planner.types import Json, StepId


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
        # What the patch wrote may read the plan's names, and ends early with the plan.
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
        for reader, old in stale:
            self._refuse_superseding(
                places[old],
                f"step {reader!r} has finished with what it read from {old!r}",
                f"supersede {reader!r} in the same patch as well",
            )
        for old, new in pairs.items():
            self._repoint(old, new, superseded=frozenset(pairs) | frozenset(earlier))

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
        self._caps = tuple(repoint_cap(cap, old, new) for cap in self._caps)
        self._result = repoint_value(self._result, old, new)
        self._let = {name: repoint_value(value, old, new) for name, value in self._let.items()}
        if self._stop is not None:
            self._stop = PlanStop(
                when=repoint_condition(self._stop.when, old, new) or self._stop.when,
                result=repoint_value(self._stop.result, old, new),
            )

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
