"""Validate values against JSON Schemas, infer the schema of known values, and follow references in
schemas.

A *validator* is compiled once for each schema and reused. `$ref` is followed inside the schema
only, so no request is ever made. `true` is no number and no integer.

An inferred schema describes inputs without a declaration; where the items of a list differ it is
left open.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from functools import cache, lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote
from uuid import UUID

import jsonschema_rs
from jsonschema_rs import ValidationErrorKind as Kind
from pydantic import TypeAdapter, ValidationError

from wavewright.config.errors import WavewrightError
from wavewright.config.sources import pointer_token
from wavewright.planner.diagnostics.diagnostic import counted, value_text, with_article
from wavewright.planner.language.hashing import canonical_json
from wavewright.planner.types import Json, JsonObject, JsonSchema, as_object, properties_of


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
            return {
                "type": "array",
                "items": _common_schema([infer_schema(item) for item in value]),
            }
        case dict():
            properties: JsonObject = {name: infer_schema(member) for name, member in value.items()}
            return {
                "type": "object",
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            }


DEFINITIONS: Final = ("$defs", "definitions")
"""Keywords under which a schema names parts that its references lead to."""


def schema_definitions(schema: JsonSchema) -> JsonSchema:
    """Return the definitions that references inside a schema lead to."""
    return {name: schema[name] for name in DEFINITIONS if name in schema}


def _common_schema(schemas: list[JsonSchema]) -> JsonSchema:
    """Return one schema for items of several shapes: equal shapes stay, objects are merged, the
    rest is open.
    """
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
            "items": _common_schema([as_object(schema.get("items")) for schema in schemas]),
        }
    return {}


def _merge_object_schemas(schemas: list[JsonSchema]) -> JsonSchema:
    parts = [properties_of(schema) for schema in schemas]
    names = list(dict.fromkeys(name for part in parts for name in part))
    properties: JsonObject = {
        name: _common_schema([as_object(part.get(name)) for part in parts if name in part])
        for name in names
    }
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in names if all(name in part for part in parts)],
        "additionalProperties": False,
    }


class SchemaViolation(NamedTuple):
    """One reason why a value does not fit a schema."""

    pointer: str
    """Of the part that does not fit, below the value's own pointer."""
    keyword: str
    """The schema's keyword that the value breaks."""
    message: str
    """Continues a sentence that names the part: `is 'x', but must be a number`."""
    name: str | None = None
    """The property that is missing or not known."""
    hint: str | None = None
    """A fix, where one is known."""


class Validator:
    """A compiled schema."""

    def __init__(self, schema: JsonSchema, *, checks_formats: bool = False) -> None:
        """Compile a schema.

        Args:
            schema: It.
            checks_formats: Whether texts must have the formats of dates, times and ids, too; a call
                leaves that to its tool, unless the dialect of the schema (`$schema`) asks for it.

        Raises:
            InvalidSchemaError: it is none, or refers to something outside itself.
        """
        check_alternatives(schema)
        try:
            self._as_called = jsonschema_rs.validator_for(schema, offline=True)
            self._with_formats = (
                jsonschema_rs.validator_for(
                    schema, offline=True, validate_formats=True, formats=_FORMATS
                )
                if checks_formats
                else None
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            first_line = str(error).partition("\n")[0]
            raise InvalidSchemaError(first_line) from error

    def accepts(self, value: Json) -> bool:
        """Return whether a value fits."""
        return self._as_called.is_valid(value) and not self._format_errors(value)

    def violations(self, value: Json, pointer: str = "") -> list[SchemaViolation]:
        """Return every reason why a value does not fit, in the value's order; of a large value the
        first.
        """
        # Formats are not all: below `not` and `oneOf`, one that a text does not have makes fit what
        # a call refuses.
        errors = self._format_errors(value) or _errors(self._as_called, value)
        return [misfit for error in errors for misfit in _violations_of(error, pointer)]

    def _format_errors(self, value: Json) -> list[jsonschema_rs.ValidationError]:
        """Return every reason why a value does not fit where formats are checked."""
        if self._with_formats is None:
            return []
        # Where a format decides between `then` and `else`, a call goes by `then`.
        return [
            error
            for error in _errors(self._with_formats, value)
            if isinstance(error.kind, Kind.Format) or "else" not in error.schema_path
        ]


def _errors(compiled: jsonschema_rs.Validator, value: Json) -> list[jsonschema_rs.ValidationError]:
    """Return why a value does not fit, of a large value the first reason: the library makes all
    errors before it gives the first one, and each holds its part.
    """
    if compiled.is_valid(value):
        return []
    if count_parts(value, _LARGE_PARTS) >= 0:
        return [*compiled.iter_errors(value)]
    try:
        compiled.validate(value)
    except jsonschema_rs.ValidationError as error:
        return [error]
    return []


def _reads(kind: type) -> Callable[[str], bool]:
    """Return what tells whether a text is read as such a value, as for a parameter of a function."""

    def is_read(text: str) -> bool:
        try:
            _adapter(kind).validate_python(text)
        except ValidationError:
            return False
        return True

    return is_read


@cache
def _adapter(kind: type) -> TypeAdapter[object]:
    return TypeAdapter(kind)


_FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "date": _reads(dt.date),
    "date-time": _reads(dt.datetime),
    "time": _reads(dt.time),
    "uuid": _reads(UUID),
    # What a server or a function takes as an address or a pattern is its own to say.
    **dict.fromkeys(
        (
            *("duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6"),
            *("uri", "uri-reference", "uri-template", "iri", "iri-reference", "regex"),
            *("json-pointer", "relative-json-pointer"),
        ),
        lambda _: True,
    ),
}


