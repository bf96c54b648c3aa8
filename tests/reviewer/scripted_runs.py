"""Runs for the reviewer's tests: real plans, real gates and real events, with answers instead of
tools.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from wavewright.executor.events.state import RunState, fold
from wavewright.executor.events.types import (
    ErrorKind,
    Event,
    GateRecord,
    ItemFinished,
    Noted,
    PlanAccepted,
    RunStarted,
    StepError,
    StepFinished,
    StepStatus,
    WaveFinished,
    WaveStarted,
)
from wavewright.executor.run.ports import GateRecords, GateView
from wavewright.planner.cel.embedded import bare_expression
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.language.goals import AvailableTool, Goal
from wavewright.planner.language.hashing import plan_hash
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.expressions import evaluate, render
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.types import Json, JsonObject, RunId, StepId, StepKey
from wavewright.reviewer.gates.verifier import make_verifier

NOW = dt.datetime(2010, 3, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Fails:
    """An answer that is a failure."""

    message: str = "the tool broke"
    kind: ErrorKind = "tool"
    hint: str | None = None


Answers = Mapping[str, object]
"""By step: a JSON value, `Fails`, or for a `for_each` step a list with one of these an item."""
Call = Callable[[str, JsonObject], object]
"""Answers a call of a tool with its parameters."""
Judge = Callable[[GateRecord], GateRecord]
"""Returns the record of a judge gate as a judge decides it; it is made without a model before."""


def signature(name: str, **more: object) -> ToolSignature:
    """Return the signature of a tool that takes anything and promises nothing."""
    return ToolSignature.model_validate({"name": name, **more})


def tools_of(plan: Plan, *known: ToolSignature) -> dict[str, ToolSignature]:
    """Return signatures for all that a plan calls; those not given promise nothing."""
    return {step.tool: signature(step.tool) for step in plan.steps} | {
        tool.name: tool for tool in known
    }


def goal_for(plan: Plan, **more: object) -> Goal:
    """Return a goal that allows what the plan calls."""
    tools = tuple(
        AvailableTool(name=name) for name in dict.fromkeys(step.tool for step in plan.steps)
    )
    return Goal.model_validate(
        {
            "name": "test",
            "job": "Test job",
            "text": "Find it out",
            "inputs": {},
            "tools": tools,
            "as_of": NOW,
            **more,
        }
    )


def plan_of(*steps: JsonObject, **more: Json) -> Plan:
    """Return a plan of the steps; a step's tool is `look` where it names none."""
    body: JsonObject = {"version": 1, "steps": [{"tool": "look", **step} for step in steps], **more}
    import json

    return Plan.model_validate_json(json.dumps(body))


@dataclass(frozen=True)
class ScriptedRun:
    """A plan that ran, and what its run left."""

    plan: Plan
    goal: Goal
    tools: dict[str, ToolSignature]
    events: tuple[Event, ...]

    @property
    def state(self) -> RunState:
        """The fold of the run's events."""
        return fold(self.events)


def run_plan(
    plan: Plan,
    answers: Answers,
    *tools: ToolSignature,
    goal: Goal | None = None,
    rung: str = "given",
    now: dt.datetime = NOW,
    started: float = 1_000_000.0,
    seconds: Mapping[str, float] | None = None,
    call: Call | None = None,
) -> ScriptedRun:
    """Run a plan by the rules that the executor keeps, each step answered from the script, or by
    `call`.

    A `for_each` step's answer is a list with one answer an item.
    """
    goal = goal or goal_for(plan)
    known = tools_of(plan, *tools)
    plan = bind_plan(plan, goal)
    clock = _Clock(started)
    events: list[Event] = [
        RunStarted(
            RunId("run-1"), clock.at, goal.job, {}, now.timestamp(), {"wavewright": "0.1.0"}
        ),
        PlanAccepted(clock.at, plan.model_dump(mode="json", by_alias=True), plan_hash(plan), rung),
    ]
    if call is not None:
        answers = ComputedAnswers(plan, lambda: events, call)
    play(events, plan, goal, known, answers, now=now, clock=clock, seconds=seconds or {})
    return ScriptedRun(plan, goal, known, tuple(events))


class ComputedAnswers(Mapping[str, object]):
    """The answers of a plan's steps, computed from their parameters when they are asked for."""

    def __init__(self, plan: Plan, events: Callable[[], list[Event]], call: Call) -> None:
        self._plan = plan
        self._events = events
        self._call = call

    def __getitem__(self, name: str) -> object:
        step = self._plan.step(name)
        scope = _scope(self._plan, fold(self._events()))
        if step.for_each is None:
            return self._answer(step, scope)
        items = render(step.for_each, lambda text: evaluate(text, scope, NOW))
        assert isinstance(items, list)
        return [
            self._answer(step, {**scope, "item": item, "index": index})
            for index, item in enumerate(items)
        ]

    def _answer(self, step: Step, scope: JsonObject) -> object:
        try:
            params = render(dict(step.params), lambda text: evaluate(text, scope, NOW))
        except ExpressionError as error:
            return Fails(error.message, "expression")
        return self._call(step.tool, cast("JsonObject", params))

    def __iter__(self) -> Iterator[str]:
        return iter(step.id for step in self._plan.steps)

    def __len__(self) -> int:
        return len(self._plan.steps)


@dataclass
class _Clock:
    at: float


