"""The schema of an answer for one goal: what its tools take is said where they are called.

The *answer schema* of a question says which fields an answer has, and nothing of arguments; what
identifies a question, and so a recorded one, is that schema. The *goal's schema* is made of it, for
servers that hold a model to a schema while it writes: an answer is a plan, the reason why there is
none, or a question, and each step is a call of one tool with values of its own types. Every value
may be a reference in its place.

A plan that the checker accepts fits it, but for these:

- references with a line break, and a choice that is put together of parts and references;
- arguments that a tool takes without naming them beside those that it names;
- a value that is no object or list, where a type has keywords of one and no `type`;
- a result that is a number, a boolean or null;
- what the engine writes (`version`, `goal`, `inputs`, `caps`, `on_empty`, ids with a dot, policy);
- what the reader mends: null or nothing for what is empty, one id in place of a list.

It leaves out what no schema can say: which references lead somewhere, and of which type they are.
Values deeper than `MAX_DEPTH` levels are open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Step
from wavewright.planner.language.signatures import ToolSignature, ToolSignatures
from wavewright.planner.plans.binding import terminal_params
from wavewright.planner.plans.sub_plan_call import input_types
from wavewright.planner.schemas.validation import schema_definitions
from wavewright.planner.schemas.views import (
    OPEN,
    SchemaView,
    allowed_values,
    element_schema,
    field_schema,
    field_schemas,
    required_fields,
    subschema,
    view_of,
    view_schema,
)
from wavewright.planner.types import (
    GATE_KINDS,
    ID_PATTERN,
    Json,
    JsonObject,
    JsonSchema,
    as_list,
    as_object,
    properties_of,
)

REFERENCE: Final[JsonSchema] = {"type": "string", "pattern": r"^\$\{.+\}$"}
"""A value that is one expression."""
OBJECT_ONLY: Final = "$object_only"
"""Key of the schemas of open objects that no expression may stand for; never sent."""
MAX_DEPTH: Final = 4
"""Levels of objects and lists inside an argument whose types are said."""
_PERIOD: Final = "^([1-9][0-9]{0,5}(s|m|h|d)){1,3}$"
"""How a model writes a period, such as 24h or 1h30m."""
_HEADS: Final = ("tool", "plan", "ask", "dispatch")
"""Fields that say what a step calls; it has one of them."""
_BELONGING: Final[Mapping[str, tuple[str, ...]]] = {
    "tool": ("params", "for_each"),
    "plan": ("params", "for_each", "repeat"),
    "ask": ("for_each",),
    "dispatch": ("tools",),
}
"""Fields that a step has beside each of them only."""
_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "tool": ("params",),
    "plan": ("params",),
    "dispatch": ("tools",),
}
_BOUNDS: Final[Mapping[str, tuple[str, ...]]] = {
    "array": ("minItems", "maxItems"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
"""Keywords of a type that literals keep. A text has none: it may hold references."""
_BOUNDS_OF_TEXT: Final = ("minLength", "maxLength", "pattern", "format")
"""Those of a text that holds none."""
_WORDS: Final = ("description",)
"""Keywords that tell a model what a value is for."""
_PLAIN_DEPTH: Final = 16
"""Levels of a plain schema; a schema that holds itself goes on without end."""


def goal_plan_schema(
    answer: JsonSchema, goal: Goal, tools: ToolSignatures, names: Iterable[str]
) -> JsonSchema:
    """Return the schema of a planner's answer for a goal.

    Args:
        answer: The answer schema of the question.
        goal: What is planned for.
        tools: Signatures by name.
        names: The tools that the question lists.
    """
    fields = properties_of(answer)
    steps = as_object(fields.get("steps"))
    branches = _step_branches(as_object(steps.get("items")), goal, tools, names)
    # First, so that a model begins with what matters and steps can start while it writes.
    plan: JsonObject = {
        "steps": {**steps, "items": {"anyOf": branches}, "minItems": 1},
        "result": _result(fields["result"]),
        "gates": {**as_object(fields.get("gates")), "items": {"anyOf": [*_gates(fields)]}},
    }
    instead = [name for name in ("cannot_plan", "ask") if name in fields]
    others = {name: part for name, part in fields.items() if name not in {*plan, *instead}}
    stop = as_object(as_object(others["stop"])["properties"])
    others["stop"] = closed_object(
        {"when": _filled(stop["when"]), "result": _result(stop["result"])}
    )
    if "let" in others:
        others["let"] = _object_only(others["let"])
    return {
        "anyOf": [
            closed_object({**plan, **others}, ["steps"]),
            *(closed_object({name: _filled(fields[name])}, [name]) for name in instead),
        ]
    }


def goal_patch_schema(
    answer: JsonSchema, goal: Goal, tools: ToolSignatures, names: Iterable[str]
) -> JsonSchema:
    """Return the schema of a recovery planner's answer for a goal; arguments as for a plan."""
    fields = properties_of(answer)
    ops = as_object(fields.get("ops"))
    parts = as_object(as_object(ops.get("items")).get("properties"))
    steps = _step_branches(as_object(parts.get("step")), goal, tools, names)
    # A patch changes steps that there are: those that a new one may supersede.
    known = as_object(as_object(as_object(parts["step"])["properties"])["supersedes"])
    target: JsonObject = {"id": {"enum": known["enum"]}}
    replacing: list[Json] = [_with_members(as_object(step), target) for step in steps]
    kinds: list[Json] = [
        closed_object({"op": {"const": "add"}, "step": {"anyOf": steps}}, ["op", "step"]),
        closed_object({"op": {"const": "replace"}, "step": {"anyOf": replacing}}, ["op", "step"]),
        closed_object({"op": {"const": "remove"}, **target}, ["op", "id"]),
        closed_object(
            {"op": {"const": "rewire"}, **target, "depends_on": parts["depends_on"]},
            ["op", "id", "depends_on"],
        ),
    ]
    patch: JsonObject = {"ops": {**ops, "items": {"anyOf": kinds}, "minItems": 1}}
    others = {name: part for name, part in fields.items() if name not in {"ops", "cannot_plan"}}
    others["reason"] = _filled(fields["reason"])
    return {
        "anyOf": [
            closed_object({**patch, **others}, ["ops", "reason"]),
            closed_object({"cannot_plan": _filled(fields["cannot_plan"])}, ["cannot_plan"]),
        ]
    }


