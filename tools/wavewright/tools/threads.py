"""Threads for tools that are plain functions.

Each run has threads of its own, so that one with hundreds of calls that wait keeps no other run of the same process
from its own.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakValueDictionary

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar

from wavewright.planner.types import RunId

THREADS_PER_RUN: Final = 40

_LIMITERS: Final = RunVar[WeakValueDictionary[RunId, CapacityLimiter]]("threads of runs")


def thread_limiter(run: RunId) -> CapacityLimiter:
    """Return what limits the threads of a run; it is known for as long as some call holds it."""
    known = _LIMITERS.get(None)
    if known is None:
        known = WeakValueDictionary[RunId, CapacityLimiter]()
        _LIMITERS.set(known)
    limiter = known.get(run)
    if limiter is None:
        limiter = known[run] = CapacityLimiter(THREADS_PER_RUN)
    return limiter
