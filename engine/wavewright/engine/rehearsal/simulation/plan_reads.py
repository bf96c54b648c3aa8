"""What a plan's expressions read: which steps and names, the constants beside them, and the shape
of outputs.

A *shape* is a place in an output as expressions read it: the members that are named there, and
whether it is iterated as a list. It is found in the expressions' trees, through the names that
macros and `for_each` give to elements.

A tool without an output schema may give anything, and no plan is prepared for that. So its stub
gives what the plan's expressions read: the members that they name, and lists where they iterate
one. The same holds for the open parts of a schema, such as the objects of a `list[dict]`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from wavewright.planner import (
    Gate,
    Json,
    JsonObject,
    JsonSchema,
    Plan,
    Step,
    StepId,
    as_list,
    as_object,
)
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
    Select,
    children,
)
from wavewright.planner.cel.parser import parse_expression
from wavewright.planner.language.signatures import AGENT
from wavewright.planner.plans.gate_questions import gate_expressions
from wavewright.planner.plans.uses import ExpressionText, embedded_uses, plan_texts, step_texts
from wavewright.planner.schemas.validation import infer_schema
from wavewright.planner.types import properties_of

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def step_expressions(step: Step) -> list[str]:
    """Return the expressions of a step."""
    return _expressions_of(step_texts(step, 0))


def plan_expressions(plan: Plan) -> list[str]:
    """Return the expressions of a plan."""
    return _expressions_of(plan_texts(plan))


def embedded_expressions(value: Json) -> list[str]:
    """Return the expressions that the texts of a value hold."""
    return [
        use.expression
        for _, text in iterate_strings(value)
        for use in embedded_uses(text, "", "result")
    ]


def _expressions_of(texts: Iterable[ExpressionText]) -> list[str]:
    return [use.expression for text in texts for use in text.uses()]


class Sources(NamedTuple):
    """What expressions read: the places where a simulation changes something."""

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
    """Return the constants of a (bound) plan's expressions and of its inputs, which expressions
    compare outputs with, and the ages that its gates allow.
    """
    written = (value for text in plan_expressions(plan) for value in _constants(text))
    inputs = (value for value in plan.inputs.values() if isinstance(value, str | int | float))
    constants = list(dict.fromkeys([*written, *inputs]))
    numbers = [
        value
        for value in constants
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    around = dict.fromkeys(near for number in numbers for near in (number, number + 1, number - 1))
    sizes = [
        number for number in around if isinstance(number, int) and 0 <= number <= _MAX_LIST_SIZE
    ]
    allowed = [gate.fresh_within for gate in plan.gates if gate.fresh_within is not None]
    return PlanVocabulary(
        now=now,
        texts=tuple(value for value in constants if isinstance(value, str)),
        numbers=tuple(around),
        sizes=tuple(dict.fromkeys((3, *sizes))),
        ages=(*_AGES, *(seconds * share for seconds in allowed for share in (0.5, 2.0))),
    )


def _constants(expression: str) -> Iterator[object]:
    nodes = [parse_expression(expression)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, LiteralValue):
            yield node.value
        nodes += children(node)


_ANNOTATIONS = frozenset({"title", "description", "default", "examples"})
"""Keywords that restrict nothing."""
_KINDS: Mapping[LiteralKind, str] = {
    "int": "integer", "double": "number", "string": "string", "bool": "boolean",
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
            required: list[Json] = [
                name for name, part in self.members.items() if not part.is_optional
            ]
            return {"type": "object", "properties": properties, "required": required}
        if self.entries is not None:
            items = self.entries.as_schema()
            return {"type": "array", "items": items} if items else {"type": "array"}
        return {"type": self.kind} if self.kind else {}


_Scope = Mapping[str, ReadShape]


class PlanShapes(NamedTuple):
    """What the expressions and the gates of a plan read of outputs and inputs."""

    steps: dict[StepId, ReadShape]
    """By step of which something is read: the shape of one call's output."""
    inputs: ReadShape


def shapes_read(plan: Plan) -> PlanShapes:
    """Return the shapes that a plan reads."""
    steps, inputs = ReadShape(), ReadShape()
    scope = {"steps": steps, "inputs": inputs}
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
    conditions = (bare_expression(cap.when).expression for cap in plan.caps)
    stop = plan.stop
    stopping = [] if stop is None else [bare_expression(stop.when).expression]
    results = [plan.result, None if stop is None else stop.result]
    declared = (text for result in results for text in embedded_expressions(result))
    for text in (*conditions, *stopping, *declared):
        _read(text, scope)
    read = {StepId(name): shape for name, shape in steps.members.items()}
    calls = {name: shape.each() if name in fan_outs else shape for name, shape in read.items()}
    return PlanShapes(calls, inputs)


