"""Name types as authors do.

A *description* is short enough for a list of fields (`number`, `list of string`, `string or null`) and never the
schema itself.

Say which types go together.

*Operands* are what stands around an operator or in a call. Equality, membership and order follow from the kinds
alone; where something does not fit, a hint says what would mend it.

Ask the CEL library what type an operator or a function gives.

An *overload* is one list of operand types with its result. Operands are written as placeholders for their types,
so that one question serves every expression of the same shape, and the answers are kept for the process.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from wavewright.planner.cel import library as cel_library
from wavewright.planner.cel.errors import join_names
from wavewright.planner.cel.functions import FUNCTIONS
from wavewright.planner.schemas import views as s
from wavewright.planner.schemas.views import (
    BOOLEAN,
    BYTES,
    DURATION,
    INTEGER,
    NULL,
    NUMBER,
    OBJECT,
    OPEN,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    SchemaView,
    ScopedSchema,
    array_schema,
    element_schema,
    field_schemas,
    union_schema,
    view_schema,
)

_MAX_LIST_DEPTH = 3


def describe_kind(what: SchemaView, depth: int = 0) -> str:
    """Return a kind as a field list shows it: `number`, `list of string`, `string or null`."""
    text = _described(what, depth)
    return f"{text} or null" if what.nullable and what.kind not in ("open", "null") else text


def _described(what: SchemaView, depth: int) -> str:
    match what.kind:
        case "open":
            return "any"
        case "array":
            inner = element_schema(what) if depth < _MAX_LIST_DEPTH else None
            of = describe_kind(view_schema(inner), depth + 1) if inner is not None else "any"
            return "list" if of == "any" else f"list of {of}"
        case "union":
            return " or ".join(dict.fromkeys(_described(branch, depth) for branch in what.branches))
        case _:
            return what.kind


def kind_with_article(what: SchemaView) -> str:
    """Return a kind as a sentence names it: `a number`, `an object`."""
    text = describe_kind(what)
    if text == "any":
        return "any value"
    if text == "null":
        return text
    return f"{'an' if text[0] in 'aeiou' and text != 'uint' else 'a'} {text}"


NUMERIC = frozenset({"integer", "number", "uint"})


def holds_temporal_value(what: SchemaView) -> bool:
    """Return whether a list or an object holds what the library cannot be handed inside of one."""
    return what.kind in ("array", "object", "union") and s.holds_cel_type(what.schema)


def are_comparable(left: SchemaView, right: SchemaView) -> bool:
    """Return whether two values can be equal at all."""
    for one in left.branches or (left,):
        for other in right.branches or (right,):
            if "open" in (one.kind, other.kind) or "null" in (one.kind, other.kind):
                return True
            if one.kind == other.kind or (one.kind in NUMERIC and other.kind in NUMERIC):
                return True
    return False


def supports_membership(container: SchemaView, member: SchemaView) -> bool:
    """Return whether `in` can be asked: a list of comparable elements, or an object of a string."""
    for one in container.branches or (container,):
        if one.kind == "open":
            return True
        if one.kind == "array" and are_comparable(view_schema(s.element_schema(one) or s.OPEN), member):
            return True
        if one.kind == "object" and are_comparable(view_schema(s.STRING), member) and member.kind != "null":
            return True
    return False


def is_orderable(key: SchemaView) -> bool:
    """Return whether values of a type can be brought in order."""
    kinds = {branch.kind for branch in key.branches or (key,)}
    if "open" in kinds or kinds <= NUMERIC:
        return True
    return len(kinds) == 1 and kinds <= {"string", "boolean", "timestamp", "duration"}


def operator_hint(operator: str, left: SchemaView, right: SchemaView) -> str | None:
    """Return what would mend operands that do not fit their operator."""
    kinds = {left.kind, right.kind}
    if operator == "+" and "string" in kinds and not kinds & {"timestamp", "duration"}:
        return 'make both strings with string(…), or write mixed text: "… ${…} …"'
    if "timestamp" in kinds and "string" in kinds:
        return "make the string a timestamp: timestamp(…)"
    if operator == "in" and right.kind == "string":
        return "of a string, ask text.contains(part)"
    if kinds & {"timestamp", "duration"} and kinds & {"string", *NUMERIC}:
        return 'write durations as duration("24h")'
    if operator == "%" and "number" in kinds:
        return "'%' takes integers; cut fractions off with int(…)"
    if operator == "in":
        return "'in' asks a list for an element, or an object for a field"
    if "string" in kinds and kinds & NUMERIC:
        return "make the string a number with double(…), or the number a string with string(…)"
    if operator in ("==", "!="):
        return "values of these types are never equal: compare a field or an element, or the size()"
    if "array" in kinds:
        return "a list has size(), elements such as list[0], and list.map(x, …) for each of them"
    if "object" in kinds:
        return _fields_hint(left if left.kind == "object" else right)
    return _OPERATOR_HINTS.get(operator)


_ORDER_HINT = "only numbers, strings, times and durations of one kind have an order"
_OPERATOR_HINTS = {
    "+": "'+' joins two numbers, two strings, two lists, or a time and a duration",
    "-": "'-' takes numbers, times and durations",
    "*": "'*' takes numbers",
    "/": "'/' takes numbers",
    "%": "'%' takes integers",
    **dict.fromkeys(("<", "<=", ">", ">="), _ORDER_HINT),
}


def _fields_hint(owner: SchemaView) -> str:
    named = join_names(s.field_schemas(owner))
    return f"name one of its fields: {named}" if named else "name one of its fields"


def function_usage(function: str) -> str | None:
    """Return the line of the reference that shows a function."""
    called = re.compile(rf"\b{re.escape(function.rsplit('.', 1)[-1])}\(")
    for usage, meaning in FUNCTIONS.items():
        if called.search(usage):
            return f"{usage}: {meaning}"
    return None


_BASES = {
    "open": "any", "null": "nul", "boolean": "bit", "integer": "int", "number": "num", "string": "str",
    "timestamp": "tim", "duration": "dur", "bytes": "raw", "uint": "uns", "type": "typ",
}  # fmt: skip
_RESULTS = {
    "INT": INTEGER, "DOUBLE": NUMBER, "STRING": STRING, "BOOL": BOOLEAN, "NULL": NULL, "BYTES": BYTES,
    "TIMESTAMP": TIMESTAMP, "DURATION": DURATION, "UINT": UINT, "DYN": OPEN,
}  # fmt: skip
_MAX_COMBINATIONS = 16
_TAGGED = re.compile(r"MAP<STRING, tag(\d+)>")


class OperandPlaceholders:
    """The placeholders of one question, with the objects that they stand for."""

    def __init__(self) -> None:
        self._objects: list[ScopedSchema] = []

    def of(self, what: SchemaView) -> str:
        """Return the placeholder of a type; null is left out, as it is a value's business and not its type's."""
        depth = 0
        while what.kind == "array" and depth < cel_library.LIST_DEPTH:
            inner = element_schema(what)
            what = view_schema(inner if inner is not None else OPEN)
            depth += 1
        return f"{self._base(what)}_{depth}"

    def _base(self, what: SchemaView) -> str:
        if what.kind == "object":
            return self._object(what) if field_schemas(what) else "map"
        if what.kind == "union":
            kinds = {branch.kind for branch in what.branches}
            if kinds == {"integer", "number"}:
                return "num"
            return _BASES.get(kinds.pop(), "any") if len(kinds) == 1 else "any"
        return _BASES.get(what.kind, "any")

    def _object(self, what: SchemaView) -> str:
        place = what.scoped
        if place not in self._objects:
            if len(self._objects) == cel_library.OBJECT_TAGS:
                return "map"
            self._objects.append(place)
        return f"obj{self._objects.index(place)}"

    def result(self, name: str) -> ScopedSchema:
        """Return the schema of a type that the library names."""
        if (tagged := _TAGGED.fullmatch(name)) is not None:
            return self._objects[int(tagged[1])]
        if name.startswith("LIST<"):
            return array_schema(self.result(name[5:-1]))
        if name.startswith("MAP<"):
            return OBJECT
        if name.startswith("TYPE<"):
            return TYPE
        return _RESULTS.get(name, OPEN)


@lru_cache(maxsize=8192)
def _result_type_name(question: str) -> str | None:
    try:
        return cel_library.typed_environment().compile(question).return_type().name()
    except RuntimeError:
        return None


def operator_result(operator: str, operands: Sequence[SchemaView]) -> ScopedSchema | None:
    """Return what an operator gives for operands of these types, or None where it does not take them."""
    if operator == "/":
        return _result(lambda written: f"ww_div({', '.join(written)})", operands)
    if len(operands) == 1:
        return _result(lambda written: f"{operator}{written[0]}", operands)
    return _result(f" {operator} ".join, operands)


def sum_result(left: SchemaView, right: SchemaView) -> ScopedSchema | None:
    """Return what `+` gives; lists of whatever elements make one list, which the library's types would refuse."""
    result = operator_result("+", [left, right])
    if "open" in (left.kind, right.kind):
        return result
    elements = element_schema(left), element_schema(right)
    if elements[0] is None or elements[1] is None:
        return result
    joined = array_schema(union_schema(elements[0], elements[1]))
    return joined if result is None else union_schema(joined, result)


def call_result(
    function: str, target: SchemaView | None, arguments: Sequence[SchemaView]
) -> ScopedSchema | None:
    """Return what a function or method gives for arguments of these types, or None where it does not take them."""
    if target is None:
        return _result(lambda written: f"{function}({', '.join(written)})", arguments)
    return _result(lambda written: f"{written[0]}.{function}({', '.join(written[1:])})", [target, *arguments])


def _result(ask: Callable[[list[str]], str], operands: Sequence[SchemaView]) -> ScopedSchema | None:
    """Ask for each choice of types that the operands may have; one that is taken is enough."""
    alternatives = [operand.branches or (operand,) for operand in operands]
    if math.prod(len(choices) for choices in alternatives) > _MAX_COMBINATIONS:
        alternatives = [(operand,) for operand in operands]
    joined: ScopedSchema | None = None
    for chosen in itertools.product(*alternatives):
        placeholders = OperandPlaceholders()
        answer = _result_type_name(ask([placeholders.of(one) for one in chosen]))
        if answer is not None:
            result = placeholders.result(answer)
            joined = result if joined is None else union_schema(joined, result)
    return joined
