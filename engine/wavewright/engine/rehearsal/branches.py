"""The branches of a plan, and which of them a run took.

A *branch* is one way that a run can go at one place: a step that ends well, a side of a `when`, a fan-out of none,
one or several items, a gate that is green or red, an optional step that fails, a recipe that is applied.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from wavewright.executor.events import GateRecord, StepFinished
from wavewright.executor.state import SUCCESSES, RunState
from wavewright.planner.embedded import bare_expression
from wavewright.planner.expressions import ExpressionError, evaluate
from wavewright.planner.goals import Goal
from wavewright.planner.known_values import known_items
from wavewright.planner.models import Plan, Step
from wavewright.planner.types import Json, JsonObject
from wavewright.planner.uses import step_texts
from wavewright.reviewer.scope import plan_scope

BranchKind: TypeAlias = Literal["step", "when", "items", "gate", "failure", "recipe"]

_FAILURES_AFTER_CALL: frozenset[str] = frozenset({"tool", "transient", "timeout", "output", "params"})
"""Kinds of errors of a step whose condition was true."""


class Branch(NamedTuple):
    """One way to go, at one place."""

    kind: BranchKind
    name: str
    """The step's or the gate's id."""
    side: str

    def __str__(self) -> str:
        """Return the branch in words."""
        match self.kind:
            case "step":
                return f"step {self.name} ends well"
            case "when":
                return f"when of {self.name} is {self.side}"
            case "items":
                return f"{self.name} runs over {_ITEMS[self.side]}"
            case "gate":
                return f"gate {self.name} is {self.side}"
            case "failure":
                return f"optional step {self.name} fails"
            case "recipe":
                return f"recipe {self.side} of gate {self.name} is applied"


_ITEMS = {"0": "no item", "1": "one item", "n": "several items"}


def branches_of(plan: Plan, goal: Goal) -> tuple[Branch, ...]:
    """Return every branch of a (bound) plan, step by step."""
    return tuple(dict.fromkeys(_branches(plan, goal)))


def _branches(plan: Plan, goal: Goal) -> Iterator[Branch]:
    for step in plan.steps:
        yield Branch("step", step.id, "ok")
        if step.when is not None:
            yield from (Branch("when", step.id, side) for side in ("true", "false"))
        if step.for_each is not None:
            yield from (Branch("items", step.id, side) for side in _size_sides(step, plan))
        if step.optional:
            yield Branch("failure", step.id, "failed")
        for gate in plan.gates:
            # Without a model nobody answers a judge gate.
            if gate.on == step.id and gate.judge is None:
                yield from (Branch("gate", gate.id, side) for side in ("green", "red"))
    for number, recipe in enumerate(goal.recipes, 1):
        yield Branch("recipe", recipe.gate, str(number))


def _size_sides(step: Step, plan: Plan) -> tuple[str, ...]:
    """Return the sides of a fan-out; one only, where the list stands in the plan."""
    if isinstance(step.for_each, list):
        return (_size_side(len(step.for_each)),)
    found = [read for text in step_texts(step, 0) if text.role == "for_each" for read in text.reads.values()]
    items = known_items(plan, step) if all(read == () for read in found) else None
    return tuple(_ITEMS) if items is None else (_size_side(len(items)),)


def _size_side(items: int) -> str:
    return str(items) if items < 2 else "n"


def branches_taken(state: RunState, plan: Plan, goal: Goal, now: dt.datetime) -> frozenset[Branch]:
    """Return the branches of the plan that a run took."""
    return frozenset(_taken(state, plan, goal, now))


def _taken(state: RunState, plan: Plan, goal: Goal, now: dt.datetime) -> Iterator[Branch]:
    for step in plan.steps:
        ending = state.steps.get(step.id)
        if ending is None:
            continue
        if ending.status in SUCCESSES:
            yield Branch("step", step.id, "ok")
        if step.when is not None and (side := _when_side(step.when, ending, state, plan, now)) is not None:
            yield Branch("when", step.id, side)
        if step.for_each is not None and ending.items is not None:
            yield Branch("items", step.id, _size_side(ending.items[1]))
        if step.optional and ending.status == "failed":
            yield Branch("failure", step.id, "failed")
        for record in ending.gates:
            if record.kind != "judge" and not _had_nothing_to_check(record):
                yield Branch("gate", record.gate, "red" if record.has_failed else "green")
    for patch in state.patches:
        reason = str(patch.get("reason"))
        for number, recipe in enumerate(goal.recipes, 1):
            if recipe.reason in reason and _is_from(recipe.gate, patch.get("expect")):
                yield Branch("recipe", recipe.gate, str(number))


def _when_side(when: str, ending: StepFinished, state: RunState, plan: Plan, now: dt.datetime) -> str | None:
    if ending.status == "skipped":
        return "false"
    is_called = ending.error is not None and ending.error.kind in _FAILURES_AFTER_CALL
    if ending.status in SUCCESSES or ending.items is not None or is_called:
        return "true"
    # An expression without a value is the condition itself, or what comes after it.
    holds = ending.error is not None and _holds(when, plan_scope(plan, state), now)
    return "true" if holds else None


def _holds(condition: str, scope: JsonObject, now: dt.datetime) -> bool:
    try:
        return evaluate(bare_expression(condition).expression, scope, now) is True
    except ExpressionError:
        return False


def _had_nothing_to_check(record: GateRecord) -> bool:
    """Whether there was nothing for a gate to look at."""
    return record.looked_at.startswith("no calls:")


def _is_from(gate: str, expected: Json) -> bool:
    ids = expected if isinstance(expected, list) else []
    return any(str(one) == gate or str(one).startswith(f"{gate}__") for one in ids)
