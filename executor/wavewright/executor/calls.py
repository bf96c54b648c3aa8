"""Calls on their way through the scheduler.

A *call* is one use of a tool: a plain step is one call, a `for_each` step a *fan* of calls, one an item. Both belong
to the scheduler alone and live only as long as the step runs; what is to last becomes an event.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wavewright.executor.events import ItemFinished
from wavewright.executor.program import CompiledStep
from wavewright.planner.models import Step
from wavewright.planner.types import Json, JsonObject, StepId, StepKey

_NOTHING: JsonObject = {}


def _nothing() -> JsonObject:
    """Return the one object that stands for what is not there yet: a call that waits should weigh little."""
    return _NOTHING


@dataclass(slots=True, eq=False)
class Call:
    """One call, from being ready to its end."""

    step: Step
    urgency: float
    """Negative of the longest way, in seconds, from here to the end of the plan: the smallest goes first."""
    order: int
    """The step's place in the plan."""
    index: int = -1
    """The item's place; -1 for a plain step, and for a fan that is still to be spread."""
    fan: Fan | None = None
    compiled: CompiledStep | None = None
    visible: JsonObject = field(default_factory=_nothing)
    """Outputs that the step may read."""
    params: JsonObject = field(default_factory=_nothing)
    key: StepKey | None = None
    withheld: tuple[str, ...] = ()
    """Of the output that serves it, where that comes from a journal."""
    attempt: int = 0
    is_cleared: bool = False
    """Whether it is known that the call has to be made."""
    is_under_way: bool = False
    """Whether the tool is at work on it, so that what it lets be known counts."""
    started: float = 0.0
    """Seconds since the epoch."""
    clock_start: float = 0.0
    """On the clock that never goes back."""


@dataclass(slots=True, eq=False)
class Fan:
    """The calls of one `for_each` step."""

    head: Call
    compiled: CompiledStep
    items: list[Json]
    endings: list[ItemFinished | None]
    next_index: int = 0
    unfinished: int = 0

    @property
    def step_id(self) -> StepId:
        """The step's id."""
        return self.head.step.id


def new_fan(head: Call, compiled: CompiledStep, items: list[Json]) -> Fan:
    """Return a fan none of whose calls has started."""
    return Fan(head, compiled, items, [None] * len(items), 0, len(items))


def fan_call(fan: Fan, index: int) -> Call:
    """Return the call of one item."""
    head = fan.head
    return Call(
        step=head.step,
        urgency=head.urgency,
        order=head.order,
        index=index,
        fan=fan,
        compiled=fan.compiled,
        visible=head.visible,
    )
