"""A budget is warned of before it is spent, once."""

from __future__ import annotations

import io
import json

import pytest

from wavewright.config.sections import BudgetSettings, BudgetsSection
from wavewright.engine.service.daemon import budgets as daemon_budgets
from wavewright.engine.service.daemon.budgets import (
    BudgetWarnings,
    DaemonBudgetStore,
    DailyBudget,
)
from wavewright.engine.service.operations.logs import StructuredLog
from wavewright.executor.budgets.memory import MemoryBudgetStore
from wavewright.planner.language.plan import Budget
from wavewright.planner.ports.budgets import BudgetScope, Spend
from wavewright.planner.ports.model_port import ModelUse
from wavewright.planner.types import JsonObject, RunId

pytestmark = pytest.mark.anyio

NOON = 1_800_014_400.0
DAY = 86_400.0


class Bench:
    """A purse with a budget of the day, and what is said of it."""

    def __init__(self, tokens: int, of_job: int | None = None) -> None:
        self.now = NOON
        self._stream = io.StringIO()
        budgets = BudgetsSection(
            day=BudgetSettings(tokens=tokens), job=BudgetSettings(tokens=of_job)
        )
        log = StructuredLog(agent="a", domain="d", stream=self._stream)
        self.budget_store = DaemonBudgetStore(
            MemoryBudgetStore(budgets, clock=self.clock),
            DailyBudget(self.clock, lambda _reason, _until: None),
            BudgetWarnings(log, self.clock),
        )

    def clock(self) -> float:
        return self.now

    async def spend(self, tokens: int, run: str = "run_1", job: str | None = None) -> None:
        amount = Spend(calls=1, tokens=tokens)
        put_aside = await self.budget_store.reserve(
            BudgetScope(run=RunId(run), job=job, role="reviewer"), amount
        )
        use = ModelUse(role="worker", name="w", model="m", outcome="answered", input_tokens=tokens)
        await self.budget_store.settle(put_aside, amount, use)

    @property
    def warnings(self) -> list[tuple[object, object, object]]:
        lines: list[JsonObject] = [
            json.loads(line) for line in self._stream.getvalue().splitlines()
        ]
        assert all(
            (line["event"], line["level"]) == ("budget_warning", "warning") for line in lines
        )
        return [(line["budget_type"], line["used"], line["remaining"]) for line in lines]


async def test_a_day_is_warned_of_when_a_tenth_is_left_and_not_again_before_the_next_day() -> None:
    bench = Bench(tokens=1_000)
    await bench.spend(899)
    before = bench.warnings
    await bench.spend(1, "run_2")
    await bench.spend(50, "run_3")
    once = bench.warnings
    bench.now += DAY
    await bench.spend(950)

    assert before == []
    assert once == [("day tokens", 900, 100)]
    assert bench.warnings == [*once, ("day tokens", 950, 50)]


async def test_each_run_is_warned_of_by_itself() -> None:
    bench = Bench(tokens=1_000_000)
    for run in ("run_1", "run_2"):
        bench.budget_store.limit_run(RunId(run), Budget(tokens=100))
        await bench.spend(95, run)
        await bench.spend(1, run)

    assert bench.warnings == [("run tokens", 95, 5)] * 2


async def test_however_many_jobs_there_are_only_so_many_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(daemon_budgets, "MAX_WARNED", 2)
    bench = Bench(tokens=1_000_000, of_job=10)
    for job, tokens in (("a", 9), ("b", 9), ("a", 0), ("c", 9)):
        await bench.spend(tokens, job=job)
    before = len(bench.warnings)
    for job in ("a", "c", "b"):
        await bench.spend(0, job=job)

    # The one that nothing was spent of for longest was forgotten, and is warned of once more.
    assert (before, len(bench.warnings)) == (3, 4)
