"""The types of answers that a plan asks for: the `for` of a step with `ask`, as a JSON Schema.

A field's type is a word (`date`, `integer?`), a range of integers (`1..12`), a list of choices,
`{list: TYPE}`, `{calls: [TOOL]}`, an object of further fields, or a JSON Schema. What is asked for
types the steps that read the answer, so a misspelt field is found before anything runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import quote

from wavewright.config.errors import WavewrightError, did_you_mean
from wavewright.config.sources import pointer_token
from wavewright.planner.language.signatures import ToolSignature, ToolSignatures
from wavewright.planner.plans.dispatch import call_schema, undispatchable
from wavewright.planner.schemas.validation import InvalidSchemaError, validator_of
from wavewright.planner.schemas.views import refers
from wavewright.planner.types import Json, JsonObject, JsonSchema, as_list, as_object, properties_of

WORDS: Final[Mapping[str, JsonSchema]] = {
    "text": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string", "format": "date", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
    "time": {"type": "string", "pattern": r"^\d{2}:\d{2}$"},
    "datetime": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}$"},
}
"""Types by their words; a `?` behind one lets the answer be null, for what the text may not say."""
_SYNONYMS: Final = {
    "string": "text",
    "str": "text",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
}
_SCHEMA_KEYS: Final = frozenset({"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"})
_BOUNDS: Final = re.compile(r"(-?[0-9]{1,15})\.\.(-?[0-9]{1,15})")
_JSON_TYPES: Final = frozenset(
    {"null", "boolean", "integer", "number", "string", "array", "object"}
)


class AnswerTypeError(WavewrightError):
    """What stands for the type of an answer is none; `pointer` leads to it from the `for`."""

    def __init__(self, pointer: str, message: str, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.pointer = pointer


def answer_schema(fields: Json, tools: ToolSignatures) -> JsonSchema:
    """Return the JSON Schema of an answer with these fields, all of them required.

    Args:
        fields: The types of the fields by name, as a plan writes them.
        tools: What `calls` may name.

    Raises:
        AnswerTypeError: something is no type.
    """
    if not isinstance(fields, dict) or not fields:
        message = "must name at least one field of the answer, with its type"
        raise AnswerTypeError("", message, _HINT)
    return _object(fields, "", tools)


_LITERAL_PATTERN: Final = re.compile(r"\^?([^][\\.^$|?*+(){}]*)\$?")
"""A pattern without anything that stands for several characters."""


def only_answers(schema: JsonSchema) -> Iterator[str]:
    """Yield, as JSON, the values of a schema's parts that admit only one: whoever writes such a type
    gives the answer.
    """
    choices = schema.get("enum", [schema["const"]] if "const" in schema else None)
    least, most = schema.get("minimum"), schema.get("maximum")
    pattern = schema.get("pattern")
    branches = next(
        (as_list(schema[key]) for key in ("anyOf", "oneOf") if key in schema), list[Json]()
    )
    others = [branch for branch in branches if branch != {"type": "null"}]
    if isinstance(choices, list):
        if len(choices) == 1:
            yield json.dumps(choices[0])
    elif least is not None and least == most:
        yield json.dumps(least)
    elif isinstance(pattern, str) and (text := _LITERAL_PATTERN.fullmatch(pattern)):
        yield json.dumps(text[1])
    elif len(others) == 1:
        yield from only_answers(as_object(others[0]))
    parts = [*properties_of(schema).values(), schema.get("items")]
    for part in (*parts, *as_list(schema.get("allOf"))):
        if isinstance(part, dict):
            yield from only_answers(part)


_HINT: Final = (
    "write fields with their types, such as {day: date, hours: integer, room: [a, b, c]}; "
    f"types are {', '.join(WORDS)}, ranges of integers (1..12), lists of choices, {{list: TYPE}}, "
    "{calls: [TOOL]} and JSON Schemas"
)


def _object(fields: JsonObject, pointer: str, tools: ToolSignatures) -> JsonSchema:
    types: JsonObject = {
        name: _type(value, pointer + pointer_token(name), tools) for name, value in fields.items()
    }
    return {
        "type": "object",
        "properties": types,
        "required": [*types],
        "additionalProperties": False,
    }


def _type(value: Json, pointer: str, tools: ToolSignatures) -> JsonSchema:
    if isinstance(value, str):
        return _word(value, pointer)
    if isinstance(value, list):
        return _choices(value, pointer)
    if not isinstance(value, dict) or not value:
        raise AnswerTypeError(pointer, "is no type of an answer", _HINT)
    if value.keys() == {"list"}:
        return {"type": "array", "items": _type(value["list"], f"{pointer}/list", tools)}
    if value.keys() == {"calls"}:
        return {"type": "array", "items": _calls(value["calls"], f"{pointer}/calls", tools)}
    if not _is_schema(value):
        return _object(value, pointer, tools)
    try:
        validator_of(value)
    except InvalidSchemaError as error:
        raise AnswerTypeError(pointer, f"is no JSON Schema: {error}", "fix the schema") from error
    return _of_its_own(value, pointer)


def _of_its_own(schema: JsonSchema, pointer: str) -> JsonSchema:
    """Return a schema whose references lead into itself, wherever in an answer's it stands."""
    return {"$id": f"urn:for:{quote(pointer)}", **schema} if refers(schema) else schema


