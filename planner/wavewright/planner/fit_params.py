"""Whether a step's parameters fit its tool's input schema, literals and references alike.

A parameter that holds no `${…}` is validated as it stands. Where it does, the value is walked beside the schema:
literal parts are validated, a whole `${…}` is compared by the type of what it gives, and text with a `${…}` in
it is a string. A reference whose own fault is reported elsewhere fits everything, so one mistake is one message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from wavewright.planner.cel_faults import ExpressionFault
from wavewright.planner.embedded import parse_text
from wavewright.planner.hashing import canonical_json
from wavewright.planner.inferred import scope_of
from wavewright.planner.pointers import child
from wavewright.planner.suggestions import shown, type_name
from wavewright.planner.types import Json, JsonObject, JsonSchema
from wavewright.planner.uses import Use, holds_expression, text_uses
from wavewright.planner.validators import Misfit, Validator

TypeOf = Callable[[Use], JsonSchema | None]
"""What an expression gives; nothing where its own fault is reported elsewhere."""

REFERENCE = "reference"
"""Keyword of a misfit that is a reference's."""

_TEXT: JsonSchema = {"type": "string"}


class InputSchema:
    """A tool's input schema with the validators of its parts, each built when first needed."""

    def __init__(self, schema: JsonSchema) -> None:
        self.schema = schema
        properties = schema.get("properties")
        self.properties: JsonObject = properties if isinstance(properties, dict) else {}
        self._scope = scope_of(schema)
        # Keyed by identity: every part that is asked for belongs to `schema` or to `_whole`, and so stays alive.
        self._validators: dict[int, Validator] = {}
        self._whole: dict[int, JsonSchema] = {}

    def accepts(self, params: JsonObject) -> bool:
        """Return whether literal parameters fit."""
        return self._validator(self.schema).accepts(params)

    def misfits(self, params: JsonObject, pointer: str, type_of: TypeOf) -> list[Misfit]:
        """Return why parameters do not fit, in their order."""
        return list(self._fit(params, self.schema, pointer, type_of))

    def _fit(self, value: Json, schema: Json, pointer: str, type_of: TypeOf) -> Iterator[Misfit]:
        if schema is True or schema == {}:
            return
        if not holds_expression(value):
            yield from self._validator(schema).misfits(value, pointer)
            return
        if not isinstance(schema, dict):
            yield Misfit(pointer, "false", "must not be there")
            return
        resolved = self._resolved(schema)
        if isinstance(value, str):
            yield from self._text(value, resolved, pointer, type_of)
            return
        for part in _list(resolved.get("allOf")):
            yield from self._fit(value, part, pointer, type_of)
        for keyword in ("anyOf", "oneOf"):
            if keyword in resolved:
                yield from self._one_of(value, _list(resolved[keyword]), pointer, type_of)
        if isinstance(value, list):
            yield from self._list(value, resolved, pointer, type_of)
        elif isinstance(value, dict):
            yield from self._object(value, resolved, pointer, type_of)

    def _text(self, text: str, schema: JsonSchema, pointer: str, type_of: TypeOf) -> Iterator[Misfit]:
        try:
            uses = text_uses(text, pointer, "params")
            parts = parse_text(text)
        except ExpressionFault:
            return
        if not uses:
            literal = "".join(part for part in parts if isinstance(part, str))
            yield from self._validator(schema).misfits(literal, pointer)
            return
        from wavewright.planner.types_fit import misfit  # literal parameters never need it

        whole = uses[0].whole
        given = type_of(uses[0]) if whole else _TEXT
        reason = None if given is None else misfit(given, self._scope | schema)
        if reason is not None:
            yield Misfit(pointer, REFERENCE, reason, hint=_conversion(given or {}, schema, uses[0]))

    def _one_of(self, value: Json, branches: list[Json], pointer: str, type_of: TypeOf) -> Iterator[Misfit]:
        """Yield nothing where some branch fits, else the faults of the branch that comes nearest."""
        tried = [list(self._fit(value, branch, pointer, type_of)) for branch in branches]
        if tried and all(tried):
            yield from min(
                tried, key=lambda faults: (any(fault.pointer == pointer for fault in faults), len(faults))
            )

    def _list(self, items: list[Json], schema: JsonSchema, pointer: str, type_of: TypeOf) -> Iterator[Misfit]:
        if not _allows(schema, "array"):
            yield Misfit(pointer, "type", f"is {shown(items)}, but must be {type_name(schema)}")
            return
        least, most = schema.get("minItems"), schema.get("maxItems")
        if isinstance(least, int) and len(items) < least:
            yield Misfit(pointer, "minItems", f"is {shown(items)}, but must have at least {least} items")
        if isinstance(most, int) and len(items) > most:
            yield Misfit(pointer, "maxItems", f"is {shown(items)}, but must have at most {most} items")
        first = _list(schema.get("prefixItems"))
        rest = schema.get("items", True)
        for number, item in enumerate(items):
            part = first[number] if number < len(first) else rest
            yield from self._fit(item, part, child(pointer, number), type_of)

    def _object(
        self, members: JsonObject, schema: JsonSchema, pointer: str, type_of: TypeOf
    ) -> Iterator[Misfit]:
        if not _allows(schema, "object"):
            yield Misfit(pointer, "type", f"is {shown(members)}, but must be {type_name(schema)}")
            return
        for name in _list(schema.get("required")):
            if isinstance(name, str) and name not in members:
                yield Misfit(pointer, "required", f"lacks {name!r}", name)
        properties = schema.get("properties")
        rest = schema.get("additionalProperties", True)
        for name, value in members.items():
            if isinstance(properties, dict) and name in properties:
                yield from self._fit(value, properties[name], child(pointer, name), type_of)
            elif rest is False and "patternProperties" not in schema:
                yield Misfit(pointer, "additionalProperties", f"has {name!r}, which is not known here", name)
            elif "patternProperties" not in schema:
                yield from self._fit(value, rest, child(pointer, name), type_of)

    def _validator(self, schema: Json) -> Validator:
        built = self._validators.get(id(schema))
        if built is None:
            nothing: JsonSchema = {"not": {}}
            whole = self._scope | schema if isinstance(schema, dict) else nothing
            built = self._validators[id(schema)] = Validator(whole)
        return built

    def _resolved(self, schema: JsonSchema) -> JsonSchema:
        """Follow `$ref` inside the schema, a bounded number of times; whatever stands beside it stays."""
        if "$ref" not in schema:
            return schema
        whole = self._whole.get(id(schema))
        if whole is None:
            whole = self._whole[id(schema)] = _followed(schema, self.schema)
        return whole


