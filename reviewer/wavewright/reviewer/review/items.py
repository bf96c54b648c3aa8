"""The items of a step, and how they are named.

An item is named by its *label*: the field that the goal names as a target's identifier (a product's
`code`), else a usual identifier field, else the item itself where it is short, else its position.

A label is not what an item is: who writes a patch can give another item the same one. What a call
asks for is, and that are the parameters that its item decides.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from wavewright.executor.events.state import SUCCESSES
from wavewright.planner import (
    ExpressionError,
    Json,
    JsonObject,
    Step,
    StepId,
    as_list,
    evaluate,
    render,
)
from wavewright.planner.plans.uses import reads_root
from wavewright.planner.plans.ways_of_fetching import says_how
from wavewright.reviewer.review.results import ReviewedRun
from wavewright.reviewer.values import shorten

_MAX_LABEL: Final = 40


def item_labels(run: ReviewedRun, step_id: StepId) -> tuple[str, ...]:
    """Return the labels of a step's items, in their order; empty where its list can no longer be
    resolved.
    """
    return labels_of(run, as_list(rendered(run, run.plan.step(step_id).for_each)))


def item_subjects(run: ReviewedRun, step_id: StepId, instead_of: StepId) -> tuple[str, ...]:
    """Return what the calls of a step ask for, item by item, as far as the items of the step for which
    it stands decide it; their labels where they are no calls of one tool, or no parameter reads them.

    How something is fetched (`source`) is no part of it, see `says_how`, nor what a recipe of the goal
    sets: its author says what stands for what.
    """
    step, old = run.plan.step(step_id), run.plan.step(instead_of)
    by_author = _set_by_recipes(run, run.plan.step(run.replaced.get(instead_of, instead_of)))
    asked = [
        name
        for name, value in old.params.items()
        if reads_root(value, "item") and not says_how(name) and name not in by_author
    ]
    if not asked or step.tool != old.tool:
        return item_labels(run, step_id)
    params: JsonObject = {name: step.params.get(name) for name in asked}
    items = as_list(rendered(run, step.for_each))
    calls = (rendered(run, params, item=item, index=index) for index, item in enumerate(items))
    return tuple(json.dumps(call, sort_keys=True) for call in calls)


def _set_by_recipes(run: ReviewedRun, step: Step) -> frozenset[str]:
    """Return the parameters that a step has as a recipe of the goal writes them."""
    return frozenset(
        name
        for recipe in run.goal.recipes
        for name, value in recipe.set_params.items()
        if name in step.params and step.params[name] == value
    )


def labels_of(run: ReviewedRun, items: Sequence[Json]) -> tuple[str, ...]:
    """Return the label of each of some items."""
    identifiers = run.goal.targets.identifiers
    return tuple(_label(item, position, identifiers) for position, item in enumerate(items))


def _label(item: Json, position: int, identifiers: Sequence[str]) -> str:
    # A number is named as what it is: `f[3]` is read as the position of the item.
    named = [("value", item)]
    if isinstance(item, dict):
        named = [(name, item.get(name)) for name in identifiers]
    for name, value in named:
        if isinstance(value, str) and value != "":
            return shorten(value, _MAX_LABEL)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return shorten(f"{name} {value}", _MAX_LABEL)
    return f"item {position}"


def rendered(run: ReviewedRun, value: Json, **of_item: Json) -> Json:
    """Return a value as a step would be given it now, for one of its items if there is one; None where
    it cannot be computed.
    """
    # Not `run.scope`: what a failed gate keeps from other steps has been given all the same.
    outputs: JsonObject = {
        step: end.output for step, end in run.state.steps.items() if end.status in SUCCESSES
    }
    variables = {**run.plan.scope(outputs), **of_item}
    try:
        return render(value, lambda expression: evaluate(expression, variables, run.now))
    except ExpressionError:
        return None
