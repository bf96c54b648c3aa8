"""Caps that bound nothing: a cap speaks of a field, and nothing that the run gives has it.

Looked at is what may state a confidence, the result and the outputs of terminal steps, at any depth. Where a schema
leaves open what fields there are, nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator

from wavewright.planner.check_subject import CheckContext
from wavewright.planner.diagnostics import Diagnostic
from wavewright.planner.faults import make_diagnostic
from wavewright.planner.suggestions import suggest_name
from wavewright.planner.types import Json, JsonSchema
from wavewright.planner.uses import ExpressionText

_OVERALL = "overall"


def check_caps(subject: CheckContext) -> Iterator[Diagnostic]:
    """Yield the plan's own caps on fields that nothing has; those of the goal are for many plans."""
    of_goal = subject.goal.caps if subject.goal is not None else ()
    own = [(number, cap) for number, cap in enumerate(subject.plan.caps) if cap not in of_goal]
    if all(cap.field == _OVERALL for _, cap in own):
        return
    known = _confidence_fields(subject)
    for number, cap in own if known is not None else ():
        if known is not None and cap.field not in {_OVERALL, *known}:
            yield make_diagnostic(
                "W808",
                f"/caps/{number}/field",
                f"the cap on {cap.field!r} bounds nothing: neither the result nor a last step's output has that field",
                suggest_name(cap.field, sorted({_OVERALL, *known}), what="fields"),
            )


def _confidence_fields(subject: CheckContext) -> frozenset[str] | None:
    """Return the names of all fields of what may state a confidence; nothing where they are not all known."""
    found: set[str] = set()
    schemas: list[JsonSchema | None] = [subject.types.outputs[step] for step in subject.graph.terminal]
    is_known = _add_result_fields(subject, subject.plan.result, found, schemas)
    for schema in schemas:
        is_known = is_known and schema is not None and _add_schema_fields(schema, found)
    return frozenset(found) if is_known else None


def _add_result_fields(
    subject: CheckContext, value: Json, found: set[str], schemas: list[JsonSchema | None]
) -> bool:
    """Add the fields that a result has as it is written, and the schemas of what it reads."""
    if isinstance(value, dict):
        found.update(value)
        return all(_add_result_fields(subject, inner, found, schemas) for inner in value.values())
    if isinstance(value, list):
        return all(_add_result_fields(subject, inner, found, schemas) for inner in value)
    if isinstance(value, str):
        schemas += [
            subject.types.result(use, None)
            for use in ExpressionText("/result", value, "result").uses()
            if use.is_whole
        ]
    return True


def _add_schema_fields(schema: JsonSchema, found: set[str]) -> bool:
    """Add the names of a schema's fields, at any depth; false where there may be others."""
    match schema:
        case {"anyOf": list(branches)}:
            return all(isinstance(branch, dict) and _add_schema_fields(branch, found) for branch in branches)
        case {"type": "array", "items": dict(items)}:
            return _add_schema_fields(items, found)
        case {"type": "object", "properties": dict(properties)} if not schema.get("additionalProperties"):
            found.update(properties)
            return all(
                isinstance(part, dict) and _add_schema_fields(part, found) for part in properties.values()
            )
        case _:
            return schema.get("type") in {"string", "number", "integer", "boolean", "null"}
