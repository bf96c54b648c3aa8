"""Functions of lists and of sets, and the size of anything."""

# Annotations are not deferred: they are the signatures of expressions.

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from wavewright.planner.cel.errors import CostTracker, ExpressionError
from wavewright.planner.cel.functions import GLOBAL_FUNCTIONS, METHODS
from wavewright.planner.cel.operators import as_number, equality_key, evaluation_error
from wavewright.planner.types import Json

Number: TypeAlias = int | float
_Comparable: TypeAlias = int | float | str
_Sortable: TypeAlias = int | float | str | bool | dt.datetime | dt.timedelta

MIN_MAX_FUNCTIONS: Final = {"math.greatest": "max", "math.least": "min", "max": "max", "min": "min"}
"""Functions of one list or of several values."""
_MAX_RANGE_LENGTH: Final = 10_000
"""Numbers that lists.range() gives at most."""
_NUMBERS: Final = frozenset({int, float})


@GLOBAL_FUNCTIONS.declare("size")
@METHODS.declare("size")
def _size(_cost: CostTracker, value: str | list[object] | dict[object, object]) -> int:
    return len(value)


@METHODS.declare("reverse", result="list")
def _reverse(cost: CostTracker, values: list[object]) -> list[object]:
    cost.count_list(len(values))
    return values[::-1]


@METHODS.declare("distinct", result="list")
def _distinct(cost: CostTracker, values: list[object]) -> list[object]:
    return list({equality_key(value, cost): value for value in reversed(values)}.values())[::-1]


@METHODS.declare("slice", result="list")
def _slice(cost: CostTracker, values: list[object], start: int, end: int) -> list[object]:
    if not 0 <= start <= end <= len(values):
        raise evaluation_error(f"there is no slice({start}, {end}) of a list of {len(values)}")
    cost.count_list(end - start)
    return values[start:end]


@METHODS.declare("flatten")
def _flatten(cost: CostTracker, values: list[object], levels: int = 1) -> list[object]:
    if levels < 0:
        raise evaluation_error(f"flatten() takes a number of levels, not {levels}")
    flat: list[object] = []
    cost.count_operations(len(values))
    for value in values:
        inner = cast("list[object]", value)
        if isinstance(value, list) and levels:
            added = inner if levels == 1 else _flatten(cost, inner, levels - 1)
            cost.count_list(len(added))
            flat += added
        else:
            flat.append(inner)
    return flat


@METHODS.declare("sort", result="list")
def _sort(cost: CostTracker, values: list[_Sortable]) -> list[_Sortable]:
    return cast("list[_Sortable]", sort_by_keys(cost, "sort", values, cast("list[Json]", values)))


