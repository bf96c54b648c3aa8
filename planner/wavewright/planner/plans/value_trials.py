"""Values of an expression that are the same whatever is read.

`(a > b) != (a <= b)`, `x.map(…).size() == x.size()` and `x * 0.0 + 9.0` read data and do not depend
on it. There is no end of ways to write such a value, so an expression is not searched for them but
*tried*: it is computed for some hundred combinations of values that what it reads may have, by type.
Beside usual values these are the ones near to which its outcome may turn: the figures and texts that
are written in it, and equal values in several places. Where it has come to the same in all of them,
the data does not decide.

A trial can only err by missing the combination that matters, so none is held where this is likely:
of regular expressions and of sizes beyond those of the lists that are tried.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Final, TypeAlias

from wavewright.planner.cel.errors import CostTracker, ExpressionError
from wavewright.planner.cel.evaluator import compile_node, result_of
from wavewright.planner.cel.nodes import (
    Binary,
    ExpressionNode,
    FunctionCall,
    Has,
    Identifier,
    Index,
    LiteralValue,
    Macro,
    Select,
    children,
    without_parens,
)
from wavewright.planner.cel.operators import MembershipIndex
from wavewright.planner.cel.parser import parse_expression
from wavewright.planner.cel.paths import EvaluationScope
from wavewright.planner.schemas.views import (
    OPEN,
    SchemaView,
    ScopedSchema,
    element_schema,
    field_schema,
    field_schemas,
    scoped_schema,
    view_schema,
)
from wavewright.planner.types import Json, JsonSchema

RootType: TypeAlias = Callable[[str, str | None], JsonSchema]
"""Returns the schema of a root of expressions, or of a field right below it."""

_TRIALS: Final = 300
_MIN_VALUES: Final = 12
"""Trials that have to give a value; in the others a part of the expression fails."""
_MOST_OPERATIONS: Final = 500_000
"""Operations of all trials of a part; of one that takes more nothing is said."""
_MOST_ENTRIES: Final = 3
_MAX_DEPTH: Final = 4
_INSTANTS: Final = tuple(dt.datetime(year, 5, 6, tzinfo=dt.UTC) for year in (1990, 2010, 2050))
_DATES: Final = (
    *(f"2001-{month:02}-{month + 10}" for month in range(1, 13)),
    *("1980-02-03T04:05:06Z", "2090-06-15T18:40:50Z"),
)
_KINDS_READ: Final[dict[str, str]] = {
    **dict.fromkeys(("size", "sum", "join", "flatten", "distinct", "max", "min"), "array"),
    **dict.fromkeys(("contains", "startsWith", "endsWith", "indexOf", "split", "trim"), "string"),
    **dict.fromkeys(("timestamp", "substring", "lowerAscii", "upperAscii", "replace"), "string"),
}
"""The kinds that functions read, for values of which nothing else is known."""
_KINDS_WRITTEN: Final = {
    "int": "integer",
    "double": "number",
    "string": "string",
    "bool": "boolean",
}
_YEARS: Final = range(1900, 2101)


class ValueTrials:
    """The trials of the parts of one expression."""

    def __init__(self, text: str, tree: ExpressionNode, types: RootType) -> None:
        """Prepare trials; nothing is computed before a part is asked about."""
        self._text = text
        self._tree = tree
        self._types = types
        self._known: dict[tuple[int, int], bool] = {}

    def is_constant(self, node: ExpressionNode) -> bool:
        """Whether a part of the expression has one value whatever is read, as far as trials tell."""
        bare = without_parens(node)
        place = (bare.start, bare.end)
        if place not in self._known:
            self._known[place] = _can_be_tried(bare) and self._has_one_value(bare)
        return self._known[place]

    def _has_one_value(self, node: ExpressionNode) -> bool:
        macros = [*self._macros_around(node)]
        try:
            evaluate = compile_node(parse_expression(self._over_entries(node, macros)))
        except ExpressionError:
            return False
        cost = CostTracker()
        cost.operations = _MOST_OPERATIONS
        draw = _Draw(self._tree)
        seen = set[str]()
        count = 0
        for _ in range(_TRIALS):
            draw.begin()
            scope = EvaluationScope(self._variables(draw), draw.instant(), cost, MembershipIndex())
            try:
                values = [result_of(evaluate(scope), cost)]
            except (ExpressionError, RecursionError):
                continue
            for _ in macros:
                values = [entry for entries in values for entry in _as_entries(entries)]
            seen.update(map(_compared, values))
            if len(seen) > 1:
                return False
            count += len(values)
        return count >= _MIN_VALUES and cost.operations >= 0

    def _macros_around(self, node: ExpressionNode) -> Iterator[Macro]:
        """Yield the macros whose names may stand in a part, the outermost first."""
        inner: ExpressionNode | None = self._tree
        while inner is not None and inner is not node:
            if isinstance(inner, Macro) and not _is_within(node, inner.range):
                yield inner
            inner = next((part for part in children(inner) if _is_within(node, part)), None)

    def _over_entries(self, node: ExpressionNode, macros: list[Macro]) -> str:
        """Return the text that computes a part for each entry of the macros around it."""
        text = self._text[node.start : node.end]
        for macro in reversed(macros):
            over = self._text[macro.range.start : macro.range.end]
            names = ", ".join(macro.variables)
            if macro.function == "bind":
                text = f"[cel.bind({names}, {over}, {text})]"
            elif len(macro.variables) == 1:
                text = f"({over}).map({names}, {text})"
            else:
                text = f"({over}).transformList({names}, {text})"
        return text

    def _variables(self, draw: _Draw) -> dict[str, Json]:
        """Return values for all that the expression reads."""
        fields: dict[str, dict[str, Json]] = {"steps": {}, "inputs": {}}
        roots: dict[str, Json] = {}
        for root, name in sorted(set(_roots(self._tree)), key=str):
            if root not in fields:
                roots[root] = draw.value(scoped_schema(self._types(root, None)), root)
            elif name is not None and not draw.lacks():
                fields[root][name] = draw.value(scoped_schema(self._types(root, name)), name)
        return {**roots, **fields}


class _Draw:
    """Draws values of types, half of them near to what is written in an expression."""

    def __init__(self, tree: ExpressionNode) -> None:
        nodes = [*_nodes(tree)]
        figures = [*_figures(nodes)]
        literals = [node.value for node in nodes if isinstance(node, LiteralValue)]
        texts = [value for value in literals if isinstance(value, str)]
        calls = {node.function for node in nodes if isinstance(node, FunctionCall)}
        self._random = random.Random(0)  # noqa: S311 - the same trials each time, no secret
        self._figures = [*dict.fromkeys(_near_figures(figures))]
        self._texts = [*dict.fromkeys(_near_texts(figures, texts))]
        self._dates = [*filter(_DAY.match, self._texts)] if "timestamp" in calls else []
        self._written: dict[str, list[Json]] = {"number": [*figures], "string": [*texts]}
        self._names = [*dict.fromkeys(_fields(nodes))]
        self._may_lack = any(isinstance(node, Has) for node in nodes)
        self._kinds = dict(_kinds_by_use(nodes))
        self._figure: float | None = None
        self._scalar: str | None = None

    def begin(self) -> None:
        """Begin a trial: in every third all figures are the same, and in most all values of open types
        are of one kind, so that they can be compared.
        """
        self._figure = None
        self._figure = self._drawn_figure() if self._happens(1 / 3) else None
        self._scalar = self._scalar_kind() if self._happens(7 / 8) else None

    def instant(self) -> dt.datetime:
        """Return an instant that `now()` may give."""
        return self._random.choice(_INSTANTS)

    def lacks(self) -> bool:
        """Whether a value is left out, where the expression asks what is there."""
        return self._may_lack and self._happens(1 / 4)

    def value(self, place: ScopedSchema, name: str, depth: int = 0) -> Json:
        """Return a value of a type, that of a field or root with a name."""
        view = view_schema(place)
        if view.kind == "union":
            view = self._random.choice(view.branches)
        kind = self._open_kind(name) if view.kind == "open" else view.kind
        is_too_deep = depth > _MAX_DEPTH and kind in {"array", "object"}
        if kind == "null" or is_too_deep or (view.nullable and self._happens(1 / 8)):
            return None
        match kind:
            case "boolean":
                return self._happens(1 / 2)
            case "integer":
                return int(self._drawn_figure())
            case "number":
                return self._drawn_figure()
            case "array":
                return self._entries(element_schema(view) or OPEN, f"{name}[]", depth)
            case "object":
                return self._object(view, depth)
            case _:
                return self._drawn_text()

    def _open_kind(self, name: str) -> str:
        """Return the kind of a value of which nothing is known but how it is read."""
        if name in self._kinds:
            return self._kinds[name]
        return self._scalar_kind() if self._scalar is None else self._scalar

    def _scalar_kind(self) -> str:
        """Return a kind of value without parts, rather one that is written."""
        known = [kind for kind, written in self._written.items() if written]
        if known and self._happens(1 / 2):
            return self._random.choice(known)
        return self._random.choice(("number", "integer", "string", "boolean"))

    def _entries(self, entry: ScopedSchema, name: str, depth: int) -> list[Json]:
        kind = view_schema(entry).kind
        written = self._written.get(self._open_kind(name) if kind == "open" else kind)
        if written and self._happens(1 / 4):
            # All that is written, for what asks whether all of it is there.
            return [*written]
        count = self._random.randint(0, _MOST_ENTRIES)
        return [self.value(entry, name, depth + 1) for _ in range(count)]

    def _object(self, view: SchemaView, depth: int) -> dict[str, Json]:
        known = field_schemas(view)
        names = [name for name in self._names if name in known or not known]
        # Where no field of it is read, it is compared as a whole.
        names = names or [*known][:2] or ["any"]
        return {
            name: self.value(field_schema(view, name) or OPEN, name, depth + 1)
            for name in names
            if not self.lacks()
        }

    def _drawn_figure(self) -> float:
        return self._random.choice(self._figures) if self._figure is None else self._figure

    def _drawn_text(self) -> str:
        if self._dates and self._happens(3 / 4):
            return self._random.choice(self._dates)
        written = [str(text) for text in self._written["string"]]
        if not written or self._happens(1 / 2):
            return self._random.choice(self._texts)
        # One that is written, or some in a row, as a text holds them that is searched.
        parts = self._random.choices((*written, "a", ""), k=self._random.randint(1, _MOST_ENTRIES))
        return "".join(parts)

    def _happens(self, share: float) -> bool:
        return self._random.random() < share


def _can_be_tried(node: ExpressionNode) -> bool:
    """Whether values near to what is written may turn the outcome: not of a regular expression, nor of
    a size that no list of a trial has.
    """
    calls = {part.function for part in _nodes(node) if isinstance(part, FunctionCall)}
    if "matches" in calls:
        return False
    is_beyond = any(figure >= _MOST_ENTRIES for figure in _figures(_nodes(node)))
    return not (is_beyond and "size" in calls)


def _figures(nodes: Iterable[ExpressionNode]) -> Iterator[float]:
    """Yield the figures that are written."""
    for node in nodes:
        match node:
            case LiteralValue(kind="int" | "double", value=int() | float() as figure):
                yield float(figure)
            case _:
                pass


def _near_figures(written: list[float]) -> Iterator[float]:
    """Yield usual figures, and those that are written, around, between and far beyond these."""
    yield from (-1.0, 0.0, 0.5, 1.0, 2.0, 3.0)
    for low, high in pairwise(sorted(written)):
        yield (low + high) / 2
        yield low * high
    for figure in written:
        yield from (figure, figure - 1.0, figure + 1.0, -figure, figure * 10.0, figure * figure + 1)


def _near_texts(figures: list[float], written: list[str]) -> Iterator[str]:
    """Yield usual texts, and some that hold what is written."""
    yield from ("", "a", "Bc d")
    yield "".join(written)
    for text in written:
        yield from (text.casefold(), text * (_MOST_ENTRIES + 1))
    yield from _DATES
    for figure in (*range(4), *figures):
        yield f"{figure:g}"
        yield f"{figure * 10:g}"
        if figure in _YEARS:
            yield f"{figure:.0f}-07-08"
    for day in filter(_DAY.match, written):
        yield from (f"{int(day[:4]) - 1}{day[4:]}", f"{int(day[:4]) + 1}{day[4:]}")


_DAY: Final = re.compile(r"\d{4}-\d\d")


def _fields(nodes: list[ExpressionNode]) -> Iterator[str]:
    """Yield the names of fields that are read."""
    for node in nodes:
        if isinstance(node, Select | Index):
            name = node.field if isinstance(node, Select) else _literal_key(node)
            is_of_root = _name_of(node.operand) in {"steps", "inputs"}
            yield from () if name is None or is_of_root else (name,)


def _kinds_by_use(nodes: list[ExpressionNode]) -> Iterator[tuple[str, str]]:
    """Yield the kind as which fields and roots are read, by name; the entries of a list `rows` are
    `rows[]`.
    """
    for node in nodes:
        match node:
            case Select():
                yield _name_of(node.operand), "object"
            case FunctionCall():
                kind = _KINDS_READ.get(node.function)
                of = node.arguments[:1] if node.target is None else (node.target,)
                yield from ((_name_of(part), kind) for part in of if kind is not None)
            case Binary(operator="in"):
                yield _name_of(node.right), "array"
            case Binary():
                for part, other in ((node.left, node.right), (node.right, node.left)):
                    bare = without_parens(other)
                    if isinstance(bare, LiteralValue) and bare.kind != "null":
                        yield _name_of(part), _KINDS_WRITTEN[bare.kind]
            case Macro() if node.function != "bind":
                name = _name_of(node.range)
                yield name, "array"
                inside = (part for body in node.arguments for part in _nodes(body))
                read = {_name_of(part.operand) for part in inside if isinstance(part, Select)}
                if node.variables[-1] in read:
                    yield f"{name}[]", "object"
            case _:
                pass


def _name_of(node: ExpressionNode) -> str:
    """Return the name of the field or root that a part is made of; nothing where it has none."""
    match without_parens(node):
        case Select(field=field):
            return field
        case Identifier(name=name):
            return name
        case Index(operand=operand):
            return f"{_name_of(operand)}[]"
        case FunctionCall(target=target) if target is not None:
            return _name_of(target)
        case Macro(range=over):
            return _name_of(over)
        case _:
            return ""


def _roots(tree: ExpressionNode) -> Iterator[tuple[str, str | None]]:
    """Yield the roots that an expression reads, each with the name right below it."""
    below = set[int]()
    for node in _nodes(tree):
        if isinstance(node, Select | Index):
            operand = without_parens(node.operand)
            name = node.field if isinstance(node, Select) else _literal_key(node)
            if isinstance(operand, Identifier) and name is not None:
                below.add(operand.start)
                yield operand.name, name
        elif isinstance(node, Identifier) and node.start not in below:
            yield node.name, None


def _literal_key(node: Index) -> str | None:
    key = without_parens(node.key)
    if isinstance(key, LiteralValue) and isinstance(key.value, str):
        return key.value
    return None


def _nodes(node: ExpressionNode) -> Iterator[ExpressionNode]:
    """Yield a node and all below it, those above first."""
    yield node
    for part in children(node):
        yield from _nodes(part)


def _is_within(node: ExpressionNode, other: ExpressionNode) -> bool:
    return other.start <= node.start and node.end <= other.end


def _compared(value: Json) -> str:
    """Return a text that is the same for equal values, as 0 and 0.0 are."""
    if isinstance(value, int) and not isinstance(value, bool):
        return json.dumps(float(value))
    return json.dumps(value, sort_keys=True)


def _as_entries(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [value]