def plain_schema(schema: JsonSchema) -> JsonSchema:
    """Return a schema of the same values, or of more, in the few words that a goal's schema has:
    without references, compositions and lists of types. Descriptions are kept.
    """
    return _value(view_of(schema), _PLAIN_DEPTH, may_refer=False)


def closed_object(properties: JsonObject, required: Iterable[str] | None = None) -> JsonSchema:
    """Return the schema of an object that has no members but these; all of them are required where
    nothing else is said.
    """
    return {
        "type": "object",
        "properties": properties,
        "required": [*(properties if required is None else required)],
        "additionalProperties": False,
    }


# --- steps


def _step_branches(
    step: JsonSchema, goal: Goal, tools: ToolSignatures, names: Iterable[str]
) -> list[Json]:
    """Return the schemas of a step: one for each tool, and one for each other thing that it may
    call.
    """
    fields = properties_of(step)
    set_by_engine = terminal_params(goal)
    calls: list[JsonObject] = [
        {
            "tool": {"const": name},
            "params": _arguments(tools[name], set_by_engine.get(name, {})),
        }
        for name in names
        if name in tools
    ]
    calls += _sub_plan_calls(fields, goal)
    calls += [{head: fields[head]} for head in ("ask", "dispatch") if head in fields]
    return [_step(fields, called) for called in calls]


def _sub_plan_calls(fields: JsonObject, goal: Goal) -> Iterator[JsonObject]:
    """Yield a call of each sub-plan with its own inputs, none of which has to be given."""
    for name in as_list(as_object(fields.get("plan")).get("enum")):
        called: JsonObject = {"plan": {"const": name}}
        plan = goal.sub_plans.get(str(name))
        if plan is not None:
            declared = as_object(goal.sub_plan_inputs.get(str(name), {}).get("properties"))
            inputs: JsonObject = {
                input_name: _value(view_of(as_object(part)), MAX_DEPTH)
                for input_name, part in {**input_types(plan), **declared}.items()
            }
            params = closed_object(inputs, [])
            repeat = _repeat(as_object(fields["repeat"]))
            called |= {"params": params, "repeat": _with_members(repeat, {"params": params})}
        yield called


