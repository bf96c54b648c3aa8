"""Fixes of a plan's warnings, and the check that a fixed plan does the same as before.

A *fix* answers one warning. It names the nodes of the document to remove and the words to rename.
It is applied to the document's value, which gives the intended plan, and to its text, which must
then be read as that value.

Two plans *do the same* where every step that both have makes the same call, waits for the same
steps, directly or not, and is blocked by the failure of the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

from wavewright.config.documents import Document
from wavewright.config.sources import ListNode, ObjectNode, find_node, pointer_keys
from wavewright.engine.interfaces.cli.planning.text_edits import (
    Edit,
    NotEditable,
    WordRename,
    remove_items,
    remove_member,
    rename_words,
)
from wavewright.planner.cel.reads import step_mentions
from wavewright.planner.diagnostics.diagnostic import Diagnostic
from wavewright.planner.language.plan import Cap, Gate, Plan, Step
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.binding import repoint_cap, repoint_gate, repoint_step, repoint_value
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.plans.uses import ExpressionText, plan_texts, step_reads
from wavewright.planner.types import Json, StepId

MergedSteps = Mapping[StepId, StepId]
"""Steps that are gone, and which step stands for each."""


def difference(old: Plan, new: Plan, merged: MergedSteps) -> str | None:
    """Return what a plan does otherwise than before, in words; `None` where both do the same."""
    kept = [step for step in old.steps if step.id not in merged]
    if [step.id for step in kept] != [step.id for step in new.steps]:
        return "it has other steps"
    for before, after in zip(kept, new.steps, strict=True):
        if _call(before, merged) != _call(after, {name: name for name in merged.values()}):
            return f"step {before.id!r} makes another call"
    if _gates_and_outputs(old, merged) != _gates_and_outputs(
        new, {name: name for name in merged.values()}
    ):
        return "its gates, its caps or its result differ"
    graphs = PlanGraph.of(old), PlanGraph.of(new)
    if old.result is None and graphs[0].terminal != graphs[1].terminal:
        return "without a `result` the outputs of other steps would be the result"
    holding = _BlockingSteps(old), _BlockingSteps(new)
    for step in new.steps:
        if _renamed(graphs[0].ancestors(step.id), merged) != graphs[1].ancestors(step.id):
            return f"step {step.id!r} would wait for other steps"
        if _renamed(holding[0].blocking(step.id), merged) != holding[1].blocking(step.id):
            return f"step {step.id!r} would run although a step that it waits for failed"
    return None


class _BlockingSteps:
    """Whose failure keeps a step from running: past an optional step a failure does not go."""

    def __init__(self, plan: Plan) -> None:
        optional = {step.id for step in plan.steps if step.optional}
        self._own = {
            step.id: frozenset((*step.depends_on, *step_reads(step))) - optional
            for step in plan.steps
        }

    def blocking(self, step_id: StepId) -> set[StepId]:
        """Return the steps that hold a step up where they fail."""
        found: set[StepId] = set()
        waiting = [step_id]
        while waiting:
            new = self._own[waiting.pop()] - found
            found |= new
            waiting.extend(new)
        return found


def _call(step: Step, merged: MergedSteps) -> dict[str, Json]:
    for old, new in merged.items():
        step = repoint_step(step, old, new)
    return step.model_dump(mode="json", exclude={"depends_on"})


def _gates_and_outputs(
    plan: Plan, merged: MergedSteps
) -> tuple[list[Gate], list[Cap], Json, dict[str, Json]]:
    gates, caps, result = list(plan.gates), list(plan.caps), plan.result
    for old, new in merged.items():
        gates = [repoint_gate(gate, old, new) for gate in gates]
        caps = [repoint_cap(cap, old, new) for cap in caps]
        result = repoint_value(result, old, new)
    return gates, caps, result, plan.inputs


def _renamed(names: Iterable[StepId], merged: MergedSteps) -> set[StepId]:
    return {merged.get(name, name) for name in names}


@dataclass(frozen=True, slots=True)
class Fix:
    """What answers one warning."""

    warning: Diagnostic
    message: str
    """What it changes, for the one who reads the difference."""
    merged: MergedSteps = field(default_factory=dict[StepId, StepId])
    dropped: tuple[str, ...] = ()
    """Pointers, from the plan, of items of lists that go."""
    renamed: Mapping[str, tuple[WordRename, ...]] = field(
        default_factory=dict[str, tuple[WordRename, ...]]
    )
    """Words that change, by the pointers of the strings that hold them."""


def fix_for(found: Diagnostic, plan: Plan, bound: Plan, tools: Mapping[str, ToolSignature]) -> Fix:
    """Return what answers a warning of a plan.

    Raises:
        NotEditable: it would change what the plan does.
    """
    if found.code == "W803":
        step, name = _named(found.pointer, plan)
        return Fix(
            found,
            f"step {step!r} no longer names {name!r} in `depends_on`",
            dropped=(found.pointer,),
        )
    again = plan.steps[int(pointer_keys(found.pointer)[1])]
    first = _first_of_equal(again, plan, bound)
    _refuse_unequal(first, again, bound, tools[again.tool])
    return Fix(
        found,
        f"step {again.id!r} is gone; whoever read it reads {first.id!r}",
        merged={again.id: first.id},
        dropped=(found.pointer,),
        renamed=dict(_renamings(plan, again.id, first.id)),
    )


def _named(pointer: str, plan: Plan) -> tuple[StepId, StepId]:
    _, number, _, place = pointer_keys(pointer)
    step = plan.steps[int(number)]
    return step.id, step.depends_on[int(place)]


def _first_of_equal(again: Step, plan: Plan, bound: Plan) -> Step:
    wanted = _request_of(bound.step(again.id))
    return next(
        step
        for step in plan.steps
        if _request_of(bound.step(step.id)) == wanted and step.supersedes is None
    )


def _request_of(step: Step) -> Json:
    return step.model_dump(mode="json", include={"tool", "params", "for_each", "when"})


def _refuse_unequal(first: Step, again: Step, bound: Plan, tool: ToolSignature) -> None:
    """Raise where one result in place of two would change more than the number of calls."""
    own = {"id", "why", "depends_on"}
    if first.model_dump(exclude=own) != again.model_dump(exclude=own):
        raise NotEditable(f"it and {first.id!r} are tried, timed or bounded in other ways")
    read = frozenset(step_reads(first))  # which both do
    if read.union(first.depends_on) != read.union(again.depends_on):
        raise NotEditable(f"it and {first.id!r} wait for other steps")
    if not tool.is_made_once or tool.needs_approval:
        raise NotEditable(
            f"{again.tool!r} is not deterministic, or needs approval, so two calls are not one"
        )
    replaced = {step.supersedes for step in bound.steps}
    if {first.id, again.id} & replaced:
        raise NotEditable("a patch has put another step in its place")


def _renamings(
    plan: Plan, old: StepId, new: StepId
) -> Iterator[tuple[str, tuple[WordRename, ...]]]:
    for number, step in enumerate(plan.steps):
        for place, name in enumerate(step.depends_on):
            if name == old:
                yield f"/steps/{number}/depends_on/{place}", (WordRename(0, name, new),)
    for gate in plan.gates:
        if gate.on in (old, new):
            raise NotEditable(f"gate {gate.id!r} looks at {gate.on!r} alone")
    for text in plan_texts(plan):
        renamings = tuple(_mentions(text, old, new))
        if renamings:
            yield text.pointer, renamings


def _mentions(text: ExpressionText, old: StepId, new: StepId) -> Iterator[WordRename]:
    for use in text.uses():
        for mention in step_mentions(use.expression, old):
            word = use.expression.find(old, mention.start, mention.end)
            if word < 0:
                raise NotEditable(f"{old!r} is written with escapes")
            yield WordRename(use.start + word, old, new)


# --- carried out
# ---------------------------------------------------------------------------------------------


def fixed_value(value: Json, base: str, fixes: Iterable[Fix]) -> Json:
    """Return what a document's value is after the fixes of the plan at a pointer in it."""
    changed = deepcopy(value)
    renamed, dropped = _changes_by_pointer(fixes)
    for pointer, renamings in renamed.items():
        holder, key = _parent(changed, base + pointer)
        text = _item(holder, key)
        assert isinstance(text, str)
        for one in sorted(renamings, reverse=True):
            assert text[one.start : one.start + len(one.old)] == one.old
            text = text[: one.start] + one.new + text[one.start + len(one.old) :]
        _put(holder, key, text)
    for pointer, places in sorted(dropped.items(), reverse=True):
        holder, key = _parent(changed, base + pointer)
        items = _item(holder, key)
        assert isinstance(items, list)
        kept = [item for place, item in enumerate(items) if place not in places]
        if kept:
            _put(holder, key, kept)
        else:
            assert isinstance(holder, dict)
            del holder[key]
    return changed


