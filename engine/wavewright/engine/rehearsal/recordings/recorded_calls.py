"""The calls of a run with their parameters and outputs, read from its journal.

A *recorded call* is one call of a tool: with which parameters it was made, and what it came to. The
journal keeps outputs and errors; the parameters are rendered again from the plan in force and the
outputs that were there, as the executor rendered them. What a tool emitted while it worked (calls
of models, rungs, text) goes with it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import ConfigDict, PlainSerializer, PlainValidator, StrictInt

from wavewright.config.redaction import Redactor
from wavewright.executor import (
    Event,
    ItemFinished,
    PlanAccepted,
    RunStarted,
    StepError,
    StepFinished,
    from_json,
    to_json,
)
from wavewright.executor.events.codec import CodecError, kind_of
from wavewright.executor.events.state import SUCCESSES, blocking_gate
from wavewright.executor.events.types import LoopToolCalled, ModelCalled, OutputStreamed, RungTaken
from wavewright.planner import Goal, Json, JsonObject, Plan, PlanGraph, Step, StepId, StepKey
from wavewright.planner.language.goals import config_of
from wavewright.planner.language.hashing import content_of
from wavewright.planner.types import CallContent
from wavewright.reviewer.package.call_reports import ParamsRenderer, renderer_of

CallStatus: TypeAlias = Literal["ok", "empty", "failed", "reused", "cancelled"]
"""How a call ended; `reused` served by another run's, `cancelled` cut off, so that its output is
unknown.
"""

EmittedEvent: TypeAlias = ModelCalled | RungTaken | OutputStreamed | LoopToolCalled
"""What a tool emits while it works."""

RECORD_CONFIG: Final = ConfigDict(extra="forbid", hide_input_in_errors=True)
"""How pydantic reads a record from a recording's file."""


def emitted_event(value: Json) -> EmittedEvent:
    """Return what a tool emitted, from its JSON object.

    Raises:
        CodecError: it is no event, or none that a tool emits.
    """
    event = from_json(value)
    if not isinstance(event, EmittedEvent):
        raise CodecError(f"a tool emits no event of the kind {kind_of(event)!r}")
    return event


