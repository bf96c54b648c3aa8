"""What an argument is known to be before anything runs.

A value is *known* when it is a literal, or when its expressions read nothing but the inputs, or the items of a
`for_each` that is known itself. Rules about targets and tags are held against known values only: what a tool will
answer is proved by nobody.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from wavewright.planner.cel_faults import ExpressionError
from wavewright.planner.models import Plan, Step
from wavewright.planner.reads import reads
from wavewright.planner.types import Json, JsonObject
from wavewright.planner.uses import ExpressionUse, embedded_uses, holds_expression

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MAX_ITEMS_INSPECTED = 1000

_INPUT_ROOTS = frozenset({"inputs"})
_ITEM_ROOTS = frozenset({"inputs", "item", "index"})


def known_items(plan: Plan, step: Step) -> list[Json] | None:
    """Return the list that a step runs over, where it is known."""
    found = _value(step.for_each, {"inputs": plan.inputs}, _INPUT_ROOTS)
    return found[0] if found and isinstance(found[0], list) else None


def known_values(plan: Plan, step: Step, value: Json) -> Iterator[Json]:
    """Yield what an argument is, once for each call of the step; nothing where it is not known."""
    variables: JsonObject = {"inputs": plan.inputs}
    once = _value(value, variables, _INPUT_ROOTS)
    if once:
        yield from once
        return
    for index, item in enumerate((known_items(plan, step) or [])[:_MAX_ITEMS_INSPECTED]):
        yield from _value(value, {**variables, "item": item, "index": index}, _ITEM_ROOTS)


def _value(value: Json, variables: JsonObject, roots: frozenset[str]) -> list[Json]:
    """Return the value in a list of one, or nothing where it reads anything but these roots or cannot be had."""
    if not holds_expression(value):
        return [value]
    from wavewright.planner.expressions import evaluate
    from wavewright.planner.references import render

    try:
        if not all(_reads_only(use, roots) for use in _uses_in_value(value)):
            return []
        return [render(value, lambda expression: evaluate(expression, variables, _EPOCH))]
    except ExpressionError:
        return []


def _uses_in_value(value: Json) -> Iterator[ExpressionUse]:
    if isinstance(value, str):
        yield from embedded_uses(value, "", "params")
    elif isinstance(value, list):
        for item in value:
            yield from _uses_in_value(item)
    elif isinstance(value, dict):
        for member in value.values():
            yield from _uses_in_value(member)


def _reads_only(use: ExpressionUse, roots: frozenset[str]) -> bool:
    return "now" not in use.expression and all(read.root in roots for read in reads(use.expression))
