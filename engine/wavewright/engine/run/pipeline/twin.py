"""Twin runs: a second pipeline is run on the input of the first, and what differs is reported,
phase by phase.

The first pipeline answers; the second is run after it, beside the caller, and does nothing: its
*effects* are captured and answered with what the first one's equal effects returned. Its failure,
its slowness and its answers never reach the caller. So a new pipeline is tried on real inputs
before it replaces the old one.
"""

from __future__ import annotations

import logging
import random
import time
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, Literal, Protocol, TypeVar, cast

import anyio
from pydantic import Field
from pydantic_core import to_jsonable_python

from wavewright.config import WavewrightError
from wavewright.config.value_types import Share
from wavewright.engine.run.pipeline.phase import Phase, PhaseListener, PhaseResult, PipelineRun
from wavewright.engine.run.pipeline.pipeline import GuardedPhases, Node, Pipeline
from wavewright.planner import DocumentModel, Json, JsonObject, canonical_json
from wavewright.planner.language.json_values import JsonChange, json_changes
from wavewright.tools.functions.user_tools import import_project_module

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

A = TypeVar("A")
C = TypeVar("C")
T = TypeVar("T")

_LOG = logging.getLogger(__name__)
SECONDS: Final = 30.0
"""How long a second pipeline may take, unless said otherwise."""
MAX_WAITING: Final = 16
"""Second pipelines under way at once; further ones are not run, so that a slow one costs no memory
without end.
"""


class Effects(Protocol):
    """What phases do to the world: they get it with their context, and do nothing without it."""

    async def do(self, name: str, params: JsonObject, act: Callable[[], Awaitable[T]]) -> T:
        """Do something, or return what it returned when it was done."""
        ...


class EffectNotAnswered(WavewrightError):
    """A captured effect that the first pipeline did not have: what it would have returned is
    unknown.
    """


class DoneEffects:
    """Does each effect, and keeps what it returned.

    >>> import anyio
    >>> from wavewright.engine import DoneEffects
    >>> async def throw() -> int:
    ...     return 4
    >>> effects = DoneEffects()
    >>> anyio.run(effects.do, "dice", {"sides": 6}, throw), len(effects.answers)
    (4, 1)
    """

    def __init__(self) -> None:
        self.answers: list[tuple[str, object]] = []
        """Name and parameters as text, and the answer, in the order in which the effects ended."""

    async def do(self, name: str, params: JsonObject, act: Callable[[], Awaitable[T]]) -> T:
        """Do it."""
        answer = await act()
        self.answers.append((_effect_text(name, params), answer))
        return answer


class CapturedEffects:
    """Does nothing: an effect is answered as the equal one of the first pipeline was, each as often
    as it was done.
    """

    def __init__(self, done: DoneEffects) -> None:
        self.asked: list[str] = []
        self._answers: dict[str, deque[object]] = defaultdict(deque)
        for text, answer in done.answers:
            self._answers[text].append(answer)

    async def do(self, name: str, params: JsonObject, act: Callable[[], Awaitable[T]]) -> T:
        """Return the answer.

        Raises:
            EffectNotAnswered: the first pipeline did not do it, or not as often.
        """
        del act
        text = _effect_text(name, params)
        self.asked.append(text)
        if not self._answers[text]:
            raise EffectNotAnswered(f"the first pipeline did not do {text}")
        return cast("T", self._answers[text].popleft())


def _effect_text(name: str, params: JsonObject) -> str:
    return f"{name} {canonical_json(params).decode()}"


class TwinSettings(DocumentModel):
    """What a settings file says of a twin run: which pipeline is tried, and on how many inputs.

    >>> from wavewright.engine import TwinSettings
    >>> TwinSettings(pipeline="turns:faster", sample=0.1).seconds
    30.0
    """

    pipeline: Annotated[str, Field(pattern=r"^[\w.]+:\w+$")]
    """Function that makes the second pipeline, as `MODULE:FUNCTION`; modules beside the settings
    file are found.
    """
    sample: Share = 0.05
    """Share of the inputs on which it is run."""
    seconds: Annotated[float, Field(gt=0)] = SECONDS
    """How long it may take."""

    def make(self, root: Path, *args: object) -> Pipeline[Any, Any]:
        """Return the pipeline that the function makes of arguments.

        Raises:
            WavewrightError: there is no such function, it fails, or it makes something else.
        """
        module, _, name = self.pipeline.partition(":")
        function: object = getattr(import_project_module(module, root), name, None)
        if not callable(function):
            raise WavewrightError(
                f"the module {module!r} has no function {name!r}", hint=_SETTING_HINT
            )
        settings: object = function(*args)
        if not issubclass(type(settings), Pipeline):
            raise WavewrightError(
                f"{self.pipeline} returns {type(settings).__name__} and no pipeline",
                hint=_SETTING_HINT,
            )
        return cast("Pipeline[Any, Any]", settings)


