"""Nodes: values that know where they stand.

A *node* is a scalar, a list or an object together with the stretch of text that it was read from; an object also
knows where each key stands. Readers that keep positions build nodes, everybody else works on the plain value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from wavewright.config.sources import Span, pointer_keys

if TYPE_CHECKING:
    from pydantic import JsonValue

Scalar: TypeAlias = str | int | float | bool | None


@dataclass(slots=True)
class ScalarNode:
    """A text, number, truth value or null."""

    value: Scalar
    start: int
    end: int


@dataclass(slots=True)
class ListNode:
    """A list."""

    start: int
    end: int
    items: list[Node] = field(default_factory=list["Node"])


@dataclass(slots=True)
class Member:
    """A key of an object, with what it stands for."""

    key: Span
    node: Node


@dataclass(slots=True)
class ObjectNode:
    """An object; its members stand in the order of the text."""

    start: int
    end: int
    members: dict[str, Member] = field(default_factory=dict[str, Member])


Node: TypeAlias = ScalarNode | ListNode | ObjectNode


def plain_value(node: Node) -> JsonValue:
    """Return the value without its places. Recursive: readers bound the depth."""
    if isinstance(node, ObjectNode):
        return {key: plain_value(member.node) for key, member in node.members.items()}
    if isinstance(node, ListNode):
        return [plain_value(item) for item in node.items]
    return node.value


def find_node(root: Node, pointer: str) -> tuple[Node, Span | None] | None:
    """Return the node that a pointer names and where its key stands, if there is such a node."""
    node, key_span = root, None
    for key in pointer_keys(pointer):
        if isinstance(node, ObjectNode):
            member = node.members.get(key)
            if member is None:
                return None
            node, key_span = member.node, member.key
        elif isinstance(node, ListNode) and key.isdecimal() and int(key) < len(node.items):
            node, key_span = node.items[int(key)], None
        else:
            return None
    return node, key_span


def iterate_nodes(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes in it."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if isinstance(current, ObjectNode):
            stack.extend(member.node for member in reversed(current.members.values()))
        elif isinstance(current, ListNode):
            stack.extend(reversed(current.items))
