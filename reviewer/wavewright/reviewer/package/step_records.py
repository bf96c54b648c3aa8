"""The record of one step: its calls with their resolved parameters, its attempts, its models, and what
it is at.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from wavewright.executor import Event, ItemFinished, RunState, StepFinished
from wavewright.executor.events.types import AnswerKept, AttemptLogged, ModelCalled
from wavewright.planner import JsonObject, Plan, PlanGraph, Step, StepId
from wavewright.planner.ports.model_port import ModelQuestion, ModelUse
from wavewright.reviewer.package.call_reports import params_renderer
from wavewright.reviewer.package.log_lines import LogLine, log_lines
from wavewright.reviewer.review.results import run_instant

_Asker: TypeAlias = tuple[str, StepId | None, int | None]


@dataclass(frozen=True, slots=True)
class StepAtWork:
    """What is known of a step that runs."""

    since: float
    """Seconds since the epoch."""
    params: JsonObject | None
    """What it was handed; None of a `for_each` step."""
    last_line: LogLine | None
    """The last that it has printed or logged."""


@dataclass(slots=True)
class StepRecord:
    """The journal's records of one step."""

    step: Step
    ending: StepFinished | None
    calls: list[tuple[int | None, JsonObject | None, StepFinished | ItemFinished]]
    """Each call: its item, its resolved parameters, its end."""
    attempts: list[AttemptLogged] = field(default_factory=list[AttemptLogged])
    uses: list[ModelCalled] = field(default_factory=list[ModelCalled])
    questions: list[tuple[ModelQuestion, str]] = field(
        default_factory=list[tuple[ModelQuestion, str]]
    )
    """To models, with their answers."""
    now: StepAtWork | None = None
    """None unless it runs."""

    def of_first(self, most: int, status: str = "") -> StepRecord:
        """Return the record of so many calls at most, those that failed first, however far down the
        list they are, with what belongs to them and to calls that have not ended.

        Args:
            most: How many calls.
            status: How these ended; however they did where it is empty.
        """
        wanted = [call for call in self.calls if status in {"", call[2].status}]
        calls = sorted(wanted, key=lambda call: call[2].error is None)[:most]
        place = {index: number for number, (index, _, _) in enumerate(calls)}
        left_out = {index for index, _, _ in self.calls if index not in place}
        attempts = [attempt for attempt in self.attempts if attempt.index not in left_out]
        return replace(
            self,
            calls=calls,
            attempts=sorted(attempts, key=lambda attempt: place.get(attempt.index, most)),
            uses=[called for called in self.uses if called.use.index not in left_out],
            questions=[asked for asked in self.questions if asked[0].index not in left_out],
        )


def step_record(name: str, state: RunState, events: Sequence[Event]) -> StepRecord | None:
    """Return what the events of a run tell of a step; None where its plan has no such step."""
    plan = None if state.plan is None else Plan.model_validate(state.plan)
    step = None if plan is None else PlanGraph.of(plan).steps.get(StepId(name))
    if plan is None or step is None:
        return None
    end, items = state.steps.get(step.id), state.items.get(step.id)
    calls: list[StepFinished | ItemFinished] = []
    if items:
        calls += [items[index] for index in sorted(items)]
    elif end is not None:
        calls.append(end)
    began = state.under_way.get(step.id)
    record = StepRecord(step, end, [])
    is_called = bool(calls) or began is not None
    renderer = params_renderer(plan, state, step, run_instant(state)) if is_called else None
    for call in calls:
        index = call.index if isinstance(call, ItemFinished) else None
        params = None if renderer is None else renderer.params_of(index)
        record.calls.append((index, params, call))
    if began is not None:
        is_one_call = renderer is not None and step.for_each is None
        lines = [line for line in log_lines(events)[0] if line.step == step.id]
        record.now = StepAtWork(
            since=began.at,
            params=renderer.params_of(None) if renderer is not None and is_one_call else None,
            last_line=lines[-1] if lines else None,
        )
    for event in events:
        match event:
            case AttemptLogged() if event.step == step.id:
                record.attempts.append(event)
            case ModelCalled() if event.use.step == step.id:
                record.uses.append(event)
            case _:
                pass
    record.questions += [
        (asked, answer) for asked, answer in model_messages(events) if asked.step == step.id
    ]
    return record


def model_messages(events: Iterable[Event]) -> list[tuple[ModelQuestion, str]]:
    """Return what models were asked in a run, in order, each with its answer: a text, or parts and
    calls as JSON.
    """
    return [
        (event.question, _answer_text(event.answer))
        for event in events
        if isinstance(event, AnswerKept) and event.question is not None
    ]


@dataclass(frozen=True, slots=True)
class ModelMessage:
    """A question to a model with its answer."""

    at: float
    """When it was answered, in seconds since the epoch."""
    question: ModelQuestion
    answer: str
    use: ModelUse | None
    """The call of the model; None where the answer was kept from an earlier one."""


def timed_messages(events: Iterable[Event]) -> list[ModelMessage]:
    """Return what models were asked in a run, in order, each with its answer, time and call."""
    uses: dict[_Asker, list[ModelUse]] = {}
    answered: list[AnswerKept] = []
    for event in events:
        if isinstance(event, ModelCalled) and event.use.outcome == "answered":
            use = event.use
            uses.setdefault((use.role, use.step, use.index), []).append(use)
        elif isinstance(event, AnswerKept) and event.question is not None:
            answered.append(event)
    messages: list[ModelMessage] = []
    for event in answered:
        assert event.question is not None
        timed = uses.get((event.question.role, event.question.step, event.question.index))
        first = timed.pop(0) if timed else None
        messages.append(ModelMessage(event.at, event.question, _answer_text(event.answer), first))
    return messages


def _answer_text(answer: JsonObject) -> str:
    text = answer.get("text")
    if isinstance(text, str) and text:
        return text
    content = answer.get("parts") or answer.get("calls") or answer
    return json.dumps(content, indent=2, ensure_ascii=False)