def play(
    events: list[Event],
    plan: Plan,
    goal: Goal,
    tools: Mapping[str, ToolSignature],
    answers: Answers,
    *,
    now: dt.datetime = NOW,
    clock: _Clock | None = None,
    seconds: Mapping[str, float] | None = None,
    judge: Judge | None = None,
) -> None:
    """Append the events of the steps of a plan that have not ended yet."""
    clock = clock or _Clock(events[-1].at)
    graph = PlanGraph.of(plan)
    by_code = make_verifier(plan, tools, goal, now)

    def verify(step: StepId, output: Json, view: GateView) -> GateRecords:
        records = by_code(step, output, view)
        assert isinstance(records, tuple), "no model is asked here"
        if judge is None:
            return records
        return tuple(judge(record) if record.kind == "judge" else record for record in records)

    rounds = fold(events).round
    for number, wave in enumerate(graph.waves):
        waiting = [step_id for step_id in wave if step_id not in fold(events).steps]
        if not waiting:
            continue
        events.append(WaveStarted(clock.at, number, tuple(waiting), rounds))
        longest = 0.0
        for step_id in waiting:
            took = (seconds or {}).get(step_id, 0.25)
            longest = max(longest, took)
            state = fold(events)
            blocker = _blocker(plan, graph, state, step_id)
            if blocker is not None:
                events.append(
                    _ended(step_id, "blocked", clock.at, reason=f"{blocker} has no usable output")
                )
                continue
            if _is_skipped(plan, state, step_id, now):
                events.append(_ended(step_id, "skipped", clock.at, reason="its condition is false"))
                continue
            events.extend(
                _answered(
                    plan,
                    state,
                    plan.step(step_id),
                    answers.get(step_id),
                    verify,
                    clock.at,
                    took,
                    now,
                )
            )
        clock.at += longest
        events.append(WaveFinished(clock.at, number, rounds))


def note_review(events: list[Event], body: JsonObject, *, at: float | None = None) -> None:
    """Append a review as the pipeline notes it."""
    events.append(Noted(events[-1].at if at is None else at, "review", body))


def _blocker(plan: Plan, graph: PlanGraph, state: RunState, step_id: StepId) -> StepId | None:
    for before in sorted(graph.dependencies[step_id]):
        status = state.status(before)
        if not plan.step(before).optional and status != "skipped" and not state.is_present(before):
            return before
    return None


def _is_skipped(plan: Plan, state: RunState, step_id: StepId, now: dt.datetime) -> bool:
    when = plan.step(step_id).when
    return when is not None and not evaluate(
        bare_expression(when).expression, _scope(plan, state), now
    )


def _scope(plan: Plan, state: RunState) -> JsonObject:
    return {"inputs": plan.inputs, "steps": _outputs(state)}


def _outputs(state: RunState) -> dict[str, Json]:
    return {str(name): output for name, output in state.outputs().items()}


def _answered(
    plan: Plan,
    state: RunState,
    step: Step,
    answer: object,
    verify: Callable[[StepId, Json, GateView], GateRecords],
    at: float,
    took: float,
    now: dt.datetime,
) -> list[Event]:
    ended = at + took
    if step.for_each is None:
        if isinstance(answer, Fails):
            return [
                _ended(
                    step.id,
                    "failed",
                    ended,
                    error=_error(answer),
                    started=at,
                    seconds=took,
                    attempts=1,
                )
            ]
        output = cast("Json", answer)
        view = GateView(plan.inputs, _outputs(state))
        gates = verify(step.id, output, view)
        return [
            _ended(
                step.id,
                _status(output),
                ended,
                output=output,
                gates=gates,
                started=at,
                seconds=took,
                attempts=1,
            )
        ]
    scope = _scope(plan, state)
    items = render(step.for_each, lambda text: evaluate(text, scope, now))
    assert isinstance(items, list)
    assert isinstance(answer, list)
    found_by_item = cast("list[Json | Fails]", answer)
    events: list[Event] = []
    good: list[tuple[int, Json, Json]] = []
    for index, (item, found) in enumerate(zip(items, found_by_item, strict=True)):
        key = StepKey(f"{step.id}-{index}")
        if isinstance(found, Fails):
            events.append(ItemFinished(ended, step.id, index, key, "failed", error=_error(found)))
        else:
            events.append(ItemFinished(ended, step.id, index, key, "ok", found))
            good.append((index, item, found))
    count = (len(good), len(items))
    if count[0] < (count[1] if step.min_ok is None else step.min_ok):
        first = next(found for found in found_by_item if isinstance(found, Fails))
        return [
            *events,
            _ended(
                step.id, "failed", ended, error=_error(first), items=count, started=at, seconds=took
            ),
        ]
    output = [found for _index, _item, found in good]
    view = GateView(plan.inputs, _outputs(state), [(index, item) for index, item, _found in good])
    gates = verify(step.id, output, view)
    events.append(
        _ended(
            step.id,
            _status(output),
            ended,
            output=output,
            gates=gates,
            items=count,
            started=at,
            seconds=took,
        )
    )
    return events


def _ended(step: StepId, status: StepStatus, at: float, **more: object) -> StepFinished:
    return StepFinished(at, step, status, **more)  # type: ignore[arg-type]


def _error(answer: Fails) -> StepError:
    return StepError(answer.kind, answer.message, 1, answer.hint)


def _status(output: Json) -> StepStatus:
    return "empty" if output is None or output in ("", [], {}) else "ok"
