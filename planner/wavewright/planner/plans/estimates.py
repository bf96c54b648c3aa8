"""Estimate the time and the model use of a plan before it runs.

The *time* of a step is its tool's expected seconds, times the rounds that its `for_each` needs
where the length of the list is known. It orders ready steps and gives the critical path; no plan is
refused because of it. The *model use* is the sum of what the tools declare for a call, times the
items. Where the number of items is unknown one is counted, and the estimate is marked as *at
least*.

A value is *known* if it is a literal, or if its expressions read only inputs or items of a known
`for_each`.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from wavewright.planner.cel.embedded import bare_expression, iterate_strings, reads
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.language.plan import Limits, Plan, Step
from wavewright.planner.language.signatures import ToolSignature, ToolSignatures
from wavewright.planner.plans.expressions import evaluate, render
from wavewright.planner.plans.graph import superseded_by
from wavewright.planner.plans.uses import (
    ExpressionUse,
    asks_each_item,
    embedded_uses,
    holds_expression,
)
from wavewright.planner.types import Json, JsonObject, StepId

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MAX_ITEMS_INSPECTED = 1000

INPUT_ROOTS = frozenset({"inputs"})
ITEM_ROOTS = frozenset({"inputs", "item", "index"})


def known_items(plan: Plan, step: Step) -> list[Json] | None:
    """Return the list that a step runs over, where it is known."""
    values = value_if_known(step.for_each, plan.scope({}), INPUT_ROOTS)
    return values[0] if values and isinstance(values[0], list) else None


def items_to_run(plan: Plan, step: Step, items: Sequence[Json]) -> Iterator[tuple[int, Json]]:
    """Yield those of a step's items, with their numbers, that the step runs for: one that its
    condition on items leaves out, or may leave out, need not fit.
    """
    if step.when is None or not asks_each_item(step):
        yield from enumerate(items)
        return
    variables = plan.scope({})
    for number, item in enumerate(items):
        if holds_expression(item):
            continue  # what the condition says of it shows at the run
        if condition_if_known(step, {**variables, "item": item, "index": number}):
            yield number, item


def known_values(plan: Plan, step: Step, value: Json) -> Iterator[Json]:
    """Yield what an argument is, once for each call of the step; nothing where it is not known.

    An item that the step's condition leaves out, such as `when: item != "XJO"`, is not called.
    """
    once = value_if_known(value, plan.scope({}), INPUT_ROOTS)
    if once:
        yield from once
        return
    for scope in scopes_of_calls(plan, step, (known_items(plan, step) or [])[:MAX_ITEMS_INSPECTED]):
        yield from value_if_known(value, scope, ITEM_ROOTS)


def scopes_of_calls(plan: Plan, step: Step, items: Sequence[Json]) -> Iterator[JsonObject]:
    """Yield what is known of a call before the run, its item too: for each item of a step that its
    condition may keep.
    """
    variables = plan.scope({})
    for index, item in enumerate(items):
        scope: JsonObject = {**variables, "item": item, "index": index}
        if condition_if_known(step, scope) is not False:
            yield scope


def calls_nothing(plan: Plan, step: Step) -> bool:
    """Whether it is known before the run that a step makes no call: its condition is false, or is
    so for each item of its list.
    """
    if condition_if_known(step, plan.scope({})) is False:
        return True
    items = known_items(plan, step)
    return items is not None and next(scopes_of_calls(plan, step, items), None) is None


def most_calls(plan: Plan, step: Step) -> int | None:
    """Return how many calls a step makes at most, one for each item that its condition may keep;
    None where its list is not known.
    """
    if calls_nothing(plan, step):
        return 0
    if step.for_each is None:
        return 1
    items = known_items(plan, step)
    return None if items is None else sum(1 for _ in scopes_of_calls(plan, step, items))


def condition_if_known(step: Step, scope: JsonObject) -> bool | None:
    """Return whether a step runs for an item; None where it is not known before the run."""
    if step.when is None:
        return True
    try:
        condition = bare_expression(step.when).expression
    except ExpressionError:
        return None
    known = value_if_known(f"${{{condition}}}", scope, ITEM_ROOTS)
    return known[0] if known and isinstance(known[0], bool) else None


def value_if_known(value: Json, variables: JsonObject, roots: frozenset[str]) -> list[Json]:
    """Return the value in a list of one, or nothing where it reads anything but these roots or
    cannot be had.
    """
    if not holds_expression(value):
        return [value]
    try:
        for pointer, text in iterate_strings(value):
            if not all(_reads_only(use, roots) for use in embedded_uses(text, pointer, "params")):
                return []
        return [render(value, lambda expression: evaluate(expression, variables, _EPOCH))]
    except ExpressionError:
        return []


def _reads_only(use: ExpressionUse, roots: frozenset[str]) -> bool:
    # The instant of the run is no root, and is not known before it.
    if _NOW.search(use.expression):
        return False
    return all(read.root in roots for read in reads(use.expression))


_NOW: Final = re.compile(r"\bnow\s*\(")


_DEFAULT_SECONDS = 1.0


def expected_seconds(plan: Plan, tools: ToolSignatures) -> dict[StepId, float]:
    """Return the expected seconds of each step, within the default limits."""
    limits = Limits()
    return {step.id: _step_seconds(plan, step, tools.get(step.tool), limits) for step in plan.steps}


def _step_seconds(plan: Plan, step: Step, signature: ToolSignature | None, limits: Limits) -> float:
    once = _DEFAULT_SECONDS if signature is None else signature.expected_seconds
    items = known_items(plan, step) if step.for_each is not None else None
    if items is None:
        return once
    return once * math.ceil(len(items) / max_parallel_calls(step, signature, limits))


def max_parallel_calls(step: Step, signature: ToolSignature | None, limits: Limits) -> int:
    """Return how many calls of a step may be made at once."""
    bounds = (
        limits.concurrency,
        limits.tool_concurrency.get(step.tool),
        step.concurrency,
        None if signature is None else signature.concurrency,
    )
    return min(bound for bound in bounds if bound is not None)


_NO_ITEMS_DONE: Final[Mapping[StepId, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class StepEstimate:
    """What one step may take."""

    step: StepId
    number: int
    """Its place in the plan."""
    calls: int
    """Of the tool; each asks a model at least once."""
    tokens: int
    """Read and written, of all its calls."""
    is_lower_bound: bool
    """Whether the number of its items is not known yet."""


@dataclass(frozen=True, slots=True)
class PlanEstimate:
    """What a plan may take; steps that ask no model are left out."""

    steps: tuple[StepEstimate, ...] = ()

    @property
    def calls(self) -> int:
        """Calls of tools that ask models."""
        return sum(step.calls for step in self.steps)

    @property
    def tokens(self) -> int:
        """Tokens, read and written."""
        return sum(step.tokens for step in self.steps)

    @property
    def is_lower_bound(self) -> bool:
        """Whether a step's number of items is not known yet."""
        return any(step.is_lower_bound for step in self.steps)


