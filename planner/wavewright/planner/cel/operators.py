"""Compute the operators of expressions.

An *operator* is chosen by the classes of its operands. Values are plain Python; types that JSON
lacks are `datetime` and `timedelta`. Integers and floats mix,
division gives a float, and integers have 64 bits: a larger one from outside is compared exactly, and
computed with only beside a float.

A list that is searched for the second time in one evaluation is indexed, so `x in list` in a loop
takes linear time.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

from wavewright.planner.cel.errors import CostTracker, ExpressionError

INT_RANGE: Final = (-(2**63), 2**63 - 1)
MAX_DURATION: Final = dt.timedelta(microseconds=2**63 // 1000)
"""As long as CEL computes with: about 292 years."""
_KEY_COST: Final = 9
"""Operations that a part of a canonical key takes."""
_INDEXED_COST: Final = 5
"""Operations that an element takes of a list that is indexed."""
_DOUBLE_BITS: Final = 1024
"""Bits of an integer that a double can be near to."""
_SHORT = 64
"""Characters up to which comparing a text is not counted."""


KINDS: Final[dict[type, str]] = {
    int: "an integer", float: "a number", str: "a string", bool: "true or false", list: "a list",
    dict: "an object", type(None): "null", dt.datetime: "a timestamp", dt.timedelta: "a duration",
}  # fmt: skip
"""Classes of values, and what authors call them."""


def class_of(value: object) -> type:
    """Return the class by which a value's operators and functions are chosen."""
    kind = value.__class__
    if kind in KINDS:
        return kind
    if isinstance(value, Mapping):
        return dict
    return next(
        (known for known in (bool, int, float, str, list) if isinstance(value, known)), object
    )


def evaluation_error(message: str) -> ExpressionError:
    """Return the fault of an operator or function that has no value for its operands."""
    return ExpressionError("evaluation_failed", message)


def no_overload_error(
    name: str, values: tuple[object, ...], *, is_method: bool = False
) -> ExpressionError:
    """Return the fault of an operator, function or method that does not take these values."""
    kinds = [KINDS.get(class_of(value), "a value of its own kind") for value in values]
    if is_method:
        given = f" with {' and '.join(kinds[1:])}" if kinds[1:] else ""
        return ExpressionError("no_overload", f"{name}() cannot be asked of {kinds[0]}{given}")
    return ExpressionError(
        "no_overload", f"{name} does not take {' and '.join(kinds) or 'nothing'}"
    )


Operator: TypeAlias = Callable[[CostTracker, Any, Any], object]


def as_number(value: int | float) -> int | float:  # noqa: PYI041 - the two are told apart
    """Return a number as a double or an integer of 64 bits holds it."""
    if isinstance(value, float) or INT_RANGE[0] <= value <= INT_RANGE[1]:
        return value
    try:
        if value.bit_length() <= _DOUBLE_BITS:  # Python takes long to see it of a much larger one
            return float(value)
    except OverflowError:
        pass
    return math.inf if value > 0 else -math.inf


def _on_integers(compute: Callable[[Any, Any], Any]) -> Operator:
    def run(_cost: CostTracker, left: int, right: int) -> object:
        # As a double a larger integer would be another number.
        for operand in (left, right):
            if not INT_RANGE[0] <= operand <= INT_RANGE[1]:
                raise evaluation_error("an integer of more than 64 bits is not computed with")
        result = compute(left, right)
        if INT_RANGE[0] <= result <= INT_RANGE[1]:
            return result
        raise evaluation_error("integer overflow")

    return run


def _on_numbers(compute: Callable[[Any, Any], Any]) -> Operator:
    def run(_cost: CostTracker, left: float, right: float) -> object:
        return compute(float(as_number(left)), float(as_number(right)))

    return run


