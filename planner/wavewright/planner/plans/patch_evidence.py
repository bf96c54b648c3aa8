"""What a model's patch may not do to the evidence of a run: supply data, or escape a gate.

A patch is written when it is known which gate has failed. So it may change where data comes from and
how it is computed, but not write the data itself, and no step may stand for one of which more was
asked. Recipes are the goal's own and are not judged here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from wavewright.config.sources import pointer_token
from wavewright.planner.cel.plain_paths import is_plain_path
from wavewright.planner.diagnostics.diagnostic import Diagnostic, make_diagnostic
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import AddStep, Gate, Plan, PlanPatch, ReplaceStep, Step
from wavewright.planner.language.signatures import ToolSignature, ToolSignatures
from wavewright.planner.plans.binding import repoint_step
from wavewright.planner.plans.figures import figures_in, is_telling, numbers_in
from wavewright.planner.plans.graph import PlanGraph, inputs_behind, superseded_by
from wavewright.planner.plans.provenance import PlanProvenance
from wavewright.planner.plans.uses import expressions_in, reads_root, value_reads
from wavewright.planner.plans.ways_of_fetching import which_data
from wavewright.planner.types import GATE_ID_SEPARATOR, GateId, Json, StepId

_MAX_SHOWN = 3


def evidence_faults(
    before: Plan,
    after: Plan,
    patch: PlanPatch,
    goal: Goal | None,
    tools: ToolSignatures,
) -> Iterator[Diagnostic]:
    """Yield how a model's patch would make evidence weaker, with places in the patch.

    Args:
        before: The bound plan that the patch is for.
        after: The bound plan that it makes.
        patch: The patch.
        goal: The goal of both plans.
        tools: Signatures by name.
    """
    was = PlanProvenance(before, tools, goal, is_strict=True)
    now = PlanProvenance(after, tools, goal, is_strict=True)
    supplied = [*_supplied_data(before, patch, goal, tools, was, now)]
    yield from supplied
    yield from _weaker_steps(before, after, patch)
    yield from _removed_results(before, patch)
    if not supplied:
        yield from _other_subjects(before, after, patch, goal)
        yield from _weaker_gates(before, after, was, now)


def only_faults(before: Plan, patch: PlanPatch) -> Iterator[Diagnostic]:
    """Yield the steps with `only: failed` that have other items than the step that they supersede."""
    for pointer, step, old in _new_steps(before, patch):
        if step.only is None:
            continue
        if old is None or old.for_each is None or not _same(old, step, "for_each"):
            yield make_diagnostic(
                "E408",
                f"{pointer}/only",
                f"step {step.id!r} calls only failed items again, and has other items than the step before",
                "supersede a step with `for_each`, and give the same list",
            )


def idle_step_faults(patch: PlanPatch, failed: Collection[StepId]) -> Iterator[Diagnostic]:
    """Yield the steps with `only: failed` that would call nothing again; `failed` are the steps with
    items that failed, or failed a gate.
    """
    for number, op in enumerate(patch.ops):
        if not isinstance(op, AddStep | ReplaceStep) or op.step.only is None:
            continue
        step, old = op.step, op.step.supersedes or op.step.id
        if old not in failed:
            yield make_diagnostic(
                "E408",
                f"/ops/{number}/step/only",
                f"step {step.id!r} would call nothing again: no item of {old!r} failed, or failed a gate",
                "leave `only` out, so that all items are called with the new parameters",
            )


def stopped_data_faults(
    before: Plan,
    after: Plan,
    patch: PlanPatch,
    failed_gates: Collection[GateId],
    tools: ToolSignatures,
) -> Iterator[Diagnostic]:
    """Yield the steps that would write or send what rests on data that a gate has stopped.

    New steps may read such data to mend it; what comes of it stays in the run.
    """
    stopped = {gate.on for gate in before.gates if gate.on and gate.id in failed_gates}
    graph = PlanGraph.of(after)
    known = {step.id for step in before.steps}
    for pointer, step, _ in _new_steps(before, patch):
        read = sorted(stopped.intersection(graph.dependencies.get(step.id, ())))
        if step.id in known or not read:
            continue
        for name in sorted({step.id, *graph.descendants(step.id)}):
            tool = tools.get(graph.steps[name].tool)
            if tool is not None and not tool.only_reads:
                yield make_diagnostic(
                    "E413",
                    pointer,
                    f"step {name!r} would write or send what rests on {read[0]!r}, which a gate has stopped",
                    f"supersede {read[0]!r}, so that the gate is evaluated again",
                )


def _new_steps(before: Plan, patch: PlanPatch) -> Iterator[tuple[str, Step, Step | None]]:
    """Yield each step that a patch writes, with its place in the patch and the step for which it
    stands.
    """
    olds = {step.id: step for step in before.steps}
    for number, op in enumerate(patch.ops):
        if isinstance(op, AddStep | ReplaceStep):
            yield f"/ops/{number}/step", op.step, olds.get(op.step.supersedes or op.step.id)


def _supplied_data(
    before: Plan,
    patch: PlanPatch,
    goal: Goal | None,
    tools: ToolSignatures,
    was: PlanProvenance,
    now: PlanProvenance,
) -> Iterator[Diagnostic]:
    """Yield the parameters of new steps that hold data which the patch itself writes.

    An option of a computation is no data, but a figure that is hardly there by chance, in no input
    and not in the goal's words, would be part of what the computation gives.
    """
    said: list[Json] = [before.inputs]
    if goal is not None:
        said += goal.said
    known = set(figures_in(said))
    for pointer, step, old in _new_steps(before, patch):
        supplied = {name: _listing(texts) for name, texts in now.supplied(step).items()}
        repeated = now.repeated_items(step) if now.fetches(step) else ()
        if repeated:
            supplied["for_each"] = f"{_listing(repeated)}, which asks for the same twice"
        for name in _no_longer_read(step, old, was, now):
            supplied.setdefault(name, _listing([json.dumps(_argument(step, name))]))
        if now.computes(step):
            for name, value in step.params.items():
                figures = {figure for figure in numbers_in(value) if is_telling(figure)} - known
                if figures:
                    supplied.setdefault(name, _listing(f"{number:g}" for number in sorted(figures)))
            for name, added in _joined_subjects(step, patch, now):
                supplied.setdefault(name, f"{added!r}, which asks for what the patch itself names")
            for name, added, other in _joined_again(step, before, patch, now, tools):
                supplied.setdefault(name, f"{added!r}, which asks for the same as {other!r}")
        for name, what in supplied.items():
            if old is not None and old.tool == step.tool and _same(old, step, name):
                continue
            place = f"/params{pointer_token(name)}" if name in step.params else f"/{name}"
            yield make_diagnostic(
                "E412",
                pointer + place,
                f"a patch may not supply data: {name!r} of step {step.id!r} holds {what}",
                "read it from a step that fetches it: `${steps.…}`, or `${inputs.…}`",
            )


def _is_own_fetch(added: Step, now: PlanProvenance) -> bool:
    """Whether a step that a patch adds fetches what the patch alone says, and reads nothing."""
    if added.supersedes is not None or not now.fetches(added):
        return False
    values = [*added.params.values()]
    if added.for_each is not None:
        values.append(added.for_each)
    return not any(now.reads_anything(value, added) for value in values)


def _joined_subjects(
    step: Step, patch: PlanPatch, now: PlanProvenance
) -> Iterator[tuple[str, StepId]]:
    """Yield the parameters in which a fetch of the patch's own, which reads nothing, is joined with
    what other steps give: entries that nobody has asked for.
    """
    own = {
        op.step.id for op in patch.ops if isinstance(op, AddStep) and _is_own_fetch(op.step, now)
    }
    for name, value in step.params.items():
        steps = value_reads(value)
        if steps & own and steps - own:
            yield name, min(steps & own)


def _joined_again(
    step: Step,
    before: Plan,
    patch: PlanPatch,
    now: PlanProvenance,
    tools: ToolSignatures,
) -> Iterator[tuple[str, StepId, StepId]]:
    """Yield the parameters in which a fetch of the patch's own is joined with a step that asks for the
    same, whose entries would count twice, with the two steps.
    """
    added = [op.step for op in patch.ops if isinstance(op, AddStep) and op.step.supersedes is None]
    for name, value in step.params.items():
        steps = value_reads(value)
        for fetch in added:
            if fetch.id not in steps or not now.fetches(fetch):
                continue
            for other in before.steps:
                tool = tools.get(fetch.tool)
                if other.id in steps and _asks_for_the_same(fetch, other, tool):
                    yield name, fetch.id, other.id


def _asks_for_the_same(fetch: Step, other: Step, tool: ToolSignature | None) -> bool:
    """Whether two steps make the same calls, but for options that only say how data is fetched."""
    if (fetch.tool, fetch.for_each) != (other.tool, other.for_each):
        return False
    return which_data(fetch, tool) == which_data(other, tool)


def _no_longer_read(
    step: Step, old: Step | None, was: PlanProvenance, now: PlanProvenance
) -> Iterator[str]:
    """Yield the parameters, and `for_each`, that read something in the step before and read nothing
    any more.
    """
    if old is None or old.tool != step.tool:
        return
    if old.for_each is not None and was.reads_anything(old.for_each, old):
        is_listed = step.for_each is not None
        if is_listed and not now.reads_anything(step.for_each, step):
            yield "for_each"
    if now.fetches(step):
        return  # its arguments only say which data
    for name, value in step.params.items():
        had = old.params.get(name)
        if was.reads_anything(had, old) and not now.reads_anything(value, step):
            yield name


def _argument(step: Step, name: str) -> Json:
    return step.for_each if name == "for_each" else step.params.get(name)


def _same(old: Step, new: Step, name: str) -> bool:
    stands = new if new.id == old.id else repoint_step(new, new.id, old.id)
    return _argument(old, name) == _argument(stands, name)


def _weaker_steps(before: Plan, after: Plan, patch: PlanPatch) -> Iterator[Diagnostic]:
    """Yield the steps that stand for others of which more was asked."""
    for pointer, step, old in _new_steps(before, patch):
        if old is None:
            continue
        if step.optional and not old.optional:
            yield make_diagnostic(
                "E413",
                f"{pointer}/optional",
                f"step {step.id!r} would be optional, and {old.id!r}, for which it stands, is not",
                "leave `optional` out",
            )
        if step.min_ok is not None and (old.min_ok is None or step.min_ok < old.min_ok):
            yield make_diagnostic(
                "E413",
                f"{pointer}/min_ok",
                f"step {step.id!r} would let items fail that {old.id!r}, for which it stands, needs",
                "leave `min_ok` out, or keep that of the step before",
            )
        if step.when is not None and (old.when is None or not _same_condition(step, old)):
            yield make_diagnostic(
                "E413",
                f"{pointer}/when",
                f"step {step.id!r} would run on a condition that {old.id!r}, for which it stands, does not have",
                "leave `when` out, or keep that of the step before",
            )
        lacking = _block_gates(before, old.id).keys() - _block_gates(after, step.id).keys()
        for gate in sorted(lacking):
            yield make_diagnostic(
                "E413",
                f"{pointer}/tool",
                f"step {step.id!r} would escape gate {gate!r}, which is on {old.id!r}",
                f"call {old.tool!r}, so that the gate is on the new step as well",
            )


def _same_condition(step: Step, old: Step) -> bool:
    return step.when == old.when or repoint_step(step, step.id, old.id).when == old.when


def _other_subjects(
    before: Plan, after: Plan, patch: PlanPatch, goal: Goal | None
) -> Iterator[Diagnostic]:
    """Yield the steps that stand for others and ask for something else than those.

    A gate that failed on one item is not lifted by another one: an item, or a text that the job
    gives, is passed on as it is, and no input gets lost. How much is asked for may change.
    """
    subjects = _Subjects(before, goal), _Subjects(after, goal)
    stands = {step.id: step for step in after.steps}
    for pointer, step, old in _new_steps(before, patch):
        new = stands.get(step.id)
        if old is None or new is None:
            continue
        lost = next(iter(_lost_subjects(old, new, *subjects)), None)
        if lost is not None:
            is_param = lost.param is not None and lost.param in step.params
            yield make_diagnostic(
                "E413",
                pointer + (f"/params{pointer_token(lost.param or '')}" if is_param else ""),
                f"step {new.id!r} would no longer ask for {lost.subject}, as {old.id!r} does, for which it"
                " stands",
                f"pass it on as it is: `${{{lost.subject}}}`",
            )


@dataclass(frozen=True, slots=True)
class _LostSubject:
    subject: str
    """What was asked for, such as `item` or `inputs.code`."""
    param: str | None = None
    """The parameter that asked for it, where it is one."""


def _lost_subjects(old: Step, new: Step, was: _Subjects, now: _Subjects) -> Iterator[_LostSubject]:
    """Yield what a step asks for, and the one that stands for it does not."""
    if new.for_each is not None and reads_root(old.params, "item"):
        if old.tool != new.tool:
            if not any(now.passes_on(value, "item") for value in new.params.values()):
                yield _LostSubject("item")
        else:
            for name, value in old.params.items():
                if reads_root(value, "item") and not now.passes_on(new.params.get(name), "item"):
                    yield _LostSubject("item", name)
    moved = set[str]()
    if old.tool == new.tool:
        for name, value in old.params.items():
            for subject in was.texts(value):
                if was.is_moved(subject, new.params.get(name)):
                    moved.add(subject.removeprefix("inputs."))
                elif not now.passes_on(new.params.get(name), subject):
                    yield _LostSubject(subject, name)
    for name in sorted(was.inputs[old.id] - now.inputs[new.id] - moved):
        yield _LostSubject(f"inputs.{name}")


class _Subjects:
    """What the steps of one plan ask for."""

    def __init__(self, plan: Plan, goal: Goal | None) -> None:
        inputs = plan.inputs if goal is None else {**plan.inputs, **goal.inputs}
        self._texts = {name for name, value in inputs.items() if isinstance(value, str)}
        of_goal = {} if goal is None else goal.inputs
        self._places = {
            name
            for name, value in of_goal.items()
            if isinstance(value, str) and _PLACE.match(value) is not None
        }
        self.inputs = {
            step_id: frozenset(_INPUT_NAME.split(path)[0] for path in paths)
            for step_id, paths in inputs_behind(plan).items()
        }

    def texts(self, value: Json) -> Iterator[str]:
        """Yield the inputs that are texts and that a value holds as they are."""
        for expression, _ in expressions_in(value):
            root, _, name = expression.partition(".")
            if root == "inputs" and name in self._texts:
                yield expression

    def is_moved(self, subject: str, value: Json) -> bool:
        """Whether a value has, for an input that says where data lies, another place that the job
        gives. One that a step of the plan reads already holds other data, and is none.
        """
        if subject.removeprefix("inputs.") not in self._places:
            return False
        read = frozenset[str]().union(*self.inputs.values())
        names = {use.removeprefix("inputs.") for use in self.texts(value)}
        return bool(names & self._places - read)

    def passes_on(self, value: Json, subject: str) -> bool:
        """Whether a value holds `item` or a field of it, or an input, as it is; or what a step makes
        of that input.
        """
        name = subject.removeprefix("inputs.")
        for expression, found in expressions_in(value):
            if expression == subject or (subject == "item" and _ITEM_FIELD.fullmatch(expression)):
                return True
            if subject != "item" and is_plain_path(expression):
                steps = (StepId(read.name or "") for read in found if read.root == "steps")
                if any(name in self.inputs.get(step, ()) for step in steps):
                    return True
        return False


_PLACE = re.compile(r"[a-z][a-z0-9+.-]*://\S|\.{0,2}/\S|\S+/\S*\.\w+$", re.IGNORECASE)
"""A text that says where data lies: an address, or a path of a file."""
_INPUT_NAME = re.compile(r"[.\[]")
"""What stands between the name of an input and what is read of it."""
_ITEM_FIELD = re.compile(r"item(\.\w+)+")


def _removed_results(before: Plan, patch: PlanPatch) -> Iterator[Diagnostic]:
    """Yield the removed steps whose outputs are the result of a plan that names none."""
    if before.result is not None:
        return
    terminal = PlanGraph.of(before).terminal
    for number, op in enumerate(patch.ops):
        if op.op == "remove" and op.id in terminal:
            yield make_diagnostic(
                "E413",
                f"/ops/{number}/id",
                f"the output of step {op.id!r} is part of the result, so it cannot be removed",
                f"replace it: `op: replace` with a step of the id {op.id!r}",
            )


def _weaker_gates(
    before: Plan, after: Plan, was: PlanProvenance, now: PlanProvenance
) -> Iterator[Diagnostic]:
    """Yield the block gates that would look at something other than data, where they looked at data."""
    stands = superseded_by(after)
    for step in before.steps:
        new = stands.get(step.id, step.id)
        gates = _block_gates(after, new)
        for root, gate in _block_gates(before, step.id).items():
            if root not in gates:
                continue
            old_origins, origins = was.of_gate(gate), now.of_gate(gates[root])
            lost = old_origins.data - origins.data - stands.keys()
            added = [*(origins.literals - old_origins.literals)]
            if origins.models and not old_origins.models:
                added += [f"what a model answers in {name!r}" for name in sorted(origins.models)]
            if lost or added:
                what = f"on {_listing(added)}" if added else f"without the data of {_listing(lost)}"
                yield make_diagnostic(
                    "E412",
                    "/ops",
                    f"gate {root!r} would be evaluated {what}, and was on data before",
                    "fetch the data again, from the same source or another one, by a step that supersedes"
                    " the one that fetched it",
                )


def _block_gates(plan: Plan, step: StepId) -> dict[str, Gate]:
    """Return the block gates on a step, by the id that they have on every step."""
    suffix = f"{GATE_ID_SEPARATOR}{step}"
    return {
        gate.id.removesuffix(suffix): gate
        for gate in plan.gates
        if gate.on == step and gate.severity == "block"
    }


def _listing(texts: Iterable[str]) -> str:
    every = sorted(texts)
    shown = every[:_MAX_SHOWN]
    more = len(every) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