def _is_schema(value: JsonObject) -> bool:
    """Whether an object is a JSON Schema, and not fields of an answer."""
    kind = value.get("type")
    names_type = kind in _JSON_TYPES if isinstance(kind, str) else isinstance(kind, list)
    if "type" in value and not names_type:
        return False
    return not value.keys().isdisjoint(_SCHEMA_KEYS)


def _word(word: str, pointer: str) -> JsonSchema:
    name = word.removesuffix("?")
    known = _range(name) or WORDS.get(_SYNONYMS.get(name, name))
    if known is None:
        near = did_you_mean(name, WORDS) or _HINT
        raise AnswerTypeError(pointer, f"is {word!r}, which is no type of an answer", str(near))
    return {"anyOf": [known, {"type": "null"}]} if word.endswith("?") else dict(known)


def _range(word: str) -> JsonSchema | None:
    """Return the type of an integer between two bounds, `1..12`; none for any other word."""
    bounds = _BOUNDS.fullmatch(word)
    if bounds is None or int(bounds[1]) > int(bounds[2]):
        return None
    return {"type": "integer", "minimum": int(bounds[1]), "maximum": int(bounds[2])}


def _choices(values: list[Json], pointer: str) -> JsonSchema:
    if not values or not all(isinstance(value, str | int | float | bool) for value in values):
        message = "is a list, and a list holds the choices of an answer: texts or numbers"
        raise AnswerTypeError(pointer, message, "write {list: TYPE} for an answer that is a list")
    if len(values) == 1 and isinstance(values[0], str) and _is_word(values[0]):
        message = f"has one choice, {values[0]!r}, which is the word of a type"
        hint = f"write {{list: {values[0]}}} for a list of such, or {{enum: [{values[0]}]}}"
        raise AnswerTypeError(pointer, message, hint)
    return {"enum": [*values]}


def _is_word(text: str) -> bool:
    name = text.removesuffix("?")
    return _SYNONYMS.get(name, name) in WORDS


def _calls(names: Json, pointer: str, tools: ToolSignatures) -> JsonSchema:
    if not isinstance(names, list) or not names:
        message = "must list the tools that may be called"
        raise AnswerTypeError(pointer, message, "write {calls: [TOOL, TOOL]}")
    called = list[ToolSignature]()
    for number, name in enumerate(names):
        tool = tools.get(name) if isinstance(name, str) else None
        place = f"{pointer}/{number}"
        if tool is None:
            near = did_you_mean(name, tools) if isinstance(name, str) else None
            hint = str(near or "name tools that the plan may call")
            raise AnswerTypeError(place, f"names {name!r}, and there is no such tool", hint)
        if undispatchable(tool):
            message = f"names {name!r}, which no other step can call"
            raise AnswerTypeError(place, message, "call it as a step of its own")
        called.append(tool)
    return _of_its_own(call_schema(called), pointer)
