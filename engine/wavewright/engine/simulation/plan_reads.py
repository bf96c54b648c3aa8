"""What a plan's expressions read: which steps, which parts of their outputs, and the constants beside them.

A *shape* is a place in an output as expressions read it: the members that are named there, and whether it is iterated
as a list. It is found in the expressions' trees, through the names that macros and `for_each` give to elements.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from wavewright.planner.cel.embedded import bare_expression, iterate_strings, reads
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
from wavewright.planner.plans.uses import embedded_uses, step_texts
from wavewright.planner.types import Json, JsonObject, JsonSchema, StepId

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def step_expressions(step: Step) -> list[str]:
    """Return the expressions of a step."""
    return [use.expression for text in step_texts(step, 0) for use in text.uses()]


def embedded_expressions(value: Json) -> list[str]:
    """Return the expressions that the texts of a value hold."""
    return [use.expression for _, text in iterate_strings(value) for use in embedded_uses(text, "", "result")]


def gate_expressions(gate: Gate) -> list[str]:
    """Return the expressions of a gate; a required path is one as well."""
    return [*_bare(gate.check), *(f"output.{path}" for path in gate.required or ())]


def _bare(text: str | None) -> list[str]:
    return [] if text is None else [bare_expression(text).expression]


class Sources(NamedTuple):
    """What expressions read: the places where a search changes something."""

    steps: tuple[StepId, ...]
    names: frozenset[str]
    """Every name that stands in the expressions."""
    reads_inputs: bool


def sources_of(expressions: Iterable[str], also: tuple[StepId, ...] = ()) -> Sources:
    """Return what expressions read; the steps `also` come first."""
    texts = list(expressions)
    found = [read for text in texts for read in reads(text)]
    steps = [StepId(str(read.name)) for read in found if read.root == "steps"]
    return Sources(
        tuple(dict.fromkeys((*also, *steps))),
        frozenset(name for text in texts for name in _NAME.findall(text)),
        any(read.root == "inputs" for read in found),
    )


def sources_of_gates(gates: Iterable[Gate]) -> Sources:
    """Return what gates read: the outputs that they check come first."""
    checked = list(gates)
    found = sources_of(
        (text for gate in checked for text in gate_expressions(gate)),
        tuple(gate.on for gate in checked if gate.on is not None),
    )
    schemas = " ".join(str(gate.schema_) for gate in checked if gate.schema_ is not None)
    return found._replace(names=found.names | frozenset(_NAME.findall(schemas)))


# -- constants

_AGES = (3600.0, 2 * 86400.0, 40 * 86400.0, 400 * 86400.0, -2 * 86400.0)
_MAX_LIST_SIZE = 400
"""Entries that a list is given because an expression names the number."""


@dataclass(frozen=True, slots=True)
class PlanVocabulary:
    """Texts, numbers and ages that a plan's conditions may depend on."""

    now: dt.datetime
    texts: tuple[str, ...] = ()
    numbers: tuple[int | float, ...] = ()
    sizes: tuple[int, ...] = (3,)
    """Of lists, beside the small ones."""
    ages: tuple[float, ...] = _AGES
    """In seconds before `now`; below zero, after it."""


def vocabulary_of(plan: Plan, now: dt.datetime) -> PlanVocabulary:
    """Return the constants of a (bound) plan's expressions, and the ages that its gates allow."""
    constants = list(dict.fromkeys(value for text in plan_expressions(plan) for value in _constants(text)))
    numbers = [value for value in constants if isinstance(value, int | float) and not isinstance(value, bool)]
    around = dict.fromkeys(near for number in numbers for near in (number, number + 1, number - 1))
    sizes = [number for number in around if isinstance(number, int) and 0 <= number <= _MAX_LIST_SIZE]
    allowed = [gate.fresh_within for gate in plan.gates if gate.fresh_within is not None]
    return PlanVocabulary(
        now=now,
        texts=tuple(value for value in constants if isinstance(value, str)),
        numbers=tuple(around),
        sizes=tuple(dict.fromkeys((3, *sizes))),
        ages=(*_AGES, *(seconds * share for seconds in allowed for share in (0.5, 2.0))),
    )


def plan_expressions(plan: Plan) -> Iterator[str]:
    for step in plan.steps:
        yield from step_expressions(step)
    for gate in plan.gates:
        yield from _bare(gate.check)
    for cap in plan.caps:
        yield from _bare(cap.when)
    yield from embedded_expressions(plan.result)


def _constants(expression: str) -> Iterator[object]:
    nodes = [parse_expression(expression)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, LiteralValue):
            yield node.value
        nodes += children(node)


# -- shapes

_KINDS: Mapping[LiteralKind, str] = {
    "int": "integer", "uint": "integer", "double": "number", "string": "string", "bool": "boolean",
}  # fmt: skip
"""Types of values that an operator joins with a constant."""
_LIST_FUNCTIONS = frozenset({"sort", "distinct", "slice", "flatten", "join"})
"""Methods that only a list has."""
_ENTRY_PRESERVING = frozenset({"filter", "sort", "sortBy", "distinct", "slice"})
"""Macros and methods whose result has the entries of the list that they iterate."""


