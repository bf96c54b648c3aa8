"""What the phases that ask a language model have in common.

Such a phase may take long, may be stopped and runs under the run's time limit; whatever it lets be known while it
works is journaled as it comes, so that a crash loses no cost and a watcher sees each call at once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from wavewright.engine.context import Ports, RunContext
from wavewright.engine.recording import record
from wavewright.executor.events import Event, ModelCalled, RungTaken
from wavewright.planner.ladder import RungRecord
from wavewright.planner.model_port import ModelUse

T = TypeVar("T")


class Recorder:
    """Takes what is let be known, without waiting; a task behind it journals that."""

    def __init__(self, ports: Ports) -> None:
        self._clock = ports.clock
        self._send, self.events = anyio.create_memory_object_stream[Event](math.inf)

    def use(self, use: ModelUse) -> None:
        """Record what a model call cost."""
        self._send.send_nowait(ModelCalled(self._clock().timestamp(), use))

    def rung(self, rung: RungRecord) -> None:
        """Record a rung that was tried."""
        self._send.send_nowait(RungTaken(self._clock().timestamp(), rung))

    def close(self) -> None:
        """Let nothing more be known."""
        self._send.close()


@dataclass(frozen=True, slots=True)
class Asked(Generic[T]):
    """What the work came to."""

    context: RunContext
    """With the events of the work folded in, and its time counted."""
    value: T | None
    """Absent where the work was cut off."""
    was_stopped: bool = False
    """Whether somebody outside stopped it; otherwise the run's time was up."""


async def ask_models(ports: Ports, context: RunContext, work: Callable[[Recorder], Awaitable[T]]) -> Asked[T]:
    """Do the work, journal what it lets be known, and cut it off at a stop from outside or at the run's limit."""
    recorder = Recorder(ports)
    journaled = [context]
    started = time.monotonic()
    value: T | None = None
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_journal, ports, recorder.events, journaled)
            try:
                with ports.stopper.scope(), anyio.move_on_after(context.time_left):
                    value = await work(recorder)
            finally:
                recorder.close()
    except BaseExceptionGroup as failures:
        raise _only(failures) from None
    spent = journaled[0].executed + time.monotonic() - started
    return Asked(replace(journaled[0], executed=spent), value, ports.stopper.is_stopped)


async def _journal(
    ports: Ports, events: MemoryObjectReceiveStream[Event], journaled: list[RunContext]
) -> None:
    # Shielded: a run that is cancelled still writes down what it has spent.
    with anyio.CancelScope(shield=True):
        async with events:
            async for event in events:
                journaled[0] = await record(ports, journaled[0], event)


def _only(failure: BaseException) -> BaseException:
    """Return the one exception in a group of one: callers know what the work raises, not that a task stood beside."""
    while isinstance(failure, BaseExceptionGroup) and len(failure.exceptions) == 1:
        failure = failure.exceptions[0]
    return failure
