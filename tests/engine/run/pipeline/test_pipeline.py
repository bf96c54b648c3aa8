"""The pipeline: order, guards, branches, and the declaration as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import pytest

from wavewright.engine import (
    Outcome,
    PhaseEvent,
    PhaseRecord,
    PhaseResult,
    Pipeline,
    PipelineBuilder,
    PipelineError,
    PipelineRun,
    branch,
    halt,
    maybe,
    proceed,
    when,
)

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Tally:
    trail: tuple[str, ...] = ()
    rounds: int = 0

    @property
    def labels(self) -> Mapping[str, str]:
        return {"last": self.trail[-1]} if self.trail else {}


@dataclass(frozen=True)
class Visit:
    """Leave one's name on the trail."""

    name: str

    async def run(self, context: Tally) -> PhaseResult[Tally]:
        return proceed(replace(context, trail=(*context.trail, self.name)))


@dataclass(frozen=True)
class Divide:
    """Raise an error."""

    name: str = "divide"

    async def run(self, context: Tally) -> PhaseResult[Tally]:
        return proceed(replace(context, rounds=1 // context.rounds))


@dataclass(frozen=True)
class Conversation:
    emit: Callable[[str], None]
    said: int = 0


@dataclass(frozen=True)
class Speak:
    """Say words."""

    name: str
    words: tuple[str, ...]

    async def run(self, context: Conversation) -> PhaseResult[Conversation]:
        for word in self.words:
            context.emit(word)
        return proceed(replace(context, said=context.said + len(self.words)))


@dataclass(frozen=True)
class Wait:
    """Wait for ever."""

    name: str = "wait"
    ended: list[str] = field(default_factory=list[str])

    async def run(self, context: Conversation) -> PhaseResult[Conversation]:
        context.emit("waiting")
        try:
            await anyio.sleep_forever()
        finally:
            self.ended.append("cancelled")
            context.emit("too late")
        return proceed(context)


@dataclass(frozen=True)
class Stop:
    """End the pipeline."""

    name: str = "stop"

    async def run(self, context: Tally) -> PhaseResult[Tally]:
        return halt(context, "enough")


@dataclass(frozen=True)
class GoBack:
    """Go back until the rounds are used up."""

    target: str
    rounds: int
    name: str = "go_back"

    async def run(self, context: Tally) -> PhaseResult[Tally]:
        if context.rounds == self.rounds:
            return proceed(context)
        return branch(replace(context, rounds=context.rounds + 1), self.target, "again")


def silent_tally(emit: Callable[[str], None]) -> Tally:
    return Tally()


def first_round(context: Tally) -> bool:
    return context.rounds == 0


async def test_steps_run_in_the_order_of_the_declaration() -> None:
    pipeline = (
        PipelineBuilder[Tally, Tally]()
        .phase(Visit("a"))
        .phase(Visit("b"))
        .phase(Visit("c"))
        .build()
    )

    run = await pipeline.run(Tally())

    assert run.context.trail == ("a", "b", "c")
    assert [record.phase for record in run.records] == ["a", "b", "c"]
    assert run.halted is None


async def test_a_guard_decides_for_its_whole_group_before_the_first_step() -> None:
    pipeline = (
        PipelineBuilder[Tally, Tally]()
        .when(first_round, [Visit("a"), Visit("b")])
        .maybe(lambda context: not first_round(context), Visit("never"))
        .build()
    )

    run = await pipeline.run(Tally())

    assert run.context.trail == ("a", "b")


async def test_halt_ends_the_pipeline_and_says_why() -> None:
    pipeline = (
        PipelineBuilder[Tally, Tally]()
        .when(first_round, [Visit("a"), Stop(), Visit("b")])
        .phase(Visit("c"))
        .build()
    )

    run = await pipeline.run(Tally())

    assert run.context.trail == ("a",)
    assert run.halted == "enough"
    assert run.records[-1].outcome is Outcome.HALT


async def test_branch_goes_on_at_the_named_step_and_guards_are_asked_again() -> None:
    pipeline = (
        PipelineBuilder[Tally, Tally]()
        .phase(Visit("start"))
        .maybe(first_round, Visit("only_once"))
        .phase(GoBack("start", rounds=2))
        .phase(Visit("end"))
        .build()
    )

    run = await pipeline.run(Tally())

    assert run.context.trail == ("start", "only_once", "start", "start", "end")


async def test_a_branch_to_an_unknown_step_names_the_steps_there_are() -> None:
    pipeline = (
        PipelineBuilder[Tally, Tally]().phase(Visit("a")).phase(GoBack("b", rounds=1)).build()
    )

    with pytest.raises(
        PipelineError, match=r"'b', which is no top-level phase; there are 'a', 'go_back'"
    ):
        await pipeline.run(Tally())


async def test_a_loop_without_end_is_stopped() -> None:
    pipeline = (
        PipelineBuilder[Tally, Tally](max_branches=5).phase(GoBack("go_back", rounds=1_000)).build()
    )

    with pytest.raises(PipelineError, match="more than 5 times"):
        await pipeline.run(Tally())


async def test_a_group_in_a_group_runs_if_both_guards_hold() -> None:
    pipeline = (
        Pipeline.builder()
        .phase(Visit("a"))
        .when(
            first_round,
            [
                Visit("b"),
                when(
                    lambda tally: "b" in tally.trail,
                    [Visit("c"), maybe(lambda _: False, Visit("never"))],
                ),
                Visit("d"),
            ],
        )
        .build()
    )

    assert (await pipeline.run(Tally())).context.trail == ("a", "b", "c", "d")


async def test_a_halt_in_a_nested_group_ends_the_pipeline_and_a_branch_leaves_it() -> None:
    halting = (
        Pipeline.builder()
        .phase(Visit("a"))
        .when(first_round, [maybe(first_round, Stop()), Visit("b")])
    )
    branching = (
        Pipeline.builder()
        .phase(Visit("a"))
        .when(
            lambda _: True,
            [when(first_round, [GoBack("a", rounds=1), Visit("skipped")]), Visit("b")],
        )
    )

    assert (await halting.phase(Visit("c")).build().run(Tally())).context.trail == ("a",)
    assert (await branching.build().run(Tally())).context.trail == ("a", "a", "b")


async def test_a_builder_is_never_changed() -> None:
    start = Pipeline.builder().phase(Visit("a"))
    longer = start.phase(Visit("b"))

    assert (await start.build().run(Tally())).context.trail == ("a",)
    assert (await longer.build().run(Tally())).context.trail == ("a", "b")


async def test_listeners_are_told_of_each_phase_with_the_labels_of_its_context() -> None:
    told: list[PhaseEvent] = []
    pipeline = Pipeline.builder("walk").phase(Visit("a")).maybe(first_round, Stop()).build()

    run = await pipeline.run(Tally(), told.append)

    records = [event for event in told if isinstance(event, PhaseRecord)]
    assert [(type(event).__name__, event.phase, event.pipeline) for event in told] == [
        ("PhaseStarted", "a", "walk"),
        ("PhaseRecord", "a", "walk"),
        ("PhaseStarted", "stop", "walk"),
        ("PhaseRecord", "stop", "walk"),
    ]
    assert tuple(records) == run.records
    assert [(record.outcome, record.reason) for record in records] == [
        (Outcome.CONTINUE, None),
        (Outcome.HALT, "enough"),
    ]
    assert [event.labels for event in told] == [{}, {"last": "a"}, {"last": "a"}, {"last": "a"}]


async def test_a_phase_that_raises_is_told_as_failed() -> None:
    told: list[PhaseEvent] = []

    with pytest.raises(ZeroDivisionError):
        await Pipeline.builder().phase(Divide()).build().run(Tally(), told.append)

    assert isinstance(told[-1], PhaseRecord)
    assert (told[-1].outcome, told[-1].reason) == (Outcome.FAILED, "ZeroDivisionError")


async def test_events_of_phases_stream_out_between_the_start_and_the_end_of_each() -> None:
    pipeline = (
        Pipeline.builder().phase(Speak("hello", ("a", "b"))).phase(Speak("bye", ("c",))).build()
    )
    seen: list[str] = []

    async with pipeline.stream(Conversation) as events:
        async for event in events:
            match event:
                case str():
                    seen.append(event)
                case PipelineRun(context=context):
                    seen.append(f"said {context.said}")
                case _:
                    seen.append(f"{type(event).__name__} {event.phase}")

    assert seen == [
        "PhaseStarted hello",
        "a",
        "b",
        "PhaseRecord hello",
        "PhaseStarted bye",
        "c",
        "PhaseRecord bye",
        "said 3",
    ]


async def test_a_stream_that_is_left_early_cancels_the_run() -> None:
    waiting = Wait()

    async with Pipeline.builder().phase(waiting).build().stream(Conversation) as events:
        async for event in events:
            if event == "waiting":
                break

    assert waiting.ended == ["cancelled"]


async def test_an_error_in_a_streamed_phase_reaches_the_reader_as_itself() -> None:
    async def read_all() -> None:
        async with Pipeline.builder().phase(Divide()).build().stream(silent_tally) as events:
            async for _ in events:
                pass

    with pytest.raises(ZeroDivisionError):
        await read_all()


def test_two_steps_of_one_name_are_refused() -> None:
    builder = PipelineBuilder[Tally, Tally]().phase(Visit("a")).when(first_round, [Visit("a")])

    with pytest.raises(PipelineError, match="two phases of the pipeline are named 'a'"):
        builder.build()


def test_a_pipeline_describes_itself_as_it_was_declared() -> None:
    pipeline = (
        PipelineBuilder[Tally, Tally]()
        .phase(Visit("greet"))
        .when(first_round, [Visit("look_around"), maybe(lambda _: True, Visit("wave")), Stop()])
        .phase(GoBack("greet", rounds=1))
        .build()
    )

    assert pipeline.describe() == (
        "greet            Leave one's name on the trail\n"
        "when first round:\n"
        "    look_around  Leave one's name on the trail\n"
        "    when (condition):\n"
        "        wave     Leave one's name on the trail\n"
        "    stop         End the pipeline\n"
        "go_back          Go back until the rounds are used up\n"
    )


class Forgetful:
    """Forgets `proceed()`."""

    name = "forgetful"

    async def run(self, context: Tally) -> Tally:
        return context


class Silent:
    """Returns nothing."""

    name = "silent"

    async def run(self, context: Tally) -> None:
        del context


class Hasty:
    """Is not async."""

    name = "hasty"

    def run(self, context: Tally) -> PhaseResult[Tally]:
        return proceed(context)


@pytest.mark.parametrize(
    ("phase", "told"),
    [
        pytest.param(Forgetful(), "'forgetful' returned a Tally and no PhaseResult", id="context"),
        pytest.param(Silent(), "'silent' returned nothing and no PhaseResult", id="nothing"),
        pytest.param(Hasty(), "'hasty' has a 'run' that is not async", id="not async"),
    ],
)
async def test_a_phase_that_breaks_its_promise_is_named_with_the_fix(phase: Any, told: str) -> None:
    pipeline = Pipeline.builder("broken").phase(phase).build()

    with pytest.raises(PipelineError, match=told):
        await pipeline.run(Tally())


class Runless:
    """Has no `run`."""

    name = "runless"


async def is_later(context: Tally) -> bool:
    """Return whether a round has passed; async, as no guard may be."""
    return context.rounds > 0


@pytest.mark.parametrize(
    ("phase", "told"),
    [
        pytest.param(Runless(), "the phase 'runless' has no 'run'", id="no run"),
        pytest.param(first_round, "'function' is no phase", id="a function"),
        pytest.param(Stop, r"Stop is a class and no phase; write `Stop\(\)`", id="a class"),
        pytest.param([Stop()], "'list' is no phase", id="a list"),
    ],
)
def test_what_is_no_phase_is_refused_where_it_is_declared(phase: Any, told: str) -> None:
    with pytest.raises(PipelineError, match=told):
        Pipeline.builder().phase(phase).build()
    with pytest.raises(PipelineError, match=told):
        Pipeline.builder().phase(Visit("a")).maybe(first_round, phase).build()


@pytest.mark.parametrize(
    ("guard", "told"),
    [
        pytest.param(is_later, "the guard 'is_later' is async", id="async"),
        pytest.param(True, "'bool' is no guard", id="a value"),
    ],
)
def test_what_is_no_guard_is_refused_where_it_is_declared(guard: Any, told: str) -> None:
    builder = Pipeline.builder().phase(Visit("a"))
    with pytest.raises(PipelineError, match=told):
        builder.when(first_round, [when(guard, [Visit("b")])]).build()


async def test_an_async_listener_is_refused_since_nothing_awaits_it() -> None:
    async def listen(event: PhaseEvent) -> None:
        del event

    listener: Any = listen
    pipeline = Pipeline.builder().phase(Visit("a")).build()
    with pytest.raises(PipelineError, match="the listener 'listen' is async"):
        await pipeline.run(Tally(), listener)
