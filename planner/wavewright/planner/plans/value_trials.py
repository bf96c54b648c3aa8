"""Values of an expression that are the same whatever is read.

`(a > b) != (a <= b)`, `x.map(…).size() == x.size()` and `x * 0.0 + 9.0` read data and do not depend
on it. There is no end of ways to write such a value, so an expression is not searched for them but
*tried*: it is computed for up to four thousand combinations of values that what it reads may have,
by type. Beside usual values these are the ones near to which its outcome may turn: the figures and
texts that are written in it, and equal values in several places. Where it has come to the same in
all of them, the data does not decide.

Of honest conditions many are rarely true: `r.town == 'Bel' && r.year == 2023 && r.month == 5`. So in
every second trial a field has what the expression compares it with, and a date is made of the years,
months and days that are asked for.

A trial can only err by missing the combination that matters, so none is held where this is likely:
of regular expressions and of sizes beyond those of the lists that are tried. Nor does it count where
most trials fail: a sum of `rows.map(r, r.price * rates[r.currency])` may then only have been computed
where there are no rows.
"""

from __future__ import annotations

import calendar
import datetime as dt
import itertools
import json
import math
import random
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Final, TypeAlias, TypeVar

from wavewright.config.value_types import DURATION_PATTERN, parse_duration
from wavewright.planner.cel.errors import CostTracker, ExpressionError
from wavewright.planner.cel.evaluator import compile_node, result_of
from wavewright.planner.cel.nodes import (
    Binary,
    ExpressionNode,
    FunctionCall,
    Has,
    Identifier,
    Index,
    ListLiteral,
    LiteralValue,
    Macro,
    Select,
    all_nodes,
    children,
    functions_in,
)
from wavewright.planner.cel.operators import MembershipIndex
from wavewright.planner.cel.parser import parse_expression
from wavewright.planner.cel.paths import EvaluationScope
from wavewright.planner.plans.expressions import TypedEnvironment
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
Reads: TypeAlias = list[tuple[str, str | None, ScopedSchema]]
"""What an expression reads, with its type: fields of some roots, and other roots whole."""

_MOST_TRIALS: Final = 4_000
_MOST_TRIALS_OF_ALL: Final = 10_000
"""Trials after which no further part of an expression is tried."""
_LEAST_TRIALS: Final = 300
"""Trials without which nothing is said; the rest are held as long as operations are left."""
_MIN_VALUES: Final = 12
"""Trials that have to give a value; in the others a part of the expression fails."""
_MOST_FAILED: Final = 0.65
"""The share of trials that may fail: where more do, those that matter may be among them."""
_MOST_OPERATIONS: Final = 500_000
"""Operations of all trials of a part."""
_MOST_DRAWN: Final = 500_000
"""Values that are drawn for all trials of a part."""
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
_ROOTS: Final = ("steps", "inputs", "item", "index", "previous", "output", "goal")
_ROOTS_OF_FIELDS: Final = ("steps", "inputs")
"""Roots whose fields are read, each with a type of its own."""
_YEARS: Final = range(1900, 2101)
_ANY_YEAR: Final = 2004.0
_CALLS_ON_DATES: Final = frozenset({"timestamp", "substring", "split"})
_MINUTES: Final = 60
_DAYS_OF_A_MONTH: Final = 31
_DAYS_OF_A_YEAR: Final = 366
_LONGEST_APART: Final = 1e9
"""Seconds, some thirty years."""
_COMPARISONS: Final = frozenset({"==", "!=", "<", "<=", ">", ">="})
_PLACES_SEARCHED: Final = ("startsWith", "contains", "endsWith")
"""Questions about texts, in the order in which a text answers them."""


_Scalar = TypeVar("_Scalar", float, str)