def sort_by_keys(
    cost: CostTracker,
    function: str,
    keys: Sequence[object],
    values: Sequence[Json],
    *,
    is_falling: bool = False,
) -> list[Json]:
    """Return values in the order of their keys, equals as they stand.

    Raises:
        ExpressionError: the keys have no order.
    """
    levels = len(keys).bit_length()
    cost.count_operations(len(keys) * (3 + levels // 8))
    cost.count_operations(sum(len(key) for key in keys if isinstance(key, str)) * levels // 2048)
    for kinds in ((int, float), (str,), (dt.datetime,), (dt.timedelta,), (bool,)):
        if all(
            isinstance(key, kinds) and (kinds == (bool,) or not isinstance(key, bool))
            for key in keys
        ):
            places = sorted(
                range(len(values)),
                key=lambda place: cast("float", keys[place]),
                reverse=is_falling,
            )
            return [values[place] for place in places]
    raise ExpressionError(
        "no_overload",
        f"{function}() orders numbers, strings or timestamps, and only one of these kinds",
    )


def sorted_keys(value: Mapping[Any, Json]) -> list[Json]:
    """Return an object's keys in a fixed order."""
    if all(isinstance(key, str) for key in value):
        return list[Json](sorted(value))
    return list[Json](sorted(value, key=lambda key: (key.__class__.__name__, key)))


@GLOBAL_FUNCTIONS.declare("zip")
def _zip(
    cost: CostTracker,
    first: list[object],
    second: list[object],
    third: list[object] | None = None,
) -> list[object]:
    lists = [first, second] if third is None else [first, second, third]
    lengths = [len(values) for values in lists]
    if len({*lengths}) > 1:
        # The rest of the longer one would be lost, or pairs be joined that do not belong together.
        given = " and ".join(str(length) for length in lengths)
        raise evaluation_error(f"zip() takes lists of one length, not of {given} elements")
    cost.count_operations(6 * len(first))
    return [list(together) for together in zip(*lists, strict=True)]


@GLOBAL_FUNCTIONS.declare("lists.range")
def _range(cost: CostTracker, count: int) -> list[int]:
    if not 0 <= count <= _MAX_RANGE_LENGTH:
        raise evaluation_error(
            f"lists.range() gives up to {_MAX_RANGE_LENGTH:,} numbers, not {count}"
        )
    cost.count_operations(3 * count)
    return list(range(count))


def _check_numbers(function: str, cost: CostTracker, values: list[Any]) -> set[type]:
    cost.count_operations(len(values) // 3)
    classes = set(map(type, values))
    if not classes <= _NUMBERS:
        raise evaluation_error(f"{function}() takes numbers only")
    return classes


@GLOBAL_FUNCTIONS.declare("sum", result="scalar")
@METHODS.declare("sum", result="scalar")
def _sum(cost: CostTracker, values: list[Number]) -> Number:
    if not _check_numbers("sum", cost, values) <= {int}:
        return math.fsum(values)
    number = sum(map(as_number, values))
    if not -(2**63) <= number < 2**63:
        raise evaluation_error("the sum is too large for an integer")
    return number


@GLOBAL_FUNCTIONS.declare("avg")
@METHODS.declare("avg")
def _avg(cost: CostTracker, values: list[Number]) -> float:
    _check_numbers("avg", cost, values)
    if not values:
        raise evaluation_error("avg() of an empty list")
    return math.fsum(values) / len(values)


def _declare_extreme(name: str, choose: Callable[[list[Any]], Any]) -> None:
    def of_list(cost: CostTracker, values: list[_Comparable]) -> _Comparable:
        if not values:
            raise evaluation_error(f"{name}() of an empty list")
        if not all(isinstance(value, str) for value in values):
            if any(isinstance(value, str) for value in values):
                raise evaluation_error(f"{name}() takes numbers or strings, not both")
            _check_numbers(name, cost, values)
        cost.count_operations(len(values) // 3)
        cost.count_operations(sum(len(value) for value in values if isinstance(value, str)) // 2048)
        return cast("_Comparable", choose(values))

    def of_number(_cost: CostTracker, value: Number) -> Number:
        return value

    METHODS.declare(name, result="scalar")(of_list)
    for alias, function in MIN_MAX_FUNCTIONS.items():
        if function == name:
            GLOBAL_FUNCTIONS.declare(alias, result="scalar")(of_list)
            GLOBAL_FUNCTIONS.declare(alias, result="scalar")(of_number)


_declare_extreme("max", max)
_declare_extreme("min", min)


def _declare_set_test(name: str, compute: Callable[[set[object], set[object]], bool]) -> None:
    def run(cost: CostTracker, left: list[object], right: list[object]) -> bool:
        keys = [{equality_key(value, cost) for value in values} for values in (left, right)]
        return compute(keys[0], keys[1])

    GLOBAL_FUNCTIONS.declare(f"sets.{name}")(run)


_declare_set_test("contains", lambda left, right: left >= right)
_declare_set_test("equivalent", lambda left, right: left == right)
_declare_set_test("intersects", lambda left, right: not left.isdisjoint(right))
