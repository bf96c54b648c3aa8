"""Twin runs: what differs between two pipelines on one input, and that the second one touches
nothing.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field, replace

import anyio
import pytest
from hypothesis import given, strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from wavewright.config.errors import WavewrightError
from wavewright.engine import (
    Effects,
    PhaseDifference,
    PhaseResult,
    Pipeline,
    TwinLog,
    TwinMetrics,
    TwinReport,
    halt,
    open_twin,
    proceed,
)
from wavewright.engine.run.pipeline.twin import DoneEffects
from wavewright.engine.service.operations.logs import StructuredLog

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Order:
    """A context: what is counted, and what effects are done by."""

    effects: Effects
    amount: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Add:
    """Add to the amount."""

    name: str
    more: int = 0
    note: str = ""

    async def run(self, context: Order) -> PhaseResult[Order]:
        notes = (*context.notes, self.note) if self.note else context.notes
        return proceed(replace(context, amount=context.amount + self.more, notes=notes))


@dataclass(frozen=True)
class Send:
    """Send the amount, and take what comes back."""

    sent: list[int] = field(default_factory=list[int])
    name: str = "send"
    factor: int = 1

    async def run(self, context: Order) -> PhaseResult[Order]:
        amount = context.amount * self.factor

        async def act() -> int:
            self.sent.append(amount)
            return amount + 1000

        answer = await context.effects.do("send", {"amount": amount}, act)
        return proceed(replace(context, amount=answer))


@dataclass(frozen=True)
class End:
    """End the pipeline early."""

    name: str = "end"
    reason: str = "DONE"

    async def run(self, context: Order) -> PhaseResult[Order]:
        return halt(context, self.reason)


@dataclass(frozen=True)
class Fail:
    """Raise an error, or wait for ever."""

    name: str = "fail"
    waits: bool = False

    async def run(self, context: Order) -> PhaseResult[Order]:
        if self.waits:
            await anyio.sleep_forever()
        raise ValueError("no")


async def compared(
    first: Pipeline[Order, Order],
    second: Pipeline[Order, Order],
    amount: int = 1,
    seconds: float = 30,
) -> tuple[int, TwinReport]:
    """Return the first pipeline's amount and the report."""
    reports: list[TwinReport] = []
    async with open_twin(first, second, reports.append, seconds=seconds) as twin:
        run = await twin.run(lambda effects: Order(effects, amount))
    [report] = reports
    return run.context.amount, report


def changed_paths(difference: PhaseDifference) -> list[str]:
    return [change.dotted_path for change in difference.changes]


@given(st.integers(-1000, 1000), st.lists(st.integers(-9, 9), max_size=5))
def test_a_pipeline_agrees_with_itself_and_its_effects_are_done_once(
    amount: int, more: list[int]
) -> None:
    send = Send()
    builder = Pipeline.builder("old").phase(Add("begin"))
    for number, one in enumerate(more):
        builder = builder.phase(Add(f"add_{number}", one)).maybe(
            lambda order: order.amount > 0, Send(send.sent, f"send_{number}")
        )
    pipeline = builder.build()

    alone = anyio.run(pipeline.run, Order(DoneEffects(), amount))
    done = len(send.sent)
    answer, report = anyio.run(compared, pipeline, pipeline, amount)

    assert report.agrees
    assert answer == alone.context.amount
    assert len(send.sent) == 2 * done


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.data())
def test_what_differs_is_told_of_the_phases_from_where_it_began(
    more: list[int], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(more) - 1))
    first = second = Pipeline.builder("a").phase(Add("begin"))
    for number, one in enumerate(more):
        first = first.phase(Add(f"add_{number}", one))
        second = second.phase(Add(f"add_{number}", one + (number == place)))

    _, report = anyio.run(compared, first.build(), second.build())

    assert [one.phase for one in report.differences] == [
        f"add_{n}" for n in range(place, len(more))
    ]
    assert {path for one in report.differences for path in changed_paths(one)} == {"context.amount"}


async def test_effects_of_the_second_are_captured_and_answered_as_those_of_the_first() -> None:
    send = Send()
    first = Pipeline.builder("old").phase(send).phase(Add("after", 1)).build()
    second = (
        Pipeline.builder("new")
        .phase(Add("before", 0, "seen"))
        .phase(send)
        .phase(Add("after", 1))
        .build()
    )

    answer, report = await compared(first, second, 5)

    assert (send.sent, answer) == ([5], 1006)
    assert (report.effects_only_first, report.effects_only_second) == ((), ())
    kinds = [(one.phase, one.kind) for one in report.differences]
    assert kinds == [("before", "only_second"), ("send", "changed"), ("after", "changed")]
    assert changed_paths(report.differences[1]) == ["context.notes"]


