"""What tools let be known while they work, on its way to becoming events.

An *emission* is made in the middle of a call, from whatever thread the tool runs in, and becomes an event of the run
there and then; text is gathered into pieces worth an event. What is emitted after its call has ended is dropped: by
then the step may have ended too, and nothing is told of a step after its ending.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from wavewright.executor.calls import ScheduledCall
from wavewright.executor.clock import Clock, Timer
from wavewright.executor.codec import decode, encode
from wavewright.executor.events import (
    AttemptLogged,
    Event,
    LoopToolCalled,
    ModelCalled,
    OutputStreamed,
    RungTaken,
)
from wavewright.executor.json_values import NotJsonError, clean_json
from wavewright.planner.ladder import RungRecord
from wavewright.planner.model_port import ModelUse
from wavewright.planner.types import JsonObject, StepId
from wavewright.tools.calls import AgentToolCall, Emission, TextChunk

FLUSH_SECONDS: Final = 0.25
"""Text is told of at most so often …"""
FLUSH_CHARS: Final = 2_000
"""… or as soon as there is so much of it."""

_NO_OUTPUT: Final[Mapping[str, str]] = {}
MAX_LOGGED_ATTEMPTS: Final = 50
"""Attempts of one step whose traceback, output and log records are kept: a step of many items has many attempts."""

_Emitted: TypeAlias = Event | str
"""An event, or text that becomes one."""


@dataclass(slots=True)
class _TextBuffer:
    """Text of one call that was not told of yet."""

    timer: Timer
    parts: list[str] = field(default_factory=list[str])
    chars: int = 0


class Emissions:
    """The emissions of one run."""

    def __init__(self, record: Callable[[Event], None], clock: Clock) -> None:
        """Record each event on the loop that this is made on."""
        self._record = record
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._texts = dict[ScheduledCall, _TextBuffer]()
        self._logged = Counter[StepId]()

    def emit(self, call: ScheduledCall, attempt: int, emission: Emission) -> None:
        """Let something be known; bound to its call and attempt, this is `ToolCall.emit`. Never waits.

        Raises:
            TypeError: it is none of the things that a tool may let be known.
            ValueError: it has a field of a wrong type.
        """
        told = self._to_emitted(call, emission)
        if threading.get_ident() == self._thread:
            self._record_emitted(call, attempt, told)
            return
        try:
            self._loop.call_soon_threadsafe(self._record_emitted, call, attempt, told)
        except RuntimeError:
            # The loop is closed: the run has ended long ago.
            return

    def finish(
        self, call: ScheduledCall, printed: Mapping[str, str] = _NO_OUTPUT, traceback: str = ""
    ) -> None:
        """Tell what is left of the attempt's text, and what it printed and raised; drop whatever it still emits."""
        call.is_under_way = False
        if self._texts and call in self._texts:
            self._flush_text(call)
        if (printed or traceback) and self._logged[call.step.id] < MAX_LOGGED_ATTEMPTS:
            self._logged[call.step.id] += 1
            index = None if call.index < 0 else call.index
            self._record(
                AttemptLogged(
                    self._clock.wall(), call.step.id, call.attempt, index, traceback=traceback, **printed
                )
            )

    def _to_emitted(self, call: ScheduledCall, emission: Emission) -> _Emitted:
        if isinstance(emission, TextChunk):
            if not isinstance(emission.text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a user's tool
                raise TypeError(f"the text of a piece is {type(emission.text).__name__}, not str")
            return emission.text
        event = self._event(call, emission)
        # What cannot be read back would make the journal unreadable; whoever emits it is told, not whoever resumes.
        decode(*encode(event))
        return event

    def _event(self, call: ScheduledCall, emission: ModelUse | RungRecord | AgentToolCall) -> Event:
        at, step, index = self._clock.wall(), call.step.id, None if call.index < 0 else call.index
        match emission:
            case ModelUse():
                return ModelCalled(at, _with_step(emission, step, index))
            case RungRecord():
                return RungTaken(at, emission, step, index)
            case AgentToolCall():
                return LoopToolCalled(at, step, _clean_loop_call(emission), index)
            case _:  # a user's tool may say anything
                raise TypeError(f"a tool cannot let a {type(emission).__name__} be known")

    def _record_emitted(self, call: ScheduledCall, attempt: int, told: _Emitted) -> None:
        if not call.is_under_way or call.attempt != attempt:
            return
        if isinstance(told, str):
            self._buffer_text(call, told)
        else:
            self._record(told)

    def _buffer_text(self, call: ScheduledCall, piece: str) -> None:
        if not piece:
            return
        text = self._texts.get(call)
        if text is None:
            timer = self._clock.call_later(FLUSH_SECONDS, lambda: self._flush_text(call))
            text = self._texts[call] = _TextBuffer(timer)
        text.parts.append(piece)
        text.chars += len(piece)
        if text.chars >= FLUSH_CHARS:
            self._flush_text(call)

    def _flush_text(self, call: ScheduledCall) -> None:
        text = self._texts.pop(call)
        text.timer.cancel()
        index = None if call.index < 0 else call.index
        self._record(OutputStreamed(self._clock.wall(), call.step.id, "".join(text.parts), index))


def _with_step(use: ModelUse, step: StepId, index: int | None) -> ModelUse:
    """Return a use with the step that it was for, and with figures that JSON can hold."""
    return replace(
        use,
        step=step if use.step is None else use.step,
        index=index if use.index is None else use.index,
        usd=use.usd if use.usd is None or math.isfinite(use.usd) else None,
        seconds=use.seconds if math.isfinite(use.seconds) else 0.0,
    )


def _clean_loop_call(call: AgentToolCall) -> AgentToolCall:
    """Return a loop's call as JSON: a model wrote its parameters, and they may be anything."""
    params: JsonObject = {}
    try:
        cleaned = clean_json(call.params)
    except NotJsonError:
        message = f"{call.message}; " if call.message else ""
        return replace(call, params=params, message=f"{message}its parameters are no JSON and left out")
    return replace(call, params=cleaned if isinstance(cleaned, dict) else params)
