"""Where the names of steps, inputs, `let`, gates, tools and files stand in a document.

A name is known by its place: a field that holds one, or the part of an expression that reads one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from wavewright.config.cursors import node_at, offset_in_string
from wavewright.config.documents import value_at
from wavewright.config.sources import (
    Node,
    ScalarNode,
    Span,
    find_node,
    pointer_keys,
    pointer_token,
)
from wavewright.config.text_edits import NotEditable, word_spans
from wavewright.planner.cel.embedded import iterate_strings
from wavewright.planner.cel.reads import root_mentions
from wavewright.planner.checks.places import expression_at, part_at
from wavewright.planner.plans.uses import ExpressionText
from wavewright.planner.plans.written_texts import written_texts

if TYPE_CHECKING:
    from wavewright.config.documents import Document
    from wavewright.planner.checks.context import CheckContext

NameKind: TypeAlias = Literal["step", "input", "let", "gate", "tool", "plan", "template", "prompt"]
_ROOTS: Final[Mapping[NameKind, str]] = {"step": "steps", "input": "inputs"}
"""Below which root expressions read what is named."""
_KIND_BELOW: Final[Mapping[str, NameKind]] = {"steps": "step", "inputs": "input"}
_KIND_OF_KEYS: Final[Mapping[str, NameKind]] = {
    "/inputs": "input",
    "/let": "let",
    "/schedule/inputs": "input",
    "/inputs_schema/properties": "input",
}
"""What the keys of an object name, by its pointer from a plan, a job or a goal template."""
_KIND_IN_PLAN: Final[Mapping[str, NameKind]] = {
    "/steps/#/id": "step",
    "/steps/#/depends_on": "step",
    "/steps/#/depends_on/#": "step",
    "/steps/#/supersedes": "step",
    "/steps/#/tool": "tool",
    "/steps/#/tools/#": "tool",
    "/steps/#/plan": "plan",
    "/gates/#/id": "gate",
    "/gates/#/on": "step",
    "/gates/#/on_tool": "tool",
}
"""By the shape of a pointer from the plan."""
_KIND_ELSEWHERE: Final[Mapping[str, NameKind]] = {
    "/plan": "plan",
    "/goal_template": "template",
    "/prompt": "prompt",
    "/available_tools/#": "tool",
    "/available_tools/#/name": "tool",
    "/tools/#": "tool",
    "/gates/#/id": "gate",
    "/gates/#/on_tool": "tool",
    "/recipes/#/gate": "gate",
    "/may_drop/#": "gate",
    "/expect/#": "gate",
    "/inputs_schema/required/#": "input",
    **{
        f"/targets/{field}": "input"
        for field in ("variables", "benchmarks", "wave", "is_last_wave", "visited", "failed")
    },
}
"""By the shape of a pointer from a job, a goal template, a worker, or an agent."""


@dataclass(frozen=True, slots=True)
class NameAt:
    """A name that stands at a place."""

    kind: NameKind
    name: str
    job: str | None = None
    """The job whose input it is, where a schedule of the settings gives it."""


def pointer_in_plan(pointer: str, base: str | None) -> str | None:
    """Return a pointer of a document as one of the plan that stands at `base`; None outside it."""
    if base is None or not f"{pointer}/".startswith(f"{base}/"):
        return None
    return pointer[len(base) :]


def pointer_shape(pointer: str) -> str:
    """Return a pointer with `#` for each place in a list."""
    return re.sub(r"/\d+(?=/|$)", "/#", pointer)


def kind_of_name(pointer: str, base: str | None) -> NameKind | None:
    """Return what the string at a pointer names; None where it is no name."""
    inside = pointer_in_plan(pointer, base)
    kind = None if inside is None else _KIND_IN_PLAN.get(pointer_shape(inside))
    return kind or _KIND_ELSEWHERE.get(pointer_shape(pointer))


def name_at(
    document: Document, offset: int, base: str | None, subject: CheckContext | None
) -> NameAt | None:
    """Return the name at an offset; None where none stands there.

    Args:
        document: The text.
        offset: A place in it.
        base: Where its plan stands; None where it has none.
        subject: The plan; None where it cannot be read.
    """
    at = node_at(document.root, offset)
    if at is None:
        return None
    pointer = pointer_in_plan(at.pointer, base)
    keys = [] if pointer is None else pointer_keys(pointer)
    if at.is_key:
        *owners, key = keys or pointer_keys(at.pointer)
        if len(owners) == 3 and (owners[0], owners[2]) == ("schedules", "inputs"):
            job = value_at(document.value, f"/schedules{pointer_token(owners[1])}/job")
            return NameAt("input", key, job) if isinstance(job, str) else None
        named = _KIND_OF_KEYS.get("".join(map(pointer_token, owners)))
        return None if named is None else NameAt(named, key)
    if not isinstance(at.node, ScalarNode) or not isinstance(at.node.value, str):
        return None
    text = at.node.value
    kind = kind_of_name(at.pointer, base)
    if kind is not None:
        return NameAt(kind, text)
    inside = offset_in_string(document.source.text, at.node, offset)
    if subject is None or pointer is None or inside is None:
        return None
    place = expression_at(subject, pointer, text, inside)
    part = None if place is None else part_at(place)
    if place is None or part is None or part.name is None:
        return None
    if part.root is not None:
        named = _KIND_BELOW.get(part.root)
        return None if named is None else NameAt(named, part.name)
    # A variable of a macro hides a name of `let`.
    is_read = any(read.path_start == part.start for read in root_mentions(place.expression))
    return NameAt("let", part.name) if is_read and part.name in subject.plan.let else None


def places_of(
    document: Document, base: str | None, name: NameAt, *, within: str = ""
) -> list[Span]:
    """Return where a document defines and uses a name, its definition first.

    The steps and gates of a sub-plan have the name of its step before theirs: `clean.fetch` names
    the step `clean`, and `fetch` within it.

    Args:
        document: The text.
        base: Where its plan stands; None where it has none.
        name: What is looked for.
        within: The step by whose plan it is looked for; in the document's own plan where empty.

    Raises:
        NotEditable: the name is written with escapes.
    """
    part = _part_pattern(name, within)
    spans = [*_named(document, base, name, part), *(() if within else _keys(document, base, name))]
    if name.kind in _ROOTS or name.kind == "let":
        spans += _reads(document, base, name, part)
    return [*dict.fromkeys(spans)]


def _part_pattern(name: NameAt, within: str) -> re.Pattern[str]:
    """Return a pattern whose last group is a name where it stands in the name of a step or gate."""
    # Of a sub-plan that is repeated, the number of the run stands between.
    before = rf"{re.escape(within)}\.(?:\d+\.)?" if within else ""
    after = r"(?:\.|\Z)" if name.kind in ("step", "gate") else r"\Z"
    return re.compile(rf"{before}({re.escape(name.name)}){after}")


def _named(
    document: Document, base: str | None, name: NameAt, part: re.Pattern[str]
) -> Iterator[Span]:
    # A gate of a sub-plan begins with the name of its step.
    kinds = {name.kind, "gate"} if name.kind == "step" else {name.kind}
    parts = {
        pointer: match.span(1)
        for pointer, text in iterate_strings(document.value)
        if (match := part.match(text)) is not None
        and (kind := kind_of_name(pointer, base)) in kinds
        and (kind == name.kind or match.end(1) < len(text))
    }
    for pointer in sorted(parts, key=lambda pointer: not pointer.endswith("/id")):
        node = find_node(document.root, pointer)
        if node is not None:
            start = _inner_span(document.source.text, node[0]).start
            yield Span(*(start + place for place in parts[pointer]))


def _keys(document: Document, base: str | None, name: NameAt) -> Iterator[Span]:
    for keys, kind in _KIND_OF_KEYS.items():
        if kind == name.kind:
            owners = dict.fromkeys((f"{base or ''}{keys}", keys))
            yield from key_places(document, owners, name.name)


def key_places(document: Document, owners: Iterable[str], name: str) -> list[Span]:
    """Return where a name is a key of objects, which are named by their pointers."""
    nodes = (find_node(document.root, owner + pointer_token(name)) for owner in owners)
    return [
        _inner_span(document.source.text, node[1])
        for node in nodes
        if node is not None and node[1] is not None
    ]


def _inner_span(text: str, node: Node | Span) -> Span:
    quoted = text[node.start : node.start + 1] in {'"', "'"}
    return Span(node.start + 1, node.end - 1) if quoted else Span(node.start, node.end)


def _reads(
    document: Document, base: str | None, name: NameAt, part: re.Pattern[str]
) -> Iterator[Span]:
    for pointer, text in _expression_texts(document, base):
        node = find_node(document.root, pointer)
        if node is None or not isinstance(node[0], ScalarNode):
            continue
        starts = [*_part_starts(text, _ROOTS.get(name.kind), part, name.name)]
        yield from word_spans(document.source.text, node[0], text.text, name.name, starts)


def _expression_texts(document: Document, base: str | None) -> Iterator[tuple[str, ExpressionText]]:
    """Yield the texts that may hold expressions, with their pointers from the document; outside a
    plan those that look so.
    """
    if base is not None:
        for known in written_texts(value_at(document.value, base)):
            yield f"{base}{known.pointer}", known
    for pointer, text in iterate_strings(document.value):
        is_outside = pointer_in_plan(pointer, base) is None
        if is_outside and ("${" in text or _ROOT_WORD.search(text)):
            yield pointer, ExpressionText(pointer, text, "result" if "${" in text else "cap")


_ROOT_WORD: Final = re.compile(r"\b(?:steps|inputs)\b")


def mention_starts(text: ExpressionText, root: str | None, name: str) -> Iterator[int]:
    """Yield where a text names what stands right below a root: `steps.prices`, `steps["prices"]`; or
    without a root, the name itself. A faulty expression names nothing.

    Raises:
        NotEditable: the name is written with escapes.
    """
    return _part_starts(text, root, re.compile(rf"({re.escape(name)})\Z"), name)


def _part_starts(
    text: ExpressionText, root: str | None, part: re.Pattern[str], name: str
) -> Iterator[int]:
    for use, _ in text.sound_reads:
        for mention in root_mentions(use.expression):
            if root is None and mention.root == name:
                yield use.start + mention.path_start
            named = part.match(mention.name or "") if mention.root == root else None
            if named is not None:
                whole = named.string
                start = use.expression.find(whole, mention.start, mention.end)
                if start < 0:
                    raise NotEditable(f"{name!r} is written with escapes")
                yield use.start + start + named.start(1)
