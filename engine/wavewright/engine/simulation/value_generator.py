"""Values that a schema allows.

A generator is seeded: the same seed, schemas and order of questions give the same values. They are made in three
*manners*: `full` has everything that may be there, is never null and looks plausible; `sparse` has only what must be
there, and as little of it as may be; `mixed` draws everything, from the plan's own words too. Every value has passed
the schema's validator.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Sequence
from typing import Literal, TypeAlias

from wavewright.config.errors import WavewrightError
from wavewright.engine.simulation.plan_analysis import PlanVocabulary
from wavewright.engine.simulation.schema_values import (
    NumberRange,
    fitting_texts,
    formatted_text,
    intersect_schemas,
    nearest_number,
    number_range,
    simplify_schema,
)
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import Json, JsonObject, JsonSchema

GenerationMode: TypeAlias = Literal["full", "sparse", "mixed"]

_MAX_TRIES = 12
_MAX_NODES = 4_000
"""Of one value; what is made beyond is as small as its schema lets it be."""
_MAX_DEPTH = 12
_FULL_SIZE = 2
_NAMED_SIZE_PROBABILITY = 0.25
"""Share of lists that are as long as a number in one of the plan's expressions says."""
_ABSENT: Json = {"type": "null"}


_FRESH_SECONDS = 3600.0
"""Seconds of age of what is plausible."""
_FOCUS_PROBABILITY = 0.8
"""Share of variations that change what the search is about."""


class NoValueFound(WavewrightError):
    """No value was found that the schema takes."""


