"""Turn the calls of macros into nodes: `has(x.y)`, `list.map(x, …)`, `cel.bind(x, value, …)`."""

from __future__ import annotations

from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.nodes import (
    NAMESPACES,
    TYPE_NAMES,
    ExpressionNode,
    Has,
    Identifier,
    Index,
    LiteralValue,
    Macro,
    Select,
    parent_depth,
    without_parens,
)
from wavewright.planner.cel.tokens import Token

_CONDITION_MACROS = frozenset({"all", "exists", "exists_one", "existsOne"})
_TRANSFORM_MACROS = frozenset({"transformList", "transformMap", "transformMapEntry"})
MACROS = _CONDITION_MACROS | _TRANSFORM_MACROS | {"map", "filter", "sortBy"}
"""Methods whose first argument, or first two, are new names for each element."""


def parse_has(start: int, arguments: tuple[ExpressionNode, ...], end: int) -> ExpressionNode:
    """Return the node of `has(…)`.

    Raises:
        ExpressionError: the arguments are not those of the macro.
    """
    if len(arguments) == 1:
        selection = without_parens(arguments[0])
        if isinstance(selection, Select) or (
            isinstance(selection, Index)
            and isinstance(selection.key, LiteralValue)
            and isinstance(selection.key.value, str)
        ):
            return Has(start, end, parent_depth(selection), selection)
    raise ExpressionError(
        "bad_expression",
        "has() asks for one field",
        start,
        'write has(steps.prices), has(item.code) or has(item["a key"])',
    )


def parse_macro(
    target: ExpressionNode, name: Token, arguments: tuple[ExpressionNode, ...], end: int
) -> ExpressionNode:
    """Return the node of `target.name(…)`.

    Raises:
        ExpressionError: the arguments are not those of the macro.
    """
    _, function, name_start, _ = name
    given = len(arguments)
    named = 2 if function in _TRANSFORM_MACROS or (function in _CONDITION_MACROS and given == 3) else 1
    bodies = (1, 2) if function in _TRANSFORM_MACROS or function == "map" else (1,)
    variables = _variables(arguments[:named])
    if given - named not in bodies or variables is None:
        wanted = "names for each place and element" if named == 2 else "a name for each element"
        example = "i, x" if named == 2 else "x"
        raise ExpressionError(
            "bad_expression",
            f"{function}() wants {wanted} and an expression",
            name_start,
            f"write list.{function}({example}, …) with x in place of each element",
        )
    body = arguments[named:]
    return Macro(
        target.start, end, parent_depth(target, *body), function, target, variables, body, name_start
    )


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
    """Return the names that a macro gives, or None where one is not a name or all are not different."""
    names: list[str] = []
    for node in nodes:
        if not isinstance(node, Identifier):
            return None
        if node.name in TYPE_NAMES or node.name in NAMESPACES:
            raise ExpressionError(
                "bad_expression",
                f"'{node.name}' has a meaning of its own and cannot name an element",
                node.start,
                "take another name, such as x",
            )
        names.append(node.name)
    return tuple(names) if len({*names}) == len(nodes) > 0 else None
