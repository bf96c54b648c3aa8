"""One phase of a pipeline: what it takes and returns, and what is told of it to listeners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, Protocol, TypeAlias, TypeVar

C = TypeVar("C")
A_contra = TypeVar("A_contra", contravariant=True)
C_co = TypeVar("C_co", covariant=True)


class Outcome(Enum):
    """How the pipeline continues after a phase."""

    CONTINUE = "continue"
    HALT = "halt"
    BRANCH = "branch"
    FAILED = "failed"
    """The phase raised; only a `PhaseRecord` has this outcome."""


@dataclass(frozen=True, slots=True)
class PhaseResult(Generic[C_co]):
    """How the pipeline continues after a phase, with which context, and why."""

    outcome: Outcome
    context: C_co
    reason: str | None = None
    target: str | None = None
    """Name of the top-level phase to continue at, for `BRANCH`."""


def proceed(context: C, reason: str | None = None) -> PhaseResult[C]:
    """Return a result that continues with the next phase."""
    return PhaseResult(Outcome.CONTINUE, context, reason)


def halt(context: C, reason: str) -> PhaseResult[C]:
    """Return a result that ends the pipeline here."""
    return PhaseResult(Outcome.HALT, context, reason)


def branch(context: C, target: str, reason: str) -> PhaseResult[C]:
    """Return a result that continues at the phase named `target`: one at the top level, or the
    first of a group.
    """
    return PhaseResult(Outcome.BRANCH, context, reason, target)


class Phase(Protocol[A_contra, C_co]):
    """One unit of a pipeline; its class docstring's first line is its line in the declaration."""

    @property
    def name(self) -> str:
        """The phase's name, unique in its pipeline."""
        ...

    async def run(self, context: A_contra, /) -> PhaseResult[C_co]:
        """Run the phase and return how the pipeline continues."""
        ...


def labels_of(context: object) -> Mapping[str, str]:
    """Return a context's property `labels`, which says what it is about, such as `game_id`; none if
    it has none.
    """
    # Not a protocol: `isinstance` looks at all attributes, twice a phase.
    labels: Mapping[str, str] = getattr(context, "labels", {})
    return labels


@dataclass(frozen=True, slots=True)
class PhaseStarted:
    """A phase begins."""

    phase: str
    pipeline: str
    labels: Mapping[str, str]
    """Of the context that goes in."""


@dataclass(frozen=True, slots=True)
class PhaseRecord:
    """The outcome of one execution of a phase."""

    phase: str
    outcome: Outcome
    seconds: float
    reason: str | None = None
    """Of a failed phase, the type of its exception."""
    target: str | None = None
    pipeline: str = "pipeline"
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of the context that comes out."""
    started: float = 0.0
    """When it began, in seconds since 1970."""


PhaseEvent: TypeAlias = PhaseStarted | PhaseRecord
PhaseListener: TypeAlias = Callable[[PhaseEvent], None]
"""Called at the start and at the end of each phase; writes to a log, counts, makes spans."""
