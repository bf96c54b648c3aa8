"""Conversions to numbers and truth values, types, and `math.*`.

Numbers mix as they do in JSON: what takes a double takes an integer as well. Conversions are exact or fail.
"""

# Annotations are not deferred: they are the signatures of expressions.

import datetime as dt
import math
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from wavewright.planner.cel.errors import SCALAR_BYTES, CostTracker
from wavewright.planner.cel.functions.declarations import GLOBAL_FUNCTIONS
from wavewright.planner.cel.operators import (
    INT_RANGE,
    UINT_RANGE,
    TypeValue,
    Uint,
    as_number,
    class_of,
    evaluation_error,
    no_overload_error,
)

Number: TypeAlias = int | float | Uint

_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_DOUBLE = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|nan|inf|infinity)", re.IGNORECASE | re.ASCII
)
_MAX_NUMBER_TEXT = 1000
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_TRUE: Final = frozenset({"1", "t", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "false", "FALSE", "False"})


def _whole(name: str, value: Any, limits: tuple[int, int]) -> int:
    """Return the integer that a value converts to, if it is within limits."""
    if isinstance(value, dt.datetime):
        return (value - _EPOCH) // dt.timedelta(seconds=1)
    if isinstance(value, str):
        text = value.strip() if len(value) <= _MAX_NUMBER_TEXT else ""
        if not _INTEGER.fullmatch(text):
            raise evaluation_error(f"{name}() reads whole decimal numbers, not {value[:60]!r}")
        value = int(text)
    low, high = limits
    # As a double, the least integer stands for smaller numbers too.
    if not low <= value <= high or (isinstance(value, float) and value == float(INT_RANGE[0])):
        raise evaluation_error(f"a value is out of the range of {name}()")
    return int(value)


@GLOBAL_FUNCTIONS.declare("int")
def _int(_cost: CostTracker, value: Number | bool | str | dt.datetime) -> int:  # noqa: FBT001
    if isinstance(value, int) and value.__class__ is int:
        return value
    return _whole("int", value, INT_RANGE)


@GLOBAL_FUNCTIONS.declare("uint")
def _uint(cost: CostTracker, value: Number | str) -> Uint:
    cost.allocate(SCALAR_BYTES)
    return Uint(_whole("uint", value, UINT_RANGE))


