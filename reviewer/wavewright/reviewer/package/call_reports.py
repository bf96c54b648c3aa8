"""Reports on the calls of a run, the cost of its language models, and its failed attempts.

A *call* is one use of a tool, a child job of the run: one for a plain step, one per item for a
`for_each` step. Its parameters are computed again from the plan, the inputs and the outputs, so the
journal need not hold them. Large values are replaced by their shape.

*Orchestrator tokens* are those of planning, recovery, review, judging and agents' loops; *worker
tokens* those of model workers. Every call counts for what it was charged, answered or not. Failed
attempts are shortened; `wavewright show RUN STEP` and `logs RUN` print them whole.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from wavewright.executor import ItemFinished, RunState, StepFinished
from wavewright.executor.events.state import SUCCESSES
from wavewright.executor.events.types import LoopToolCalled, TracebackFrame
from wavewright.planner import (
    ExpressionError,
    Json,
    JsonObject,
    Plan,
    PlanGraph,
    Step,
    StepId,
    ToolSignature,
)
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.planner.language.goals import AvailableTool
from wavewright.planner.plans.expressions import Renderer, compile_render
from wavewright.planner.ports.model_port import ModelUse
from wavewright.reviewer.cost_records import Cost, LoopCallReport, ModelUses, NamedCost, RungReport
from wavewright.reviewer.records import AttemptReport, CallReport
from wavewright.reviewer.review.results import ReviewedRun
from wavewright.reviewer.values import duration_text, grouped, listing, shape, shorten

MAX_CALLS: Final = 1000
"""Calls of one step that are listed."""

_MAX_PARAM_CHARS = 200
_UNKNOWN_TOOL = AvailableTool.model_construct(name="")


@dataclass(frozen=True, slots=True)
class ParamsRenderer:
    """Computes the parameters of one step's calls."""

    params: Renderer
    items: list[Json]
    visible: JsonObject
    now: dt.datetime

    def params_of(self, index: int | None) -> JsonObject | None:
        """Return the parameters of a call; None if they can no longer be computed."""
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


def params_renderer(
    plan: Plan, state: RunState, step: Step, now: dt.datetime
) -> ParamsRenderer | None:
    """Return what computes the parameters of a step's calls; None if its items can no longer be
    computed.
    """
    return renderer_of(step, plan, state.outputs(), now)


def list_calls(run: ReviewedRun) -> tuple[CallReport, ...]:
    """Return the calls in the plan's order, and of one step in the order of its items.

    Steps that were skipped, blocked or never ran have none. Of one step the first `MAX_CALLS` calls
    are listed.
    """
    plan, state = run.plan, run.state
    outputs = state.outputs()
    allowed = {tool.name: tool for tool in run.goal.tools}
    reports: list[CallReport] = []
    for step in plan.steps:
        ends = _finished_calls(step, state)
        if not ends:
            continue
        renderer = renderer_of(step, plan, outputs, run.now)
        tool, signature = allowed.get(step.tool, _UNKNOWN_TOOL), run.tools.get(step.tool)
        reports += [_call_report(step, end, renderer, state, tool, signature) for end in ends]
    return tuple(reports)


def _summarized_params(params: JsonObject) -> JsonObject:
    """Return parameters with large values replaced by their shape."""
    return {name: _summarized_value(value) for name, value in params.items()}


def _finished_calls(step: Step, state: RunState) -> list[StepFinished | ItemFinished]:
    items = state.items.get(step.id)
    if items is not None:
        return [items[index] for index in sorted(items)[:MAX_CALLS]]
    end = state.steps.get(step.id)
    # A step over items has a call for each item, and none has a record.
    if end is None or end.items is not None:
        return []
    if end.status not in {*SUCCESSES, "failed", "cancelled"}:
        return []
    # A step that was cancelled before its turn has no key.
    return [end] if end.key is not None or end.attempts else []


