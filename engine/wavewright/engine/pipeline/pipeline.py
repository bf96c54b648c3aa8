"""A pipeline of typed steps that reads like a header.

A *pipeline* is an immutable list of named steps, some under a *guard*; a frozen context goes in at the top and
each step answers with a `StepResult` that carries the context on. Nothing happens between the steps that the
declaration does not show: what runs, in which order, under which condition and where a branch may lead can be
read from `Pipeline.describe()`.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, Protocol, TypeAlias, TypeVar

from wavewright.config.errors import WavewrightError

C = TypeVar("C")


class Outcome(Enum):
    """What a step asks the pipeline to do next."""

    CONTINUE = "continue"
    HALT = "halt"
    BRANCH = "branch"


@dataclass(frozen=True, slots=True)
class PhaseResult(Generic[C]):
    """A step's answer: what to do next, with which context, and why."""

    outcome: Outcome
    context: C
    reason: str | None = None
    target: str | None = None
    """Name of the top-level step to go on at, for `BRANCH`."""


def proceed(context: C, reason: str | None = None) -> PhaseResult[C]:
    """Return a result that goes on with the next step."""
    return PhaseResult(Outcome.CONTINUE, context, reason)


def halt(context: C, reason: str) -> PhaseResult[C]:
    """Return a result that ends the pipeline here."""
    return PhaseResult(Outcome.HALT, context, reason)


def branch(context: C, target: str, reason: str) -> PhaseResult[C]:
    """Return a result that goes on at the step named `target`."""
    return PhaseResult(Outcome.BRANCH, context, reason, target)


class Phase(Protocol[C]):
    """One unit of a pipeline; its class docstring's first line is its line in the declaration."""

    @property
    def name(self) -> str:
        """The step's name, unique in its pipeline."""
        ...

    async def run(self, context: C) -> PhaseResult[C]:
        """Return what to do next."""
        ...


Guard: TypeAlias = Callable[[C], bool]


@dataclass(frozen=True, slots=True)
class GuardedPhases(Generic[C]):
    """Steps that run in turn while the guard held before the first of them."""

    guard: Guard[C]
    phases: tuple[Phase[C], ...]


@dataclass(frozen=True, slots=True)
class PhaseRecord:
    """What one execution of one step came to."""

    phase: str
    outcome: Outcome
    seconds: float
    reason: str | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True)
class PipelineRun(Generic[C]):
    """The context that came out, and the way through the steps."""

    context: C
    records: tuple[PhaseRecord, ...]

    @property
    def halted(self) -> str | None:
        """The reason of the step that ended the pipeline early."""
        last = self.records[-1] if self.records else None
        return last.reason if last is not None and last.outcome is Outcome.HALT else None


class PipelineError(WavewrightError):
    """A pipeline was declared or used wrongly: a duplicate name, an unknown branch target, an endless loop."""


Observer: TypeAlias = Callable[[PhaseRecord], None]


