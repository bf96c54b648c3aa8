"""Owners who may be dead, watched from one claim to the next, so that no claim waits.

A *suspect* cannot be looked at from here and has not beaten for a lease; it is dead if its beat has not moved by the
time that its watch is over.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from wavewright.executor.lease import LeaseProbe
from wavewright.planner.types import RunId


@dataclass(frozen=True, slots=True)
class _SeenHeartbeat:
    """An owner as first seen."""

    heartbeat: int
    at: float
    seconds: float


class LeaseProbes:
    """The suspects of one opening of a store."""

    def __init__(self) -> None:
        self._seen = dict[RunId, _SeenHeartbeat]()

    def expired_heartbeat(self, run: RunId) -> int | None:
        """Return the beat that a run's owner must have moved from since, where its watch is over."""
        seen = self._seen.get(run)
        is_over = seen is not None and time.monotonic() - seen.at >= seen.seconds
        return seen.heartbeat if seen is not None and is_over else None

    def note(self, run: RunId, watch: LeaseProbe | None) -> None:
        """Note what came of trying to hold a run: whom to watch until the next time, if anybody."""
        seen = self._seen.pop(run, None)
        if watch is not None:
            is_same = seen is not None and seen.heartbeat == watch.lease.heartbeat
            first = _SeenHeartbeat(watch.lease.heartbeat, time.monotonic(), watch.lease.probe_seconds)
            self._seen[run] = seen if seen is not None and is_same else first
