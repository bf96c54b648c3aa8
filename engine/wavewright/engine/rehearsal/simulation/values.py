"""Values that a schema allows.

A generator is seeded: the same seed, schemas and order of calls give the same values. Every choice
is made from a list of options, by *mode*: `full` takes the first, so that a value has everything
that may be there, is never null and looks plausible; `sparse` takes the last, so that it has as
little as may be; `mixed` draws one, for schemas that neither extreme fits. What the keywords handled
here cannot express is left to the schema's validator, which every value has passed. Texts for a pattern
that no common text matches are made by Hypothesis, which comes with the extra `testing` and is
loaded for that alone.
"""

from __future__ import annotations

import datetime as dt
import math
import random
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Literal, TypeAlias, TypeVar

from wavewright.config import WavewrightError
from wavewright.engine.rehearsal.simulation.plan_reads import PlanVocabulary
from wavewright.planner import Json, JsonObject, JsonSchema, as_list, validator_of
from wavewright.planner.schemas import views as s
from wavewright.planner.schemas.validation import infer_schema
from wavewright.planner.schemas.views import SchemaView, ScopedSchema, view_schema

_FORMATS = {
    "duration": "PT{number}S",
    "email": "name{number}@example.org",
    "hostname": "host{number}.example.org",
    "ipv4": "192.0.2.{number}",
    "ipv6": "2001:db8::{number}",
    "uuid": "00000000-0000-4000-8000-{number:012d}",
    "uri": "https://example.org/{number}",
}
_COMMON_TEXTS = (
    "a", "b", "A", "B", "1", "2", "10", "0.5", "a1", "A1", "ab", "AB", "abc", "ABC", "ALFA", "a-1", "a_1", "a.b",
    "24h", "1.0", "1.0.0", "#a", "a/b", "a@b.example", "https://example.org/a", "2024-01-01", "0123456789abcdef",
    "00000000-0000-4000-8000-000000000001",
    # Two of each kind: steps that are given the same text make the same call.
    "7d", "2.0.0", "#b", "b/a", "b@a.example", "https://example.org/b", "2024-01-02", "fedcba9876543210",
    "00000000-0000-4000-8000-000000000002",
)  # fmt: skip
_EXAMPLE_COUNT = 6
_ALPHABET = "".join(map(chr, range(32, 127)))


class PatternNeedsExtra(WavewrightError):
    """A pattern of which no text is known here, and Hypothesis is not installed."""


def formatted_text(kind: str, then: dt.datetime, number: int) -> str | None:
    """Return a text of one of JSON Schema's formats, of that time or with that number; none for
    another format.
    """
    match kind:
        case "date":
            return then.date().isoformat()
        case "date-time":
            return then.isoformat(timespec="seconds").replace("+00:00", "Z")
        case "time":
            return then.time().isoformat(timespec="seconds") + "Z"
        case _:
            # A text of ASCII is one of the international format, and an address is a reference.
            plain = kind.removeprefix("idn-").removesuffix("-reference").replace("iri", "uri")
            return _FORMATS[plain].format(number=number) if plain in _FORMATS else None


def texts_of(pattern: str, words: Iterable[str] = ()) -> tuple[str, ...]:
    """Return those of the words that match a pattern, and some texts that do; none where it is no
    pattern of Python's.

    Raises:
        PatternNeedsExtra: only Hypothesis could make one, and it is not installed.
    """
    try:
        compiled = re.compile(pattern)
    except re.error:
        return ()
    common = tuple(text for text in _COMMON_TEXTS if compiled.search(text))
    return (
        *(word for word in words if compiled.search(word)),
        *(common or _generated_texts(compiled)),
    )


@lru_cache(maxsize=256)
def _generated_texts(compiled: re.Pattern[str]) -> tuple[str, ...]:
    try:
        import hypothesis
        from hypothesis import strategies
        from hypothesis.configuration import set_hypothesis_home_dir
        from hypothesis.errors import HypothesisException
    except ModuleNotFoundError as error:
        raise PatternNeedsExtra(compiled.pattern) from error
    examples: list[str] = []
    settings = hypothesis.settings(database=None, deadline=None, phases=[hypothesis.Phase.generate])
    with (
        tempfile.TemporaryDirectory() as folder,
        suppress(HypothesisException, re.error, ValueError),
    ):
        # It writes tables of characters: not into the working folder.
        set_hypothesis_home_dir(folder)
        texts = strategies.from_regex(compiled, fullmatch=True, alphabet=_ALPHABET)
        while len(examples) < _EXAMPLE_COUNT:
            examples.append(
                hypothesis.find(
                    texts,
                    lambda text: text not in examples,
                    settings=settings,
                    random=random.Random(0),  # noqa: S311
                )
            )
    set_hypothesis_home_dir(None)
    return tuple(examples)


