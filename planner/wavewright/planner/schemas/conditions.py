"""What a condition tells of the values that it asks about: that one is there, that it is not null, or
how many elements a list has at least.

Conditions are followed through `&&`, `||`, `!`, comparisons, `has()`, `in` and `exists()`; of
anything else nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from wavewright.planner.cel.embedded import field_name
from wavewright.planner.cel.nodes import (
    FLIPPED,
    Binary,
    ExpressionNode,
    FunctionCall,
    Has,
    Index,
    ListLiteral,
    LiteralValue,
    LogicalOperation,
    Macro,
    Select,
    Unary,
)


class KnownPart(NamedTuple):
    """What is known of a part of an expression: that it is there, and not null."""

    part: str
    """As `Conditions.source` writes it."""
    least: int = 0
    """Of a list: the fewest elements that it has."""
    may_be_null: bool = False
    """Whether it is only known to be there, as by `has()`."""


Facts: TypeAlias = frozenset[KnownPart]

NO_FACTS: Final[Facts] = frozenset()
_NEGATED: Final = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_FINDERS: Final = frozenset({"exists", "exists_one", "existsOne"})
"""Macros that hold only where there is an element."""


class Conditions:
    """The conditions in one expression."""

    def __init__(
        self, text: str, is_never_null: Callable[[ExpressionNode], bool] = lambda _: False
    ) -> None:
        """Read conditions.

        Args:
            text: The whole expression.
            is_never_null: Whether it follows from the type of a part that it is not null.
        """
        self._text = text
        self._is_never_null = is_never_null

    def source(self, node: ExpressionNode) -> str:
        """Return a part as facts name it: without spaces, and `x["field"]` as `x.field`."""
        match node:
            case Select():
                return f"{self.source(node.operand)}.{field_name(node.field)}"
            case _:
                return "".join(self._text[node.start : node.end].split())

    def facts(self, condition: ExpressionNode, *, holds: bool) -> Facts:
        """Return what is known where a condition holds, or where it does not."""
        match condition:
            case Unary(operator="!"):
                return self.facts(condition.operand, holds=not holds)
            case LogicalOperation():
                parts = [self.facts(operand, holds=holds) for operand in condition.operands]
                # Of `a && b` that does not hold, only what both would have told is known.
                if (condition.operator == "&&") == holds:
                    return NO_FACTS.union(*parts)
                return parts[0].intersection(*parts[1:])
            case Binary(operator="in"):
                return self._membership(condition) if holds else NO_FACTS
            case Binary() if condition.operator in _NEGATED:
                operator = condition.operator if holds else _NEGATED[condition.operator]
                left, right = condition.left, condition.right
                return self._compared(left, operator, right) | self._compared(
                    right, FLIPPED[operator], left
                )
            case Macro() if holds and condition.function in _FINDERS:
                return self._has_elements(condition.range, 1)
            case Has() if holds:
                asked = KnownPart(self.source(condition.selection), may_be_null=True)
                return self._owners(condition.selection.operand) | {asked}
            case _:
                return NO_FACTS

    def _has_elements(self, node: ExpressionNode, least: int) -> Facts:
        return frozenset({KnownPart(self.source(node), least)})

    def _membership(self, node: Binary) -> Facts:
        """Return what `"name" in x` tells: of an object that it has the field, of a list that it is
        not empty.
        """
        facts = self._has_elements(node.right, 1)
        key = node.left
        if isinstance(key, LiteralValue) and isinstance(key.value, str):
            field = f"{self.source(node.right)}.{field_name(key.value)}"
            facts |= {KnownPart(field, may_be_null=True)}
        return facts

    def _compared(self, part: ExpressionNode, operator: str, other: ExpressionNode) -> Facts:
        """Return what a comparison that holds tells of its left side."""
        listed = measured_list(part)
        if listed is not None and isinstance(other, LiteralValue) and isinstance(other.value, int):
            return self._measured(listed, operator, other.value)
        if operator not in {"==", "!="}:
            return NO_FACTS
        if isinstance(other, ListLiteral) and not other.items and operator == "!=":
            return self._has_elements(part, 1)
        if isinstance(other, LiteralValue):
            is_null = other.kind == "null"
        elif operator == "==" and self._is_never_null(other):
            is_null = False
        else:
            return NO_FACTS
        tells = is_null == (operator == "!=")
        return frozenset({KnownPart(self.source(part))}) if tells else NO_FACTS

    def _measured(self, listed: ExpressionNode, operator: str, size: int) -> Facts:
        match operator:
            case ">":
                return self._has_elements(listed, size + 1)
            case ">=" | "==":
                return self._has_elements(listed, size)
            case "!=" if size == 0:
                return self._has_elements(listed, 1)
            case _:
                return NO_FACTS

    def _owners(self, node: ExpressionNode) -> Facts:
        """Return a part and everything on the way to it."""
        facts = {KnownPart(self.source(node))}
        while isinstance(node, Select | Index):
            node = node.operand
            facts.add(KnownPart(self.source(node)))
        return frozenset(facts)


def measured_list(node: ExpressionNode) -> ExpressionNode | None:
    """Return the list of which a node is the length: of `x.size()` and `size(x)` it is `x`."""
    if not isinstance(node, FunctionCall) or node.function != "size":
        return None
    return node.target or next(iter(node.arguments), None)


def is_known(part: str, facts: Iterable[KnownPart]) -> bool:
    """Whether a part is known not to be null."""
    return any(fact.part == part and not fact.may_be_null for fact in facts)


def is_there(part: str, facts: Iterable[KnownPart]) -> bool:
    """Whether a part is known to be there, null or not."""
    return any(fact.part == part for fact in facts)
