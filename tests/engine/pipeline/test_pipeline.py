"""The pipeline: order, guards, branches, and the declaration as text."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from wavewright.engine.pipeline.pipeline import (
    Outcome,
    PhaseResult,
    PipelineBuilder,
    PipelineError,
    branch,
    halt,
    proceed,
)

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Tally:
    trail: tuple[str, ...] = ()
    rounds: int = 0


@dataclass(frozen=True)
class Visit:
    """Leave one's name on the trail."""

    name: str

    async def run(self, context: Tally) -> PhaseResult[Tally]:
        return proceed(replace(context, trail=(*context.trail, self.name)))


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


def first_round(context: Tally) -> bool:
    return context.rounds == 0


async def test_steps_run_in_the_order_of_the_declaration() -> None:
    pipeline = PipelineBuilder[Tally, Tally]().phase(Visit("a")).phase(Visit("b")).phase(Visit("c")).build()

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
    pipeline = PipelineBuilder[Tally, Tally]().phase(Visit("a")).phase(GoBack("b", rounds=1)).build()

    with pytest.raises(PipelineError, match=r"'b', which is no top-level phase; there are 'a', 'go_back'"):
        await pipeline.run(Tally())


async def test_a_loop_without_end_is_stopped() -> None:
    pipeline = PipelineBuilder[Tally, Tally](max_branches=5).phase(GoBack("go_back", rounds=1_000)).build()

    with pytest.raises(PipelineError, match="more than 5 times"):
        await pipeline.run(Tally())


def test_two_steps_of_one_name_are_refused() -> None:
    builder = PipelineBuilder[Tally, Tally]().phase(Visit("a")).when(first_round, [Visit("a")])

    with pytest.raises(PipelineError, match="two phases of the pipeline are named 'a'"):
        builder.build()


def test_a_pipeline_describes_itself_as_it_was_declared() -> None:
    pipeline = (
        PipelineBuilder[Tally, Tally]()
        .phase(Visit("greet"))
        .when(first_round, [Visit("look_around"), Stop()])
        .phase(GoBack("greet", rounds=1))
        .build()
    )

    assert pipeline.describe() == (
        "greet            Leave one's name on the trail\n"
        "when first round:\n"
        "    look_around  Leave one's name on the trail\n"
        "    stop         End the pipeline\n"
        "go_back          Go back until the rounds are used up\n"
    )
