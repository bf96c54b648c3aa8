"""What the call of one step is, beyond what its tool says of every call.

A step that writes out the schema of its answer has outputs of that type, and an agent calls only
the tools that its step names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from wavewright.planner.language.plan import ASK_MODEL, Step
from wavewright.planner.language.signatures import AGENT, ToolSignature, ToolSignatures
from wavewright.planner.plans.answer_types import AnswerTypeError, answer_schema
from wavewright.planner.plans.uses import holds_expression
from wavewright.planner.schemas.validation import InvalidSchemaError, validator_of
from wavewright.planner.schemas.views import (
    compose_schema,
    scoped_schema,
    self_contained_schema,
)
from wavewright.planner.types import Json, JsonObject, JsonSchema, as_list, as_object, properties_of

_PART: Final = re.compile(r"[^.\[\]]+|\[\*\]")


def step_signature(step: Step, tools: ToolSignatures) -> ToolSignature | None:
    """Return the signature of a step's tool: of an agent, with no more tools than its step names."""
    signature = tools.get(step.tool)
    named = step.params.get("tools")
    if (
        signature is None
        or step.tool != AGENT
        or step.params.get("agent") is not None
        or not isinstance(named, list)
        or holds_expression(named)
    ):
        return signature
    called = [tools[name] for name in named if isinstance(name, str) and name in tools]
    if len(called) != len(named):
        return signature
    update = {
        "untrusted_output": any(tool.brings_untrusted for tool in called),
        "reads_data": frozenset[str]().union(*(tool.reads_data for tool in called)),
        "writes_data": frozenset[str]().union(*(tool.writes_data for tool in called)),
    }
    return signature.model_copy(update=update)


def call_output_schema(step: Step, tools: ToolSignatures) -> JsonSchema:
    """Return the schema of what one call of a step gives; open where nothing is known of its tool."""
    signature = tools.get(step.tool)
    if signature is None:
        return {}
    if step.tool == ASK_MODEL:
        try:
            return answer_schema(step.params.get("for"), tools)
        except AnswerTypeError:  # reported where the step is checked
            return {}
    output = signature.output_schema
    for parameter, path in signature.typed_by.items():
        schema = step.params.get(parameter)
        if isinstance(schema, dict) and schema_fault(schema) is None:
            output = _with_type(output, _PART.findall(path), _of_object(schema))
    return output


def answer_types(step: Step, tools: ToolSignatures) -> Iterator[tuple[str, JsonSchema]]:
    """Yield the schemas that a step writes out for the answer of a model, by parameter."""
    if step.tool == ASK_MODEL:
        with suppress(AnswerTypeError):
            yield "for", answer_schema(step.params.get("for"), tools)
        return
    signature = tools.get(step.tool)
    for parameter in () if signature is None else signature.typed_by:
        schema = step.params.get(parameter)
        if isinstance(schema, dict):
            yield parameter, schema


def schema_fault(schema: JsonObject) -> str | None:
    """Return why what a step writes out is no schema that types anything, or None where it is one."""
    if holds_expression(schema):
        return "holds ${…}, so it types nothing before the run"
    try:
        validator_of(schema)
    except InvalidSchemaError as error:
        return f"is no JSON Schema: {error}"
    return None


def _of_object(schema: JsonSchema) -> JsonSchema:
    return schema if "$ref" in schema else {"type": "object", **schema}


def _with_type(output: JsonSchema, path: list[str], given: JsonSchema) -> JsonSchema:
    """Return a schema in which the given one stands at a path; null stays where it is not excluded:
    an agent that found no answer gives none.
    """

    def build(parts: list[Json]) -> JsonSchema:
        whole, inner = as_object(parts[0]), as_object(parts[1])
        return _put(whole, path, inner)

    return self_contained_schema(
        compose_schema([scoped_schema(output), scoped_schema(given)], build)
    )


def _put(schema: JsonSchema, path: list[str], given: JsonSchema) -> JsonSchema:
    if not path:
        kinds = as_list(schema.get("type"))
        excludes_null = isinstance(schema.get("type"), str) or (kinds and "null" not in kinds)
        return given if excludes_null else {"anyOf": [given, {"type": "null"}]}
    head, rest = path[0], path[1:]
    if head == "[*]":
        return {**schema, "items": _put(as_object(schema.get("items")), rest, given)}
    fields = properties_of(schema)
    part = _put(as_object(fields.get(head)), rest, given)
    return {**schema, "properties": {**fields, head: part}}