def _step(fields: JsonObject, called: JsonObject) -> JsonSchema:
    head = next(iter(called))
    elsewhere = {*_HEADS, *(name for named in _BELONGING.values() for name in named)}
    own = {name: part for name, part in fields.items() if name not in elsewhere}
    own |= {name: fields[name] for name in _BELONGING[head] if name in fields}
    own |= {"id": {"type": "string", "pattern": ID_PATTERN}}
    if "for_each" in own:
        own["for_each"] = {"anyOf": [REFERENCE, {"type": "array"}]}
    if "when" in own:
        own["when"] = _filled(own["when"])
    if "params" in own:
        own["params"] = _object_only(own["params"])
    if "repeat" in own:
        own["repeat"] = _repeat(as_object(own["repeat"]))
    # What is written decides what follows: the tool before its arguments.
    order = dict.fromkeys((head, "id", "why", "for_each", "params", *own))
    members = {**own, **called}
    properties = {name: members[name] for name in order if name in members}
    return closed_object(properties, [head, "id", *_REQUIRED.get(head, ())])


def _arguments(tool: ToolSignature, hidden: Mapping[str, Json]) -> JsonSchema:
    schema = tool.input_schema
    properties: JsonObject = {}
    for name, part in properties_of(schema).items():
        if name not in hidden:
            view = view_of({**schema_definitions(schema), **as_object(part)})
            properties[name] = _value(view, MAX_DEPTH)
    rest = schema.get("additionalProperties")
    is_open = rest is None and not properties_of(schema)
    if is_open or (rest is not None and not properties and rest is not False):
        return _object_only({"type": "object"})
    required = [str(name) for name in as_list(schema.get("required")) if name in properties]
    arguments = closed_object(properties, required)
    return arguments if rest in (None, False) else {**arguments, "additionalProperties": True}


def _value(view: SchemaView, depth: int, *, may_refer: bool = True) -> JsonSchema:
    """Return the schema of what may stand for a value: a literal of its type, or a reference."""
    if view.kind == "open" or depth < 0:
        return {}
    # What an argument of a plan is for stands in the question.
    words = {} if may_refer else {key: view.schema[key] for key in _WORDS if key in view.schema}
    literals = [_literal(branch, depth, may_refer=may_refer) for branch in view.alternatives]
    branches: list[Json] = [*(literal for literal in literals if literal)]
    if len(branches) < len(literals):
        return {}
    # A text may be a reference, and hold some.
    if may_refer and {"type": "string"} not in branches:
        branches.append(REFERENCE)
    if view.nullable and {"type": "null"} not in branches:
        branches.append({"type": "null"})
    value = as_object(branches[0]) if len(branches) == 1 else {"anyOf": branches}
    return {**value, **words}


def _literal(view: SchemaView, depth: int, *, may_refer: bool) -> JsonSchema:
    """Return the schema of a literal; an empty one where it may be anything."""
    values = allowed_values(view.schema)
    if values is not None:
        return {"enum": values}
    words = _BOUNDS.get(view.kind, () if may_refer else _BOUNDS_OF_TEXT)
    bounds = {word: view.schema[word] for word in words if word in view.schema}
    match view.kind:
        case "null":
            return {"type": "null"}
        case "string" | "boolean" | "integer" | "number":
            return {"type": view.kind, **bounds}
        case "array":
            element = view_schema(element_schema(view) or OPEN)
            items = _value(element, depth - 1, may_refer=may_refer)
            return {"type": "array", **({"items": items} if items else {}), **bounds}
        case "object":
            return _object(view, depth, may_refer=may_refer)
        case _:
            return {}


def _object(view: SchemaView, depth: int, *, may_refer: bool) -> JsonSchema:
    properties: JsonObject = {
        name: _value(view_schema(subschema(part, view.root)), depth - 1, may_refer=may_refer)
        for name, part in field_schemas(view).items()
    }
    rest = view.schema.get("additionalProperties")
    if not properties and isinstance(rest, dict):
        values = _value(view_schema(subschema(rest, view.root)), depth - 1, may_refer=may_refer)
        return {"type": "object", "additionalProperties": values or True}
    if not properties or depth == 0:
        return {"type": "object"}
    literal = closed_object(
        properties, [name for name in required_fields(view) if name in properties]
    )
    return literal if rest is False else {**literal, "additionalProperties": True}


# --- the rest of a plan