_LARGE_PARTS = 2_000
"""Parts of a value above which one reason why it does not fit is enough."""


def parts_of(value: Json) -> Iterable[Json]:
    """Return the parts of an object or a list; of anything else there are none."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def count_parts(value: Json, left: int) -> int:
    """Return how many of so many parts are left without those of a value; less than none ends the
    count.
    """
    left -= 1
    for part in parts_of(value):
        if left < 0:
            break
        left = count_parts(part, left)
    return left


def validator_of(schema: JsonSchema, *, checks_formats: bool = False) -> Validator:
    """Return the validator of a schema, see `Validator`; equal schemas share one.

    Raises:
        InvalidSchemaError: it is no JSON Schema, or refers to something outside itself.

    >>> from wavewright.planner import validator_of
    >>> validator = validator_of({"type": "integer"})
    >>> validator.accepts(7), validator.accepts("7")
    (True, False)
    """
    return _build_validator(canonical_json(schema), checks_formats)


@lru_cache(maxsize=1024)
def _build_validator(text: bytes, checks_formats: bool) -> Validator:  # noqa: FBT001 - a key
    return Validator(json.loads(text), checks_formats=checks_formats)


def _violations_of(error: jsonschema_rs.ValidationError, root: str) -> Iterator[SchemaViolation]:
    pointer = root
    for key in error.instance_path:
        pointer += pointer_token(key)
    value = _as_json_value(error.instance)
    match error.kind:
        case Kind.Required(property=name):
            yield SchemaViolation(pointer, "required", f"lacks {name!r}", name)
        case (
            Kind.AdditionalProperties(unexpected=names)
            | Kind.UnevaluatedProperties(unexpected=names)
        ):
            for name in names:
                yield SchemaViolation(
                    pointer, "additionalProperties", f"has {name!r}, which is not known here", name
                )
        case Kind.AnyOf(context=branches) | Kind.OneOfNotValid(context=branches):
            meant = _intended_branch(error, branches) or _discriminated(error, branches)
            if isinstance(meant, str):
                yield SchemaViolation(pointer, error.kind.name, meant)
            elif meant:
                for inner in meant:
                    yield from _violations_of(inner, root)
            else:
                yield SchemaViolation(pointer, error.kind.name, _no_branch_message(value, branches))
        case Kind.PropertyNames(error=inner):
            yield SchemaViolation(
                pointer, "propertyNames", f"has a key that does not fit: {inner.message}"
            )
        case _:
            yield SchemaViolation(
                pointer,
                error.kind.name,
                f"is {value_text(value)}, but must {_requirement(error.kind)}",
            )


def _intended_branch(
    error: jsonschema_rs.ValidationError, branches: list[list[jsonschema_rs.ValidationError]]
) -> list[jsonschema_rs.ValidationError]:
    """Return the faults of the one alternative that is of the value's type, where there is just
    one.
    """
    place = list(error.instance_path)
    of_its_type = [
        branch
        for branch in branches
        if not any(
            isinstance(fault.kind, Kind.Type) and list(fault.instance_path) == place
            for fault in branch
        )
    ]
    return of_its_type[0] if len(of_its_type) == 1 else []


def _discriminated(
    error: jsonschema_rs.ValidationError, branches: list[list[jsonschema_rs.ValidationError]]
) -> list[jsonschema_rs.ValidationError] | str:
    """Return the faults of the one alternative that a value's discriminator names, or what is wrong
    with the discriminator: a field that the alternatives hold to other constants.
    """
    place = list(error.instance_path)
    tags = [
        {
            fault.instance_path[-1]: _constants(fault.kind)
            for fault in branch
            if isinstance(fault.kind, Kind.Constant | Kind.Enum)
            and len(fault.instance_path) == len(place) + 1
        }
        for branch in branches
    ]
    for name in dict.fromkeys(name for tag in tags for name in tag):
        unrefused = [branch for branch, tag in zip(branches, tags, strict=True) if name not in tag]
        if len(unrefused) == 1 and len(branches) > 1:
            return unrefused[0]
        if not unrefused:
            value = next(
                fault.instance
                for fault in branches[0]
                if list(fault.instance_path) == [*place, name]
            )
            shown = value_text(_as_json_value(value))
            options = ", ".join(value_text(one) for tag in tags for one in tag[name])
            part = f"[{name}]" if isinstance(name, int) else repr(name)
            return f"has {part} {shown}, which must be one of {options}"
    lacking: set[str] | None = None
    for branch in branches:
        names = {fault.kind.property for fault in branch if isinstance(fault.kind, Kind.Required)}
        lacking = names if lacking is None else lacking & names
    return f"lacks {min(lacking)!r}, which every alternative has" if lacking else []


def _constants(kind: Kind) -> list[Json]:
    if isinstance(kind, Kind.Constant):
        return [_as_json_value(kind.expected_value)]
    return (
        [_as_json_value(option) for option in kind.options] if isinstance(kind, Kind.Enum) else []
    )


def _no_branch_message(value: Json, branches: list[list[jsonschema_rs.ValidationError]]) -> str:
    kinds = [branch[0].kind for branch in branches if branch]
    types = [name for kind in kinds if isinstance(kind, Kind.Type) for name in kind.types]
    if len(types) >= len(branches):
        return f"is {value_text(value)}, but must be {_either(dict.fromkeys(map(with_article, types)))}"
    requests = dict.fromkeys(
        _requirement(kind) for kind in kinds if not isinstance(kind, Kind.Type)
    )
    if not requests:
        return f"is {value_text(value)}, which does not fit"
    if all(request.startswith("be ") for request in requests):
        wanted = _either(request.removeprefix("be ") for request in requests)
        return f"is {value_text(value)}, but must be {wanted}"
    return f"is {value_text(value)}, but must {_either(requests)}"


_REQUIREMENTS = {
    "minimum": "be at least {limit}",
    "maximum": "be at most {limit}",
    "exclusiveMinimum": "be more than {limit}",
    "exclusiveMaximum": "be less than {limit}",
    "multipleOf": "be a multiple of {multiple_of}",
    "minLength": "have {limit} or more",
    "maxLength": "have {limit} or fewer",
    "pattern": "match {pattern}",
    "format": "be a {format}",
    "minItems": "have {limit} or more",
    "maxItems": "have {limit} or fewer",
    "minProperties": "have {limit} or more",
    "maxProperties": "have {limit} or fewer",
    "uniqueItems": "hold no item twice",
    "contains": "hold an item that it does not hold",
    "falseSchema": "not be there",
}
"""What the schema wants, by keyword, continuing `must`."""

COUNTED_NOUNS = {
    "minLength": "character",
    "maxLength": "character",
    "minItems": "item",
    "maxItems": "item",
    "minProperties": "member",
    "maxProperties": "member",
}
"""What a keyword limits the number of."""


def _requirement(kind: Kind) -> str:
    match kind:
        case Kind.Type(types=types):
            return "be " + _either(map(with_article, types))
        case Kind.Enum(options=options):
            return "be one of " + ", ".join(
                value_text(_as_json_value(option)) for option in options
            )
        case Kind.Constant(expected_value=expected):
            return "be " + value_text(_as_json_value(expected))
        case Kind.OneOfMultipleValid():
            return "fit exactly one of the schema's alternatives, not several"
        case _:
            details, request = kind.as_dict(), _REQUIREMENTS.get(kind.name)
            if request is None or "error" in details:  # a pattern that took too many steps
                return f"fit the schema's {kind.name!r}"
            noun = COUNTED_NOUNS.get(kind.name)
            if noun is not None:
                details["limit"] = counted(details["limit"], noun)
            return request.format(**details)


def _either(names: Iterable[str]) -> str:
    return " or ".join(names)


def _as_json_value(value: object) -> Json:
    """Take what the library read back as JSON; it reads numbers beyond 64 bits as decimals."""
    return float(value) if isinstance(value, Decimal) else value  # type: ignore[return-value]


class InvalidSchemaError(WavewrightError, ValueError):
    """A schema that is none, or that refers to something outside itself."""


def look_up_reference(reference: str, root: JsonSchema) -> JsonSchema | None:
    """Return the schema that a local reference such as `#/$defs/row` leads to; None where it leads
    nowhere.
    """
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
"""Schemas that one value is compared with at most, alternatives in alternatives counted each time.
"""
_LISTED = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "if", "then", "else")


def check_alternatives(root: JsonSchema) -> None:
    """Refuse a schema whose alternatives double at each reference: one value takes hours to be
    compared.

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
            anchors.update(
                {f"#{part[key]}": part for key in ("$anchor", "$dynamicAnchor") if key in part}
            )
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
