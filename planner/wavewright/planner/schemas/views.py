"""Read JSON Schemas as types.

A *view* is what a schema says about the kind of a value: references are followed, null is noted
apart, and the kind is
that of `type`, `enum` or `const`. What a schema leaves open, and what is not understood here, is
`open`: it fits every type, so a schema can never make a valid plan look faulty.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import combinations
from typing import Final, Literal, NamedTuple, TypeAlias, cast

from wavewright.planner.schemas.validation import (
    DEFINITIONS,
    count_parts,
    look_up_reference,
    parts_of,
    schema_definitions,
)
from wavewright.planner.types import Json, JsonSchema, as_list, as_object, properties_of

Kind: TypeAlias = Literal[
    "open", "null", "boolean", "integer", "number", "string", "array", "object", "union",
    "timestamp", "duration",
]  # fmt: skip

CEL_TYPE: Final = "$cel"
"""Key of the schemas made here for values that exist inside an expression only, such as timestamps.
"""
_REFERENCES_FOLLOWED = 32
_ALTERNATIVES_FOLLOWED = 8
"""Levels of anyOf in anyOf; a schema may refer to itself there."""
_REFERENCES_INLINED = 4
_LISTS_FOLLOWED = 8
"""Lists of lists; a schema may refer to itself there."""
_MAX_SCHEMA_PARTS = 10_000


class ScopedSchema(NamedTuple):
    """A schema, and the schema in which its `$ref`s are looked up."""

    schema: JsonSchema
    root: JsonSchema


class SchemaView(NamedTuple):
    """What a schema says about the kind of a value."""

    kind: Kind
    nullable: bool
    schema: JsonSchema
    root: JsonSchema
    branches: tuple[SchemaView, ...] = ()
    """The kinds that a `union` may have; none of them a union."""
    is_exact: bool = True
    """Whether the schema says no more than this, so that what fits the view fits the schema."""

    @property
    def alternatives(self) -> tuple[SchemaView, ...]:
        """The branches of a union, else the view itself."""
        return self.branches or (self,)

    @property
    def kinds(self) -> set[Kind]:
        """The kinds that a value may have, null left out."""
        return {view.kind for view in self.alternatives}

    @property
    def scoped(self) -> ScopedSchema:
        """The schema behind the view, null taken out."""
        return ScopedSchema(self.schema, self.root)


def scoped_schema(schema: JsonSchema) -> ScopedSchema:
    """Return a schema that stands for itself."""
    return ScopedSchema(schema, schema)


OPEN: Final = scoped_schema({})
ANYTHING: Final = SchemaView("open", nullable=True, schema={}, root={})
_UNKNOWN: Final = ANYTHING._replace(is_exact=False)
NOTES: Final = frozenset(
    {"title", "description", "default", "examples", "$defs", "definitions", "$schema"}
    | {"$comment", "deprecated", "readOnly", "writeOnly", "example", "discriminator"}
)
"""Keywords that restrict nothing."""
_JSON_TYPES: Final = frozenset(
    {"null", "boolean", "integer", "number", "string", "array", "object"}
)
_NULLABLE_KINDS: Final = frozenset({"null", "open"})


def subschema(schema: Json, root: JsonSchema) -> ScopedSchema:
    """Return a schema found inside another; one that brings definitions or a name of its own is
    looked up in itself.
    """
    if not isinstance(schema, dict):
        return OPEN
    if any(word in schema for word in (*DEFINITIONS, "$id")):
        return scoped_schema(schema)
    return ScopedSchema(schema, root)


def view_schema(place: ScopedSchema, depth: int = 0) -> SchemaView:
    """Return what a schema says about the kind of a value."""
    if depth > _ALTERNATIVES_FOLLOWED:
        return _UNKNOWN
    if "$ref" in place.schema:
        view = view_schema(_follow_references(place), depth + 1)
        # What stands beside a reference is not followed.
        is_alone = place.schema.keys() <= NOTES | {"$ref"}
        return view if is_alone else view._replace(is_exact=False)
    schema, root = place
    if isinstance(parts := schema.get("allOf"), list) and parts:
        return _all_of(schema, parts, root, depth)
    named = schema.get("type")
    if isinstance(named, str):
        named = schema.get(CEL_TYPE, named if named in _JSON_TYPES else "open")
        return SchemaView(cast("Kind", named), named in _NULLABLE_KINDS, schema, root)
    if isinstance(named, list):
        return _union(
            [view_schema(ScopedSchema({**schema, "type": word}, root), depth + 1) for word in named]
        )
    for word in ("anyOf", "oneOf"):
        branches = schema.get(word)
        if isinstance(branches, list) and branches and "properties" not in schema:
            views = [view_schema(subschema(branch, root), depth + 1) for branch in branches]
            is_whole = schema.keys() <= NOTES | {word} and (word == "anyOf" or _are_apart(views))
            union = _union(views)
            return union if is_whole else union._replace(is_exact=False)
    return _untyped(schema, root, depth)


def view_of(schema: JsonSchema) -> SchemaView:
    """Return what a schema that stands for itself says about the kind of a value."""
    return view_schema(scoped_schema(schema))


def _follow_references(place: ScopedSchema) -> ScopedSchema:
    """Return the schema at the end of a chain of local references; an open one where it leads
    nowhere.
    """
    for _ in range(_REFERENCES_FOLLOWED):
        reference = place.schema.get("$ref")
        if not isinstance(reference, str):
            return place
        followed = look_up_reference(reference, place.root)
        if followed is None:
            return OPEN
        place = subschema(followed, place.root)
    return OPEN


def _untyped(schema: JsonSchema, root: JsonSchema, depth: int) -> SchemaView:
    if "const" in schema:
        return view_schema(
            ScopedSchema({**schema, "type": _kind_of_value(schema["const"])}, root), depth + 1
        )
    values = schema.get("enum")
    if isinstance(values, list) and values:
        words = sorted({_kind_of_value(value) for value in values})
        kinds: Json = words[0] if len(words) == 1 else list[Json](words)
        return view_schema(ScopedSchema({**schema, "type": kinds}, root), depth + 1)
    if "properties" in schema or "required" in schema or "additionalProperties" in schema:
        return SchemaView("object", nullable=False, schema=schema, root=root)
    if "items" in schema or "prefixItems" in schema:
        return SchemaView("array", nullable=False, schema=schema, root=root)
    return ANYTHING if schema.keys() <= NOTES else _UNKNOWN


def _are_apart(views: Sequence[SchemaView]) -> bool:
    """Whether no value fits two of these for certain: they are of different kinds, or objects that
    are told apart by a field.
    """
    if sum(view.nullable for view in views) > 1:
        return False  # null fits both
    branches = [branch for view in views for branch in view.alternatives]
    kinds = [branch.kind for branch in branches]
    if "open" not in kinds and len({*kinds}) == len(kinds):
        return not {"integer", "number"} <= {*kinds}
    return {*kinds} == {"object"} and all(
        _are_told_apart(*pair) for pair in combinations(branches, 2)
    )


def _are_told_apart(one: SchemaView, other: SchemaView) -> bool:
    """Whether one of two objects has to have a field that the other may not have, or a field that
    both must have has other values in each.
    """
    return any(
        closed.schema.get("additionalProperties") is False
        and "patternProperties" not in closed.schema
        and not {*required_fields(needing)} <= field_schemas(closed).keys()
        for needing, closed in ((one, other), (other, one))
    ) or any(_has_other_values(one, other, name) for name in required_fields(one))


def _has_other_values(one: SchemaView, other: SchemaView, name: str) -> bool:
    first, second = _listed_values(one, name), _listed_values(other, name)
    return first is not None and second is not None and first.isdisjoint(second)


def _listed_values(view: SchemaView, name: str) -> set[str] | None:
    """Return the values, as text, that a field may have which an object must have, if listed."""
    place = field_schema(view, name) if name in required_fields(view) else None
    values = None if place is None else allowed_values(view_schema(place).schema)
    return None if values is None else {json.dumps(value) for value in values}


def _kind_of_value(value: Json) -> str:
    return _KINDS_OF_VALUES.get(type(value), "object")


_KINDS_OF_VALUES: Final[Mapping[type, str]] = {
    type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string", list: "array",
}  # fmt: skip


def _union(views: Sequence[SchemaView]) -> SchemaView:
    flat: list[SchemaView] = []
    nullable = False
    for view in views:
        nullable = nullable or view.nullable
        if view.kind == "open":
            is_free = any(other.kind == "open" and other.is_exact for other in views)
            return ANYTHING if is_free else _UNKNOWN
        for branch in view.alternatives:
            if branch.kind == "null":
                nullable = True
                continue
            part = branch._replace(is_exact=branch.is_exact and view.is_exact)
            if part not in flat:
                flat.append(part)
    if not flat:
        return SchemaView("null", nullable=True, schema={"type": "null"}, root={})
    if len(flat) == 1:
        only = flat[0]
        return only._replace(nullable=nullable)
    joined = compose_schema(
        [branch.scoped for branch in flat], lambda branches: {"anyOf": branches}
    )
    is_exact = all(branch.is_exact for branch in flat)
    return SchemaView("union", nullable, joined.schema, joined.root, tuple(flat), is_exact)


def _all_of(schema: JsonSchema, parts: list[Json], root: JsonSchema, depth: int) -> SchemaView:
    """Return the view of schemas that hold together: objects are merged, else the first that says a
    kind counts. It is exact of one schema alone.
    """
    rest: JsonSchema = {key: value for key, value in schema.items() if key != "allOf"}
    views = [
        view
        for view in (view_schema(subschema(part, root), depth + 1) for part in (*parts, rest))
        if view.kind != "open"
    ]
    if len(parts) == 1 and rest.keys() <= NOTES:
        return views[0] if views else view_schema(subschema(parts[0], root), depth + 1)
    if not views:
        return _UNKNOWN
    if len(views) == 1 or any(view.kind != "object" for view in views):
        return views[0]._replace(is_exact=False)
    places: dict[str, ScopedSchema] = {}
    needed: list[Json] = []
    for view in views:
        for name, part in field_schemas(view).items():
            place = subschema(part, view.root)
            places[name] = both_schemas(places[name], place) if name in places else place
        needed += required_fields(view)
    merged = object_schema(places, needed)
    # Not what a part says of other fields, which it says of the fields of the other parts, too.
    others: JsonSchema = (
        {"additionalProperties": True} if any(map(_has_other_fields, views)) else {}
    )
    schema = {**merged.schema, **others}
    nullable = all(view.nullable for view in views)
    return SchemaView("object", nullable, schema, merged.root, is_exact=False)


def _has_other_fields(owner: SchemaView) -> bool:
    """Return whether an object says that it has fields beside those that it names."""
    keywords = owner.schema.keys() & {"patternProperties", "propertyNames"}
    return bool(keywords) or owner.schema.get("additionalProperties", False) is not False


def both_schemas(one: ScopedSchema, other: ScopedSchema) -> ScopedSchema:
    """Return the schema of a value that fits both."""
    return one if one == other else compose_schema([one, other], lambda parts: {"allOf": parts})


def self_contained_schema(place: ScopedSchema) -> JsonSchema:
    """Return a schema that can be read on its own: definitions that its references need go with it."""
    if place.schema is place.root or not refers(place.schema):
        return place.schema
    return {**place.schema, **schema_definitions(place.root)}


def refers(value: Json) -> bool:
    """Return whether a schema, or a part of it, refers to another."""
    return (isinstance(value, dict) and "$ref" in value) or any(map(refers, parts_of(value)))


def compose_schema(
    places: Sequence[ScopedSchema], build: Callable[[list[Json]], JsonSchema]
) -> ScopedSchema:
    """Return a schema built of others, in which the references of all of them can be looked up.

    One that grows beyond 10,000 parts is left open: `.map(x, [x, x])` doubles it each time.
    """
    left = _MAX_SCHEMA_PARTS
    for place in places:
        left = count_parts(place.schema, left)
    if left < 0:
        return OPEN
    referring = [place for place in places if refers(place.schema)]
    if not referring:
        return scoped_schema(build([place.schema for place in places]))
    if all(place.root is referring[0].root for place in referring):
        return ScopedSchema(build([place.schema for place in places]), referring[0].root)
    return scoped_schema(build([_inlined(place.schema, place.root, ()) for place in places]))


def _inlined(value: Json, root: JsonSchema, following: tuple[str, ...]) -> Json:
    """Return a schema with its references replaced by what they refer to; one to itself is left
    open.
    """
    if isinstance(value, list):
        return [_inlined(item, root, following) for item in value]
    if not isinstance(value, dict):
        return value
    reference = value.get("$ref")
    if not isinstance(reference, str):
        return {
            key: _inlined(item, root, following)
            for key, item in value.items()
            if key not in DEFINITIONS
        }
    referred = look_up_reference(reference, root)
    if referred is None or reference in following or len(following) == _REFERENCES_INLINED:
        return {}
    return _inlined(referred, root, (*following, reference))


def object_schema(
    places: dict[str, ScopedSchema], needed: list[Json], *, closed: bool = False
) -> ScopedSchema:
    """Return the schema of an object with such fields."""

    def build(schemas: list[Json]) -> JsonSchema:
        properties: JsonSchema = dict(zip(places, schemas, strict=True))
        schema: JsonSchema = {"type": "object", "properties": properties, "required": needed}
        return {**schema, "additionalProperties": False} if closed else schema

    return compose_schema(list(places.values()), build)


def union_schema(one: ScopedSchema, other: ScopedSchema) -> ScopedSchema:
    """Return the schema of a value that fits one or the other."""
    if one == other:
        return one
    if view_schema(one).kind == "open" or view_schema(other).kind == "open":
        return OPEN
    return compose_schema([one, other], _any_of)


def _union_of(places: Iterable[ScopedSchema | None]) -> ScopedSchema | None:
    """Return the schema of a value that fits one of several, of which some may not be there."""
    there = [place for place in places if place is not None]
    return reduce(union_schema, there) if there else None


def _any_of(schemas: list[Json]) -> JsonSchema:
    """Return a schema for any of several; one that is itself only a choice is spread out."""
    branches: list[Json] = []
    for schema in schemas:
        inner = schema.get("anyOf") if isinstance(schema, dict) and len(schema) == 1 else None
        alternatives = inner if isinstance(inner, list) else [schema]
        branches += [branch for branch in alternatives if branch not in branches]
    return as_object(branches[0]) if len(branches) == 1 else {"anyOf": branches}


def without_null(place: ScopedSchema) -> ScopedSchema:
    """Return the schema of a value that is known not to be null."""
    view = view_schema(place)
    if not view.nullable or view.kind in ("open", "null"):
        return place
    return view.scoped if _kinds_named(view.schema) else place


def _kinds_named(schema: JsonSchema) -> bool:
    """Whether the schema behind a view is one that no longer allows null."""
    named = schema.get("type")
    choices = [schema["const"]] if "const" in schema else as_list(schema.get("enum"))
    return (isinstance(named, str) or "anyOf" in schema) and None not in choices


def array_schema(elements: ScopedSchema) -> ScopedSchema:
    """Return the schema of a list of such elements."""
    return compose_schema([elements], lambda schemas: {"type": "array", "items": schemas[0]})


def tuple_schema(elements: Sequence[ScopedSchema]) -> ScopedSchema:
    """Return the schema of a list that has these elements and no others. Where they are of several
    kinds, each place has its own: `[name, index]` is a text and an integer.
    """
    length: JsonSchema = {"type": "array", "minItems": len(elements), "maxItems": len(elements)}
    if len({view_schema(element).kind for element in elements}) == 1:
        element = reduce(union_schema, elements)
        return compose_schema([element], lambda schemas: {"items": schemas[0], **length})
    return compose_schema(elements, lambda schemas: {"prefixItems": schemas, **length})


def field_schema(owner: SchemaView, name: str) -> ScopedSchema | None:
    """Return the schema of a field, or None where the value cannot have it."""
    match owner.kind:
        case "open":
            return OPEN
        case "object":
            return _object_field(owner, name)
        case "union":
            return _union_of(field_schema(branch, name) for branch in owner.branches)
        case _:
            return None


def _object_field(owner: SchemaView, name: str) -> ScopedSchema | None:
    properties = field_schemas(owner)
    if name in properties:
        return subschema(properties[name], owner.root)
    if "patternProperties" in owner.schema or "propertyNames" in owner.schema:
        return OPEN
    rest = owner.schema.get("additionalProperties")
    if isinstance(rest, dict):
        return subschema(rest, owner.root)
    # An object that names its fields has no others, but for those that it must have.
    if rest is True or (rest is None and (not properties or name in required_fields(owner))):
        return OPEN
    return None


def field_schemas(owner: SchemaView) -> dict[str, Json]:
    """Return the named fields of an object, or of every branch of a union."""
    if owner.kind == "union":
        return {
            name: schema
            for branch in owner.branches
            for name, schema in field_schemas(branch).items()
        }
    return properties_of(owner.schema)


def element_schema(owner: SchemaView, place: int | None = None) -> ScopedSchema | None:
    """Return the schema of a list's elements, or of the one at a place; None where the value is no
    list, or has no such place.
    """
    match owner.kind:
        case "open":
            return OPEN
        case "array":
            return _element_of_list(owner, place)
        case "union":
            return _union_of(element_schema(branch, place) for branch in owner.branches)
        case _:
            return None


def _element_of_list(owner: SchemaView, place: int | None) -> ScopedSchema | None:
    """Return the schema of the element at a place, or of any element: the first ones may have types
    of their own (`prefixItems`), and those behind them another one, or none.
    """
    first = [subschema(part, owner.root) for part in as_list(owner.schema.get("prefixItems"))]
    if place is not None and place < len(first):
        return first[place]
    others, most = owner.schema.get("items", {}), owner.schema.get("maxItems")
    is_closed = isinstance(most, int) and 0 < most <= len(first)
    rest = None if others is False or is_closed else subschema(others, owner.root)
    if place is not None:
        return rest
    return _union_of([*first, rest]) or OPEN


def entry_view(place: ScopedSchema) -> SchemaView:
    """Return what a schema says of a value, or of the entries where it is a list, also of lists."""
    view = view_schema(place)
    for _ in range(_LISTS_FOLLOWED):
        entry = None if view.kind == "open" else element_schema(view)
        if entry is None:
            break
        view = view_schema(entry)
    return view


def schema_below(schema: JsonSchema, keys: Sequence[str]) -> JsonSchema | None:
    """Return the schema of the part that keys lead to; None where there can be no such part."""
    place = scoped_schema(schema)
    for key in keys:
        view = view_schema(place)
        below = field_schema(view, key)
        if below is None and key.isdecimal():
            below = element_schema(view, int(key))
        if below is None:
            return None
        place = below
    return self_contained_schema(place)


def allowed_values(schema: JsonSchema) -> list[Json] | None:
    """Return the only values that a schema admits, or None where it does not list them."""
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None


def required_fields(what: SchemaView) -> list[str]:
    """Return the names of the fields that an object must have."""
    return [name for name in as_list(what.schema.get("required")) if isinstance(name, str)]


def without_cel_types(schema: JsonSchema) -> JsonSchema:
    """Return a schema with the types that exist inside expressions only as the JSON that they come
    out as.
    """
    return cast("JsonSchema", _plain(schema))


def _plain(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if key != CEL_TYPE}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


INTEGER: Final = scoped_schema({"type": "integer"})
NUMBER: Final = scoped_schema({"type": "number"})
STRING: Final = scoped_schema({"type": "string"})
BOOLEAN: Final = scoped_schema({"type": "boolean"})
NULL: Final = scoped_schema({"type": "null"})
OBJECT: Final = scoped_schema({"type": "object"})
TIMESTAMP: Final = scoped_schema({"type": "string", "format": "date-time", CEL_TYPE: "timestamp"})
DURATION: Final = scoped_schema({"type": "string", CEL_TYPE: "duration"})