def estimate_plan_tokens(
    plan: Plan,
    tools: ToolSignatures,
    *,
    finished: Collection[StepId] = frozenset(),
    items_done: Mapping[StepId, int] = _NO_ITEMS_DONE,
) -> PlanEstimate:
    """Return what the steps of a plan may take that are still to run.

    Args:
        plan: The plan.
        tools: Signatures; a step whose tool is not among them counts as nothing.
        finished: Steps that have run. One that another step supersedes does not run again either.
        items_done: Of steps that run once an item and have not ended, how many items have run.
    """
    done = {*finished, *superseded_by(plan)}
    estimates: list[StepEstimate] = []
    for number, step in enumerate(plan.steps):
        signature = tools.get(step.tool)
        if signature is None or not signature.expected_tokens or step.id in done:
            continue
        known = _call_count(plan, step)
        calls = 1 if known is None else max(0, known - items_done.get(step.id, 0))
        estimates.append(
            StepEstimate(step.id, number, calls, signature.expected_tokens * calls, known is None)
        )
    return PlanEstimate(tuple(estimates))


def _call_count(plan: Plan, step: Step) -> int | None:
    """Return how many calls a step makes; None where that depends on an output."""
    if step.for_each is None:
        return 1
    items = known_items(plan, step)
    return None if items is None else len(items)
