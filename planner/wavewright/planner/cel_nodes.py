"""The nodes of an expression's tree.

A *node* is a piece of CEL's grammar with its place in the text and its depth, the number of levels at and below it.
Nodes are immutable; whoever changes a tree makes a new one. They are named tuples, because fourteen classes of that
kind are made in a fifth of the time that dataclasses take, which every start pays.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

LiteralKind: TypeAlias = Literal["int", "uint", "double", "string", "bytes", "bool", "null"]


class LiteralValue(NamedTuple):
    """A constant, as written; `string` holds what a string constant stands for."""

    start: int
    end: int
    depth: int
    kind: LiteralKind
    text: str
    string: str = ""


class Name(NamedTuple):
    """A name that stands alone: a root, or the name a macro gave to an element."""

    start: int
    end: int
    depth: int
    name: str


class Select(NamedTuple):
    """`operand.field`."""

    start: int
    end: int
    depth: int
    operand: Node
    field: str
    field_start: int


class Index(NamedTuple):
    """`operand[key]`."""

    start: int
    end: int
    depth: int
    operand: Node
    key: Node


class Call(NamedTuple):
    """A function, or a method where it has a target; namespaced functions carry their full name."""

    start: int
    end: int
    depth: int
    function: str
    target: Node | None
    arguments: tuple[Node, ...]
    name_start: int


class Macro(NamedTuple):
    """`range.function(variable, …)`: the arguments are read with `variable` standing for each element."""

    start: int
    end: int
    depth: int
    function: str
    range: Node
    variable: str
    arguments: tuple[Node, ...]
    name_start: int


class Has(NamedTuple):
    """`has(operand.field)`."""

    start: int
    end: int
    depth: int
    selection: Select | Index


class Unary(NamedTuple):
    """`!operand` or `-operand`."""

    start: int
    end: int
    depth: int
    operator: str
    operand: Node


class Binary(NamedTuple):
    """`left operator right`, for comparison, arithmetic and `in`."""

    start: int
    end: int
    depth: int
    operator: str
    left: Node
    right: Node
    operator_start: int


class Logic(NamedTuple):
    """Conditions joined by one of `&&` and `||`."""

    start: int
    end: int
    depth: int
    operator: str
    operands: tuple[Node, ...]


class Ternary(NamedTuple):
    """`condition ? yes : no`."""

    start: int
    end: int
    depth: int
    condition: Node
    yes: Node
    no: Node


class ListOf(NamedTuple):
    """`[…]`."""

    start: int
    end: int
    depth: int
    items: tuple[Node, ...]


class MapOf(NamedTuple):
    """`{key: value, …}`."""

    start: int
    end: int
    depth: int
    entries: tuple[tuple[Node, Node], ...]


class Paren(NamedTuple):
    """`(inner)`: kept, so that printing a tree needs no rules of precedence."""

    start: int
    end: int
    depth: int
    inner: Node


Node: TypeAlias = (
    LiteralValue | Name | Select | Index | Call | Macro | Has | Unary | Binary | Logic | Ternary | ListOf
    | MapOf | Paren
)  # fmt: skip


def without_parens(node: Node) -> Node:
    """Return what stands inside any parentheses around a node."""
    while isinstance(node, Paren):
        node = node.inner
    return node


def children(node: Node) -> tuple[Node, ...]:  # noqa: C901, PLR0912 - one case a kind
    """Return the nodes right below one; of a macro its range and its arguments."""
    match node:
        case Select():
            return (node.operand,)
        case Index():
            return (node.operand, node.key)
        case Call():
            return node.arguments if node.target is None else (node.target, *node.arguments)
        case Has():
            return (node.selection,)
        case Unary():
            return (node.operand,)
        case Binary():
            return (node.left, node.right)
        case Logic():
            return node.operands
        case Ternary():
            return (node.condition, node.yes, node.no)
        case ListOf():
            return node.items
        case MapOf():
            return tuple(part for entry in node.entries for part in entry)
        case Paren():
            return (node.inner,)
        case Macro():
            return (node.range, *node.arguments)
        case LiteralValue() | Name():
            return ()