_SETTING_HINT: Final = (
    "correct `twin.pipeline`: MODULE:FUNCTION of a function that returns a Pipeline"
)


@dataclass(frozen=True, slots=True)
class PhaseDifference:
    """What differs in one phase.

    >>> from wavewright.engine import PhaseDifference
    >>> PhaseDifference("narrate", "only_second").changes
    ()
    """

    phase: str
    kind: Literal["changed", "only_first", "only_second"]
    changes: tuple[JsonChange, ...] = ()
    """Of `outcome`, `reason`, `branch` and `context`, by their paths; empty where only one pipeline
    has the phase.
    """


@dataclass(frozen=True, slots=True)
class TwinReport:
    """How the second pipeline differs from the first on one input.

    >>> from wavewright.engine import TwinReport
    >>> TwinReport("old", "new", (), (), ("mail",)).effects_only_second
    ('mail',)
    """

    first: str
    second: str
    """Names of the pipelines."""
    differences: tuple[PhaseDifference, ...]
    effects_only_first: tuple[str, ...]
    effects_only_second: tuple[str, ...]
    failure: str = ""
    """Why the second one did not end."""
    first_seconds: float = 0.0
    second_seconds: float = 0.0

    @property
    def agrees(self) -> bool:
        """Whether nothing differs."""
        return not (
            self.differences or self.effects_only_first or self.effects_only_second or self.failure
        )


@dataclass(frozen=True, slots=True)
class TwinRuns(Generic[A, C]):
    """Runs the first pipeline for callers, and the second beside them; made by `open_twin`.

    The example goes on from that of `Pipeline`.

    >>> from wavewright.engine import open_twin
    >>> async def both() -> int:
    ...     turn = Pipeline.builder().phase(Double()).build()
    ...     async with open_twin(turn, turn, lambda report: None) as runs:
    ...         return (await runs.run(lambda effects: 21)).context
    >>> anyio.run(both)
    42
    """

    first: Pipeline[A, C]
    second: Pipeline[A, Any]
    report: Callable[[TwinReport], None]
    view: Callable[[Any], Json]
    sample: float
    seconds: float
    group: TaskGroup
    draw: Callable[[], float]
    _waiting: list[object] = field(default_factory=list[object])

    async def run(self, start: Callable[[Effects], A], *listeners: PhaseListener) -> PipelineRun[C]:
        """Run the first pipeline as `Pipeline.run` does; on a sampled input the second one follows
        beside the caller.

        Args:
            start: Makes the first context, with what it does effects by; called once for each
                pipeline.
            listeners: Are told of the phases of the first pipeline.
        """
        done, kept = DoneEffects(), list[_Kept]()
        if self.draw() >= self.sample or len(self._waiting) >= MAX_WAITING:
            return await self.first.run(start(done), *listeners)
        began = time.perf_counter()
        run = await _keeping(self.first, kept).run(start(done), *listeners)
        self._waiting.append(kept)
        self.group.start_soon(self._follow, start, done, kept, time.perf_counter() - began)
        return run

    async def _follow(
        self,
        start: Callable[[Effects], A],
        done: DoneEffects,
        kept: list[_Kept],
        first_seconds: float,
    ) -> None:
        try:
            report = await self._run_second(start, done, kept)
            self.report(replace(report, first_seconds=first_seconds))
        except Exception:  # noqa: BLE001 - a comparison that fails must not reach the caller of the first pipeline
            _LOG.exception(
                "the runs of %s and %s could not be compared", self.first.name, self.second.name
            )
        finally:
            self._waiting.remove(kept)

    async def _run_second(
        self, start: Callable[[Effects], A], done: DoneEffects, kept: Sequence[_Kept]
    ) -> TwinReport:
        captured, theirs, failure = CapturedEffects(done), list[_Kept](), ""
        began = time.perf_counter()
        try:
            with anyio.fail_after(self.seconds):
                await _keeping(self.second, theirs).run(start(captured))
        except TimeoutError:
            failure = f"it did not end within {self.seconds:g} s"
        except Exception as error:  # noqa: BLE001 - whatever the second pipeline raises is reported, and reaches no caller
            failure = f"{type(error).__name__}: {error}"
        did = [text for text, _ in done.answers]
        return TwinReport(
            self.first.name,
            self.second.name,
            tuple(_differences(self._shown(kept), self._shown(theirs))),
            tuple(_without(did, captured.asked)),
            tuple(_without(captured.asked, did)),
            failure,
            second_seconds=time.perf_counter() - began,
        )

    def _shown(self, kept: Sequence[_Kept]) -> list[tuple[str, JsonObject]]:
        return [
            (
                phase.phase,
                {
                    "outcome": phase.result.outcome.value,
                    "reason": phase.result.reason,
                    "branch": phase.result.target,
                    "context": self.view(phase.result.context),
                },
            )
            for phase in kept
        ]


