"""What untrusted text decides of a value.

The *influence* on a value is how much of it somebody outside chose: nothing, which of some trusted
values it is (`CHOICE`), one of a few numbers (`RANGE`), a date or time (`DATE`), a number
(`NUMBER`), or its text (`TEXT`). A list, an object or a text that is put together of many small
parts can spell anything, so parts are counted in bits: beyond `MAX_BITS` they are text.

The rules are those of `docs/explanation/trust.md`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import reduce
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from wavewright.planner.schemas.views import (
    SchemaView,
    ScopedSchema,
    allowed_values,
    element_schema,
    field_schema,
    field_schemas,
    subschema,
    view_schema,
)

MAX_BITS: Final = 64
"""Bits of numbers, dates and joined choices that one call may take from untrusted text."""
NUMBER_BITS: Final = 64
"""Bits of a number of which no bounds are known."""
DATE_BITS: Final = 22
"""Bits of a day between the years 0 and 9999."""
TIME_BITS: Final = 17
"""Bits of a second of a day."""
CHOICE_BITS: Final = 10
"""Bits of a choice among trusted values of which it is not known how many there are."""
_MAX_DEPTH: Final = 12
_FEW: Final = 1024
"""A number between bounds that are no further apart is in a range."""
_DATES: Final = {
    r"^\d{4}-\d{2}-\d{2}$": DATE_BITS,
    r"^\d{4}-\d{2}$": DATE_BITS,
    r"^\d{2}:\d{2}$": TIME_BITS,
    r"^\d{2}:\d{2}:\d{2}$": TIME_BITS,
    **{
        rf"^\d{{4}}-\d{{2}}-\d{{2}}{between}\d{{2}}:\d{{2}}{seconds}{zone}$": DATE_BITS + TIME_BITS
        for between in ("T", " ", "[T ]")
        for seconds in ("", r":\d{2}", r"(:\d{2})?", r"(?::\d{2})?")
        for zone in ("", "Z", "Z?")
    },
}
"""Patterns of dates and times, and how many bits they hold; no other pattern is safe, for an account
number of somebody else's has the form of one, too.
"""
_DIGIT_CLASS: Final = re.compile(r"\[0-9\]|\[\\d\]")
_REPEATED_DIGIT: Final = re.compile(r"(?:\\d){2,4}(?!\{)")


class Level(IntEnum):
    """How much of a value untrusted text decides."""

    NOTHING = 0
    CHOICE = 1
    RANGE = 2
    """A number between close bounds. It counts as a choice, except where it names a destination:
    nobody who is trusted has listed these numbers.
    """
    DATE = 3
    NUMBER = 4
    TEXT = 5


Bits: TypeAlias = Mapping[str, float]
"""How many bits, by what they come from: a choice, or a value that is read at one place. What is not
known to be another's stands under `_UNKNOWN`.
"""
_UNKNOWN: Final = ""
_NO_BITS: Final[Bits] = {}


class Influence(NamedTuple):
    """What untrusted text decides of one value."""

    level: Level = Level.NOTHING
    choices: Bits = _NO_BITS
    """What it chooses among trusted values, or of numbers between close bounds."""
    numbers: Bits = _NO_BITS
    """What it decides of numbers, dates and text."""
    origin: str = ""
    """The step whose output brings it, or the input (`inputs.NAME`)."""

    def __bool__(self) -> bool:
        """Whether it decides anything."""
        return self.level > Level.NOTHING

    @property
    def bits(self) -> float:
        """How many bits it decides."""
        return sum(self.choices.values()) + sum(self.numbers.values())

    @property
    def is_known(self) -> bool:
        """Whether it is known what all of it comes from."""
        return _UNKNOWN not in self.choices and _UNKNOWN not in self.numbers

    def of_choices(self) -> Influence:
        """Return the part of the influence that chooses among values."""
        return (
            Influence(Level.CHOICE, self.choices, origin=self.origin) if self.choices else NOTHING
        )

    def coming_from(self, source: str) -> Influence:
        """Return the influence as one that comes from one choice, or one place that is read."""
        return self._replace(
            choices=_coming_from(source, self.choices), numbers=_coming_from(source, self.numbers)
        )

    def apart(self) -> Influence:
        """Return the influence as one that comes from nothing else that is counted."""
        return self.coming_from(_UNKNOWN)


def _coming_from(source: str, bits: Bits) -> Bits:
    return {source: sum(bits.values())} if bits else bits


NOTHING: Final = Influence()


def influence(level: Level, bits: float, origin: str = "") -> Influence:
    """Return the influence of so many bits of one level."""
    counted = {_UNKNOWN: bits}
    if level <= Level.RANGE:
        return Influence(level, choices=counted, origin=origin)
    return Influence(level, numbers=counted, origin=origin)


def choice(origin: str, among: int | None = None) -> Influence:
    """Return the influence of a choice among so many trusted values."""
    bits = CHOICE_BITS if among is None else math.log2(max(among, 2))
    return influence(Level.CHOICE, bits, origin)


def selection(by: Influence, among: int | None) -> Influence:
    """Return the influence on which of so many trusted values are kept: of each, whether it is."""
    bits = CHOICE_BITS if among is None else max(among, 1)
    return influence(Level.CHOICE, bits, by.origin) if by else NOTHING


def order(by: Influence, among: int | None) -> Influence:
    """Return the influence on the order of so many trusted values."""
    bits = CHOICE_BITS if among is None else math.lgamma(among + 1) / math.log(2)
    return influence(Level.CHOICE, max(bits, 1.0), by.origin) if by else NOTHING


def text(origin: str) -> Influence:
    """Return the influence of text."""
    return influence(Level.TEXT, math.inf, origin)


def number(origin: str, bits: float = NUMBER_BITS) -> Influence:
    """Return the influence of a number."""
    return influence(Level.NUMBER, bits, origin)


def in_range(origin: str, count: int) -> Influence:
    """Return the influence of a number that is one of a few."""
    return influence(Level.RANGE, math.log2(max(count, 2)), origin)


def stronger(*influences: Influence) -> Influence:
    """Return the influence on a value that is one of several: that of the worst of them."""
    worst = max(influences, key=lambda part: (part.level, part.bits), default=NOTHING)
    return worst._replace(
        choices=_most(part.choices for part in influences),
        numbers=_most(part.numbers for part in influences),
    )


def _most(several: Iterable[Bits]) -> Bits:
    """Return the most of several bits. They come from the same only where all of them do."""
    parts = [bits for bits in several if bits]
    most = max(parts, key=lambda bits: sum(bits.values()), default=_NO_BITS)
    is_of_one = all(bits.keys() == most.keys() for bits in parts)
    return most if is_of_one else _coming_from(_UNKNOWN, most)


def _sum(several: Iterable[Bits]) -> Bits:
    """Return all of several bits: those that come from the same count once."""
    total = dict[str, float]()
    for bits in several:
        for source, count in bits.items():
            before = total.get(source, 0.0)
            total[source] = before + count if source == _UNKNOWN else max(before, count)
    return total


def together(influences: Iterable[Influence]) -> Influence:
    """Return the influence on values that stand side by side, in one call, one list or one text.

    Numbers and dates add up, and so do choices, which spell a text where they have the bits for it,
    as letters do. What comes from one choice, or is read at one place, counts once.
    """
    parts = [part for part in influences if part]
    whole = stronger(*parts)._replace(
        choices=_sum(part.choices for part in parts), numbers=_sum(part.numbers for part in parts)
    )
    most = max(sum(whole.choices.values()), sum(whole.numbers.values()))
    return text(whole.origin) if most > MAX_BITS else whole


def compounded(*influences: Influence) -> Influence:
    """Return the influence on one value of which several things are chosen apart from each other,
    such as which list it is from and which element of it: so many ways times so many. However it
    comes about, a number is one.
    """
    return stronger(*influences)._replace(choices=_sum(part.choices for part in influences))


_DATE_MARKS: Final = re.compile(r"(?:[-T:Z .,/]|:?00|[+-]\d\d:\d\d)*")
"""Constant parts of a text that is a date: separators, whole hours and offsets."""


def joined(parts: Sequence[Influence | str]) -> Influence:
    """Return the influence on a text that is put together of parts; a constant part is a text.

    Choices stay a choice, dates and times stay a date between the marks of dates. A number in a
    text is text: it can be an account or a telephone number, and so can parts of dates that no mark
    parts.
    """
    parts = [part for part in parts if part != ""]
    dynamic = [part for part in parts if isinstance(part, Influence)]
    constant = "".join(part for part in parts if isinstance(part, str))
    whole = together(dynamic)
    match whole.level:
        case Level.NUMBER:
            is_text = len(dynamic) > 1 or constant != ""
        case Level.DATE:
            is_date = _DATE_MARKS.fullmatch(constant) is not None and all(dynamic)
            is_text = not is_date or any(map(_are_dates, pairwise(parts)))
        case _:
            is_text = False
    return text(whole.origin) if is_text else whole


def _are_dates(neighbours: tuple[Influence | str, Influence | str]) -> bool:
    return all(isinstance(part, Influence) and part.level is Level.DATE for part in neighbours)


def limited(whole: Influence, most: Influence) -> Influence:
    """Return the influence on a value of a type that can take so much at most."""
    if (most.level, most.bits) >= (whole.level, whole.bits):
        return whole
    # A part of what a choice decides is not the same as another part of it.
    return most.apart()._replace(origin=whole.origin)


def capacity(place: ScopedSchema, depth: int = 0) -> Influence:
    """Return the most that untrusted text can decide of a value of a schema."""
    if depth > _MAX_DEPTH:
        return text("")
    return _view_capacity(view_schema(place), depth)


def _view_capacity(view: SchemaView, depth: int) -> Influence:
    values = allowed_values(view.schema)
    if values is not None:
        return choice("", len(values))
    if view.branches:
        return stronger(*(_view_capacity(branch, depth + 1) for branch in view.branches))
    match view.kind:
        case "null" | "boolean":
            return choice("", 2)
        case "integer" | "number":
            return _number_capacity(view)
        case "timestamp":
            return influence(Level.DATE, DATE_BITS + TIME_BITS)
        case "duration":
            return number("")
        case "string":
            return _text_capacity(view)
        case "array":
            return _list_capacity(view, depth)
        case "object":
            return _object_capacity(view, depth)
        case _:
            return text("")


def _number_capacity(view: SchemaView) -> Influence:
    least, most = view.schema.get("minimum"), view.schema.get("maximum")
    if view.kind == "integer" and isinstance(least, int) and isinstance(most, int):
        count = max(most - least + 1, 2)
        if count <= _FEW:
            return in_range("", count)
        return number("", min(math.log2(count), 64))
    return number("")


def _text_capacity(view: SchemaView) -> Influence:
    pattern = view.schema.get("pattern")
    bits = date_bits(pattern) if isinstance(pattern, str) else None
    return text("") if bits is None else influence(Level.DATE, bits)


def date_bits(pattern: str) -> float | None:
    """Return how many bits a pattern of a date or time admits; nothing where it is no such pattern."""
    plain = _DIGIT_CLASS.sub(r"\\d", pattern)
    plain = _REPEATED_DIGIT.sub(lambda digits: rf"\d{{{len(digits[0]) // 2}}}", plain)
    return _DATES.get(plain)


def _list_capacity(view: SchemaView, depth: int) -> Influence:
    most = view.schema.get("maxItems")
    first = view.schema.get("prefixItems")
    elements = element_schema(view)
    if "type" not in view.schema or isinstance(first, list) or elements is None:
        return text("")
    if most == 0:
        return NOTHING
    if not isinstance(most, int) or most > MAX_BITS:
        return text("")
    return together([capacity(elements, depth + 1)] * most)


def _object_capacity(view: SchemaView, depth: int) -> Influence:
    if not has_fixed_keys(view):
        return text("")
    fields = field_schemas(view).values()
    return together(capacity(subschema(part, view.root), depth + 1) for part in fields)


def has_fixed_keys(view: SchemaView) -> bool:
    """Whether an object of a schema has keys that the schema names, and no others."""
    return (
        "type" in view.schema
        and view.schema.get("additionalProperties") is False
        and "patternProperties" not in view.schema
    )


@dataclass(frozen=True, slots=True)
class Value:
    """What untrusted text decides of a value and of its parts, as far as they are known.

    At most one of `fields`, `items` and `elements` is there; a value without them is read by
    `place`.
    """

    influence: Influence = NOTHING
    """On the value, and on each part of it that is not known by itself."""
    place: ScopedSchema | None = None
    """What is known of its type."""
    names: frozenset[str] | None = None
    """The only fields, at any depth, that hold untrusted text; all of it may where absent."""
    floor: Influence = NOTHING
    """On the value as a whole, whatever it holds: that it is this one of several."""
    shape: Influence = NOTHING
    """On how many elements there are, and which keys."""
    fields: Mapping[str, Value] | None = None
    """Of an object."""
    items: tuple[Value, ...] | None = None
    """Of a list of known length."""
    elements: Value | None = None
    """Each element of a list."""
    size: int | None = None
    """The most elements that there can be, where that is known."""
    known: Mapping[str, Value] | None = None
    """Fields of which more is known than of the value, such as those that a condition has compared."""
    is_text: bool = False
    """Whether it is a string."""
    weight: int = 1
    """Parts that are known one by one, their parts included."""

    @property
    def has_elements(self) -> bool:
        """Whether it is a list of which the elements are known apart from it."""
        return self.items is not None or self.elements is not None

    @property
    def is_list(self) -> bool:
        """Whether it is a list, as far as that is known."""
        return self.has_elements or (
            self.place is not None and view_schema(self.place).kind == "array"
        )

    def most(self) -> int | None:
        """Return how many elements or fields there are at most, where that is known."""
        parts = self.items if self.fields is None else self.fields
        return self.size if parts is None else len(parts)

    def field(self, name: str) -> Value:
        """Return what is known of a field."""
        if self.fields is not None:
            part = self.fields.get(name)
            if part is None:
                # Whether there is such a key is all that is known of it.
                return Value(self.shape, floor=self.floor)
            return self._part(part)
        if self.has_elements:
            return Value(self.total())
        if self.known is not None and name in self.known:
            return self._part(self.known[name])
        place = None if self.place is None else field_schema(view_schema(self.place), name)
        names = None if name in (self.names or ()) else self.names
        return self._read_by(place, names)

    def element(self, number: int | None = None) -> Value:
        """Return what is known of an element, or of the one at a place; of an object, of a value."""
        if self.fields is not None:
            return self._part(either([*self.fields.values()]))
        if self.items is not None:
            if number is not None and -1 < number < len(self.items):
                return self._part(self.items[number])
            return self._part(either(self.items))
        if self.elements is not None:
            return self._part(self.elements.apart())
        view = None if self.place is None else view_schema(self.place)
        place = None if view is None else self._element_place(view, number)
        # A key that is computed may be that of a field which holds untrusted text.
        is_element = number is not None or (view is not None and view.kind == "array")
        return self._read_by(place, self.names if is_element else None)

    def _read_by(self, place: ScopedSchema | None, names: frozenset[str] | None) -> Value:
        """Return a part of which no more is known than its type."""
        return replace(self, place=place, names=names, known=None, is_text=is_text(place))

    @staticmethod
    def _element_place(view: SchemaView, number: int | None) -> ScopedSchema | None:
        if view.kind == "array":
            return element_schema(view, number)
        rest = view.schema.get("additionalProperties")
        if view.kind == "object" and isinstance(rest, dict) and not field_schemas(view):
            return subschema(rest, view.root)
        return None

    def key(self) -> Value:
        """Return what is known of a key of an object, or of what a macro goes over in it."""
        if self.fields is not None:
            return Value(self.shape, floor=self.floor, is_text=True)
        if self.has_elements:
            return self.element()
        view = None if self.place is None else view_schema(self.place)
        if view is not None and view.kind == "array":
            return self.element()
        if view is not None and view.kind == "object":
            keys = NOTHING if has_fixed_keys(view) else self.own()
            return Value(keys, floor=self.floor, is_text=True)
        return self._read_by(None, self.names)

    def count(self) -> Influence:
        """Return the influence on how many elements, keys or characters there are."""
        return compounded(self.count_of_this(), self.floor)

    def count_of_this(self) -> Influence:
        """Return the influence on how many there are in this one, were it not one of several."""
        if self.fields is not None or self.elements is not None:
            return self.shape
        if self.items is not None:
            return NOTHING
        if self.place is not None:
            view = view_schema(self.place)
            if view.kind == "object" and has_fixed_keys(view):
                return NOTHING
            if view.kind == "array" and self.influence:
                # Whoever sends messages decides how many there are, whatever fields are his.
                return limited(self.influence, number(""))
        return limited(self.own_of_this(), number(""))

    def own(self) -> Influence:
        """Return the influence on a value of which no parts are known."""
        return compounded(self.own_of_this(), self.floor)

    def own_of_this(self) -> Influence:
        """Return the influence on a value without known parts, were it not one of several."""
        own = self.influence
        if own and self.names is not None and not _can_hold(self.place, self.names):
            return NOTHING
        if own and self.place is not None:
            own = limited(own, capacity(self.place))
        return own

    def total(self) -> Influence:
        """Return the influence on all of the value, given to one parameter as it is."""
        if self.fields is not None:
            parts = together([*(part.total() for part in self.fields.values()), self.shape])
        elif self.items is not None:
            parts = together([*(part.total() for part in self.items), self.shape])
        elif self.elements is not None:
            parts = self._all_elements(self.elements.total())
        else:
            return self.own()
        return compounded(parts, self.floor)

    def _all_elements(self, of_element: Influence) -> Influence:
        if not of_element:
            return self.shape
        if self.size is None:
            # However little each element says, many of them say anything.
            return text(of_element.origin)
        # Each element is chosen apart from the others.
        return together([*[of_element.apart()] * min(self.size, MAX_BITS + 1), self.shape])

    def as_text(self) -> Influence:
        """Return the influence on what the value is as text."""
        whole = self.total()
        if self.elements is not None and whole and not self.elements.total():
            # Trusted parts: which of them there are and in which order, or only how many.
            if whole.level > Level.RANGE:
                return choice(whole.origin)
            return text(whole.origin) if whole.bits > MAX_BITS else whole
        if self.fields is not None and whole.level <= Level.RANGE:
            parts = together([*(part.as_text() for part in self.fields.values()), self.shape])
            return compounded(parts, self.floor)
        has_parts = self.has_elements or self.fields is not None
        if has_parts and whole.level in {Level.DATE, Level.NUMBER}:
            # Numbers in a text are text: they can be an account or a telephone number.
            return text(whole.origin)
        return whole

    def raised(self, floor: Influence) -> Value:
        """Return the value as a part of one that was chosen among several."""
        return replace(self, floor=stronger(self.floor, floor)) if floor else self

    def coming_from(self, source: str) -> Value:
        """Return the value as one that comes from one choice, with all that is read of it."""
        return replace(
            self,
            influence=self.influence.coming_from(source),
            floor=self.floor.coming_from(source),
        )

    def read_at(self, place: str) -> Value:
        """Return the value as the one that stands at a place, which is the same wherever it is read."""
        own, floor = self.own_of_this(), self.floor
        if not floor.is_known:
            floor = floor.coming_from(place)
        # A text stays what it is: each part of it that is read decides something else.
        if own.is_known or own.level is Level.TEXT:
            return replace(self, floor=floor)
        return replace(self, influence=own.coming_from(place), floor=floor)

    def apart(self) -> Value:
        """Return the value as one of several that came about alike: each has been chosen by itself,
        and so have its parts.
        """
        fields, items, elements = self.fields, self.items, self.elements
        return replace(
            self.coming_from(_UNKNOWN),
            fields=None if fields is None else {name: fields[name].apart() for name in fields},
            items=None if items is None else tuple(item.apart() for item in items),
            elements=None if elements is None else elements.apart(),
        )

    def chosen(self, by: Influence) -> Value:
        """Return the value as one that was chosen among several, each of which may be a choice."""
        return replace(self, floor=compounded(self.floor, by)) if by else self

    def with_field(self, path: Sequence[str | int], part: Value) -> Value:
        """Return the value with what is known of a field of it, or of a field within one."""
        if not path:
            return part
        name, *rest = path
        if not isinstance(name, str) or self.has_elements:
            return self
        inner = self.field(name).with_field(rest, part)
        if self.fields is not None:
            return replace(self, fields={**self.fields, name: inner})
        return replace(self, known={**(self.known or {}), name: inner})

    def within(self, place: ScopedSchema) -> Value:
        """Return the value as one that also fits a schema, or is refused."""
        view = view_schema(place)
        if self.fields is not None and view.kind in {"object", "open"}:
            parts = {
                name: part.within(field_schema(view, name) or place)
                for name, part in self.fields.items()
            }
            return replace(self, fields=parts)
        element_place = element_schema(view) if view.kind == "array" else None
        if self.items is not None and element_place is not None:
            items = tuple(item.within(element_place) for item in self.items)
            return replace(self, items=items)
        if self.elements is not None and element_place is not None:
            return replace(self, elements=self.elements.within(element_place))
        whole = self.total()
        return Value(limited(whole, capacity(place)), is_text=self.is_text)

    def _part(self, part: Value) -> Value:
        return part.raised(self.floor)


TRUSTED: Final = Value()
_MAX_WEIGHT: Final = 1000
"""Parts of a value that are followed one by one; a list of lists of itself doubles them."""


def list_of(items: Sequence[Value], floor: Influence = NOTHING) -> Value:
    """Return what is known of a list of these."""
    weight = 1 + sum(item.weight for item in items)
    if weight > _MAX_WEIGHT:
        return Value(together([item.total() for item in items]), floor=floor)
    return Value(items=tuple(items), floor=floor, weight=weight)


def object_of(fields: Mapping[str, Value]) -> Value:
    """Return what is known of an object of these fields."""
    weight = 1 + sum(part.weight for part in fields.values())
    if weight > _MAX_WEIGHT:
        return Value(together([part.total() for part in fields.values()]))
    return Value(fields=fields, weight=weight)


def either(values: Sequence[Value]) -> Value:
    """Return what is known of a value that is one of several."""
    return reduce(_either, values) if values else TRUSTED


def _either(left: Value, right: Value) -> Value:
    if left == right:
        return left
    floor, shape = stronger(left.floor, right.floor), stronger(left.shape, right.shape)
    if left.fields is not None and right.fields is not None:
        names = {**left.fields, **right.fields}
        parts = {name: _either(left.field(name), right.field(name)) for name in names}
        return Value(floor=floor, shape=shape, fields=parts)
    if left.items is not None and right.items is not None and len(left.items) == len(right.items):
        pairs = zip(left.items, right.items, strict=True)
        return Value(floor=floor, shape=shape, items=tuple(_either(*pair) for pair in pairs))
    if left.has_elements and right.has_elements:
        sizes = (left.most(), right.most())
        size = None if None in sizes else max(size for size in sizes if size is not None)
        elements = _either(left.element(), right.element())
        return Value(floor=floor, shape=shape, elements=elements, size=size)
    # A value that nothing outside decides adds nothing to what is known of the other.
    for plain, known in ((left, right), (right, left)):
        if not plain.total():
            return replace(known, floor=floor)
    inner = stronger(*(replace(value, floor=NOTHING).total() for value in (left, right)))
    return Value(inner, floor=floor, is_text=left.is_text or right.is_text)


def is_text(place: ScopedSchema | None) -> bool:
    """Whether a value of a schema is a string."""
    return place is not None and view_schema(place).kind == "string"


def _can_hold(place: ScopedSchema | None, names: frozenset[str], depth: int = 0) -> bool:
    """Whether a value of a schema can have a field of one of these names, at any depth."""
    if place is None or depth > _MAX_DEPTH:
        return True
    view = view_schema(place)
    return any(_branch_can_hold(branch, names, depth) for branch in view.alternatives)


def _branch_can_hold(view: SchemaView, names: frozenset[str], depth: int) -> bool:
    match view.kind:
        case "array":
            elements = element_schema(view)
            return elements is None or _can_hold(elements, names, depth + 1)
        case "object":
            fields = field_schemas(view)
            if not has_fixed_keys(view) or not names.isdisjoint(fields):
                return True
            parts = (subschema(part, view.root) for part in fields.values())
            return any(_can_hold(part, names, depth + 1) for part in parts)
        case "open":
            return True
        case _:
            return False