def _on_temporal_values(compute: Callable[[Any, Any], Any], what: str) -> Operator:
    def run(_cost: CostTracker, left: object, right: object) -> object:
        try:
            result = compute(left, right)
        except OverflowError:
            raise evaluation_error(f"{what} overflow") from None
        if isinstance(result, dt.timedelta) and abs(result) > MAX_DURATION:
            raise evaluation_error("duration overflow")
        return result

    return run


def _divide(_cost: CostTracker, left: float, right: float) -> object:
    if right == 0:
        raise evaluation_error("division by zero")
    return float(as_number(left)) / float(as_number(right))


def _remainder(_cost: CostTracker, left: float, right: float) -> object:
    if right == 0:
        raise evaluation_error("modulus by zero")
    if not (float(as_number(left)).is_integer() and float(as_number(right)).is_integer()):
        raise evaluation_error("'%' takes whole numbers")
    whole = abs(int(left)) % abs(int(right))
    return whole if left >= 0 else -whole


def _join_texts(cost: CostTracker, left: str, right: str) -> object:
    cost.count_text(len(left) + len(right), left, right)
    return left + right


def _join_lists(cost: CostTracker, left: list[object], right: list[object]) -> object:
    cost.count_list(len(left) + len(right))
    return left + right


def _arithmetic(compute: Callable[[Any, Any], Any]) -> dict[tuple[type, type], Operator]:
    return {
        (int, int): _on_integers(compute),
        **dict.fromkeys(((float, float), (int, float), (float, int)), _on_numbers(compute)),
    }


_NUMBER_PAIRS = [(left, right) for left in (int, float) for right in (int, float)]
_TEMPORAL_TYPES = dt.datetime, dt.timedelta


def _ordering(compute: Callable[[Any, Any], bool]) -> dict[tuple[type, type], Operator]:
    def of_texts(cost: CostTracker, left: str, right: str) -> bool:
        cost.count_scan(left if len(left) < len(right) else right)
        return compute(left, right)

    def of_others(_cost: CostTracker, left: object, right: object) -> bool:
        return compute(left, right)

    alike = [(kind, kind) for kind in (bool, *_TEMPORAL_TYPES)]
    return {
        **dict.fromkeys((*_NUMBER_PAIRS, *alike), of_others),
        (str, str): of_texts,
    }


OPERATORS: Final[dict[str, dict[tuple[type, type], Operator]]] = {
    "+": {
        **_arithmetic(operator.add),
        (str, str): _join_texts,
        (list, list): _join_lists,
        (dt.datetime, dt.timedelta): _on_temporal_values(operator.add, "timestamp"),
        (dt.timedelta, dt.datetime): _on_temporal_values(operator.add, "timestamp"),
        (dt.timedelta, dt.timedelta): _on_temporal_values(operator.add, "duration"),
    },
    "-": {
        **_arithmetic(operator.sub),
        (dt.datetime, dt.timedelta): _on_temporal_values(operator.sub, "timestamp"),
        (dt.datetime, dt.datetime): _on_temporal_values(operator.sub, "duration"),
        (dt.timedelta, dt.timedelta): _on_temporal_values(operator.sub, "duration"),
    },
    "*": _arithmetic(operator.mul),
    "/": dict.fromkeys(_NUMBER_PAIRS, _divide),
    "%": dict.fromkeys(_NUMBER_PAIRS, _remainder),
    "<": _ordering(operator.lt),
    "<=": _ordering(operator.le),
    ">": _ordering(operator.gt),
    ">=": _ordering(operator.ge),
}  # fmt: skip
"""Operators by the classes of their operands; equality and membership take any."""


def negate(value: object) -> object:
    """Return `-value`.

    Raises:
        ExpressionError: it is no number.
    """
    if isinstance(value, float):
        return -value
    if class_of(value) is int:
        return _on_integers(operator.sub)(CostTracker(), 0, value)
    raise no_overload_error("'-'", (value,))