def edits_for(document: Document, base: str, fixes: Iterable[Fix]) -> list[Edit]:
    """Return the edits of a document's text that apply the fixes of its plan.

    Raises:
        NotEditable: a change cannot be made without touching what stands beside it.
    """
    text = document.source.text
    renamed, dropped = _changes_by_pointer(fixes)
    edits: list[Edit] = []
    for pointer, renamings in renamed.items():
        found = find_node(document.root, base + pointer)
        assert found is not None
        value = _item(*_parent(document.value, base + pointer))
        assert isinstance(value, str)
        edits += rename_words(text, found[0], value, renamings)
    for pointer, places in dropped.items():
        found = find_node(document.root, base + pointer)
        assert found is not None
        node = found[0]
        assert isinstance(node, ListNode)
        edits += (
            remove_items(text, node, places)
            if len(places) < len(node.items)
            else _emptied(document, base + pointer)
        )
    return edits


def _emptied(document: Document, pointer: str) -> list[Edit]:
    parent, _, key = pointer.rpartition("/")
    found = find_node(document.root, parent)
    assert found is not None
    assert isinstance(found[0], ObjectNode)
    return remove_member(document.source.text, found[0], key)


def _changes_by_pointer(
    fixes: Iterable[Fix],
) -> tuple[dict[str, list[WordRename]], dict[str, set[int]]]:
    """Return all words that change and all items that go, by the pointers of their strings and
    lists.
    """
    renamed: dict[str, list[WordRename]] = {}
    dropped: dict[str, set[int]] = {}
    for fix in fixes:
        for pointer in fix.dropped:
            parent, _, place = pointer.rpartition("/")
            dropped.setdefault(parent, set()).add(int(place))
        for pointer, renamings in fix.renamed.items():
            renamed.setdefault(pointer, []).extend(renamings)
    gone = tuple(f"{parent}/{place}/" for parent, places in dropped.items() for place in places)
    return {
        pointer: words for pointer, words in renamed.items() if not f"{pointer}/".startswith(gone)
    }, dropped


def _parent(value: Json, pointer: str) -> tuple[Json, str]:
    *path, key = pointer_keys(pointer)
    for step in path:
        value = _item(value, step)
    return value, key


def _item(holder: Json, key: str) -> Json:
    if isinstance(holder, dict):
        return holder[key]
    assert isinstance(holder, list)
    return holder[int(key)]


def _put(holder: Json, key: str, value: Json) -> None:
    if isinstance(holder, dict):
        holder[key] = value
    else:
        assert isinstance(holder, list)
        holder[int(key)] = value


def merged_steps(fixes: Sequence[Fix]) -> dict[StepId, StepId]:
    """Return which steps are gone and which stand for them."""
    return {old: new for fix in fixes for old, new in fix.merged.items()}
