"""The JSON Schema that known values show.

Inputs are known before a plan runs; where nobody declared their schema, what they are says which fields there
are. What differs between the items of a list is left open, so that nothing is refused on the strength of a guess.
"""

from __future__ import annotations

from wavewright.planner.types import Json, JsonObject, JsonSchema


def schema_of(value: Json) -> JsonSchema:
    """Return a schema that the value fits, closed to fields that no part of it has."""
    match value:
        case None:
            return {}
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer"}
        case float():
            return {"type": "number"}
        case str():
            return {"type": "string"}
        case list():
            return {"type": "array", "items": _common([schema_of(item) for item in value])}
        case dict():
            properties: JsonObject = {name: schema_of(member) for name, member in value.items()}
            return {
                "type": "object",
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            }


_SCOPES = ("$defs", "definitions")


def scope_of(schema: JsonSchema) -> JsonSchema:
    """Return the definitions that references inside a schema lead to."""
    return {name: schema[name] for name in _SCOPES if name in schema}


def _common(schemas: list[JsonSchema]) -> JsonSchema:
    """Return one schema for items of several shapes: equal shapes stay, objects are merged, the rest is open."""
    if not schemas:
        return {}
    first = schemas[0]
    if all(schema == first for schema in schemas):
        return first
    kinds = {str(schema.get("type")) for schema in schemas}
    if kinds == {"integer", "number"}:
        return {"type": "number"}
    if kinds == {"object"}:
        return _merged(schemas)
    if kinds == {"array"}:
        return {"type": "array", "items": _common([_part(schema, "items") for schema in schemas])}
    return {}


def _merged(schemas: list[JsonSchema]) -> JsonSchema:
    parts = [_part(schema, "properties") for schema in schemas]
    names = list(dict.fromkeys(name for part in parts for name in part))
    properties: JsonObject = {
        name: _common([_part(part, name) for part in parts if name in part]) for name in names
    }
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in names if all(name in part for part in parts)],
        "additionalProperties": False,
    }


def _part(schema: JsonObject, name: str) -> JsonObject:
    part = schema.get(name)
    return part if isinstance(part, dict) else {}
