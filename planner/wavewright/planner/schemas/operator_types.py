"""Types of operators and calls: which operands they take, and what they give.

Operators and functions are looked up in the tables that the evaluator uses. Equality, membership
and order follow from the kinds alone. Types are described as authors name them (`number`, `list of
string`, `string or null`); where operands do not fit, a hint says how to fix it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from functools import reduce

from wavewright.planner.cel.errors import join_names
from wavewright.planner.cel.functions import GLOBAL_FUNCTIONS, METHODS, Function, ValueType
from wavewright.planner.cel.functions.lists import MIN_MAX_FUNCTIONS
from wavewright.planner.cel.operators import OPERATORS
from wavewright.planner.schemas import views as s
from wavewright.planner.schemas.views import (
    BOOLEAN,
    DURATION,
    INTEGER,
    NULL,
    NUMBER,
    OBJECT,
    OPEN,
    STRING,
    TIMESTAMP,
    SchemaView,
    ScopedSchema,
    array_schema,
    element_schema,
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
    return f"{'an' if text[0] in 'aeiou' else 'a'} {text}"


NUMERIC = frozenset({"integer", "number"})


def are_comparable(left: SchemaView, right: SchemaView) -> bool:
    """Return whether two values can be equal at all."""
    for branch in left.alternatives:
        for other in right.alternatives:
            if "open" in (branch.kind, other.kind) or "null" in (branch.kind, other.kind):
                return True
            if branch.kind == other.kind or (branch.kind in NUMERIC and other.kind in NUMERIC):
                return True
    return False


def supports_membership(container: SchemaView, member: SchemaView) -> bool:
    """Return whether `in` can be asked: a list of comparable elements, or an object of a string."""
    for branch in container.alternatives:
        if branch.kind == "open":
            return True
        if branch.kind == "array" and are_comparable(
            view_schema(s.element_schema(branch) or s.OPEN), member
        ):
            return True
        if (
            branch.kind == "object"
            and are_comparable(view_schema(s.STRING), member)
            and member.kind != "null"
        ):
            return True
    return False


def is_number(what: SchemaView) -> bool:
    """Return whether a value may be a number."""
    return bool(what.kinds & {*NUMERIC, "open"})


def is_orderable(key: SchemaView) -> bool:
    """Return whether values of a type can be brought in order."""
    kinds = key.kinds
    if "open" in kinds or kinds <= NUMERIC:
        return True
    return len(kinds) == 1 and kinds <= {"string", "boolean", "timestamp", "duration"}


def operator_hint(operator: str, left: SchemaView, right: SchemaView) -> str | None:
    """Return a hint for operands that do not fit their operator."""
    kinds = {left.kind, right.kind}
    if operator == "+" and "string" in kinds and not kinds & {"timestamp", "duration"}:
        return 'make both strings with string(…), or write mixed text: "… ${…} …"'
    if "string" in kinds and kinds & {"timestamp", "duration"} and operator != "in":
        return _hint_beside_a_time(operator, left, right)
    if operator == "in" and right.kind == "string":
        return "of a string, ask text.contains(part)"
    if kinds & {"timestamp", "duration"} and kinds & NUMERIC:
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


def _hint_beside_a_time(operator: str, left: SchemaView, right: SchemaView) -> str:
    """Return what a string has to become beside a timestamp or a duration."""
    if "timestamp" in (left.kind, right.kind):
        is_timestamp = operator != "+"  # two timestamps have no sum
    else:
        is_timestamp = operator == "+" or (operator == "-" and left.kind == "string")
    if is_timestamp:
        return "make the string a timestamp: timestamp(…)"
    return 'make the string a duration, such as duration("24h")'


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


_CLASSES: dict[str, type] = {
    "null": type(None), "boolean": bool, "integer": int, "number": float, "string": str, "array": list,
    "object": dict, "timestamp": dt.datetime, "duration": dt.timedelta,
}  # fmt: skip
"""Kind → the class of its values in an expression."""
_SCHEMAS: dict[type, ScopedSchema] = {
    type(None): NULL, bool: BOOLEAN, int: INTEGER, float: NUMBER, str: STRING, list: array_schema(OPEN), dict: OBJECT,
    dt.datetime: TIMESTAMP, dt.timedelta: DURATION, object: OPEN,
}  # fmt: skip


def _classes(what: SchemaView) -> set[type]:
    """Return the classes that a value may have; `object` for one of any. Null is left out of a
    choice.
    """
    return {_CLASSES.get(branch.kind, object) for branch in what.alternatives}


def _has_class(what: SchemaView, wanted: Iterable[type]) -> bool:
    classes = _classes(what)
    return object in classes or not classes.isdisjoint(wanted)


def operator_result(operator: str, left: SchemaView, right: SchemaView) -> ScopedSchema | None:
    """Return what an operator gives for operands of these types, or None where it does not take
    them.
    """
    pairs = OPERATORS[operator]
    matching: list[tuple[type, type]] = []
    plain = _CLASSES.get(left.kind, object), _CLASSES.get(right.kind, object)
    if plain in pairs:
        matching.append(plain)
    else:
        lefts, rights = _classes(left), _classes(right)
        any_left, any_right = object in lefts, object in rights
        matching += [
            (one, other)
            for one, other in pairs
            if (any_left or one in lefts) and (any_right or other in rights)
        ]
    if operator == "%":
        # The remainder of a decimal exists for JSON's 3.0 only, which the type of a number does not
        # promise.
        matching = [pair for pair in matching if float not in pair]
    results = [
        _list_sum(left, right) if one is list else _SCHEMAS[_result_class(operator, one, other)]
        for one, other in matching
    ]
    return _any_result(results, [left, right])


def _result_class(operator: str, left: type, right: type) -> type:
    if operator in ("<", "<=", ">", ">="):
        return bool
    if operator == "/":
        return float
    if dt.datetime in (left, right):
        return dt.timedelta if left is right else dt.datetime
    return left if left is right else float


def _list_sum(left: SchemaView, right: SchemaView) -> ScopedSchema:
    return array_schema(union_schema(element_schema(left) or OPEN, element_schema(right) or OPEN))


def negation_result(operand: SchemaView) -> ScopedSchema | None:
    """Return what `-` gives for an operand of this type, or None where it does not take it."""
    results = [_SCHEMAS[kind] for kind in (int, float) if _has_class(operand, (kind,))]
    return _any_result(results, [operand])


def call_result(
    function: str, target: SchemaView | None, arguments: Sequence[SchemaView]
) -> ScopedSchema | None:
    """Return what a function or method gives for arguments of these types, or None where it does
    not take them.
    """
    if target is None and function in MIN_MAX_FUNCTIONS and len(arguments) > 1:
        elements = reduce(union_schema, [argument.scoped for argument in arguments])
        arguments = [view_schema(array_schema(elements))]
    table, operands = (
        (GLOBAL_FUNCTIONS, arguments) if target is None else (METHODS, [target, *arguments])
    )
    results = [
        _function_result(declared, operands)
        for declared in table.get(function, ())
        if declared.required <= len(operands) <= len(declared.parameters)
        and all(map(_takes, declared.parameters, operands))
    ]
    return _any_result(results, operands)


def _takes(parameter: ValueType, operand: SchemaView) -> bool:
    if object in parameter.classes:
        return True
    if not _has_class(operand, parameter.classes):
        return False
    elements = element_schema(operand)
    return (
        object in parameter.elements
        or elements is None
        or _has_class(view_schema(elements), parameter.elements)
    )


def _function_result(function: Function, operands: Sequence[SchemaView]) -> ScopedSchema:
    match function.result:
        case "list":
            return array_schema(element_schema(operands[0]) or OPEN)
        case "scalar":
            elements = element_schema(operands[0])
            classes = _classes(operands[0] if elements is None else view_schema(elements))
            if classes == {int, float}:
                return NUMBER
            return reduce(union_schema, map(_SCHEMAS.__getitem__, classes))
        case _:
            returned = [
                array_schema(_SCHEMAS[function.returned.elements[0]])
                if kind is list
                else _SCHEMAS[kind]
                for kind in function.returned.classes
            ]
            return reduce(union_schema, returned)


def _any_result(results: list[ScopedSchema], operands: Sequence[SchemaView]) -> ScopedSchema | None:
    """Return the one result, or a choice of several; anything where an operand may be anything."""
    if len(results) == 1:
        return results[0]
    different = [result for place, result in enumerate(results) if result not in results[:place]]
    if len(different) > 1 and any(operand.kind == "open" for operand in operands):
        return OPEN
    return reduce(union_schema, different) if different else None
