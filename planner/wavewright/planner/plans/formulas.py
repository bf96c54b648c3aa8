"""Formulas of one value: the figures that an author applies to it, and the units that they convert.

`(x - 32.0) * 5.0 / 9.0` applies three figures to `x`. Nothing is folded: `x / 1000000 * 1000000` is
no `x` among integers, and `x + 1e300 - 1e300` is none among doubles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from wavewright.planner.cel.nodes import (
    Binary,
    ExpressionNode,
    FunctionCall,
    LiteralValue,
    Unary,
    without_parens,
)

Operator: TypeAlias = Literal["+", "-", "*", "/", "from", "over"]
"""How a figure is applied: `from` is `1 - x`, `over` is `1 / x`."""
Figures: TypeAlias = tuple[tuple[Operator, float], ...]


@dataclass(frozen=True, slots=True)
class Formula:
    """A value, and the figures that are applied to it one after the other."""

    base: ExpressionNode
    figures: Figures = ()


def formula_of(node: ExpressionNode) -> Formula:
    """Return what figures a formula applies to which value; none of a value that is read as it is."""
    bare = without_parens(node)
    if isinstance(bare, FunctionCall) and bare.function == "double" and bare.target is None:
        return formula_of(bare.arguments[0])
    if not isinstance(bare, Binary) or bare.operator not in _APPLIED_ON_THE_RIGHT:
        return Formula(bare)
    left, right = constant(bare.left), constant(bare.right)
    if left is not None and right is not None:
        return Formula(bare)
    if right is not None:
        return _applied(bare.left, _APPLIED_ON_THE_RIGHT[bare.operator], right)
    if left is not None:
        return _applied(bare.right, _APPLIED_ON_THE_LEFT[bare.operator], left)
    return _of_two(bare)


def constant(node: ExpressionNode) -> float | None:
    """Return the figure that a node stands for, if it is one that was written."""
    bare = without_parens(node)
    if isinstance(bare, FunctionCall) and bare.function == "double" and bare.target is None:
        return constant(bare.arguments[0])
    if isinstance(bare, Unary) and bare.operator == "-":
        figure = constant(bare.operand)
        return None if figure is None else -figure
    if not isinstance(bare, LiteralValue) or isinstance(bare.value, bool | str):
        return None
    return None if bare.value is None else float(bare.value)


def is_count(node: ExpressionNode) -> bool:
    """Whether a node is the size of something."""
    bare = without_parens(node)
    return isinstance(bare, FunctionCall) and bare.function == "size"


def _applied(node: ExpressionNode, operator: Operator, figure: float) -> Formula:
    inner = formula_of(node)
    if (operator, figure) in _NEUTRAL:
        return inner
    return Formula(inner.base, (*inner.figures, (operator, figure)))


def _of_two(node: Binary) -> Formula:
    """Return the figures beside a product or a quotient of two values: `100 * a / b` is `a / b * 100`."""
    left, right = formula_of(node.left), formula_of(node.right)
    is_scaled = all(operator in _INVERSE for operator, _ in (*left.figures, *right.figures))
    if node.operator not in _INVERSE or not is_scaled:
        return Formula(node)
    of_right = right.figures
    if node.operator == "/":
        of_right = tuple[tuple[Operator, float], ...](
            (_INVERSE[operator], figure) for operator, figure in of_right
        )
    figures = (*left.figures, *of_right)
    base = node._replace(left=left.base, right=right.base) if figures else node
    return Formula(base, figures)


def is_known(figures: Figures) -> bool:
    """Whether figures are such as convert units or count on, each operator at most once."""
    operators = [operator for operator, _ in figures]
    is_each_once = len(set(operators)) == len(operators)
    return is_each_once and all(figure in _KNOWN[operator] for operator, figure in figures)


def is_of_share(figures: Figures) -> bool:
    """Whether figures make of a share a percentage, the rest or the growth."""
    return figures in _OF_SHARES


def folded(figures: Figures) -> Figures:
    """Return figures with neighbours of one kind as one: `* 60 * 60` is `* 3600`."""
    found: list[tuple[Operator, float]] = []
    for operator, figure in figures:
        if found and operator in _INVERSE and found[-1][0] == operator:
            found[-1] = (operator, found[-1][1] * figure)
        else:
            found.append((operator, figure))
    return tuple(found)


_APPLIED_ON_THE_RIGHT: Final[dict[str, Operator]] = {"+": "+", "-": "-", "*": "*", "/": "/"}
_APPLIED_ON_THE_LEFT: Final[dict[str, Operator]] = {"+": "+", "-": "from", "*": "*", "/": "over"}
_INVERSE: Final[dict[str, Operator]] = {"*": "/", "/": "*"}
_NEUTRAL: Final = frozenset({("*", 1.0), ("/", 1.0), ("+", 0.0), ("-", 0.0)})

_SCALES: Final = frozenset(
    {
        *(10.0**power for power in (1, 2, 3, 6, 9)),
        *(60.0, 3600.0, 24.0, 86400.0, 7.0, 12.0, 52.0, 365.0, 365.25),
        *(1.8, 5.0, 9.0, 2.54, 0.3048, 1.609344, 0.45359237),
        *(2.0, 4.0, 0.5, round(math.pi, 2), round(math.pi, 4), round(math.pi, 5), math.pi),
    }
)
_SHIFTS: Final = frozenset({1.0, 32.0, 273.15})
_KNOWN: Final[dict[Operator, frozenset[float]]] = {
    "*": _SCALES,
    "/": _SCALES,
    "+": _SHIFTS,
    "-": _SHIFTS,
    "from": frozenset({1.0, 100.0}),
    "over": frozenset({1.0, 100.0}),
}
_OF_SHARES: Final[frozenset[Figures]] = frozenset(
    {
        (("*", 100.0),),
        (("-", 1.0),),
        (("from", 1.0),),
        (("-", 1.0), ("*", 100.0)),
        (("from", 1.0), ("*", 100.0)),
        (("*", 100.0), ("-", 100.0)),
        (("*", 100.0), ("from", 100.0)),
    }
)


def _scaled(operator: Operator, *figures: float) -> frozenset[Figures]:
    return frozenset(((operator, figure),) for figure in figures)


_TO_CELSIUS: Final[frozenset[Figures]] = frozenset(
    {
        (("-", 273.15),),
        (("-", 32.0), ("/", 1.8)),
        (("-", 32.0), ("*", 5.0), ("/", 9.0)),
    }
)
_TO_FAHRENHEIT: Final[frozenset[Figures]] = frozenset(
    {(("*", 1.8), ("+", 32.0)), (("*", 9.0), ("/", 5.0), ("+", 32.0))}
)
_TO_KELVIN: Final[frozenset[Figures]] = frozenset({(("+", 273.15),)})
UNITS: Final[dict[str, frozenset[Figures]]] = {
    **dict.fromkeys(("kelvin", "k"), _TO_KELVIN),
    **dict.fromkeys(("celsius", "c"), _TO_CELSIUS),
    **dict.fromkeys(("fahrenheit", "f"), _TO_FAHRENHEIT),
    **dict.fromkeys(("thousand", "thousands"), _scaled("/", 1e3)),
    **dict.fromkeys(("million", "millions"), _scaled("/", 1e6, 1e3)),
    **dict.fromkeys(("billion", "billions"), _scaled("/", 1e9, 1e6, 1e3)),
    **dict.fromkeys(
        ("km", "kilometre", "kilometres", "kilometer", "kilometers"),
        _scaled("/", 1e3) | _scaled("*", 1.609344),
    ),
    **dict.fromkeys(
        ("m", "metre", "metres", "meter", "meters"),
        _scaled("*", 1e3, 0.3048) | _scaled("/", 100.0, 1e3),
    ),
    **dict.fromkeys(("cm", "centimetres", "centimeters"), _scaled("*", 100.0, 2.54) | _scaled("/", 10.0)),
    **dict.fromkeys(("mm", "millimetres", "millimeters"), _scaled("*", 10.0, 1e3)),
    **dict.fromkeys(("mile", "miles"), _scaled("/", 1.609344, 1609.344)),
    **dict.fromkeys(("foot", "feet"), _scaled("/", 0.3048)),
    **dict.fromkeys(("inch", "inches"), _scaled("/", 2.54)),
    **dict.fromkeys(("kg", "kilogram", "kilograms"), _scaled("/", 1e3) | _scaled("*", 0.45359237)),
    **dict.fromkeys(("g", "gram", "grams"), _scaled("*", 1e3)),
    **dict.fromkeys(("t", "tonne", "tonnes", "tons"), _scaled("/", 1e3)),
    **dict.fromkeys(("l", "litre", "litres", "liter", "liters"), _scaled("/", 1e3)),
    **dict.fromkeys(("ml", "millilitres", "milliliters"), _scaled("*", 1e3)),
    **dict.fromkeys(("kwh", "kw", "kb", "gb"), _scaled("/", 1e3)),
    **dict.fromkeys(("mwh", "mw", "mb"), _scaled("/", 1e3, 1e6)),
    **dict.fromkeys(("ms", "milliseconds"), _scaled("*", 1e3)),
    **dict.fromkeys(("s", "second", "seconds"), _scaled("*", 60.0, 3600.0, 86400.0) | _scaled("/", 1e3)),
    **dict.fromkeys(("min", "minute", "minutes"), _scaled("/", 60.0) | _scaled("*", 60.0)),
    **dict.fromkeys(("h", "hour", "hours"), _scaled("/", 60.0, 3600.0) | _scaled("*", 24.0)),
    **dict.fromkeys(("day", "days"), _scaled("/", 24.0, 86400.0, 1440.0) | _scaled("*", 7.0)),
    **dict.fromkeys(("week", "weeks"), _scaled("/", 7.0)),
    **dict.fromkeys(("month", "months"), _scaled("*", 12.0)),
    **dict.fromkeys(("year", "years"), _scaled("/", 12.0, 365.0, 365.25)),
}  # fmt: skip
"""By a name of a unit: the formulas by which values in usual other units come into it."""
