"""What fails over valid outputs, and the smallest output that shows it.

Every tool returned what its schema says, and yet an expression has no value, parameters do not fit or a gate cannot
be evaluated.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import NamedTuple

from wavewright.engine.simulation.plan_reads import embedded_expressions
from wavewright.executor.events.state import RunState
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.language.plan import Plan
from wavewright.planner.plans.expressions import evaluate
from wavewright.planner.plans.uses import condition_reads
from wavewright.planner.types import Json, StepId
from wavewright.reviewer.review.evidence import plan_scope

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
