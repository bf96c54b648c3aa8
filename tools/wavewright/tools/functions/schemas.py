"""JSON Schemas of Python types, in the plain form that a signature has.

A *plain schema* has no `$ref`: definitions stand where they are used, so the checker, a prompt and
a person read one tree. A recursive type is cut and left open at the repetition.

Before Python 3.12 pydantic takes only the `TypedDict` of typing_extensions; see
https://docs.pydantic.dev/latest/errors/usage_errors/#typed-dict-version. Annotations are rebuilt
with equal types that it takes, so a function has the same schemas on every Python.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
import sys
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Flag
from functools import partial
from typing import Annotated, Any, Generic, Union, cast, get_args, get_origin

import typing_extensions
from pydantic import BaseModel, TypeAdapter
from pydantic.errors import (
    PydanticInvalidForJsonSchema,
    PydanticSchemaGenerationError,
    PydanticUserError,
)
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from pydantic_core import CoreSchema, PydanticSerializationError, SchemaValidator, core_schema

from wavewright.config.value_types import DURATION_PATTERN, parse_duration
from wavewright.planner import Json, JsonSchema, as_object, canonical_json
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.results import written_as_json

_COPIED = ("__doc__", "__module__", "__qualname__", "__pydantic_config__", "__required_keys__")


def portable_annotation(annotation: Any, rebuilt: dict[object, Any] | None = None) -> Any:
    """Return an annotation in which every TypedDict is one that pydantic takes on this Python.

    `rebuilt` holds the TypedDicts that are rebuilt already, by their originals: one may contain
    itself.
    """
    if sys.version_info >= (3, 12):
        return annotation
    known: dict[object, Any] = {} if rebuilt is None else rebuilt
    if typing.is_typeddict(annotation):
        return known.get(annotation) or _rebuild_annotation(annotation, known)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if not arguments or origin is typing.Literal:
        return annotation
    if origin is Annotated:
        first, *rest = arguments
        rebuild: Any = (
            Annotated  # subscribed at run time: checkers take it for a type being written
        )
        return rebuild[(portable_annotation(first, known), *rest)]
    generic = portable_annotation(origin, known)
    parts = tuple(portable_annotation(part, known) for part in arguments)
    if generic is origin and all(new is old for new, old in zip(parts, arguments, strict=True)):
        return annotation
    if origin in (Union, types.UnionType):
        return Union[parts]  # noqa: UP007 - made at run time
    # Required, NotRequired and ReadOnly take their one part bare.
    return generic[parts[0]] if len(arguments) == 1 else generic[parts]


def reader_of(schema: CoreSchema) -> SchemaValidator:
    """Return what reads the values of a type, and of its fields, as JSON and plans write them.

    A duration is also a text with units (`90s`, `1h30m`), and a choice is read by its JSON, so that
    `1.0` is the integer 1 of a `Literal`. Where several types are read from a text, it is of the one
    whose values are written so: of a date, an instant, a time, a duration or a `Decimal`; where one
    of them is `str`, it is a text.

    Args:
        schema: The schema of the type that pydantic has.
    """
    read = _as_written(schema)
    # What pydantic has built of a model or a dataclass before follows its own rules.
    return SchemaValidator(read, _use_prebuilt=read is schema)


_NO_SCHEMAS = frozenset({"cls", "default", "expected", "metadata", "serialization"})
"""What a schema of pydantic holds beside other schemas."""


def _as_written(part: Any) -> Any:
    """Return a part of a schema of pydantic, changed to read what is written; else the same object."""
    if isinstance(part, list | tuple):
        members = cast("Sequence[Any]", part)
        changed = [_as_written(member) for member in members]
        is_same = all(new is old for new, old in zip(changed, members, strict=True))
        return members if is_same else changed
    if not isinstance(part, dict):
        return part
    old = cast("dict[str, Any]", part)
    kind = old.get("type")
    # The fields of a model are no schema: their names may be any words.
    apart: Collection[str] = _NO_SCHEMAS if isinstance(kind, str) else ()
    new = {key: value if key in apart else _as_written(value) for key, value in old.items()}
    if kind == "union":
        new["choices"] = _told_apart(new["choices"])
    schema: Any = old if all(new[key] is old[key] for key in old) else new
    if derived := _derived_fields(old):
        return core_schema.no_info_before_validator_function(partial(_without, derived), schema)
    if kind == "timedelta":
        return core_schema.no_info_before_validator_function(_read_duration, schema)
    if kind in ("enum", "literal") and (read := _reader_of_choice(old)) is not None:
        return core_schema.no_info_before_validator_function(read, schema)
    return schema


def _derived_fields(schema: Any) -> frozenset[str]:
    """Return the fields that are written of a dataclass or a model, and that its class makes itself."""
    if schema.get("type") == "dataclass":
        return frozenset(part.name for part in dataclasses.fields(schema["cls"]) if not part.init)
    fields: dict[str, Any] = schema if schema.get("type") == "model" else {}
    while "schema" in fields:
        # Functions of the model may stand around its fields.
        fields = fields["schema"]
    computed: Sequence[dict[str, Any]] = fields.get("computed_fields", ())
    return frozenset(part.get("alias") or part["property_name"] for part in computed)


def _without(names: frozenset[str], value: object) -> object:
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, object]", value)
    return {name: part for name, part in fields.items() if name not in names}


def _told_apart(choices: Sequence[Any]) -> Sequence[Any]:
    """Return the types of a union, of which each leaves to the others what is written as theirs. They
    are called by their kinds where a value fits none.
    """
    kinds = [_kind_of(choice) for choice in choices]
    told = list[Any]()
    for kind, choice in zip(kinds, choices, strict=True):
        others = [_WRITTEN[other] for other in kinds if other in _WRITTEN and other != kind]
        if others and kind != _ANY_TEXT and (kind in _WRITTEN or kind in _NUMBERS):
            own = None if _ANY_TEXT in kinds else _WRITTEN.get(kind)
            leave = partial(_leave_to_others, own=own, others=others)
            told.append((core_schema.no_info_before_validator_function(leave, choice), kind))
        else:
            told.append((choice, kind) if kind == "timedelta" else choice)
    return choices if told == choices else told


def _kind_of(choice: Any) -> str:
    """Return the kind of a type of a union, also of one that functions check before or after."""
    if not isinstance(choice, dict):
        # One with a tag is told by it.
        return ""
    schema = cast("dict[str, Any]", choice)
    kind = str(schema["type"])
    if kind == "str" and schema.keys() <= {"type", "metadata"}:
        return _ANY_TEXT
    is_checked = kind.startswith("function-") and "schema" in schema
    return _kind_of(schema["schema"]) if is_checked else kind


_ANY_TEXT = "text"
_WRITTEN: dict[str, re.Pattern[str]] = {
    "date": re.compile(r"\d{4}-\d\d-\d\d"),
    "datetime": re.compile(r"\d{4}-\d\d-\d\d[Tt ].*"),
    "time": re.compile(r"\d\d:\d\d.*"),
    "timedelta": re.compile(rf"[+-]?P.*|-?(?:{DURATION_PATTERN})"),
    "decimal": re.compile(r"[+-]?\d+(?:\.\d+)?(?:[Ee][+-]?\d+)?"),
    _ANY_TEXT: re.compile(r"(?s:.*)"),
}
"""How values of types are written that are read from a text."""
_NUMBERS = frozenset({"bool", "float", "int"})
"""Types that pydantic also reads from the text of a number."""


def _leave_to_others(
    value: object, *, own: re.Pattern[str] | None, others: Sequence[re.Pattern[str]]
) -> object:
    """Return a value that may be of a type; raise where it is written as one of another type."""
    if not isinstance(value, str) or (own is not None and own.fullmatch(value)):
        return value
    if any(pattern.fullmatch(value) for pattern in others):
        raise ValueError("it is written as a value of another type")
    return value


def _read_duration(value: object) -> object:
    """Return the duration of a text with units; pydantic reads ISO 8601 and seconds itself."""
    if isinstance(value, str) and re.fullmatch(DURATION_PATTERN, value.removeprefix("-")):
        seconds = cast("float", parse_duration(value.removeprefix("-")))
        return dt.timedelta(seconds=-seconds if value.startswith("-") else seconds)
    return value


def _reader_of_choice(schema: dict[str, Any]) -> Callable[[object], object] | None:
    """Return what reads the members of an `Enum` or a `Literal`, where pydantic does not know them by
    their JSON.
    """
    if schema["type"] == "literal":
        members = schema["expected"]
        are_known = all(isinstance(member, str) for member in members)
    elif issubclass(schema["cls"], Flag):
        return partial(_read_flags, schema["cls"])
    else:
        members = schema["members"]
        are_known = all(isinstance(member.value, str | int) for member in members)
    if are_known:
        return None
    by_json = {canonical_json(written_as_json(member, "a choice")): member for member in members}
    return partial(_read_choice, by_json)


def _read_choice(by_json: Mapping[bytes, object], value: object) -> object:
    written = int(value) if isinstance(value, float) and value.is_integer() else value
    return by_json.get(canonical_json(cast("Json", written)), value)


def _read_flags(flags: type[Flag], value: object) -> object:
    return flags(value) if type(value) is int else value


def _rebuild_annotation(annotation: Any, known: dict[object, Any]) -> Any:
    bases: list[Any] = [typing_extensions.TypedDict]
    if parameters := getattr(annotation, "__parameters__", ()):
        generic: Any = Generic  # subscribed at run time, like Annotated
        bases.append(generic[parameters])
    new: Any = types.new_class(annotation.__name__, tuple(bases))
    known[annotation] = new
    for name in _COPIED:
        if hasattr(annotation, name):
            setattr(new, name, getattr(annotation, name))
    hints = typing.get_type_hints(annotation, include_extras=True)
    new.__annotations__ = {name: portable_annotation(hint, known) for name, hint in hints.items()}
    return new


SCHEMA_ERRORS = (
    PydanticSchemaGenerationError,
    PydanticInvalidForJsonSchema,
    PydanticUserError,
    NameError,
)
"""What pydantic raises for a type that has no JSON form, or whose names cannot be found."""

_DROPPED_KEYWORDS = frozenset({"$defs", "$ref", "discriminator"})


class _SchemaGenerator(GenerateJsonSchema):
    """Leaves out a default that is no JSON value, without a warning."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

    def field_is_required(
        self,
        field: core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField,
        total: bool,  # noqa: FBT001 - pydantic's signature
    ) -> bool:
        """Say that a result has every field of its model: a default is written out like any other
        value.
        """
        if self.mode == "serialization" and field["type"] != "typed-dict-field":
            return not field.get("serialization_exclude", False)
        return super().field_is_required(field, total)

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchema:
        """Describe flags by their bits: any of them may be set."""
        if issubclass(schema["cls"], Flag):
            bits = 0
            for member in schema["members"]:
                bits |= member.value
            return {"type": "integer", "minimum": 0, "maximum": bits}
        return super().enum_schema(schema)

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchema:
        """Take the computed fields of a model that takes no others: they are written of it."""
        written = super().model_schema(schema)
        is_closed = written.get("additionalProperties") is False
        return _with_fields(written, _derived_fields(schema) if is_closed else ())

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchema:
        """Name the fields that the dataclass makes itself."""
        return _with_fields(super().dataclass_schema(schema), _derived_fields(schema))

    def encode_default(self, dft: Any) -> Any:
        """Write a default by the rules of all values; one that JSON has no form for, such as an
        infinite number, is the function's alone, and is left out.
        """
        try:
            written_as_json(dft, "the default")
        except ToolError as error:
            raise PydanticSerializationError(error.message) from error
        return super().encode_default(dft)

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchema:
        """Name the fields that a result has for certain, also where it has none."""
        written = super().typed_dict_schema(schema)
        return {"required": [], **written} if self.mode == "serialization" else written


