"""Find what an expression reads, in its tree.

A *mention* is a place where a root is named. Mentions give the dependencies of a plan, so a step
must be named literally. Variables of macros hide roots of the same name, as in CEL.
"""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.nodes import (
    ExpressionNode,
    Has,
    Identifier,
    Index,
    LiteralValue,
    LogicalOperation,
    Macro,
    Select,
    children,
)
from wavewright.planner.cel.parser import parse_expression
from wavewright.planner.cel.plain_paths import Read, previous_part

_NOTHING: frozenset[str] = frozenset()


def reads_of_tree(expression: str) -> tuple[Read, ...]:
    """Return every read of an expression, in the order of the text.

    Raises:
        ExpressionError: it is no expression, or uses `steps` without naming the step.
    """
    mentions = root_mentions(expression)
    guards = {(mention.root, mention.name) for mention in mentions if mention.is_guarded}
    result: list[Read] = []
    for mention in mentions:
        if mention.root == "steps" and mention.name is None:
            raise ExpressionError(
                "bad_expression",
                "'steps' must be followed by the name of a step",
                mention.start,
                "write steps.prices: what a step waits for is read from these names",
            )
        may_be_absent = mention.root in {"steps", "previous"}
        guarded = may_be_absent and (mention.root, mention.name) in guards
        result.append(Read(mention.root, mention.name, guarded, mention.start))
    return tuple(result)


def step_mentions(expression: str, step: str) -> list[RootMention]:
    """Return where an expression names a step, in the order of the text.

    Raises:
        ExpressionError: it is no expression.
    """
    mentions = root_mentions(expression)
    return [mention for mention in mentions if mention.root == "steps" and mention.name == step]


class RootMention(NamedTuple):
    """A place where an expression names a root, or a field right below it."""

    root: str
    name: str | None
    start: int
    """Of the name, or of the root where there is none."""
    end: int
    path_start: int
    """Of the root."""
    path_end: int
    """Of the root with its name."""
    is_guarded: bool = False
    """Whether `has()` asks for it."""
    quoted: bool = False
    """Whether the name stands as a string: `steps["prices"]`."""


def root_mentions(expression: str) -> list[RootMention]:
    """Return every mention of a root, in the order of the text.

    Raises:
        ExpressionError: it is no expression.
    """
    mentions: list[RootMention] = []
    _collect_mentions(parse_expression(expression), _NOTHING, mentions)
    return sorted(mentions, key=attrgetter("start"))


def _collect_mentions(
    node: ExpressionNode,
    local_names: frozenset[str],
    mentions: list[RootMention],
    *,
    asked: bool = False,
) -> None:
    match node:
        case LiteralValue():
            return
        case Select() | Index():
            _collect_selection(node, local_names, mentions, asked=asked)
        case Identifier():
            if node.name not in local_names:
                mentions.append(
                    RootMention(node.name, None, node.start, node.end, node.start, node.end, asked)
                )
        case Macro():
            _collect_mentions(node.range, local_names, mentions)
            inner = local_names.union(node.variables)
            for argument in node.arguments:
                _collect_mentions(argument, inner, mentions)
        case Has():
            _collect_mentions(node.selection, local_names, mentions, asked=True)
        case _:
            for child in children(node):
                _collect_mentions(child, local_names, mentions)


def _collect_selection(
    node: Select | Index, local_names: frozenset[str], found: list[RootMention], *, asked: bool
) -> None:
    operand = node.operand
    is_of_root = isinstance(operand, Identifier) and operand.name not in local_names
    if isinstance(node, Select) and isinstance(operand, Identifier) and is_of_root:
        places = (node.field_start, node.field_end, operand.start, node.end)
        found.append(RootMention(operand.name, node.field, *places, asked, node.is_quoted))
        return
    _collect_mentions(node.operand, local_names, found, asked=asked)
    if isinstance(node, Index):
        _collect_mentions(node.key, local_names, found)


def guarded_by_tree(condition: str) -> frozenset[str]:
    """Return the steps that are there for certain where a bare condition holds, and the parts of the
    previous run, as `previous_part` names them.

    Raises:
        ExpressionError: it is no expression.
    """
    return _guarded(parse_expression(condition))


def conditions_in_tree(condition: str) -> frozenset[str]:
    """Return the conditions that `&&` joins in a bare condition, as texts.

    Raises:
        ExpressionError: it is no expression.
    """
    return _joined(parse_expression(condition), condition)


def _joined(node: ExpressionNode, text: str) -> frozenset[str]:
    match node:
        case LogicalOperation(operator="&&", operands=operands):
            return _NOTHING.union(*(_joined(operand, text) for operand in operands))
        case _:
            return frozenset({text[node.start : node.end]})


def _guarded(node: ExpressionNode) -> frozenset[str]:
    match node:
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
    """Return the step, or the part of the previous run, that a selection names."""
    while isinstance(node, Select):
        operand = node.operand
        if isinstance(operand, Identifier):
            if operand.name == "previous":
                return frozenset({previous_part(node.field)})
            return frozenset({node.field}) if operand.name == "steps" else _NOTHING
        node = operand
    return _NOTHING
