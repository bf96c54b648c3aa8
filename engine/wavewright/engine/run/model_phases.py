"""Phases that ask a language model.

Such a phase may take long, may be cancelled and runs under the run's time limit; each model call is
journaled as soon as it has ended, so a crash loses no cost.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Final, TypeVar

import anyio

from wavewright.engine.run.context import RunContext
from wavewright.engine.run.endings import run_stopped
from wavewright.engine.run.ports import Attempt
from wavewright.engine.run.task_groups import open_task_group
from wavewright.executor import Event, Noted, RunState, fold
from wavewright.executor.events.types import REFUSED_ANSWER, ModelCalled, RungTaken
from wavewright.executor.run.redacted_events import OutputRedactor
from wavewright.planner import Asking, JsonObject, RunId
from wavewright.planner.ports.asking import RefusedAnswer
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.ports.model_port import ModelUse

C = TypeVar("C", bound=RunContext)
T = TypeVar("T")


_MAX_ANSWER_CHARS: Final = 20_000


class ModelEventRecorder:
    """Takes the events of model calls without waiting; a task of its own journals them."""

    def __init__(self, attempt: Attempt) -> None:
        self.journaled: list[Event] = []
        """What is durable so far, in order."""
        self._attempt = attempt
        self._send, self._events = anyio.create_memory_object_stream[Event](math.inf)

    def listen(self, asking: Asking) -> Asking:
        """Return the same with every cost, rung and refused answer recorded."""
        return replace(
            asking,
            on_use=self.record_use,
            on_rung=self.record_rung,
            on_refused=self.record_refused,
        )

    def record_use(self, use: ModelUse) -> None:
        """Record what a model call cost."""
        self._send_event(ModelCalled(self._attempt.now(), use))

    def record_rung(self, rung: RungRecord) -> None:
        """Record a rung that was tried."""
        self._send_event(RungTaken(self._attempt.now(), rung))

    def record_refused(self, answer: RefusedAnswer) -> None:
        """Record an answer that could not be used, up to a number of characters."""
        body: JsonObject = {
            "role": answer.role,
            "rung": answer.rung,
            "model": answer.model,
            "faults": [*answer.faults],
            "text": answer.text[:_MAX_ANSWER_CHARS],
        }
        if len(answer.text) > _MAX_ANSWER_CHARS:
            body["characters"] = len(answer.text)
        noted = Noted(self._attempt.now(), REFUSED_ANSWER, body)
        self._send_event(OutputRedactor().redact_event(noted))

    def _send_event(self, event: Event) -> None:
        # If the program is ended by a second signal, the journaling task may have ended already;
        # then only the budget store has the cost of the call.
        with suppress(anyio.BrokenResourceError):
            self._send.send_nowait(event)

    def close(self) -> None:
        """Take no more events; `journal` returns once the rest is durable."""
        self._send.close()

    async def journal(self, run: RunId) -> None:
        """Journal events until `close`; shielded, so that a cancelled run still journals what it
        has spent.
        """
        with anyio.CancelScope(shield=True):
            async with self._events:
                async for event in self._events:
                    await self._attempt.journal.append(run, [event])
                    self._attempt.on_event(event)
                    self.journaled.append(event)


def refused_answers(state: RunState) -> tuple[JsonObject, ...]:
    """Return the answers of a run that could not be used, in their order."""
    return tuple(noted.body for noted in state.notes if noted.topic == REFUSED_ANSWER)


@asynccontextmanager
async def open_recorder(attempt: Attempt, run: RunId) -> AsyncGenerator[ModelEventRecorder]:
    """Open a recorder; on leaving the context, everything that it took is durable."""
    recorder = ModelEventRecorder(attempt)
    async with open_task_group() as group:
        group.start_soon(recorder.journal, run)
        try:
            yield recorder
        finally:
            recorder.close()


async def run_model_phase(
    attempt: Attempt, context: C, work: Callable[[ModelEventRecorder], Awaitable[T]]
) -> tuple[C, T | None]:
    """Do the work, and return the context with its events and its time, and what it has given: None
    if the run's time limit was reached.

    Raises:
        RunHalted: the run was stopped.
    """
    started = time.monotonic()
    value: T | None = None
    async with open_recorder(attempt, context.run) as recorder:
        # The run's time limit covers planning, reviews and recovery as well as its steps.
        with attempt.cancellation.scope(), anyio.move_on_after(context.time_left):
            value = await work(recorder)
    state = fold(recorder.journaled, context.state)
    executed = context.executed_seconds + time.monotonic() - started
    context = replace(context, state=state, executed_seconds=executed)
    if attempt.cancellation.is_cancelled:
        raise await run_stopped(attempt, context)
    return context, value
