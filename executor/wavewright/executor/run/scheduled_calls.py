"""Calls on their way through the scheduler.

A *call* is one use of a tool: a plain step is one call, a `for_each` step a *fan-out* of calls, one an item. Both
live only as long as the step runs; what is to last becomes an event.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, field

from wavewright.executor.events.types import ItemFinished, StepFinished
from wavewright.executor.run.ports import GateRecords
from wavewright.executor.run.program import CompiledStep
from wavewright.planner.language.plan import Step
from wavewright.planner.types import Json, JsonObject, StepId, StepKey

_EMPTY: JsonObject = {}


def _empty() -> JsonObject:
    """Return one shared empty object: a call that waits should take little memory."""
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


@dataclass(frozen=True, slots=True)
class PendingGates:
    """A step that ends once its gates have answered."""

    ending: StepFinished
    gates: Awaitable[GateRecords]
    clock_start: float


@dataclass(slots=True)
class CallOutcome:
    """What executing a call came to, for the scheduler to apply."""

    endings: list[StepFinished | ItemFinished] = field(default_factory=list[StepFinished | ItemFinished])
    """To be recorded, in this order: also of other calls that the output of this one serves."""
    pending_gates: list[PendingGates] = field(default_factory=list[PendingGates])
    calls: list[tuple[ScheduledCall, float]] = field(default_factory=list[tuple["ScheduledCall", float]])
    """Ready calls, each with the seconds after which it may start."""
    replayed: StepFinished | None = None
    """How the step ended in an earlier part of the run; it is in the journal already."""