def _with_fields(schema: JsonSchema, names: Collection[str]) -> JsonSchema:
    """Return the schema of an object that may have other fields as well, of any type."""
    known = as_object(schema.get("properties"))
    others: JsonSchema = {name: {"readOnly": True} for name in sorted(names) if name not in known}
    return {**schema, "properties": {**known, **others}} if others else schema


def schema_of(adapter: TypeAdapter[object], *, mode: JsonSchemaMode) -> JsonSchema:
    """Return the plain schema of a type: of what it takes (`validation`) or gives
    (`serialization`).

    >>> from pydantic import TypeAdapter
    >>> from wavewright.tools import schema_of
    >>> schema_of(TypeAdapter(list[int]), mode="validation")
    {'items': {'type': 'integer'}, 'type': 'array'}
    """
    raw = adapter.json_schema(mode=mode, schema_generator=_SchemaGenerator)
    return plain_schema(cast("JsonSchema", raw))


def model_schema(model: type[BaseModel]) -> JsonSchema:
    """Return the plain schema of what a model takes, by alias.

    >>> from pydantic import BaseModel
    >>> from wavewright.tools import model_schema
    >>> class Place(BaseModel):
    ...     name: str
    >>> model_schema(Place)["required"]
    ['name']
    """
    return plain_schema(
        cast("JsonSchema", model.model_json_schema(schema_generator=_SchemaGenerator))
    )