def _read(expression: str, scope: _Scope) -> ReadShape | None:
    return _place(parse_expression(expression), scope)


def _place(node: ExpressionNode, scope: _Scope) -> ReadShape | None:
    """Note what a node reads, and return the place that it stands for, if it is one."""
    match node:
        case Identifier():
            return scope.get(node.name)
        case Macro():
            return _macro_place(node, scope)
        case FunctionCall():
            return _call_place(node, scope)
        case Select():
            owner = _place(node.operand, scope)
            return owner and owner.member(node.field)
        case _:
            places = [_place(part, scope) for part in children(node)]
    match node, places:
        case Index(), [ReadShape() as owner, _]:
            return owner.each() if isinstance(node.key, LiteralValue) else None
        case Conditional(), [_, yes, no]:
            return yes or no
        case Has(), [ReadShape() as asked]:
            asked.is_optional = True
        case Binary(), [left, right] if node.operator != "in":
            _note_kind(left, node.right)
            _note_kind(right, node.left)
        case _:
            pass
    return None


def _macro_place(node: Macro, scope: _Scope) -> ReadShape | None:
    whole = _place(node.range, scope) or ReadShape()
    element = whole if node.function == "bind" else whole.each()
    inner = {**scope, **{name: ReadShape() for name in node.variables}, node.variables[-1]: element}
    places = [_place(argument, inner) for argument in node.arguments][-1]
    if node.function == "bind":
        return places
    if node.function in ("map", "transformList") and places is not None:
        return ReadShape(entries=places)
    return whole if node.function in _ENTRY_PRESERVING else None


def _call_place(node: FunctionCall, scope: _Scope) -> ReadShape | None:
    target = None if node.target is None else _place(node.target, scope)
    for argument in node.arguments:
        _place(argument, scope)
    if target is not None and node.function in _LIST_FUNCTIONS:
        target.each()
    return target if node.function in _ENTRY_PRESERVING else None


def _note_kind(place: ReadShape | None, other: ExpressionNode) -> None:
    """Note that a place has the type of a constant that an operator joins it with."""
    if place is not None and isinstance(other, LiteralValue):
        place.kind = place.kind or _KINDS.get(other.kind, "")


def presumed_schema(declared: JsonSchema, step: Step, shape: ReadShape) -> tuple[JsonSchema, bool]:
    """Return a tool's output schema with its open parts as the plan reads them, and whether it had
    no such part.
    """
    properties, answer = declared.get("properties"), step.params.get("output_schema")
    if step.tool == AGENT and isinstance(properties, dict) and isinstance(answer, dict):
        # The step says what its agent answers.
        declared = {**declared, "properties": {**properties, "answer": answer}}
    return _filled(declared, shape)


def presumed_inputs(inputs: JsonObject, shape: ReadShape) -> tuple[JsonSchema, frozenset[str]]:
    """Return a schema of inputs that no schema is given for, and which of them it leaves open: of an
    empty list or null nothing shows what else may stand there.
    """
    declared = infer_schema(inputs)
    properties = as_object(declared["properties"])
    is_open = {
        name: not _filled(properties[name], shape.members[name])[1]
        for name in inputs
        if name in shape.members
    }
    return _filled(declared, shape)[0], frozenset(name for name in is_open if is_open[name])


def _filled(declared: Json, shape: ReadShape) -> tuple[JsonSchema, bool]:
    node = as_object(declared)
    if not node.keys() - _ANNOTATIONS:
        return {**node, **shape.as_schema()}, False
    if isinstance(branches := node.get("anyOf"), list):
        filled = [_filled(branch, shape) for branch in branches]
        return {**node, "anyOf": [schema for schema, _ in filled]}, all(said for _, said in filled)
    if node.get("type") == "array" and shape.entries is not None and "prefixItems" not in node:
        items, is_declared = _filled(node.get("items"), shape.entries)
        return {**node, "items": items}, is_declared
    if shape.members and (node.get("type") == "object" or "properties" in node):
        return _filled_object(node, shape)
    return node, True


def _filled_object(node: JsonObject, shape: ReadShape) -> tuple[JsonSchema, bool]:
    others = node.get("additionalProperties", True)
    properties = {**properties_of(node)}
    required: list[Json] = []
    is_declared = True
    for name, part in shape.members.items():
        filled, is_said = _filled(properties.get(name, others), part)
        is_declared = is_declared and is_said
        if name not in properties and others in (True, {}) and not part.is_optional:
            required.append(name)
        if name in properties or others is not False:
            properties[name] = filled
    if required:
        node = {**node, "required": [*as_list(node.get("required")), *required]}
    return {**node, "properties": properties}, is_declared