class ValueTrials:
    """The trials of the parts of one expression."""

    def __init__(self, text: str, tree: ExpressionNode, types: RootType) -> None:
        """Prepare trials; nothing is computed before a part is asked about."""
        self._text = text
        self._tree = tree
        self._types = types
        self._held = 0

    def is_constant(self, node: ExpressionNode) -> bool:
        """Whether a part of the expression has one value whatever is read, as far as trials tell."""
        if not _can_be_tried(node) or self._held > _MOST_TRIALS_OF_ALL:
            return False
        part = _Part(self._text, (node.start, node.end), self._reads, self._tree)
        value, held = _only_value(part)
        self._held += held
        if value == "[]" and isinstance(node, Macro) and _makes_entries(node):
            # What is made of an entry may have failed in all trials that had any: what is empty then
            # is the list of the entries, or nothing.
            return self.is_constant(node.range)
        return value is not None

    def type_of(self, node: ExpressionNode) -> JsonSchema | None:
        """Return the type of a part of the expression, if it is known."""
        read = {name for root, name in _roots(self._tree) if root == "steps" and name is not None}
        outputs = {name: self._types("steps", name) for name in read}
        environment = TypedEnvironment(inputs={}, steps=outputs, extra={"item": {}, "index": {}})
        return environment.part_types(self._text).type_of(node.start, node.end)

    @cached_property
    def _reads(self) -> str:
        """What the expression reads, as JSON."""
        macros = [node for node in all_nodes(self._tree) if isinstance(node, Macro)]
        variables = {name for macro in macros for name in macro.variables}
        read = {
            (root, name if root in _ROOTS_OF_FIELDS else None)
            for root, name in _roots(self._tree)
            if root not in variables or root in _ROOTS
        }
        read -= {(root, None) for root in _ROOTS_OF_FIELDS}
        return json.dumps([(*root, self._types(*root)) for root in sorted(read, key=str)])


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of an expression; it is the same as another of equal text, place and types."""

    text: str
    """The whole expression."""
    place: tuple[int, int]
    """Where the part begins and ends in it."""
    reads: str
    """What the expression reads, with the types, as JSON."""
    tree: ExpressionNode = field(compare=False)
    """The whole expression's."""

    def macros_around(self) -> list[Macro]:
        """Return the macros whose names may stand in the part, the outermost first."""
        macros: list[Macro] = []
        inner: ExpressionNode | None = self.tree
        while inner is not None and (inner.start, inner.end) != self.place:
            if isinstance(inner, Macro) and not self._is_within(inner.range):
                macros.append(inner)
            inner = next((part for part in children(inner) if self._is_within(part)), None)
        return macros

    def _is_within(self, node: ExpressionNode) -> bool:
        start, end = self.place
        return node.start <= start and end <= node.end

    def over_entries(self, macros: list[Macro]) -> str:
        """Return the text that computes the part for each entry of the macros around it."""
        start, end = self.place
        text = self.text[start:end]
        for macro in reversed(macros):
            over = self.text[macro.range.start : macro.range.end]
            names = ", ".join(macro.variables)
            if macro.function == "bind":
                text = f"[cel.bind({names}, {over}, {text})]"
            elif len(macro.variables) == 1:
                text = f"({over}).map({names}, {text})"
            else:
                text = f"({over}).transformList({names}, {text})"
        return text


@lru_cache(maxsize=256)
def _only_value(part: _Part) -> tuple[str | None, int]:
    """Return the value that all trials of a part come to, as JSON, and how many were held; None where
    they differ.

    Kept, because trials are the same for equal parts and take longer than all else that is asked of a
    plan, which is checked, reviewed and shown.
    """
    macros = part.macros_around()
    try:
        evaluate = compile_node(parse_expression(part.over_entries(macros)))
    except ExpressionError:
        return None, 0
    cost = CostTracker()
    cost.operations = _MOST_OPERATIONS
    draw = _Draw(part.tree)
    reads: Reads = [
        (root, name, scoped_schema(schema)) for root, name, schema in json.loads(part.reads)
    ]
    seen = set[str]()
    count = held = failed = 0
    while held < _MOST_TRIALS:
        if cost.operations < 0 or cost.iterations < 0:
            if held <= _LEAST_TRIALS:
                return None, held
            break
        held += 1
        draw.begin()
        variables = draw.variables(reads)
        if draw.count > _MOST_DRAWN:
            # Of what takes so long no further part is tried often.
            return None, _MOST_TRIALS
        scope = EvaluationScope(variables, draw.instant(), cost, MembershipIndex())
        try:
            values = [result_of(evaluate(scope), cost)]
        except (ExpressionError, RecursionError):
            failed += 1
            continue
        for _ in macros:
            values = [entry for entries in values for entry in _as_entries(entries)]
        seen.update(map(_compared, values))
        if len(seen) > 1:
            return None, held
        count += len(values)
    is_tried = count >= _MIN_VALUES and failed <= held * _MOST_FAILED
    return (seen.pop() if is_tried else None), held


