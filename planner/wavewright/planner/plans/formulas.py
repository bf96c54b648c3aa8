"""Formulas: a value, and the figures that an expression applies to it one after the other.

`100.0 * a / b` is `a / b` with `* 100`, `x + x * 0.15` is `x` with `* 1.15`, and
`math.round(x * 100.0) / 100.0` is `x`, rounded. Formulas are read from the plain form of an
expression; what the figures are worth is the rule of `expression_origins`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from operator import add, mul, sub
from typing import Final

from wavewright.planner.cel.nodes import (
    Binary,
    ExpressionNode,
    FunctionCall,
    ListLiteral,
    LiteralValue,
    Unary,
    children,
    summed_terms,
)
from wavewright.planner.cel.plain_form import without_places
from wavewright.planner.plans.job_words import Figures, Operator


@dataclass(frozen=True, slots=True)
class Formula:
    """A value, and the figures that are applied to it."""

    base: ExpressionNode
    figures: Figures = ()
    is_rounded: bool = False
    awaits_places: bool = False
    """Whether it was rounded, and not divided by the places yet."""
    unit: float | None = None
    """What it was rounded to, if not to places: 1000 of `math.round(x / 1000.0) * 1000.0`."""

    @property
    def is_lost(self) -> bool:
        """Whether the value cannot be told from the outcome any more: `x * 0`, `x + 1e300`."""
        figures = [figure for _, figure in self.figures]
        if self.unit is not None:
            figures.append(self.unit)
        return not all(_MIN_SIZE < abs(figure) < _MAX_SIZE for figure in figures)

    def applying(self, operator: Operator, figure: float) -> Formula:
        """Return the formula with one more figure; a division by the places, or what undoes the figure
        before, ends a rounding.
        """
        if (operator, figure) in _NEUTRAL:
            return self
        if not self.awaits_places:
            return replace(self, figures=(*self.figures, (operator, figure)))
        *before, (last, scale) = self.figures
        is_of_places = operator == "/" and figure in _PLACES
        rounded = replace(self, figures=(*before,), is_rounded=True, awaits_places=False)
        if last == "*" and is_of_places:
            # `math.round(x * 1000.0) / 10.0` is `x * 100.0`, rounded.
            return rounded if scale == figure else rounded.applying("*", scale / figure)
        if not is_of_places and (last, scale) == (_INVERSE.get(operator), figure):
            return replace(rounded, unit=figure if operator == "*" else 1 / figure)
        return replace(self, figures=(*self.figures, (operator, figure)), awaits_places=False)


def formula_of(node: ExpressionNode) -> Formula:
    """Return what figures are applied to which value; none of a value that is read as it is."""
    match node:
        case FunctionCall(function="double", target=None, arguments=(value,)):
            return formula_of(value)
        case FunctionCall(function=function, arguments=(value, *_)) if function in ROUNDINGS:
            inner = formula_of(value)
            return replace(inner, awaits_places=True) if inner.figures else Formula(node)
        case Binary() if node.operator in _ON_THE_RIGHT:
            left, right = constant(node.left), constant(node.right)
            if left is None and right is None:
                return _formula_of_two(node)
            if left is None and right is not None:
                return formula_of(node.left).applying(_ON_THE_RIGHT[node.operator], right)
            if left is not None and right is None:
                return formula_of(node.right).applying(_ON_THE_LEFT[node.operator], left)
            return Formula(node)
        case _:
            return Formula(node)


def _formula_of_two(node: Binary) -> Formula:
    """Return the figures beside two values: `100 * a / b` is `a / b * 100`, `x + x * 0.15` is
    `x * 1.15`.
    """
    left, right = formula_of(node.left), formula_of(node.right)
    is_rounded = any(side.is_rounded or side.awaits_places for side in (left, right))
    if is_rounded or not (left.figures or right.figures):
        return Formula(node)
    if node.operator in _INVERSE:
        of_right: Figures = right.figures
        if any(operator not in _INVERSE for operator, _ in (*left.figures, *of_right)):
            return Formula(node)
        if node.operator == "/":
            of_right = tuple((_INVERSE[operator], figure) for operator, figure in of_right)
        return Formula(node._replace(left=left.base, right=right.base), (*left.figures, *of_right))
    if left.figures or without_places(left.base) != without_places(right.base):
        return Formula(node)
    part = 1.0
    for operator, figure in right.figures:
        if operator not in _INVERSE or figure == 0:
            return Formula(node)
        part *= figure if operator == "*" else 1 / figure
    factor = 1 + part if node.operator == "+" else 1 - part
    return Formula(left.base, (("*", float(f"{factor:.12g}")),))


def constant(node: ExpressionNode) -> float | None:
    """Return the figure that a node stands for, if it is one that was written."""
    match node:
        case LiteralValue(kind="int" | "double", value=int() | float() as figure):
            return float(figure)
        case FunctionCall(function="double", target=None, arguments=(value,)):
            return constant(value)
        case Unary(operator="-"):
            positive = constant(node.operand)
            return None if positive is None else -positive
        case Binary() if node.operator in _CALCULATED:
            left, right = constant(node.left), constant(node.right)
            if left is None or right is None or (right == 0 and node.operator == "/"):
                return None
            return _CALCULATED[node.operator](left, right)
        case _:
            return None


def constants_in(node: ExpressionNode) -> Iterator[float]:
    """Yield the figures that are written in an expression."""
    figure = constant(node)
    if figure is not None:
        yield figure
        return
    for part in children(node):
        yield from constants_in(part)


def without_double(node: ExpressionNode) -> ExpressionNode:
    """Return what is made a double, or else the node."""
    match node:
        case FunctionCall(function="double", target=None, arguments=(value,)):
            return value
        case _:
            return node


def summands(node: ExpressionNode) -> Iterator[ExpressionNode]:
    """Yield what a value is the sum of: `x + y`, or `[x, y].sum()`."""
    match node:
        case FunctionCall(function="sum", target=ListLiteral(items=items)):
            yield from items
        case _:
            yield from summed_terms(node)


def list_of_size(node: ExpressionNode) -> tuple[ExpressionNode | None, float]:
    """Return the list whose size a value is, and by how much it is less: `x.size() - 1`."""
    formula = formula_of(node)
    match formula.base:
        case FunctionCall(function="size", target=of) if not formula.is_rounded:
            is_lessened = all(operator == "-" for operator, _ in formula.figures)
            return of if is_lessened else None, sum(figure for _, figure in formula.figures)
        case _:
            return None, 0.0


def is_known(figures: Figures) -> bool:
    """Whether figures are such as convert units or count on, each operator at most once."""
    operators = [operator for operator, _ in figures]
    is_each_once = len({*operators}) == len(operators)
    return is_each_once and all(figure in _KNOWN[operator] for operator, figure in figures)


def whole_of_percentage(figures: Figures) -> float | None:
    """Return the whole of which figures make of a value the percentage, or from which they make of it
    the growth: 5000 of `x / 5000.0 * 100.0` and of `(x - 5000.0) / 5000.0`.
    """
    divisions = [at for at, (operator, _) in enumerate(figures) if operator == "/"]
    if len(divisions) != 1:
        return None
    at = divisions[0]
    whole, rest = figures[at][1], (*figures[:at], *figures[at + 1 :])
    if rest and rest[0] in {("-", whole), ("from", whole)}:
        # What is taken off the whole, or it off this, before the division.
        return whole if rest[1:] in {(), (("*", 100.0),)} else None
    is_divided_first = at == 0 or rest == (("*", 100.0),)
    return whole if is_divided_first and rest in OF_SHARES else None


ROUNDINGS: Final = frozenset({"math.round", "math.floor", "math.ceil", "math.trunc"})
_ON_THE_RIGHT: Final[dict[str, Operator]] = {"+": "+", "-": "-", "*": "*", "/": "/"}
_ON_THE_LEFT: Final[dict[str, Operator]] = {"+": "+", "-": "from", "*": "*", "/": "over"}
_INVERSE: Final[dict[Operator, Operator]] = {"*": "/", "/": "*"}
_CALCULATED: Final[dict[str, Callable[[float, float], float]]] = {
    "+": add,
    "-": sub,
    "*": mul,
    "/": lambda left, right: left / right,
}
_NEUTRAL: Final = frozenset({("*", 1.0), ("/", 1.0), ("+", 0.0), ("-", 0.0)})
_PLACES: Final = frozenset(10.0**places for places in range(1, 13))
_MIN_SIZE, _MAX_SIZE = 1e-12, 1e12
"""Between these, a figure leaves of a double what it was."""

SCALES: Final = frozenset(
    {
        *(10.0, 100.0, 1e3, 1e6, 1e9),
        *(60.0, 3600.0, 24.0, 86400.0, 7.0, 12.0, 52.0, 365.0, 365.25),
        *(1.8, 5.0, 9.0, 2.54, 0.3048, 1.609344, 0.45359237),
        *(2.0, 4.0, 0.5, round(math.pi, 2), round(math.pi, 4), round(math.pi, 5), math.pi),
    }
)
"""Figures that convert into a unit."""
_SHIFTS: Final = frozenset({1.0, 32.0, 273.15})
_KNOWN: Final[dict[Operator, frozenset[float]]] = {
    "*": SCALES,
    "/": SCALES,
    "+": _SHIFTS,
    "-": _SHIFTS,
    "from": frozenset({1.0, 100.0}),
    "over": frozenset({1.0, 100.0}),
}
OF_SHARES: Final[frozenset[Figures]] = frozenset(
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
"""What makes of a share a percentage, the rest or the growth."""
