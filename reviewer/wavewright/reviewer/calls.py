"""The calls of a run, each with all that its tool was handed.

A *call* is one use of a tool, a child job of the run: one for a plain step, one an item for a `for_each` step. Its
parameters are made anew from the plan, the inputs and the outputs, as the executor made them, so the journal need
not keep them beside the outputs that they come from. Large ones are told by their shape; documents stand elsewhere.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from wavewright.executor.events import ItemFinished, StepFinished
from wavewright.executor.state import SUCCESSES, RunState
from wavewright.planner.expressions import ExpressionError
from wavewright.planner.goals import AvailableTool, Goal
from wavewright.planner.graph import PlanGraph
from wavewright.planner.models import Plan, Step
from wavewright.planner.references import Renderer, compile_render
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.types import Json, JsonObject, StepId
from wavewright.reviewer.records import CallReport
from wavewright.reviewer.values import shape, shorten

MAX_CALLS: Final = 1000
"""Calls of one step that are listed."""

_MAX_PARAM_CHARS = 200
_UNKNOWN_TOOL = AvailableTool.model_construct(name="")


@dataclass(frozen=True, slots=True)
class _ParamsRenderer:
    """What makes the parameters of one step's calls."""

    params: Renderer
    items: list[Json]
    visible: JsonObject
    now: dt.datetime

    def params_of(self, index: int | None) -> JsonObject | None:
        """Return the parameters of a call; none where they can no longer be made."""
        variables = self.visible
        if index is not None:
            if index >= len(self.items):
                return None
            variables = {**variables, "item": self.items[index], "index": index}
        try:
            params = self.params(variables, self.now)
        except ExpressionError:
            return None
        return params if isinstance(params, dict) else None


def params_of_call(
    plan: Plan, state: RunState, step: Step, index: int | None, now: dt.datetime
) -> JsonObject | None:
    """Return the resolved parameters of one call, whole; none where they can no longer be made."""
    maker = _params_renderer(step, plan, PlanGraph.of(plan), state.outputs(), now)
    return maker.params_of(index) if maker is not None else None


def list_calls(
    plan: Plan, goal: Goal, state: RunState, tools: Mapping[str, ToolSignature], now: dt.datetime
) -> tuple[CallReport, ...]:
    """Return the calls in the plan's order, and of one step in the order of its items.

    Steps that were skipped, blocked or never ran called nothing. Of more than `MOST_CALLS` calls of one step the
    first are listed.
    """
    graph = PlanGraph.of(plan)
    outputs = state.outputs()
    allowed = {tool.name: tool for tool in goal.tools}
    return tuple(
        _call_report(step, ending, maker, state, allowed.get(step.tool, _UNKNOWN_TOOL), tools.get(step.tool))
        for step in plan.steps
        if (endings := _finished_calls(step, state))
        for maker in (_params_renderer(step, plan, graph, outputs, now),)
        for ending in endings
    )


def summarized_params(params: JsonObject) -> JsonObject:
    """Return parameters with large values told by their shape."""
    return {name: _summarized_value(value) for name, value in params.items()}


def _finished_calls(step: Step, state: RunState) -> list[StepFinished | ItemFinished]:
    items = state.items.get(step.id)
    if items is not None:
        return [items[index] for index in sorted(items)[:MAX_CALLS]]
    end = state.steps.get(step.id)
    if end is None or end.items is not None or end.status not in {*SUCCESSES, "failed", "cancelled"}:
        return []
    # A step that was cancelled before its turn has no key.
    return [end] if end.key is not None or end.attempts else []


def _params_renderer(
    step: Step, plan: Plan, graph: PlanGraph, outputs: Mapping[StepId, Json], now: dt.datetime
) -> _ParamsRenderer | None:
    seen: JsonObject = {name: outputs[name] for name in graph.dependencies[step.id] if name in outputs}
    visible: JsonObject = {"inputs": plan.inputs, "steps": seen}
    try:
        items = compile_render(step.for_each)(visible, now) if step.for_each is not None else None
        return _ParamsRenderer(
            compile_render(step.params), items if isinstance(items, list) else [], visible, now
        )
    except ExpressionError:
        return None


def _call_report(
    step: Step,
    ending: StepFinished | ItemFinished,
    maker: _ParamsRenderer | None,
    state: RunState,
    tool: AvailableTool,
    signature: ToolSignature | None,
) -> CallReport:
    index = ending.index if isinstance(ending, ItemFinished) else None
    place = step.id if index is None else f"{step.id}/{index}"
    params = maker.params_of(index) if maker else None
    return CallReport(
        id=f"{state.run}/{place}",
        step=step.id,
        index=index,
        tool=step.tool,
        worker_type=tool.worker_type,
        config=tool.config,
        params=summarized_params(params) if params is not None else None,
        key=ending.key,
        timeout=step.timeout or (signature.timeout if signature else None),
        status=ending.status,
        attempts=ending.attempts,
        seconds=ending.seconds,
        error_kind=ending.error.kind if ending.error else None,
    )


def _summarized_value(value: Json) -> Json:
    if isinstance(value, str):
        return shorten(value, _MAX_PARAM_CHARS)
    if isinstance(value, list | dict) and len(json.dumps(value, ensure_ascii=False)) > _MAX_PARAM_CHARS:
        return shape(value)
    return value