class _Draw:
    """Draws values of types, half of them near to what is written in an expression."""

    def __init__(self, tree: ExpressionNode) -> None:
        nodes = [*all_nodes(tree)]
        calls = {node.function for node in nodes if isinstance(node, FunctionCall)}
        # The year of a date may be compared with one that is read.
        figures = [*_figures(nodes), *([_ANY_YEAR] if "getFullYear" in calls else [])]
        literals = [node.value for node in nodes if isinstance(node, LiteralValue)]
        texts = [value for value in literals if isinstance(value, str)]
        self._random = random.Random(0)  # noqa: S311 - the same trials each time, no secret
        self._figures = [*dict.fromkeys(filter(math.isfinite, _near_figures(figures)))]
        self._texts = [*dict.fromkeys(_near_texts(figures, texts))]
        self._dates = [*filter(_DAY.match, self._texts)] if "timestamp" in calls else []
        self._dates_asked_for = list[str]()
        self._dates_by_the_clock = dict[dt.datetime, list[str]]()
        if "now" in calls:
            years = [float(instant.year) for instant in _INSTANTS]
            self._dates_asked_for = [*_dates_of_parts([*figures, *years], texts)]
            self._dates_by_the_clock = {
                instant: [*_dates_near(instant, texts)] for instant in _INSTANTS
            }
        elif calls & _CALLS_ON_DATES:
            self._dates_asked_for = [*_dates_apart(texts)] or [*_dates_of_parts(figures, texts)]
        self._range = min((0.0, *figures)), max((1.0, *figures))
        self._compared = _compared_values(nodes)
        self._written_figures = figures
        self._written_texts = texts
        self._written: dict[str, list[Json]] = {"number": [*figures], "string": [*texts]}
        self._names = [*dict.fromkeys(_fields(nodes))]
        # As in `rates[r.currency]`; equal texts are then a key of an object and what says which.
        self._looks_up = any(
            isinstance(node, Index) and not isinstance(node.key, LiteralValue) for node in nodes
        )
        self._may_lack = any(isinstance(node, Has) for node in nodes)
        self._kinds = dict(_kinds_by_use(nodes))
        self._counterparts = dict(_counterparts(nodes))
        self._typed_kinds = dict[str, str]()
        self._views = dict[tuple[int, int], tuple[ScopedSchema, SchemaView]]()
        self._figure: float | None = None
        self._text: str | None = None
        self._scalar: str | None = None
        self.count = 0
        """Values that were drawn so far; beyond the most of them all are null."""
        self._is_compared = False
        self._unlike = 0.0
        self._instant = _INSTANTS[0]

    def begin(self) -> None:
        """Begin a trial: in every third all figures are the same, and all texts; in every second a
        field has what it is compared with; and in most all values of open types are of one kind, so
        that they can be compared.
        """
        self._instant = self._random.choice(_INSTANTS)
        self._figure = self._text = None
        self._figure = self._random.choice(self._figures) if self._happens(1 / 3) else None
        self._text = self._drawn_text("") if self._happens(1 / 3) else None
        self._is_compared = self._happens(1 / 2)
        # Of many fields in one condition, one that is unlike would decide it in every trial.
        self._unlike = self._random.choice((0.0, 1 / 8))
        self._scalar = self._scalar_kind() if self._happens(7 / 8) else None

    def variables(self, reads: Reads) -> dict[str, Json]:
        """Return values for all that an expression reads."""
        fields: dict[str, dict[str, Json]] = {root: {} for root in _ROOTS_OF_FIELDS}
        roots: dict[str, Json] = {}
        for root, name, place in reads:
            if name is None:
                roots[root] = self.value(place, root)
            elif not self.lacks():
                fields[root][name] = self.value(place, f"{root}.{name}")
        return {**roots, **fields}

    def instant(self) -> dt.datetime:
        """Return what `now()` gives in this trial."""
        return self._instant

    def lacks(self) -> bool:
        """Whether a value is left out, where the expression asks what is there."""
        return self._may_lack and self._happens(1 / 4)

    def value(self, place: ScopedSchema, name: str, depth: int = 0) -> Json:
        """Return a value of a type, that of a field or root with a name."""
        self.count += 1
        if self.count > _MOST_DRAWN:
            return None
        view = self._view(place)
        if view.kind == "union":
            view = self._random.choice(view.branches)
        kind = self._open_kind(name) if view.kind == "open" else view.kind
        if view.kind != "open":
            self._typed_kinds[name] = kind
        is_too_deep = depth > _MAX_DEPTH and kind in {"array", "object"}
        if kind == "null" or is_too_deep or (view.nullable and self._happens(self._unlike)):
            return None
        match kind:
            case "boolean":
                return self._happens(1 / 2)
            case "integer":
                return int(self._drawn_figure(name))
            case "number":
                return self._drawn_figure(name)
            case "array":
                return self._entries(element_schema(view) or OPEN, f"{name}[]", depth)
            case "object":
                return self._object(view, depth)
            case _:
                return self._drawn_text(name)

    def _view(self, place: ScopedSchema) -> SchemaView:
        """Return the view of a schema; the same schemas come in every trial, so each is read once."""
        schema, root = place
        key = id(schema), id(root)
        known = self._views.get(key)
        if known is None:
            # It holds the schemas: while they are here, no others have their numbers.
            known = self._views[key] = place, view_schema(place)
        return known[1]

    def _open_kind(self, name: str) -> str:
        """Return the kind of a value of which nothing is known but how it is read."""
        if name in self._kinds:
            return self._kinds[name]
        counterpart = self._counterparts.get(name)
        if counterpart in self._typed_kinds:
            return self._typed_kinds[counterpart]
        return self._scalar_kind() if self._scalar is None else self._scalar

    def _scalar_kind(self) -> str:
        """Return a kind of value without parts, rather one that is written."""
        known = [kind for kind, written in self._written.items() if written]
        if known and self._happens(1 / 2):
            return self._random.choice(known)
        return self._random.choice(("number", "integer", "string", "boolean"))

    def _entries(self, entry: ScopedSchema, name: str, depth: int) -> list[Json]:
        kind = self._view(entry).kind
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
        if isinstance(view.schema.get("additionalProperties"), dict):
            # Only the data knows the keys, so none has to be there.
            names = [key for key in (*names, *self._written_texts) if self._happens(3 / 4)]
        if self._looks_up and not known and self._text is not None:
            names.append(self._text)
        return {
            name: self.value(field_schema(view, name) or OPEN, name, depth + 1)
            for name in names
            if not self.lacks()
        }

    def _drawn_figure(self, name: str) -> float:
        compared = self._compared_with(name, float)
        if compared:
            return self._random.choice(compared)
        if self._figure is not None:
            return self._figure
        written = self._written_figures
        if written and self._is_compared and self._happens(1 / 2):
            return self._random.choice(written)
        is_any = self._happens(1 / 8)
        return self._random.uniform(*self._range) if is_any else self._random.choice(self._figures)

    def _drawn_text(self, name: str) -> str:
        compared = self._compared_with(name, str)
        if compared:
            return self._random.choice(compared)
        if self._text is not None:
            return self._text
        dates_near = self._dates_by_the_clock.get(self._instant)
        if dates_near and self._happens(1 / 2):
            return self._random.choice(dates_near)
        if self._dates and self._happens(1 / 2):
            return self._random.choice(self._dates)
        if self._dates_asked_for and self._happens(1 / 2):
            return self._random.choice(self._dates_asked_for)
        written = self._written_texts
        if written and self._is_compared and self._happens(1 / 2):
            return self._random.choice(written)
        if not written or self._happens(1 / 2):
            return self._random.choice(self._texts)
        # One that is written, or some in a row, as a text holds them that is searched or split.
        figures = (f"{figure:g}" for figure in self._figures)
        parts = (*written, *written, *figures, "a", "")
        return "".join(self._random.choices(parts, k=self._random.randint(1, _MOST_ENTRIES)))

    def _compared_with(self, name: str, kind: type[_Scalar]) -> list[_Scalar]:
        """Return what a field is compared with, if this trial has it so, as most do of some."""
        if not self._is_compared or self._happens(self._unlike):
            return []
        return [value for value in self._compared.get(name, ()) if isinstance(value, kind)]

    def _happens(self, share: float) -> bool:
        return self._random.random() < share


