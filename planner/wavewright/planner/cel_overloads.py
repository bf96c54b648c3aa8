"""Ask the CEL library what type an operator or a function gives.

An *overload* is one list of operand types with its result. Operands are written as placeholders for their types,
so that one question serves every expression of the same shape, and the answers are kept for the process.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from wavewright.planner import cel_library
from wavewright.planner.cel_schemas import (
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
