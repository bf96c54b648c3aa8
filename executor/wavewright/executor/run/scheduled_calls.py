"""What the scheduler holds of a call while its step runs; results become events.

A *call* is one use of a tool: a plain step is one call, a `for_each` step a *fan-out* of calls, one
per item.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field

from wavewright.executor.events.types import ItemFinished, StepFinished
from wavewright.executor.run.ports import GateRecords, ReadyCalls
from wavewright.executor.run.program import CompiledStep
from wavewright.planner import Json, JsonObject, Step, StepKey
from wavewright.planner.types import CallContent
from wavewright.tools.functions.injected import RunValues

_EMPTY: JsonObject = {}
_NO_DATA: RunValues = {}
"""Shared, so that waiting calls use little memory."""


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
    item: int | None = None
    """The item's index; None for a plain step and for the head of a fan-out."""
    fan_out: FanOut | None = None
    """The fan-out that the call belongs to."""
    compiled: CompiledStep | None = None
    """None until the call is taken for the first time."""
    visible: JsonObject = field(default_factory=lambda: _EMPTY)
    """Outputs that the step may read."""
    params: JsonObject = field(default_factory=lambda: _EMPTY)
    key: StepKey | None = None
    """None until the parameters are there."""
    nth: int = 0
    """How many items before this one make a call with the same content."""
    cache_key: StepKey | None = None
    """Under which other runs find the output; None where they may not use it."""
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
    is_decided: bool = False
    """Whether the rules say that the call is made; only its attempts are left."""
    is_under_way: bool = False
    """Whether the tool is running, so that its emissions are recorded."""
    started: float = 0.0
    """Seconds since the epoch."""
    clock_start: float = 0.0
    """Start on the monotonic clock, in seconds."""

    @property
    def rank(self) -> tuple[float, int, int]:
        """Place among ready calls: the most urgent first, items in their order."""
        return self.urgency, self.order, -1 if self.item is None else self.item


@dataclass(slots=True, eq=False)
class FanOut:
    """The calls of one `for_each` step."""

    head: ScheduledCall
    compiled: CompiledStep
    items: list[Json]
    chosen: Sequence[int]
    """Indexes of the items that calls are made for: those for which the condition holds."""
    endings: list[ItemFinished | None] = field(init=False)
    has_started: bool = False
    """Whether a call was made for an item."""
    next_place: int = 0
    """Place among the chosen ones of the next item to call."""
    unfinished: int = field(init=False)
    prepared: Counter[CallContent] = field(default_factory=Counter[CallContent])
    """How many calls with the same content were prepared so far."""

    def __post_init__(self) -> None:
        self.endings = [None] * len(self.items)
        self.unfinished = len(self.chosen)

    @property
    def step(self) -> Step:
        """The step."""
        return self.head.step

    @property
    def ended(self) -> list[ItemFinished]:
        """How its items have ended so far, in their order."""
        return [ending for ending in self.endings if ending is not None]

    def call(self, item: int) -> ScheduledCall:
        """Return the call of one item."""
        head = self.head
        return ScheduledCall(
            step=head.step,
            urgency=head.urgency,
            order=head.order,
            item=item,
            fan_out=self,
            compiled=self.compiled,
            visible=head.visible,
            data=head.data,
            data_digest=head.data_digest,
            answer=head.answer,
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

    __slots__ = ("calls", "endings", "kept", "pending_gates", "questions")

    def __init__(self) -> None:
        self.endings: list[StepFinished | ItemFinished] = []
        """To be recorded in this order, with those of other calls that reuse the output of this
        one.
        """
        self.pending_gates: list[PendingGates] = []
        self.questions: list[PendingQuestion] = []
        self.calls: list[tuple[ScheduledCall, float]] = []
        """Ready calls, each with the seconds after which it may start."""
        self.kept: StepFinished | None = None
        """The step's ending in an earlier part of the run, which is in the journal already."""
