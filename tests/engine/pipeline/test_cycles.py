"""The budget of a cycle: what fits, what waits, what is put off to the next cycle, and what is refused."""

from __future__ import annotations

import anyio
import pytest

from wavewright.engine.pipeline.cancellation import CancellationToken
from wavewright.engine.pipeline.cycles import Cycles
from wavewright.planner.ports.budgets import BudgetExceeded, CallDeferred

pytestmark = pytest.mark.anyio

NOON = 1_795_348_800.0


class Tokens(list[tuple[int, int]]):
    """What was told of used and remaining tokens."""

    def __call__(self, used: int, remaining: int) -> None:
        self.append((used, remaining))


def cycles(tokens: int | None = 100) -> tuple[Cycles, Tokens, Tokens]:
    """Return cycles with what they tell of a budget that is nearly spent, and of one that is."""
    warned, spent = Tokens(), Tokens()
    return Cycles(600.0, tokens, lambda: NOON, CancellationToken(), warned, spent), warned, spent


async def test_a_call_that_exceeds_what_is_left_stops_the_job_and_is_made_in_the_next_cycle() -> None:
    cycle, _, spent = cycles()
    cycle.begin(50)

    await cycle.require(50)
    for _ in range(2):
        with pytest.raises(CallDeferred):
            await cycle.require(51)

    assert cycle.is_spent
    assert cycle.cancellation.is_cancelled
    assert spent == [(50, 50)]
    assert cycle.end() == NOON + 600
    assert cycle.is_paused_until(NOON + 600)
    assert not cycle.is_paused_until(NOON)


async def test_a_call_that_exceeds_a_whole_cycle_is_refused_for_it_would_never_be_made() -> None:
    cycle, _, spent = cycles()
    cycle.begin(0)

    with pytest.raises(BudgetExceeded, match="may use 101 tokens, and a cycle has 100"):
        await cycle.require(101)

    assert (cycle.is_spent, cycle.cancellation.is_cancelled, spent) == (False, False, [])


@pytest.mark.parametrize(("came_to", "is_given"), [(10, True), (60, False)])
async def test_a_call_waits_for_others_that_may_use_less_than_was_reserved_for_them(
    came_to: int, *, is_given: bool
) -> None:
    cycle, _, _ = cycles()
    cycle.begin(0)
    await cycle.require(60)
    cycle.reserve(1, 60)
    outcomes = list[bool]()

    async def ask() -> None:
        try:
            await cycle.require(50)
            outcomes.append(True)
        except CallDeferred:
            outcomes.append(False)

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        assert outcomes == []
        cycle.settle(1, came_to)

    assert outcomes == [is_given]


async def test_a_cycle_that_is_nearly_spent_is_told_once() -> None:
    cycle, warned, _ = cycles()
    cycle.begin(80)
    for number, tokens in enumerate((5, 5, 5)):
        cycle.reserve(number, tokens)
        cycle.settle(number, tokens)

    assert warned == [(90, 10)]


async def test_without_a_limit_every_call_is_made() -> None:
    cycle, warned, spent = cycles(None)
    cycle.begin(10**9)
    await cycle.require(10**9)

    assert (warned, spent) == ([], [])
