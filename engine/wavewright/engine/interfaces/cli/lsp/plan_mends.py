"""What answers a warning of a plan, as edits of its text that leave what the plan does as it is.

Two warnings have one clear mend: a `depends_on` that changes nothing (W803) goes, and of two steps
that make the same call (W802) the later one goes, and whoever read it reads the earlier one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from wavewright.config.documents import Document
from wavewright.config.sources import ListNode, Node, ObjectNode, find_node, pointer_keys
from wavewright.engine.interfaces.cli.lsp.text_edits import (
    Edit,
    NotEditable,
    WordRename,
    remove_items,
    remove_member,
    rename_words,
)
from wavewright.planner.cel.reads import step_mentions
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.plans.uses import ExpressionText, plan_texts, step_reads
from wavewright.planner.types import Json, StepId

FIXABLE_WARNINGS: Final = ("W802", "W803")


def edits_of_needless_dependency(document: Document, base: str, pointer: str) -> list[Edit]:
    """Return what takes a name out of a `depends_on`.

    Args:
        document: The text that holds the plan.
        base: Where the plan is in it.
        pointer: Where the name is in the plan.

    Raises:
        NotEditable: what stands beside it would be touched.
    """
    return _without_item(document, base + pointer)


def edits_of_repeated_call(
    document: Document,
    base: str,
    pointer: str,
    *,
    plan: Plan,
    bound: Plan,
    tools: Mapping[str, ToolSignature],
) -> list[Edit]:
    """Return what takes a step out of a plan that makes the call of an earlier one.

    Args:
        document: The text that holds the plan.
        base: Where the plan is in it.
        pointer: Where the later step is in the plan.
        plan: The plan as it is written.
        bound: The plan with its values.
        tools: The signatures of its tools.

    Raises:
        NotEditable: the plan would do something else, or what stands beside it would be touched.
    """
    later = plan.steps[int(pointer_keys(pointer)[1])]
    earlier = _first_of_equal(later, plan, bound)
    _refuse_unequal(earlier, later, bound, tools[later.tool])
    edits = _without_item(document, base + pointer)
    for place, renamings in _renamings(plan, later.id, earlier.id):
        if f"{place}/".startswith(f"{pointer}/"):
            continue  # it goes with its step
        node, value = _text_at(document, base + place)
        edits += rename_words(document.source.text, node, value, renamings)
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
    plan: Plan, old: StepId, new: StepId
) -> Iterator[tuple[str, tuple[WordRename, ...]]]:
    """Yield the words that change, with the pointers of the strings that hold them."""
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
    found = find_node(document.root, pointer)
    assert found is not None
    return found[0]


def _text_at(document: Document, pointer: str) -> tuple[Node, str]:
    value: Json = document.value
    for key in pointer_keys(pointer):
        if isinstance(value, dict):
            value = value[key]
        else:
            assert isinstance(value, list)
            value = value[int(key)]
    assert isinstance(value, str)
    return _node_at(document, pointer), value
