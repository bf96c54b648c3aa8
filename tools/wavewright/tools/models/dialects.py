"""What each provider takes of JSON Schema, and a goal's schema written within it.

Each function keeps to one provider's published rules, or returns which of them the schema is too
large for; the question is then asked with its answer schema, as for a provider without a dialect.
What a dialect cannot say is left open: a plan that it lets through is checked like any other.

A schema that is no goal's, such as a worker's, goes through the same functions (`own_schema`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from wavewright.planner import Json, JsonObject, JsonSchema, as_list, as_object
from wavewright.planner.planning.goal_schema import OBJECT_ONLY, REFERENCE, plain_schema
from wavewright.planner.types import properties_of
from wavewright.tools.models.endpoints import Endpoint
from wavewright.tools.models.messages import OutputMode


@dataclass(frozen=True, slots=True)
class SchemaTooLarge:
    """A schema is larger than a dialect allows."""

    what: str
    size: int
    most: int

    def __str__(self) -> str:
        return f"{self.size:,} {self.what}, of {self.most:,} at most"


Dialect: TypeAlias = Callable[[JsonSchema], JsonSchema | SchemaTooLarge]

MAX_GRAMMAR_CHARS: Final = 40_000
"""Characters of a schema of which a grammar is made: larger ones take longer than they are worth."""
GRAMMAR_REFERENCE: Final = "^\\$\\{[ !#-\\[\\]-~\u00a1-\ud7ff]{1,200}\\}$"
"""A reference of printable characters, of other scripts too (a field may be `größe`), without quotes
and backslashes, which a grammar would let through unescaped.
"""
_GRAMMAR_KEYWORDS: Final = frozenset(
    {
        *("type", "const", "enum", "anyOf", "pattern", "minLength", "maxLength", "format"),
        *("properties", "required", "additionalProperties", "items", "minItems", "maxItems"),
    }
)


def for_grammar(schema: JsonSchema) -> JsonSchema | SchemaTooLarge:
    """Return a schema of which llama.cpp and xgrammar make the grammar that it means.

    llama.cpp passes over what it does not know, wants patterns anchored, reads `.` as any character
    also where it has to be escaped, and bounds integers alone; with members that no name is given of
    its grammars grow (https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md); of 2,000
    repetitions it makes none (https://github.com/ggml-org/llama.cpp/issues/27859). xgrammar
    takes an object or a list without a shape for an empty one where anything is said of it
    (https://github.com/mlc-ai/xgrammar/issues/104). Neither shows the schema to the model, so
    descriptions are left out.
    """
    written = _grammar_part(schema)
    size = len(json.dumps(written))
    if size > MAX_GRAMMAR_CHARS:
        return SchemaTooLarge("characters of a schema for a grammar", size, MAX_GRAMMAR_CHARS)
    return written


_MOST_REPEATED: Final = 1_000
"""How often a grammar repeats a rule; llama.cpp takes no 2,000."""
_OF_NO_VALUE: Final = frozenset({"$schema", "title", "description", "default", "examples"})
_GRAMMAR_PATTERN: Final = re.compile(r"\^(?!.*\(\?|.*\{[\d,]*\d{4})[^\\]*\$")
"""A pattern that is anchored, without classes of characters by a letter, without assertions, and that
repeats nothing a thousand times.
"""


def is_for_grammar(schema: JsonSchema) -> bool:
    """Tell whether grammars are made of all that a schema says."""
    known = _GRAMMAR_KEYWORDS | _OF_NO_VALUE | {"minimum", "maximum"}
    return all(
        part.keys() <= known
        and not _unrepeatable(part)
        and isinstance(part.get("type", ""), str)
        and _GRAMMAR_PATTERN.fullmatch(str(part.get("pattern", "^$"))) is not None
        for part, _ in _all_parts(schema)
    )


def _unrepeatable(schema: JsonSchema) -> set[str]:
    """Return the bounds of a text or list of which llama.cpp makes no grammar: it goes on without any,
    and tells nobody.
    """
    return {
        word
        for word in ("minLength", "maxLength", "minItems", "maxItems")
        if isinstance(size := schema.get(word), int | float)
        and (size > _MOST_REPEATED or (word == "maxItems" and size == 0))
    }


def _grammar_part(schema: JsonSchema) -> JsonSchema:
    known = _GRAMMAR_KEYWORDS - _unrepeatable(schema)
    kept = {word: value for word, value in schema.items() if word in known}
    match kept.get("type"):
        case "integer":
            kept |= {word: schema[word] for word in ("minimum", "maximum") if word in schema}
        case "string" if kept.get("pattern") == REFERENCE["pattern"]:
            kept["pattern"] = GRAMMAR_REFERENCE
        case "string" if not _GRAMMAR_PATTERN.fullmatch(str(kept.get("pattern", "^$"))):
            del kept["pattern"]
        case "array" if "items" not in kept:
            return {"type": "array"}
        case "object" if kept.get("properties") or _takes_nothing(schema):
            kept["additionalProperties"] = False
        case "object" if not isinstance(kept.get("additionalProperties"), dict):
            return {"type": "object"}
        case _:
            pass
    return _with_parts(kept, _grammar_part)


def for_openai(schema: JsonSchema) -> JsonSchema | SchemaTooLarge:
    """Return a schema for structured outputs of OpenAI, strict.

    The root is an object without alternatives, each object is closed and all of its members are
    required, so those that may be absent may be null; objects of an `anyOf` differ in their first
    member; what lists its values says their type; and there are limits
    (https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas,
    https://github.com/openai/openai-python/issues/2193,
    https://github.com/openclaw/clawpatch/issues/60). What is open there is written as one expression.
    """
    written = _strict_part(_with_plain_root(schema))
    for what, size, most in _openai_sizes(written):
        if size > most:
            return SchemaTooLarge(what, size, most)
    return written


OPEN_AS_TEXT: Final[JsonSchema] = {
    "type": "string",
    "description": "One ${…} expression, such as ${{'total': steps.a.total, 'days': [1, 2]}}.",
}
"""What stands for a value without a shape where a provider takes none."""
JSON_AS_TEXT: Final[JsonSchema] = {
    "type": "string",
    "description": "The arguments: a JSON object, written as text.",
}
"""What stands for arguments of any names; the reader takes them out of the text."""
_OPENAI_KEYWORDS: Final = frozenset(
    {
        *("type", "const", "enum", "anyOf", "description", "pattern"),
        *("properties", "required", "additionalProperties", "items", "minItems", "maxItems"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    }
)


def _strict_part(schema: JsonSchema) -> JsonSchema:
    if _is_open(schema):
        return {**OPEN_AS_TEXT}
    kept = {word: value for word, value in schema.items() if word in _OPENAI_KEYWORDS}
    kept = _with_parts(_without_open_fields(_with_kinds(kept)), _strict_part)
    if "anyOf" in kept:
        kept["anyOf"] = _distinct(as_list(kept["anyOf"]))
    if kept.get("type") != "object":
        return kept
    properties, required = as_object(kept["properties"]), as_list(kept.get("required"))
    nullable: JsonObject = {
        name: part if name in required else _or_null(as_object(part))
        for name, part in properties.items()
    }
    return {**kept, "properties": nullable, "required": [*nullable], "additionalProperties": False}


def _with_kinds(schema: JsonSchema) -> JsonSchema:
    """Return a schema that says the type of the values that it lists; strict outputs want it."""
    listed = _listed_values(schema)
    if not listed or "type" in schema:
        return schema
    kinds = _kinds_of(listed)
    if len(kinds) == 1:
        return {**schema, "type": kinds[0]["type"]}
    return {**{word: part for word, part in schema.items() if word != "enum"}, "anyOf": [*kinds]}


def _or_null(schema: JsonSchema) -> JsonSchema:
    branches = as_list(schema.get("anyOf")) or [schema]
    null: JsonSchema = {"type": "null"}
    return {"anyOf": branches if null in branches else [*branches, null]}


def _distinct(branches: list[Json]) -> list[Json]:
    """Return alternatives without repeats; an object that begins as one before it is written as
    text.
    """
    kept: list[Json] = []
    beginnings: list[Json] = []
    for branch in branches:
        members = as_object(as_object(branch).get("properties"))
        first: Json = [*map(list, [*members.items()][:1])]
        if members and first in beginnings:
            branch = {**OPEN_AS_TEXT}  # noqa: PLW2901 - the branch as it is kept
        beginnings.append(first)
        if branch not in kept:
            kept.append(branch)
    return kept


def _openai_sizes(schema: JsonSchema) -> Iterator[tuple[str, int, int]]:
    """Yield what the provider counts of a schema, and how many of each it takes."""
    parts = [*_all_parts(schema)]
    named = [name for part, _ in parts for name in properties_of(part)]
    values = [value for part, _ in parts for value in as_list(part.get("enum"))]
    constants = [part["const"] for part, _ in parts if "const" in part]
    yield "members of objects", len(named), 5_000
    yield "levels", max(level for _, level in parts), 10
    yield "values of enums", len(values), 1_000
    texts = [*named, *(str(value) for value in [*values, *constants])]
    yield "characters of names and values", sum(map(len, texts)), 120_000
    for part, _ in parts:
        listed = as_list(part.get("enum"))
        if len(listed) > 250:
            yield "characters of one long enum", sum(len(str(one)) for one in listed), 15_000


MAX_TOLD_CHARS: Final = 40_000
"""Characters of a schema that a provider counts as part of the question."""


def for_anthropic(schema: JsonSchema) -> JsonSchema | SchemaTooLarge:
    """Return a schema for the input of a tool of Anthropic.

    Its root is an object, without `anyOf` beside it
    (https://github.com/anthropics/claude-code/issues/27337); bounds of numbers and texts and most
    patterns are not among what it knows
    (https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations).
    It is not sent as strict: that allows 24 optional parameters and 16 unions, and a plan has more.
    """
    return _told(_with_keywords(_with_plain_root(schema), _ANTHROPIC_KEYWORDS))


_ANTHROPIC_KEYWORDS: Final = frozenset(
    {
        *("type", "const", "enum", "anyOf", "description"),
        *("properties", "required", "additionalProperties", "items"),
    }
)


def for_gemini(schema: JsonSchema) -> JsonSchema | SchemaTooLarge:
    """Return a schema for the JSON output of Gemini.

    It knows an `enum` of texts and numbers and no `const` and `pattern`, and gives back an open
    object empty (https://ai.google.dev/gemini-api/docs/structured-output#json_schema_support); a few
    bounds of how long lists may be are too much (https://github.com/vercel/ai/issues/21192).
    """
    return _told(_gemini_part(_with_plain_root(schema)))


_GEMINI_KEYWORDS: Final = frozenset(
    {
        *("type", "enum", "anyOf", "description", "minItems", "minimum", "maximum"),
        *("properties", "required", "additionalProperties", "items"),
    }
)


def _gemini_part(schema: JsonSchema) -> JsonSchema:
    if _is_open(schema):
        return {**OPEN_AS_TEXT}
    kept = {word: value for word, value in schema.items() if word in _GEMINI_KEYWORDS}
    values = _listed_values(schema)
    if values and all(isinstance(value, str) for value in values):
        kept |= {"type": "string", "enum": values}
    elif values:
        kept = {word: value for word, value in kept.items() if word != "enum"}
        if "type" not in kept:
            kept["anyOf"] = [
                kind if kind["type"] == "string" else {"type": kind["type"]}
                for kind in _kinds_of(values)
            ]
        return kept
    if kept.get("type") == "object":
        # It takes no object without members; arguments that are absent are read as none.
        members = {
            name: part
            for name, part in properties_of(kept).items()
            if not _takes_nothing(as_object(part))
        }
        required: list[Json] = [name for name in as_list(kept.get("required")) if name in members]
        kept |= {"properties": members, "required": required, "additionalProperties": False}
    return _with_parts(_without_open_fields(kept), _gemini_part)


def _told(schema: JsonSchema) -> JsonSchema | SchemaTooLarge:
    size = len(json.dumps(schema, ensure_ascii=False))
    if size > MAX_TOLD_CHARS:
        return SchemaTooLarge(
            "characters of a schema that is part of the question", size, MAX_TOLD_CHARS
        )
    return schema


def dialect_of(endpoint: Endpoint, mode: OutputMode) -> Dialect | None:
    """Return the dialect of an endpoint that is asked for forms in one of the ways; None where it
    has none.
    """
    if endpoint.is_compatible:
        return for_grammar if mode == "native" else None
    match endpoint.provider:
        case "openai" | "openai-chat":
            return for_openai
        case "anthropic":
            return for_anthropic
        case "google":
            return for_gemini
        case _:
            return None


def own_schema(schema: JsonSchema, dialect: Dialect) -> JsonSchema | SchemaTooLarge | None:
    """Return the schema of a question that has no goal's in a dialect: of a worker, a judge, a
    reviewer, a step of a guided plan. None where it is sent as it is.
    """
    if dialect is for_grammar and is_for_grammar(schema):
        return None
    if dialect is for_anthropic and not _ALTERNATIVES & schema.keys():
        # A tool's input may say anything below its root, and the model reads what it says.
        return None
    written = dialect(plain_schema(schema))
    if isinstance(written, SchemaTooLarge):
        return written
    # In a plan an expression stands for a value without a shape; an answer has no expressions.
    is_expressed = any(part == OPEN_AS_TEXT for part, _ in _all_parts(written))
    return None if is_expressed else written


_ALTERNATIVES: Final = frozenset({"anyOf", "oneOf", "allOf"})


# --- the values that a schema lists


def _listed_values(schema: JsonSchema) -> list[Json]:
    return [schema["const"]] if "const" in schema else as_list(schema.get("enum"))


def _kinds_of(values: list[Json]) -> list[JsonSchema]:
    """Return the schemas of the texts, the numbers, … among values, each with those of its kind."""
    by_kind: dict[str, list[Json]] = {}
    for value in values:
        by_kind.setdefault(_kind_of(value), []).append(value)
    return [
        {"type": kind} if kind == "null" else {"type": kind, "enum": listed}
        for kind, listed in by_kind.items()
    ]


def _kind_of(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case _:
            return "string"


# --- schemas inside a schema


def _with_parts(schema: JsonSchema, change: Callable[[JsonSchema], JsonSchema]) -> JsonSchema:
    """Return a schema in which each schema directly inside it is changed."""
    changed = dict(schema)
    if "properties" in schema:
        named = as_object(schema["properties"])
        changed["properties"] = {name: change(as_object(part)) for name, part in named.items()}
    if "anyOf" in schema:
        changed["anyOf"] = [change(as_object(part)) for part in as_list(schema["anyOf"])]
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            changed[word] = change(as_object(schema[word]))
    return changed


def _with_keywords(schema: JsonSchema, known: frozenset[str]) -> JsonSchema:
    kept = {word: value for word, value in schema.items() if word in known}
    return _with_parts(kept, lambda part: _with_keywords(part, known))


def _with_plain_root(schema: JsonSchema) -> JsonSchema:
    """Return a schema whose root is one object: the members of all of its alternatives, each of
    which may be absent.
    """
    if "anyOf" not in schema:
        return schema
    members: JsonObject = {}
    for branch in as_list(schema["anyOf"]):
        members |= as_object(as_object(branch).get("properties"))
    return {"type": "object", "properties": members, "additionalProperties": False}


def _is_open(schema: JsonSchema) -> bool:
    """Tell whether a schema gives a value no shape: anything, an object of any members, a list of
    anything.
    """
    match schema.get("type"):
        case "object":
            return not schema.get("properties") and not _takes_nothing(schema)
        case "array":
            return not schema.get("items")
        case None:
            # Of objects and lists no provider takes a choice.
            listed = _listed_values(schema)
            is_listed = bool(listed) and not any(isinstance(value, list | dict) for value in listed)
            return not is_listed and "anyOf" not in schema
        case _:
            return False


def _without_open_fields(schema: JsonSchema) -> JsonSchema:
    """Return a schema without fields of the language that are open objects, and without the
    alternatives that need one; arguments are written as text.
    """
    changed = dict(schema)
    if "properties" in schema:
        required = as_list(schema.get("required"))
        changed["properties"] = {
            name: {**JSON_AS_TEXT} if OBJECT_ONLY in as_object(part) else part
            for name, part in as_object(schema["properties"]).items()
            if OBJECT_ONLY not in as_object(part) or (name == "params" and name in required)
        }
    if "anyOf" in schema:
        changed["anyOf"] = [
            branch
            for branch in as_list(schema["anyOf"])
            if not _needs_open_field(as_object(branch))
        ]
    return changed


def _needs_open_field(schema: JsonSchema) -> bool:
    required = as_list(schema.get("required"))
    return any(
        OBJECT_ONLY in as_object(part) and name in required and name != "params"
        for name, part in properties_of(schema).items()
    )


def _takes_nothing(schema: JsonSchema) -> bool:
    """Tell whether a schema is that of an object without members, such as the arguments of a tool
    without parameters.
    """
    is_closed = schema.get("additionalProperties") is False
    return schema.get("type") == "object" and is_closed and not schema.get("properties")


def _all_parts(schema: JsonSchema, level: int = 1) -> Iterator[tuple[JsonSchema, int]]:
    """Yield a schema and those inside it, each with how many objects and lists it is inside of."""
    yield schema, level
    inner = level + (schema.get("type") in ("object", "array"))
    for part in properties_of(schema).values():
        yield from _all_parts(as_object(part), inner)
    if isinstance(schema.get("items"), dict):
        yield from _all_parts(as_object(schema["items"]), inner)
    for part in as_list(schema.get("anyOf")):
        yield from _all_parts(as_object(part), level)