GenerationMode: TypeAlias = Literal["full", "sparse", "mixed"]
T = TypeVar("T")
Path: TypeAlias = tuple[str, ...]

_MAX_TRIES = 12
_MAX_NODES = 4_000
"""Of one value; what is made beyond is as small as its schema allows."""
_MAX_DEPTH = 12
_FULL_SIZE = 2
"""Entries of a list of a full value."""
_INTEGER = s.scoped_schema({"type": "integer"})
_FRESH_SECONDS = 3600.0
"""Age of a plausible value."""


class NoValueFound(WavewrightError):
    """No value was found that the schema allows."""


class ValueGenerator:
    """Makes values, one after another."""

    def __init__(self, seed: str, vocabulary: PlanVocabulary) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._vocabulary = vocabulary
        self._time_field: str | None = None
        self._mode: GenerationMode = "full"
        self._nodes = 0

    def make(
        self,
        schema: JsonSchema,
        mode: GenerationMode,
        *,
        time_field: str | None = None,
    ) -> Json:
        """Return a value of the schema.

        Args:
            schema: What the value must fit.
            mode: How it is made.
            time_field: Dotted path of a text that is a time.

        Raises:
            NoValueFound: none was found within some tries.
            PatternNeedsExtra: a pattern needs Hypothesis, which is not installed.
        """
        self._time_field = time_field
        validator = validator_of(schema)
        for number in range(2 * _MAX_TRIES):
            # What a full value breaks, a mixed one may keep.
            value = self._new(schema, mode if number < _MAX_TRIES else "mixed")
            if validator.accepts(value):
                return value
        raise NoValueFound

    def variants(
        self,
        value: Json,
        schema: JsonSchema,
        *,
        time_field: str | None = None,
        focus: frozenset[str] = frozenset(),
    ) -> list[Json]:
        """Return other values of the schema: each differs from this one in one place.

        A place is the value itself where it is no object, or a member whose name is in the focus.
        There it becomes each value that may turn a condition: empty, absent, each choice of an
        `enum`, the constants of the plan and the numbers beside them. A list gets shorter and
        longer, and all its entries change alike, or the first alone.

        Args:
            value: The value to start from.
            schema: What both fit.
            time_field: Dotted path of a text that is a time.
            focus: Names of the members that are changed.

        Raises:
            PatternNeedsExtra: a pattern needs Hypothesis, which is not installed.
        """
        self._time_field = time_field
        validator = validator_of(schema)
        return [
            varied
            for varied in self._variants(value, s.scoped_schema(schema), (), focus)
            if varied != value and validator.accepts(varied)
        ]

    def _variants(
        self, value: Json, place: ScopedSchema, path: Path, focus: frozenset[str]
    ) -> Iterator[Json]:
        whole = view_schema(place)
        is_whole = not path and not isinstance(value, dict)
        if is_whole or (path and path[-1] in focus):
            yield from self._alternatives(value, whole, path)
        for view in whole.branches or (whole,):
            if isinstance(value, dict) and view.kind == "object":
                yield from self._object_variants(value, view, path, focus)
            elif isinstance(value, list) and value and view.kind == "array":
                items = s.subschema(view.schema.get("items", {}), view.root)
                for entry in self._variants(value[0], items, path, focus):
                    yield [entry for _ in value]
                    yield [entry, *value[1:]]

    def _object_variants(
        self, value: JsonObject, view: SchemaView, path: Path, focus: frozenset[str]
    ) -> Iterator[Json]:
        for name in dict.fromkeys((*value, *s.field_schemas(view))):
            part = s.field_schema(view, name) or s.OPEN
            member = value.get(name)
            if name not in value:
                if name not in focus:
                    continue
                member = self._fresh(part, (*path, name))
                yield {**value, name: member}
            for varied in self._variants(member, part, (*path, name), focus):
                yield {**value, name: varied}
        # What is absent may break more than the one condition: it comes last.
        for name in (name for name in value if name in focus):
            yield {key: other for key, other in value.items() if key != name}

    def _fresh(self, place: ScopedSchema, path: Path) -> Json:
        self._mode, self._nodes = "full", 0
        return self._value(place, path, len(path))

    def _alternatives(self, value: Json, whole: SchemaView, path: Path) -> Iterator[Json]:
        """Yield what may stand in one place instead."""
        for view in whole.branches or (whole,):
            if options := s.allowed_values(view.schema):
                yield from options
                continue
            match view.kind:
                case "array" if isinstance(value, list):
                    yield from self._resized(value, view, path)
                case "string":
                    yield from self._other_texts(view.schema, path)
                case "integer" | "number":
                    yield from self._other_numbers(view.schema, is_whole=view.kind == "integer")
                case "boolean":
                    yield from (False, True)
                case "open":
                    yield from ("", *self._vocabulary.texts, *self._vocabulary.numbers, False, True)
                case _:
                    pass
        if whole.nullable:
            yield None

    def _resized(self, value: list[Json], view: SchemaView, path: Path) -> Iterator[Json]:
        items = s.subschema(view.schema.get("items", {}), view.root)
        kinds = [items]
        if view_schema(items).kind == "open":
            # What the entries of an open list are is shown by those that it has; of an empty one
            # only by what reads them: texts, or numbers.
            kinds = [s.scoped_schema(infer_schema(value[0]))] if value else [items, _INTEGER]
        for size in dict.fromkeys((0, 1, *self._vocabulary.sizes)):
            more = size - len(value)
            for kind in kinds:
                yield [*value[:size], *(self._fresh(kind, path) for _ in range(more))]

    def _other_texts(self, schema: JsonSchema, path: Path) -> Iterator[Json]:
        if isinstance(pattern := schema.get("pattern"), str):
            yield from texts_of(pattern, self._vocabulary.texts)
            return
        kind = schema.get("format")
        is_time = ".".join(path) == self._time_field
        if is_time and kind not in ("date", "date-time"):
            kind = "date-time"
        for age in self._vocabulary.ages if isinstance(kind, str) else ():
            then = self._vocabulary.now - dt.timedelta(seconds=age)
            if (text := formatted_text(str(kind), then, 1)) is not None:
                yield text
        yield from ("", *self._vocabulary.texts)
        # A condition may ask how long a text is.
        yield from ("x" * size for size in self._vocabulary.sizes)

    def _other_numbers(self, schema: JsonSchema, *, is_whole: bool) -> Iterator[Json]:
        least = _bounds(schema, "minimum", "exclusiveMinimum", 1)
        most = _bounds(schema, "maximum", "exclusiveMaximum", -1)
        for number in (0, *self._vocabulary.numbers, *least, *most, -1):
            if not is_whole or number == int(number):
                yield int(number) if is_whole else number

    def _new(self, schema: JsonSchema, mode: GenerationMode) -> Json:
        self._mode, self._nodes = mode, 0
        return self._value(s.scoped_schema(schema), (), 0)

    def _pick(self, options: Sequence[T], depth: int) -> T:
        if self._mode == "sparse" or self._nodes > _MAX_NODES or depth >= _MAX_DEPTH:
            return options[-1]
        return options[0] if self._mode == "full" else self._random.choice(options)

    def _value(self, place: ScopedSchema, path: Path, depth: int) -> Json:
        self._nodes += 1
        whole = view_schema(place)
        nothing = (view_schema(s.NULL),) if whole.nullable and whole.kind != "open" else ()
        view = self._pick((*(whole.branches or (whole,)), *nothing), depth)
        if options := s.allowed_values(view.schema):
            return self._pick(options, depth)
        match view.kind:
            case "object":
                return self._object(view, path, depth)
            case "array":
                return self._array(view, path, depth)
            case "string":
                return self._text(view.schema, path, depth)
            case "integer" | "number":
                return self._number(view.schema, depth, is_whole=view.kind == "integer")
            case "boolean":
                return self._pick((True, False), depth)
            case "null":
                return None
            case _:
                word = self._word(path, depth)
                anything: tuple[Json, ...] = (word, True, 7, [word], {"key_1": word}, None)
                return self._pick(anything, depth)

    def _object(self, view: SchemaView, path: Path, depth: int) -> Json:
        properties, required = s.field_schemas(view), s.required_fields(view)
        members: JsonObject = {}
        for name in dict.fromkeys((*properties, *required)):
            if name in required or self._pick((True, True, False), depth):
                members[name] = self._value(
                    s.field_schema(view, name) or s.OPEN, (*path, name), depth + 1
                )
        rest = view.schema.get("additionalProperties", {})
        if rest is False:
            return members
        others = 0 if properties else self._pick((1, 2, 0), depth)
        least = max(others, int(_count_of(view.schema.get("minProperties"))))
        words = (*self._vocabulary.texts, *(f"key_{number}" for number in range(1, least + 1)))
        while len(members) < least:
            name = self._pick([word for word in reversed(words) if word not in members], depth)
            members[name] = self._value(s.subschema(rest, view.root), (*path, name), depth + 1)
        return members

    def _array(self, view: SchemaView, path: Path, depth: int) -> Json:
        first = as_list(view.schema.get("prefixItems"))
        least = _count_of(view.schema.get("minItems"))
        most = _count_of(view.schema.get("maxItems"), math.inf)
        size = self._pick((_FULL_SIZE, 1, 0), depth)
        size = int(min(max(size, least, len(first)), max(most, least)))
        is_set = view.schema.get("uniqueItems") is True
        elements: list[Json] = []
        for number in range(size):
            part = first[number] if number < len(first) else view.schema.get("items", {})
            entry = self._value(s.subschema(part, view.root), path, depth + 1)
            if not is_set or entry not in elements:
                elements.append(entry)
        return elements

    def _text(self, schema: JsonSchema, path: Path, depth: int) -> Json:
        least, most = (
            int(_count_of(schema.get("minLength"))),
            _count_of(schema.get("maxLength"), math.inf),
        )
        if isinstance(pattern := schema.get("pattern"), str):
            fitting = texts_of(pattern, self._vocabulary.texts)
            fitting = tuple(text for text in fitting if least <= len(text) <= most) or fitting
            if fitting:
                return self._pick((fitting[0], *fitting), depth)
        kind = schema.get("format")
        if ".".join(path) == self._time_field and kind not in ("date", "date-time"):
            kind = self._pick(("date-time", "date", "date-time"), depth)
        text = self._word(path, depth)
        if isinstance(kind, str):
            age = _FRESH_SECONDS
            if self._mode == "mixed":
                age = self._random.choice(self._vocabulary.ages)
            then = self._vocabulary.now - dt.timedelta(seconds=age)
            text = formatted_text(kind, then, self._random.randrange(1, 100)) or text
        return text.ljust(least, "x")[: int(min(most, 1e9))]

    def _word(self, path: Path, depth: int) -> str:
        name = next((part for part in reversed(path) if part.isidentifier()), "text")
        plausible = f"{name} {self._random.randrange(1, 100)}"
        known = self._random.choice(self._vocabulary.texts or (plausible,))
        return self._pick((plausible, known, ""), depth)

    def _number(self, schema: JsonSchema, depth: int, *, is_whole: bool) -> Json:
        step = schema.get("multipleOf")
        unit = (
            float(step) if isinstance(step, int | float) and step else (1.0 if is_whole else 0.01)
        )
        low = max(_bounds(schema, "minimum", "exclusiveMinimum", unit), default=-math.inf)
        high = min(_bounds(schema, "maximum", "exclusiveMaximum", -unit), default=math.inf)
        if low > high:
            # Narrower than a unit.
            return (low + high) / 2
        least = low if low > -math.inf else min(high - 100, 0.0)
        most = high if high < math.inf else max(least, 0.0) + 100
        known = [float(number) for number in self._vocabulary.numbers]
        smallest = min(max(0.0, low), high)
        drawn = self._pick(
            (self._random.uniform(least, most), most, -most, least, *known, smallest), depth
        )
        number = round(min(max(drawn, low), high) / unit) * unit
        number += unit if number < low else -unit if number > high else 0
        return round(number) if is_whole else round(number, 6)


def _bounds(schema: JsonSchema, inclusive: str, exclusive: str, unit: float) -> list[float]:
    named = ((schema.get(inclusive), 0.0), (schema.get(exclusive), unit))
    return [float(bound) + more for bound, more in named if isinstance(bound, int | float)]


def _count_of(value: Json, absent: float = 0) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else absent
