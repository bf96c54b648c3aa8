"""The schema of a plan for one goal: each step is a call of one of its tools with typed arguments.

It is for servers that hold a model to any schema while it writes, so it says more than the answer
schema: one branch a tool, and of each argument its type or a reference. A goal whose schema would be
larger than `MAX_CHARS` has none, and is asked with the answer schema: grammars of that size take
longer to make than to be of use.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from wavewright.planner.language.goals import Goal
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.binding import terminal_params
from wavewright.planner.schemas.validation import schema_definitions
from wavewright.planner.schemas.views import (
    SchemaView,
    element_schema,
    field_schema,
    required_fields,
    scoped_schema,
    view_schema,
)
from wavewright.planner.types import Json, JsonObject, JsonSchema, as_list, as_object

MAX_CHARS: Final = 40_000
"""Characters of the whole schema."""
PLAN_STEP: Final = ("properties", "steps", "items")
"""Where the schema of a planner's answer says what a step is."""
PATCH_STEP: Final = ("properties", "ops", "items", "properties", "step")
"""Where that of a recovery planner's answer does."""
REFERENCE: Final[JsonSchema] = {"type": "string", "pattern": "^\\$\\{.+\\}$"}
"""A value that is one reference, in the form that grammars know: anchored and simple."""
_MAX_DEPTH: Final = 4
_OF_SUB_PLANS: Final = ("plan", "repeat")
_BOUNDS: Final = ("minItems", "maxItems")
"""Bounds that grammars know."""


def exact_schema(
    answer: JsonSchema,
    place: Sequence[str],
    goal: Goal,
    tools: Mapping[str, ToolSignature],
    names: Iterable[str],
) -> JsonSchema | None:
    """Return the schema of an answer with a branch for each tool of a goal, and one for all of its
    sub-plans; None where it is too large.

    Args:
        answer: The schema of an answer to the same question, which says nothing of arguments.
        place: Where it says what a step is.
        goal: What is planned for.
        tools: Signatures by name.
        names: The tools that the question lists.
    """
    step = answer
    for key in place:
        step = as_object(step.get(key))
    set_by_engine = terminal_params(goal)
    branches: list[Json] = [
        _branch(step, tools[name], set_by_engine.get(name, {})) for name in names if name in tools
    ]
    if "plan" in as_object(step.get("properties")):
        branches.append(_sub_plan_branch(step))
    if not branches:
        return None
    exact = _replaced(answer, place, {"anyOf": branches})
    return exact if len(json.dumps(exact)) <= MAX_CHARS else None


def _replaced(schema: JsonSchema, place: Sequence[str], part: JsonSchema) -> JsonSchema:
    if not place:
        return part
    first, *rest = place
    return {**schema, first: _replaced(as_object(schema.get(first)), rest, part)}


def _branch(step: JsonSchema, tool: ToolSignature, hidden: Mapping[str, Json]) -> JsonSchema:
    """Return the schema of a step that calls one tool."""
    fields = as_object(step.get("properties"))
    # The tool before its arguments, and the reason first: what is written decides what follows.
    ordered = dict.fromkeys(("why", "id", "tool", "for_each", "params", *fields))
    members = {name: fields[name] for name in ordered if name in fields}
    called: JsonObject = {"tool": {"const": tool.name}, "params": _arguments(tool, hidden)}
    properties = {**members, **called}
    for name in _OF_SUB_PLANS:
        properties.pop(name, None)
    return {**step, "properties": properties, "required": ["id", "tool", "params"]}


def _sub_plan_branch(step: JsonSchema) -> JsonSchema:
    """Return the schema of a step that calls one of the goal's plans."""
    fields = as_object(step.get("properties"))
    properties = {name: part for name, part in fields.items() if name != "tool"}
    return {**step, "properties": properties, "required": ["id", "plan", "params"]}


def _arguments(tool: ToolSignature, hidden: Mapping[str, Json]) -> JsonSchema:
    schema = tool.input_schema
    properties: JsonObject = {}
    for name, part in as_object(schema.get("properties")).items():
        if name not in hidden and isinstance(part, dict):
            wanted = view_schema(scoped_schema({**schema_definitions(schema), **part}))
            properties[name] = _value(wanted, _MAX_DEPTH)
    required = [name for name in as_list(schema.get("required")) if name in properties]
    return _closed(properties, required)


def _value(view: SchemaView, depth: int) -> JsonSchema:
    """Return the schema of what may stand for a value: a literal of its type, or a reference."""
    literal = _literal(view, depth)
    if not literal:
        return literal
    # A text may be a reference, and hold some.
    branches: list[Json] = [literal]
    if literal != {"type": "string"}:
        branches.append(REFERENCE)
    if view.nullable:
        branches.append({"type": "null"})
    return literal if len(branches) == 1 else {"anyOf": branches}


def _literal(view: SchemaView, depth: int) -> JsonSchema:
    schema = view.schema
    for keyword in ("enum", "const"):
        if keyword in schema:
            return {keyword: schema[keyword]}
    match view.kind:
        case "string":
            # No bound of its length counts: it may hold references.
            return {"type": "string"}
        case "boolean" | "integer" | "number":
            return {"type": view.kind}
        case "array" if depth > 0:
            place = element_schema(view)
            items = {} if place is None else _value(view_schema(place), depth - 1)
            bounds: JsonSchema = {word: schema[word] for word in _BOUNDS if word in schema}
            return {"type": "array", "items": items, **bounds}
        case "object" if depth > 0:
            return _object(view, depth)
        case _:
            return {}


def _object(view: SchemaView, depth: int) -> JsonSchema:
    names = as_object(view.schema.get("properties"))
    properties: JsonObject = {}
    for name in names:
        place = field_schema(view, name)
        properties[name] = {} if place is None else _value(view_schema(place), depth - 1)
    if not properties or view.schema.get("additionalProperties") is not False:
        return {"type": "object"}
    return _closed(properties, [name for name in names if name in required_fields(view)])


def _closed(properties: JsonObject, required: Iterable[Json]) -> JsonSchema:
    return {
        "type": "object",
        "properties": properties,
        "required": [*required],
        "additionalProperties": False,
    }