def input_schema(schema: JsonSchema) -> InputSchema:
    """Return the prepared form of a tool's input schema; equal schemas share one.

    Raises:
        BadSchemaError: it is no JSON Schema, or refers to something outside itself.
    """
    return _prepared(canonical_json(schema))


@lru_cache(maxsize=512)
def _prepared(text: bytes) -> InputSchema:
    import json

    schema: JsonSchema = json.loads(text)
    prepared = InputSchema(schema)
    prepared.misfits({}, "", lambda _: None)
    return prepared


def _followed(schema: JsonSchema, root: JsonSchema) -> JsonSchema:
    for _ in range(16):
        target = schema.get("$ref")
        if not isinstance(target, str) or not target.startswith("#"):
            break
        found = _look_up(root, target[1:])
        beside = {name: part for name, part in schema.items() if name != "$ref"}
        schema = found | beside if isinstance(found, dict) else beside
    return schema


def _conversion(given: JsonSchema, wanted: JsonSchema, use: Use) -> str | None:
    """Return how to make a text of a plain value, where a text is wanted."""
    if wanted.get("type") != "string" or given.get("type") not in ("number", "integer", "boolean"):
        return None
    return f"convert it: ${{string({use.expression.strip()})}}"


def _look_up(root: JsonSchema, pointer: str) -> Json:
    node: Json = root
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(node, dict) or key not in node:
            return None
        node = node[key]
    return node


def _allows(schema: JsonSchema, kind: str) -> bool:
    allowed = schema.get("type")
    return allowed is None or allowed == kind or (isinstance(allowed, list) and kind in allowed)


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
