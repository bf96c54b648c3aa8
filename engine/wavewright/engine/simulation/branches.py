"""The branches of a plan, which of them a run took, and what failed in it over valid outputs.

A *branch* is one way that a run can go at one place: a step that succeeds, a side of a `when`, a fan-out over no, one
or several items, a gate that passes or fails, an optional step that fails, a recipe that is applied.
A step fails over *valid outputs* where every tool returned what its schema says, and yet an expression has no
value, parameters do not fit or a gate cannot be evaluated.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import Literal, NamedTuple, TypeAlias

from wavewright.engine.simulation.plan_reads import (
    Sources,
    embedded_expressions,
    sources_of,
    sources_of_gates,
    step_expressions,
)
from wavewright.executor.events.state import SUCCESSES, RunState
from wavewright.executor.events.types import StepFinished
from wavewright.planner.cel.embedded import bare_expression
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.plans.estimates import known_items
from wavewright.planner.plans.expressions import evaluate
from wavewright.planner.plans.uses import asks_each_item, condition_reads
from wavewright.planner.types import Json, JsonObject, StepId, as_list
from wavewright.reviewer.review.results import plan_scope

_KINDS = frozenset({"expression", "params", "items", "output"})
_FOUND_VALUE = re.compile(r"'[^']*'|\"[^\"]*\"|-?\d[\d.]*")
_MAX_CAUSE_LENGTH = 120
_MAX_SHRINKS = 250


class FailureKey(NamedTuple):
    """Which failure it is: where it happened, and why."""

    step: StepId
    """Empty where it is the plan's result that cannot be made."""
    kind: str
    """The kind of the step's error, or `gate`, or `result`."""
    gate: str
    cause: str
    """The message without the values found, so that one cause is reported once."""


def failures_of(
    state: RunState, failing: Collection[StepId], plan: Plan, now: dt.datetime
) -> dict[FailureKey, str]:
    """Return the messages of what failed in a run in which the steps `failing` were made to fail."""
    found: dict[FailureKey, str] = {}

    def add(step: str, kind: str, message: str, gate: str = "") -> None:
        # Without the values found: those in quotes, and what there is in place of a field.
        cause = _FOUND_VALUE.sub("…", message.partition("; it ")[0])[:_MAX_CAUSE_LENGTH]
        found[FailureKey(StepId(step), kind, gate, cause)] = message

    for step, ended in sorted(state.steps.items()):
        if ended.error is not None and ended.error.kind in _KINDS and step not in failing:
            add(step, ended.error.kind, ended.error.message)
        for record in ended.gates:
            if record.verdict == "error" and record.kind != "judge":
                add(step, "gate", record.message, record.gate)
    for expression in embedded_expressions(plan.result):
        if all(state.is_present(name) for name in condition_reads(expression)):
            try:
                evaluate(expression, plan_scope(plan, state), now)
            except ExpressionError as error:
                add("", "result", error.message)
    return found


async def shrink(value: Json, still_fails: Callable[[Json], Awaitable[bool]]) -> Json:
    """Return the smallest value, as far as some tries find it, for which `still_fails` is true.

    Lists lose entries, objects lose members, numbers become 0 or 1. Whether a value is valid is for `still_fails` to
    say; texts stay, since no schema would refuse half an address.
    """
    tries = 0
    while True:
        for smaller in _smaller(value):
            if tries >= _MAX_SHRINKS:
                return value
            tries += 1
            if await still_fails(smaller):
                value = smaller
                break
        else:
            return value


def _smaller(value: Json) -> Iterator[Json]:
    """Yield simpler values, the simplest first."""
    if isinstance(value, dict):
        for name in value:
            yield {key: member for key, member in value.items() if key != name}
        for name, member in value.items():
            yield from ({**value, name: smaller} for smaller in _smaller(member))
    elif isinstance(value, list) and value:
        half = len(value) // 2
        yield from ([], value[: half or 1], value[half:]) if len(value) > 1 else ([],)
        for place, entry in enumerate(value):
            yield from ([*value[:place], smaller, *value[place + 1 :]] for smaller in _smaller(entry))
    elif isinstance(value, bool):
        yield from (False,) if value else ()
    elif isinstance(value, int | float):
        yield from (plain for plain in (0, 1) if abs(plain) < abs(value))


BranchKind: TypeAlias = Literal["step", "when", "items", "gate", "failure", "recipe"]

