"""What a plan's expressions read of each output.

A *shape* is a place in an output as it is read: the members that are named there, and whether it is gone through as a
list. It is found in the expressions' trees, through the names that macros and `for_each` give to elements.

What a plan takes an output to be, where its tool promises nothing.

A tool without an output schema may give anything, and no plan is prepared for that. So its stub gives what the plan's
expressions ask for: the members that they name, and lists where they go through one. The same holds for the open
parts of a schema, such as the objects of a `list[dict]`. A finding over such an output is no fault, since nobody
promised anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from wavewright.engine.simulation.plan_analysis import embedded_expressions
from wavewright.planner.cel.embedded import bare_expression
from wavewright.planner.cel.nodes import (
    Binary,
    Conditional,
    ExpressionNode,
    FunctionCall,
    Has,
    Identifier,
    Index,
    LiteralKind,
    LiteralValue,
    Macro,
    Parenthesized,
    Select,
    children,
    without_parens,
)
from wavewright.planner.cel.parser import parse_expression
from wavewright.planner.language.plan import Gate, Plan, Step
from wavewright.planner.plans.expressions import ExpressionError
from wavewright.planner.types import Json, JsonObject, JsonSchema, StepId
from wavewright.tools.workers.services import AGENT

_KINDS: Mapping[LiteralKind, str] = {
    "int": "integer", "uint": "integer", "double": "number", "string": "string", "bool": "boolean",
}  # fmt: skip
"""Types of values that are compared with, or reckoned with, a constant."""
_LIST_FUNCTIONS = frozenset({"sort", "distinct", "slice", "flatten", "join"})
"""Methods that only a list has."""
_ENTRY_PRESERVING = frozenset({"filter", "sort", "sortBy", "distinct", "slice"})
"""Macros and methods that give entries of the list that they go through."""


@dataclass(slots=True)
class ReadShape:
    """A place in an output, as expressions read it."""

    members: dict[str, ReadShape] = field(default_factory=dict[str, "ReadShape"])
    entries: ReadShape | None = None
    """What each entry is, where the place is gone through as a list."""
    kind: str = ""
    """The type of a single value, where a constant beside it shows that."""
    is_asked: bool = False
    """Whether an expression asks by `has()` if it is there at all."""

    def member(self, name: str) -> ReadShape:
        """Return the shape of a member, which is read by that."""
        return self.members.setdefault(name, ReadShape())

    def each(self) -> ReadShape:
        """Return the shape of the entries of a list, which it is read as by that."""
        self.entries = self.entries or ReadShape()
        return self.entries


def shapes_read(plan: Plan) -> dict[StepId, ReadShape]:
    """Return, for each step of which an expression or a gate reads something, the shape of one call's output."""
    steps = ReadShape()
    fans = {step.id for step in plan.steps if step.for_each is not None}
    for step in plan.steps:
        _read_step(step, steps)
    for gate in plan.gates:
        if gate.on is not None:
            on = steps.member(gate.on)
            _read_gate(gate, steps, on.each() if gate.on in fans else on)
    for text in (
        *(text for cap in plan.caps for text in _bare_expressions(cap.when)),
        *embedded_expressions(plan.result),
    ):
        _read(text, {"steps": steps})
    read = {StepId(name): shape for name, shape in steps.members.items()}
    return {name: shape.each() if name in fans else shape for name, shape in read.items()}


def _read_step(step: Step, steps: ReadShape) -> None:
    item = ReadShape()
    for text in embedded_expressions(step.for_each):
        whole = _read(text, {"steps": steps})
        if whole is not None and isinstance(step.for_each, str):
            item = whole.each()
    for text in _bare_expressions(step.when):
        _read(text, {"steps": steps})
    for text in embedded_expressions(step.params):
        _read(text, {"steps": steps, "item": item})


def _read_gate(gate: Gate, steps: ReadShape, output: ReadShape) -> None:
    for text in (*_bare_expressions(gate.check), *(f"output.{path}" for path in gate.required or ())):
        _read(text, {"steps": steps, "output": output})


def _bare_expressions(text: str | None) -> Iterator[str]:
    if text is not None:
        try:
            yield bare_expression(text).expression
        except ExpressionError:
            return


def _read(expression: str, scope: Mapping[str, ReadShape]) -> ReadShape | None:
    """Note what an expression reads, and return the place that it stands for, if it is one."""
    try:
        return _shape_of(parse_expression(expression), scope)
    except ExpressionError:
        return None


def _shape_of(node: ExpressionNode, scope: Mapping[str, ReadShape]) -> ReadShape | None:
    match node:
        case Identifier():
            return scope.get(node.name)
        case Parenthesized():
            return _shape_of(node.inner, scope)
        case Select():
            operand = _shape_of(node.operand, scope)
            return None if operand is None else operand.member(node.field)
        case Index():
            return _indexed_shape(node, scope)
        case Has():
            if (asked := _shape_of(node.selection, scope)) is not None:
                asked.is_asked = True
            return None
        case Macro() | FunctionCall():
            return _call_shape(node, scope)
        case Conditional():
            places = [_shape_of(part, scope) for part in children(node)]
            return places[1] or places[2]
        case _:
            places = [_shape_of(part, scope) for part in children(node)]
            if isinstance(node, Binary):
                _note_kind(node, places)
            return None


