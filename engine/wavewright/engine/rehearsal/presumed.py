"""What a plan takes an output to be, where its tool promises nothing.

A tool without an output schema may give anything, and no plan is prepared for that. So its stub gives what the plan's
expressions ask for: the members that they name, and lists where they go through one. The same holds for the open
parts of a schema, such as the objects of a `list[dict]`. A finding over such an output is no fault, since nobody
promised anything.
"""

from __future__ import annotations

from wavewright.engine.rehearsal.shapes import ReadShape
from wavewright.planner.models import Step
from wavewright.planner.types import Json, JsonObject, JsonSchema
from wavewright.tools.workers.services import AGENT

_ANNOTATIONS = frozenset({"title", "description", "default", "examples"})
"""Keywords that promise nothing."""
_NO_MEMBERS = frozenset({"type", "required", "additionalProperties", "minProperties"})
"""Keywords of an object that say nothing of any one member."""


def presumed_schema(promised: JsonSchema, step: Step, shape: ReadShape) -> JsonSchema:
    """Return what a tool promises, with its open parts as the plan reads them; the promise itself where it has none."""
    if step.tool == AGENT:
        promised = _agent_schema(promised, step)
    return _with_reads(promised, shape)


def declares_reads(promised: JsonSchema, step: Step, shape: ReadShape) -> bool:
    """Whether a tool says of every place that is read what stands there."""
    return _declares(_agent_schema(promised, step) if step.tool == AGENT else promised, shape)


def _agent_schema(promised: JsonSchema, step: Step) -> JsonSchema:
    """Return the schema of an agent's output, of which the answer has the shape that the step asks for."""
    properties, wanted = promised.get("properties"), step.params.get("output_schema")
    if not isinstance(properties, dict) or not isinstance(wanted, dict):
        return promised
    return {**promised, "properties": {**properties, "answer": wanted}}


def _declares(promised: Json, shape: ReadShape) -> bool:
    node = promised if isinstance(promised, dict) else {}
    if not node.keys() - _ANNOTATIONS:
        return False
    if isinstance(branches := node.get("anyOf"), list):
        return all(_declares(branch, shape) for branch in branches)
    if node.get("type") == "array":
        return shape.entries is None or "prefixItems" in node or _declares(node.get("items"), shape.entries)
    if node.get("type") != "object":
        return True
    properties, others = node.get("properties"), node.get("additionalProperties")
    known = properties if isinstance(properties, dict) else {}
    return all(_declares(known.get(name, others), part) for name, part in shape.members.items())


def _with_reads(promised: Json, shape: ReadShape) -> JsonSchema:
    node = promised if isinstance(promised, dict) else {}
    said = node.keys() - _ANNOTATIONS
    if not said:
        return {**node, **_schema_of_shape(shape)}
    if isinstance(branches := node.get("anyOf"), list):
        filled: list[Json] = [_with_reads(branch, shape) for branch in branches]
        return node if filled == branches else {**node, "anyOf": filled}
    if node.get("type") == "array" and shape.entries is not None:
        items = _with_reads(node.get("items"), shape.entries)
        return {**node, "items": items} if items != node.get("items", {}) else node
    if isinstance(properties := node.get("properties"), dict):
        known: JsonObject = {
            name: _with_reads(part, shape.members[name]) if name in shape.members else part
            for name, part in properties.items()
        }
        return node if known == properties else {**node, "properties": known}
    if node.get("type") != "object" or not said <= _NO_MEMBERS or not shape.members:
        return node
    others = node.get("additionalProperties", True)
    if others in (True, {}):
        return {**node, **_schema_of_shape(shape)}
    # Of a mapping nobody promises one key more than another, but the plan expects some.
    expected: JsonObject = {name: _with_reads(others, part) for name, part in shape.members.items()}
    return {**node, "properties": expected} if isinstance(others, dict) else node


def _schema_of_shape(shape: ReadShape) -> JsonSchema:
    if shape.members:
        properties: JsonObject = {name: _schema_of_shape(part) for name, part in shape.members.items()}
        required: list[Json] = [name for name, part in shape.members.items() if not part.is_asked]
        return {"type": "object", "properties": properties, "required": required}
    if shape.entries is not None:
        items = _schema_of_shape(shape.entries)
        return {"type": "array", "items": items} if items else {"type": "array"}
    return {"type": shape.kind} if shape.kind else {}
