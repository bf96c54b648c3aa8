"""Time and chance, as the executor sees them.

A *clock* tells the time, counts seconds that never go back, calls back later and draws the random part of a wait.
Nothing else in the executor reads a clock or draws a number, so a test that brings its own decides both.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Protocol


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
