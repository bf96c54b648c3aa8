"""The nodes of an expression's tree.

A *node* is a piece of CEL's grammar with its place in the text and its depth, the number of levels at and below it.
Nodes are immutable; whoever changes a tree makes a new one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

LiteralKind: TypeAlias = Literal["int", "uint", "double", "string", "bytes", "bool", "null"]


@dataclass(frozen=True, slots=True)
class LiteralValue:
    """A constant, as written; `string` holds what a string constant stands for."""

    start: int
    end: int
    depth: int
    kind: LiteralKind
    text: str
    string: str = ""


@dataclass(frozen=True, slots=True)
class Name:
    """A name that stands alone: a root, or the name a macro gave to an element."""

    start: int
    end: int
    depth: int
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """`operand.field`."""

    start: int
    end: int
    depth: int
    operand: Node
    field: str
    field_start: int


@dataclass(frozen=True, slots=True)
class Index:
    """`operand[index]`."""

    start: int
    end: int
    depth: int
    operand: Node
    index: Node


@dataclass(frozen=True, slots=True)
class Call:
    """A function, or a method where it has a target; namespaced functions carry their full name."""

    start: int
    end: int
    depth: int
    function: str
    target: Node | None
    arguments: tuple[Node, ...]
    name_start: int


@dataclass(frozen=True, slots=True)
class Macro:
    """`range.function(variable, …)`: the arguments are read with `variable` standing for each element."""

    start: int
    end: int
    depth: int
    function: str
    range: Node
    variable: str
    arguments: tuple[Node, ...]
    name_start: int


@dataclass(frozen=True, slots=True)
class Has:
    """`has(operand.field)`."""

    start: int
    end: int
    depth: int
    selection: Select | Index


@dataclass(frozen=True, slots=True)
class Unary:
    """`!operand` or `-operand`."""

    start: int
    end: int
    depth: int
    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Binary:
    """`left operator right`, for comparison, arithmetic and `in`."""

    start: int
    end: int
    depth: int
    operator: str
    left: Node
    right: Node
    operator_start: int


@dataclass(frozen=True, slots=True)
class Logic:
    """Conditions joined by one of `&&` and `||`."""

    start: int
    end: int
    depth: int
    operator: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Ternary:
    """`condition ? yes : no`."""

    start: int
    end: int
    depth: int
    condition: Node
    yes: Node
    no: Node


@dataclass(frozen=True, slots=True)
class ListOf:
    """`[…]`."""

    start: int
    end: int
    depth: int
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MapOf:
    """`{key: value, …}`."""

    start: int
    end: int
    depth: int
    entries: tuple[tuple[Node, Node], ...]


@dataclass(frozen=True, slots=True)
class Paren:
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
            return (node.operand, node.index)
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
