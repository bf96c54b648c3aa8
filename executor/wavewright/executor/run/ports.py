"""Time and chance, as the executor sees them.

A *clock* tells the time, counts seconds that never go back, calls back later and draws the random part of a wait.
Nothing else in the executor reads a clock or draws a number, so a test that brings its own decides both.

A run comes to rest between its calls.

A *brake* that is pulled lets no further call begin; those that are under way come to their end and are recorded. When
none is left the run is at rest, and stopping it then interrupts nothing.

What the executor asks of the rooms above it.

A *port* is a question with an answer of a fixed shape, handed in from outside: the executor never imports whoever
answers it. `Verify` is asked once a step, right after its output passed the tool's output schema. It answers, always:
what a gate cannot find out is a record that says so.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from wavewright.executor.events.types import GateRecord
from wavewright.planner.types import Json, JsonObject, StepId


class Timer(Protocol):
    """A call that is still to come."""

    def cancel(self) -> None:
        """Make sure that it never comes."""
        ...


class Clock(Protocol):
    """The port; `LoopClock` is the real one."""

    def wall(self) -> float:
        """Return seconds since the epoch (UTC)."""
        ...

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start; never less than before."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back once, on the event loop, after that many seconds."""
        ...

    def jitter(self, upper: float) -> float:
        """Return a random number from 0 to `upper`."""
        ...


class LoopClock:
    """The machine's clock and the running event loop's timers."""

    wall = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Set a timer of the running loop."""
        return asyncio.get_running_loop().call_later(seconds, callback)

    def jitter(self, upper: float) -> float:
        """Draw from a uniform distribution; spreading retries needs no secrecy."""
        return random.uniform(0.0, upper)  # noqa: S311


def _never_busy() -> bool:
    return False


def _ignore() -> None:
    return None


class DrainSignal:
    """The brake of one execution."""

    def __init__(self) -> None:
        """Begin with a brake that is not pulled."""
        self.is_draining = False
        self._is_busy: Callable[[], bool] = _never_busy
        self._on_drained: Callable[[], None] = _ignore

    @property
    def is_drained(self) -> bool:
        """Whether nothing is under way, and nothing begins any more."""
        return self.is_draining and not self._is_busy()

    def attach(self, is_busy: Callable[[], bool]) -> None:
        """Ask from now on whether a call is under way; for whoever makes the calls."""
        self._is_busy = is_busy

    def start_draining(self, on_rest: Callable[[], None]) -> None:
        """Let nothing begin any more; `on_rest` is called when nothing is under way, perhaps more than once."""
        self.is_draining, self._on_drained = True, on_rest
        self.notify_if_drained()

    def notify_if_drained(self) -> None:
        """See whether the run is at rest; for whoever makes the calls, when one has ended."""
        if self.is_drained:
            self._on_drained()


class GateView(Protocol):
    """What a gate may look at beside the output it stands on."""

    @property
    def inputs(self) -> JsonObject:
        """The plan's inputs."""
        ...

    @property
    def steps(self) -> Mapping[str, Json]:
        """Outputs of the steps that are present; an absent step has no key."""
        ...

    @property
    def items(self) -> Sequence[tuple[int, Json]] | None:
        """For a `for_each` step, position and item of each entry of the output, in the output's order."""
        ...


GateRecords: TypeAlias = tuple[GateRecord, ...]


class Verify(Protocol):
    """Ask the gates of one step about its output; nothing where it has none.

    Where somebody has to be waited for (a judge), the answer is awaitable, and the step ends when it is there. Steps
    that wait for their gates do not count against the limits of calls that run at once.
    """

    def __call__(
        self, step_id: StepId, output: Json, view: GateView
    ) -> GateRecords | Awaitable[GateRecords]: ...