def _makes_entries(macro: Macro) -> bool:
    """Whether a list that a macro gives has an entry for each entry of another one."""
    return macro.function in {"map", "transformList"} and len(macro.arguments) == 1


def _can_be_tried(node: ExpressionNode) -> bool:
    """Whether values near to what is written may turn the outcome: not of a regular expression, nor of
    a size that no list of a trial has.
    """
    calls = functions_in(node)
    if "matches" in calls:
        return False
    is_beyond = any(figure >= _MOST_ENTRIES for figure in _figures(all_nodes(node)))
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
        # All others as the parts of a text that is split.
        yield text.join(other for other in written if other != text)
    yield from _DATES
    for figure in (*range(4), *figures):
        yield f"{figure:g}"
        yield f"{figure * 10:g}"
        if figure in _YEARS:
            yield f"{figure:.0f}-07-08"
    for day in filter(_DAY.match, written):
        yield from (f"{int(day[:4]) - 1}{day[4:]}", f"{int(day[:4]) + 1}{day[4:]}")


_DAY: Final = re.compile(r"\d{4}-\d\d")


def _dates_of_parts(figures: list[float], texts: list[str]) -> Iterator[str]:
    """Yield dates and times whose parts are figures that are written: years, months, days, hours."""
    in_texts = (int(digits) for text in texts for digits in re.findall(r"\d{1,4}", text))
    whole = {*in_texts, *(int(figure) for figure in figures if figure.is_integer())}
    years = sorted(whole.intersection(_YEARS)) or [int(_ANY_YEAR)]
    small = sorted(whole.intersection(range(_MINUTES)))
    days = [day for day in small if 1 <= day <= _DAYS_OF_A_MONTH] or [1]
    for year, month, day in itertools.product(years, range(1, 13), days):
        if day <= calendar.monthrange(year, month)[1]:
            yield f"{year}-{month:02}-{day:02}"
    for day, hour, minute in itertools.product(range(1, 8), small, small):
        yield f"{years[0]}-01-{day:02}T{hour % 24:02}:{minute:02}:00Z"
    for day in whole.intersection(range(_DAYS_OF_A_YEAR)):
        yield f"{dt.date(years[0], 1, 1) + dt.timedelta(day)}"  # as getDayOfYear() counts, from 0


