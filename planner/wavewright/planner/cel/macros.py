"""Macros, `list.map(x, …)` and its like, `has(x.y)` and `cel.bind(x, value, …)`: their nodes and
their evaluation.

A *macro* has a range, a body that is evaluated once an iteration, and a rule for what comes of the
iterations. The cost tracker counts the iterations of the whole evaluation, whatever is inside what.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from wavewright.planner.cel.errors import SUPPRESSED_ERROR_COST, ExpressionError
from wavewright.planner.cel.functions.lists import sort_by_keys, sorted_keys
from wavewright.planner.cel.nodes import (
    NAMESPACES,
    ExpressionNode,
    Has,
    Identifier,
    Index,
    LiteralValue,
    Macro,
    Select,
    Unary,
    parent_depth,
)
from wavewright.planner.cel.operators import evaluation_error
from wavewright.planner.cel.paths import Evaluation, EvaluationScope, kind_name
from wavewright.planner.cel.tokens import Token
from wavewright.planner.types import Json

_CONDITION_MACROS = frozenset({"all", "exists", "exists_one", "existsOne"})
_TRANSFORM_MACROS = frozenset({"transformList", "transformMap", "transformMapEntry"})
_EXTREMES = {"maxBy": True, "minBy": False}
"""Macros that give the first element in an order, and whether it is a falling one."""
MACROS = _CONDITION_MACROS | _TRANSFORM_MACROS | {"map", "filter", "sortBy", *_EXTREMES}
"""Methods whose first argument, or first two, are new names for each element."""


def parse_has(start: int, arguments: tuple[ExpressionNode, ...], end: int) -> ExpressionNode:
    """Return the node of `has(…)`.

    Raises:
        ExpressionError: the arguments are not those of the macro.
    """
    if len(arguments) == 1:
        selection = arguments[0]
        if isinstance(selection, Select):
            return Has(start, end, parent_depth(selection), selection)
    raise ExpressionError(
        "bad_expression",
        "has() asks for one field",
        start,
        'write has(steps.prices), has(item.code) or has(item["a key"])',
    )


def parse_macro(
    start: int,
    target: ExpressionNode,
    name: Token,
    arguments: tuple[ExpressionNode, ...],
    end: int,
) -> ExpressionNode:
    """Return the node of `target.name(…)`.

    Raises:
        ExpressionError: the arguments are not those of the macro.
    """
    _, function, name_start, _ = name
    count = len(arguments)
    named = (
        2 if function in _TRANSFORM_MACROS or (function in _CONDITION_MACROS and count == 3) else 1
    )
    bodies: Collection[int] = (1, 2) if function in _TRANSFORM_MACROS or function == "map" else (1,)
    if function == "sortBy":
        bodies = range(1, _MAX_SORT_KEYS + 1)
    variables = _variables(arguments[:named])
    if count - named not in bodies or variables is None:
        wanted = "names for each place and element" if named == 2 else "a name for each element"
        example = "i, x" if named == 2 else "x"
        raise ExpressionError(
            "bad_expression",
            f"{function}() wants {wanted} and an expression",
            name_start,
            f"write list.{function}({example}, …) with x in place of each element",
        )
    body = arguments[named:]
    place = (start, end, parent_depth(target, *body))
    if function in _EXTREMES:
        is_falling = _EXTREMES[function]
        ordered = Macro(*place, "sortBy", target, variables, body, name_start, (is_falling,))
        first = LiteralValue(name_start, name_start, 1, "int", 0)
        return Index(start, end, parent_depth(ordered, first), ordered, first)
    if function == "sortBy":
        keys = tuple(_sort_key(key) for key in body)
        falling = tuple(is_falling for _, is_falling in keys)
        body = tuple(key for key, _ in keys)
        return Macro(*place, function, target, variables, body, name_start, falling)
    return Macro(*place, function, target, variables, body, name_start)


_MAX_SORT_KEYS = 8


def _sort_key(node: ExpressionNode) -> tuple[ExpressionNode, bool]:
    """Return a key of `sortBy`, and whether it orders from the greatest down: it has a `-` before
    it, be it a number or not.
    """
    if isinstance(node, Unary) and node.operator == "-":
        return node.operand, True
    return node, False


def parse_bind(
    target: Identifier, name_start: int, arguments: tuple[ExpressionNode, ...], end: int
) -> ExpressionNode:
    """Return the node of `cel.bind(…)`.

    Raises:
        ExpressionError: the arguments are not those of the macro.
    """
    variables = _variables(arguments[:1])
    if len(arguments) != 3 or variables is None:
        raise ExpressionError(
            "bad_expression",
            "cel.bind() wants a name, its value and an expression",
            name_start,
            "write cel.bind(x, value, …) with x in place of the value",
        )
    _, value, body = arguments
    depth = parent_depth(value, body)
    return Macro(target.start, end, depth, "bind", value, variables, (body,), target.start)


def _variables(nodes: tuple[ExpressionNode, ...]) -> tuple[str, ...] | None:
    """Return the names that a macro gives, or None where one is not a name or all are not
    different.
    """
    names: list[str] = []
    for node in nodes:
        if not isinstance(node, Identifier):
            return None
        if node.name in NAMESPACES:
            raise ExpressionError(
                "bad_expression",
                f"'{node.name}' has a meaning of its own and cannot name an element",
                node.start,
                "take another name, such as x",
            )
        names.append(node.name)
    return tuple(names) if len({*names}) == len(nodes) > 0 else None


@dataclass(frozen=True, slots=True)
class CompiledMacro:
    """A macro whose parts are prepared; `size` is the number of nodes that one iteration evaluates."""

    macro: Macro
    operand: Evaluation
    bodies: tuple[Evaluation, ...]
    size: int

    def run(self, scope: EvaluationScope) -> Json:
        """Return what the macro gives.

        Raises:
            ExpressionError: its range is no list, or its body fails.
        """
        inner = scope.child()
        if self.macro.function == "bind":
            inner.variables[self.macro.variables[0]] = self.operand(scope)
            return self.bodies[0](inner)
        return _MACROS[self.macro.function](
            self, self._iterations(self.operand(scope), inner), inner
        )

    def evaluate_condition(self, inner: EvaluationScope) -> bool:
        """Return what the condition, the first body, gives in the current iteration."""
        value = self.bodies[0](inner)
        if isinstance(value, bool):
            return value
        raise ExpressionError(
            "no_overload",
            f"{self.macro.function}() wants a condition, and got {kind_name(value)}",
            self.macro.arguments[0].start,
        )

    def _iterations(self, over: Json, inner: EvaluationScope) -> Iterator[Json]:
        """Set the macro's variables to each element in turn, and yield the first of them."""
        keys: list[Json] | range
        if isinstance(over, Mapping) and self.macro.function != "sortBy":
            inner.cost.count_operations(5 * len(over))
            keys = sorted_keys(over)
        elif isinstance(over, list):
            keys = over if len(self.macro.variables) == 1 else range(len(over))
        else:
            raise ExpressionError(
                "no_overload",
                f"{self.macro.function}() goes over a list, and was given {kind_name(over)}",
                self.macro.name_start,
            )
        variables, count, size = inner.variables, inner.cost.count_iteration, self.size
        first, *second = self.macro.variables
        container = cast("Any", over)
        for key in keys:
            count(size)
            variables[first] = key
            if second:
                variables[second[0]] = container[key]
            yield key