@dataclass(slots=True)
class ReadShape:
    """A place in an output, as expressions read it."""

    members: dict[str, ReadShape] = field(default_factory=dict[str, "ReadShape"])
    entries: ReadShape | None = None
    """What each entry is, where the place is iterated as a list."""
    kind: str = ""
    """The type of a single value, where a constant beside it shows that."""
    is_optional: bool = False
    """Whether an expression asks by `has()` if it is there at all."""

    def member(self, name: str) -> ReadShape:
        """Return the shape of a member, which is added where it was not read before."""
        return self.members.setdefault(name, ReadShape())

    def each(self) -> ReadShape:
        """Return the shape of the entries; the place is a list from then on."""
        self.entries = self.entries or ReadShape()
        return self.entries

    def as_schema(self) -> JsonSchema:
        """Return a schema whose values have all that is read."""
        if self.members:
            properties: JsonObject = {name: part.as_schema() for name, part in self.members.items()}
            required: list[Json] = [name for name, part in self.members.items() if not part.is_optional]
            return {"type": "object", "properties": properties, "required": required}
        if self.entries is not None:
            items = self.entries.as_schema()
            return {"type": "array", "items": items} if items else {"type": "array"}
        return {"type": self.kind} if self.kind else {}


_Scope = Mapping[str, ReadShape]


def shapes_read(plan: Plan) -> dict[StepId, ReadShape]:
    """Return, for each step of which an expression or a gate reads something, the shape of one call's output."""
    steps = ReadShape()
    scope = {"steps": steps}
    fan_outs = {step.id for step in plan.steps if step.for_each is not None}
    for step in plan.steps:
        items = [_read(text, scope) for text in embedded_expressions(step.for_each)]
        whole = items[0] if isinstance(step.for_each, str) and items else None
        item = ReadShape() if whole is None else whole.each()
        for text in step_expressions(step):
            _read(text, {**scope, "item": item})
    for gate in plan.gates:
        output = ReadShape() if gate.on is None else steps.member(gate.on)
        for text in gate_expressions(gate):
            _read(text, {**scope, "output": output.each() if gate.on in fan_outs else output})
    for text in (*(one for cap in plan.caps for one in _bare(cap.when)), *embedded_expressions(plan.result)):
        _read(text, scope)
    read = {StepId(name): shape for name, shape in steps.members.items()}
    return {name: shape.each() if name in fan_outs else shape for name, shape in read.items()}


def _read(expression: str, scope: _Scope) -> ReadShape | None:
    return _place(parse_expression(expression), scope)


def _place(node: ExpressionNode, scope: _Scope) -> ReadShape | None:
    """Note what a node reads, and return the place that it stands for, if it is one."""
    match node:
        case Identifier():
            return scope.get(node.name)
        case Parenthesized():
            return _place(node.inner, scope)
        case Select():
            operand = _place(node.operand, scope)
            return None if operand is None else operand.member(node.field)
        case Index():
            return _indexed_place(node, scope)
        case Macro():
            return _macro_place(node, scope)
        case FunctionCall():
            return _call_place(node, scope)
        case _:
            return _operator_place(node, scope)


def _operator_place(node: ExpressionNode, scope: _Scope) -> ReadShape | None:
    places = [_place(part, scope) for part in children(node)]
    if isinstance(node, Has) and places[0] is not None:
        places[0].is_optional = True
    elif isinstance(node, Binary):
        _note_kind(node, places)
    return places[1] or places[2] if isinstance(node, Conditional) else None


def _indexed_place(node: Index, scope: _Scope) -> ReadShape | None:
    operand, key = _place(node.operand, scope), without_parens(node.key)
    _place(key, scope)
    if operand is None or not isinstance(key, LiteralValue):
        return None
    return operand.member(key.value) if isinstance(key.value, str) else operand.each()


def _macro_place(node: Macro, scope: _Scope) -> ReadShape | None:
    whole = _place(node.range, scope) or ReadShape()
    element = whole if node.function == "bind" else whole.each()
    inner = {**scope, **{name: ReadShape() for name in node.variables}, node.variables[-1]: element}
    made = [_place(argument, inner) for argument in node.arguments][-1]
    if node.function == "bind":
        return made
    if node.function in ("map", "transformList") and made is not None:
        return ReadShape(entries=made)
    return whole if node.function in _ENTRY_PRESERVING else None


def _call_place(node: FunctionCall, scope: _Scope) -> ReadShape | None:
    target = None if node.target is None else _place(node.target, scope)
    for argument in node.arguments:
        _place(argument, scope)
    if target is not None and node.function in _LIST_FUNCTIONS:
        target.each()
    return target if node.function in _ENTRY_PRESERVING else None


def _note_kind(node: Binary, places: list[ReadShape | None]) -> None:
    for place, other in zip(places, (node.right, node.left), strict=True):
        constant = without_parens(other)
        if place is not None and isinstance(constant, LiteralValue) and node.operator != "in":
            place.kind = place.kind or _KINDS.get(constant.kind, "")
