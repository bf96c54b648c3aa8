"""Neighbours: entries of a list that are compared with the ones before them, as day by day.

`zip(x.slice(1, x.size()), x.slice(0, x.size() - 1)).map(p, p[0].price - p[1].price)` and
`lists.range(x.size() - 1).map(i, x[i + 1].price - x[i].price)` leave out no entry of `x`, as long as
an entry and its neighbour only meet in a difference, a ratio, a comparison or a mean. Over
`lists.range(x.size() - 2)` each entry has two neighbours, and all three are to be read.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, TypeAlias

from wavewright.planner.cel.nodes import (
    Binary,
    ExpressionNode,
    FunctionCall,
    Identifier,
    Index,
    Macro,
    MapLiteral,
    Select,
    all_nodes,
    children,
    summed_terms,
    without_parens,
)


def list_of_neighbours(node: Macro, text: str) -> ExpressionNode | None:
    """Return the list whose entries a macro only compares with their neighbours.

    None where it does anything else: then what it runs over may leave entries out.
    """
    over = without_parens(node.range)
    if not isinstance(over, FunctionCall) or over.target is not None or len(node.variables) != 1:
        return None
    reader = _Reader(node, text)
    if over.function == "zip":
        of = reader.list_of_pairs(over.arguments)
        place, neighbours = "0", ["1"]
        read = node.variables[0]
    elif over.function == "lists.range":
        of, distance = reader.list_of_places(over.arguments[0])
        place = node.variables[0]
        neighbours = [f"{place}+{number}" for number in range(1, distance + 1)]
        read = "" if of is None else reader.source(of)
    else:
        return None
    if of is None:
        return None
    entries = reader.spans_of(read, place)
    spans = [reader.spans_of(read, name) for name in neighbours]
    # Where one between them is not read, two are compared that are no neighbours.
    others = frozenset[_Span]().union(*spans) if all(spans) else frozenset[_Span]()
    bodies = node.arguments
    is_compared = all(reader.only_compares(body, entries, others) for body in bodies)
    return of if is_compared and entries and others else None


_Span: TypeAlias = tuple[int, int]
"""Where a part of an expression begins and ends."""


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads one macro."""

    node: Macro
    text: str

    def source(self, node: ExpressionNode) -> str:
        """Return the text of a node without spaces, so that equal parts have equal texts."""
        bare = without_parens(node)
        return _SPACES.sub("", self.text[bare.start : bare.end])

    def list_of_pairs(self, sides: Collection[ExpressionNode]) -> ExpressionNode | None:
        """Return the list of which one side lacks the first entry, and the other one the last."""
        parts = [self._slice(side) for side in sides]
        lists = {self.source(part[0]) for part in parts if part is not None}
        begins = sorted(part[1] for part in parts if part is not None)
        is_both = None not in parts and len(lists) == 1 and begins == [0, 1]
        return parts[0][0] if is_both and parts[0] is not None else None

    def _slice(self, node: ExpressionNode) -> tuple[ExpressionNode, int] | None:
        """Return the list of which a part lacks one entry at an end, and where the part begins."""
        bare = without_parens(node)
        match bare:
            case FunctionCall(function="slice", target=of, arguments=bounds) if of is not None:
                size = f"{self.source(of)}.size()"
                begins: dict[tuple[str, ...], int] = {("0", f"{size}-1"): 0, ("1", size): 1}
                begin = begins.get(tuple(map(self.source, bounds)))
                return None if begin is None else (of, begin)
            case _:
                return None

    def list_of_places(self, count: ExpressionNode) -> tuple[ExpressionNode | None, int]:
        """Return the list that has some entries more than a range has places, and is read at these,
        and how many that are.
        """
        counted = _LESS.fullmatch(self.source(count))
        if counted is None:
            return None, 0
        for body in self.node.arguments:
            for part in all_nodes(body):
                if isinstance(part, Index) and self.source(part.operand) == counted["list"]:
                    return part.operand, int(counted["places"])
        return None, 0

    def spans_of(self, operand: str, place: str) -> frozenset[_Span]:
        """Return where the macro reads an entry at a place."""
        return frozenset(
            (part.start, part.end)
            for body in self.node.arguments
            for part in all_nodes(body)
            if isinstance(part, Index)
            and (self.source(part.operand), self.source(part.key)) == (operand, place)
        )

    def only_compares(
        self, node: ExpressionNode, entries: Collection[_Span], others: Collection[_Span]
    ) -> bool:
        """Whether an entry and its neighbour only meet in a difference, a ratio or a comparison; beside
        that their day or their name may be read.
        """
        bare = without_parens(node)
        match bare:
            case Identifier(name=name):
                return name not in self.node.variables
            case Index() if (bare.start, bare.end) in {*entries, *others}:
                return False
            case MapLiteral(entries=fields):
                values = [value for _, value in fields if not _is_name(value)]
                return all(self.only_compares(value, entries, others) for value in values)
            case Binary() if self._compares(bare, entries, others) or self._is_mean(bare):
                return True
            case _:
                parts = children(bare)
                return all(self.only_compares(part, entries, others) for part in parts)

    def _compares(
        self, node: Binary, entries: Collection[_Span], others: Collection[_Span]
    ) -> bool:
        """Whether one side is made of an entry and the other one of its neighbour, or of both: a growth
        is a difference by one of the two, `(b - a) / a`.
        """
        if node.operator not in _COMPARING:
            return False
        left, right = (
            (_reads(side, entries), _reads(side, others)) for side in (node.left, node.right)
        )
        is_of_one = True in right and False in right
        if left == (True, True):
            is_difference = self.only_compares(node.left, entries, others)
            return node.operator == "/" and is_of_one and is_difference
        return is_of_one and left == (right[1], right[0])

    def _is_mean(self, node: Binary) -> bool:
        """Whether different values are added up and divided by their number."""
        terms = [self.source(term) for term in summed_terms(node.left)]
        count = len(terms)
        is_of_all = self.source(node.right) in {f"{count}", f"{count}.0"}
        return node.operator == "/" and count > 1 and is_of_all and len({*terms}) == count


def _reads(node: ExpressionNode, spans: Collection[_Span]) -> bool:
    return any((part.start, part.end) in spans for part in all_nodes(node))


def _is_name(node: ExpressionNode) -> bool:
    """Whether a field is read that says which entry it is, as its day does."""
    bare = without_parens(node)
    return isinstance(bare, Select) and bare.field in _NAMES


_SPACES: Final = re.compile(r"\s+")
_LESS: Final = re.compile(r"(?P<list>.+)\.size\(\)-(?P<places>[1-9]\d{0,2})")
"""A range that stops short of the end of a list by some places."""
_COMPARING: Final = frozenset({"-", "/", "<", "<=", ">", ">="})
_NAMES: Final = frozenset(
    {"code", "date", "day", "id", "key", "month", "name", "time", "title", "year"}
)
