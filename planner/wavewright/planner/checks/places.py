"""What stands, and what may stand, at one place of a plan: for editors.

A *place* is an expression with a point in it. It is found in the plan that can be read, also where
that is a partial one, so a plan is understood while it is being written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wavewright.config.sources import pointer_keys
from wavewright.planner.cel.embedded import bare_expression, split_references
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.nodes import (
    ExpressionNode,
    FunctionCall,
    Identifier,
    Macro,
    Select,
    all_nodes,
)
from wavewright.planner.cel.parser import parse_expression
from wavewright.planner.checks.context import CheckContext
from wavewright.planner.checks.partial_plans import is_stand_in
from wavewright.planner.diagnostics.diagnostic import list_fields, type_name
from wavewright.planner.language.plan import Step
from wavewright.planner.plans.let_and_stop import let_values
from wavewright.planner.plans.uses import ExpressionRole
from wavewright.planner.plans.written_texts import role_of_place
from wavewright.planner.schemas.views import schema_below, view_of
from wavewright.planner.types import JsonSchema, StepId

if TYPE_CHECKING:
    from wavewright.planner.schemas.inference import PartTypes

_BARE: frozenset[ExpressionRole] = frozenset({"when", "gate", "cap"})
_POINT = "point__"
"""Stands for the name at the point, which is still being written."""


@dataclass(frozen=True, slots=True)
class ExpressionPlace:
    """A point in an expression of a plan."""

    subject: CheckContext
    pointer: str
    """Of the text, from the plan."""
    role: ExpressionRole
    before: str
    """The expression up to the point."""
    after: str
    is_whole: bool
    """Whether nothing stands around the expression, so that its value keeps its type."""

    @property
    def expression(self) -> str:
        """The whole expression."""
        return self.before + self.after

    @property
    def step(self) -> Step | None:
        """The step that the expression belongs to; of a gate's check the step that it is on."""
        keys = pointer_keys(self.pointer)
        plan = self.subject.plan
        if keys[0] == "steps" and int(keys[1]) < len(plan.steps):
            return plan.steps[int(keys[1])]
        if keys[0] == "gates" and int(keys[1]) < len(plan.gates):
            on = plan.gates[int(keys[1])].on
            return None if on is None else self.subject.steps.get(on)
        return None

    @property
    def output(self) -> JsonSchema | None:
        """What `output` stands for; None outside gates."""
        if self.role != "gate":
            return None
        if self.step is not None:
            return self.subject.types.call_output(self.step)
        gate = self.subject.plan.gates[int(pointer_keys(self.pointer)[1])]
        signature = None if gate.on_tool is None else self.subject.tools.get(gate.on_tool)
        return None if signature is None else signature.output_schema

    @property
    def wanted(self) -> JsonSchema | None:
        """What the expression should give; None where that is open."""
        if self.role in _BARE:
            return {"type": "boolean"}
        if not self.is_whole:
            return None
        if self.role == "for_each":
            return {"type": "array"}
        return argument_schema(self.subject, self.pointer)

    def part_types(self, expression: str) -> PartTypes:
        """Return the types of the parts of an expression that stands here."""
        types = self.subject.types
        values = let_values(self.subject.plan)
        names = {name: types.value(value, self.step) for name, value in values.items()}
        return types.part_types(expression, self.role, self.step, output=self.output, names=names)

    def readable_steps(self) -> list[StepId]:
        """Return the steps that may be read here: none that waits for the step itself."""
        step, names = self.step, self.subject.steps
        unreadable = {name for name in names if is_stand_in(name)}
        if step is not None and self.role != "gate":
            unreadable |= {*self.subject.graph.descendants(step.id)}
            if pointer_keys(self.pointer)[2] != "repeat":  # which reads the run before
                unreadable.add(step.id)
        return [name for name in names if name not in unreadable]


