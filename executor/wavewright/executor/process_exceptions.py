"""Exceptions that come out of a tool's call and are not the tool's.

A *process exception* is Ctrl-C, or the closing of the coroutine that made the call. It passes through; whatever else a
tool raises, of whichever class, is a failure of its step.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import traceback
from functools import partial
from types import CodeType
from typing import cast


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
