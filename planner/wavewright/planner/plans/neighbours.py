"""Neighbours: entries of a list that are compared with the ones before them, as day by day.

`zip(x.slice(1, x.size()), x.slice(0, x.size() - 1)).map(p, p[0].price - p[1].price)` and
`lists.range(x.size() - 1).map(i, x[i + 1].price - x[i].price)` leave out no entry of `x`, as long as
an entry and its neighbour only meet in a difference, a ratio, a comparison or a mean. Over
`lists.range(x.size() - 2)` each entry has two neighbours, and all three are to be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from wavewright.planner.cel.nodes import (
    Binary,
    ExpressionNode,
    FunctionCall,
    Identifier,
    Index,
    LiteralValue,
    Macro,
    MapLiteral,
    Select,
    all_nodes,
    children,
    summed_terms,
    with_parts,
)
from wavewright.planner.cel.plain_form import without_places
from wavewright.planner.plans.formulas import constant, list_of_size


def list_of_neighbours(node: Macro) -> ExpressionNode | None:
    """Return the list whose entries a macro only compares with their neighbours, of a tree in which
    entries are read by their places.

    None where it does anything else: then what it runs over may leave entries out.
    """
    match node.range:
        case FunctionCall(function="lists.range", arguments=(count,)):
            of, distance = list_of_size(count)
        case _:
            return None
    if of is None or not 0 < distance < _MOST_NEIGHBOURS:
        return None
    neighbours = _Neighbours(without_places(of), node.variables)
    # Where one between them is not read, two are compared that are no neighbours.
    are_all_read = neighbours.read_in(*node.arguments) == {*range(int(distance) + 1)}
    return of if are_all_read and all(map(neighbours.only_compares, node.arguments)) else None


def read_by_place(tree: ExpressionNode) -> ExpressionNode:
    """Return a plain tree in which an entry of `zip(x, y)` is what stands at its place in each list:
    `zip(x, y).map(p, p[1])` reads `y[place]`, and `x.slice(1, 9)[place]` is `x[place + 1]`.
    """
    node = with_parts(tree, read_by_place)
    if not isinstance(node, Macro) or node.function == "bind":
        return node
    lists, entry = _zipped(node.range), node.variables[-1]
    if not lists:
        return node
    place = node.variables[0] if len(node.variables) > 1 else f"place of {entry}"
    arguments = tuple(_at_place(part, entry, lists, place) for part in node.arguments)
    return node._replace(
        range=_as_places(node.range), variables=(place, entry), arguments=arguments
    )


def _zipped(node: ExpressionNode) -> Sequence[ExpressionNode]:
    """Return the lists of which `zip` made the entries of a list, all or some and in any order."""
    match node:
        case FunctionCall(function="zip", arguments=lists):
            return lists
        case Macro(function="filter" | "sortBy", range=over):
            return _zipped(over)
        case FunctionCall(function="slice" | "sort" | "reverse", target=over) if over is not None:
            return _zipped(over)
        case _:
            return ()


def _at_place(
    node: ExpressionNode, entry: str, lists: Sequence[ExpressionNode], place: str
) -> ExpressionNode:
    match node:
        case Index(
            operand=Identifier(name=name), key=LiteralValue(kind="int", value=int() as which)
        ):
            if name != entry or not 0 <= which < len(lists):
                return node
        case _:
            return with_parts(node, lambda part: _at_place(part, entry, lists, place))
    key: ExpressionNode = Identifier(node.key.start, node.key.end, 1, place)
    match lists[which]:
        case FunctionCall(function="slice", target=whole, arguments=(begin, _)) if (
            whole is not None
        ):
            if constant(begin) != 0:
                key = Binary(key.start, key.end, 2, "+", key, begin, key.start)
            return node._replace(operand=whole, key=key)
        case other:
            return node._replace(operand=other, key=key)


def _as_places(node: ExpressionNode) -> ExpressionNode:
    """Return `lists.range(x.size() - 1)` for `zip(x.slice(1, x.size()), x.slice(0, x.size() - 1))`,
    which has an entry for each of these places; another list as it is.
    """
    if not isinstance(node, FunctionCall) or node.function != "zip":
        return node
    sizes = [_size_of_part(part) for part in node.arguments]
    if None in sizes or len({*sizes}) > 1:
        return node
    size = next(size for size in sizes if size is not None)
    return node._replace(function="lists.range", arguments=(size,))


def _size_of_part(node: ExpressionNode) -> ExpressionNode | None:
    """Return the size of a part of a list that lacks entries at its ends, without its place."""
    match node:
        case FunctionCall(function="slice", target=whole, arguments=(begin, end)):
            first, (of, less) = constant(begin), list_of_size(end)
        case _:
            return None
    if first is None or of is None or whole is None or without_places(of) != without_places(whole):
        return None
    size = FunctionCall(0, 0, 2, "size", without_places(whole), (), 0)
    return Binary(0, 0, 3, "-", size, LiteralValue(0, 0, 1, "double", first + less), 0)


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """The entries of a list that a macro reads from a place on."""

    of: ExpressionNode
    variables: tuple[str, ...]
    """The names that the macro gives, of which the first is the place."""

    def read_in(self, *nodes: ExpressionNode) -> set[int]:
        """Return how far from their place the entries are that are read in nodes."""
        offsets = {self._offset(part) for node in nodes for part in all_nodes(node)}
        return {offset for offset in offsets if offset is not None}

    def _offset(self, node: ExpressionNode) -> int | None:
        if not isinstance(node, Index) or without_places(node.operand) != self.of:
            return None
        match node.key:
            case Identifier(name=name) if name == self.variables[0]:
                return 0
            case Binary(
                operator="+", left=Identifier(name=name), right=LiteralValue(value=int() as offset)
            ) if name == self.variables[0]:
                return offset
            case _:
                return None

    def only_compares(self, node: ExpressionNode) -> bool:
        """Whether an entry and its neighbour only meet in a difference, a ratio or a comparison; beside
        that their day or their name may be read.
        """
        match node:
            case Identifier(name=name):
                return name not in self.variables
            case Index() if self._offset(node) is not None:
                return False
            case MapLiteral(entries=fields):
                values = [value for _, value in fields if not _is_name(value)]
                return all(map(self.only_compares, values))
            case Binary() if self._compares(node) or _is_mean(node):
                return True
            case _:
                return all(map(self.only_compares, children(node)))

    def _compares(self, node: Binary) -> bool:
        """Whether one side is made of an entry and the other one of its neighbour, or of both: a growth
        is a difference by one of the two, `(b - a) / a`.
        """
        if node.operator not in _COMPARING:
            return False
        left, right = self.read_in(node.left), self.read_in(node.right)
        is_of_one = bool(right) and (right == {0} or 0 not in right)
        if 0 in left and len(left) > 1:
            return node.operator == "/" and is_of_one and self.only_compares(node.left)
        return is_of_one and bool(left) and (0 in left) != (0 in right)


def _is_mean(node: Binary) -> bool:
    """Whether different values are added up and divided by their number."""
    terms = [without_places(term) for term in summed_terms(node.left)]
    is_of_all = node.operator == "/" and constant(node.right) == len(terms) > 1
    return is_of_all and len({*terms}) == len(terms)


def _is_name(node: ExpressionNode) -> bool:
    """Whether a field is read that says which entry it is, as its day does."""
    return isinstance(node, Select) and node.field in _NAMES


_MOST_NEIGHBOURS: Final = 1000
_COMPARING: Final = frozenset({"-", "/", "<", "<=", ">", ">="})
_NAMES: Final = frozenset(
    {"code", "date", "day", "id", "key", "month", "name", "time", "title", "year"}
)
