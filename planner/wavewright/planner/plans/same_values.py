"""Same values: what an expression reads twice under two names, and what then counts twice.

Values are the same if their expressions have the same plain form. So are those of steps that make the
same calls, and the entries of one list, in another order or with some of their fields. Read twice in
a sum, in a list that is added up or among items, such a value counts twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from wavewright.planner.cel.nodes import (
    Binary,
    Conditional,
    ExpressionNode,
    FunctionCall,
    Identifier,
    ListLiteral,
    LiteralValue,
    Macro,
    MapLiteral,
    Select,
    names_in,
    summed_terms,
    with_parts,
)
from wavewright.planner.cel.plain_form import is_written, without_places
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.types import Json, StepId

_Key: TypeAlias = object
"""What is equal for values that are the same."""


@dataclass(frozen=True, slots=True)
class SameValues:
    """Tells which values of plain expressions are the same."""

    first_of_equal: Callable[[], Mapping[str, StepId]]
    """Returns steps, with the first that makes the same calls; asked when values are compared."""

    def are_same(self, left: ExpressionNode, right: ExpressionNode) -> bool:
        """Whether two expressions have the same value, whatever is read."""
        return self._key(left) == self._key(right)

    def repeated(self, values: Sequence[ExpressionNode]) -> list[ExpressionNode]:
        """Return those of some values that are the same as another one of them."""
        read = [value for value in values if not is_written(value)]
        keys = [self._key(value) for value in read]
        return [value for value, key in zip(read, keys, strict=True) if keys.count(key) > 1]

    def counted_twice(self, values: Sequence[ExpressionNode]) -> list[ExpressionNode]:
        """Return those of some values that are the same as another one of them, or hold entries of the
        same list. Two parts of one list may be all of it, and are not.
        """
        read = [value for value in values if not is_written(value)]
        lists = [_list_behind(value) for value in read]
        whole = [self._key(behind) for behind, is_part in lists if not is_part]
        counted: list[_Key] = []
        for value, (behind, _) in zip(read, lists, strict=True):
            key = self._key(behind)
            counted.append(key if key in whole else self._records_key(value))
        return [value for value, key in zip(read, counted, strict=True) if counted.count(key) > 1]

    def is_repeated(self, node: ExpressionNode) -> bool:
        """Whether a list holds one value more than once, so that it counts so often where its entries
        are added up: `[x, x]`, `x + x`, `x.map(i, [i, i])`, `ids.map(i, x)`.
        """
        match node:
            case ListLiteral(items=items):
                inside = [item for item in items if isinstance(item, ListLiteral)]
                return bool(self.counted_twice(items)) or self._is_any_repeated(inside)
            case Binary(operator="+"):
                terms = [*summed_terms(node)]
                return bool(self.counted_twice(terms)) or self._is_any_repeated(terms)
            case FunctionCall(function="flatten", target=FunctionCall(function="zip") as zipped):
                return bool(self.counted_twice(zipped.arguments))
            case FunctionCall(function=name, target=over) if name in _KEEPING and over is not None:
                return self.is_repeated(over)
            case Macro(function="filter" | "sortBy", range=over):
                return self.is_repeated(over)
            case Macro(function="map" | "transformList", range=over, arguments=(*_, body)):
                is_same_for_all = not is_written(body) and names_in(body).isdisjoint(node.variables)
                return is_same_for_all or self._is_any_repeated([over, body])
            case Macro(function="bind", arguments=(body,)):
                return self.is_repeated(body)
            case Conditional(yes=yes, no=no):
                return self._is_any_repeated([yes, no])
            case _:
                return False

    def _is_any_repeated(self, nodes: Iterable[ExpressionNode]) -> bool:
        return any(map(self.is_repeated, nodes))

    def _key(self, node: ExpressionNode) -> _Key:
        firsts = self.first_of_equal()

        def with_firsts(part: ExpressionNode) -> ExpressionNode:
            match part:
                case Select(operand=Identifier(name="steps"), field=name):
                    return part._replace(field=firsts.get(name, name))
                case _:
                    return with_parts(part, with_firsts)

        return without_places(with_firsts(node))

    def _records_key(self, node: ExpressionNode) -> _Key:
        """Return the key of a value; of records made of the fields of a list's entries it is that of
        the list and of the fields, whatever they are called and in whatever order they stand.
        """
        if not (isinstance(node, Macro) and _copies_entries(node)):
            return self._key(node)
        body = node.arguments[-1]
        fields = [value for _, value in body.entries] if isinstance(body, MapLiteral) else [body]
        return self._records_key(node.range), frozenset(map(self._key, fields))


def _list_behind(node: ExpressionNode) -> tuple[ExpressionNode, bool]:
    """Return the list whose entries a list has, in whatever order, and whether it has a part of them
    only.
    """
    match node:
        case Macro(function="filter", range=over):
            return _list_behind(over)[0], True
        case FunctionCall(function="slice", target=over) if over is not None:
            return _list_behind(over)[0], True
        case Macro(range=over) if _copies_entries(node):
            # The same entries, with some of their fields.
            return _list_behind(over)[0], True
        case Macro(function="sortBy", range=over):
            return _list_behind(over)
        case FunctionCall(function="sort" | "reverse", target=over) if over is not None:
            return _list_behind(over)
        case _:
            return node, False


def _copies_entries(node: Macro) -> bool:
    """Whether what a macro makes of an entry is the entry, or a record of its fields."""
    body = node.arguments[-1]
    is_of_all = node.function == "map" and len(node.arguments) == 1
    is_record = isinstance(body, MapLiteral | Identifier)
    return is_of_all and is_record and only_selects(body, node.variables)


def only_selects(node: ExpressionNode, variables: Collection[str]) -> bool:
    """Whether what a macro makes of an entry is the entry, parts of it, or a record of these."""
    match node:
        case MapLiteral(entries=entries):
            return all(only_selects(value, variables) for _, value in entries)
        case LiteralValue():
            return True
        case Identifier(name=name):
            return name in variables
        case Select(operand=operand):
            return only_selects(operand, variables)
        case _:
            return False


_KEEPING: Final = frozenset({"flatten", "reverse", "slice", "sort"})
"""Methods that give the entries of a list, or some of them, in whatever order."""


def first_of_equal_calls(graph: PlanGraph, steps: Collection[StepId]) -> Mapping[str, StepId]:
    """Return some steps of a plan, each with the first of them that makes the same calls."""
    firsts: dict[str, StepId] = {}
    first_of_calls: dict[str, StepId] = {}
    for step_id in graph.order():
        if step_id not in steps:
            continue
        step = graph.steps[step_id]
        # Data that is fetched again after another step may have become other data.
        after = sorted({firsts.get(name, name) for name in graph.dependencies[step_id]})
        calls: list[Json] = [step.tool, step.params, step.for_each, step.when, *after]
        text = _STEP.sub(
            lambda read: f"steps.{firsts.get(read[1], read[1])}", json.dumps(calls, sort_keys=True)
        )
        firsts[step_id] = first_of_calls.setdefault(text, step_id)
    return firsts


_STEP: Final = re.compile(r"\bsteps\.(\w+)")