def are_equal(one: object, other: object, cost: CostTracker) -> bool:
    """Return whether values are equal as CEL has it: numbers by value, and nothing else across
    kinds.
    """
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, str):
        if not isinstance(other, str) or len(one) != len(other):
            return False
        cost.count_scan(one)
        return one == other
    if isinstance(one, list) and isinstance(other, list):
        left, right = cast("list[object]", one), cast("list[object]", other)
        if len(left) != len(right):
            return False
        cost.count_operations(3 + len(left) * 5 // 4)
        return all(
            are_equal(item, counterpart, cost)
            for item, counterpart in zip(left, right, strict=True)
        )
    if isinstance(one, dict) and isinstance(other, dict):
        fields, others = cast("dict[object, object]", one), cast("dict[object, object]", other)
        if len(fields) != len(others):
            return False
        cost.count_operations(2 * len(fields))
        return all(
            key in others and are_equal(value, others[key], cost) for key, value in fields.items()
        )
    return one == other


def equality_key(value: object, cost: CostTracker) -> object:
    """Return what is equal, and hashes alike, for values that are equal."""
    cost.count_operations(_KEY_COST)
    match value:
        case bool():
            return (bool, value)
        case float() if value != value:  # noqa: PLR0124 - the test for a value that equals nothing
            return object()
        case int() | float():
            return _number_key(value)
        case str():
            cost.count_scan(value)
            return value
        case list():
            return (list, *(equality_key(item, cost) for item in cast("list[object]", value)))
        case dict():
            fields = cast("dict[object, object]", value)
            return frozenset((key, equality_key(item, cost)) for key, item in fields.items())
        case _:
            return value


def _number_key(value: float) -> object:
    """Return what is equal for equal numbers.

    An integer beyond 64 bits that no double equals is known by its digits: Python gives many such
    integers one hash, so a set of them would take quadratic time.
    """
    number = as_number(value)
    return number if number == value else (int, hex(int(value)))


def contains(container: object, member: object, cost: CostTracker) -> bool:
    """Answer `member in container`.

    Raises:
        ExpressionError: the container is neither list nor object.
    """
    if isinstance(container, list):
        elements = cast("list[object]", container)
        if isinstance(member, str) and len(member) <= _SHORT:
            cost.count_operations(len(elements) // 16)
            return member in elements
        cost.count_operations(len(elements))
        return any(are_equal(member, element, cost) for element in elements)
    if isinstance(container, Mapping):
        keys = cast("Mapping[object, object]", container)
        if is_key(member):
            return member in keys
    raise ExpressionError(
        "no_overload",
        "'in' asks a list for an element, or an object for a field, and was given neither",
    )


def is_key(value: object) -> bool:
    """Return whether an object can be asked for a value."""
    return isinstance(value, str | int | float)


_MIN_INDEXED_LENGTH = 16
"""Elements from which on a list is indexed as a set."""


class MembershipIndex:
    """The lists of the run that one evaluation has searched, by identity."""

    __slots__ = ("_sets",)

    def __init__(self) -> None:
        self._sets: dict[int, frozenset[object] | None] = {}

    def contains(self, container: object, member: object, cost: CostTracker) -> bool:
        """Answer `member in container` for a container that stays as it is during the evaluation.

        Raises:
            ExpressionError: the container is neither list nor object.
        """
        if container.__class__ is not list or not _is_indexable(member):
            return contains(container, member, cost)
        elements = cast("list[object]", container)
        known = self._sets.get(id(elements))
        if known is None:
            if len(elements) < _MIN_INDEXED_LENGTH or id(elements) not in self._sets:
                self._sets[id(elements)] = None
                return contains(elements, member, cost)
            cost.count_operations(_INDEXED_COST * len(elements))
            known = frozenset(map(_index_key, filter(_is_indexable, elements)))
            self._sets[id(elements)] = known
        return _index_key(member) in known


def _is_indexable(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _index_key(value: object) -> object:
    return _number_key(value) if isinstance(value, int | float) else value