def renderer_of(
    step: Step, plan: Plan, outputs: Mapping[StepId, Json], now: dt.datetime
) -> ParamsRenderer | None:
    """Return what computes the parameters of a step's calls from the outputs that it may read; None
    if its items can no longer be computed.
    """
    dependencies = PlanGraph.of(plan).dependencies[step.id]
    visible = plan.scope({name: outputs[name] for name in dependencies if name in outputs})
    try:
        # A step without `for_each` renders null, which is no list.
        items = compile_render(step.for_each)(visible, now)
        params = compile_render(step.params)
    except ExpressionError:
        return None
    return ParamsRenderer(params, items if isinstance(items, list) else [], visible, now)


def _call_report(
    step: Step,
    end: StepFinished | ItemFinished,
    renderer: ParamsRenderer | None,
    state: RunState,
    tool: AvailableTool,
    signature: ToolSignature | None,
) -> CallReport:
    index = end.index if isinstance(end, ItemFinished) else None
    place = step.id if index is None else f"{step.id}/{index}"
    params = renderer.params_of(index) if renderer else None
    return CallReport(
        id=f"{state.run}/{place}",
        step=step.id,
        index=index,
        tool=step.tool,
        worker_type=tool.worker_type,
        config=tool.config,
        params=_summarized_params(params) if params is not None else None,
        key=end.key,
        timeout=step.timeout or (signature.timeout if signature else None),
        status=end.status,
        attempts=end.attempts,
        seconds=end.seconds,
        error_kind=end.error.kind if end.error else None,
    )


def _summarized_value(value: Json) -> Json:
    if isinstance(value, str):
        return shorten(value, _MAX_PARAM_CHARS)
    if not isinstance(value, list | dict):
        return value
    is_long = len(json.dumps(value, ensure_ascii=False)) > _MAX_PARAM_CHARS
    return shape(value) if is_long else value


_MAX_LOOP_CALLS = 1000
_MAX_RUNGS = 2000
_MAX_TEXT = 300


def sum_costs(uses: Iterable[ModelUse]) -> Cost:
    """Return the sum of some uses."""
    listed = tuple(uses)
    priced = [use.usd for use in listed if use.usd is not None]
    return Cost(
        calls=len(listed),
        unanswered=sum(use.outcome != "answered" for use in listed),
        # Where a budget refused only to repeat a request, the call was made.
        over_budget=sum(use.outcome == "over_budget" and not use.attempts for use in listed),
        attempts=sum(use.attempts for use in listed),
        input_tokens=sum(use.input_tokens for use in listed),
        output_tokens=sum(use.output_tokens for use in listed),
        usd=sum(priced) if priced else None,
        unpriced=sum(use.usd is None and use.tokens > 0 for use in listed),
        estimated=sum(use.is_estimated for use in listed),
        seconds=sum(use.seconds for use in listed),
    )


def sum_uses(state: RunState) -> ModelUses:
    """Return the cost of all model calls of a run."""
    uses = [state.uses[number] for number in sorted(state.uses)]
    return ModelUses(
        total=sum_costs(uses),
        steps=_costs_by(uses, lambda use: use.step),
        roles=_costs_by(uses, lambda use: use.role),
        rungs=_costs_by(uses, lambda use: f"{use.role} {use.rung}" if use.rung else None),
        models=_costs_by(uses, lambda use: use.model),
    )


def token_shares(state: RunState) -> tuple[int, int]:
    """Return orchestrator tokens and worker tokens."""
    by_workers = sum(use.tokens for use in state.uses.values() if use.role == "worker")
    return sum(use.tokens for use in state.uses.values()) - by_workers, by_workers


def list_rungs(state: RunState) -> tuple[RungReport, ...]:
    """Return the rungs that were tried, in the order of the run, up to a maximum."""
    return tuple(
        RungReport(
            ladder=taken.rung.ladder,
            rung=taken.rung.rung,
            outcome=taken.rung.outcome,
            reason=shorten(taken.rung.reason, _MAX_TEXT),
            seconds=taken.rung.seconds,
            ceiling=taken.rung.ceiling,
            because=taken.rung.because,
            step=taken.step,
            index=taken.index,
        )
        for taken in state.rungs[:_MAX_RUNGS]
    )