@asynccontextmanager
async def open_twin(
    first: Pipeline[A, C],
    second: Pipeline[A, Any],
    report: Callable[[TwinReport], None],
    *,
    view: Callable[[Any], Json] | None = None,
    sample: float = 1.0,
    seconds: float = SECONDS,
    draw: Callable[[], float] = random.random,
) -> AsyncGenerator[TwinRuns[A, C]]:
    """Yield what runs both pipelines; at the end of the block second ones under way are awaited.

    Args:
        first: The pipeline whose answers count.
        second: The pipeline that is tried.
        report: Is called with what differs, also where nothing does.
        view: Makes JSON of a context, which is compared; the fields of dataclasses and models where
            absent.
        sample: Share of the inputs on which the second one is run, from 0 to 1.
        seconds: How long the second one may take.
        draw: Returns a number from 0 up to 1 for each input.

    Raises:
        WavewrightError: `sample` is no share.

    The example goes on from that of `Pipeline`.

    >>> from wavewright.engine import open_twin
    >>> reports = []
    >>> async def both() -> int:
    ...     turn = Pipeline.builder().phase(Double()).build()
    ...     async with open_twin(turn, turn, reports.append) as runs:
    ...         return (await runs.run(lambda effects: 21)).context
    >>> anyio.run(both), reports[0].differences
    (42, ())
    """
    if not 0 <= sample <= 1:
        raise WavewrightError(
            f"sample is {sample:g}", hint="give a share from 0 to 1, such as 0.05"
        )
    try:
        async with anyio.create_task_group() as group:
            yield TwinRuns(
                first, second, report, view or context_as_json, sample, seconds, group, draw
            )
    except BaseExceptionGroup as failures:
        # Of the group, only the block of the caller fails: what it raises leaves it as without a
        # second pipeline.
        failure = failures.exceptions[0]
        raise failure from failure.__cause__


def context_as_json(context: object) -> Json:
    """Return the fields of a context as JSON; what is no data, such as its effects, by the name of
    its type.
    """
    shown: Json = to_jsonable_python(context, fallback=_name_of)
    return shown


def _name_of(value: object) -> str:
    return "effects" if isinstance(value, DoneEffects | CapturedEffects) else type(value).__name__


@dataclass(frozen=True, slots=True)
class _Kept:
    phase: str
    result: PhaseResult[Any]


@dataclass(frozen=True, slots=True)
class _KeptPhase:
    """A phase whose results are kept; contexts are immutable, so keeping one costs nothing."""

    phase: Phase[Any, Any]
    keep: Callable[[_Kept], None]

    @property
    def name(self) -> str:
        return self.phase.name

    async def run(self, context: object, /) -> PhaseResult[Any]:
        result = await self.phase.run(context)
        self.keep(_Kept(self.phase.name, result))
        return result


def _keeping(pipeline: Pipeline[A, C], kept: list[_Kept]) -> Pipeline[A, C]:
    """Return a pipeline that keeps the results of its phases."""

    def keeping(node: Node) -> Node:
        if isinstance(node, GuardedPhases):
            return replace(node, nodes=tuple(keeping(inner) for inner in node.nodes))
        return _KeptPhase(node, kept.append)

    return replace(pipeline, nodes=tuple(keeping(node) for node in pipeline.nodes))


def _differences(
    first: Sequence[tuple[str, JsonObject]], second: Sequence[tuple[str, JsonObject]]
) -> Iterator[PhaseDifference]:
    """Yield what differs, in the order of the phases."""
    matcher = SequenceMatcher(
        None, [name for name, _ in first], [name for name, _ in second], autojunk=False
    )
    for tag, begin, end, second_begin, second_end in matcher.get_opcodes():
        if tag == "equal":
            pairs = zip(first[begin:end], second[second_begin:second_end], strict=True)
            for (name, context), (_, other) in pairs:
                if changes := tuple(json_changes(context, other, within_lists=True)):
                    yield PhaseDifference(name, "changed", changes)
            continue
        yield from (PhaseDifference(name, "only_first") for name, _ in first[begin:end])
        yield from (
            PhaseDifference(name, "only_second") for name, _ in second[second_begin:second_end]
        )


def _without(texts: Sequence[str], others: Sequence[str]) -> Iterator[str]:
    """Yield the texts that are not among the others as often."""
    left = list(others)
    for text in texts:
        if text in left:
            left.remove(text)
        else:
            yield text