def _indexed_shape(node: Index, scope: Mapping[str, ReadShape]) -> ReadShape | None:
    operand, key = _shape_of(node.operand, scope), without_parens(node.key)
    _shape_of(key, scope)
    if operand is None or not isinstance(key, LiteralValue):
        return None
    return operand.member(key.value) if isinstance(key.value, str) else operand.each()


def _call_shape(node: Macro | FunctionCall, scope: Mapping[str, ReadShape]) -> ReadShape | None:
    if isinstance(node, Macro):
        whole = _shape_of(node.range, scope) or ReadShape()
        element = whole if node.function == "bind" else whole.each()
        hidden = {name: ReadShape() for name in node.variables}
        inner = {**scope, **hidden, node.variables[-1]: element}
        made = [_shape_of(argument, inner) for argument in node.arguments]
        if node.function == "bind":
            return made[-1]
        if node.function in ("map", "transformList") and made[-1] is not None:
            return ReadShape(entries=made[-1])
        return whole if node.function in _ENTRY_PRESERVING else None
    target = None if node.target is None else _shape_of(node.target, scope)
    for argument in node.arguments:
        _shape_of(argument, scope)
    if target is not None and node.function in _LIST_FUNCTIONS:
        target.each()
    return target if node.function in _ENTRY_PRESERVING else None


def _note_kind(node: Binary, places: list[ReadShape | None]) -> None:
    for place, other in zip(places, (node.right, node.left), strict=True):
        constant = without_parens(other)
        if place is not None and isinstance(constant, LiteralValue) and node.operator != "in":
            place.kind = place.kind or _KINDS.get(constant.kind, "")


_ANNOTATIONS = frozenset({"title", "description", "default", "examples"})
"""Keywords that promise nothing."""
_NO_MEMBERS = frozenset({"type", "required", "additionalProperties", "minProperties"})
"""Keywords of an object that say nothing of any one member."""


def presumed_schema(promised: JsonSchema, step: Step, shape: ReadShape) -> JsonSchema:
    """Return what a tool promises, with its open parts as the plan reads them; the promise itself where it has none."""
    if step.tool == AGENT:
        promised = _agent_schema(promised, step)
    return _with_reads(promised, shape)


def declares_reads(promised: JsonSchema, step: Step, shape: ReadShape) -> bool:
    """Whether a tool says of every place that is read what stands there."""
    return _declares(_agent_schema(promised, step) if step.tool == AGENT else promised, shape)


def _agent_schema(promised: JsonSchema, step: Step) -> JsonSchema:
    """Return the schema of an agent's output, of which the answer has the shape that the step asks for."""
    properties, wanted = promised.get("properties"), step.params.get("output_schema")
    if not isinstance(properties, dict) or not isinstance(wanted, dict):
        return promised
    return {**promised, "properties": {**properties, "answer": wanted}}


def _declares(promised: Json, shape: ReadShape) -> bool:
    node = promised if isinstance(promised, dict) else {}
    if not node.keys() - _ANNOTATIONS:
        return False
    if isinstance(branches := node.get("anyOf"), list):
        return all(_declares(branch, shape) for branch in branches)
    if node.get("type") == "array":
        return shape.entries is None or "prefixItems" in node or _declares(node.get("items"), shape.entries)
    if node.get("type") != "object":
        return True
    properties, others = node.get("properties"), node.get("additionalProperties")
    known = properties if isinstance(properties, dict) else {}
    return all(_declares(known.get(name, others), part) for name, part in shape.members.items())


def _with_reads(promised: Json, shape: ReadShape) -> JsonSchema:
    node = promised if isinstance(promised, dict) else {}
    said = node.keys() - _ANNOTATIONS
    if not said:
        return {**node, **_schema_of_shape(shape)}
    if isinstance(branches := node.get("anyOf"), list):
        filled: list[Json] = [_with_reads(branch, shape) for branch in branches]
        return node if filled == branches else {**node, "anyOf": filled}
    if node.get("type") == "array" and shape.entries is not None:
        items = _with_reads(node.get("items"), shape.entries)
        return {**node, "items": items} if items != node.get("items", {}) else node
    if isinstance(properties := node.get("properties"), dict):
        known: JsonObject = {
            name: _with_reads(part, shape.members[name]) if name in shape.members else part
            for name, part in properties.items()
        }
        return node if known == properties else {**node, "properties": known}
    if node.get("type") != "object" or not said <= _NO_MEMBERS or not shape.members:
        return node
    others = node.get("additionalProperties", True)
    if others in (True, {}):
        return {**node, **_schema_of_shape(shape)}
    # Of a mapping nobody promises one key more than another, but the plan expects some.
    expected: JsonObject = {name: _with_reads(others, part) for name, part in shape.members.items()}
    return {**node, "properties": expected} if isinstance(others, dict) else node


def _schema_of_shape(shape: ReadShape) -> JsonSchema:
    if shape.members:
        properties: JsonObject = {name: _schema_of_shape(part) for name, part in shape.members.items()}
        required: list[Json] = [name for name, part in shape.members.items() if not part.is_asked]
        return {"type": "object", "properties": properties, "required": required}
    if shape.entries is not None:
        items = _schema_of_shape(shape.entries)
        return {"type": "array", "items": items} if items else {"type": "array"}
    return {"type": shape.kind} if shape.kind else {}
