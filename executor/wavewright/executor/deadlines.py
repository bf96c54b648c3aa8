"""Deadlines of many calls, kept with one timer.

A *watch* stands over one call and cancels it when its time is up. Entering a cancel scope with a timeout for every
call would cost as much as all the rest of a step; here the timer is only touched when a call's deadline is earlier
than all the others. A call that swallows its cancellation is cancelled again every second until it ends.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable
from typing import TypeVar

import anyio

from wavewright.executor.clock import Clock, Timer

T = TypeVar("T")

_NUDGE_SECONDS = 1.0


class DeadlinePassed(Exception):
    """The call was cancelled because its time was up."""


class CallCancelledItself(Exception):
    """The call raised a cancellation that nobody had asked for."""


class _Watch:
    __slots__ = ("cancellations", "deadline", "task")

    def __init__(self, task: asyncio.Task[object], deadline: float) -> None:
        self.task = task
        self.deadline = deadline
        self.cancellations = 0


class Deadlines:
    """Watches over the calls of one run."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._watches: set[_Watch] = set()
        self._timer: Timer | None = None
        self._earliest = math.inf

    async def limit(self, call: Awaitable[T], seconds: float) -> T:
        """Await a call, at most for `seconds`.

        Raises:
            DeadlinePassed: its time was up.
            CallCancelledItself: it raised `CancelledError` by itself.
        """
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a call needs a running task")
        watch = _Watch(task, self._clock.monotonic() + seconds)
        self._watches.add(watch)
        if watch.deadline < self._earliest:
            self._arm(watch.deadline)
        try:
            result = await call
        except asyncio.CancelledError:
            if not watch.cancellations:
                if _is_wanted(task):
                    raise
                raise CallCancelledItself from None
            raise DeadlinePassed from None
        finally:
            self._watches.discard(watch)
            # What the watch asked for is settled here; an outer cancellation counts for itself and comes again.
            for _ in range(watch.cancellations):
                task.uncancel()
        if watch.cancellations:
            raise DeadlinePassed
        return result

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._earliest = None, math.inf

    def _arm(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._earliest = deadline
        self._timer = self._clock.call_later(max(0.0, deadline - self._clock.monotonic()), self._ring)

    def _ring(self) -> None:
        now = self._clock.monotonic()
        for watch in self._watches:
            if watch.deadline <= now:
                watch.cancellations += 1
                watch.deadline = now + _NUDGE_SECONDS
                watch.task.cancel()
        self._timer, self._earliest = None, math.inf
        # Finished calls are not taken off the timer, so it may ring for nothing; the next one is found here.
        if self._watches:
            self._arm(min(watch.deadline for watch in self._watches))


def _is_wanted(task: asyncio.Task[object]) -> bool:
    """Whether somebody outside asked for the task's cancellation."""
    return task.cancelling() > 0 or anyio.get_current_task().has_pending_cancellation()
