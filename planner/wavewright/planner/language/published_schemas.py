"""The JSON Schemas of what people write: plans, patches, jobs, goal templates and lists of tools.

They are generated from the models, so that an editor and the reader agree; what a model says in
code only, such as that a gate is of exactly one kind, is added here in the words of JSON Schema.
"""

from __future__ import annotations

from typing import Final

from wavewright.config.published_schemas import published_schema
from wavewright.planner.language.goals import GoalTemplate, Job
from wavewright.planner.language.plan import Plan, PlanPatch
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import GATE_KINDS, Json, JsonObject, JsonSchema

_DOCUMENT_TYPES: Final[dict[str, tuple[object, str]]] = {
    "plan": (Plan, "Plan of wavewright"),
    "patch": (PlanPatch, "Patch of a plan of wavewright"),
    "job": (Job, "Job of wavewright"),
    "goal": (GoalTemplate, "Goal template of wavewright"),
    "tools": (list[ToolSignature], "Signatures of tools of wavewright"),
}

SCHEMA_NAMES = tuple(_DOCUMENT_TYPES)
"""What `schema_of` knows."""

GATE_TARGETS = ("on", "on_tool")
_OPERATIONS = frozenset({"AddStep", "ReplaceStep", "RemoveStep", "RewireStep"})


def document_schema(name: str) -> JsonSchema:
    """Return a published schema (draft 2020-12).

    Raises:
        KeyError: there is no schema of that name; `SCHEMA_NAMES` lists them.
    """
    shape, title = _DOCUMENT_TYPES[name]
    schema = published_schema(shape, name, title)
    definitions = schema.get("$defs")
    for model, definition in definitions.items() if isinstance(definitions, dict) else ():
        if isinstance(definition, dict) and model == "Gate":
            exactly_one: list[Json] = [
                {"oneOf": [_requires_non_null(option) for option in all_]}
                for all_ in (GATE_KINDS, GATE_TARGETS)
            ]
            definition["allOf"] = exactly_one
        if isinstance(definition, dict) and model == "Step":
            _add_step_forms(definition)
        if isinstance(definition, dict) and model == "Recipe":
            definition["oneOf"] = _recipe_kinds()
        if isinstance(definition, dict) and model in _OPERATIONS:
            _require_op(definition)
    return schema


def _add_step_forms(step: JsonObject) -> None:
    """Add the fields that stand for the call of a tool, which the model reads as that call."""
    properties = step.get("properties")
    assert isinstance(properties, dict)
    properties |= {
        "ask": {
            "description": "In place of `tool` and `params`: a typed question to a model without tools.",
            "type": "object",
            "properties": {
                "of": {"description": "What is asked about; the model reads it as data."},
                "for": {
                    "description": "The fields of the answer with their types.",
                    "type": "object",
                    "minProperties": 1,
                },
                "question": {"description": "The question in words.", "type": ["string", "null"]},
            },
            "required": ["of", "for"],
            "additionalProperties": False,
        },
        "dispatch": {
            "description": "In place of `tool` and `params`: a list of calls, `{tool, params}`, or `${…}` "
            "that gives one.",
            "anyOf": [{"type": "string", "minLength": 1}, {"type": "array"}],
        },
        "tools": {
            "description": "With `dispatch`: the tools that may be called.",
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "minItems": 1,
        },
    }
    step["required"] = ["id"]
    forms: list[list[Json]] = [["tool"], ["plan"], ["ask"], ["dispatch", "tools"]]
    step["anyOf"] = [{"required": form} for form in forms]


def _require_op(operation: JsonObject) -> None:
    """An operation of a patch is told by its `op`; only Python code may leave it out."""
    required = operation.get("required")
    if isinstance(required, list):
        required.insert(0, "op")


def _recipe_kinds() -> list[Json]:
    """Return the schemas of a recipe for a gate, and of one for feedback."""
    step = _requires_non_null("step")
    changes: Json = {"required": ["set_params"], "properties": {"set_params": {"minProperties": 1}}}
    others = [_requires_non_null(name) for name in ("on", "field", "says", "step")]
    both: Json = {"allOf": [step, changes]}
    neither: Json = {"not": {"anyOf": [step, changes]}}
    return [
        {"allOf": [_requires_non_null("gate"), {"not": {"anyOf": [*others]}}]},
        {"allOf": [others[0], {"not": _requires_non_null("gate")}, {"oneOf": [both, neither]}]},
    ]


def _requires_non_null(field: str) -> Json:
    """Return a schema of objects in which a field is there and not null."""
    not_null: JsonObject = {"not": {"type": "null"}}
    return {"required": [field], "properties": {field: not_null}}
