"""Texts and numbers that a schema allows.

Texts that match a pattern.

Common texts are tried first; what none of them matches is made by Hypothesis, which comes with the extra
`testing` and is loaded for it alone.

A JSON Schema, seen as what one value of it may be.

References are followed inside the schema, `allOf` is folded into its parts, and of alternatives one is taken. What
comes out is a *plain* schema: one type with its own keywords. What these rules cannot see (`not`, `if`) is left to
the validator, which has the last word on every value.
"""

from __future__ import annotations

import datetime as dt
import re
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, reduce
from typing import NamedTuple

from wavewright.config.errors import WavewrightError
from wavewright.planner.diagnostics.diagnostic import pointer_tokens
from wavewright.planner.types import Json, JsonObject


class NumberRange(NamedTuple):
    """Where a number is looked for."""

    least: float
    most: float


def formatted_text(kind: str, then: dt.datetime, number: int) -> str | None:
    """Return a text of one of JSON Schema's formats, of that time or with that number; none for another format."""
    match kind:
        case "date":
            return then.date().isoformat()
        case "date-time":
            return then.isoformat(timespec="seconds").replace("+00:00", "Z")
        case "time":
            return then.time().isoformat(timespec="seconds") + "Z"
        case _:
            pattern = _FORMATS.get(kind)
            return None if pattern is None else pattern.format(number=number)


_FORMATS = {
    "duration": "PT{number}S",
    "email": "name{number}@example.org",
    "idn-email": "name{number}@example.org",
    "hostname": "host{number}.example.org",
    "idn-hostname": "host{number}.example.org",
    "ipv4": "192.0.2.{number}",
    "ipv6": "2001:db8::{number}",
    "uuid": "00000000-0000-4000-8000-{number:012d}",
    "uri": "https://example.org/{number}",
    "iri": "https://example.org/{number}",
    "uri-reference": "https://example.org/{number}",
    "iri-reference": "https://example.org/{number}",
}


_GENERATED_PATTERN = "|".join(
    r"\d+".join(map(re.escape, re.split("{.*?}", pattern))) for pattern in _FORMATS.values()
)
_FORMATTED = re.compile(rf"\d{{4}}-\d\d-\d\d.*|\d\d:\d\d:\d\d.*|{_GENERATED_PATTERN}")


def is_formatted(text: str) -> bool:
    """Whether a text is one of those that `formatted` gives."""
    return _FORMATTED.fullmatch(text) is not None


def number_range(node: JsonObject) -> NumberRange:
    """Return where a number of the schema is looked for: within its bounds, or a hundred wide."""
    low, high = _low(node), _high(node)
    least = low if low is not None else (high - 100 if high is not None else 0.0)
    return NumberRange(least, high if high is not None else max(least, 0.0) + 100)


def nearest_number(node: JsonObject, drawn: float, *, is_whole: bool) -> Json:
    """Return the number nearest to the one drawn that the schema's bounds and steps let pass."""
    low, high = _low(node), _high(node)
    step = node.get("multipleOf")
    unit = float(step) if isinstance(step, int | float) and step else (1.0 if is_whole else 0.01)
    number = (
        round(min(max(drawn, drawn if low is None else low), drawn if high is None else high) / unit) * unit
    )
    if low is not None and (number < low or (number <= low and "exclusiveMinimum" in node)):
        number += unit
    if high is not None and (number > high or (number >= high and "exclusiveMaximum" in node)):
        number -= unit
    if low is not None and high is not None and not is_whole and not low <= number <= high:
        number = (low + high) / 2
    return round(number) if is_whole else round(number, 6)


def _low(node: JsonObject) -> float | None:
    found = _numbers(node, "minimum", "exclusiveMinimum")
    return max(found) if found else None


def _high(node: JsonObject) -> float | None:
    found = _numbers(node, "maximum", "exclusiveMaximum")
    return min(found) if found else None


def _numbers(node: JsonObject, *names: str) -> list[float]:
    return [float(bound) for name in names if isinstance(bound := node.get(name), int | float)]


_COMMON_TEXTS = (
    "a", "b", "A", "B", "1", "2", "10", "0.5", "a1", "A1", "ab", "AB", "abc", "ABC", "ALFA", "a-1", "a_1", "a.b",
    "24h", "1.0", "1.0.0", "#a", "a/b", "a@b.example", "https://example.org/a", "2024-01-01", "0123456789abcdef",
    "00000000-0000-4000-8000-000000000001",
    # Two of each kind: steps that are given the same text make the same call.
    "7d", "2.0.0", "#b", "b/a", "b@a.example", "https://example.org/b", "2024-01-02", "fedcba9876543210",
    "00000000-0000-4000-8000-000000000002",
)  # fmt: skip
_EXAMPLE_COUNT = 6


class PatternNeedsExtra(WavewrightError):
    """A pattern for which nothing here has a text, and Hypothesis is not installed."""


def fitting_texts(pattern: str, words: Iterable[str]) -> tuple[str, ...]:
    """Return those of the words that match the pattern, and some texts that do.

    Raises:
        NeedsExtra: as in `texts_of`.
    """
    try:
        compiled = re.compile(pattern)
    except re.error:
        return ()
    return (*(word for word in words if compiled.search(word)), *texts_of(pattern))


@lru_cache(maxsize=256)
def texts_of(pattern: str) -> tuple[str, ...]:
    """Return some texts that match the pattern, always the same; none where it is no pattern of Python's.

    Raises:
        NeedsExtra: only Hypothesis could make one, and it is not installed.
    """
    try:
        compiled = re.compile(pattern)
    except re.error:
        return ()
    found = tuple(text for text in _COMMON_TEXTS if compiled.search(text))
    return found or _generated_texts(compiled)


