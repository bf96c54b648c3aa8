"""Convert a value to the fields of the plan language.

Models wrap plans (in `{"plan": …}`, in a tool call, in a string) and use other names for fields. A
value is *plan-shaped* if a fixed list of wrappers leads to an object with `steps`, to a list of
steps, or to the answer that there is no plan. Thoughts may stand beside what is wrapped, and in words
in a plan and its steps. Two names for one field are a duplicate key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from wavewright.config.readers.json_cursor import JsonDeparture, ScanError
from wavewright.config.readers.json_scanner import JsonScanner
from wavewright.config.sources import (
    DocumentError,
    DocumentFault,
    ListNode,
    Member,
    Node,
    ObjectNode,
    ReadLimits,
    ScalarNode,
    Source,
    Span,
    iterate_nodes,
    plain_value,
    pointer_token,
)
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.reading.json_extraction import (
    TEXT_LIMITS,
    THOUGHT_FIELDS,
    arguments_field,
    is_named_function,
)
from wavewright.planner.reading.step_words import read_ids_as_words, reference_of_bare
from wavewright.planner.types import Json, JsonObject, StepId

WRAPPERS = frozenset(
    {"plan", "result", "output", "response", "execution_plan", "answer", "final_answer", "final"}
    | {"data", "content", "message", "json", "value", "object", "structured_output", "workflow"}
    | {"tool_calls"}
)
_WORD_BOUNDARY: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|-")

PLAN_FIELDS = ("version", "goal", "reasoning", "let", "steps", "gates", "stop", "result")
STEP_FIELDS = (
    "why",
    "id",
    "tool",
    "params",
    "for_each",
    "when",
    "depends_on",
    "optional",
    "needs_approval",
    "plan",
    "repeat",
    "ask",
    "dispatch",
    "tools",
)
"""Fields of plans and steps that a model may write; every other field is policy, or unknown."""

_IN_PLACE_OF: Final = {
    "plan": frozenset({"tool"}),
    "ask": frozenset({"tool", "params"}),
    "dispatch": frozenset({"tool", "params", "for_each"}),
}
_OPTIONAL_STEP_FIELDS = frozenset(STEP_FIELDS) - {"id", "tool"}
REFUSAL_FIELDS = ("error", "cannot_plan", "ask")
_OPTIONAL_PLAN_FIELDS = frozenset(
    {"version", "goal", "reasoning", "let", "gates", "stop", "result", *REFUSAL_FIELDS}
)
NEVER_EMPTY: Final = frozenset({"when", "for_each", "plan", "dispatch"})
"""Fields of which an empty text says nothing."""
_OBJECTS: Final = frozenset({"stop", "repeat"})
"""Fields that say nothing where all of their members are left empty."""
_MAX_WRAPPERS = 2
_MIN_STEP_BYTES = 100
"""Minimum size of a step in bytes; an answer with more steps than fit is not read step by step."""
_CLOSERS = frozenset(" \t\n\r}]")


@dataclass(slots=True)
class Unwrapped:
    """A plan-shaped object, and the wrappers around it."""

    node: ObjectNode
    path: list[Node]
    """The objects around it, itself included."""
    notes: list[JsonDeparture] = field(default_factory=list[JsonDeparture])
    faults: list[DocumentFault] = field(default_factory=list[DocumentFault])


@dataclass(slots=True)
class PlanNode:
    """A plan with the field names of the plan language."""

    node: ObjectNode
    notes: list[JsonDeparture]
    faults: list[DocumentFault]


# --- unwrapping
# ---------------------------------------------------------------------------------------------


def unwrap(node: Node, source: Source, max_depth: int) -> Unwrapped | None:
    """Return the plan-shaped object that a value is or wraps; `None` if it is none.

    Raises:
        DocumentError: a string that holds JSON of a plan cannot be read.
    """
    path: list[Node] = []
    notes: list[JsonDeparture] = []
    faults: list[DocumentFault] = []
    seen: set[str] = set()
    wrappers = 0
    while True:
        path.append(node)
        if isinstance(node, ObjectNode) and ("steps" in node.members or refusal_field(node)):
            return Unwrapped(node, path, notes, faults)
        if isinstance(node, ListNode) and any("tool" in _step_fields(item) for item in node.items):
            notes.append(JsonDeparture("bare_list", node.start))
            plan = ObjectNode(
                node.start, node.end, {"steps": Member(Span(node.start, node.start + 1), node)}
            )
            return Unwrapped(plan, path, notes, faults)
        inner, kind = _unwrap_once(node, source, max_depth, notes, faults)
        wrappers += kind == "wrapper"
        if inner is None or (kind in seen and kind != "wrapper") or wrappers > _MAX_WRAPPERS:
            return None
        seen.add(kind)
        notes.append(JsonDeparture(kind, node.start))
        node = inner


def _unwrap_once(
    node: Node,
    source: Source,
    max_depth: int,
    notes: list[JsonDeparture],
    faults: list[DocumentFault],
) -> tuple[Node | None, str]:
    if isinstance(node, ScalarNode):
        return _json_in(node, source, max_depth, notes, faults), "double_encoding"
    if isinstance(node, ListNode) and len(node.items) == 1:
        return node.items[0], "wrapper"
    if not isinstance(node, ObjectNode):
        return None, ""
    fields = [key for key in node.members if key.lower() not in THOUGHT_FIELDS]
    if len(fields) == 1 and fields[0] in WRAPPERS:
        return node.members[fields[0]].node, "wrapper"
    function = node.members.get("function")
    if function is not None and is_named_function(node.members):
        node = function.node
    if isinstance(node, ObjectNode) and (arguments := arguments_field(node.members)):
        return node.members[arguments].node, "tool_call"
    return None, ""


def refusal_field(node: ObjectNode) -> str | None:
    """Return the field by which the planner says that there is no plan, if it does."""
    for key in REFUSAL_FIELDS:
        member = node.members.get(key)
        if member is not None and not _is_blank(member.node):
            return key
    return None


def _is_thought(key: str, node: Node) -> bool:
    """Whether a field is a thought in words: what holds more than words may be the answer."""
    return key.lower() in THOUGHT_FIELDS and isinstance(node, ScalarNode)


def _is_blank(node: Node) -> bool:
    """Whether a field that should be absent is present, but empty."""
    if isinstance(node, ObjectNode):
        question = node.members.get("question")
        return not node.members if question is None else _is_blank(question.node)
    if isinstance(node, ListNode):
        return not node.items
    return node.value is None or node.value is False or node.value == ""


def field_of_step(written: str) -> str:
    """Return the field of a step that a name means, in whatever case it is written (`dependsOn`,
    `for-each`); any other name as it is.
    """
    name = _WORD_BOUNDARY.sub("_", written).lower()
    meant = Step.other_names.get(name, name)
    return meant if meant in STEP_FIELDS else written


def is_step(node: Node) -> bool:
    """Whether a value must be a step: it names a tool and has a further field of a call."""
    fields = _step_fields(node)
    return "tool" in fields and not fields.isdisjoint({"id", "params", "depends_on"})


def _step_fields(node: Node) -> set[str]:
    """Return the fields that a value has where it is a step."""
    return {*map(field_of_step, node.members)} if isinstance(node, ObjectNode) else set()


def _json_in(
    node: ScalarNode,
    source: Source,
    max_depth: int,
    notes: list[JsonDeparture],
    faults: list[DocumentFault],
) -> Node | None:
    """Return the list or object that a string holds; its nodes have the position of the string."""
    text = node.value
    if not isinstance(text, str) or text.lstrip()[:1] not in {"{", "["}:
        return None
    scanner = JsonScanner(text, max_depth=max_depth, lenient=True)
    where = Span(node.start, node.end)
    try:
        inner = scanner.value()
        scanner.skip_gap()
    except ScanError as error:
        raise DocumentError(source, (replace(error.fault, span=where),)) from error
    rest = text[scanner.position :]
    if not _CLOSERS.issuperset(rest):
        return None
    if scanner.unclosed:
        raise DocumentError(
            source, (DocumentFault("truncated", "the JSON inside a string is not closed", where),)
        )
    notes.extend(JsonDeparture(note.kind, node.start) for note in scanner.notes)
    if rest.strip():
        notes.append(JsonDeparture("surplus_closer", node.start))
    faults.extend(replace(fault, span=where) for fault in scanner.faults)
    for inner_node in iterate_nodes(inner):
        inner_node.start, inner_node.end = node.start, node.end
        if isinstance(inner_node, ObjectNode):
            inner_node.members = {
                key: Member(where, member.node) for key, member in inner_node.members.items()
            }
    return inner


# --- field names of the plan language
# -------------------------------------------------------------------------


def normalize_plan(unwrapped: Unwrapped, source: Source, limits: ReadLimits) -> PlanNode:
    """Return a plan-shaped object with the field names of the plan language.

    Raises:
        DocumentError: the planner says that there is no plan, or a key stands twice.
    """
    refusal = refusal_field(unwrapped.node)
    if refusal is not None:
        raise DocumentError(source, (_planner_error(unwrapped.node, refusal),))
    return _PlanNormalizer(source, limits, unwrapped).plan()


def normalize_patch_steps(
    steps: Sequence[JsonObject], plan: Plan
) -> tuple[Json, list[JsonDeparture]]:
    """Return the steps of a patch as those of a plan are read, and what was read otherwise than it is
    written.

    Args:
        steps: What is said of each step; fields that no step of a plan has are kept.
        plan: The plan that the patch is for.

    Raises:
        DocumentError: two fields are one, or a text of JSON cannot be read.
    """
    content: Json = {"let": plan.let, "steps": [*steps]}
    source = Source("the patch", json.dumps(content))
    node = JsonScanner(source.text, max_depth=TEXT_LIMITS.max_depth, lenient=True).value()
    assert isinstance(node, ObjectNode)
    normalizer = _PlanNormalizer(source, TEXT_LIMITS, Unwrapped(node, [node]), keeps_unknown=True)
    normalizer.read_steps(node, [step.id for step in plan.steps])
    return plain_value(node.members["steps"].node), normalizer.notes


def _planner_error(node: ObjectNode, refusal: str) -> DocumentFault:
    member = node.members[refusal]
    said = member.node.value if isinstance(member.node, ScalarNode) else None
    words = f": {said[:200]!r}" if isinstance(said, str) else ""
    steps_left = "; the steps beside it are not run" if "steps" in node.members else ""
    message = f"the planner answered {refusal!r} instead of a plan{words}{steps_left}"
    if steps_left:
        hint = f"leave out {refusal!r} if the steps are the plan, else the steps"
    elif refusal == "ask":
        hint = "answer its question, or change the goal or its tools"
    else:
        hint = "change the goal or its tools"
    return DocumentFault("planner_error", message, member.key, pointer_token(refusal), hint)


_Container: TypeAlias = type[ObjectNode | ListNode]


class _PlanNormalizer:
    """Writes one plan again, field by field, keeping every node's place."""

    def __init__(
        self,
        source: Source,
        limits: ReadLimits,
        unwrapped: Unwrapped,
        *,
        keeps_unknown: bool = False,
    ) -> None:
        self.notes = unwrapped.notes
        self._source = source
        self._max_depth = limits.max_depth
        self._most_steps = limits.max_bytes // _MIN_STEP_BYTES
        self._old = unwrapped.node
        self._keeps_unknown = keeps_unknown
        self._faults: list[DocumentFault] = []

    def plan(self) -> PlanNode:
        members = self._fields(self._old, str, PLAN_FIELDS, _OPTIONAL_PLAN_FIELDS, "the plan")
        plan = ObjectNode(self._old.start, self._old.end, members)
        steps = members.get("steps")
        if (
            steps is not None
            and isinstance(steps.node, ListNode)
            and len(steps.node.items) > self._most_steps
        ):
            message = f"the plan has {len(steps.node.items):,} steps, and is not read: {self._most_steps:,} at most"
            hint = "use for_each for calls that differ only in an item"
            raise DocumentError(
                self._source, (DocumentFault("too_many_steps", message, steps.key, "/steps", hint),)
            )
        self._change(plan, "version", self._version)
        self._change(plan, "gates", self._gates)
        self._change(plan, "result", self._json_in_text)
        self._change(plan, "stop", self._stop)
        self.read_steps(plan)
        return PlanNode(plan, self.notes, self._faults)

    def read_steps(self, plan: ObjectNode, known: Collection[StepId] = ()) -> None:
        """Write the steps of a plan, or of a patch of the plan with these ids, again."""
        self._change(plan, "steps", self._steps)
        for name in read_ids_as_words(plan, known):
            kind = "integer_id" if name.isdecimal() else "hyphen_id"
            self.notes.append(JsonDeparture(kind, plan.start))
        self._change(plan, "steps", self._with_lists_of_dependencies)

    def _fields(
        self,
        node: ObjectNode,
        meaning: Callable[[str], str],
        known: tuple[str, ...],
        optional: frozenset[str],
        owner: str,
    ) -> dict[str, Member]:
        members: dict[str, Member] = {}
        named: set[str] = set()
        for written, member in node.members.items():
            key = meaning(written)
            if key in named:
                message = f"{written!r} stands beside another name of {key!r} in {owner}"
                hint = "keep one of them: which of the two counts would be a guess"
                fault = DocumentFault("duplicate_key", message, member.key, hint=hint)
                raise DocumentError(self._source, (fault,))
            named.add(key)
            # A field that holds null says nothing, whatever its name.
            is_unknown_null = key not in known and _is_null(member.node)
            if is_unknown_null or (key in optional and _is_absent(key, member.node)):
                self.notes.append(JsonDeparture("null_field", member.node.start))
            elif _is_thought(key, member.node) and key not in known:
                self.notes.append(JsonDeparture("thought", member.node.start))
            elif key not in known and not self._keeps_unknown:
                message = f"{written!r} is no field that a planner may write in {owner}"
                self._faults.append(
                    DocumentFault(
                        "unknown_field", message, member.key, hint=f"there are {', '.join(known)}"
                    )
                )
            else:
                if key != written:
                    self.notes.append(JsonDeparture("key_alias", member.key.start))
                members[key] = member
        return members

    def _change(self, node: ObjectNode, key: str, change: Callable[[Node], Node]) -> None:
        member = node.members.get(key)
        if member is not None:
            node.members[key] = Member(member.key, change(member.node))

    def _version(self, node: Node) -> Node:
        if not isinstance(node, ScalarNode) or isinstance(node.value, int):
            return node
        if node.value not in {"1", "1.0", 1.0}:
            return node
        self.notes.append(JsonDeparture("version", node.start))
        return ScalarNode(1, node.start, node.end)

    def _gates(self, node: Node) -> Node:
        if not isinstance(node, ListNode):
            return node
        return ListNode(node.start, node.end, [self._without_nulls(gate) for gate in node.items])

    def _without_nulls(self, node: Node) -> Node:
        if not isinstance(node, ObjectNode):
            return node
        members = {key: member for key, member in node.members.items() if not _is_null(member.node)}
        if len(members) < len(node.members):
            self.notes.append(JsonDeparture("null_field", node.start))
        return ObjectNode(node.start, node.end, members)

    def _steps(self, node: Node) -> Node:
        if not isinstance(node, ListNode):
            return node
        steps = [self._step(step, index) for index, step in enumerate(node.items)]
        return ListNode(node.start, node.end, steps)

    def _with_lists_of_dependencies(self, node: Node) -> Node:
        for step in node.items if isinstance(node, ListNode) else ():
            if isinstance(step, ObjectNode):
                self._change(step, "depends_on", self._dependencies)
        return node

    def _step(self, node: Node, index: int) -> Node:
        if not isinstance(node, ObjectNode):
            return node
        replaced = _replaced_fields(node)
        optional = _OPTIONAL_STEP_FIELDS | replaced
        members = self._fields(node, field_of_step, STEP_FIELDS, optional, f"steps[{index}]")
        for name in replaced & members.keys():
            if _is_blank(members[name].node):
                self.notes.append(JsonDeparture("null_field", members[name].node.start))
                del members[name]
        step = ObjectNode(node.start, node.end, members)
        self._change(step, "params", lambda one: self._in_text(one, ObjectNode, "params_string"))
        self._change(step, "for_each", lambda one: self._json_in_text(one, ListNode))
        for name in ("for_each", "dispatch"):
            self._change(step, name, self._reference)
        return step

    def _stop(self, node: Node) -> Node:
        if isinstance(node, ObjectNode):
            self._change(node, "result", self._json_in_text)
        return node

    def _json_in_text(self, node: Node, kind: _Container = ObjectNode) -> Node:
        return self._in_text(node, kind, "json_text") if _is_json(node) else node

    def _reference(self, node: Node) -> Node:
        """Return the reference that a text without `${…}` is where only a list may stand."""
        if not isinstance(node, ScalarNode) or not isinstance(node.value, str):
            return node
        let = self._old.members.get("let")
        names = let.node.members if let is not None and isinstance(let.node, ObjectNode) else ()
        reference = reference_of_bare(node.value, names)
        if reference is None:
            return node
        self.notes.append(JsonDeparture("bare_reference", node.start))
        return ScalarNode(reference, node.start, node.end)

    def _in_text(self, node: Node, kind: _Container, note: str) -> Node:
        """Return the object or the list that a text holds as JSON; a provider that takes no open
        object makes a model write it so.
        """
        if not isinstance(node, ScalarNode):
            return node
        faults: list[DocumentFault] = []
        inner = _json_in(node, self._source, self._max_depth, self.notes, faults)
        if faults:
            raise DocumentError(self._source, tuple(faults))
        if not isinstance(inner, kind):
            return node
        self.notes.append(JsonDeparture(note, node.start))
        return inner

    def _dependencies(self, node: Node) -> Node:
        if isinstance(node, ScalarNode):
            if isinstance(node.value, bool) or not isinstance(node.value, (str, int)):
                return node
            self.notes.append(JsonDeparture("depends_on", node.start))
            return ListNode(node.start, node.end, [node])
        if not isinstance(node, ListNode):
            return node
        distinct = list({_identity(item): item for item in reversed(node.items)}.values())[::-1]
        if len(distinct) < len(node.items):
            self.notes.append(JsonDeparture("depends_on", node.start))
        return ListNode(node.start, node.end, distinct)


