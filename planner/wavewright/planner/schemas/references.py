"""Follow the local references of a JSON Schema, and bound what a value meets on their way."""

from __future__ import annotations

from urllib.parse import unquote

from wavewright.config.errors import WavewrightError
from wavewright.planner.types import Json, JsonSchema


class InvalidSchemaError(WavewrightError, ValueError):
    """A schema that is none, or that refers to something outside itself."""


def look_up_reference(reference: str, root: JsonSchema) -> JsonSchema | None:
    """Return the schema that a local reference such as `#/$defs/row` leads to; None where it leads nowhere."""
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return None
    node: Json = root
    for part in unquote(reference[2:]).split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and key in node:
            node = node[key]
        elif isinstance(node, list) and key.isdecimal() and int(key) < len(node):
            node = node[int(key)]
        else:
            return None
    return node if isinstance(node, dict) else None


_MAX_ALTERNATIVES = 10_000
"""Schemas that one value is compared with at most, alternatives in alternatives counted each time."""
_LISTED = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "if", "then", "else")


def check_alternatives(root: JsonSchema) -> None:
    """Refuse a schema whose alternatives double at each reference: one value takes hours to be compared.

    Raises:
        InvalidSchemaError: it does.
    """
    anchors: dict[str, Json] = {"#": root}
    schemas: list[JsonSchema] = []
    waiting: list[Json] = [root]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            schemas.append(part)
            anchors.update({f"#{part[key]}": part for key in ("$anchor", "$dynamicAnchor") if key in part})
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    known: dict[int, int] = {}

    def count(schema: Json) -> int:
        if not isinstance(schema, dict):
            return 1
        if id(schema) not in known:
            known[id(schema)] = 1  # where it is within itself
            inner: list[Json] = [schema[name] for name in _SINGLE if name in schema]
            for name in _LISTED:
                listed = schema.get(name)
                inner += listed if isinstance(listed, list) else ()
            dependent = schema.get("dependentSchemas")
            inner += dependent.values() if isinstance(dependent, dict) else ()
            for name in ("$ref", "$dynamicRef", "$recursiveRef"):
                reference = schema.get(name)
                if isinstance(reference, str):
                    inner.append(anchors.get(reference) or look_up_reference(reference, root))
            known[id(schema)] = 1 + sum(map(count, inner))
        return known[id(schema)]

    try:
        most = max(map(count, schemas))
    except RecursionError:
        most = _MAX_ALTERNATIVES + 1
    if most > _MAX_ALTERNATIVES:
        raise InvalidSchemaError(
            f"it has more than {_MAX_ALTERNATIVES:,} alternatives for one value, those in alternatives included"
        )