def _generated_texts(compiled: re.Pattern[str]) -> tuple[str, ...]:
    try:
        import hypothesis
        from hypothesis import strategies
        from hypothesis.configuration import set_hypothesis_home_dir
        from hypothesis.errors import HypothesisException
    except ModuleNotFoundError as error:
        raise PatternNeedsExtra(compiled.pattern) from error
    found: dict[str, None] = {}
    check = hypothesis.HealthCheck

    @hypothesis.seed(0)
    @hypothesis.settings(
        max_examples=_EXAMPLE_COUNT,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=[check.filter_too_much, check.too_slow, check.data_too_large],
    )
    @hypothesis.given(strategies.from_regex(compiled, fullmatch=True, alphabet=_ALPHABET))
    def collect(text: str) -> None:
        found[text] = None

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # It keeps tables of characters: not in the folder where somebody happens to stand.
        set_hypothesis_home_dir(folder)
        try:
            collect()
        except (HypothesisException, re.error, ValueError):
            return ()
        finally:
            set_hypothesis_home_dir(None)
    return tuple(found)


_ALPHABET = "".join(map(chr, range(32, 127)))


ChooseAlternative = Callable[[Sequence[Json]], Json]
"""Takes one of several alternatives."""

_MAX_DEPTH = 32
"""Layers of references and alternatives on one node; a circle of nothing else has no value."""
_TYPE_OF_KEYWORD = {
    "properties": "object",
    "required": "object",
    "additionalProperties": "object",
    "minProperties": "object",
    "items": "array",
    "prefixItems": "array",
    "minItems": "array",
    "maxItems": "array",
    "uniqueItems": "array",
    "minLength": "string",
    "maxLength": "string",
    "pattern": "string",
    "format": "string",
    "minimum": "number",
    "maximum": "number",
    "exclusiveMinimum": "number",
    "exclusiveMaximum": "number",
    "multipleOf": "number",
}


def simplify_schema(schema: Json, root: Json, choose: ChooseAlternative) -> JsonObject:
    """Return a schema without references, combinations and alternatives; `{}` where anything goes."""
    node: Json = schema
    for _ in range(_MAX_DEPTH):
        if not isinstance(node, dict):
            return {}
        if isinstance(reference := node.get("$ref"), str):
            node = intersect_schemas(_lookup(reference, root), _without(node, "$ref"))
        elif isinstance(parts := node.get("allOf"), list):
            resolved = [_resolved(part, root) for part in parts]
            node = reduce(intersect_schemas, resolved, _without(node, "allOf"))
        elif (name := _alternatives(node)) is not None:
            branches = node[name]
            assert isinstance(branches, list)
            node = intersect_schemas(_without(node, name), _resolved(choose(branches), root))
        elif isinstance(types := node.get("type"), list) and types:
            wanted = choose([{"type": one} for one in types])
            node = {**node, **wanted} if isinstance(wanted, dict) else node
        else:
            return _typed(node)
    return {}


def intersect_schemas(one: Json, other: Json) -> JsonObject:
    """Return a schema of what fits two schemas, as far as that can be written down keyword by keyword."""
    first = one if isinstance(one, dict) else {}
    second = other if isinstance(other, dict) else {}
    joined: JsonObject = {**first, **second}
    for name in first.keys() & second.keys():
        joined[name] = _intersect_keyword(name, first[name], second[name])
    return joined


def _intersect_keyword(name: str, one: Json, other: Json) -> Json:
    match name, one, other:
        case "properties", dict(), dict():
            return {
                key: intersect_schemas(one[key], other[key])
                if key in one and key in other
                else {**one, **other}[key]
                for key in {**one, **other}
            }
        case (("$defs" | "definitions"), dict(), dict()):
            return {**one, **other}
        case "required", list(), list():
            return [*one, *(key for key in other if key not in one)]
        case "items", dict(), dict():
            return intersect_schemas(one, other)
        case "enum", list(), list():
            return [value for value in one if value in other]
        case "type", _, _:
            types = [kind for kind in _listed(one) if kind in _listed(other) or kind == "integer"]
            return types[0] if len(types) == 1 else (list(types) or other)
        case (("minimum" | "exclusiveMinimum" | "minLength" | "minItems"), int() | float(), int() | float()):
            return max(one, other)
        case (("maximum" | "exclusiveMaximum" | "maxLength" | "maxItems"), int() | float(), int() | float()):
            return min(one, other)
        case "additionalProperties", False, _:
            return False
        case _:
            return other


def _listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [value]


def _alternatives(node: JsonObject) -> str | None:
    return next(
        (name for name in ("anyOf", "oneOf") if isinstance(node.get(name), list) and node[name]), None
    )


def _resolved(schema: Json, root: Json) -> Json:
    """Return a part with its reference followed, so that two parts can be folded into one."""
    if isinstance(schema, dict) and isinstance(reference := schema.get("$ref"), str):
        return intersect_schemas(_lookup(reference, root), _without(schema, "$ref"))
    return schema


def _lookup(reference: str, root: Json) -> Json:
    node: Json = root
    for token in pointer_tokens(reference.removeprefix("#")):
        node = node.get(token, {}) if isinstance(node, dict) else {}
    return node


def _without(node: JsonObject, name: str) -> JsonObject:
    return {key: value for key, value in node.items() if key != name}


def _typed(node: JsonObject) -> JsonObject:
    """Return a schema with its type said, where its keywords show it."""
    if "type" in node or "const" in node or "enum" in node:
        return node
    shown = next((_TYPE_OF_KEYWORD[name] for name in node if name in _TYPE_OF_KEYWORD), None)
    return node if shown is None else {**node, "type": shown}
