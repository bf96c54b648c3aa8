"""Threads for tools that are plain functions.

Each run has threads of its own, so that one with hundreds of calls that wait keeps no other run of
the same process from its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

import anyio.to_thread
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar

from wavewright.planner import RunId
from wavewright.tools.functions.contracts import UserFunction
from wavewright.tools.functions.errors import ToolError

THREADS_PER_RUN: Final = 40

_LIMITERS: Final = RunVar[WeakValueDictionary[RunId, CapacityLimiter]]("threads of runs")


def _thread_limiter(run: RunId) -> CapacityLimiter:
    """Return what limits the threads of a run; it is known for as long as some call holds it."""
    known = _LIMITERS.get(None)
    if known is None:
        known = WeakValueDictionary[RunId, CapacityLimiter]()
        _LIMITERS.set(known)
    limiter = known.get(run)
    if limiter is None:
        limiter = known[run] = CapacityLimiter(THREADS_PER_RUN)
    return limiter


async def call_in_thread(
    function: UserFunction, arguments: Mapping[str, object], run: RunId
) -> object:
    """Call a plain function in a thread of its run; a call that is cancelled leaves its thread to
    end by itself.

    Raises:
        BaseException: whatever the function raises; `ToolError` as in `_call`.
    """
    result, error = await anyio.to_thread.run_sync(
        partial(_call, function, arguments), abandon_on_cancel=True, limiter=_thread_limiter(run)
    )
    if error is None:
        return result
    try:
        raise error
    finally:
        del error  # its traceback holds this frame


def _call(
    function: UserFunction, arguments: Mapping[str, object]
) -> tuple[object, BaseException | None]:
    """Call a plain function in a worker thread; return its result, or what it raised, which is not
    handled there.

    What the event loop would take for its own (the closing of a coroutine, the end of an iterator,
    Ctrl-C) becomes a `ToolError`.
    """
    try:
        return function(**arguments), None
    except (GeneratorExit, KeyboardInterrupt, StopIteration) as error:
        text = str(error)
        message = f"{type(error).__name__}: {text}" if text else type(error).__name__
        # It is no word of the tool that it failed: all may have been done before.
        foreign = ToolError(message, is_unclear=True)
        foreign.__cause__ = error
        return None, foreign.with_traceback(error.__traceback__)
    except BaseException as error:  # noqa: BLE001 - raised again in the task of the call
        return None, error
