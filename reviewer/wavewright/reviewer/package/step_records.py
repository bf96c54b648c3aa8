"""What the journal tells of one step: its calls with their resolved parameters, its attempts, and its models."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from wavewright.executor.events.state import RunState
from wavewright.executor.events.types import (
    AnswerKept,
    AttemptLogged,
    Event,
    ItemFinished,
    ModelCalled,
    StepFinished,
)
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.ports.model_port import ModelQuestion
from wavewright.planner.types import JsonObject
from wavewright.reviewer.package.call_reports import params_of_call
from wavewright.reviewer.review.by_code import run_instant


@dataclass(slots=True)
class StepRecord:
    """The journal's records of one step."""

    step: Step
    ending: StepFinished | None
    calls: list[tuple[int | None, JsonObject | None, StepFinished | ItemFinished]]
    """Each call: its item, its resolved parameters, its end."""
    attempts: list[AttemptLogged] = field(default_factory=list[AttemptLogged])
    uses: list[ModelCalled] = field(default_factory=list[ModelCalled])
    questions: list[tuple[ModelQuestion, str]] = field(default_factory=list[tuple[ModelQuestion, str]])
    """To models, with their answers."""


def step_record(plan: Plan, step: Step, state: RunState, events: Sequence[Event]) -> StepRecord:
    """Return what the events of a run tell of a step of its plan."""
    ending, items = state.steps.get(step.id), state.items.get(step.id)
    ended: list[StepFinished | ItemFinished] = [items[index] for index in sorted(items)] if items else []
    if not ended and ending is not None:
        ended = [ending]
    now = run_instant(state)
    record = StepRecord(step, ending, [])
    for one in ended:
        index = one.index if isinstance(one, ItemFinished) else None
        record.calls.append((index, params_of_call(plan, state, step, index, now), one))
    for event in events:
        match event:
            case AttemptLogged() if event.step == step.id:
                record.attempts.append(event)
            case ModelCalled() if event.use.step == step.id:
                record.uses.append(event)
            case _:
                pass
    record.questions += [(asked, answer) for asked, answer in model_messages(events) if asked.step == step.id]
    return record


def model_messages(events: Iterable[Event]) -> list[tuple[ModelQuestion, str]]:
    """Return what models were asked in a run, in order, each with its answer: a text, or parts and calls as JSON."""
    return [
        (event.question, _answer_text(event.answer))
        for event in events
        if isinstance(event, AnswerKept) and event.question is not None
    ]


def _answer_text(answer: JsonObject) -> str:
    if isinstance(text := answer.get("text"), str) and text:
        return text
    return json.dumps(answer.get("parts") or answer.get("calls") or answer, indent=2, ensure_ascii=False)
