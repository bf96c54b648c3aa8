"""Say which types go together.

*Operands* are what stands around an operator or in a call. Equality, membership and order follow from the kinds
alone; where something does not fit, a hint says what would mend it.
"""

from __future__ import annotations

import re

from wavewright.planner import cel_schemas as s
from wavewright.planner.cel_faults import join_names
from wavewright.planner.cel_functions import FUNCTIONS
from wavewright.planner.cel_schemas import SchemaView, view_schema

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
