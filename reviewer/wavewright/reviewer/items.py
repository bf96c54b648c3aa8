"""Items of a `for_each` step by the names that people know them by.

A *label* is the field that the goal says identifies a target (a stock's `code`), else a usual one, else the item
itself where it is short, else its position.
"""

from __future__ import annotations

import datetime as dt

from wavewright.executor.state import SUCCESSES, RunState
from wavewright.planner.expressions import ExpressionError, evaluate
from wavewright.planner.goals import Goal
from wavewright.planner.models import Plan
from wavewright.planner.references import render
from wavewright.planner.types import Json, JsonObject, StepId
from wavewright.reviewer.values import shorten

_LABEL_KEYS = ("code", "id", "name", "key", "title")


def item_labels(
    plan: Plan, goal: Goal | None, state: RunState, now: dt.datetime, step_id: StepId
) -> tuple[str, ...]:
    """Return the labels of a step's items, in their order; nothing where its list can no longer be found."""
    items = plan.step(step_id).for_each
    if isinstance(items, str):
        variables: JsonObject = {
            "inputs": plan.inputs,
            "steps": {name: end.output for name, end in state.steps.items() if end.status in SUCCESSES},
        }
        try:
            items = _as_list(render(items, lambda expression: evaluate(expression, variables, now)))
        except ExpressionError:
            return ()
    key = goal.targets.key if goal is not None else None
    return tuple(_label(item, position, key) for position, item in enumerate(items or []))


def _as_list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _label(item: Json, position: int, key: str | None) -> str:
    if isinstance(item, dict):
        for name in (key, *_LABEL_KEYS):
            value = item.get(name) if name is not None else None
            if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "":
                return shorten(str(value), 40)
    if isinstance(item, (str, int)) and not isinstance(item, bool) and item != "":
        return shorten(str(item), 40)
    return f"item {position}"
