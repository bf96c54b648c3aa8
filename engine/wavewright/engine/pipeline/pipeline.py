"""A pipeline of typed phases, declared in one expression.

A *pipeline* is an immutable list of named phases, some under a *guard*; a frozen context goes in at the top and
each phase returns a `PhaseResult` with the next context. Nothing happens between the phases that the declaration
does not show: `Pipeline.describe()` prints what runs, in which order and under which condition.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

from wavewright.config.errors import WavewrightError

if TYPE_CHECKING:
    from typing_extensions import TypeIs

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
A_contra = TypeVar("A_contra", contravariant=True)
C_co = TypeVar("C_co", covariant=True)


class Outcome(Enum):
    """How the pipeline continues after a phase."""

    CONTINUE = "continue"
    HALT = "halt"
    BRANCH = "branch"


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
    """Return a result that continues at the phase named `target`."""
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


@dataclass(frozen=True, slots=True)
class GuardedPhases:
    """Phases that run in turn if the guard holds before the first of them."""

    guard: Callable[[Any], bool]
    phases: tuple[Phase[Any, Any], ...]


@dataclass(frozen=True, slots=True)
class PhaseRecord:
    """The outcome of one execution of a phase."""

    phase: str
    outcome: Outcome
    seconds: float
    reason: str | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True)
class PipelineRun(Generic[C_co]):
    """The last context, and a record of each phase that ran."""

    context: C_co
    records: tuple[PhaseRecord, ...]

    @property
    def halted(self) -> str | None:
        """The reason of the phase that ended the pipeline early."""
        last = self.records[-1] if self.records else None
        return last.reason if last is not None and last.outcome is Outcome.HALT else None


class PipelineError(WavewrightError):
    """A pipeline was declared or used wrongly: a duplicate name, an unknown branch target, an endless loop."""


@dataclass(frozen=True, slots=True)
class Pipeline(Generic[A_contra, C_co]):
    """An immutable declaration; `run` follows it.

    Phases are checked against each other where they are declared, so the contexts between them have no type here.
    """

    nodes: tuple[Phase[Any, Any] | GuardedPhases, ...]
    max_branches: int = 100
    """Bound on branches taken in one run, so that a loop always ends."""
    _targets: dict[str, int] = field(default_factory=dict[str, int], repr=False)

    async def run(self, start: A_contra) -> PipelineRun[C_co]:
        """Run the phases in turn and return the last context with a record of each phase.

        Raises:
            PipelineError: a phase branches to a name that is no top-level phase, or branches without end.
        """
        records: list[PhaseRecord] = []
        context: Any = start
        position, branches = 0, 0
        while position < len(self.nodes):
            result: PhaseResult[Any] = proceed(context)
            for phase in _phases_to_run(self.nodes[position], context):
                started = time.perf_counter()
                result = await phase.run(result.context)
                seconds = time.perf_counter() - started
                records.append(PhaseRecord(phase.name, result.outcome, seconds, result.reason, result.target))
                if result.outcome is not Outcome.CONTINUE:
                    break
            context = result.context
            match result.outcome:
                case Outcome.CONTINUE:
                    position += 1
                case Outcome.HALT:
                    break
                case Outcome.BRANCH:
                    branches += 1
                    position = self._position_of(result, branches)
        return PipelineRun(context, tuple(records))

    def _position_of(self, result: PhaseResult[Any], branches: int) -> int:
        if branches > self.max_branches:
            msg = (
                f"the pipeline branched more than {self.max_branches} times; the last reason: {result.reason}"
            )
            raise PipelineError(msg)
        if result.target not in self._targets:
            known = ", ".join(repr(name) for name in self._targets)
            msg = f"a phase branches to {result.target!r}, which is no top-level phase; there are {known}"
            raise PipelineError(msg)
        return self._targets[result.target]

    def describe(self) -> str:
        """Return the declaration as text: a line per phase, guarded phases indented under their condition."""
        width = max((len(name) for node in self.nodes for name in _labels(node)), default=0) + 2
        return "\n".join(line for node in self.nodes for line in _describe_node(node, width)) + "\n"


class PipelineBuilder(Generic[A, C]):
    """A declaration of phases, from an `A` to a `C` so far; every method returns a new builder."""

    def __init__(
        self, *, max_branches: int = 100, nodes: tuple[Phase[Any, Any] | GuardedPhases, ...] = ()
    ) -> None:
        self._nodes = nodes
        self._max_branches = max_branches

    def phase(self, phase: Phase[C, B]) -> PipelineBuilder[A, B]:
        """Append a phase that always runs."""
        return PipelineBuilder(max_branches=self._max_branches, nodes=(*self._nodes, phase))

    def when(self, guard: Callable[[C], bool], phases: Sequence[Phase[C, C]]) -> PipelineBuilder[A, C]:
        """Append phases that run in turn if the guard holds."""
        node = GuardedPhases(guard, tuple(phases))
        return PipelineBuilder(max_branches=self._max_branches, nodes=(*self._nodes, node))

    @overload
    def maybe(self, guard: Callable[[C], TypeIs[B]], phase: Phase[B, C]) -> PipelineBuilder[A, C]: ...
    @overload
    def maybe(self, guard: Callable[[C], bool], phase: Phase[C, C]) -> PipelineBuilder[A, C]: ...
    def maybe(self, guard: Callable[[C], bool], phase: Phase[Any, C]) -> PipelineBuilder[A, C]:
        """Append one phase that runs if the guard holds; the guard may narrow the type of the context."""
        return self.when(guard, [phase])

    def build(self) -> Pipeline[A, C]:
        """Return the pipeline.

        Raises:
            PipelineError: two phases have one name.
        """
        targets: dict[str, int] = {}
        seen: set[str] = set()
        for position, node in enumerate(self._nodes):
            for number, phase in enumerate(_phases_of(node)):
                if phase.name in seen:
                    msg = f"two phases of the pipeline are named {phase.name!r}; rename one of them"
                    raise PipelineError(msg)
                seen.add(phase.name)
                if number == 0:
                    targets[phase.name] = position
        return Pipeline(self._nodes, self._max_branches, targets)


def _phases_of(node: Phase[Any, Any] | GuardedPhases) -> tuple[Phase[Any, Any], ...]:
    return node.phases if isinstance(node, GuardedPhases) else (node,)


def _phases_to_run(node: Phase[Any, Any] | GuardedPhases, context: object) -> tuple[Phase[Any, Any], ...]:
    return () if isinstance(node, GuardedPhases) and not node.guard(context) else _phases_of(node)


def _labels(node: Phase[Any, Any] | GuardedPhases) -> tuple[str, ...]:
    indent = "    " if isinstance(node, GuardedPhases) else ""
    return tuple(f"{indent}{phase.name}" for phase in _phases_of(node))


def _describe_node(node: Phase[Any, Any] | GuardedPhases, width: int) -> Iterator[str]:
    if isinstance(node, GuardedPhases):
        yield f"when {_guard_text(node.guard)}:"
    for label, phase in zip(_labels(node), _phases_of(node), strict=True):
        yield f"{label:<{width}}{_purpose(phase)}"


def _guard_text(guard: Callable[[Any], bool]) -> str:
    name = getattr(guard, "__name__", type(guard).__name__)
    return "(condition)" if name == "<lambda>" else name.replace("_", " ")


def _purpose(phase: Phase[Any, Any]) -> str:
    text = inspect.getdoc(type(phase)) or ""
    return text.partition("\n")[0].rstrip(".")