def _is_json(node: Node) -> bool:
    """Whether a value is a text that is nothing but JSON."""
    if not isinstance(node, ScalarNode) or not isinstance(node.value, str):
        return False
    try:
        json.loads(node.value)
    except (ValueError, RecursionError):
        return False
    return True


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.value is None


def _is_absent(key: str, node: Node) -> bool:
    """Whether an optional field is left empty, as a schema that wants all fields makes models write
    it.
    """
    if key in REFUSAL_FIELDS:
        return _is_blank(node)
    if key in _OBJECTS and isinstance(node, ObjectNode):
        return all(_says_nothing(member.node) for member in node.members.values())
    return _says_nothing(node) if key in NEVER_EMPTY else _is_null(node)


def _says_nothing(node: Node) -> bool:
    return _is_null(node) or (isinstance(node, ScalarNode) and node.value == "")


def _replaced_fields(step: ObjectNode) -> frozenset[str]:
    """Return the fields in whose place another one of a step stands: left empty, as a schema with all
    fields asks for, they say nothing.
    """
    replaced = frozenset[str]()
    for head, fields in _IN_PLACE_OF.items():
        member = step.members.get(head)
        if member is not None and not _is_null(member.node):
            replaced |= fields
    return replaced


def _identity(node: Node) -> object:
    """Return the key by which items of `depends_on` are compared; values that are no names stay
    distinct.
    """
    return node.value if isinstance(node, ScalarNode) and isinstance(node.value, str) else id(node)