async def test_an_effect_that_the_first_did_not_have_ends_the_second() -> None:
    send = Send()
    first = Pipeline.builder("old").phase(send).phase(End()).build()
    second = (
        Pipeline.builder("new").phase(replace(send, factor=2)).phase(End(reason="LATER")).build()
    )

    answer, report = await compared(first, second, 5)

    assert (send.sent, answer) == ([5], 1005)
    assert report.effects_only_first == ('send {"amount":5}',)
    assert report.effects_only_second == ('send {"amount":10}',)
    assert report.failure == 'EffectNotAnswered: the first pipeline did not do send {"amount":10}'
    assert not report.agrees


async def test_guards_reasons_and_phases_of_one_pipeline_are_told() -> None:
    first = (
        Pipeline.builder("old")
        .phase(Add("a"))
        .maybe(lambda order: order.amount > 1, Add("b"))
        .phase(End())
    )
    second = Pipeline.builder("new").phase(Add("a")).maybe(lambda order: order.amount > 0, Add("b"))

    _, report = await compared(first.build(), second.phase(End(reason="LATER")).build())

    assert [(one.phase, one.kind) for one in report.differences] == [
        ("b", "only_second"),
        ("end", "changed"),
    ]
    assert changed_paths(report.differences[1]) == ["reason"]


@pytest.mark.parametrize(
    ("phase", "failure"),
    [(Fail(), "ValueError: no"), (Fail(waits=True), "it did not end within 0.01 s")],
)
async def test_a_second_that_fails_or_hangs_reaches_nobody(phase: Fail, failure: str) -> None:
    first = Pipeline.builder("old").phase(Add("a", 1)).build()
    second = Pipeline.builder("new").phase(Add("a", 1)).phase(phase).build()

    answer, report = await compared(first, second, seconds=0.01 if phase.waits else 30)

    assert (answer, report.failure, report.differences) == (2, failure, ())


async def test_the_caller_has_the_answer_before_the_second_has_begun_and_a_report_that_fails_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pipeline = Pipeline.builder("old").phase(Add("a", 1)).build()
    reports: list[TwinReport] = []

    def report(one: TwinReport) -> None:
        reports.append(one)
        raise ValueError("the disk is full")

    async with open_twin(pipeline, pipeline, report) as twin:
        run = await twin.run(lambda effects: Order(effects, 1))
        assert (run.context.amount, reports) == (2, [])

    assert len(reports) == 1
    assert "could not be compared" in caplog.text


@pytest.mark.parametrize("sample", [0.0, 1.0])
async def test_what_the_first_raises_leaves_the_block_as_it_is(sample: float) -> None:
    first = Pipeline.builder("old").phase(Fail()).build()
    second = Pipeline.builder("new").phase(Add("a", 1)).build()
    reports: list[TwinReport] = []

    with pytest.raises(ValueError, match=r"^no$"):
        async with open_twin(first, second, reports.append, sample=sample) as twin:
            await twin.run(lambda effects: Order(effects, 1))

    assert reports == []


async def test_a_sample_that_is_no_share_is_refused() -> None:
    pipeline = Pipeline.builder("old").phase(Add("a", 1)).build()

    with pytest.raises(WavewrightError, match="sample is 5"):
        async with open_twin(pipeline, pipeline, lambda _: None, sample=5):
            pass


async def test_a_share_of_the_inputs_is_compared() -> None:
    pipeline = Pipeline.builder("old").phase(Add("a", 1)).build()
    reports: list[TwinReport] = []
    draws = iter([0.04, 0.05, 0.5, 0.0])

    async with open_twin(
        pipeline, pipeline, reports.append, sample=0.05, draw=lambda: next(draws)
    ) as twin:
        for _ in range(4):
            await twin.run(lambda effects: Order(effects, 1))

    assert len(reports) == 2


async def test_log_and_metrics_tell_places_and_no_values() -> None:
    first = Pipeline.builder("old").phase(Add("a", 1, "secret")).build()
    second = Pipeline.builder("new").phase(Add("a", 2, "other")).build()
    stream, registry = io.StringIO(), CollectorRegistry()
    _, report = await compared(first, second)

    TwinLog(StructuredLog(agent="a", domain="d", stream=stream))(report)
    metrics = TwinMetrics(registry)
    metrics(report)
    metrics(replace(report, differences=()))

    line = json.loads(stream.getvalue())
    assert (line["event"], line["level"]) == ("twin_compared", "warning")
    assert line["places"] == ["a.context.amount", "a.context.notes[0]"]
    assert "secret" not in stream.getvalue()
    text = generate_latest(registry).decode()
    assert 'wavewright_twin_runs_total{first="old",outcome="differs",second="new"} 1.0' in text
    assert 'wavewright_twin_runs_total{first="old",outcome="equal",second="new"} 1.0' in text