def _gates(fields: JsonObject) -> Iterator[JsonSchema]:
    """Yield the schemas of a gate, one for each kind of question that it asks."""
    gate = as_object(as_object(as_object(fields.get("gates")).get("items")).get("properties"))
    common = {name: part for name, part in gate.items() if name not in GATE_KINDS}
    common["id"] = {"type": "string", "pattern": ID_PATTERN}
    if "fresh_within" in gate:
        gate = {**gate, "fresh_within": {**as_object(gate["fresh_within"]), "pattern": _PERIOD}}
    if "judge" in gate:
        gate = {**gate, "judge": _with_filled_member(gate["judge"], "rubric")}
    for kind in GATE_KINDS:
        if kind in gate:
            # First, since some providers tell alternatives apart by their first member.
            asked: JsonObject = {kind: _object_only(_filled(gate[kind])), **common}
            yield closed_object(asked, [kind, "id", "on"])


def _result(schema: Json) -> JsonSchema:
    """Return the schema of a result: what the answer schema has, or a list."""
    return {"anyOf": [*as_list(as_object(schema)["anyOf"]), {"type": "array"}]}


def _repeat(schema: JsonSchema) -> JsonSchema:
    members = properties_of(schema)
    most: JsonSchema = {**as_object(members["max"]), "minimum": 2, "maximum": 10}
    exact = {"until": _filled(members["until"]), "max": most}
    return {
        **schema,
        "properties": {**members, **exact, "params": _object_only(members["params"])},
    }


def _object_only(schema: Json) -> JsonSchema:
    """Return the schema of a field of the language, marked where it is that of an open object."""
    part = as_object(schema)
    is_open = part.get("type") == "object" and "properties" not in part
    return {**part, OBJECT_ONLY: True} if is_open else part


def _with_members(schema: JsonSchema, members: JsonObject) -> JsonSchema:
    """Return the schema of an object with other schemas of some of its members."""
    return {**schema, "properties": {**as_object(schema["properties"]), **members}}


def _with_filled_member(schema: Json, name: str) -> JsonSchema:
    part = as_object(schema)
    return _with_members(part, {name: _filled(as_object(part["properties"])[name])})


def _filled(schema: Json) -> JsonSchema:
    """Return the schema of a text or a list that is not empty, where it is one."""
    part = as_object(schema)
    match part.get("type"):
        case "string":
            return {**part, "minLength": 1}
        case "array":
            return {**part, "minItems": 1}
        case _:
            return part


# --- nulls of strict providers


def without_absent_arguments(step: Step, tools: ToolSignatures) -> Step:
    """Return a step without arguments that are null where the tool may go without them and takes no
    null: a provider that is strict makes a model name every one.
    """
    tool = tools.get(step.tool)
    if tool is None:
        return step
    params = _without_absent(step.params, view_of(tool.input_schema))
    return step if params == step.params else step.model_copy(update={"params": params})


def without_absent_members(value: Json, schema: JsonSchema) -> Json:
    """Return an answer without members that are null where its schema may go without them and
    takes no null.

    >>> sizes: JsonSchema = {"type": "object", "properties": {"size": {"type": "integer"}}}
    >>> without_absent_members({"size": None}, sizes)
    {}
    """
    return _without_absent(value, view_of(schema))


def _without_absent(value: Json, view: SchemaView) -> Json:
    if isinstance(value, list):
        items = view_schema(element_schema(view) or OPEN)
        return [_without_absent(item, items) for item in value]
    if not isinstance(value, dict):
        return value
    objects = [branch for branch in view.alternatives if branch.kind == "object"]
    if len(objects) > 1:
        objects = [branch for branch in objects if _may_be_of(value, branch)]
    if len(objects) != 1:
        return value
    [owner] = objects
    kept: JsonObject = {}
    for name, member in value.items():
        part = view_schema(field_schema(owner, name) or OPEN)
        if member is not None or part.nullable or name in required_fields(owner):
            kept[name] = _without_absent(member, part)
    return kept


def _may_be_of(value: JsonObject, owner: SchemaView) -> bool:
    """Whether an object has the names and the constants of one of several types."""
    for name, member in value.items():
        part = view_schema(field_schema(owner, name) or OPEN)
        constants = allowed_values(part.schema)
        # Null may stand for a member that is absent.
        if member is not None and constants is not None and member not in constants:
            return False
    return value.keys() <= field_schemas(owner).keys()
