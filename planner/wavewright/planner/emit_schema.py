"""The shape that a planner's answer must have, made anew for each request.

An *emit schema* is a JSON Schema of an object whose members are all optional at the top: a plan, or why there is
none, or a question. It names the tools of the goal and only those, and has no field for policy (retries, timeouts,
budgets, caps): those are not a model's to write. It keeps to keywords that every provider knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from wavewright.planner.types import GateSeverity, JsonObject, JsonSchema

__all__ = ["emit_schema"]


def emit_schema(tools: Sequence[str], *, may_ask: bool = True) -> JsonSchema:
    """Return the schema of a planner's answer.

    Args:
        tools: Names of the tools that the goal allows, in the order of the prompt.
        may_ask: Whether a question is a legal answer; it is not where nobody can reply.
    """
    properties: JsonObject = {
        "reasoning": _text_schema("How the plan reaches the goal, in a few sentences."),
        "steps": _list_schema(
            _step_schema(tools), "The plan: tool calls. References between them decide their order."
        ),
        "gates": _list_schema(_gate_schema(), "Checks of outputs, beside those that the engine adds itself."),
        "result": {
            "description": "What the run is for: a ${…} reference, or an object that holds such.",
            "anyOf": [{"type": "string"}, {"type": "object"}],
        },
        "cannot_plan": _text_schema("Instead of steps: why the goal cannot be reached with these tools."),
    }
    if may_ask:
        properties["ask"] = _question_schema()
    return _object_schema(properties)


def _step_schema(tools: Sequence[str]) -> JsonSchema:
    return _object_schema(
        {
            "why": _text_schema("One line: what the goal needs this step for."),
            "id": _text_schema("A short word, such as prices: letters, digits and underscores."),
            "tool": {"type": "string", "enum": [*tools], "description": "The tool to call."},
            "params": {"type": "object", "description": "Arguments; strings may hold ${…} references."},
            "for_each": {
                "description": "A ${…} reference to a list, or a list: the step runs once an item.",
                "anyOf": [{"type": "string"}, {"type": "array", "items": {}}],
            },
            "when": _text_schema("A condition (CEL); where it is false the step is skipped."),
            "depends_on": _list_schema(
                {"type": "string"}, "Ids of steps to wait for that no reference names."
            ),
            "optional": {"type": "boolean", "description": "Whether the plan may go on if the step fails."},
        },
        "id",
        "tool",
        "params",
    )


def _gate_schema() -> JsonSchema:
    severities = get_args(GateSeverity)
    return _object_schema(
        {
            "id": _text_schema("A short word for the gate."),
            "on": _text_schema("The id of the step whose output it looks at."),
            "check": _text_schema("A condition (CEL) over output, steps and inputs."),
            "required": _list_schema({"type": "string"}, "Fields of the output that must not be empty."),
            "fresh_within": _text_schema("Greatest age of the output's data, such as 24h."),
            "schema": {"type": "object", "description": "JSON Schema that the output must fit."},
            "judge": _object_schema(
                {"rubric": _text_schema("What a model is to look at, and what passes.")}, "rubric"
            ),
            "severity": {"type": "string", "enum": [*severities]},
            "hint": _text_schema("What would mend it."),
        },
        "id",
        "on",
    )


def _question_schema() -> JsonSchema:
    return _object_schema(
        {
            "question": _text_schema("What only the user can decide."),
            "options": _list_schema({"type": "string"}, "Answers to choose from."),
        },
        "question",
        description="Instead of steps: a question, where the goal cannot be planned without the answer.",
    )


def _object_schema(properties: JsonObject, *required: str, description: str | None = None) -> JsonSchema:
    schema: JsonSchema = {"type": "object"}
    if description is not None:
        schema["description"] = description
    schema["properties"] = properties
    if required:
        schema["required"] = [*required]
    schema["additionalProperties"] = False
    return schema


def _text_schema(description: str) -> JsonSchema:
    return {"type": "string", "description": description}


def _list_schema(items: JsonSchema, description: str) -> JsonSchema:
    return {"type": "array", "items": items, "description": description}