_ITEMS = {"0": "no item", "1": "one item", "n": "several items"}


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
                return f"step {self.name} succeeds"
            case "when":
                return f"when of {self.name} is {self.side}"
            case "items":
                return f"{self.name} runs over {_ITEMS[self.side]}"
            case "gate":
                return f"gate {self.name} {'passes' if self.side == 'passed' else 'fails'}"
            case "failure":
                return f"optional step {self.name} fails"
            case "recipe":
                return f"recipe {self.side} of gate {self.name} is applied"


def branches_of(plan: Plan, goal: Goal) -> Iterator[Branch]:
    """Yield every branch of a (bound) plan, step by step."""
    for step in plan.steps:
        yield Branch("step", step.id, "ok")
        if step.when is not None and not asks_each_item(step):
            yield from (Branch("when", step.id, side) for side in ("true", "false"))
        if step.for_each is not None:
            # A list that stands in the plan has one size.
            yield from (Branch("items", step.id, side) for side in _size_sides(step, plan))
        if step.optional:
            yield Branch("failure", step.id, "failed")
        for gate in plan.gates:
            # Without a model a judge gate is not evaluated.
            if gate.on == step.id and gate.judge is None:
                yield from (Branch("gate", gate.id, side) for side in ("passed", "failed"))
    for number, recipe in enumerate(goal.recipes, 1):
        if recipe.gate is not None:
            yield Branch("recipe", recipe.gate, str(number))


def _size_sides(step: Step, plan: Plan) -> tuple[str, ...]:
    if isinstance(step.for_each, list):
        return (_size_side(len(step.for_each)),)
    sources = sources_of(embedded_expressions(step.for_each))
    items = None if sources.steps or sources.reads_inputs else known_items(plan, step)
    return tuple(_ITEMS) if items is None else (_size_side(len(items)),)


def _size_side(items: int) -> str:
    return str(items) if items < 2 else "n"


def branches_taken(state: RunState, plan: Plan, goal: Goal, now: dt.datetime) -> Iterator[Branch]:
    """Yield the branches of the plan that a run took."""
    for step in plan.steps:
        ended = state.steps.get(step.id)
        if ended is None:
            continue
        if ended.status in SUCCESSES:
            yield Branch("step", step.id, "ok")
        if side := _when_side(step, ended, state, plan, now):
            yield Branch("when", step.id, side)
        if step.for_each is not None and ended.items is not None:
            yield Branch("items", step.id, _size_side(ended.items[1]))
        if step.optional and ended.status == "failed":
            yield Branch("failure", step.id, "failed")
        for record in ended.gates:
            if record.kind != "judge" and record.verdict != "not_evaluated":
                yield Branch("gate", record.gate, "failed" if record.has_failed else "passed")
    for patch in state.patches:
        reason = str(patch.get("reason"))
        for number, recipe in enumerate(goal.recipes, 1):
            if (
                recipe.gate is not None
                and recipe.reason in reason
                and _is_for_gate(recipe.gate, patch.get("expect"))
            ):
                yield Branch("recipe", recipe.gate, str(number))


def _when_side(step: Step, ended: StepFinished, state: RunState, plan: Plan, now: dt.datetime) -> str:
    """Return the side that a step's condition took; empty where there is none, or none was reached."""
    when = step.when
    if when is None or asks_each_item(step):
        return ""
    if ended.status == "skipped":
        return "false"
    if ended.status in SUCCESSES:
        return "true"
    # An expression that has no value is the condition itself, or one of the parameters.
    return "true" if ended.error is not None and _holds(when, plan_scope(plan, state), now) else ""


def _holds(condition: str, scope: JsonObject, now: dt.datetime) -> bool:
    try:
        return evaluate(bare_expression(condition).expression, scope, now) is True
    except ExpressionError:
        return False


def _is_for_gate(gate: str, expected: Json) -> bool:
    ids = as_list(expected)
    return any(str(one) == gate or str(one).startswith(f"{gate}__") for one in ids)


def sources_of_branch(branch: Branch, plan: Plan) -> Sources:
    """Return what decides whether a run takes a branch."""
    if branch.kind == "gate":
        return sources_of_gates(gate for gate in plan.gates if gate.id == branch.name)
    if branch.kind == "recipe":
        return sources_of_gates(gate for gate in plan.gates if gate.id.partition("__")[0] == branch.name)
    step = plan.step(branch.name)
    if branch.kind == "when" and step.when is not None:
        return sources_of([bare_expression(step.when).expression])
    return sources_of(
        embedded_expressions(step.for_each) if branch.kind == "items" else step_expressions(step)
    )
