"""How the texts of a plan may begin, as far as that is known before the run.

Inputs, literals and the items of a known list are known, and so are the ways of a choice among
these. A text that goes on with something else is known up to there: the host of an address, or the
folder of a path.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from wavewright.planner.cel.embedded import split_references
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.nodes import (
    Binary,
    Conditional,
    ExpressionNode,
    FunctionCall,
    Index,
    ListLiteral,
    LiteralValue,
    MapLiteral,
    Select,
)
from wavewright.planner.cel.parser import parse_expression
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.plans.estimates import (
    INPUT_ROOTS,
    ITEM_ROOTS,
    MAX_ITEMS_INSPECTED,
    known_items,
    scopes_of_calls,
    value_if_known,
)
from wavewright.planner.types import JsonObject

_MAX_WAYS: Final = 64
"""Ways in which one text may begin, that are told apart."""


class Beginning(NamedTuple):
    """What is known of a text before the run."""

    text: str
    is_whole: bool
    """Whether nothing follows."""


_NOTHING_KNOWN: Final = Beginning("", is_whole=False)


def known_beginnings(plan: Plan, step: Step, text: str) -> list[Beginning]:
    """Return how a text may begin: each way that choices among known texts and the items of a known
    list leave open.

    >>> from wavewright.planner import Plan
    >>> fetch = {"id": "a", "tool": "fetch", "params": {"url": "${inputs.base}/${steps.b}"}}
    >>> plan = Plan.model_validate({"inputs": {"base": "https://example.org"}, "steps": [fetch]})
    >>> known_beginnings(plan, plan.steps[0], "${inputs.base}/${steps.b}")
    [Beginning(text='https://example.org/', is_whole=False)]
    """
    items = known_items(plan, step) if step.for_each is not None else None
    if items is None or len(items) > MAX_ITEMS_INSPECTED:
        return _beginnings(text, plan.scope({}), INPUT_ROOTS)
    ways = dict[Beginning, None]()
    for scope in scopes_of_calls(plan, step, items):
        ways |= dict.fromkeys(_beginnings(text, scope, ITEM_ROOTS))
    return [*ways]


def _beginnings(text: str, variables: JsonObject, roots: frozenset[str]) -> list[Beginning]:
    ways = [Beginning("", is_whole=True)]
    try:
        for part in split_references(text):
            if isinstance(part, str):
                following = [Beginning(part, is_whole=True)]
            elif known := value_if_known(f" ${{{part.expression}}}", variables, roots):
                # Beside the blank it is written as in any text, also a number such as a port.
                following = [Beginning(str(known[0])[1:], is_whole=True)]
            else:
                source = part.expression
                following = _results(parse_expression(source), source, variables, roots)
            ways = _continued(ways, following)
    except ExpressionError:
        return [_NOTHING_KNOWN]
    return ways


def _results(
    node: ExpressionNode, source: str, variables: JsonObject, roots: frozenset[str]
) -> list[Beginning]:
    """Return how the text begins that an expression gives."""
    known = value_if_known(f"${{{source[node.start : node.end]}}}", variables, roots)
    if known:
        text = known[0]
        return [Beginning(text, is_whole=True)] if isinstance(text, str) else [_NOTHING_KNOWN]
    match node:
        case Conditional(yes=yes, no=no):
            return [way for part in (yes, no) for way in _results(part, source, variables, roots)]
        case Binary(operator="+", left=left, right=right):
            before = _results(left, source, variables, roots)
            return _continued(before, _results(right, source, variables, roots))
        case Index(operand=operand) | Select(operand=MapLiteral() as operand):
            return _elements(operand, source, variables, roots)
        case FunctionCall(function="join", target=ListLiteral(items=items), arguments=between):
            separators = [*between[:1]] if between else []
            parts = [part for item in items for part in (*separators, item)][len(separators) :]
            return _in_turn([_results(part, source, variables, roots) for part in parts])
        case FunctionCall(
            function="format",
            target=LiteralValue(value=str(form)),
            arguments=(ListLiteral(items=items),),
        ) if _ONLY_TEXTS.fullmatch(form):
            first, *others = (Beginning(part, is_whole=True) for part in form.split("%s"))
            filled = [_results(item, source, variables, roots) for item in items]
            pairs = zip(filled, others, strict=False)
            return _in_turn([[first], *(ways for value, part in pairs for ways in (value, [part]))])
        case _:
            return [_NOTHING_KNOWN]


_ONLY_TEXTS: Final = re.compile(r"(?:[^%]|%s)*")
"""A format that fills in its values as they are."""


def _elements(
    operand: ExpressionNode, source: str, variables: JsonObject, roots: frozenset[str]
) -> list[Beginning]:
    """Return how the texts begin of which one is chosen, of a list or an object."""
    nodes = list[ExpressionNode]()
    match operand:
        case ListLiteral(items=items):
            nodes += items
        case MapLiteral(entries=entries):
            nodes += (value for _, value in entries)
        case _:
            known = value_if_known(f"${{{source[operand.start : operand.end]}}}", variables, roots)
            whole = known[0] if known else None
            texts = [*whole.values()] if isinstance(whole, dict) else whole
            if not isinstance(texts, list) or len(texts) > _MAX_WAYS:
                return [_NOTHING_KNOWN]
            return [
                Beginning(text, is_whole=True) if isinstance(text, str) else _NOTHING_KNOWN
                for text in texts
            ]
    return [way for node in nodes for way in _results(node, source, variables, roots)]


def _in_turn(parts: list[list[Beginning]]) -> list[Beginning]:
    """Return how a text begins that is put together of parts, each with its ways."""
    ways = [Beginning("", is_whole=True)]
    for following in parts:
        ways = _continued(ways, following)
    return ways


def _continued(ways: list[Beginning], following: list[Beginning]) -> list[Beginning]:
    """Return how texts begin that go on in one of several ways."""
    if len(ways) * len(following) > _MAX_WAYS:
        return [_NOTHING_KNOWN]
    continued = list[Beginning]()
    for way in ways:
        if way.is_whole:
            continued += [Beginning(way.text + more.text, more.is_whole) for more in following]
        else:
            continued.append(way)
    return continued
