"""A pipeline of typed phases, declared in one expression.

A *pipeline* is an immutable list of named phases, some under a *guard*; a frozen context goes in at
the top and each phase returns a `PhaseResult` with the next context. Nothing happens between the
phases that the declaration does not show: `Pipeline.describe()` prints what runs, in which order
and under which condition.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast, overload

from wavewright.engine.run.pipeline.phase import (
    Outcome,
    Phase,
    PhaseEvent,
    PhaseListener,
    PhaseRecorder,
    PhaseResult,
    PipelineError,
    PipelineRun,
    check_function,
    proceed,
)

if TYPE_CHECKING:
    from typing_extensions import TypeIs

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
E = TypeVar("E")
A_contra = TypeVar("A_contra", contravariant=True)
C_co = TypeVar("C_co", covariant=True)


@dataclass(frozen=True, slots=True)
class GuardedPhases(Generic[C]):
    """Phases that run in turn if the guard holds before the first of them."""

    guard: Callable[[C], bool]
    nodes: tuple[Phase[C, C] | GuardedPhases[C], ...]


Node: TypeAlias = Phase[Any, Any] | GuardedPhases[Any]
"""A phase or a group; contexts are checked where the pipeline is declared."""


def when(
    guard: Callable[[C], bool], phases: Sequence[Phase[C, C] | GuardedPhases[C]]
) -> GuardedPhases[C]:
    """Return a group of phases under a guard, to be nested in another group.

    The example goes on from that of `Pipeline`.

    >>> from wavewright.engine import when
    >>> small = when(lambda number: number < 10, [Double()])
    >>> class Begin(Double):
    ...     name = "begin"
    >>> turn = Pipeline.builder().phase(Begin()).when(lambda number: number > 0, [small]).build()
    >>> anyio.run(turn.run, 4).context
    16
    """
    return GuardedPhases(guard, tuple(phases))


def maybe(guard: Callable[[C], bool], phase: Phase[C, C]) -> GuardedPhases[C]:
    """Return one phase under a guard, to be nested in a group.

    The example goes on from that of `Pipeline`.

    >>> from wavewright.engine import maybe
    >>> small = maybe(lambda number: number < 10, Double())
    >>> class Begin(Double):
    ...     name = "begin"
    >>> turn = Pipeline.builder().phase(Begin()).when(lambda number: number > 0, [small]).build()
    >>> anyio.run(turn.run, 4).context, anyio.run(turn.run, 21).context
    (16, 42)
    """
    return GuardedPhases(guard, (phase,))


@dataclass(frozen=True, slots=True)
class Pipeline(Generic[A_contra, C_co]):
    """An immutable declaration; `run` follows it.

    Phases are checked against each other where they are declared, so the contexts between them have
    no type here.

    >>> import anyio
    >>> from wavewright.engine import Phase, PhaseResult, Pipeline, proceed
    >>> class Double(Phase[int, int]):
    ...     name = "double"
    ...     async def run(self, context: int) -> PhaseResult[int]:
    ...         return proceed(2 * context)
    >>> anyio.run(Pipeline.builder("turn").phase(Double()).build().run, 21).context
    42
    """

    nodes: tuple[Node, ...]
    name: str = "pipeline"
    """Its name in log, metrics and traces."""
    max_branches: int = 100
    """Bound on branches taken in one run, so that a loop always ends."""

    @staticmethod
    def builder(name: str = "pipeline", *, max_branches: int = 100) -> PipelineStart:
        """Return the start of a declaration; its first phase says which context goes in."""
        return PipelineStart(name, max_branches)

    async def run(self, start: A_contra, *listeners: PhaseListener) -> PipelineRun[C_co]:
        """Run the phases in turn and return the last context with a record of each phase.

        Each listener is called at the start and at the end of each phase; at the end also if the
        phase raises.

        Raises:
            PipelineError: a phase branches to a name that is no top-level phase, or branches
                without end; its `run` is not async, or returns no `PhaseResult`; a listener is async.
        """
        record_phase = PhaseRecorder(self.name, *listeners)
        sequence = _flattened(self.nodes)
        result: PhaseResult[Any] = proceed(start)
        position, branches = 0, 0
        while position < len(sequence) and result.outcome is not Outcome.HALT:
            phase, context = sequence[position], result.context
            position += 1
            if isinstance(phase, _Guard):
                if not phase.holds(context):
                    position += phase.length
                continue
            with record_phase(phase.name, context) as done:
                result = await _result_of(phase, context)
                done.record(result)
            if result.outcome is Outcome.BRANCH:
                branches += 1
                position = self._position_of(result, branches)
        return PipelineRun(result.context, tuple(record_phase.records))

    @asynccontextmanager
    async def stream(
        self, start: Callable[[Callable[[E], None]], A_contra], *listeners: PhaseListener
    ) -> AsyncGenerator[AsyncIterator[E | PhaseEvent | PipelineRun[C_co]]]:
        """Run the phases while the block reads what happens; leaving the block early cancels the
        run.

        Args:
            start: Makes the first context of a function that a phase calls to emit an event.
            listeners: As for `run`.

        Yields:
            The events of the phases, between the start and the end of each phase; the last one is
            the `PipelineRun`.

        Raises:
            PipelineError: as `run`; what a phase raises is raised to the block's caller.
        """
        # A program that declares a pipeline loads no event loop.
        import anyio

        from wavewright.engine.run.task_groups import open_task_group

        send, events = anyio.create_memory_object_stream[E | PhaseEvent | PipelineRun[C_co]](
            math.inf
        )

        async def follow() -> None:
            with send:
                send.send_nowait(
                    await self.run(start(send.send_nowait), send.send_nowait, *listeners)
                )

        with events:
            async with open_task_group() as group:
                group.start_soon(follow)
                yield events
                group.cancel_scope.cancel()

    def _position_of(self, result: PhaseResult[Any], branches: int) -> int:
        if branches > self.max_branches:
            msg = f"the pipeline branched more than {self.max_branches} times; the last reason: {result.reason}"
            raise PipelineError(msg)
        targets = _branch_targets(self.nodes)
        if result.target is None or result.target not in targets:
            known = ", ".join(repr(name) for name in targets)
            msg = f"a phase branches to {result.target!r}, which is no top-level phase; there are {known}"
            raise PipelineError(msg)
        return targets[result.target]

    def describe(self) -> str:
        """Return the declaration as text: a line per phase, guarded phases indented under their
        condition.
        """
        return _describe_nodes(self.nodes)


@dataclass(frozen=True, slots=True)
class PipelineStart:
    """A declaration without phases yet."""

    name: str
    max_branches: int

    def phase(self, phase: Phase[A, B]) -> PipelineBuilder[A, B]:
        """Return a declaration that begins with this phase."""
        return PipelineBuilder(self.name, max_branches=self.max_branches, nodes=(phase,))


class PipelineBuilder(Generic[A, C]):
    """A declaration of phases, from an `A` to a `C` so far; every method returns a new builder.

    The example goes on from that of `Pipeline`.

    >>> class Again(Double):
    ...     name = "again"
    >>> turn = Pipeline.builder("turn").phase(Double()).when(lambda n: n < 50, [Again()]).build()
    >>> anyio.run(turn.run, 21).context, anyio.run(turn.run, 60).context
    (84, 120)
    """

    def __init__(
        self, name: str = "pipeline", *, max_branches: int = 100, nodes: tuple[Node, ...] = ()
    ) -> None:
        self._name = name
        self._nodes = nodes
        self._max_branches = max_branches

    def phase(self, phase: Phase[C, B]) -> PipelineBuilder[A, B]:
        """Append a phase that always runs."""
        return PipelineBuilder(
            self._name, max_branches=self._max_branches, nodes=(*self._nodes, phase)
        )

    def when(
        self, guard: Callable[[C], bool], phases: Sequence[Phase[C, C] | GuardedPhases[C]]
    ) -> PipelineBuilder[A, C]:
        """Append phases that run in turn if the guard holds before the first; with `when(…)` among
        them, nested.
        """
        node = GuardedPhases(guard, tuple(phases))
        return PipelineBuilder(
            self._name, max_branches=self._max_branches, nodes=(*self._nodes, node)
        )

    @overload
    def maybe(
        self, guard: Callable[[C], TypeIs[B]], phase: Phase[B, C]
    ) -> PipelineBuilder[A, C]: ...
    @overload
    def maybe(self, guard: Callable[[C], bool], phase: Phase[C, C]) -> PipelineBuilder[A, C]: ...
    def maybe(self, guard: Callable[[C], bool], phase: Phase[Any, C]) -> PipelineBuilder[A, C]:
        """Append one phase that runs if the guard holds; the guard may narrow the type of the
        context.
        """
        return self.when(guard, [phase])

    def build(self) -> Pipeline[A, C]:
        """Return the pipeline.

        Raises:
            PipelineError: two phases have one name, or something is no phase or no guard; the
                message says why.
        """
        seen: set[str] = set()
        for phase in _flattened(self._nodes):
            if isinstance(phase, _Guard):
                check_function(phase.holds, "guard")
                continue
            _check_phase(phase)
            if phase.name in seen:
                raise PipelineError(
                    f"two phases of the pipeline are named {phase.name!r}; rename one of them"
                )
            seen.add(phase.name)
        return Pipeline(self._nodes, self._name, self._max_branches)


@dataclass(frozen=True, slots=True)
class _Guard:
    """The condition of a group in a flat sequence; if it is false, as many entries after it are
    skipped.
    """

    holds: Callable[[Any], bool]
    length: int


def _check_phase(phase: object) -> None:
    """Refuse what untyped code declares as a phase and cannot run as one."""
    kind = type(phase).__name__
    if isinstance(phase, type):
        msg = f"{phase.__name__} is a class and no phase; write `{phase.__name__}()`"
        raise PipelineError(msg)
    name = getattr(phase, "name", None)
    if not isinstance(name, str):
        msg = f"{kind!r} is no phase; a phase has a `name` that is text, and `async def run(…)`"
        raise PipelineError(msg)
    if not callable(getattr(phase, "run", None)):
        msg = f"the phase {name!r} has no 'run'; write `async def run(…)` in {kind}"
        raise PipelineError(msg)


async def _result_of(phase: Phase[Any, Any], context: object) -> PhaseResult[Any]:
    """Return what a phase returns.

    Raises:
        PipelineError: that is no result; the message names the phase and the fix.
    """
    # Typed as a phase promises it; a phase of untyped code may break that promise.
    pending = cast("object", phase.run(context))
    if not isinstance(pending, Awaitable):
        msg = f"the phase {phase.name!r} has a 'run' that is not async; write `async def run(…)`"
        raise PipelineError(msg)
    result = await cast("Awaitable[PhaseResult[Any]]", pending)
    returned = cast("object", result)
    if not isinstance(returned, PhaseResult):
        shown = "nothing" if returned is None else f"a {type(returned).__name__}"
        msg = (
            f"the phase {phase.name!r} returned {shown} and no PhaseResult; "
            "end its 'run' with `return proceed(context)`"
        )
        raise PipelineError(msg)
    return result


def _flattened(nodes: Sequence[Node]) -> list[Phase[Any, Any] | _Guard]:
    """Return the phases in the order of their declaration, each group after its guard."""
    flat: list[Phase[Any, Any] | _Guard] = []
    for node in nodes:
        if isinstance(node, GuardedPhases):
            inner = _flattened(node.nodes)
            flat += [_Guard(node.guard, len(inner)), *inner]
        else:
            flat.append(node)
    return flat


def _branch_targets(nodes: Sequence[Node]) -> dict[str, int]:
    """Return the places, in `_flattened(nodes)`, where a branch may continue, by the name of the
    first phase there.
    """
    targets: dict[str, int] = {}
    place = 0
    for node in nodes:
        flat = _flattened([node])
        first = next((entry for entry in flat if not isinstance(entry, _Guard)), None)
        if first is not None:
            targets[first.name] = place
        place += len(flat)
    return targets


def _describe_nodes(nodes: Sequence[Node]) -> str:
    """Return nodes as text: a line per phase, guarded phases indented under their condition."""
    lines = [line for node in nodes for line in _lines(node, "")]
    width = max((len(label) for label, purpose in lines if purpose is not None), default=0) + 2
    return "".join(
        f"{label}\n" if purpose is None else f"{label:<{width}}{purpose}".rstrip() + "\n"
        for label, purpose in lines
    )


def _lines(node: Node, indent: str) -> Iterator[tuple[str, str | None]]:
    """Yield label and purpose of each line; a condition has no purpose."""
    if isinstance(node, GuardedPhases):
        yield f"{indent}when {_guard_text(node.guard)}:", None
        for inner in node.nodes:
            yield from _lines(inner, f"{indent}    ")
    else:
        yield f"{indent}{node.name}", _purpose(node)


def _guard_text(guard: Callable[[Any], bool]) -> str:
    name = getattr(guard, "__name__", type(guard).__name__)
    return "(condition)" if name == "<lambda>" else name.replace("_", " ")


def _purpose(phase: Phase[Any, Any]) -> str:
    text = inspect.getdoc(type(phase)) or ""
    return " ".join(text.partition("\n\n")[0].split()).rstrip(".")
