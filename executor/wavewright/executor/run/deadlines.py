"""Deadlines of calls, and exceptions of a call that are not the tool's.

All deadlines of a run share one timer: a cancel scope with a timeout for every call would cost as
much as all the rest of a step. The timer is set again only when a call's deadline is earlier than
all others. A call that swallows its cancellation is cancelled again every second, and abandoned
after `GRACE_SECONDS`: its coroutine is closed, and the worker continues without it.

A *process exception* is Ctrl-C, or the closing of the coroutine that made the call. It is raised;
any other exception of a tool, of whatever class, is a failure of its step.
"""

from __future__ import annotations

import asyncio
import logging
import math
import signal
import threading
import traceback
import types
from collections.abc import Awaitable, Generator
from contextlib import suppress
from functools import partial
from types import CodeType
from typing import Any, Final, Self, TypeVar, cast

import anyio

from wavewright.config import WavewrightError
from wavewright.executor.run.ports import Clock, Timer


def is_process_exception(error: BaseException, task: asyncio.Task[object] | None) -> bool:
    """Return whether an exception of a call is a process exception, or a group that contains one.

    Args:
        error: What the call raised.
        task: The task that made the call.
    """
    waiting = [error]
    while waiting:
        raised = waiting.pop()
        kind = type(raised)  # `isinstance` may ask the exception itself, which may raise
        if issubclass(kind, BaseExceptionGroup):
            waiting += cast("BaseExceptionGroup[BaseException]", raised).exceptions
        elif issubclass(kind, GeneratorExit):
            # A task never closes its own running coroutine.
            if task is None or _current_task() is not task:
                return True
        elif issubclass(kind, KeyboardInterrupt) and _is_from_signal_handler(raised):
            return True
    return False


def _current_task() -> asyncio.Task[object] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _is_from_signal_handler(error: BaseException) -> bool:
    """Whether a signal handler may have raised it, and not the tool's code."""
    if threading.current_thread() is not threading.main_thread():
        return False
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    if signal.default_int_handler in handlers:
        # The default handler is written in C, so no frame shows whether it was called.
        return True
    raised_in = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)][-1:]
    return any(_handler_code(handler) in raised_in for handler in handlers)


def _handler_code(handler: object) -> CodeType | None:
    function: object = (
        cast("partial[object]", handler).func if isinstance(handler, partial) else handler
    )
    return cast("CodeType | None", getattr(function, "__code__", None))


T = TypeVar("T")

_RECANCEL_SECONDS = 1.0
GRACE_SECONDS: Final = 3.0
"""How long a cancelled call may take to end; less than the daemon's `DRAIN_SECONDS`."""

_LOG = logging.getLogger(__name__)


class DeadlineExceeded(WavewrightError):
    """The call was cancelled because its time was up."""

    def __init__(self, *, was_abandoned: bool = False) -> None:
        super().__init__()
        self.was_abandoned = was_abandoned
        """Whether it swallowed its cancellation, and may still be running."""


class CallCancelledItself(WavewrightError):
    """The call raised `CancelledError` although nothing had cancelled it."""


