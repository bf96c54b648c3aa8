"""One phase of a pipeline: what it takes and returns, and what is told of it to listeners.

The road of a run (`run_job`) and declared pipelines (`Pipeline`) record their phases here alike.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, Protocol, TypeAlias, TypeVar

from wavewright.config import WavewrightError

C = TypeVar("C")
A_contra = TypeVar("A_contra", contravariant=True)
C_co = TypeVar("C_co", covariant=True)


class Outcome(Enum):
    """How the pipeline continues after a phase.

    >>> from wavewright.engine import Outcome, halt
    >>> halt("a context", "nothing to do").outcome is Outcome.HALT
    True
    """

    CONTINUE = "continue"
    HALT = "halt"
    BRANCH = "branch"
    FAILED = "failed"
    """The phase raised; only a `PhaseRecord` has this outcome."""


@dataclass(frozen=True, slots=True)
class PhaseResult(Generic[C_co]):
    """How the pipeline continues after a phase, with which context, and why.

    >>> from wavewright.engine import proceed
    >>> proceed(7, "it is known").context
    7
    """

    outcome: Outcome
    context: C_co
    reason: str | None = None
    target: str | None = None
    """Name of the top-level phase to continue at, for `BRANCH`."""


def proceed(context: C, reason: str | None = None) -> PhaseResult[C]:
    """Return a result that continues with the next phase.

    >>> from wavewright.engine import proceed
    >>> proceed(7).reason is None
    True
    """
    return PhaseResult(Outcome.CONTINUE, context, reason)


def halt(context: C, reason: str) -> PhaseResult[C]:
    """Return a result that ends the pipeline here.

    >>> from wavewright.engine import halt
    >>> halt(7, "the party rests").reason
    'the party rests'
    """
    return PhaseResult(Outcome.HALT, context, reason)


def branch(context: C, target: str, reason: str) -> PhaseResult[C]:
    """Return a result that continues at the phase named `target`: one at the top level, or the
    first of a group.

    >>> from wavewright.engine import branch
    >>> branch(7, "narrate", "the dice were thrown").target
    'narrate'
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
    """A phase begins.

    The example goes on from that of `Pipeline`.

    >>> events = []
    >>> _ = anyio.run(Pipeline.builder().phase(Double()).build().run, 21, events.append)
    >>> [type(event).__name__ for event in events]
    ['PhaseStarted', 'PhaseRecord']
    """

    phase: str
    pipeline: str
    labels: Mapping[str, str]
    """Of the context that goes in."""


@dataclass(frozen=True, slots=True)
class PhaseRecord:
    """The outcome of one execution of a phase.

    The example goes on from that of `Pipeline`.

    >>> run = anyio.run(Pipeline.builder().phase(Double()).build().run, 21)
    >>> run.records[0].phase, run.records[0].outcome.name
    ('double', 'CONTINUE')
    """

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


class PipelineError(WavewrightError):
    """A pipeline was declared or used wrongly: a duplicate name, an unknown branch target, an
    endless loop, a run without a job.
    """


@dataclass(frozen=True, slots=True)
class PipelineRun(Generic[C_co]):
    """The last context, and a record of each phase that ran.

    The example goes on from that of `Pipeline`.

    >>> anyio.run(Pipeline.builder().phase(Double()).build().run, 21).context
    42
    """

    context: C_co
    records: tuple[PhaseRecord, ...]

    @property
    def halted(self) -> str | None:
        """The reason of the phase that ended the pipeline early."""
        last = self.records[-1] if self.records else None
        return last.reason if last is not None and last.outcome is Outcome.HALT else None


class PhaseExit(Exception):
    """A phase that is a function leaves the road by this; what it was is recorded, then it goes on."""

    def __init__(self, result: PhaseResult[object]) -> None:
        super().__init__(result.reason)
        self.result = result


class PhaseEnd:
    """Takes how the phase in progress has ended; it is called with the context that comes out."""

    def __init__(self, context: object) -> None:
        self.result: PhaseResult[object] = PhaseResult(Outcome.CONTINUE, context)

    def __call__(self, context: C, reason: str | None = None) -> C:
        """Take the context of a phase after which the next one follows, and return it."""
        self.result = PhaseResult(Outcome.CONTINUE, context, reason)
        return context

    def record(self, result: PhaseResult[C]) -> C:
        """Take how the pipeline continues, and return the context."""
        self.result = result
        return result.context


class PhaseRecorder:
    """Tells of each phase, its time and its outcome to listeners, and keeps the records.

    Logs, metrics, traces and progress are such listeners.
    """

    def __init__(self, pipeline: str, *listeners: PhaseListener) -> None:
        self.records: list[PhaseRecord] = []
        """One of each phase that has ended, in order."""
        self._pipeline = pipeline
        for listener in listeners:
            check_function(listener, "listener")
        self._listeners = listeners

    @contextmanager
    def __call__(self, name: str, context: object) -> Generator[PhaseEnd]:
        """Open the context in which a phase runs; `context` goes in, and `PhaseEnd` takes what
        comes out.

        A phase that raises is recorded as failed, and its exception goes on.
        """
        started, clock = time.time(), time.perf_counter()
        self._tell(PhaseStarted(name, self._pipeline, labels_of(context)))
        end = PhaseEnd(context)
        try:
            yield end
        except PhaseExit as left:
            end.result = left.result
            raise
        except BaseException as failure:
            end.result = PhaseResult(Outcome.FAILED, context, type(failure).__name__)
            raise
        finally:
            ended = end.result
            record = PhaseRecord(
                phase=name,
                outcome=ended.outcome,
                seconds=time.perf_counter() - clock,
                reason=ended.reason,
                target=ended.target,
                pipeline=self._pipeline,
                labels=labels_of(ended.context),
                started=started,
            )
            self.records.append(record)
            self._tell(record)

    def _tell(self, event: PhaseEvent) -> None:
        for listener in self._listeners:
            listener(event)


def check_function(value: object, what: str) -> None:
    """Refuse what is no function, and an async one: what that returns is awaited nowhere.

    A guard would hold whatever it says, and a listener would hear nothing.

    Raises:
        PipelineError: it is none, or async; the message says what to write.
    """
    if not callable(value):
        raise PipelineError(f"{type(value).__name__!r} is no {what}; write a function")
    if inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(type(value).__call__):
        name = getattr(value, "__name__", type(value).__name__)
        raise PipelineError(f"the {what} {name!r} is async; write it as `def`, without `async`")
