"""What an expression reads, found in its tree.

A *mention* is a place where a root is named. What is mentioned makes the dependencies of a plan, so a step
must be named in the text itself; names that macros give to elements hide roots as they do in CEL.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from wavewright.planner.cel.embedded import Read, bare_expression
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.nodes import (
    TYPE_NAMES,
    ExpressionNode,
    Has,
    Identifier,
    Index,
    LiteralValue,
    LogicalOperation,
    Macro,
    Parenthesized,
    Select,
    children,
    without_parens,
)
from wavewright.planner.cel.parser import parse_expression

_NOTHING: frozenset[str] = frozenset()


def reads_of_tree(expression: str) -> tuple[Read, ...]:
    """Return every read of an expression, in the order of the text.

    Raises:
        ExpressionError: it is no expression, or uses `steps` without naming the step.
    """
    mentions = list(_mentions(parse_expression(expression), frozenset()))
    guards = {mention.name for mention in mentions if mention.is_guarded and mention.root == "steps"}
    found: list[Read] = []
    for mention in sorted(mentions, key=lambda mention: mention.start):
        if mention.root == "steps" and mention.name is None:
            raise ExpressionError(
                "bad_expression",
                "'steps' must be followed by the name of a step",
                mention.start,
                "write steps.prices: what a step waits for is read from these names",
            )
        guarded = mention.root == "steps" and mention.name in guards
        found.append(Read(mention.root, mention.name, guarded, mention.start))
    return tuple(found)


def step_mentions(expression: str, step: str) -> list[RootMention]:
    """Return where an expression names a step, in the order of the text.

    Raises:
        ExpressionError: it is no expression.
    """
    mentions = _mentions(parse_expression(expression), frozenset())
    found = [mention for mention in mentions if mention.root == "steps" and mention.name == step]
    return sorted(found, key=lambda mention: mention.start)


class RootMention(NamedTuple):
    """A place where an expression names a root, or a field right below it."""

    root: str
    name: str | None
    start: int
    end: int
    is_guarded: bool = False
    """Whether `has()` asks for it."""
    quoted: bool = False
    """Whether the name stands as a string: `steps["prices"]`."""


def _mentions(
    node: ExpressionNode, local_names: frozenset[str], *, asked: bool = False
) -> Iterator[RootMention]:
    match node:
        case LiteralValue():
            return
        case Identifier():
            if node.name not in local_names and node.name not in TYPE_NAMES:
                yield RootMention(node.name, None, node.start, node.end, asked)
        case Select() | Index():
            yield from _selection_mentions(node, local_names, asked=asked)
        case Macro():
            yield from _mentions(node.range, local_names)
            inner = local_names.union(node.variables)
            for argument in node.arguments:
                yield from _mentions(argument, inner)
        case Has():
            yield from _mentions(node.selection, local_names, asked=True)
        case Parenthesized():
            yield from _mentions(node.inner, local_names, asked=asked)
        case _:
            for child in children(node):
                yield from _mentions(child, local_names)


def _selection_mentions(
    node: Select | Index, local_names: frozenset[str], *, asked: bool
) -> Iterator[RootMention]:
    operand = without_parens(node.operand)
    if isinstance(operand, Identifier) and operand.name not in local_names and operand.name not in TYPE_NAMES:
        if isinstance(node, Select):
            yield RootMention(operand.name, node.field, node.field_start, node.end, asked)
            return
        key = without_parens(node.key)
        if isinstance(key, LiteralValue) and isinstance(key.value, str):
            yield RootMention(operand.name, key.value, key.start, key.end, asked, quoted=True)
            return
    yield from _mentions(node.operand, local_names, asked=asked)
    if isinstance(node, Index):
        yield from _mentions(node.key, local_names)


def guarded_by_tree(condition: str) -> frozenset[str]:
    """Return the steps that are there for certain where a bare condition holds; none where it is faulty."""
    try:
        return _guarded(parse_expression(bare_expression(condition).expression))
    except ExpressionError:
        return _NOTHING


def _guarded(node: ExpressionNode) -> frozenset[str]:
    match without_parens(node):
        case LogicalOperation(operator="&&", operands=operands):
            return _NOTHING.union(*map(_guarded, operands))
        case LogicalOperation(operands=operands):
            first, *others = map(_guarded, operands)
            return first.intersection(*others)
        case Has(selection=selection):
            return _step_of(selection)
        case _:
            return _NOTHING


def _step_of(node: ExpressionNode) -> frozenset[str]:
    """Return the step that a selection below `steps` names."""
    while isinstance(node, Select):
        operand = without_parens(node.operand)
        if isinstance(operand, Identifier):
            return frozenset({node.field}) if operand.name == "steps" else _NOTHING
        node = operand
    return _NOTHING
