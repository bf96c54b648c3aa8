"""The nodes of an expression's tree.

A *node* is a piece of CEL's grammar with its place in the text and its depth, the number of levels
at and below it. Parentheses are none: what they enclose has its own place, without them, and is a
level deeper. Nodes are immutable. They are named tuples, because fourteen classes of that kind
are made in a fifth of the time that dataclasses take, which every start pays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, TypeAlias, cast, get_args

from wavewright.planner.cel.errors import ExpressionError

MAX_EXPRESSION_DEPTH = 28
"""Nesting of one expression; each level is a few calls deep in the checker and in the evaluator."""

NAMESPACES = frozenset({"cel", "math", "sets", "lists", "strings"})

FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
"""Comparisons, and how they are written with their sides exchanged."""

LiteralKind: TypeAlias = Literal["int", "double", "string", "bool", "null"]


class LiteralValue(NamedTuple):
    """A constant and what it stands for."""

    start: int
    end: int
    depth: int
    kind: LiteralKind
    value: str | int | float | bool | None


class Identifier(NamedTuple):
    """A name that stands alone: a root, or the name a macro gave to an element."""

    start: int
    end: int
    depth: int
    name: str


class Select(NamedTuple):
    """`operand.field`, or `operand["field"]`."""

    start: int
    end: int
    depth: int
    operand: ExpressionNode
    field: str
    field_start: int
    field_end: int
    """Where its name ends, a quotation mark after it as well."""

    @property
    def is_quoted(self) -> bool:
        """Whether the name stands in brackets, as a text."""
        return self.field_end < self.end


class Index(NamedTuple):
    """`operand[key]`, of which the key is no text that is written."""

    start: int
    end: int
    depth: int
    operand: ExpressionNode
    key: ExpressionNode


class FunctionCall(NamedTuple):
    """A function, or a method where it has a target; namespaced functions carry their full name."""

    start: int
    end: int
    depth: int
    function: str
    target: ExpressionNode | None
    arguments: tuple[ExpressionNode, ...]
    name_start: int


class Macro(NamedTuple):
    """`range.function(variable, …)`: the arguments are read with the variable standing for each
    element.

    A second variable stands for the element, and the first for its place or key. The range of
    `cel.bind` is a value.
    """

    start: int
    end: int
    depth: int
    function: str
    range: ExpressionNode
    variables: tuple[str, ...]
    arguments: tuple[ExpressionNode, ...]
    name_start: int
    falling: tuple[bool, ...] = ()
    """Of `sortBy`: whether each key orders from the greatest down."""


class Has(NamedTuple):
    """`has(operand.field)`."""

    start: int
    end: int
    depth: int
    selection: Select


class Unary(NamedTuple):
    """`!operand` or `-operand`."""

    start: int
    end: int
    depth: int
    operator: str
    operand: ExpressionNode


class Binary(NamedTuple):
    """`left operator right`, for comparison, arithmetic and `in`."""

    start: int
    end: int
    depth: int
    operator: str
    left: ExpressionNode
    right: ExpressionNode
    operator_start: int


class LogicalOperation(NamedTuple):
    """Conditions joined by one of `&&` and `||`."""

    start: int
    end: int
    depth: int
    operator: str
    operands: tuple[ExpressionNode, ...]


class Conditional(NamedTuple):
    """`condition ? yes : no`."""

    start: int
    end: int
    depth: int
    condition: ExpressionNode
    yes: ExpressionNode
    no: ExpressionNode


class ListLiteral(NamedTuple):
    """`[…]`."""

    start: int
    end: int
    depth: int
    items: tuple[ExpressionNode, ...]


class MapLiteral(NamedTuple):
    """`{key: value, …}`."""

    start: int
    end: int
    depth: int
    entries: tuple[tuple[ExpressionNode, ExpressionNode], ...]


ExpressionNode: TypeAlias = (
    LiteralValue | Identifier | Select | Index | FunctionCall | Macro | Has | Unary | Binary
    | LogicalOperation | Conditional | ListLiteral | MapLiteral
)  # fmt: skip


def summed_terms(node: ExpressionNode) -> Iterator[ExpressionNode]:
    """Yield the terms of a sum, or of texts or lists that are joined, in their order."""
    pending = [node]
    while pending:
        term = pending.pop()
        if isinstance(term, Binary) and term.operator == "+":
            pending += [term.right, term.left]
        else:
            yield term


def all_nodes(tree: ExpressionNode) -> Iterator[ExpressionNode]:
    """Yield a node and all below it, those above first."""
    yield tree
    for part in children(tree):
        yield from all_nodes(part)


def names_in(tree: ExpressionNode) -> set[str]:
    """Return the names that an expression reads, those that its macros give as well."""
    return {part.name for part in all_nodes(tree) if isinstance(part, Identifier)}


def functions_in(tree: ExpressionNode) -> set[str]:
    """Return the functions and methods that an expression calls, without its macros."""
    return {part.function for part in all_nodes(tree) if isinstance(part, FunctionCall)}


def children(node: ExpressionNode) -> tuple[ExpressionNode, ...]:  # noqa: C901 - one case a kind
    """Return the nodes right below one; of a macro its range and its arguments."""
    match node:
        case Select():
            return (node.operand,)
        case Index():
            return (node.operand, node.key)
        case FunctionCall():
            return node.arguments if node.target is None else (node.target, *node.arguments)
        case Has():
            return (node.selection,)
        case Unary():
            return (node.operand,)
        case Binary():
            return (node.left, node.right)
        case LogicalOperation():
            return node.operands
        case Conditional():
            return (node.condition, node.yes, node.no)
        case ListLiteral():
            return node.items
        case MapLiteral():
            return tuple(part for entry in node.entries for part in entry)
        case Macro():
            return (node.range, *node.arguments)
        case LiteralValue() | Identifier():
            return ()


def with_parts(
    node: ExpressionNode, change: Callable[[ExpressionNode], ExpressionNode]
) -> ExpressionNode:
    """Return a node with each of the nodes right below it changed; it keeps its place."""

    def changed(field: object) -> object:
        if type(field) in _NODES:
            return change(cast("ExpressionNode", field))
        if isinstance(field, tuple):
            # Arguments, items, or the entries of an object, which are pairs of nodes.
            return tuple(map(changed, cast("tuple[object, ...]", field)))
        return field

    return type(node)._make(map(changed, node))


_NODES = frozenset(get_args(ExpressionNode))


def parent_depth(*nodes: ExpressionNode) -> int:
    """Return the depth of a node that stands right above others.

    Raises:
        ExpressionError: it is too deep.
    """
    depth = max([node.depth for node in nodes], default=0)
    if depth >= MAX_EXPRESSION_DEPTH:
        raise too_deep_error(nodes[0].start)
    return depth + 1


def too_deep_error(offset: int) -> ExpressionError:
    """Return the error of an expression that is nested too deep."""
    return ExpressionError(
        "expression_too_large",
        f"the expression is nested more than {MAX_EXPRESSION_DEPTH} levels deep (a chain of + counts a level a term)",
        offset,
        "join texts with [a, b].join(), add numbers with sum([a, b]), or split the expression over steps",
    )
