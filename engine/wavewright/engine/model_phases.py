"""What the phases that ask a language model have in common.

Such a phase may take long, may be stopped and runs under the run's time limit; whatever it lets be known while it
works is journaled as it comes, so that a crash loses no cost and a watcher sees each call at once.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Generic, TypeVar, cast

import anyio

from wavewright.engine.context import Ports, RunContext
from wavewright.executor.events import Event, ModelCalled, RungTaken
from wavewright.executor.state import fold
from wavewright.planner.ladder import RungRecord
from wavewright.planner.model_port import ModelUse
from wavewright.planner.types import RunId

T = TypeVar("T")


class ModelEventRecorder:
    """Takes what is let be known, without waiting; a task behind it journals that."""

    def __init__(self, ports: Ports) -> None:
        self.journaled: list[Event] = []
        """What is durable so far, in order."""
        self._ports = ports
        self._send, self._events = anyio.create_memory_object_stream[Event](math.inf)

    def record_use(self, use: ModelUse) -> None:
        """Record what a model call cost."""
        self._send_event(ModelCalled(self._ports.clock().timestamp(), use))

    def record_rung(self, rung: RungRecord) -> None:
        """Record a rung that was tried."""
        self._send_event(RungTaken(self._ports.clock().timestamp(), rung))

    def _send_event(self, event: Event) -> None:
        # Where the program ends at once, every task is cancelled, and the one that journals may be gone already: then
        # the purse alone knows what the call cost.
        with suppress(anyio.BrokenResourceError):
            self._send.send_nowait(event)

    def close(self) -> None:
        """Let nothing more be known; `journal` returns once the rest is durable."""
        self._send.close()

    async def journal(self, run: RunId) -> None:
        """Journal what comes until `close`; shielded, so that a run that is cancelled writes down what it spent."""
        with anyio.CancelScope(shield=True):
            async with self._events:
                async for event in self._events:
                    await self._ports.journal.append(run, [event])
                    self._ports.on_event(event)
                    self.journaled.append(event)


@asynccontextmanager
async def open_recorder(ports: Ports, run: RunId) -> AsyncGenerator[ModelEventRecorder]:
    """Give a recorder; on leaving, everything that it was told is durable."""
    recorder = ModelEventRecorder(ports)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(recorder.journal, run)
            try:
                yield recorder
            finally:
                recorder.close()
    except BaseExceptionGroup as failures:
        raise single_exception(failures) from None


@dataclass(frozen=True, slots=True)
class ModelPhaseResult(Generic[T]):
    """What the work came to."""

    context: RunContext
    """With the events of the work folded in, and its time counted."""
    value: T | None
    """Absent where the work was cut off."""
    was_stopped: bool = False
    """Whether somebody outside stopped it; otherwise the run's time was up."""


async def run_model_phase(
    ports: Ports, context: RunContext, work: Callable[[ModelEventRecorder], Awaitable[T]]
) -> ModelPhaseResult[T]:
    """Do the work, journal what it lets be known, and cut it off at a stop from outside or at the run's limit."""
    started = time.monotonic()
    value: T | None = None
    async with open_recorder(ports, context.run) as recorder:
        with ports.cancellation.scope(), anyio.move_on_after(context.time_left):
            value = await work(recorder)
    state = fold(recorder.journaled, context.state)
    executed = context.executed_seconds + time.monotonic() - started
    return ModelPhaseResult(
        replace(context, state=state, executed_seconds=executed), value, ports.cancellation.is_cancelled
    )


def single_exception(failure: BaseException) -> BaseException:
    """Return the one exception in a group of one: callers know what the work raises, not that a task stood beside."""
    while isinstance(failure, BaseExceptionGroup):
        failure = cast("BaseExceptionGroup[BaseException]", failure).exceptions[0]
    return failure
