"""Texts of messages: counts, the nearest name, and the names, fields and types that exist.

A *suggestion* is shown and never applied: no name is corrected on the author's behalf.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from wavewright.config.errors import did_you_mean
from wavewright.planner.types import Json, JsonSchema

_MAX_SHOWN = 8


def suggest_name(name: str, known: Collection[str], *, what: str) -> str | None:
    """Return the nearest name, or else the list of what there is."""
    return did_you_mean(name, known) or list_names(known, what=what)


def list_names(names: Iterable[str], *, what: str) -> str | None:
    """Return `what: a, b, c`, cut where it is long."""
    shown = sorted(names)
    if not shown:
        return None
    more = len(shown) - _MAX_SHOWN
    return f"{what}: " + ", ".join(shown[:_MAX_SHOWN]) + (f" and {more} more" if more > 0 else "")


def list_fields(schema: JsonSchema, *, what: str) -> str | None:
    """Return the properties of an object schema with their types, in the schema's order."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        return None
    shown = [f"{name}: {type_name(part)}" for name, part in properties.items()]
    more = len(shown) - 2 * _MAX_SHOWN
    return f"{what}: " + ", ".join(shown[: 2 * _MAX_SHOWN]) + (f" and {more} more" if more > 0 else "")


def type_name(schema: Json) -> str:
    """Return a schema's type in a word or two."""
    if not isinstance(schema, Mapping):
        return "any"
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(type_name({**schema, "type": one}) for one in kind)
    if kind == "array":
        items = schema.get("items")
        return f"list of {type_name(items)}" if isinstance(items, Mapping) and items else "list"
    if isinstance(kind, str):
        return kind
    for branches in (schema.get("anyOf"), schema.get("oneOf")):
        if isinstance(branches, list):
            return " or ".join(dict.fromkeys(map(type_name, branches)))
    options = schema.get("enum")
    return (
        "one of " + ", ".join(map(value_text, options[:_MAX_SHOWN])) if isinstance(options, list) else "any"
    )


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, in the plural unless the number is 1."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def with_article(name: str) -> str:
    """Return a type's name with its article: `a string`, `an integer`, `null`."""
    if name in ("any", "null") or name.startswith("one of"):
        return name
    word = {"array": "list"}.get(name, name)
    return ("an " if word[0] in "aeio" else "a ") + word


def describe_parameter(name: str, schema: JsonSchema) -> str:
    """Return what a parameter takes, within which bounds, and what its tool says of it."""
    said = schema.get("description")
    explained = f" ({said})" if isinstance(said, str) and said else ""
    return f"{name!r} takes {with_article(type_name(schema))}{_bounds(schema)}{explained}"


def _bounds(schema: JsonSchema) -> str:
    for least, most, unit in (
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
    ):
        low, high = schema.get(least), schema.get(most)
        if low is not None and high is not None:
            return f" from {low} to {high}" if not unit else f" of {low} to {high}{unit}"
        if low is not None or high is not None:
            bound = f"at least {low}" if high is None else f"at most {high}"
            return f" of {bound}{unit}"
    return ""


def value_text(value: Json) -> str:
    """Return a value as an author writes it, short enough for one line of a message."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return repr(value) if len(value) <= 60 else f"{value[:57]!r}… ({len(value)} characters)"
        case int() | float():
            return str(value) if len(str(value)) <= 30 else str(value)[:27] + "…"
        case list():
            return f"a list of {len(value)}" if value else "an empty list"
        case dict():
            return "an object" if value else "an empty object"