@GLOBAL_FUNCTIONS.declare("double")
def _double(cost: CostTracker, value: Number | str) -> float:
    if not isinstance(value, str):
        return float(as_number(value))
    text = value.strip() if len(value) <= _MAX_NUMBER_TEXT else ""
    cost.count_operations(len(text) // 48)
    if not _DOUBLE.fullmatch(text):
        raise evaluation_error(f"double() reads decimal numbers, not {value[:60]!r}")
    return float(text)


@GLOBAL_FUNCTIONS.declare("bool")
def _bool(_cost: CostTracker, value: bool | str) -> bool:  # noqa: FBT001
    if isinstance(value, bool):
        return value
    if value in _TRUE or value in _FALSE:
        return value in _TRUE
    raise evaluation_error(f'bool() reads "true" and "false", not {value[:60]!r}')


@GLOBAL_FUNCTIONS.declare("dyn")
def _dyn(_cost: CostTracker, value: object) -> object:
    return value


_TYPE_OF_CLASS: Final = {
    known: TypeValue(name)
    for known, name in {
        int: "int", Uint: "uint", float: "double", str: "string", bool: "bool", bytes: "bytes", list: "list<dyn>",
        dict: "map<dyn, dyn>", type(None): "null", dt.datetime: "timestamp", dt.timedelta: "duration",
        TypeValue: "type",
    }.items()
}  # fmt: skip
TYPE_CONSTANTS: Final = {
    "list": _TYPE_OF_CLASS[list], "map": _TYPE_OF_CLASS[dict], "null_type": _TYPE_OF_CLASS[type(None)],
    **{name: TypeValue(name) for name in ("int", "uint", "double", "bool", "string", "bytes", "type")},
}  # fmt: skip
"""Types by the names that expressions have for them."""


@GLOBAL_FUNCTIONS.declare("type")
def _type(_cost: CostTracker, value: object) -> TypeValue:
    return _TYPE_OF_CLASS.get(class_of(value)) or TypeValue("dyn")


def _declare_rounding(name: str, compute: Callable[[float], int]) -> None:
    def run(_cost: CostTracker, value: Number) -> float:
        number = float(as_number(value))
        return math.copysign(compute(number), number) if math.isfinite(number) else number

    GLOBAL_FUNCTIONS.declare(f"math.{name}")(run)


def _round_half_away(value: float) -> int:
    fraction, whole = math.modf(value)
    return int(whole) + (fraction >= 0.5) - (fraction <= -0.5)


_declare_rounding("ceil", math.ceil)
_declare_rounding("floor", math.floor)
_declare_rounding("trunc", math.trunc)
_declare_rounding("round", _round_half_away)


@GLOBAL_FUNCTIONS.declare("math.sqrt")
def _sqrt(_cost: CostTracker, value: Number) -> float:
    number = float(as_number(value))
    return math.nan if number < 0 else math.sqrt(number)


@GLOBAL_FUNCTIONS.declare("math.abs", result="scalar")
def _abs(_cost: CostTracker, value: Number) -> Number:
    if value.__class__ is int and value == INT_RANGE[0]:
        raise evaluation_error("integer overflow")
    return value if isinstance(value, Uint) else abs(value)


@GLOBAL_FUNCTIONS.declare("math.sign", result="scalar")
def _sign(_cost: CostTracker, value: Number) -> Number:
    return value if value != value else value.__class__((value > 0) - (value < 0))  # noqa: PLR0124 - not a number


def _declare_test(name: str, compute: Callable[[float], bool]) -> None:
    def run(_cost: CostTracker, value: Number) -> bool:
        return compute(float(as_number(value)))

    GLOBAL_FUNCTIONS.declare(f"math.{name}")(run)


for _name, _test in {"isNaN": math.isnan, "isInf": math.isinf, "isFinite": math.isfinite}.items():
    _declare_test(_name, _test)


def _check_bits(*values: int) -> None:
    if not all(INT_RANGE[0] <= value <= UINT_RANGE[1] for value in values):
        raise evaluation_error("an integer of more than 64 bits has no bits to compute with")


def _as_bits(value: int, like: type) -> int:
    """Return the lowest 64 bits of a value as an integer of a class."""
    bits = value & UINT_RANGE[1]
    return Uint(bits) if like is Uint else bits - 2**64 if bits > INT_RANGE[1] else bits


def _declare_bits(name: str, compute: Callable[[int, int], int]) -> None:
    def run(_cost: CostTracker, left: int | Uint, right: int | Uint) -> int:
        if left.__class__ is not right.__class__:
            raise no_overload_error(f"math.{name}()", (left, right))
        _check_bits(left, right)
        return _as_bits(compute(left, right), left.__class__)

    GLOBAL_FUNCTIONS.declare(f"math.{name}", result="scalar")(run)


_declare_bits("bitOr", lambda left, right: left | right)
_declare_bits("bitAnd", lambda left, right: left & right)
_declare_bits("bitXor", lambda left, right: left ^ right)


def _declare_shift(name: str, compute: Callable[[int, int], int]) -> None:
    def run(_cost: CostTracker, value: int | Uint, places: int) -> int:
        if places < 0:
            raise evaluation_error(f"bits cannot be shifted by {places} places")
        _check_bits(value)
        bits = value & UINT_RANGE[1]
        return _as_bits(compute(bits, places) if places < 64 else 0, value.__class__)

    GLOBAL_FUNCTIONS.declare(f"math.{name}", result="scalar")(run)


_declare_shift("bitShiftLeft", lambda value, places: value << places)
_declare_shift("bitShiftRight", lambda value, places: value >> places)


@GLOBAL_FUNCTIONS.declare("math.bitNot", result="scalar")
def _bit_not(_cost: CostTracker, value: int | Uint) -> int:
    _check_bits(value)
    return _as_bits(~int(value), value.__class__)
