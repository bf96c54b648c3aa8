"""A JSON Schema, seen as what one value of it may be.

References are followed inside the schema, `allOf` is merged, and of alternatives one is chosen. The result has one
type with its own keywords.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from wavewright.config.sources import pointer_keys
from wavewright.planner.types import Json, JsonObject, as_object

_MAX_DEPTH = 32
"""Layers of references and alternatives on one node; a cycle of nothing else has no value."""
_NULL: Json = {"type": "null"}
_KEYWORDS = {
    "object": {"properties", "required", "additionalProperties", "minProperties"},
    "array": {"items", "prefixItems", "minItems", "maxItems", "uniqueItems"},
    "string": {"minLength", "maxLength", "pattern", "format"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
}
"""Keywords that show the type of a schema without one."""


def simplify_schema(schema: Json, root: Json, choose: Callable[[Sequence[Json]], Json]) -> JsonObject:
    """Return a schema without references, combinations and alternatives; `{}` where anything goes.

    Args:
        schema: A part of the root.
        root: Where references lead.
        choose: Takes one of several alternatives; that of null is the last of them.
    """
    node: Json = schema
    for _ in range(_MAX_DEPTH):
        if not isinstance(node, dict):
            return {}
        if "$ref" in node:
            node = _resolved(node, root)
        elif isinstance(parts := node.get("allOf"), list):
            node = reduce(
                intersect_schemas, (_resolved(part, root) for part in parts), _without(node, "allOf")
            )
        elif (name := _alternatives(node)) is not None:
            branches = node[name]
            assert isinstance(branches, list)
            ordered = sorted(branches, key=lambda branch: branch == _NULL)
            node = intersect_schemas(_without(node, name), _resolved(choose(ordered), root))
        elif isinstance(types := node.get("type"), list) and types:
            node = {**node, "type": choose(sorted(types, key=lambda kind: kind == "null"))}
        elif node.keys() & {"type", "const", "enum"}:
            return node
        else:
            kind = next((kind for kind, keywords in _KEYWORDS.items() if node.keys() & keywords), None)
            return node if kind is None else {**node, "type": kind}
    return {}


def intersect_schemas(one: Json, other: Json) -> JsonObject:
    """Return a schema of what fits two schemas, as far as that can be written keyword by keyword."""
    first = as_object(one)
    second = as_object(other)
    both = first.keys() & second.keys()
    return {**first, **second, **{name: _intersect_keyword(name, first[name], second[name]) for name in both}}


def _intersect_keyword(name: str, one: Json, other: Json) -> Json:
    match name, one, other:
        case "properties", dict(), dict():
            both = one.keys() & other.keys()
            return {**one, **other, **{key: intersect_schemas(one[key], other[key]) for key in both}}
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
            return types[0] if len(types) == 1 else (types or other)
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
    """Return a part with its reference followed, so that two parts can be merged into one."""
    if not isinstance(schema, dict) or not isinstance(reference := schema.get("$ref"), str):
        return schema
    found: Json = root
    for token in pointer_keys(reference.removeprefix("#")):
        found = found.get(token, {}) if isinstance(found, dict) else {}
    return intersect_schemas(found, _without(schema, "$ref"))


def _without(node: JsonObject, name: str) -> JsonObject:
    return {key: value for key, value in node.items() if key != name}
