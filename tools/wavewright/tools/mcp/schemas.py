"""Schemas of MCP servers in the plain form that signatures have.

A server's schema is foreign text: what is done with it costs no more than its size. References
are put in place up to `MAX_SCHEMA_BYTES`; where a definition contains itself, it is left open at
the repetition, so a recursive parameter is an `object`. See docs/reference/mcp.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Final

import jsonschema_rs

from wavewright.config.errors import WavewrightError
from wavewright.planner.schemas.validation import InvalidSchemaError, Validator, look_up_reference
from wavewright.planner.types import Json, JsonSchema
from wavewright.tools.functions.schemas import (
    LISTS_OF_SCHEMAS,
    MAPS_OF_SCHEMAS,
    SCHEMAS,
    with_subschemas,
)

MAX_SCHEMA_BYTES: Final = 64 * 2**10
"""Of one schema as JSON with every reference in place: a prompt, a check and the lock hold it
whole.
"""
MAX_SCHEMAS_BYTES: Final = 2**20
"""Of all schemas of one server."""


class SchemaRefused(WavewrightError):
    """A schema that cannot be used; the message says why."""


class SchemaAllowance:
    """What reading the schemas of one server may take, in bytes of schemas."""

    def __init__(self, count: int = MAX_SCHEMAS_BYTES) -> None:
        self._bytes_left = count

    def spend(self, count: int) -> None:
        """Take from it.

        Raises:
            SchemaRefused: nothing is left.
        """
        if self._bytes_left <= 0:
            raise SchemaRefused(
                f"the schemas of its server have more than {MAX_SCHEMAS_BYTES // 2**20} MiB"
            )
        self._bytes_left -= count


def usable_schema(schema: Json, allowance: SchemaAllowance | None = None) -> JsonSchema:
    """Return the plain form of the schema of an object.

    Raises:
        SchemaRefused: it cannot be used.
    """
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise SchemaRefused("it is no schema of an object")
    references = _references(schema)
    try:
        placed = _place(schema, frozenset(), allowance or SchemaAllowance())
    except _TooLarge:
        # Definitions that contain each other multiply: they are left open where they begin.
        cyclic = _leading_to_cycles(references, schema)
        if not cyclic:
            raise
        placed = _place(schema, cyclic, allowance or SchemaAllowance())
    plain: JsonSchema = {"properties": {}, **placed}
    try:
        json.dumps(plain, allow_nan=False)
    except ValueError as error:
        # Python writes `NaN` and `Infinity`, and `1e400` is read as the latter.
        raise SchemaRefused("it holds a number that JSON does not have") from error
    try:
        Validator(without_patterns(plain))
    except InvalidSchemaError as error:
        raise SchemaRefused(f"it is no valid JSON Schema: {error}") from error
    return plain


def _place(
    schema: JsonSchema, left_open: Collection[str], allowance: SchemaAllowance
) -> JsonSchema:
    allowance.spend(0)  # where nothing is left, nothing is read
    placing = _Placing(schema, left_open)
    try:
        return placing.schema(schema, inside=("#",))
    finally:
        allowance.spend(MAX_SCHEMA_BYTES - placing.bytes_left)


_MAX_DEPTH: Final = 40
_DROPPED: Final = frozenset(
    {"$defs", "definitions", "$ref", "$id", "id", "$anchor", "$dynamicRef", "$dynamicAnchor"}
    | {"$recursiveRef", "$recursiveAnchor", "$vocabulary", "$comment", "discriminator"}
)
"""Keywords that say nothing once every reference is in place."""
_DIALECT: Final = re.compile(
    r"https?://json-schema\.org/(?:draft-0[467]/schema#?|draft/(?:2019-09|2020-12)/schema)"
)


def _is_known_dialect(value: Json) -> bool:
    return isinstance(value, str) and _DIALECT.fullmatch(value) is not None


_NULL_SAYS: Final = frozenset({"const", "default"})
"""Keywords whose null is a value."""


def _written_anew(schema: JsonSchema, *, has_dialect: bool) -> JsonSchema:
    """Return a schema with what earlier drafts, and writers of lists that are null where they are
    empty, say in another form; without a dialect it would be no valid schema.
    """
    anew = {
        keyword: value
        for keyword, value in schema.items()
        if value is not None or keyword in _NULL_SAYS
    }
    required = anew.get("required")
    if isinstance(required, bool):
        del anew["required"]  # of a parameter, as draft 3 has it: its server holds it itself
    elif isinstance(required, list) and all(isinstance(name, str) for name in required):
        anew["required"] = [*dict.fromkeys(required)]
    if anew.get("type") == "any":
        del anew["type"]
    if has_dialect:
        return anew
    for bound in ("minimum", "maximum"):
        exclusive = f"exclusive{bound.capitalize()}"
        excludes = anew.get(exclusive)
        if isinstance(excludes, bool):
            del anew[exclusive]
            if excludes and bound in anew:
                anew[exclusive] = anew.pop(bound)
    if isinstance(anew.get("items"), list):
        anew["prefixItems"] = anew.pop("items")
        if "additionalItems" in anew:
            anew["items"] = anew.pop("additionalItems")
    return anew


class _TooLarge(SchemaRefused):
    def __init__(self) -> None:
        super().__init__(f"it is larger than {MAX_SCHEMA_BYTES // 2**10} KiB")


class _Placing:
    """Puts the references of one schema in place, and counts what that takes."""

    def __init__(self, root: JsonSchema, left_open: Collection[str]) -> None:
        self._root = root
        self._left_open = left_open
        self._has_dialect = _is_known_dialect(root.get("$schema"))
        self.bytes_left = MAX_SCHEMA_BYTES

    def schema(self, node: Json, *, inside: tuple[str, ...], depth: int = 0) -> JsonSchema:
        """Return a schema without references.

        Args:
            node: The schema; `true` is an open one.
            inside: References that lead here.
            depth: How deeply it is nested.

        Raises:
            SchemaRefused: it is too large or nested too deeply, or a reference leads outside or
                nowhere.
        """
        if depth > _MAX_DEPTH:
            raise SchemaRefused(f"it is nested more than {_MAX_DEPTH} levels deep")
        if not isinstance(node, dict):
            return {} if node is True else {"not": {}}
        base: JsonSchema = {}
        reference = node.get("$ref")
        if isinstance(reference, str):
            base = self._referenced(reference, inside, depth)
        own: JsonSchema = {}
        for keyword, value in _written_anew(node, has_dialect=self._has_dialect).items():
            if keyword in _DROPPED or (keyword == "title" and isinstance(value, str)):
                continue
            # An unknown dialect would be fetched; its keywords are read as the newest one's.
            if keyword == "$schema" and not _is_known_dialect(value):
                continue
            self._spend(len(keyword) + 6)
            own[keyword] = self._member(keyword, value, inside, depth + 1)
        return {**base, **own}

    def _referenced(self, reference: str, inside: tuple[str, ...], depth: int) -> JsonSchema:
        target = look_up_reference(reference, self._root)
        if target is None:
            raise SchemaRefused(f"it refers to {reference[:100]!r}, which is no path within it")
        if reference in inside or reference in self._left_open:
            kind = target.get("type")
            return {} if kind is None else {"type": kind}
        if len(inside) > _MAX_DEPTH:
            raise SchemaRefused(f"more than {_MAX_DEPTH} references lead from one to the next")
        return self.schema(target, inside=(*inside, reference), depth=depth)

    def _member(self, keyword: str, value: Json, inside: tuple[str, ...], depth: int) -> Json:
        def placed(member: Json) -> Json:
            self._spend(2)
            if isinstance(member, dict):
                return self.schema(member, inside=inside, depth=depth)
            return member

        if keyword in MAPS_OF_SCHEMAS and isinstance(value, dict):
            self._spend(sum(len(name) + 6 for name in value))
            value = {name: {} if member is None else member for name, member in value.items()}
        elif keyword not in (LISTS_OF_SCHEMAS if isinstance(value, list) else SCHEMAS):
            self._spend_value(value, depth)
        return with_subschemas(keyword, value, placed)

    def _spend_value(self, value: Json, depth: int) -> None:
        """Count a value that is no schema, such as a default."""
        if depth > _MAX_DEPTH:
            raise SchemaRefused(f"it is nested more than {_MAX_DEPTH} levels deep")
        match value:
            case str():
                self._spend(len(value) + 2)
            case list():
                self._spend(2)
                for item in value:
                    self._spend_value(item, depth + 1)
            case dict():
                self._spend(2)
                for name, member in value.items():
                    self._spend(len(name) + 6)
                    self._spend_value(member, depth + 1)
            case _:
                self._spend(5)

    def _spend(self, count: int) -> None:
        self.bytes_left -= count
        if self.bytes_left < 0:
            raise _TooLarge


_MAX_RAW_NODES: Final = 20_000
"""Of a schema with its definitions, before references are in place."""
_MAX_REFERENCES: Final = 500


def _references(root: Json) -> frozenset[str]:
    """Return all references within a schema.

    Raises:
        SchemaRefused: the schema is too large.
    """
    found: set[str] = set()
    nodes = 0
    waiting = [root]
    while waiting:
        node = waiting.pop()
        nodes += 1
        if nodes > _MAX_RAW_NODES:
            raise _TooLarge
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            waiting += node.values()
            reference = node.get("$ref")
            if isinstance(reference, str):
                found.add(reference)
    return frozenset(found)


def _leading_to_cycles(references: frozenset[str], root: JsonSchema) -> frozenset[str]:
    """Return the references from which one comes to a reference again.

    Raises:
        SchemaRefused: there are too many.
    """
    if len(references) > _MAX_REFERENCES:
        raise _TooLarge
    leading = {one: _references(look_up_reference(one, root)) for one in references}
    while ended := [one for one, inner in leading.items() if not inner & leading.keys()]:
        for one in ended:
            del leading[one]
    return frozenset(leading)


_MAX_PATTERN_CHARS: Final = 200
_MAX_PATTERN_BYTES: Final = 32 * 2**10
"""Of one compiled pattern."""
_ESCAPE_OR_CLASS: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_UNBOUNDED: Final = re.compile(r"[*+]|\{\d+,\}|\(\?(?!:)")


def without_patterns(schema: JsonSchema) -> JsonSchema:
    """Return a schema without any pattern.

    A server that chooses the pattern and the text can make even a matcher without backtracking
    need seconds for each MiB.
    """
    return _filtered(schema, keeps_bounded=False)


def with_bounded_patterns(schema: JsonSchema) -> JsonSchema:
    """Return a schema with those patterns only that look at the first characters of a text."""
    return _filtered(schema, keeps_bounded=True)


def _filtered(schema: JsonSchema, *, keeps_bounded: bool) -> JsonSchema:
    def filtered(member: Json) -> Json:
        if isinstance(member, dict):
            return _filtered(member, keeps_bounded=keeps_bounded)
        return member

    kept: JsonSchema = {}
    for keyword, value in schema.items():
        if keyword == "pattern":
            if keeps_bounded and isinstance(value, str) and _is_bounded(value):
                kept[keyword] = value
        elif keyword == "patternProperties":
            continue
        elif keyword in {"additionalProperties", "unevaluatedProperties"} and (
            "patternProperties" in schema
        ):
            continue  # what they hold is what no pattern has matched
        else:
            kept[keyword] = with_subschemas(keyword, value, filtered)
    return kept


def _is_bounded(pattern: str) -> bool:
    """Return whether a pattern is anchored and matches no text longer than itself allows."""
    if not pattern.startswith("^") or len(pattern) > _MAX_PATTERN_CHARS:
        return False
    structure = _ESCAPE_OR_CLASS.sub("x", pattern)
    if _UNBOUNDED.search(structure) or _has_outer_alternative(structure):
        return False
    options = jsonschema_rs.RegexOptions(size_limit=_MAX_PATTERN_BYTES)
    try:
        jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options)
    except (jsonschema_rs.ValidationError, ValueError):
        return False
    return True


def _has_outer_alternative(structure: str) -> bool:
    """Return whether `|` stands outside of every group: then only one side is anchored."""
    depth = 0
    for char in structure:
        depth += {"(": 1, ")": -1}.get(char, 0)
        if char == "|" and depth == 0:
            return True
    return False


MAX_COMPARISONS: Final = 1_000_000
"""Of parts of one output with what a schema says of one part; each takes up to half a microsecond.
"""
_APPLIED_LISTS: Final = ("anyOf", "oneOf", "allOf")
_APPLIED: Final = ("not", "if", "then", "else")
_COMPARED: Final = ("required", "dependentRequired", "dependentSchemas", "dependencies")


def is_too_much_to_compare(value: Json, schema: JsonSchema) -> bool:
    """Return whether holding a value against a plain schema takes more than `MAX_COMPARISONS`."""
    weight = schema_weight(schema)
    parts = 0
    waiting = [value]
    while waiting:
        part = waiting.pop()
        parts += 1
        if parts * weight > MAX_COMPARISONS:
            return True
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            waiting += part.values()
    return False


def schema_weight(schema: JsonSchema) -> int:
    """Return with how many parts of a plain schema one part of a value is compared at most."""
    heaviest = 1
    waiting: list[Json] = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            waiting += node.values()
            heaviest = max(heaviest, _own_weight(node))
    return heaviest


def _own_weight(node: Json) -> int:
    """Return with how many parts of a schema a value is compared, that in it left aside."""
    if not isinstance(node, dict):
        return 1
    weight = 1 + sum(_size(node[name]) for name in _COMPARED if name in node)
    choices = node.get("enum")
    if isinstance(choices, list) and any(isinstance(one, (dict, list)) for one in choices):
        weight += _size(choices)  # choices that are no records are found by their hash
    for name in _APPLIED_LISTS:
        listed = node.get(name)
        weight += sum(map(_own_weight, listed)) if isinstance(listed, list) else 0
    return weight + sum(_own_weight(node[name]) for name in _APPLIED if name in node)


def _size(value: Json) -> int:
    if isinstance(value, list):
        return 1 + sum(map(_size, value))
    if isinstance(value, dict):
        return 1 + sum(map(_size, value.values()))
    return 1