def _dates_apart(texts: list[str]) -> Iterator[str]:
    """Yield dates that lie apart by what is written as a duration, or by a half more."""
    for seconds in _durations(texts):
        for part in (0.0, 1.0, 1.5):
            yield (_INSTANTS[1] + dt.timedelta(seconds=seconds * part)).isoformat()


def _dates_near(instant: dt.datetime, texts: list[str]) -> Iterator[str]:
    """Yield the day of an instant, and days before and after it by what is written as a duration, each
    also with times of day.
    """
    parts = [seconds * part for seconds in _durations(texts) for part in (-1.5, -1.0, 1.0, 1.5)]
    for seconds in (0.0, *parts):
        day = f"{instant + dt.timedelta(seconds=seconds):%Y-%m-%d}"
        yield from (day, f"{day}T08:09:10Z", f"{day}T18:40:50Z")


def _durations(texts: list[str]) -> Iterator[float]:
    """Yield the seconds of what is written as a duration."""
    for text in texts:
        if re.fullmatch(DURATION_PATTERN, text):
            seconds = parse_duration(text)
            if isinstance(seconds, float) and seconds < _LONGEST_APART:
                yield seconds


def _compared_values(nodes: list[ExpressionNode]) -> dict[str, list[float | str]]:
    """Return the figures and texts with which fields and roots are compared, by name.

    Of a text that is searched it is one that holds all that is searched for.
    """
    entries_of = {
        variable: f"{_name_of(node.range)}[]"
        for node in nodes
        if isinstance(node, Macro)
        for variable in node.variables
    }
    compared = dict[str, list[float | str]]()
    searched = dict[str, list[tuple[int, list[float | str]]]]()

    def note(part: ExpressionNode, *others: ExpressionNode) -> None:
        name = _name_of(part)
        for other in map(_without_timestamp, others):
            for value in _values_at_instants(other):
                compared.setdefault(entries_of.get(name, name), []).append(value)

    for node in nodes:
        match node:
            case Binary(operator="in", right=ListLiteral(items=items)):
                note(node.left, *items)
            case Binary() if node.operator in _COMPARISONS:
                note(node.left, node.right)
                note(node.right, node.left)
            case FunctionCall(target=target, arguments=(argument,)) if (
                target is not None and node.function in _PLACES_SEARCHED
            ):
                name = _name_of(target)
                place = _PLACES_SEARCHED.index(node.function), _values_at_instants(argument)
                searched.setdefault(entries_of.get(name, name), []).append(place)
            case _:
                pass
    for name, places in searched.items():
        in_order = [texts for _, texts in sorted(places, key=lambda place: place[0])]
        for texts in zip(*in_order, strict=False):
            compared.setdefault(name, []).append("".join(map(str, texts)))
    return {name: [*dict.fromkeys(_with_near(values))] for name, values in compared.items()}


