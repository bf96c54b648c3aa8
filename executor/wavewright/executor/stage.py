"""What a performer asks of the scheduler that it works for.

The *stage* is where calls start and steps end; a performer brings single calls to their ending and knows nothing of
waves, limits and the journal's batches.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from wavewright.executor.calls import ScheduledCall
from wavewright.executor.events import StepFinished
from wavewright.planner.types import JsonObject, StepId


class SchedulerPort(Protocol):
    """What a performer needs of its scheduler."""

    def visible(self, step_id: StepId) -> JsonObject:
        """Return the outputs that a step may read."""
        ...

    def push(self, call: ScheduledCall, after: float = 0.0) -> None:
        """Let a call start, now or after some seconds."""
        ...

    def finish_step(self, ending: StepFinished) -> None:
        """Record how a step ended."""
        ...

    def start_background(self, work: Callable[[], Awaitable[None]]) -> None:
        """Let something run beside the calls."""
        ...

    def replay_step(self, record: StepFinished) -> None:
        """Take over an ending that is in the journal already."""
        ...

    def commit_now(self) -> None:
        """Commit what is pending, where the journal never waits."""
        ...