def list_loop_calls(state: RunState) -> tuple[LoopCallReport, ...]:
    """Return the tools that agents called inside their steps, step by step."""
    steps = (calls for _, calls in sorted(state.loop_calls.items()))
    return tuple(_loop_call_report(call) for calls in steps for call in calls[:_MAX_LOOP_CALLS])


def cost_lines(uses: ModelUses, orchestrator: int, workers: int) -> Iterator[str]:
    """Yield the cost of models in one or two lines; nothing if none was asked."""
    total = uses.total
    if not total.calls:
        return
    asked = listing([named.name for named in uses.models], 3)
    yield f"{calls_text(total)} of {asked}, {duration_text(total.seconds)} added up"
    about = "about " if total.estimated else ""
    yield (
        f"{about}{total.tokens:,} tokens (orchestrator {orchestrator:,}, workers {workers:,}), "
        f"{money_text(total)}"
    )


def calls_text(cost: Cost) -> str:
    """Return the number of calls, with those that had no answer and those that a budget refused."""
    silent = cost.unanswered - cost.over_budget
    notes = [f"{silent} without an answer"] if silent else []
    if cost.over_budget:
        notes.append(f"{cost.over_budget} over budget and never made")
    calls = counted(cost.made, "call") if cost.made else "no call"
    return f"{calls} ({', '.join(notes)})" if notes else calls


def money_text(cost: Cost) -> str:
    """Return the cost in money, with a remark if a price is unknown."""
    if cost.unpriced:
        return "price unknown" if not cost.usd else f"at least {usd_text(cost.usd)}"
    return usd_text(cost.usd or 0.0)


def usd_text(usd: float) -> str:
    """Return an amount of US dollars with four digits, or `under 0.0001 USD`."""
    return f"{usd:.4f} USD" if usd == 0 or usd >= 0.0001 else "under 0.0001 USD"


def _costs_by(
    uses: Iterable[ModelUse], name_of: Callable[[ModelUse], str | None]
) -> tuple[NamedCost, ...]:
    groups = grouped(uses, name_of).items()
    return tuple(
        NamedCost(name=name, cost=sum_costs(group)) for name, group in groups if name is not None
    )


def _loop_call_report(call: LoopToolCalled) -> LoopCallReport:
    return LoopCallReport(
        step=call.step,
        index=call.index,
        tool=call.call.tool,
        params=_summarized_params(call.call.params),
        status=call.call.status,
        seconds=call.call.seconds,
        message=shorten(call.call.message, _MAX_TEXT),
    )


MAX_ATTEMPTS: Final = 20
_MAX_CHARS = {"traceback": 4_000, "stdout": 2_000, "stderr": 2_000, "log": 2_000}


def list_failed_attempts(state: RunState) -> tuple[AttemptReport, ...]:
    """Return the last attempt of each call that has failed finally, in the order in which they
    failed.
    """
    failed = [event for place, event in state.faults.items() if _has_failed(state, *place)]
    return tuple(
        AttemptReport(
            step=event.step,
            index=event.index,
            attempt=event.attempt,
            **{name: _tail(getattr(event, name), most) for name, most in _MAX_CHARS.items()},
        )
        for event in sorted(failed, key=lambda event: event.at)[:MAX_ATTEMPTS]
    )


def frame_line(frame: TracebackFrame) -> str:
    """Return a frame on one line: file, line, function and the code there."""
    place = f"{frame.file}:{frame.line} in {frame.function}"
    return f"{place}: {frame.code}" if frame.code else place


def _has_failed(state: RunState, step: StepId, index: int | None) -> bool:
    if index is None:
        end: StepFinished | ItemFinished | None = state.steps.get(step)
    else:
        items = state.items.get(step)
        end = None if items is None else items.get(index)
    return end is not None and end.status == "failed"


def _tail(text: str, most: int) -> str:
    return text if len(text) <= most else f"… {text[-most:]}"
