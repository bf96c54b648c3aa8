"""What a plan takes an output to be, where its tool's schema leaves it open.

A tool without an output schema may give anything, and no plan is prepared for that. So its stub gives what the plan's
expressions read: the members that they name, and lists where they iterate one. The same holds for the open parts of a
schema, such as the objects of a `list[dict]`.
"""

from __future__ import annotations

from wavewright.engine.simulation.plan_reads import ReadShape
from wavewright.planner.language.plan import Step
from wavewright.planner.language.signatures import AGENT
from wavewright.planner.types import Json, JsonObject, JsonSchema, as_object

_ANNOTATIONS = frozenset({"title", "description", "default", "examples"})
"""Keywords that restrict nothing."""


def presumed_schema(declared: JsonSchema, step: Step, shape: ReadShape) -> tuple[JsonSchema, bool]:
    """Return a tool's output schema with its open parts as the plan reads them, and whether it had no such part."""
    properties, wanted = declared.get("properties"), step.params.get("output_schema")
    if step.tool == AGENT and isinstance(properties, dict) and isinstance(wanted, dict):
        # The step says what its agent answers.
        declared = {**declared, "properties": {**properties, "answer": wanted}}
    return _filled(declared, shape)


def _filled(declared: Json, shape: ReadShape) -> tuple[JsonSchema, bool]:
    node = as_object(declared)
    if not node.keys() - _ANNOTATIONS:
        return {**node, **shape.as_schema()}, False
    if isinstance(branches := node.get("anyOf"), list):
        filled = [_filled(branch, shape) for branch in branches]
        return {**node, "anyOf": [schema for schema, _ in filled]}, all(said for _, said in filled)
    if node.get("type") == "array" and shape.entries is not None and "prefixItems" not in node:
        items, is_declared = _filled(node.get("items"), shape.entries)
        return {**node, "items": items}, is_declared
    if shape.members and (node.get("type") == "object" or "properties" in node):
        return _filled_object(node, shape)
    return node, True


def _filled_object(node: JsonObject, shape: ReadShape) -> tuple[JsonSchema, bool]:
    others = node.get("additionalProperties", True)
    properties = {**as_object(node.get("properties"))}
    required: list[Json] = []
    is_declared = True
    for name, part in shape.members.items():
        filled, is_said = _filled(properties.get(name, others), part)
        is_declared = is_declared and is_said
        if name not in properties and others in (True, {}) and not part.is_optional:
            required.append(name)
        if name in properties or others is not False:
            properties[name] = filled
    if required:
        already = node.get("required")
        node = {**node, "required": [*(already if isinstance(already, list) else ()), *required]}
    return {**node, "properties": properties}, is_declared
