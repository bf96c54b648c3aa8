"""What goes wrong over valid outputs.

A *mishap* is what types could not foresee: every tool gave what its schema promises, and yet an expression has no
value, parameters do not fit or a gate cannot be asked. It is shown with the smallest outputs that still cause it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import NamedTuple

from wavewright.engine.simulation.plan_analysis import embedded_expressions
from wavewright.engine.simulation.schema_values import is_formatted
from wavewright.executor.events.state import RunState
from wavewright.planner.language.plan import Plan
from wavewright.planner.plans.expressions import ExpressionError, evaluate
from wavewright.planner.plans.uses import condition_reads
from wavewright.planner.types import Json, JsonObject, StepId
from wavewright.reviewer.review.evidence import plan_scope

_KINDS = frozenset({"expression", "params", "items", "output"})
_MAX_SHRINKS = 250
_MAX_CAUSE_LENGTH = 120
_SHORT_LIST = 6
"""Entries of a list that are looked at one by one."""


class FailureKey(NamedTuple):
    """Which mishap it is: where it happened, and how."""

    step: StepId
    """Empty where it is the plan's result that cannot be made."""
    kind: str
    """The kind of the step's error, or `gate`, or `result`."""
    gate: str
    cause: str
    """What was said of it, without the values found."""


def failures_of(
    state: RunState, failing: Collection[StepId], plan: Plan, now: dt.datetime
) -> dict[FailureKey, str]:
    """Return what went wrong in a run in which the steps `failing` were made to fail, with what was said of it."""
    return {
        FailureKey(step, kind, gate, _cause(message)): message
        for step, kind, gate, message in _failures(state, failing, plan, now)
    }


def _failures(
    state: RunState, failing: Collection[StepId], plan: Plan, now: dt.datetime
) -> Iterator[tuple[StepId, str, str, str]]:
    for step, ending in sorted(state.steps.items()):
        if ending.error is not None and ending.error.kind in _KINDS and step not in failing:
            yield step, ending.error.kind, "", ending.error.message
        for record in ending.gates:
            if record.verdict == "error" and record.kind != "judge":
                yield step, "gate", record.gate, record.message
    variables: JsonObject | None = None
    for expression in embedded_expressions(plan.result):
        if all(state.is_present(name) for name in condition_reads(expression)):
            variables = plan_scope(plan, state) if variables is None else variables
            try:
                evaluate(expression, variables, now)
            except ExpressionError as fault:
                yield StepId(""), "result", "", fault.message


_FOUND_VALUE = re.compile(r"'[^']*'|\"[^\"]*\"|-?\d[\d.]*")


def _cause(message: str) -> str:
    """Return what was said without the values found: those in quotes, and what there is in place of a field."""
    return _FOUND_VALUE.sub("…", message.partition("; it ")[0])[:_MAX_CAUSE_LENGTH]


StillFails = Callable[[Json], Awaitable[bool]]
"""Whether a value, in the place of another, shows the same."""


async def shrink(value: Json, still_happens: StillFails) -> Json:
    """Return the smallest value, as far as some tries find it, of which the question is still true.

    Lists lose entries, objects lose members, texts and numbers become plain. Whether a value is allowed at all is
    for the question to say.
    """
    tries = 0
    while True:
        for smaller in _smaller(value):
            if tries >= _MAX_SHRINKS:
                return value
            tries += 1
            if await still_happens(smaller):
                value = smaller
                break
        else:
            return value


def _smaller(value: Json) -> Iterator[Json]:
    """Yield simpler values, the simplest first."""
    match value:
        case dict():
            yield from _smaller_objects(value)
        case list():
            yield from _smaller_lists(value)
        case str():
            # An address that is cut is none any more, and no schema's validator would say so.
            if not is_formatted(value):
                yield from dict.fromkeys(text for text in ("", value[:1]) if text != value)
        case bool():
            yield from (False,) if value else ()
        case int() | float():
            yield from (plain for plain in (0, 1) if abs(plain) < abs(value))
        case None:
            return


def _smaller_objects(value: JsonObject) -> Iterator[Json]:
    if value:
        yield {}
    for name in value:
        yield {key: member for key, member in value.items() if key != name}
    for name, member in value.items():
        yield from ({**value, name: smaller} for smaller in _smaller(member))


def _smaller_lists(value: list[Json]) -> Iterator[Json]:
    if value:
        yield []
    if len(value) > _SHORT_LIST:
        yield value[: len(value) // 2]
        yield value[len(value) // 2 :]
    for place in range(min(len(value), _SHORT_LIST)):
        yield [*value[:place], *value[place + 1 :]]
    for place in range(min(len(value), _SHORT_LIST)):
        yield from ([*value[:place], smaller, *value[place + 1 :]] for smaller in _smaller(value[place]))