class TimedCall:
    """A call under a deadline; the `with` block around it translates its cancellations.

    Leaving the block raises:
        DeadlineExceeded: its time was up.
        CallCancelledItself: it raised `CancelledError` by itself.
    """

    __slots__ = (
        "_active",
        "_cancelled_at",
        "_clock",
        "_step",
        "_task",
        "_was_abandoned",
        "cancellations",
        "deadline",
        "longest_block",
    )

    def __init__(self, active: set[TimedCall], clock: Clock, seconds: float, step: str) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a call needs a running task")
        self._active = active
        self._clock = clock
        self._task = task
        self._step = step
        self.deadline = clock.monotonic() + seconds
        self.cancellations = 0
        self._cancelled_at = math.inf
        self._was_abandoned = False
        self.longest_block = 0.0
        """Seconds for which the call has held the event loop without awaiting, at the most."""

    def __enter__(self) -> Self:
        self._active.add(self)
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self._active.discard(self)
        if self._was_abandoned:
            _LOG.warning(
                "the call of step %r swallowed its cancellation and was abandoned after %g s",
                self._step,
                GRACE_SECONDS,
            )
        # Only the deadline's cancellations are taken back; an outer cancellation is raised again.
        for _ in range(self.cancellations):
            self._task.uncancel()
        is_cancelled = isinstance(error, asyncio.CancelledError)
        if self.cancellations and (error is None or is_cancelled):
            raise DeadlineExceeded(was_abandoned=self._was_abandoned) from None
        if is_cancelled and not self.cancellations and not _is_cancellation_requested(self._task):
            raise CallCancelledItself from None

    @types.coroutine
    def drive(self, call: Awaitable[T]) -> Generator[Any, None, T]:
        """Await the call; close it where it still runs `GRACE_SECONDS` after its first
        cancellation.
        """
        steps = call.__await__()
        thrown: BaseException | None = None
        while True:
            began = self._clock.monotonic()
            try:
                awaited = next(steps) if thrown is None else steps.throw(thrown)
            except StopIteration as ended:
                result: T = ended.value
                return result
            finally:
                blocked = self._clock.monotonic() - began
                self.longest_block = max(self.longest_block, blocked)
            thrown = None
            was_cancelled = self._cancelled_at < math.inf
            if was_cancelled and not self.cancellations and not self._task.cancelling():
                # A scope of the call's own was cancelled, and has ended.
                self._cancelled_at = math.inf
            try:
                yield awaited
            except asyncio.CancelledError as cancellation:
                if self._has_swallowed():
                    _close(steps)
                    raise
                thrown = cancellation
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:  # noqa: BLE001 - it is thrown into the call
                thrown = error

    def cancel(self, next_deadline: float) -> None:
        """Cancel the call, and again at the next deadline."""
        self.cancellations += 1
        self.deadline = next_deadline
        self._task.cancel()

    def _has_swallowed(self) -> bool:
        """Whether the call must be abandoned; checked at each of its cancellations."""
        now = self._clock.monotonic()
        self._cancelled_at = min(self._cancelled_at, now)
        self._was_abandoned = now - self._cancelled_at >= GRACE_SECONDS
        return self._was_abandoned


class Deadlines:
    """The deadlines of the calls of one run."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._active: set[TimedCall] = set()
        self._timer: Timer | None = None
        self._earliest = math.inf

    def limit(self, seconds: float, *, of: str = "") -> TimedCall:
        """Return the deadline of one call, to be driven by the current task inside a `with` block.

        Args:
            seconds: Time for the call, from now; once it is cancelled it has `GRACE_SECONDS` more
                to end.
            of: The step's id, for the log where the call is abandoned.
        """
        timed = TimedCall(self._active, self._clock, seconds, of)
        if timed.deadline < self._earliest:
            self._arm(timed.deadline)
        return timed

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._earliest = None, math.inf

    def _arm(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._earliest = deadline
        self._timer = self._clock.call_later(
            max(0.0, deadline - self._clock.monotonic()), self._on_timer
        )

    def _on_timer(self) -> None:
        now = self._clock.monotonic()
        for timed in self._active:
            if timed.deadline <= now:
                timed.cancel(now + _RECANCEL_SECONDS)
        self._timer, self._earliest = None, math.inf
        # The timer is not reset when a call ends, so it may fire without an expired call.
        if self._active:
            self._arm(min(timed.deadline for timed in self._active))


def _close(steps: Generator[Any, Any, Any]) -> None:
    # A coroutine that awaits or raises when it is closed is not closed any further.
    with suppress(Exception):
        steps.close()


def _is_cancellation_requested(task: asyncio.Task[object]) -> bool:
    """Whether the task's cancellation was requested from outside."""
    return task.cancelling() > 0 or anyio.get_current_task().has_pending_cancellation()
