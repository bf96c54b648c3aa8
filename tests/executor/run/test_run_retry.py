"""A retry takes over what ended well and is still the same, and calls everything else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.executor.execution_harness import RUN, ExecutionHarness, echo, plan_of, statuses
from wavewright.executor.events.state import RunState
from wavewright.executor.run.reuse import ReuseSource
from wavewright.planner.language.plan import Plan
from wavewright.planner.types import Json, RunId, StepId
from wavewright.tools.functions.tool import ToolCall

pytestmark = pytest.mark.anyio

PLAN = plan_of(
    {"id": "a"},
    {"id": "b", "params": {"by": "${steps.a}"}},
    {"id": "c", "params": {"by": "${steps.b}"}},
)


class Failing:
    """A bench on which steps fail as long as they are named."""

    def __init__(self, *steps: str, **signature: Any) -> None:
        self.failing = set(steps)
        self.bench = ExecutionHarness().add(self.answer, **signature)

    def answer(self, call: ToolCall) -> Json:
        name = call.step if call.index is None else f"{call.step}[{call.index}]"
        if name in self.failing:
            raise ValueError(name)
        return echo(call)

    async def retry(self, donor: RunState, *anew: str, plan: Plan = PLAN) -> RunState:
        """Retry once nothing fails any more."""
        self.failing.clear()
        self.bench.calls.clear()
        steps = frozenset(map(StepId, anew))
        return await self.bench.run(plan, donor=ReuseSource(donor, RunId("run_0"), steps))

    async def fail(self, plan: Plan = PLAN) -> RunState:
        """Run as `run_0`, whose id is part of the keys, and end with a failure."""
        empty = ReuseSource(RunState(), RunId("run_0"))
        return await self.bench.run(plan, donor=empty)


async def test_what_ended_well_is_not_called_again() -> None:
    bench = Failing("b")

    state = await bench.retry(await bench.fail())

    assert bench.bench.called == ["b", "c"]
    assert statuses(state) == {"a": "reused", "b": "ok", "c": "ok"}


async def test_a_write_that_took_effect_is_not_repeated_by_a_retry() -> None:
    bench = Failing("b", effects=frozenset({"write"}))

    state = await bench.retry(await bench.fail())

    assert bench.bench.called == ["b", "c"]
    assert statuses(state)["a"] == "reused"


async def test_a_repeated_write_has_the_key_that_it_had() -> None:
    bench = Failing("b", effects=frozenset({"write"}))
    donor = await bench.fail()
    before = next(call.key for call in bench.bench.calls if call.step == "b")

    await bench.retry(donor)

    assert next(call.key for call in bench.bench.calls if call.step == "b") == before


async def test_a_step_that_is_done_anew_has_another_key_and_is_called() -> None:
    bench = Failing("c", effects=frozenset({"write"}))
    donor = await bench.fail()
    before = next(call.key for call in bench.bench.calls if call.step == "b")

    state = await bench.retry(donor, "b", "c")

    assert bench.bench.called == ["b", "c"]
    assert statuses(state)["a"] == "reused"
    assert next(call.key for call in bench.bench.calls if call.step == "b") != before


async def test_a_step_with_other_parameters_is_called() -> None:
    bench = Failing("c")
    donor = await bench.fail()
    changed = plan_of({"id": "a", "params": {"by": "another"}}, {"id": "b"})

    state = await bench.retry(donor, plan=changed)

    assert bench.bench.called == ["a", "b"]
    assert statuses(state) == {"a": "ok", "b": "ok"}


async def test_of_items_only_those_that_failed_are_called() -> None:
    plan = plan_of({"id": "a", "for_each": [1, 2, 3], "params": {"by": "${item}"}})
    bench = Failing("a[1]")

    state = await bench.retry(await bench.fail(plan), plan=plan)

    assert [call.index for call in bench.bench.calls] == [1]
    assert statuses(state) == {"a": "ok"}
    assert RUN != "run_0"