class ValueGenerator:
    """Makes values, one after another."""

    def __init__(self, seed: str, vocabulary: PlanVocabulary) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._vocabulary = vocabulary
        self._root: Json = {}
        self._times: frozenset[str] = frozenset()
        self._manner: GenerationMode = "full"
        self._nodes = 0
        self._full_size = _FULL_SIZE
        self._focus: frozenset[str] = frozenset()

    def make(
        self,
        schema: JsonSchema,
        manner: GenerationMode,
        *,
        time_field: str | None = None,
        size: int = _FULL_SIZE,
    ) -> Json:
        """Return a value of the schema.

        Args:
            schema: What the value must fit.
            manner: How it is made.
            time_field: Dotted path of a text that is a time.
            size: How long the lists of a full value are, where the schema lets them be.

        Raises:
            CannotMake: none was found within some tries.
            NeedsExtra: a pattern needs Hypothesis, which is not installed.
        """
        validator = validator_of(schema)
        self._full_size = size
        for number in range(_MAX_TRIES):
            # What a full value breaks, a mixed one may keep.
            self._begin(schema, manner if number < _MAX_TRIES // 2 else "mixed", time_field)
            value = self._value(schema, (), 0)
            if validator.accepts(value):
                return value
        raise NoValueFound

    def vary(
        self,
        value: Json,
        schema: JsonSchema,
        *,
        time_field: str | None = None,
        focus: frozenset[str] = frozenset(),
    ) -> Json:
        """Return another value of the schema that differs from this one in a place or two.

        Args:
            value: The value to start from.
            schema: What both fit.
            time_field: Dotted path of a text that is a time.
            focus: Names of members that are changed rather than others.

        Raises:
            CannotMake, NeedsExtra: as in `make`.
        """
        validator = validator_of(schema)
        self._focus = focus
        for _ in range(_MAX_TRIES):
            self._begin(schema, "mixed", time_field)
            varied = self._varied(value, schema, (), 0)
            if self._random.random() < 0.4:
                varied = self._varied(varied, schema, (), 0)
            if varied != value and validator.accepts(varied):
                return varied
        return self.make(schema, "mixed", time_field=time_field)

    def choose(self, options: Sequence[Json]) -> Json:
        """Return one of several, by chance."""
        return self._random.choice(options)

    def _begin(self, schema: JsonSchema, manner: GenerationMode, time_field: str | None) -> None:
        self._root, self._manner, self._nodes = schema, manner, 0
        self._times = frozenset({time_field} if time_field else ())

    # -- making

    def _value(self, schema: Json, path: tuple[str, ...], depth: int) -> Json:
        self._nodes += 1
        node = simplify_schema(schema, self._root, self._alternative)
        if "const" in node:
            return node["const"]
        if isinstance(options := node.get("enum"), list) and options:
            return options[0] if self._manner == "full" else self._random.choice(options)
        match node.get("type"):
            case "object":
                return self._object(node, path, depth)
            case "array":
                return self._array(node, path, depth)
            case "string":
                return self._text(node, path)
            case "integer" | "number" as kind:
                return nearest_number(node, self._number(number_range(node)), is_whole=kind == "integer")
            case "boolean":
                return self._manner == "full" if self._manner != "mixed" else self._random.random() < 0.5
            case "null":
                return None
            case _:
                return self._anything(path, depth)

    def _alternative(self, branches: Sequence[Json]) -> Json:
        empty = [branch for branch in branches if branch == _ABSENT]
        others = [branch for branch in branches if branch != _ABSENT] or empty
        if self._manner == "full":
            return others[0]
        if self._manner == "sparse" or self._is_large:
            return empty[0] if empty else others[-1]
        return self._random.choice(branches)

    @property
    def _is_large(self) -> bool:
        return self._nodes > _MAX_NODES

    def _object(self, node: JsonObject, path: tuple[str, ...], depth: int) -> Json:
        properties = _object_of(node.get("properties"))
        required = [name for name in _list_of(node.get("required")) if isinstance(name, str)]
        rest = node.get("additionalProperties", {})
        made: JsonObject = {}
        for name in dict.fromkeys((*properties, *required)):
            if name in required or self._has_optional(depth):
                part = properties.get(name, rest if isinstance(rest, dict) else {})
                made[name] = self._value(part, (*path, name), depth + 1)
        wanted = _count_of(node.get("minProperties"))
        if not properties and rest is not False:
            wanted = max(wanted, {"full": 1, "sparse": 0, "mixed": self._random.randrange(3)}[self._manner])
        number = 0
        while len(made) < wanted and rest is not False and depth < _MAX_DEPTH:
            number += 1
            name = self._key(number)
            made.setdefault(name, self._value(rest, (*path, name), depth + 1))
        return made

    def _has_optional(self, depth: int) -> bool:
        if self._is_large or depth >= _MAX_DEPTH:
            return False
        return self._manner == "full" or (self._manner == "mixed" and self._random.random() < 0.6)

    def _key(self, number: int) -> str:
        words = self._vocabulary.texts
        if self._manner == "mixed" and words and self._random.random() < 0.5:
            return self._random.choice(words)
        return f"key_{number}"

    def _array(self, node: JsonObject, path: tuple[str, ...], depth: int) -> Json:
        first = _list_of(node.get("prefixItems"))
        least, most = _count_of(node.get("minItems")), _count_of(node.get("maxItems"), math.inf)
        size = int(min(max(self._size(depth), least, len(first)), max(most, least)))
        rest = node.get("items", {})
        is_set = node.get("uniqueItems") is True
        made: list[Json] = []
        for place in range(size):
            part = first[place] if place < len(first) else rest
            entry = self._value(part, path, depth + 1)
            for _ in range(_MAX_TRIES if is_set and entry in made else 0):
                entry = self._other(part, path, depth + 1)
                if entry not in made:
                    break
            if not (is_set and entry in made):
                made.append(entry)
        return made

    def _other(self, schema: Json, path: tuple[str, ...], depth: int) -> Json:
        manner, self._manner = self._manner, "mixed"
        try:
            return self._value(schema, path, depth)
        finally:
            self._manner = manner

    def _size(self, depth: int) -> int:
        if self._manner == "sparse" or self._is_large or depth >= _MAX_DEPTH:
            return 0
        if self._manner == "full":
            return self._full_size
        # Large lists stand near the top of an output; below they would only multiply.
        if depth <= 1 and self._random.random() < _NAMED_SIZE_PROBABILITY:
            return self._random.choice(self._vocabulary.sizes)
        return self._random.randrange(4 if depth <= 1 else 3)

    def _text(self, node: JsonObject, path: tuple[str, ...]) -> Json:
        least, most = _count_of(node.get("minLength")), _count_of(node.get("maxLength"), math.inf)
        if isinstance(pattern := node.get("pattern"), str):
            fitting = [*fitting_texts(pattern, self._vocabulary.texts)]
            fitting = [text for text in fitting if least <= len(text) <= most] or fitting
            if fitting:
                return fitting[0] if self._manner == "full" else self._random.choice(fitting)
        kind = node.get("format")
        if ".".join(path) in self._times and kind not in ("date", "date-time"):
            kind = self._random.choice(("date", "date-time")) if self._manner == "mixed" else "date-time"
        if isinstance(kind, str):
            age = _FRESH_SECONDS if self._manner == "full" else self._random.choice(self._vocabulary.ages)
            then = self._vocabulary.now - dt.timedelta(seconds=age)
            text = formatted_text(kind, then, self._random.randrange(1, 100)) or self._word(path)
        else:
            text = self._word(path)
        if len(text) < least:
            text += "x" * (int(least) - len(text))
        return text if len(text) <= most else text[: int(most)]

    def _word(self, path: tuple[str, ...]) -> str:
        name = next((part for part in reversed(path) if part.isidentifier()), "text")
        if self._manner == "sparse":
            return ""
        if self._manner == "mixed":
            words = self._vocabulary.texts
            chance = self._random.random()
            if words and chance < 0.35:
                return self._random.choice(words)
            if chance < 0.5:
                return ""
            if chance < 0.55:
                return self._random.choice(("12", "true", "2024-01-01", "ä ö", "${steps.a}", "a,b;c"))
        return f"{name} {self._random.randrange(1, 100)}"

    def _number(self, allowed: NumberRange) -> float:
        least, most = allowed
        if self._manner == "sparse":
            return 0 if least <= 0 <= most else least
        if self._manner == "full":
            return self._random.uniform(least, most)
        known = [float(one) for one in self._vocabulary.numbers]
        return self._random.choice((0.0, least, most, -most, *known, self._random.uniform(least, most)))

    def _anything(self, path: tuple[str, ...], depth: int) -> Json:
        if self._manner != "mixed" or depth >= _MAX_DEPTH:
            return None if self._manner == "sparse" else self._word(path)
        drawn = self._random.randrange(6)
        simple: tuple[Json, ...] = (None, True, self._random.randrange(100), self._word(path))
        if drawn < len(simple):
            return simple[drawn]
        return [self._word(path)] if drawn == len(simple) else {"key_1": self._word(path)}

    # -- varying

    def _varied(self, value: Json, schema: Json, path: tuple[str, ...], depth: int) -> Json:
        node = simplify_schema(schema, self._root, lambda branches: self._branch_of(value, branches))
        chance = self._random.random()
        if (chance < 0.15 and depth) or depth >= _MAX_DEPTH:
            return self._value(schema, path, depth)
        if isinstance(value, dict) and (names := self._names(value, node)):
            return self._varied_member(value, node, self._random.choice(names), path, depth)
        if isinstance(value, list) and value and chance < 0.6:
            place = self._random.randrange(len(value))
            part = node.get("items", {})
            return [
                self._varied(entry, part, path, depth + 1) if number == place else entry
                for number, entry in enumerate(value)
            ]
        return self._value(schema, path, depth)

    def _varied_member(
        self, value: JsonObject, node: JsonObject, name: str, path: tuple[str, ...], depth: int
    ) -> Json:
        part = _object_of(node.get("properties")).get(name, node.get("additionalProperties", {}))
        if name in value:
            if name not in _list_of(node.get("required")) and self._random.random() < 0.25:
                return {key: member for key, member in value.items() if key != name}
            return {**value, name: self._varied(value[name], part, (*path, name), depth + 1)}
        return {**value, name: self._value(part, (*path, name), depth + 1)}

    def _names(self, value: JsonObject, node: JsonObject) -> list[str]:
        names = list(dict.fromkeys((*value, *_object_of(node.get("properties")))))
        wanted = [name for name in names if name in self._focus]
        return wanted if wanted and self._random.random() < _FOCUS_PROBABILITY else names

    def _branch_of(self, value: Json, branches: Sequence[Json]) -> Json:
        """Return the alternative that a value was made of."""
        scope = self._root if isinstance(self._root, dict) else {}
        definitions: JsonObject = {name: scope[name] for name in ("$defs", "definitions") if name in scope}
        for branch in branches:
            if isinstance(branch, dict) and validator_of(intersect_schemas(definitions, branch)).accepts(
                value
            ):
                return branch
        return branches[0]


def _object_of(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _list_of(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _count_of(value: Json, absent: float = 0) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else absent
