"""Types as a model reads them: `{code: string, prices: [{date: string, close: number}]}`.

A type text says which fields there are and what they hold, as deep as there is room. A field with `?` may be absent;
`any` promises nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from wavewright.planner.types import Json, JsonObject, JsonSchema

MAX_TYPE_TEXT_LENGTH = 1200
"""Of one type; a longer one is shown with fewer levels, and what lies below is only named."""

_MAX_DEPTH = 6
_MAX_CHOICES = 12
_MAX_FIELDS = 60
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def type_text(schema: JsonSchema, most: int = MAX_TYPE_TEXT_LENGTH) -> str:
    """Return a schema as a type, with as many levels of fields as fit into so many characters."""
    text = ""
    for depth in range(_MAX_DEPTH, -1, -1):
        text = _TypeTextRenderer(schema).text(schema, depth)
        if len(text) <= most:
            break
    return text


def fields_text(
    schema: JsonSchema, *, hidden: frozenset[str] = frozenset(), most: int = MAX_TYPE_TEXT_LENGTH
) -> str:
    """Return the properties of an object schema as `name: type, other?: type`."""
    text = ""
    for depth in range(_MAX_DEPTH, -1, -1):
        text = ", ".join(_TypeTextRenderer(schema).fields(schema, depth, hidden))
        if len(text) <= most:
            break
    return text


class _TypeTextRenderer:
    """The types of one schema, whose references stay inside it."""

    def __init__(self, root: JsonSchema) -> None:
        self._root = root

    def text(self, schema: Json, depth: int, followed: frozenset[str] = frozenset()) -> str:
        """Return a part of the schema as a type, `depth` levels of fields deep."""
        if not isinstance(schema, dict):
            return "any" if schema is not False else "nothing"
        reference = schema.get("$ref")
        if isinstance(reference, str):
            target = self._target(reference)
            if reference in followed or target is None:
                return "any"
            return self.text(target, depth, followed | {reference})
        choices = _choices(schema)
        if choices is not None:
            return choices
        for keyword in ("anyOf", "oneOf"):
            branches = schema.get(keyword)
            if isinstance(branches, list) and branches:
                return _union(self.text(branch, depth, followed) for branch in branches)
        return self._plain(schema, depth, followed)

    def fields(
        self, schema: JsonObject, depth: int, hidden: frozenset[str], followed: frozenset[str] = frozenset()
    ) -> list[str]:
        """Return each property of an object with its type."""
        properties = schema.get("properties")
        if not isinstance(properties, dict):
            return []
        required = schema.get("required")
        needed = required if isinstance(required, list) else []
        found = [
            f"{_key(name)}{'' if name in needed else '?'}: {self.text(part, depth - 1, followed)}"
            for name, part in properties.items()
            if name not in hidden
        ]
        return found if len(found) <= _MAX_FIELDS else [*found[:_MAX_FIELDS], "…"]

    def _plain(self, schema: JsonObject, depth: int, followed: frozenset[str]) -> str:
        kind = schema.get("type")
        if isinstance(kind, list):
            return _union(self._plain({**schema, "type": one}, depth, followed) for one in kind)
        if kind == "array":
            prefix = schema.get("prefixItems")
            if isinstance(prefix, list) and prefix:
                return "[" + ", ".join(self.text(item, depth, followed) for item in prefix) + "]"
            return f"[{self.text(schema.get('items', {}), depth, followed)}]"
        if kind == "object" or "properties" in schema:
            fields = self.fields(schema, depth, frozenset(), followed) if depth > 0 else []
            return "{" + ", ".join(fields) + "}" if fields else self._map(schema, depth, followed)
        return kind if isinstance(kind, str) else "any"

    def _map(self, schema: JsonObject, depth: int, followed: frozenset[str]) -> str:
        values = schema.get("additionalProperties")
        if isinstance(values, dict) and values and depth > 0:
            return "{[key]: " + self.text(values, depth - 1, followed) + "}"
        return "object"

    def _target(self, reference: str) -> Json:
        node: Json = self._root
        if not reference.startswith("#"):
            return None
        for part in reference[1:].split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            node = node.get(key) if isinstance(node, dict) else None
        return node


def _choices(schema: JsonObject) -> str | None:
    """Return the values that a schema lists, where it does."""
    if "const" in schema:
        return _literal(schema["const"])
    options = schema.get("enum")
    if not isinstance(options, list) or not options:
        return None
    shown = [_literal(option) for option in options[:_MAX_CHOICES]]
    return " | ".join([*shown, "…"] if len(options) > _MAX_CHOICES else shown)


def _literal(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


def _union(texts: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(texts))
    # What may be anything and null is still anything.
    return "any" if "any" in distinct else " | ".join(distinct)


def _key(name: str) -> str:
    return name if _PLAIN_KEY.fullmatch(name) else _literal(name)
