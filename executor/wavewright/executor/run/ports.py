"""Time and chance, as the executor sees them.

A *clock* tells the time, counts seconds that never go back, calls back later and draws the random part of a wait.
Nothing else in the executor reads a clock or draws a number, so a test that brings its own decides both.

A `DrainSignal` that was set lets no further call start; those under way end and are recorded. Once none is left the
run is drained, and cancelling it then interrupts nothing.

`Verify` asks the gates of a step, once, after its output has passed the tool's output schema. It always answers: a gate
that cannot be evaluated gives a record that says so.
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
    """Lets one execution end between its calls."""

    def __init__(self) -> None:
        """Begin without draining."""
        self.is_draining = False
        self._is_busy: Callable[[], bool] = _never_busy
        self._on_drained: Callable[[], None] = _ignore

    @property
    def is_drained(self) -> bool:
        """Whether nothing is under way, and nothing begins any more."""
        return self.is_draining and not self._is_busy()

    def attach(self, is_busy: Callable[[], bool]) -> None:
        """Use this function to find out whether a call is under way; called by the scheduler."""
        self._is_busy = is_busy

    def start_draining(self, on_drained: Callable[[], None]) -> None:
        """Let no call start any more; `on_drained` is called when none is under way, perhaps more than once."""
        self.is_draining, self._on_drained = True, on_drained
        self.notify_if_drained()

    def notify_if_drained(self) -> None:
        """Call `on_drained` if the run is drained; called by the scheduler when a call has ended."""
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
