"""Schemas of foreign tools: which can be used, and their plain form without references.

A schema is refused where it is no schema of an object, is larger than `MAX_SCHEMA_BYTES` with every reference in place,
refers to itself or to another document, or is not valid. Such a tool is left out; the others of its server are used.
"""

from __future__ import annotations

import json
from typing import Final

from wavewright.config.errors import WavewrightError
from wavewright.planner.schemas.references import InvalidSchemaError
from wavewright.planner.schemas.validation import Validator
from wavewright.planner.types import Json, JsonSchema, as_object
from wavewright.tools.functions.schemas import plain_schema

MAX_SCHEMA_BYTES: Final = 64 * 2**10
"""Of one schema as JSON with every reference in place: a prompt, a check and the lock hold it whole."""

_MAX_DEPTH: Final = 40
_DEFINITIONS: Final = ("$defs", "definitions")


class SchemaRefused(WavewrightError):
    """A schema that cannot be used; the message says why."""


def usable_schema(schema: Json) -> JsonSchema:
    """Return the plain form of the schema of an object.

    Raises:
        SchemaRefused: it cannot be used.
    """
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise SchemaRefused("it is no schema of an object")
    definitions: JsonSchema = {}
    for key in _DEFINITIONS:
        found = schema.get(key)
        definitions |= as_object(found)
    body = {key: value for key, value in schema.items() if key not in _DEFINITIONS}
    if _expanded_size(body, definitions, {}, ()) > MAX_SCHEMA_BYTES:
        raise SchemaRefused(f"it is larger than {MAX_SCHEMA_BYTES // 2**10} KiB")
    plain: JsonSchema = {"properties": {}, **plain_schema({**body, "$defs": definitions})}
    try:
        Validator(plain)
    except InvalidSchemaError as error:
        raise SchemaRefused(f"it is no valid JSON Schema: {error}") from error
    return plain


def _expanded_size(
    node: Json, definitions: JsonSchema, sizes: dict[str, int], inside: tuple[str, ...], depth: int = 0
) -> int:
    """Return about how many bytes a schema has with its references in place.

    Raises:
        SchemaRefused: it is nested too deeply, or a reference leads to itself, outside or nowhere.
    """
    if depth > _MAX_DEPTH:
        raise SchemaRefused(f"it is nested more than {_MAX_DEPTH} levels deep")
    if isinstance(node, list):
        return 2 + sum(_expanded_size(item, definitions, sizes, inside, depth + 1) for item in node)
    if not isinstance(node, dict):
        return len(json.dumps(node))
    size = 2
    for key, value in node.items():
        if key == "$ref" and isinstance(value, str):
            size += _definition_size(value, definitions, sizes, inside)
        else:
            size += len(key) + _expanded_size(value, definitions, sizes, inside, depth + 1)
    return size


def _definition_size(
    reference: str, definitions: JsonSchema, sizes: dict[str, int], inside: tuple[str, ...]
) -> int:
    place, _, name = reference.rpartition("/")
    if place not in {f"#/{key}" for key in _DEFINITIONS} or name not in definitions:
        raise SchemaRefused(f"it refers to {reference!r}, which is not among its definitions")
    if name in inside:
        raise SchemaRefused(f"its definition {name!r} contains itself")
    if name not in sizes:
        sizes[name] = _expanded_size(definitions[name], definitions, sizes, (*inside, name))
    return sizes[name]
