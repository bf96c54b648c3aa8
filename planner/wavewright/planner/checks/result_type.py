"""E508: parts of the result of which no value is what the goal's `output_schema` asks for.

It is asked of the same values as at the review: the plan's `result`, that of its `stop`, or else the
output of each last step.
"""

from __future__ import annotations

from collections.abc import Iterator

from wavewright.config.sources import path_of_keys, pointer_keys, pointer_token
from wavewright.planner.checks.context import CheckContext
from wavewright.planner.checks.types import incompatibility
from wavewright.planner.diagnostics.diagnostic import Diagnostic, make_diagnostic
from wavewright.planner.plans.graph import last_steps
from wavewright.planner.plans.uses import holds_expression
from wavewright.planner.schemas.validation import InvalidSchemaError, validator_of
from wavewright.planner.schemas.views import (
    element_schema,
    schema_below,
    self_contained_schema,
    view_of,
)
from wavewright.planner.types import Json, JsonSchema


def check_result_type(subject: CheckContext, wanted: JsonSchema) -> Iterator[Diagnostic]:
    """Yield the parts of the result that can never be what the goal asks for."""
    plan = subject.plan
    if plan.stop is not None:
        yield from _misfits(
            subject, plan.stop.result, wanted, "/stop/result", "the result of `stop`"
        )
    if plan.result is not None:
        yield from _misfits(subject, plan.result, wanted, "/result", "the result")
    elif not subject.graph.cycles:
        yield from _misfits_of_last_steps(subject, wanted)


def _misfits_of_last_steps(subject: CheckContext, wanted: JsonSchema) -> Iterator[Diagnostic]:
    for name in last_steps(subject.plan):
        reason = misfit_of_type(subject.types.outputs.get(name, {}), wanted)
        if reason is not None:
            yield _diagnostic(f"/steps/{subject.numbers[name]}", f"the output of {name!r}", reason)


def _misfits(
    subject: CheckContext, declared: Json, wanted: JsonSchema, pointer: str, name: str
) -> Iterator[Diagnostic]:
    """Yield the misfits of a declared result: of its fields, or else of the whole."""
    wrong_fields: list[Diagnostic] = []
    for field, value in declared.items() if isinstance(declared, dict) else ():
        part = schema_below(wanted, [field])
        reason = None if part is None else _misfit_of_part(subject, value, part)
        if reason is not None:
            place = pointer + pointer_token(field)
            wrong_fields.append(_diagnostic(place, f"{field!r} of {name}", reason))
    yield from wrong_fields
    reason = None if wrong_fields else _misfit_of_whole(subject, declared, wanted)
    if reason is not None:
        yield _diagnostic(pointer, name, reason)


def _misfit_of_whole(subject: CheckContext, declared: Json, wanted: JsonSchema) -> str | None:
    """Return why a declared result can never be what the goal wants, nor any entry of a list."""
    if not isinstance(declared, list) or not holds_expression(declared):
        return misfit_of_type(subject.types.value(declared), wanted)
    reason = _misfit_of_part(subject, declared, wanted)
    by_entry = (_misfit_of_part(subject, entry, wanted) for entry in declared)
    return reason if all(by_entry) else None


def _misfit_of_part(subject: CheckContext, value: Json, wanted: JsonSchema) -> str | None:
    """Return why a part of the result can never be what is wanted: by its value where it is written
    out, else by its type; of a list, element by element.
    """
    reason = incompatibility(subject.types.value(value), wanted)
    if reason is not None:
        return reason
    if not holds_expression(value):
        return _misfit_of_value(value, wanted)
    if isinstance(value, list) and view_of(wanted).kind == "array":
        for number, element in enumerate(value):
            part = schema_below(wanted, [str(number)])
            reason = None if part is None else _misfit_of_part(subject, element, part)
            if reason is not None:
                return f"in element {number}, {reason}"
    return None


def _misfit_of_value(value: Json, wanted: JsonSchema) -> str | None:
    try:
        misfits = validator_of(wanted).violations(value)
    except InvalidSchemaError:
        return None  # the review says what is wrong with the goal's schema
    if not misfits:
        return None
    at = path_of_keys(pointer_keys(misfits[0].pointer), value)
    return f"{at or 'it'} {misfits[0].message}"


def misfit_of_type(given: JsonSchema, wanted: JsonSchema) -> str | None:
    """Return why no value of a type is what the goal wants of a result; a list may be that entry by
    entry, as at the review.
    """
    reason = incompatibility(given, wanted)
    elements = element_schema(view_of(given))
    if reason is None or elements is None:
        return reason
    of_entry = incompatibility(self_contained_schema(elements), wanted)
    return None if of_entry is None else reason


def _diagnostic(pointer: str, name: str, reason: str) -> Diagnostic:
    return make_diagnostic(
        "E508",
        pointer,
        f"{name} can never be what the goal asks for: {reason}",
        "give what the goal's `output_schema` says, or correct it in the goal template",
    )