@dataclass(frozen=True, slots=True)
class Pipeline(Generic[C]):
    """An immutable declaration; `run` walks it."""

    nodes: tuple[Phase[C] | GuardedPhases[C], ...]
    max_branches: int = 100
    """Bound on branches taken in one run, so that a loop always ends."""
    _targets: dict[str, int] = field(default_factory=dict[str, int], repr=False)

    async def run(self, context: C, observe: Observer | None = None) -> PipelineRun[C]:
        """Run the steps in turn and return the last context with a record of each step.

        Raises:
            PipelineError: a step branches to a name that is no top-level step, or branches without end.
        """
        records: list[PhaseRecord] = []
        position, branches = 0, 0
        while position < len(self.nodes):
            result = await self._run_node(self.nodes[position], context, records, observe)
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

    async def _run_node(
        self,
        node: Phase[C] | GuardedPhases[C],
        context: C,
        records: list[PhaseRecord],
        observe: Observer | None,
    ) -> PhaseResult[C]:
        if isinstance(node, GuardedPhases):
            if not node.guard(context):
                return proceed(context)
            steps = node.phases
        else:
            steps = (node,)
        result = proceed(context)
        for step in steps:
            started = time.perf_counter()
            result = await step.run(result.context)
            record = PhaseRecord(
                step.name, result.outcome, time.perf_counter() - started, result.reason, result.target
            )
            records.append(record)
            if observe is not None:
                observe(record)
            if result.outcome is not Outcome.CONTINUE:
                break
        return result

    def _position_of(self, result: PhaseResult[C], branches: int) -> int:
        if branches > self.max_branches:
            msg = (
                f"the pipeline branched more than {self.max_branches} times; the last reason: {result.reason}"
            )
            raise PipelineError(msg)
        if result.target not in self._targets:
            known = ", ".join(repr(name) for name in self._targets)
            msg = f"a step branches to {result.target!r}, which is no top-level step; there are {known}"
            raise PipelineError(msg)
        return self._targets[result.target]

    def describe(self) -> str:
        """Return the declaration as text: a line a step, guarded steps indented under their condition."""
        width = max((len(name) for node in self.nodes for name in _labels(node)), default=0) + 2
        return "\n".join(line for node in self.nodes for line in _describe_node(node, width)) + "\n"


class PipelineBuilder(Generic[C]):
    """Collects the declaration; every method returns the builder, `build` the immutable pipeline."""

    def __init__(self, *, max_branches: int = 100) -> None:
        self._nodes: tuple[Phase[C] | GuardedPhases[C], ...] = ()
        self._max_branches = max_branches

    def phase(self, step: Phase[C]) -> PipelineBuilder[C]:
        """Append a step that always runs."""
        self._nodes = (*self._nodes, step)
        return self

    def when(self, guard: Guard[C], steps: Sequence[Phase[C]]) -> PipelineBuilder[C]:
        """Append steps that run in turn where the guard holds."""
        self._nodes = (*self._nodes, GuardedPhases(guard, tuple(steps)))
        return self

    def maybe(self, guard: Guard[C], step: Phase[C]) -> PipelineBuilder[C]:
        """Append one step that runs where the guard holds."""
        return self.when(guard, [step])

    def build(self) -> Pipeline[C]:
        """Return the pipeline.

        Raises:
            PipelineError: two steps have one name.
        """
        targets: dict[str, int] = {}
        seen: set[str] = set()
        for position, node in enumerate(self._nodes):
            for number, step in enumerate(_phases_of(node)):
                if step.name in seen:
                    msg = f"two steps of the pipeline are named {step.name!r}; give one another name"
                    raise PipelineError(msg)
                seen.add(step.name)
                if number == 0:
                    targets[step.name] = position
        return Pipeline(self._nodes, self._max_branches, targets)


def _phases_of(node: Phase[C] | GuardedPhases[C]) -> tuple[Phase[C], ...]:
    return node.phases if isinstance(node, GuardedPhases) else (node,)


def _labels(node: Phase[C] | GuardedPhases[C]) -> tuple[str, ...]:
    indent = "    " if isinstance(node, GuardedPhases) else ""
    return tuple(f"{indent}{step.name}" for step in _phases_of(node))


def _describe_node(node: Phase[C] | GuardedPhases[C], width: int) -> Iterator[str]:
    if isinstance(node, GuardedPhases):
        yield f"when {_guard_text(node.guard)}:"
    for label, step in zip(_labels(node), _phases_of(node), strict=True):
        yield f"{label:<{width}}{_purpose(step)}"


def _guard_text(guard: Guard[C]) -> str:
    name = getattr(guard, "__name__", type(guard).__name__)
    return "(condition)" if name == "<lambda>" else name.replace("_", " ")


def _purpose(step: Phase[C]) -> str:
    text = inspect.getdoc(type(step)) or ""
    return text.partition("\n")[0].rstrip(".")