def expression_at(
    subject: CheckContext, pointer: str, text: str, offset: int
) -> ExpressionPlace | None:
    """Return the point of an offset in a text of the plan; None where no expression stands there."""
    role = role_of_place(pointer)
    if role is None:
        return None
    if role in _BARE:
        return _bare_place(subject, pointer, role, text, offset)
    start = _open_reference(text[:offset])
    if start is None:
        return None
    try:
        parts = split_references(text)
    except ExpressionError:
        parts = ()
    for part in parts:
        if not isinstance(part, str) and part.offset <= offset < part.end:
            after = part.expression[offset - part.offset :]
            whole = part.start == 0 and part.end == len(text)
            return ExpressionPlace(subject, pointer, role, text[start:offset], after, whole)
    whole = text.startswith("${") and start == len("${")
    return ExpressionPlace(subject, pointer, role, text[start:offset], "", whole)


def _bare_place(
    subject: CheckContext, pointer: str, role: ExpressionRole, text: str, offset: int
) -> ExpressionPlace:
    try:
        bare = bare_expression(text)
        start, end = bare.offset, bare.offset + len(bare.expression)
    except ExpressionError:
        start, end = text.find("${") + len("${"), len(text)
    if not start <= offset <= end:
        start, end = 0, len(text)
    return ExpressionPlace(
        subject, pointer, role, text[start:offset], text[offset:end], is_whole=True
    )


def _open_reference(before: str) -> int | None:
    """Return where the expression begins that is open at the end of a text."""
    try:
        split_references(before)
    except ExpressionError as unclosed:
        return (unclosed.offset or 0) + len("${")
    return None


def argument_schema(subject: CheckContext, pointer: str) -> JsonSchema | None:
    """Return what a step's tool, or its sub-plan, takes at a place of its arguments; None elsewhere,
    and where it says nothing.
    """
    match pointer_keys(pointer):
        case ["steps", number, "params" | "ask", *keys]:
            pass
        case ["steps", number, "repeat", "params", *keys]:
            pass
        case _:
            return None
    signature = subject.signature(subject.plan.steps[int(number)])
    return None if signature is None else schema_below(signature.input_schema, keys)


@dataclass(frozen=True, slots=True)
class NameAsked:
    """The name that is being written at a point of an expression."""

    written: str
    """As much of it as stands before the point."""
    owner: JsonSchema | None
    """The type of what stands before the dot; None for a name without one."""
    is_step: bool
    """Whether it names a step."""
    names: dict[str, JsonSchema]
    """Names that may stand here without a dot, with their types."""
    is_key: bool = False
    """Whether it stands in quotes, as in `x["name"]`: a field, and no method."""


def name_asked(place: ExpressionPlace) -> NameAsked | None:
    """Return which name is being written, if any, and what it is a field of."""
    quoted = _QUOTED_KEY.search(place.before)
    # A bracket in a text opens nothing.
    if quoted is None or not _open_brackets(place.before[: quoted.start() + 1]):
        quoted = None
        written = _trailing_name(place.before)
        head = place.before[: len(place.before) - len(written)]
        rest = place.after[_leading_name(place.after) :]
    else:
        # `x["na` asks for what `x.na` asks for.
        written, head = quoted["key"], f"{place.before[: quoted.start()]}."
        rest = _REST_OF_KEY.sub("", place.after, count=1)
    for expression in _complete(head + _POINT, rest):
        try:
            tree = parse_expression(expression)
        except ExpressionError:
            continue
        types = place.part_types(expression)
        for node in all_nodes(tree):
            if isinstance(node, Identifier) and node.name == _POINT:
                return NameAsked(written, None, is_step=False, names=types.names_at(node.start))
            owner = _owner(node)
            if owner is None:
                continue
            if isinstance(owner, Identifier) and owner.name == "steps":
                return NameAsked(written, None, is_step=True, names={})
            known = types.type_of(owner.start, owner.end)
            return NameAsked(
                written, known or {}, is_step=False, names={}, is_key=quoted is not None
            )
    return None


