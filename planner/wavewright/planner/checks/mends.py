"""What answers a diagnostic, as edits of the text that change nothing else.

The mend of an error is what its hint speaks of: a name, or one more member. Two warnings have a
mend that leaves what the plan does as it is: a `depends_on` that changes nothing (W803) goes, and of
two steps that make the same call (W802) the later one goes, and whoever read it reads the earlier.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wavewright.config.documents import Document, value_at
from wavewright.config.sources import (
    ListNode,
    Node,
    ObjectNode,
    ScalarNode,
    Span,
    find_node,
    pointer_keys,
    pointer_token,
)
from wavewright.config.text_edits import (
    Edit,
    NotEditable,
    WordRename,
    add_member,
    remove_items,
    remove_member,
    rename_words,
    rewrite,
)
from wavewright.planner.checks.names import mention_starts
from wavewright.planner.diagnostics.diagnostic import Addition, Diagnostic, Replacement
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.language.signatures import ToolSignature, ToolSignatures
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.plans.uses import step_reads
from wavewright.planner.plans.written_texts import written_texts
from wavewright.planner.types import Json, StepId


@dataclass(frozen=True, slots=True)
class CheckedPlan:
    """A plan that was checked."""

    plan: Plan
    """As it is written."""
    bound: Plan
    """With its values."""
    tools: ToolSignatures


def mend(
    diagnostic: Diagnostic, document: Document, base: str, checked: CheckedPlan | None
) -> list[Edit]:
    """Return the edits that answer a diagnostic; none where its hint speaks of no one change.

    Args:
        diagnostic: With its place in the document.
        document: The text that it speaks of.
        base: Where the plan is in the text.
        checked: The plan; None where it cannot be checked.

    Raises:
        NotEditable: the plan would do something else, or what stands beside it would be touched.
    """
    match diagnostic.mend:
        case Replacement(text):
            return _replacement(diagnostic, text, document)
        case Addition():
            return _addition(diagnostic, diagnostic.mend, document, base)
        case _ if diagnostic.code == "W803":
            return _without_item(document, diagnostic.pointer)
        case _ if diagnostic.code == "W802" and checked is not None:
            return _without_repeated_call(diagnostic.pointer, document, base, checked)
        case _:
            return []


def _replacement(diagnostic: Diagnostic, text: str, document: Document) -> list[Edit]:
    source, node = document.source.text, find_node(document.root, diagnostic.pointer)
    if node is None or diagnostic.span is None:
        return []
    if diagnostic.span == node[1] or (
        diagnostic.within is None and isinstance(node[0], ScalarNode)
    ):
        return [rewrite(source, diagnostic.span, text)]
    if diagnostic.within is None or not isinstance(node[0], ScalarNode):
        return []  # the name stands somewhere inside of it
    value = str(node[0].value)
    old = value[diagnostic.within.start : diagnostic.within.end]
    if source[diagnostic.span.start : diagnostic.span.end] == old:
        if source[node[0].start] in "\"'" and source[node[0].start] in text:
            raise NotEditable("it would end the string")
        return [Edit(diagnostic.span.start, diagnostic.span.end, text)]
    # The span is that of the whole string where it is folded, or has escapes.
    renaming = WordRename(diagnostic.within.start, old, text)
    return rename_words(source, node[0], value, (renaming,))


def _addition(diagnostic: Diagnostic, added: Addition, document: Document, base: str) -> list[Edit]:
    """Return what adds a member to the step of a diagnostic, or to an object of it."""
    keys = pointer_keys(diagnostic.pointer.removeprefix(base))
    if keys[:1] != ["steps"] or len(keys) < 2:
        return []
    step = f"{base}/steps/{keys[1]}"
    inside, key = [*added.inside], added.key
    value: Json = added.value
    while True:
        node = find_node(document.root, step + "".join(map(pointer_token, inside)))
        if node is not None and isinstance(node[0], ObjectNode):
            known = node[0].members.get(key)
            if known is not None:
                return [_rewritten(document.source.text, known.node, str(value))]
            return [add_member(document.source.text, node[0], key, value)]
        if not inside:
            return []
        value = {key: value}
        key = inside.pop()


def _rewritten(text: str, node: Node, value: str) -> Edit:
    if not isinstance(node, ScalarNode) or "\n" in text[node.start : node.end]:
        raise NotEditable("it stands on several lines")
    return rewrite(text, Span(node.start, node.end), value)


def _without_repeated_call(
    pointer: str, document: Document, base: str, checked: CheckedPlan
) -> list[Edit]:
    """Return what takes a step out of a plan that makes the call of an earlier one."""
    plan, bound = checked.plan, checked.bound
    later = plan.steps[int(pointer_keys(pointer.removeprefix(base))[1])]
    earlier = _first_of_equal(later, plan, bound)
    _refuse_unequal(earlier, later, bound, checked.tools[later.tool])
    edits = _without_item(document, pointer)
    written = value_at(document.value, base)
    for place, renamings in _renamings(plan, written, later.id, earlier.id):
        if f"{base}{place}/".startswith(f"{pointer}/"):
            continue  # it goes with its step
        node = _node_at(document, base + place)
        assert isinstance(node, ScalarNode)
        edits += rename_words(document.source.text, node, str(node.value), renamings)
    return edits


def _first_of_equal(later: Step, plan: Plan, bound: Plan) -> Step:
    request = _request_of(bound.step(later.id))
    return next(
        step
        for step in plan.steps
        if _request_of(bound.step(step.id)) == request and step.supersedes is None
    )


def _request_of(step: Step) -> Json:
    return step.model_dump(mode="json", include={"tool", "params", "for_each", "when"})


def _refuse_unequal(earlier: Step, later: Step, bound: Plan, tool: ToolSignature) -> None:
    """Raise where one result in place of two would change more than the number of calls."""
    own = {"id", "why", "depends_on"}
    if earlier.model_dump(exclude=own) != later.model_dump(exclude=own):
        raise NotEditable(f"it and {earlier.id!r} are tried, timed or bounded in other ways")
    reads = frozenset(step_reads(earlier))  # which both have
    if reads.union(earlier.depends_on) != reads.union(later.depends_on):
        raise NotEditable(f"it and {earlier.id!r} wait for other steps")
    if not tool.is_made_once or tool.needs_approval:
        raise NotEditable(
            f"{later.tool!r} is not deterministic, or needs approval, so two calls are not one"
        )
    if bound.result is None and later.id in PlanGraph.of(bound).terminal:
        raise NotEditable("without a `result` its output is part of the result")
    replaced = {step.supersedes for step in bound.steps}
    if {earlier.id, later.id} & replaced:
        raise NotEditable("a patch has put another step in its place")


def _renamings(
    plan: Plan, written: Json, old: StepId, new: StepId
) -> Iterator[tuple[str, tuple[WordRename, ...]]]:
    """Yield the words that change, with the pointers of the strings that hold them."""
    for number, step in enumerate(plan.steps):
        for place, name in enumerate(step.depends_on):
            if name == old:
                yield f"/steps/{number}/depends_on/{place}", (WordRename(0, name, new),)
    for gate in plan.gates:
        if gate.on in (old, new):
            raise NotEditable(f"gate {gate.id!r} looks at {gate.on!r} alone")
    for text in written_texts(written):
        starts = mention_starts(text, "steps", old)
        renamings = tuple(WordRename(start, old, new) for start in starts)
        if renamings:
            yield text.pointer, renamings


def _without_item(document: Document, pointer: str) -> list[Edit]:
    """Return what takes an item out of its list, and the list with its last item."""
    holder, _, place = pointer.rpartition("/")
    node = _node_at(document, holder)
    assert isinstance(node, ListNode)
    if len(node.items) > 1:
        return remove_items(document.source.text, node, {int(place)})
    parent, _, key = holder.rpartition("/")
    owner = _node_at(document, parent)
    assert isinstance(owner, ObjectNode)
    return remove_member(document.source.text, owner, key)


def _node_at(document: Document, pointer: str) -> Node:
    located = find_node(document.root, pointer)
    assert located is not None
    return located[0]
