"""The plain form of an expression: its tree, with one way to write what can be written in several.

| written | plain |
|---|---|
| `size(x)`, `sum(x)` | `x.size()`, `x.sum()` |
| `0 < x` | `x > 0` |
| `cel.bind(v, x, v + v)` | `x + x` |
| `x.filter(v, c).size() > 0`, `x.filter(v, c) != []` | `x.exists(v, c)` |
| `x.filter(v, c).size() == 0`, `x.filter(v, c) == []` | `!x.exists(v, c)` |
| `x.map(v, 1).sum()`, `x.map(v, v.n).size()` | `x.size()` |

Who asks what an expression means reads this form, and has one rule for all ways to write it. Nodes keep
the place of what they were written as, so what is shown of them is what the author wrote. The names
that macros give are other ones, of which no two hide each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from wavewright.planner.cel.nodes import (
    FLIPPED,
    Binary,
    ExpressionNode,
    FunctionCall,
    Identifier,
    ListLiteral,
    LiteralValue,
    Macro,
    Unary,
    all_nodes,
    children,
    with_parts,
)


class _Bound(NamedTuple):
    """What a name of `cel.bind` stands for."""

    value: ExpressionNode
    """In its plain form."""
    level: int
    """How many macros are around it."""


_Names: TypeAlias = Mapping[str, str | _Bound]
"""What the names of macros stand for: another name, or a value."""

_ALSO_METHODS: Final = frozenset({"size", "sum", "avg", "matches"})
ASKS_FOR_SOME: Final = frozenset({(">", 0), ("!=", 0), (">=", 1)})
ASKS_FOR_NONE: Final = frozenset({("==", 0), ("<=", 0), ("<", 1)})
"""Comparisons by which a size is asked whether there is anything, or nothing."""
_MOST_NODES: Final = 500
"""Nodes by which the value of `cel.bind` may make an expression longer."""
_MOST_LEVELS: Final = 60


def plain_form(tree: ExpressionNode) -> ExpressionNode:
    """Return the tree of an expression in its plain form: of `size(x)` that of `x.size()`."""
    return _plain(tree, {}, 0)


def without_places(node: ExpressionNode) -> ExpressionNode:
    """Return a node that is equal to another one of the same form, wherever the two are written."""
    bare = with_parts(node, without_places)
    nowhere: dict[str, Any] = dict.fromkeys(_PLACES.intersection(bare._fields), 0)
    return bare._replace(**nowhere)


_PLACES: Final = frozenset(
    {"start", "end", "depth", "name_start", "field_start", "field_end", "operator_start"}
)


def is_written(node: ExpressionNode) -> bool:
    """Whether a value is all in the expression: nothing is read in it, not even the time."""
    return not any(
        isinstance(part, Identifier) or (isinstance(part, FunctionCall) and part.function == "now")
        for part in all_nodes(node)
    )


def _plain(node: ExpressionNode, names: _Names, level: int) -> ExpressionNode:
    """Return a node in its plain form, inside as many macros as `level` says."""
    match node:
        case Identifier():
            return _named(node, names, level)
        case Macro():
            return _plain_macro(node, names, level)
        case _:
            of_plain_parts = with_parts(node, lambda part: _plain(part, names, level))
            return _with_depth(_in_one_way(of_plain_parts))


def _named(node: Identifier, names: _Names, level: int) -> ExpressionNode:
    match names.get(node.name):
        case None:
            return node
        case str() as name:
            return node._replace(name=name)
        case _Bound(value, outside):
            return _deeper(value, outside, level - outside) if level > outside else value


def _deeper(value: ExpressionNode, level: int, more: int) -> ExpressionNode:
    """Return a plain value, which stood inside as many macros as `level` says, inside some more: those
    in it have the names that they had if it were written there.
    """

    def renamed(name: str) -> str:
        at, dot, place = name.partition(".")
        return f"{int(at) + more}.{place}" if dot and int(at) >= level else name

    match value:
        case Identifier():
            return value._replace(name=renamed(value.name))
        case Macro():
            value = value._replace(variables=tuple(map(renamed, value.variables)))
        case _:
            pass
    return with_parts(value, lambda part: _deeper(part, level, more))


def _plain_macro(node: Macro, names: _Names, level: int) -> ExpressionNode:
    over = _plain(node.range, names, level)
    if node.function == "bind" and _may_stand_for(node, over):
        bound = _Bound(over, level)
        return _plain(node.arguments[0], {**names, node.variables[0]: bound}, level)
    # By its level and its place a name is another one than those of the macros around it.
    variables = tuple(f"{level}.{place}" for place in range(len(node.variables)))
    inner = {**names, **dict(zip(node.variables, variables, strict=True))}
    arguments = tuple(_plain(argument, inner, level + 1) for argument in node.arguments)
    return _with_depth(node._replace(range=over, variables=variables, arguments=arguments))


def _with_depth(node: ExpressionNode) -> ExpressionNode:
    depth = 1 + max((part.depth for part in children(node)), default=0)
    return node._replace(depth=depth)


def _may_stand_for(node: Macro, value: ExpressionNode) -> bool:
    """Whether a value is short enough to stand wherever `cel.bind` has its name: names within names
    within names would grow without end.
    """
    uses = [
        part
        for part in all_nodes(node.arguments[0])
        if isinstance(part, Identifier) and part.name == node.variables[0]
    ]
    size = sum(1 for _ in all_nodes(value))
    return size * len(uses) <= _MOST_NODES and value.depth <= _MOST_LEVELS


def _in_one_way(node: ExpressionNode) -> ExpressionNode:
    """Return a node, of plain parts, as it is written if there are several ways to write it."""
    match node:
        case FunctionCall(target=None, arguments=(first, *others)):
            if node.function not in _ALSO_METHODS:
                return node
            return _in_one_way(node._replace(target=first, arguments=tuple(others)))
        case FunctionCall(
            function="sum" | "size" as function, target=Macro(function="map") as made
        ):
            *conditions, body = made.arguments
            if function == "sum" and not (isinstance(body, LiteralValue) and _is_one(body)):
                return node
            if not conditions:
                return node._replace(function="size", target=made.range)
            kept = made._replace(function="filter", arguments=tuple(conditions))
            return node._replace(function="size", target=kept)
        case Binary() if node.operator in FLIPPED:
            return _plain_comparison(node)
        case _:
            return node


def _is_one(node: LiteralValue) -> bool:
    return node.kind in {"int", "double"} and node.value == 1


def _plain_comparison(node: Binary) -> ExpressionNode:
    if is_written(node.left) and not is_written(node.right):
        node = node._replace(left=node.right, operator=FLIPPED[node.operator], right=node.left)
    match node.left, node.right:
        case (
            FunctionCall(function="size", target=Macro(function="filter") as chosen),
            LiteralValue(kind="int" | "double", value=int() | float() as size),
        ):
            asked = (node.operator, size)
        case Macro(function="filter") as chosen, ListLiteral(items=()):
            asked = (node.operator, 0)
        case _:
            return node
    some = chosen._replace(start=node.start, end=node.end, function="exists")
    if asked in ASKS_FOR_SOME:
        return some
    return Unary(node.start, node.end, 1, "!", some) if asked in ASKS_FOR_NONE else node
