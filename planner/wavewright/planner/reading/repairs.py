"""Repair a model's answer where the repair is certain.

A *repair* is one of a fixed list, and is recorded. It adds nothing that the text does not hold and
loses nothing that it may have held: a plan that is cut inside its steps, duplicate keys, numbers
that JSON readers disagree on, and answers with two plans are refused, and the planner is asked
again. Names of tools are never corrected, and ids of steps in their spelling alone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from wavewright.config.documents import Document, decode
from wavewright.config.readers.json_cursor import FENCE, JsonDeparture
from wavewright.config.sources import (
    DocumentError,
    DocumentFault,
    ListNode,
    Node,
    ObjectNode,
    ReadLimits,
    Source,
    Span,
    iterate_nodes,
    plain_value,
)
from wavewright.planner.reading.json_extraction import AnswerJson, JsonMatch, parse_answer
from wavewright.planner.reading.normalization import PlanNode, is_step, normalize_plan, unwrap

_MESSAGES = {
    "repeated_plan": "the same plan stands {n} times more",
    "bare_reference": "{n} list(s) named without ${{…}} were read as references",
    "bare_list": "a bare list of steps was taken for the plan",
    "code_fence": "the code fence was taken off",
    "comment": "{n} comment(s) left out",
    "depends_on": "{n} depends_on brought into the form of a list without repeats",
    "double_encoding": "the plan was a JSON string inside JSON",
    "escaped_apostrophe": "{n} escaped apostrophe(s) read as apostrophes",
    "hyphen_id": "{n} id(s) with hyphens read as words, such as fetch_page for fetch-page",
    "ignored_value": "{n} other JSON value(s) left out",
    "integer_id": "{n} integer id(s) turned into words: 1 became 's1'",
    "invisible_character": "{n} run(s) of invisible characters left out",
    "json_text": "{n} object(s) or list(s) written as JSON in a text were read",
    "key_alias": "{n} key(s) read by their usual names, such as dependsOn for depends_on",
    "missing_closer": "{n} closing bracket(s) added at the very end",
    "missing_comma": "{n} comma(s) added between objects of a list",
    "null_field": "{n} empty field(s) left out",
    "params_string": "{n} params given as a JSON string were read",
    "prose": "the text around the plan was left out",
    "python_literal": "{n} Python literal(s) read as JSON",
    "quotes": "{n} string(s) in single or curly quotes were read",
    "raw_control_character": "{n} raw line break(s) or tab(s) inside strings kept",
    "surplus_closer": "closing brackets without a partner left out at the end",
    "think": "the reasoning was left out",
    "thought": "{n} thought(s) beside the fields of a plan left out",
    "tool_call": "the plan was taken out of a tool call",
    "trailing_comma": "{n} trailing comma(s) left out",
    "unknown_escape": "{n} unknown escape(s) read with their backslash",
    "unquoted_key": "{n} key(s) without quotes were read",
    "version": "the version was read as the number 1",
    "wrapper": "the plan was taken out of a wrapper",
}
"""Every kind of repair, with its description."""
_CONTENT_REPAIRS: Final = frozenset({"unknown_escape"})
"""Kinds of which another reading would give another value; the others lose only form."""


@dataclass(frozen=True, slots=True)
class Repair:
    """One kind of repair that an answer needed, with the place of its first occurrence."""

    kind: str
    message: str
    offset: int

    @property
    def decides_content(self) -> bool:
        """Whether what a value says depends on how the text was read."""
        return self.kind in _CONTENT_REPAIRS


@dataclass(frozen=True, slots=True)
class RepairedAnswer:
    """The plan of an answer, before its shape is checked."""

    document: Document
    repairs: tuple[Repair, ...]
    faults: tuple[DocumentFault, ...]
    """Faults of the plan, although it could be read."""


def repair_answer(content: str | bytes, name: str, limits: ReadLimits) -> RepairedAnswer:
    """Read the one plan in an answer.

    Raises:
        DocumentError: the answer holds no plan, or none that can be read for certain.
    """
    text = decode(content, name, limits)
    source = Source(name, text)
    answer = parse_answer(source, limits.max_depth)
    plan_of_matches = [(find, _normalized_plan(find, source, limits)) for find in answer.matches]
    plans = [(find, plan) for find, plan in plan_of_matches if plan is not None]
    ignored = [find for find, plan in plan_of_matches if plan is None]
    find, plan = _select_plan(source, plans, ignored, answer)
    notes = [*find.notes, *plan.notes, *_surrounding_notes(source, find, answer)]
    if len(text) != len(content) and content[:1] in {"\ufeff", b"\xef"}:
        notes.append(JsonDeparture("invisible_character", 0))
    notes += [
        JsonDeparture("repeated_plan", other.start) for other, _ in plans if other is not find
    ]
    notes += [JsonDeparture("ignored_value", other.start) for other in ignored]
    document = Document(plain_value(plan.node), source, root=plan.node)
    return RepairedAnswer(document, tuple(_repairs(notes)), tuple(plan.faults))


def _normalized_plan(find: JsonMatch, source: Source, limits: ReadLimits) -> PlanNode | None:
    """Return the plan that a value is or wraps, with the field names of the plan language.

    Raises:
        DocumentError: it is a plan, and may not be read.
    """
    unwrapped = unwrap(find.node, source, limits.max_depth)
    if unwrapped is None:
        return None
    if find.faults or unwrapped.faults:
        raise DocumentError(source, (*find.faults, *unwrapped.faults))
    outer = {id(node) for node in unwrapped.path}
    if any(id(node) not in outer for node in find.unclosed):
        fault = DocumentFault(
            "truncated",
            "the answer ends inside the plan",
            Span(find.end, find.end),
            hint=_REPEAT_HINT,
        )
        raise DocumentError(source, (fault,))
    return normalize_plan(unwrapped, source, limits)


def _select_plan(
    source: Source,
    plans: list[tuple[JsonMatch, PlanNode]],
    ignored: list[JsonMatch],
    answer: AnswerJson,
) -> tuple[JsonMatch, PlanNode]:
    if not plans:
        raise DocumentError(source, (_no_plan_fault(source, answer),))
    first = _canonical_text(plans[0][1].node)
    different = [find for find, plan in plans if _canonical_text(plan.node) != first]
    stray = [find for find in ignored if _holds_another_plan(find.node)]
    if different or stray:
        other = (stray or different)[0]
        message = (
            "the answer holds steps outside of its plan"
            if stray
            else "the answer holds plans that differ"
        )
        hint = "answer with one plan: taking the first or the last would be a guess"
        raise DocumentError(
            source,
            (DocumentFault("ambiguous", message, Span(other.start, other.start + 1), hint=hint),),
        )
    return plans[0]


def _holds_another_plan(node: Node) -> bool:
    """Whether a value that is no plan still holds one, or a step."""
    return any(
        is_step(inner) or isinstance(_member(inner, "steps"), ListNode)
        for inner in iterate_nodes(node)
        if isinstance(inner, ObjectNode)
    )


def _member(node: ObjectNode, key: str) -> Node | None:
    member = node.members.get(key)
    return None if member is None else member.node


def _canonical_text(node: ObjectNode) -> str:
    """Return a plan in a form in which equivalent plans are equal: an empty `depends_on` or
    `params` is left out.
    """
    plan = plain_value(node)
    steps = plan.get("steps") if isinstance(plan, dict) else None
    for step in steps if isinstance(steps, list) else ():
        if isinstance(step, dict):
            for key in ("depends_on", "params"):
                if not step.get(key, True):
                    del step[key]
    return json.dumps(plan, sort_keys=True)


def _no_plan_fault(source: Source, answer: AnswerJson) -> DocumentFault:
    if not source.text.strip():
        return DocumentFault("no_plan", "the answer is empty", Span(0, 0), hint=_ANSWER_HINT)
    faults = [fault for find in answer.matches for fault in find.faults]
    if faults:
        return faults[0]
    if answer.broken is not None and answer.broken.kind == "truncated":
        return answer.broken
    if answer.matches:
        first = answer.matches[0]
        inside = first.node.items if isinstance(first.node, ListNode) else []
        found = [find.node for find in answer.matches]
        if max(sum(map(_holds_another_plan, nodes)) for nodes in (found, inside)) > 1:
            return DocumentFault(
                "ambiguous",
                "the answer holds plans in a list",
                Span(first.start, first.end),
                hint=_ANSWER_HINT,
            )
        message = "the answer holds JSON, but nothing of the shape of a plan"
        return DocumentFault(
            "no_plan", message, Span(first.start, first.start + 1), hint=_ANSWER_HINT
        )
    return DocumentFault(
        "no_plan", "the answer holds no plan in JSON", Span(0, 0), hint=_ANSWER_HINT
    )


def _surrounding_notes(
    source: Source, find: JsonMatch, answer: AnswerJson
) -> Iterable[JsonDeparture]:
    """Yield a repair for each wrapper around the plan."""
    if answer.reasoning_starts:
        yield JsonDeparture("think", answer.reasoning_starts[0])
    if find.surplus is not None:
        yield JsonDeparture("surplus_closer", find.surplus)
    before, after = source.text[: find.start], source.text[find.end :]
    if FENCE in before or FENCE in after:
        yield JsonDeparture("code_fence", max(0, before.find(FENCE)))
    if (before + after).replace(FENCE, "").strip():
        yield JsonDeparture("prose", 0 if before.strip() else find.end)


def _repairs(notes: list[JsonDeparture]) -> Iterable[Repair]:
    """Gather notes of one kind into one repair."""
    counts = Counter(note.kind for note in notes)
    for kind, count in counts.items():
        offset = min(note.offset for note in notes if note.kind == kind)
        yield Repair(kind, _MESSAGES[kind].format(n=count), offset)


_REPEAT_HINT = "write it again, whole: what was cut off may be the step that matters"
_ANSWER_HINT = "answer with one JSON object that has 'steps', and nothing around it"
