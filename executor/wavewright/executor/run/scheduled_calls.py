"""Calls on their way through the scheduler.

A *call* is one use of a tool: a plain step is one call, a `for_each` step a *fan* of calls, one an item. Both belong
to the scheduler alone and live only as long as the step runs; what is to last becomes an event.

What a performer asks of the scheduler that it works for.

The *stage* is where calls start and steps end; a performer brings single calls to their ending and knows nothing of
waves, limits and the journal's batches.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from wavewright.executor.events.types import ItemFinished, StepFinished
from wavewright.executor.run.program import CompiledStep
from wavewright.planner.language.plan import Step
from wavewright.planner.types import Json, JsonObject, StepId, StepKey

_EMPTY: JsonObject = {}


def _empty() -> JsonObject:
    """Return the one object that stands for what is not there yet: a call that waits should weigh little."""
    return _EMPTY


@dataclass(slots=True, eq=False)
class ScheduledCall:
    """One call, from being ready to its end."""

    step: Step
    urgency: float
    """Negative of the longest way, in seconds, from here to the end of the plan: the smallest goes first."""
    order: int
    """The step's place in the plan."""
    index: int = -1
    """The item's place; -1 for a plain step, and for a fan that is still to be spread."""
    fan_out: FanOut | None = None
    compiled: CompiledStep | None = None
    visible: JsonObject = field(default_factory=_empty)
    """Outputs that the step may read."""
    params: JsonObject = field(default_factory=_empty)
    key: StepKey | None = None
    withheld: tuple[str, ...] = ()
    """Of the output that serves it, where that comes from a journal."""
    attempt: int = 0
    is_prepared: bool = False
    """Whether it is known that the call has to be made."""
    is_under_way: bool = False
    """Whether the tool is at work on it, so that what it lets be known counts."""
    started: float = 0.0
    """Seconds since the epoch."""
    clock_start: float = 0.0
    """On the clock that never goes back."""


@dataclass(slots=True, eq=False)
class FanOut:
    """The calls of one `for_each` step."""

    head: ScheduledCall
    compiled: CompiledStep
    items: list[Json]
    endings: list[ItemFinished | None]
    next_index: int = 0
    unfinished: int = 0

    @property
    def step_id(self) -> StepId:
        """The step's id."""
        return self.head.step.id


def new_fan_out(head: ScheduledCall, compiled: CompiledStep, items: list[Json]) -> FanOut:
    """Return a fan none of whose calls has started."""
    return FanOut(head, compiled, items, [None] * len(items), 0, len(items))


def item_call(fan: FanOut, index: int) -> ScheduledCall:
    """Return the call of one item."""
    head = fan.head
    return ScheduledCall(
        step=head.step,
        urgency=head.urgency,
        order=head.order,
        index=index,
        fan_out=fan,
        compiled=fan.compiled,
        visible=head.visible,
    )


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
