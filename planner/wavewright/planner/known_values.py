"""What an argument is known to be before anything runs.

A value is *known* when it is a literal, or when its expressions read nothing but the inputs, or the items of a
`for_each` that is known itself. Rules about targets and tags are held against known values only: what a tool will
answer is proved by nobody.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from wavewright.planner.cel_faults import ExpressionFault
from wavewright.planner.models import Plan, Step
from wavewright.planner.reads import reads
from wavewright.planner.types import Json, JsonObject
from wavewright.planner.uses import Use, holds_expression, text_uses

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_ITEMS_LOOKED_AT = 1000

_INPUTS = frozenset({"inputs"})
_ITEM = frozenset({"inputs", "item", "index"})


def known_items(plan: Plan, step: Step) -> list[Json] | None:
    """Return the list that a step runs over, where it is known."""
    found = _value(step.for_each, {"inputs": plan.inputs}, _INPUTS)
    return found[0] if found and isinstance(found[0], list) else None


def known_values(plan: Plan, step: Step, value: Json) -> Iterator[Json]:
    """Yield what an argument is, once for each call of the step; nothing where it is not known."""
    variables: JsonObject = {"inputs": plan.inputs}
    once = _value(value, variables, _INPUTS)
    if once:
        yield from once
        return
    for index, item in enumerate((known_items(plan, step) or [])[:_ITEMS_LOOKED_AT]):
        yield from _value(value, {**variables, "item": item, "index": index}, _ITEM)


def _value(value: Json, variables: JsonObject, roots: frozenset[str]) -> list[Json]:
    """Return the value in a list of one, or nothing where it reads anything but these roots or cannot be had."""
    if not holds_expression(value):
        return [value]
    from wavewright.planner.expressions import evaluate
    from wavewright.planner.references import render

    try:
        if not all(_reads_only(use, roots) for use in _uses(value)):
            return []
        return [render(value, lambda expression: evaluate(expression, variables, _EPOCH))]
    except ExpressionFault:
        return []


def _uses(value: Json) -> Iterator[Use]:
    if isinstance(value, str):
        yield from text_uses(value, "", "params")
    elif isinstance(value, list):
        for item in value:
            yield from _uses(item)
    elif isinstance(value, dict):
        for member in value.values():
            yield from _uses(member)


def _reads_only(use: Use, roots: frozenset[str]) -> bool:
    return "now" not in use.expression and all(read.root in roots for read in reads(use.expression))
