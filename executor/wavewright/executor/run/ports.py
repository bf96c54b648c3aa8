"""Ports of the executor: clock, drain signal and gates.

Nothing in the executor but the `Clock` reads the time or draws random numbers, so tests control
both.

A set `DrainSignal` lets no further call start; calls in progress end and are recorded. Once none is
left the run is drained, and cancelling it interrupts nothing.

`AskPerson` is called when a step is ready that a person must decide on first. Its calls hold no
slot while it waits.

`Verify` evaluates the gates of a step, once, after its output has passed the tool's output schema.
It does not raise: a gate that cannot be evaluated gives a record with the verdict `error`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from wavewright.executor.events.types import GateRecord, Noted, PersonAsk
from wavewright.planner import Json, JsonObject, Step, StepId


class Timer(Protocol):
    """A scheduled callback."""

    def cancel(self) -> None:
        """Cancel the callback."""
        ...


class Clock(Protocol):
    """Time, timers and random numbers; `LoopClock` is the real one."""

    def wall(self) -> float:
        """Return seconds since the epoch (UTC)."""
        ...

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start; never less than before."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` on the event loop after so many seconds."""
        ...

    def jitter(self, upper: float) -> float:
        """Return a random number from 0 to `upper`."""
        ...


class LoopClock:
    """The machine's clock and the running event loop's timers."""

    wall = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` with a timer of the running loop."""
        return asyncio.get_running_loop().call_later(seconds, callback)

    def jitter(self, upper: float) -> float:
        """Return a uniformly distributed number; spreading retries needs no secure one."""
        return random.uniform(0.0, upper)  # noqa: S311


class DrainSignal:
    """Lets one execution end between its calls."""

    def __init__(self) -> None:
        """Begin without draining."""
        self.is_draining = False
        self._is_busy: Callable[[], bool] = lambda: False
        self._on_drained: Callable[[], None] = lambda: None

    @property
    def is_drained(self) -> bool:
        """Whether no call is in progress and none can start."""
        return self.is_draining and not self._is_busy()

    def attach(self, is_busy: Callable[[], bool]) -> None:
        """Set the function that says whether a call is in progress; called by the scheduler."""
        self._is_busy = is_busy

    def start_draining(self, on_drained: Callable[[], None]) -> None:
        """Let no call start any more; `on_drained` is called, perhaps more than once, when none is
        in progress.
        """
        self.is_draining, self._on_drained = True, on_drained
        self.notify_if_drained()

    def notify_if_drained(self) -> None:
        """Call `on_drained` if the run is drained; called by the scheduler when a call has ended."""
        if self.is_drained:
            self._on_drained()


@dataclass(slots=True)
class GateView:
    """What the gates of a step may read; made for every step, so it is not frozen."""

    inputs: JsonObject = field(default_factory=dict[str, Json])
    """The plan's inputs."""
    steps: JsonObject = field(default_factory=dict[str, Json])
    """Outputs of the step itself and of the dependencies that are present."""
    items: Sequence[tuple[int, Json]] | None = None
    """Of a `for_each` step: index and item of each entry of the output, in the output's order."""
    previous: JsonObject = field(default_factory=dict[str, Json])
    """The last achieved run of the job."""


GateRecords: TypeAlias = tuple[GateRecord, ...]

Verify: TypeAlias = Callable[[StepId, Json, GateView], GateRecords | Awaitable[GateRecords]]
"""Returns the records of a step's gates for its output, or an awaitable of them where a model
judges.

The step ends when they are there. Steps that wait for their gates do not count against the limits
of concurrent calls.
"""


@dataclass(frozen=True, slots=True)
class ReadyCalls:
    """Calls of a ready step that are made once a person has replied."""

    step: Step
    asks: PersonAsk
    calls: tuple[JsonObject, ...]
    """The resolved parameters: of all calls for an approval, of one call for a question."""


@dataclass(frozen=True, slots=True)
class PersonReply:
    """What came of asking a person about a step."""

    answer: str | None
    """The answer to a question, any text for an approval; None where there is none, and the step
    waits.
    """
    is_refused: bool = False
    """Whether the calls may not be made."""
    refusal: str = ""
    """Why they may not, where that is not a person's word."""
    note: Noted | None = None
    """To be journaled before anything follows from the reply."""
    look_again: Callable[[], Awaitable[PersonReply | None]] | None = None
    """Where there is no answer: returns what has come since, while other steps run; None as long as
    that is nothing.
    """


AskPerson: TypeAlias = Callable[[ReadyCalls], Awaitable[PersonReply]]
"""Asks a person about a ready step."""