def plain_schema(schema: JsonSchema) -> JsonSchema:
    """Return the schema with every definition in place and without generated titles."""
    found = as_object(schema.get("$defs"))
    return _inline_definitions(schema, cast("dict[str, JsonSchema]", found), ())


def _inline_definitions(
    schema: JsonSchema, definitions: dict[str, JsonSchema], inside: tuple[str, ...]
) -> JsonSchema:
    reference = schema.get("$ref")
    base: JsonSchema = {}
    if isinstance(reference, str):
        name = reference.rpartition("/")[2]
        if name in inside or name not in definitions:
            kind = definitions.get(name, {}).get("type")
            base = {} if kind is None else {"type": kind}
        else:
            base = _inline_definitions(definitions[name], definitions, (*inside, name))
    own: JsonSchema = {
        key: _inline_member(key, value, definitions, inside)
        for key, value in schema.items()
        if key not in _DROPPED_KEYWORDS and not (key == "title" and isinstance(value, str))
    }
    return {**base, **own}


def _inline_member(
    key: str, value: Json, definitions: dict[str, JsonSchema], inside: tuple[str, ...]
) -> Json:
    def inlined(member: Json) -> Json:
        return (
            _inline_definitions(member, definitions, inside) if isinstance(member, dict) else member
        )

    if key == "propertyNames":
        return _schema_of_text(inlined(value))
    return with_subschemas(key, value, inlined)


MAPS_OF_SCHEMAS = frozenset({"properties", "patternProperties", "dependentSchemas"})
LISTS_OF_SCHEMAS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems", "items"})
SCHEMAS = frozenset(
    {"items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames"}
    | {"unevaluatedProperties", "unevaluatedItems"}
)


def with_subschemas(keyword: str, value: Json, change: Callable[[Json], Json]) -> Json:
    """Return the value of a schema's keyword with the schemas in it changed; any other value as it
    is.
    """
    if keyword in MAPS_OF_SCHEMAS and isinstance(value, dict):
        return {name: change(schema) for name, schema in value.items()}
    if keyword in LISTS_OF_SCHEMAS and isinstance(value, list):
        return [change(schema) for schema in value]
    return change(value) if keyword in SCHEMAS else value


def _schema_of_text(schema: Json) -> Json:
    """Return the schema of what a key is in JSON, which is a text whatever it is read from."""
    if not isinstance(schema, dict) or schema.get("type") not in ("integer", "number"):
        return schema
    values = schema.get("enum")
    if isinstance(values, list):
        return {"enum": [str(value) for value in values]}
    return {"const": str(schema["const"])} if "const" in schema else {}
