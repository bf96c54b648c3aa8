"""Calls in the scheduler, and their outcomes.

A *call* is one use of a tool: a plain step is one call, a `for_each` step a *fan-out* of calls, one
per item. Both exist only while the step runs; results become events.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from wavewright.executor.events.state import SUCCESSES
from wavewright.executor.events.types import ItemFinished, StepError, StepFinished
from wavewright.executor.run.ports import Clock, GateRecords, ReadyCalls
from wavewright.executor.run.program import CompiledStep
from wavewright.planner.language.plan import Step
from wavewright.planner.types import Json, JsonObject, StepId, StepKey
from wavewright.tools.functions.injected import RunValues

ItemStatus: TypeAlias = Literal["ok", "empty", "failed", "reused"]

_EMPTY: JsonObject = {}
_NO_DATA: RunValues = {}


def _empty() -> JsonObject:
    """Return one shared empty object, so that waiting calls use little memory."""
    return _EMPTY


@dataclass(slots=True, eq=False)
class ScheduledCall:
    """One call, from ready to ended."""

    step: Step
    urgency: float
    """Negative of the longest path, in seconds, from here to the end of the plan: the smallest goes
    first.
    """
    order: int
    """The step's position in the plan."""
    index: int = -1
    """The item's index; -1 for a plain step and for the head of a fan-out."""
    fan_out: FanOut | None = None
    compiled: CompiledStep | None = None
    visible: JsonObject = field(default_factory=_empty)
    """Outputs that the step may read."""
    params: JsonObject = field(default_factory=_empty)
    key: StepKey | None = None
    data: RunValues = field(default_factory=lambda: _NO_DATA)
    """Run data that the step may read."""
    data_digest: str = ""
    """Hash of that data; empty where there is none."""
    written: dict[str, JsonObject] | None = None
    """Run data that a successful attempt has written, or that came with a reused output."""
    withheld: tuple[str, ...] = ()
    """Withheld fields of the reused output, where that comes from a journal."""
    answer: str | None = None
    """What a person has answered who was asked about the call."""
    attempt: int = 0
    is_prepared: bool = False
    """Whether the call has parameters and must be made."""
    is_under_way: bool = False
    """Whether the tool is running, so that its emissions are recorded."""
    started: float = 0.0
    """Seconds since the epoch."""
    clock_start: float = 0.0
    """Start on the monotonic clock, in seconds."""

    def take_over(self, record: StepFinished) -> None:
        """Set what the step's ending is to have of an earlier one."""
        self.started, self.attempt = record.started or self.started, record.attempts
        self.withheld, self.written = record.withheld, record.data


@dataclass(slots=True, eq=False)
class FanOut:
    """The calls of one `for_each` step."""

    head: ScheduledCall
    compiled: CompiledStep
    items: list[Json]
    chosen: Sequence[int]
    """Indexes of the items that calls are made for: those for which the condition holds."""
    endings: list[ItemFinished | None] = field(init=False)
    next_place: int = 0
    """Place among the chosen ones of the next item to call."""
    unfinished: int = field(init=False)

    def __post_init__(self) -> None:
        self.endings = [None] * len(self.items)
        self.unfinished = len(self.chosen)

    @property
    def step_id(self) -> StepId:
        """The step's id."""
        return self.head.step.id


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
        data=head.data,
        data_digest=head.data_digest,
        answer=head.answer,
    )


def finished_item(
    call: ScheduledCall, status: ItemStatus, output: Json, error: StepError | None, clock: Clock
) -> ItemFinished:
    """Return the ending of an item's call, now."""
    return ItemFinished(
        at=clock.wall(),
        step=call.step.id,
        index=call.index,
        key=call.key,
        status=status,
        output=output,
        error=error,
        seconds=clock.monotonic() - call.clock_start,
        attempts=call.attempt,
        withheld=call.withheld,
        data=call.written,
    )


@dataclass(frozen=True, slots=True)
class PendingGates:
    """A step that ends once its gates are evaluated."""

    ending: StepFinished
    gates: Awaitable[GateRecords]
    clock_start: float


@dataclass(frozen=True, slots=True)
class PendingQuestion:
    """A call, or all calls of a fan-out, that a person is asked about."""

    call: ScheduledCall
    ready: ReadyCalls
    fan_out: FanOut | None = None
    """Where all its calls are asked about at once."""


class CallOutcome:
    """What a call has changed, for the scheduler to apply."""

    __slots__ = ("calls", "endings", "pending_gates", "questions", "replayed")

    def __init__(self) -> None:
        self.endings: list[StepFinished | ItemFinished] = []
        """To be recorded in this order, with those of other calls that reuse the output of this
        one.
        """
        self.pending_gates: list[PendingGates] = []
        self.questions: list[PendingQuestion] = []
        self.calls: list[tuple[ScheduledCall, float]] = []
        """Ready calls, each with the seconds after which it may start."""
        self.replayed: StepFinished | None = None
        """The step's ending in an earlier part of the run, which is in the journal already."""


def is_still_valid(record: StepFinished | ItemFinished, *, retry_failed: bool) -> bool:
    """Whether an ending from an earlier part of the run stands: a failure does, unless failed calls
    are made again.
    """
    if record.status in SUCCESSES:
        return True
    # `retry_failed` does not repeat a write that may have taken effect.
    is_unclear = record.error is not None and record.error.kind == "interrupted"
    return record.status == "failed" and (is_unclear or not retry_failed)
