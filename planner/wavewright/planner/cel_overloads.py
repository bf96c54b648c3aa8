"""Ask the CEL library what type an operator or a function gives.

An *overload* is one list of operand types with its result. Operands are written as placeholders for their types,
so that one question serves every expression of the same shape, and the answers are kept for the process.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
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
    Located,
    View,
    array_of,
    element,
    fields,
    view,
)

_BASES = {
    "open": "any", "null": "nul", "boolean": "bit", "integer": "int", "number": "num", "string": "str",
    "timestamp": "tim", "duration": "dur", "bytes": "raw", "uint": "uns", "type": "any",
}  # fmt: skip
_RESULTS = {
    "INT": INTEGER, "DOUBLE": NUMBER, "STRING": STRING, "BOOL": BOOLEAN, "NULL": NULL, "BYTES": BYTES,
    "TIMESTAMP": TIMESTAMP, "DURATION": DURATION, "UINT": UINT, "DYN": OPEN,
}  # fmt: skip
_TAGGED = re.compile(r"MAP<STRING, tag(\d+)>")


class Placeholders:
    """The placeholders of one question, with the objects that they stand for."""

    def __init__(self) -> None:
        self._objects: list[Located] = []

    def of(self, what: View) -> str:
        """Return the placeholder of a type; null is left out, as it is a value's business and not its type's."""
        depth = 0
        while what.kind == "array" and depth < cel_library.LIST_DEPTH:
            inner = element(what)
            what = view(inner if inner is not None else OPEN)
            depth += 1
        return f"{self._base(what)}_{depth}"

    def _base(self, what: View) -> str:
        if what.kind == "object":
            return self._object(what) if fields(what) else "map"
        if what.kind == "union":
            kinds = {branch.kind for branch in what.branches}
            if kinds <= {"integer", "number"}:
                return "num"
            return _BASES.get(kinds.pop(), "any") if len(kinds) == 1 else "any"
        return _BASES.get(what.kind, "any")

    def _object(self, what: View) -> str:
        place = what.located
        if place not in self._objects:
            if len(self._objects) == cel_library.OBJECT_TAGS:
                return "map"
            self._objects.append(place)
        return f"obj{self._objects.index(place)}"

    def result(self, name: str) -> Located:
        """Return the schema of a type that the library names."""
        if (tagged := _TAGGED.fullmatch(name)) is not None:
            return self._objects[int(tagged[1])]
        if name.startswith("LIST<"):
            return array_of(self.result(name[5:-1]))
        if name.startswith("MAP<"):
            return OBJECT
        if name.startswith("TYPE<"):
            return TYPE
        return _RESULTS.get(name, OPEN)


@lru_cache(maxsize=8192)
def _answer(question: str) -> str | None:
    try:
        return cel_library.typed_environment().compile(question).return_type().name()
    except RuntimeError:
        return None


def operator_result(operator: str, operands: Sequence[View]) -> Located | None:
    """Return what an operator gives for operands of these types, or None where it does not take them."""
    placeholders = Placeholders()
    written = [placeholders.of(operand) for operand in operands]
    if operator == "/":
        question = f"ww_div({written[0]}, {written[1]})"
    elif len(written) == 1:
        question = f"{operator}{written[0]}"
    else:
        question = f"{written[0]} {operator} {written[1]}"
    answer = _answer(question)
    return None if answer is None else placeholders.result(answer)


def call_result(function: str, target: View | None, arguments: Sequence[View]) -> Located | None:
    """Return what a function or method gives for arguments of these types, or None where it does not take them."""
    placeholders = Placeholders()
    called = f"{placeholders.of(target)}.{function}" if target is not None else function
    question = f"{called}({', '.join(placeholders.of(argument) for argument in arguments)})"
    answer = _answer(question)
    return None if answer is None else placeholders.result(answer)
