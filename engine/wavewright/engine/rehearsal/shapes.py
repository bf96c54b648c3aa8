"""What a plan's expressions read of each output.

A *shape* is a place in an output as it is read: the members that are named there, and whether it is gone through as a
list. It is found in the expressions' trees, through the names that macros and `for_each` give to elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from wavewright.engine.rehearsal.concerns import embedded_expressions
from wavewright.planner.cel_nodes import (
    Binary,
    Call,
    Has,
    Index,
    LiteralKind,
    LiteralValue,
    Macro,
    Name,
    Node,
    Paren,
    Select,
    Ternary,
    children,
    without_parens,
)
from wavewright.planner.cel_tree import read_tree
from wavewright.planner.embedded import bare_expression
from wavewright.planner.expressions import ExpressionFault
from wavewright.planner.models import Gate, Plan, Step
from wavewright.planner.types import StepId

_KINDS: Mapping[LiteralKind, str] = {
    "int": "integer", "uint": "integer", "double": "number", "string": "string", "bool": "boolean",
}  # fmt: skip
"""Types of values that are compared with, or reckoned with, a constant."""
_OF_LISTS = frozenset({"sort", "distinct", "slice", "flatten", "join"})
"""Methods that only a list has."""
_SAME_ENTRIES = frozenset({"filter", "sort", "sortBy", "distinct", "slice"})
"""Macros and methods that give entries of the list that they go through."""


@dataclass(slots=True)
class Shape:
    """A place in an output, as expressions read it."""

    members: dict[str, Shape] = field(default_factory=dict[str, "Shape"])
    entries: Shape | None = None
    """What each entry is, where the place is gone through as a list."""
    kind: str = ""
    """The type of a single value, where a constant beside it shows that."""
    is_asked: bool = False
    """Whether an expression asks by `has()` if it is there at all."""

    def member(self, name: str) -> Shape:
        """Return the shape of a member, which is read by that."""
        return self.members.setdefault(name, Shape())

    def each(self) -> Shape:
        """Return the shape of the entries of a list, which it is read as by that."""
        self.entries = self.entries or Shape()
        return self.entries


def shapes_read(plan: Plan) -> dict[StepId, Shape]:
    """Return, for each step of which an expression or a gate reads something, the shape of one call's output."""
    steps = Shape()
    fans = {step.id for step in plan.steps if step.for_each is not None}
    for step in plan.steps:
        _read_step(step, steps)
    for gate in plan.gates:
        if gate.on is not None:
            on = steps.member(gate.on)
            _read_gate(gate, steps, on.each() if gate.on in fans else on)
    for text in (
        *(text for cap in plan.caps for text in _bare(cap.when)),
        *embedded_expressions(plan.result),
    ):
        _read(text, {"steps": steps})
    read = {StepId(name): shape for name, shape in steps.members.items()}
    return {name: shape.each() if name in fans else shape for name, shape in read.items()}


def _read_step(step: Step, steps: Shape) -> None:
    item = Shape()
    for text in embedded_expressions(step.for_each):
        whole = _read(text, {"steps": steps})
        if whole is not None and isinstance(step.for_each, str):
            item = whole.each()
    for text in _bare(step.when):
        _read(text, {"steps": steps})
    for text in embedded_expressions(step.params):
        _read(text, {"steps": steps, "item": item})


def _read_gate(gate: Gate, steps: Shape, output: Shape) -> None:
    for text in (*_bare(gate.check), *(f"output.{path}" for path in gate.required or ())):
        _read(text, {"steps": steps, "output": output})


def _bare(text: str | None) -> Iterator[str]:
    if text is not None:
        try:
            yield bare_expression(text).expression
        except ExpressionFault:
            return


def _read(expression: str, scope: Mapping[str, Shape]) -> Shape | None:
    """Note what an expression reads, and return the place that it stands for, if it is one."""
    try:
        return _place(read_tree(expression), scope)
    except ExpressionFault:
        return None


def _place(node: Node, scope: Mapping[str, Shape]) -> Shape | None:
    match node:
        case Name():
            return scope.get(node.name)
        case Paren():
            return _place(node.inner, scope)
        case Select():
            operand = _place(node.operand, scope)
            return None if operand is None else operand.member(node.field)
        case Index():
            return _entry(node, scope)
        case Has():
            if (asked := _place(node.selection, scope)) is not None:
                asked.is_asked = True
            return None
        case Macro() | Call():
            return _called(node, scope)
        case Ternary():
            places = [_place(part, scope) for part in children(node)]
            return places[1] or places[2]
        case _:
            places = [_place(part, scope) for part in children(node)]
            if isinstance(node, Binary):
                _note_kind(node, places)
            return None


def _entry(node: Index, scope: Mapping[str, Shape]) -> Shape | None:
    operand, key = _place(node.operand, scope), without_parens(node.key)
    _place(key, scope)
    if operand is None or not isinstance(key, LiteralValue):
        return None
    return operand.member(key.string) if key.kind == "string" else operand.each()


def _called(node: Macro | Call, scope: Mapping[str, Shape]) -> Shape | None:
    if isinstance(node, Macro):
        whole = _place(node.range, scope) or Shape()
        inner = {**scope, node.variable: whole.each()}
        made = [_place(argument, inner) for argument in node.arguments]
        if node.function == "map" and made[-1] is not None:
            return Shape(entries=made[-1])
        return whole if node.function in _SAME_ENTRIES else None
    target = None if node.target is None else _place(node.target, scope)
    for argument in node.arguments:
        _place(argument, scope)
    if target is not None and node.function in _OF_LISTS:
        target.each()
    return target if node.function in _SAME_ENTRIES else None


def _note_kind(node: Binary, places: list[Shape | None]) -> None:
    for place, other in zip(places, (node.right, node.left), strict=True):
        constant = without_parens(other)
        if place is not None and isinstance(constant, LiteralValue) and node.operator != "in":
            place.kind = place.kind or _KINDS.get(constant.kind, "")