def _values_at_instants(node: ExpressionNode) -> list[float | str]:
    """Return the figures or texts that a part comes to at each instant of the trials, where it reads
    the clock alone, as `format(now(), '%Y')` does, or nothing, as what is written.
    """
    if any(isinstance(part, Identifier | Macro) for part in all_nodes(node)):
        return []
    values: list[float | str] = []
    for instant in _INSTANTS:
        cost = CostTracker()
        try:
            evaluate = compile_node(node)
            value = result_of(evaluate(EvaluationScope({}, instant, cost, MembershipIndex())), cost)
        except ExpressionError:
            return []
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return []
        values.append(value if isinstance(value, str) else float(value))
    return values


def _without_timestamp(node: ExpressionNode) -> ExpressionNode:
    """Return the text that is made a time, or else the node."""
    match node:
        case FunctionCall(function="timestamp", target=None, arguments=(argument,)):
            return argument
        case _:
            return node


def _with_near(values: list[float | str]) -> Iterator[float | str]:
    """Yield values with some that lie between them, and whole days of what is a part of a date."""
    yield from values
    instants = sorted(_instants(values))
    for early, late in pairwise(instants):
        yield (early + (late - early) / 2).isoformat()
    figures = sorted(value for value in values if isinstance(value, float))
    for low, high in pairwise(figures):
        yield (low + high) / 2
    for value in values:
        if isinstance(value, str) and _DAY.match(value):
            yield f"{value}-06"[:10] + "T07:08:09Z"
        elif isinstance(value, str) and (day := _DAY_FIRST.fullmatch(value)):
            yield f"{day[3]}-{day[2]}-{day[1]}"


def _instants(values: list[float | str]) -> Iterator[dt.datetime]:
    """Yield the days and times that are written."""
    for value in values:
        if isinstance(value, str) and _DAY.match(value):
            try:
                instant = dt.datetime.fromisoformat(value)
            except ValueError:
                continue
            yield instant if instant.tzinfo is not None else instant.replace(tzinfo=dt.UTC)


_DAY_FIRST: Final = re.compile(r"(\d\d)[./](\d\d)[./](\d{4})")


def _fields(nodes: list[ExpressionNode]) -> Iterator[str]:
    """Yield the names of fields that are read."""
    for node in nodes:
        if isinstance(node, Select) and _name_of(node.operand) not in _ROOTS_OF_FIELDS:
            yield node.field