def _map(macro: CompiledMacro, iterations: Iterator[Json], inner: EvaluationScope) -> Json:
    result: list[Json] = []
    last = len(macro.bodies) - 1
    for _ in iterations:
        if last and not macro.evaluate_condition(inner):
            continue
        result.append(macro.bodies[last](inner))
    return result


_ENTRY_COST = 8
"""Operations of an entry that is added to an object."""


def _transform_map(
    macro: CompiledMacro, iterations: Iterator[Json], inner: EvaluationScope
) -> Json:
    result: dict[Any, Json] = {}
    last = len(macro.bodies) - 1
    for key in iterations:
        if last and not macro.evaluate_condition(inner):
            continue
        inner.cost.count_operations(_ENTRY_COST)
        result[key] = macro.bodies[last](inner)
    return result


def _transform_map_entry(
    macro: CompiledMacro, iterations: Iterator[Json], inner: EvaluationScope
) -> Json:
    result: dict[str, Json] = {}
    last = len(macro.bodies) - 1
    for _ in iterations:
        if last and not macro.evaluate_condition(inner):
            continue
        entry = macro.bodies[last](inner)
        if not isinstance(entry, dict):
            raise ExpressionError(
                "no_overload", f"transformMapEntry() makes objects, and got {kind_name(entry)}"
            )
        inner.cost.count_operations(_ENTRY_COST * len(entry))
        if not result.keys().isdisjoint(entry):
            raise evaluation_error("transformMapEntry() makes the same key twice")
        result |= entry
    return result


def _filter(macro: CompiledMacro, iterations: Iterator[Json], inner: EvaluationScope) -> Json:
    return [element for element in iterations if macro.evaluate_condition(inner)]


def _short_circuit(
    macro: CompiledMacro, iterations: Iterator[Json], inner: EvaluationScope, *, by: bool
) -> bool:
    """Return `by` if any iteration gives it; as in CEL, a fault counts only where none decides."""
    met: ExpressionError | None = None
    for _ in iterations:
        try:
            if macro.evaluate_condition(inner) is by:
                return by
        except ExpressionError as fault:
            if fault.kind == "expression_too_large":
                raise
            inner.cost.count_operations(SUPPRESSED_ERROR_COST)
            met = met or fault
    if met is not None:
        raise met
    return not by


def _exists_one(macro: CompiledMacro, iterations: Iterator[Json], inner: EvaluationScope) -> Json:
    return sum(macro.evaluate_condition(inner) for _ in iterations) == 1


def _sort_by(macro: CompiledMacro, iterations: Iterator[Json], inner: EvaluationScope) -> Json:
    elements: list[Json] = []
    columns: list[list[Json]] = [[] for _ in macro.bodies]
    for element in iterations:
        elements.append(element)
        for place, column in enumerate(columns):
            column.append(macro.bodies[place](inner))
    places = list[Json](range(len(elements)))
    # Sorting keeps the order of equals, so the key that counts most comes last.
    for column, is_falling in reversed([*zip(columns, macro.macro.falling, strict=True)]):
        keys = [column[cast("int", place)] for place in places]
        places = sort_by_keys(inner.cost, "sortBy", keys, places, is_falling=is_falling)
    return [elements[cast("int", place)] for place in places]


_MACROS: dict[str, Callable[[CompiledMacro, Iterator[Json], EvaluationScope], Json]] = {
    "map": _map,
    "filter": _filter,
    "all": partial(_short_circuit, by=False),
    "exists": partial(_short_circuit, by=True),
    "exists_one": _exists_one,
    "existsOne": _exists_one,
    "sortBy": _sort_by,
    "transformList": _map,
    "transformMap": _transform_map,
    "transformMapEntry": _transform_map_entry,
}