_StoredEvent: TypeAlias = Annotated[
    EmittedEvent, PlainValidator(emitted_event), PlainSerializer(to_json)
]


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call of a tool, and what it came to."""

    __pydantic_config__ = RECORD_CONFIG

    step: StepId
    tool: str
    params: JsonObject
    status: CallStatus
    index: StrictInt | None = None
    """The item, for a `for_each` step."""
    config: JsonObject = field(default_factory=dict[str, Json])
    """What the goal says of the tool."""
    key: StepKey | None = None
    cache_key: StepKey | None = None
    """Under which other runs find the output, where the tool allows it."""
    output: Json = None
    error: StepError | None = None
    emitted: tuple[_StoredEvent, ...] = ()
    data: dict[str, JsonObject] | None = None
    """The run data that it wrote."""

    @property
    def place(self) -> str:
        """The step, and the item where there is one."""
        return self.step if self.index is None else f"{self.step}[{self.index}]"

    def without_secrets(self, redactor: Redactor) -> RecordedCall:
        """Return the call as it may be written into a file."""
        error = self.error
        if error is not None:
            hint = None if error.hint is None else redactor.redact(error.hint)
            error = replace(error, message=redactor.redact(error.message), hint=hint)
        return replace(
            self,
            params=_object(redactor.redact_json(self.params)),
            config=_object(redactor.redact_json(self.config)),
            output=redactor.redact_json(self.output),
            error=error,
            emitted=tuple(
                emitted_event(redactor.redact_json(to_json(event))) for event in self.emitted
            ),
            data=None
            if self.data is None
            else {
                name: _object(redactor.redact_json(values)) for name, values in self.data.items()
            },
        )


def recorded_calls(events: Iterable[Event]) -> tuple[RecordedCall, ...]:
    """Return the calls of a run in the order in which they ended.

    Served by an equal call of the same run, a call is none of its own; one whose parameters were at
    fault was not made at all.
    """
    known = list(events)
    contents = {
        content_of(event.key)
        for event in known
        if isinstance(event, StepFinished | ItemFinished)
        and event.key is not None
        and event.status in ("ok", "empty")
    }
    # Steps that began while the plan arrived have ended before it was accepted.
    first = next(
        (Plan.model_validate(event.plan) for event in known if isinstance(event, PlanAccepted)),
        None,
    )
    reader = _CallReader(contents, first)
    return tuple(call for event in known for call in reader.add(event))


class _CallReader:
    """Follows a run event by event, with the outputs that its steps see."""

    def __init__(self, made: set[CallContent], first: Plan | None) -> None:
        self._made = made
        self._first = first
        self._plan: Plan | None = None
        self._fan_outs = dict[StepId, ParamsRenderer | None]()
        """Of steps with items, which are computed once."""
        self._goal: Goal | None = None
        self._now = dt.datetime.fromtimestamp(0, dt.UTC)
        self._outputs = dict[StepId, Json]()
        self._emitted = dict[tuple[StepId, int | None], list[EmittedEvent]]()

    def add(self, event: Event) -> Iterator[RecordedCall]:
        """Take note of an event, and yield the call whose end it is, where it is one."""
        match event:
            case RunStarted():
                self._goal = Goal.model_validate(event.goal)
                self._now = dt.datetime.fromtimestamp(event.now, dt.UTC)
                self._plan = self._first
            case PlanAccepted():
                self._plan = Plan.model_validate(event.plan)
                self._fan_outs.clear()
            case ModelCalled(use=use):
                # A judge is asked about a step, not by it.
                if use.step is not None and use.role != "judge":
                    self._emitted.setdefault((use.step, use.index), []).append(event)
            case RungTaken() | OutputStreamed() | LoopToolCalled():
                if event.step is not None:
                    self._emitted.setdefault((event.step, event.index), []).append(event)
            case ItemFinished():
                yield from self._call(event, event.index)
            case StepFinished():
                if event.items is None:
                    yield from self._call(event, None)
                self._record_output(event)
            case _:
                pass

    def _renderer(self, step: Step, plan: Plan) -> ParamsRenderer | None:
        if step.id not in self._fan_outs:
            renderer = renderer_of(step, plan, self._outputs, self._now)
            if step.for_each is None:
                return renderer
            self._fan_outs[step.id] = renderer
        return self._fan_outs[step.id]

    def _record_output(self, ending: StepFinished) -> None:
        if ending.status in SUCCESSES and blocking_gate(ending.gates) is None:
            self._outputs[ending.step] = ending.output
        else:
            self._outputs.pop(ending.step, None)

    def _call(
        self, ending: StepFinished | ItemFinished, index: int | None
    ) -> Iterator[RecordedCall]:
        emitted = tuple(self._emitted.pop((ending.step, index), ()))
        status = self._status(ending)
        if status is None or self._plan is None or self._goal is None:
            return
        step = PlanGraph.of(self._plan).steps.get(ending.step)
        renderer = None if step is None else self._renderer(step, self._plan)
        params = None if renderer is None else renderer.params_of(index)
        if step is None or params is None:
            return
        nothing: JsonObject = {}
        config = config_of(step.tool, self._goal.tools) or nothing
        yield RecordedCall(
            step=ending.step,
            tool=step.tool,
            params=params,
            status=status,
            index=index,
            config=config,
            key=ending.key,
            cache_key=ending.cache_key,
            output=ending.output,
            error=ending.error,
            emitted=emitted,
            data=ending.data,
        )

    def _status(self, ending: StepFinished | ItemFinished) -> CallStatus | None:
        """Return how a call ended; none where no tool was asked."""
        match ending.status:
            case "ok" | "empty":
                return ending.status
            case "failed" | "cancelled":
                return ending.status if ending.attempts and ending.key is not None else None
            case "reused":
                if ending.key is None or content_of(ending.key) in self._made:
                    return None
                return "reused"
            case _:
                return None


def _object(value: Json) -> JsonObject:
    assert isinstance(value, dict)
    return value