def _kinds_by_use(nodes: list[ExpressionNode]) -> Iterator[tuple[str, str]]:
    """Yield the kind as which fields and roots are read, by name; the entries of a list `rows` are
    `rows[]`.
    """
    macros = [node for node in nodes if isinstance(node, Macro)]
    places = {macro.variables[0] for macro in macros if _gives_places(macro)}
    for node in nodes:
        match node:
            case Select():
                yield _name_of(node.operand), "object"
            case Index(operand=operand, key=key):
                yield _name_of(operand), "array" if _is_place(key, places) else "object"
            case FunctionCall():
                kind = _KINDS_READ.get(node.function)
                of = node.arguments[:1] if node.target is None else (node.target,)
                yield from ((_name_of(part), kind) for part in of if kind is not None)
            case Binary(operator="in", right=ListLiteral(items=(LiteralValue() as first, *_))):
                yield from _kind_of_compared(node.left, first)
            case Binary(operator="in"):
                yield _name_of(node.right), "array"
            case Binary(operator="*" | "/"):
                sides = (node.left, node.right)
                yield from (
                    (_name_of(side), "number") for side in sides if isinstance(side, Select)
                )
            case Binary():
                yield from _kind_of_compared(node.left, node.right)
                yield from _kind_of_compared(node.right, node.left)
            case Macro() if node.function != "bind":
                name = _name_of(node.range)
                yield name, "array"
                inside = (part for body in node.arguments for part in all_nodes(body))
                read = {_name_of(part.operand) for part in inside if isinstance(part, Select)}
                if node.variables[-1] in read:
                    yield f"{name}[]", "object"
            case _:
                pass


def _gives_places(macro: Macro) -> bool:
    """Whether the first name of a macro is that of places in a list."""
    over = macro.range
    is_range = isinstance(over, FunctionCall) and over.function == "lists.range"
    return is_range or (macro.function == "transformList" and len(macro.variables) > 1)


def _is_place(key: ExpressionNode, places: Collection[str]) -> bool:
    """Whether a key is a position in a list, and no name that an object has."""
    match key:
        case LiteralValue(value=value):
            return not isinstance(value, str)
        case Identifier(name=name):
            return name in places
        case Binary():
            return True
        case _:
            return False


def _counterparts(nodes: list[ExpressionNode]) -> Iterator[tuple[str, str]]:
    """Yield the names of what is compared with each other, as in `r.town == inputs.town`."""
    for node in nodes:
        if isinstance(node, Binary) and node.operator in _COMPARISONS:
            left, right = _name_of(node.left), _name_of(node.right)
            yield from ((left, right), (right, left))


def _kind_of_compared(part: ExpressionNode, other: ExpressionNode) -> Iterator[tuple[str, str]]:
    if isinstance(other, ListLiteral):
        yield _name_of(part), "array"
    elif isinstance(other, LiteralValue) and other.kind != "null":
        yield _name_of(part), _KINDS_WRITTEN[other.kind]
    elif values := _values_at_instants(other):
        yield _name_of(part), "string" if isinstance(values[0], str) else "number"


def _name_of(node: ExpressionNode) -> str:
    """Return the name of the field or root that a part is made of; nothing where it has none. A step
    is `steps.total`, which may have a field `total`.
    """
    match node:
        case Select(operand=Identifier(name=root), field=field) if root in _ROOTS_OF_FIELDS:
            return f"{root}.{field}"
        case Select(field=field):
            return field
        case Identifier(name=name):
            return name
        case Index(operand=operand):
            return f"{_name_of(operand)}[]"
        case FunctionCall(target=target) if target is not None:
            return _name_of(target)
        case FunctionCall(function="timestamp", arguments=(argument,)):
            return _name_of(argument)
        case Macro(range=over):
            return _name_of(over)
        case _:
            return ""


def _roots(tree: ExpressionNode) -> Iterator[tuple[str, str | None]]:
    """Yield the roots that an expression reads, each with the name right below it."""
    below = set[int]()
    for node in all_nodes(tree):
        if isinstance(node, Select):
            if isinstance(node.operand, Identifier):
                below.add(node.operand.start)
                yield node.operand.name, node.field
        elif isinstance(node, Identifier) and node.start not in below:
            yield node.name, None


def _compared(value: Json) -> str:
    """Return a text that is the same for equal values, as 0 and 0.0 are."""
    if isinstance(value, int) and not isinstance(value, bool):
        return json.dumps(float(value))
    return json.dumps(value, sort_keys=True)


def _as_entries(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [value]
