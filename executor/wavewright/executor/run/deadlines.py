"""Exceptions that come out of a tool's call and are not the tool's.

A *process exception* is Ctrl-C, or the closing of the coroutine that made the call. It passes through; whatever else a
tool raises, of whichever class, is a failure of its step.

Deadlines of many calls, kept with one timer.

A *watch* stands over one call and cancels it when its time is up. Entering a cancel scope with a timeout for every
call would cost as much as all the rest of a step; here the timer is only touched when a call's deadline is earlier
than all the others. A call that swallows its cancellation is cancelled again every second, and abandoned after
`GRACE_SECONDS`: its coroutine is closed and not resumed, so whoever awaits it goes on without it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import signal
import threading
import traceback
import types
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from functools import partial
from types import CodeType
from typing import Any, Final, TypeVar, cast

import anyio

from wavewright.config.errors import WavewrightError
from wavewright.executor.run.ports import Clock, Timer


def is_process_exception(error: BaseException, task: asyncio.Task[object] | None) -> bool:
    """Whether an exception out of a call is a process exception, or a group that holds one.

    Args:
        error: What came out of the call.
        task: The task that made the call.
    """
    match error:
        case BaseExceptionGroup():
            return any(is_process_exception(part, task) for part in error.exceptions)
        case GeneratorExit():
            # A coroutine that runs is never closed by its own task.
            return task is None or _current_task() is not task
        case KeyboardInterrupt():
            return _is_from_signal_handler(error)
        case _:
            return False


def _current_task() -> asyncio.Task[object] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _is_from_signal_handler(error: KeyboardInterrupt) -> bool:
    """Whether a signal's handler may have raised it, and not the code that it came out of."""
    if threading.current_thread() is not threading.main_thread():
        return False
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    if signal.default_int_handler in handlers:
        # It is written in C, so no frame shows whether it was called.
        return True
    raised_in = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)][-1:]
    return any(_handler_code(handler) in raised_in for handler in handlers)


def _handler_code(handler: object) -> CodeType | None:
    function: object = cast("partial[object]", handler).func if isinstance(handler, partial) else handler
    return cast("CodeType | None", getattr(function, "__code__", None))


T = TypeVar("T")

_RECANCEL_SECONDS = 1.0
GRACE_SECONDS: Final = 3.0
"""For a call to end once it was cancelled; less than a daemon waits for its jobs once they were stopped."""

_LOG = logging.getLogger(__name__)


class DeadlineExceeded(WavewrightError):
    """The call was cancelled because its time was up."""

    def __init__(self, *, was_abandoned: bool = False) -> None:
        super().__init__()
        self.was_abandoned = was_abandoned
        """Whether it swallowed its cancellation, and may be at work still."""


class CallCancelledItself(WavewrightError):
    """The call raised a cancellation that nobody had asked for."""


class _TimedCall:
    __slots__ = ("cancellations", "cancelled_at", "clock", "deadline", "task", "was_abandoned")

    def __init__(self, task: asyncio.Task[object], deadline: float, clock: Clock) -> None:
        self.task = task
        self.deadline = deadline
        self.clock = clock
        self.cancellations = 0
        self.cancelled_at = math.inf
        self.was_abandoned = False

    def has_swallowed(self) -> bool:
        """Whether the call is to be abandoned; asked each time when it is cancelled."""
        now = self.clock.monotonic()
        self.cancelled_at = min(self.cancelled_at, now)
        self.was_abandoned = now - self.cancelled_at >= GRACE_SECONDS
        return self.was_abandoned


class Deadlines:
    """Watches over the calls of one run."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timed_calls: set[_TimedCall] = set()
        self._timer: Timer | None = None
        self._earliest = math.inf

    async def limit(self, call: Awaitable[T], seconds: float, *, of: str = "") -> T:
        """Await a call, at most for `seconds`; once it is cancelled, at most for `GRACE_SECONDS` more.

        Args:
            call: The call.
            seconds: Its deadline, from now.
            of: What the log names where the call has to be abandoned: the step that it is of.

        Raises:
            DeadlinePassed: its time was up.
            CallCancelledItself: it raised `CancelledError` by itself.
        """
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a call needs a running task")
        watch = _TimedCall(task, self._clock.monotonic() + seconds, self._clock)
        self._timed_calls.add(watch)
        if watch.deadline < self._earliest:
            self._arm(watch.deadline)
        try:
            result = await _drive(call, watch.has_swallowed)
        except asyncio.CancelledError:
            if not watch.cancellations:
                if _is_cancellation_requested(task):
                    raise
                raise CallCancelledItself from None
            raise DeadlineExceeded(was_abandoned=watch.was_abandoned) from None
        finally:
            self._timed_calls.discard(watch)
            if watch.was_abandoned:
                _LOG.warning(
                    "the call of step %r swallowed its cancellation and was abandoned after %g s",
                    of,
                    GRACE_SECONDS,
                )
            # What the watch asked for is settled here; an outer cancellation counts for itself and comes again.
            for _ in range(watch.cancellations):
                task.uncancel()
        if watch.cancellations:
            raise DeadlineExceeded
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
        self._timer = self._clock.call_later(max(0.0, deadline - self._clock.monotonic()), self._on_timer)

    def _on_timer(self) -> None:
        now = self._clock.monotonic()
        for watch in self._timed_calls:
            if watch.deadline <= now:
                watch.cancellations += 1
                watch.deadline = now + _RECANCEL_SECONDS
                watch.task.cancel()
        self._timer, self._earliest = None, math.inf
        # Finished calls are not taken off the timer, so it may ring for nothing; the next one is found here.
        if self._timed_calls:
            self._arm(min(watch.deadline for watch in self._timed_calls))


@types.coroutine
def _drive(call: Awaitable[T], is_abandoned: Callable[[], bool]) -> Generator[Any, None, T]:
    """Await a call step by step; one that goes on after a cancellation is closed where `is_abandoned` says so."""
    steps = call.__await__()
    thrown: BaseException | None = None
    while True:
        try:
            awaited = next(steps) if thrown is None else steps.throw(thrown)
        except StopIteration as ended:
            result: T = ended.value
            return result
        thrown = None
        try:
            yield awaited
        except asyncio.CancelledError as cancellation:
            if is_abandoned():
                _close(steps)
                raise
            thrown = cancellation
        except GeneratorExit:
            steps.close()
            raise
        except BaseException as error:  # noqa: BLE001 - whatever is thrown is for the call
            thrown = error


def _close(steps: Generator[Any, Any, Any]) -> None:
    # A coroutine that awaits something when it is closed, or fails then, is left as it is.
    with suppress(Exception):
        steps.close()


def _is_cancellation_requested(task: asyncio.Task[object]) -> bool:
    """Whether somebody outside asked for the task's cancellation."""
    return task.cancelling() > 0 or anyio.get_current_task().has_pending_cancellation()
