"""A JSON Schema, seen as what one value of it may be.

References are followed inside the schema, `allOf` is folded into its parts, and of alternatives one is taken. What
comes out is a *plain* schema: one type with its own keywords. What these rules cannot see (`not`, `if`) is left to
the validator, which has the last word on every value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from wavewright.planner.pointers import pointer_tokens
from wavewright.planner.types import Json, JsonObject

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
