"""What the executor asks of the rooms above it.

A *port* is a question with an answer of a fixed shape, handed in from outside: the executor never imports whoever
answers it. `Verify` is asked once a step, right after its output passed the tool's output schema. It answers, always:
what a gate cannot find out is a record that says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol, TypeAlias

from wavewright.executor.events import GateRecord
from wavewright.planner.types import Json, JsonObject, StepId


class GateView(Protocol):
    """What a gate may look at beside the output it stands on."""

    @property
    def inputs(self) -> JsonObject:
        """The plan's inputs."""
        ...

    @property
    def steps(self) -> Mapping[str, Json]:
        """Outputs of the steps that are present; an absent step has no key."""
        ...

    @property
    def items(self) -> Sequence[tuple[int, Json]] | None:
        """For a `for_each` step, position and item of each entry of the output, in the output's order."""
        ...


GateRecords: TypeAlias = tuple[GateRecord, ...]


class Verify(Protocol):
    """Ask the gates of one step about its output; nothing where it has none.

    Where somebody has to be waited for (a judge), the answer is awaitable, and the step ends when it is there. Steps
    that wait for their gates do not count against the limits of calls that run at once.
    """

    def __call__(
        self, step_id: StepId, output: Json, view: GateView
    ) -> GateRecords | Awaitable[GateRecords]: ...
