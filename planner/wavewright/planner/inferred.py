"""The JSON Schema that known values show.

Inputs are known before a plan runs; where nobody declared their schema, what they are says which fields there
are. What differs between the items of a list is left open, so that nothing is refused on the strength of a guess.
"""

from __future__ import annotations

from wavewright.planner.types import Json, JsonObject, JsonSchema


def infer_schema(value: Json) -> JsonSchema:
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
            return {"type": "array", "items": _common_schema([infer_schema(item) for item in value])}
        case dict():
            properties: JsonObject = {name: infer_schema(member) for name, member in value.items()}
            return {
                "type": "object",
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            }


_DEFINITION_KEYS = ("$defs", "definitions")


def schema_definitions(schema: JsonSchema) -> JsonSchema:
    """Return the definitions that references inside a schema lead to."""
    return {name: schema[name] for name in _DEFINITION_KEYS if name in schema}


def _common_schema(schemas: list[JsonSchema]) -> JsonSchema:
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
        return _merge_object_schemas(schemas)
    if kinds == {"array"}:
        return {
            "type": "array",
            "items": _common_schema([_property_schema(schema, "items") for schema in schemas]),
        }
    return {}


def _merge_object_schemas(schemas: list[JsonSchema]) -> JsonSchema:
    parts = [_property_schema(schema, "properties") for schema in schemas]
    names = list(dict.fromkeys(name for part in parts for name in part))
    properties: JsonObject = {
        name: _common_schema([_property_schema(part, name) for part in parts if name in part])
        for name in names
    }
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in names if all(name in part for part in parts)],
        "additionalProperties": False,
    }


def _property_schema(schema: JsonObject, name: str) -> JsonObject:
    part = schema.get(name)
    return part if isinstance(part, dict) else {}
