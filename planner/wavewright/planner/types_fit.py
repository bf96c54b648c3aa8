"""Decide whether a value may be given where another is wanted.

A *misfit* is a conflict that no value could mend: a list where a number is wanted, a missing field, choices that do
not meet. What a value may or may not do (a pattern, a length, a null) is left to the validation at run time, so a
sound plan is never refused.
"""

from __future__ import annotations

from wavewright.planner.cel_faults import listed
from wavewright.planner.cel_schemas import (
    View,
    below,
    choices,
    element,
    field,
    fields,
    located,
    required,
    view,
    with_article,
)
from wavewright.planner.types import Json, JsonSchema

_DEEPEST = 16


def misfit(source: JsonSchema, target: JsonSchema) -> str | None:
    """Return why a value of `source` cannot be given where `target` is wanted, or None where it can."""
    if source is target:
        return None
    return _misfit(view(located(source)), view(located(target)), 0)


def _misfit(source: View, target: View, depth: int) -> str | None:
    if source.kind == "open" or target.kind == "open" or depth > _DEEPEST:
        return None
    if source.kind == "null":
        return None if target.nullable else f"null is given where {with_article(target)} is wanted"
    reasons: list[str] = []
    for given in source.branches or (source,):
        for wanted in target.branches or (target,):
            reason = _branch_misfit(given, wanted, depth)
            if reason is None:
                return None
            reasons.append(reason)
    if len(reasons) == 1:
        return reasons[0]
    return f"{with_article(source)} is given where {with_article(target)} is wanted"


def _branch_misfit(source: View, target: View, depth: int) -> str | None:
    if source.kind != target.kind and (source.kind, target.kind) != ("integer", "number"):
        return f"{with_article(source)} is given where {with_article(target)} is wanted"
    if source.kind == "array":
        return _list_misfit(source, target, depth)
    if source.kind == "object":
        return _object_misfit(source, target, depth)
    return _choice_misfit(source, target)


def _choice_misfit(source: View, target: View) -> str | None:
    given, wanted = choices(source), choices(target)
    if wanted is None or given is None or any(choice in wanted for choice in given):
        return None
    return f"{_choices(given)} is given where {_choices(wanted)} is wanted"


def _choices(values: list[Json]) -> str:
    written = listed(repr(value) for value in values)
    return written if len(values) == 1 else f"one of {written}"


def _list_misfit(source: View, target: View, depth: int) -> str | None:
    if source.schema.get("maxItems") == 0:
        least = target.schema.get("minItems", 0)
        return (
            "an empty list is given where elements are wanted"
            if isinstance(least, int) and least > 0
            else None
        )
    given, wanted = element(source), element(target)
    if given is None or wanted is None:
        return None
    reason = _misfit(view(given), view(wanted), depth + 1)
    return f"in each element, {reason}" if reason is not None else None


def _object_misfit(source: View, target: View, depth: int) -> str | None:
    for name in required(target):
        if field(source, name) is None:
            has = listed(fields(source)) or "no fields"
            return f"the field '{name}' is wanted, and there is none (there is: {has})"
    given_fields, wanted_fields = fields(source), fields(target)
    for name, schema in given_fields.items():
        wanted = field(target, name)
        if wanted is None:
            if name in required(source) and target.schema.get("additionalProperties") is False:
                return f"a field '{name}' is given, and only these are wanted: {listed(wanted_fields)}"
            continue
        reason = _misfit(view(below(schema, source.root)), view(wanted), depth + 1)
        if reason is not None and (name in required(source) or name in required(target)):
            return f"in the field '{name}', {reason}"
    return None