_QUOTED_KEY: Final = re.compile(r"""\[\s*(["'])(?P<key>(?:(?!\1)[^\\])*)\Z""")
"""A key in quotes that is being written."""
_REST_OF_KEY: Final = re.compile(r"""[^"'\]]*["']?\s*\]?""")


def _owner(node: ExpressionNode) -> ExpressionNode | None:
    """Return what the name at the point is a field or a method of."""
    if isinstance(node, Select) and node.field == _POINT:
        return node.operand
    if isinstance(node, FunctionCall) and node.function == _POINT:
        return node.target
    if isinstance(node, Macro) and node.function == _POINT:
        return node.range
    return None


def _complete(head: str, rest: str) -> Iterator[str]:
    """Yield what an expression that is being written may become, likeliest first."""
    closers = "".join(_open_brackets(head))
    yield head + rest
    yield head + closers
    yield f"{head} : null{closers}"
    yield f"{head} ? null : null{closers}"
    yield f"{head}, null{closers}"


def _open_brackets(text: str) -> list[str]:
    """Return the brackets that would close what is open, the innermost first."""
    pairs = {"(": ")", "[": "]", "{": "}"}
    waiting: list[str] = []
    quote: str | None = None
    for character in text:
        if quote is not None:
            quote = None if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in pairs:
            waiting.insert(0, pairs[character])
        elif waiting and character == waiting[0]:
            waiting.pop(0)
    return waiting


def _trailing_name(text: str) -> str:
    start = len(text)
    while start and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    return text[start:]


def _leading_name(text: str) -> int:
    end = 0
    while end < len(text) and (text[end].isalnum() or text[end] == "_"):
        end += 1
    return end


@dataclass(frozen=True, slots=True)
class PartAt:
    """The part of an expression at a point."""

    text: str
    schema: JsonSchema | None
    """Its type, where it is known."""
    start: int
    """In the expression."""
    step: StepId | None = None
    """The step that it names."""
    name: str | None = None
    """The function that it calls, or the field or root that it is."""
    root: str | None = None
    """The root that it is a field of."""
    is_call: bool = False
    """Whether it calls a function or a macro."""


def part_at(place: ExpressionPlace) -> PartAt | None:
    """Return the smallest part of an expression at a point that has a name."""
    expression, point = place.expression, len(place.before)
    try:
        tree = parse_expression(expression)
    except ExpressionError:
        return None
    types = place.part_types(expression)
    best: PartAt | None = None
    for node in all_nodes(tree):
        if not node.start <= point <= node.end:
            continue
        name, root = _name_of(node), None
        if name is None:
            continue
        if isinstance(node, Select) and isinstance(node.operand, Identifier):
            root = node.operand.name
            if root == "steps" and point < node.field_start:
                continue
        text = expression[node.start : node.end]
        step = StepId(name) if root == "steps" else None
        is_call = isinstance(node, (FunctionCall, Macro))
        schema = types.type_of(node.start, node.end)
        best = PartAt(text, schema, node.start, step, name, root, is_call)
    return best


def part_of_key(subject: CheckContext, pointer: str | None) -> PartAt | None:
    """Return what expressions read by a key of `inputs` or `let`; None for any other key."""
    match pointer_keys(pointer or ""):
        case ["inputs", name]:
            read = f"inputs.{name}"
        case ["let", name]:
            read = name
        case _:
            return None
    return part_at(ExpressionPlace(subject, "/result", "result", read, "", is_whole=True))


def _name_of(node: ExpressionNode) -> str | None:
    match node:
        case Identifier():
            return node.name
        case Select():
            return node.field
        case FunctionCall() | Macro():
            return node.function
        case _:
            return None


def type_text(schema: JsonSchema) -> str:
    """Return a type with the fields that it has, or that its elements have."""
    view = view_of(schema)
    items = view.schema.get("items")
    fields = list_fields(items if isinstance(items, dict) else view.schema, what="fields")
    return type_name(view.schema or schema) + (f"\n{fields}" if fields else "")
