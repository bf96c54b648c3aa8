"""The budget of a day: what happens when it is spent, and when the next day begins."""

from __future__ import annotations

import io
import math
import time
from uuid import uuid4

import anyio
import pytest

from tests.engine.service.daemon.conftest import InProcess
from tests.engine.service.daemon.daemon_project import REVIEW, BrokerClient, DaemonSite, job
from wavewright.config.sections import BudgetsSection
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.engine.run.cancellation import CancellationToken
from wavewright.engine.service.daemon.budgets import (
    BudgetWarnings,
    DaemonBudgetStore,
    DailyBudget,
    format_instant,
    next_day_start,
)
from wavewright.engine.service.messages.models import JobRequest
from wavewright.engine.service.operations.logs import StructuredLog
from wavewright.executor.budgets.memory import MemoryBudgetStore
from wavewright.executor.run.ports import DrainSignal
from wavewright.planner.ports.budgets import BudgetExceeded, BudgetScope, CallDeferred, Spend
from wavewright.planner.ports.model_port import ModelUse
from wavewright.planner.types import JsonObject, RunId

pytestmark = pytest.mark.anyio

RUN = RunId("20261122-060000-abc123")
NOON = 1_795_348_800.0
USE = ModelUse(role="worker", name="w", model="m", outcome="answered")


class Clock:
    """A clock that stands until it is set."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Told(list[tuple[str, float]]):
    """What was told of spent days."""

    def __call__(self, reason: str, until: float) -> None:
        self.append((reason, until))


def pausing(budget_store: MemoryBudgetStore, day: DailyBudget) -> DaemonBudgetStore:
    """Return the budget store of a daemon over another one."""
    log = StructuredLog(agent="a", domain="d", stream=io.StringIO())
    return DaemonBudgetStore(budget_store, day, BudgetWarnings(log, Clock(NOON)))


def test_the_next_day_begins_at_midnight_utc() -> None:
    assert next_day_start(0.0) == 86_400.0
    assert next_day_start(86_399.9) == 86_400.0
    assert next_day_start(86_400.0) == 172_800.0


async def test_a_spent_day_is_told_once_and_is_over_at_midnight() -> None:
    clock, told = Clock(NOON), Told()
    day = DailyBudget(clock, told)

    day.mark_spent("no tokens are left", None)
    day.mark_spent("no tokens are left", None)
    spent = day.paused_until
    clock.now = next_day_start(NOON)
    with anyio.fail_after(1):
        await day.wait_available()

    assert told == [("no tokens are left", next_day_start(NOON))]
    assert spent == next_day_start(NOON)
    assert day.paused_until is None


async def test_a_clock_that_goes_back_does_not_begin_the_day_anew() -> None:
    clock = Clock(NOON)
    day = DailyBudget(clock, Told())

    day.mark_spent("spent", None)
    clock.now -= 90_000

    assert day.paused_until == next_day_start(NOON)


async def test_who_asks_for_more_than_the_day_has_left_is_stopped_and_not_refused() -> None:
    day = DailyBudget(Clock(NOON), told := Told())
    budgets = BudgetsSection.model_validate({"day": {"calls": 1}})
    budget_store = pausing(MemoryBudgetStore(budgets, clock=Clock(NOON)), day)
    account, token = BudgetScope(run=RUN), CancellationToken()
    with day.stops_when_spent(RUN, token):
        await budget_store.settle(
            await budget_store.reserve(account, Spend(calls=1)), Spend(calls=1), USE
        )
        with pytest.raises(CallDeferred):
            await budget_store.reserve(account, Spend(calls=1))

    assert token.is_cancelled
    assert len(told) == 1


async def test_a_call_that_is_under_way_when_the_day_is_spent_comes_to_its_end() -> None:
    day, token, drain = DailyBudget(Clock(NOON), Told()), CancellationToken(), DrainSignal()
    drain.attach(lambda: True)
    with day.stops_when_spent(RUN, token), token.scope(drain):
        day.mark_spent("nothing is left", RUN)
        pulled, stopped = drain.is_draining, token.is_cancelled
        drain.attach(lambda: False)
        drain.notify_if_drained()

    assert (pulled, stopped) == (True, False)
    assert token.is_cancelled


async def test_the_run_of_a_target_stops_its_own_job_and_no_other() -> None:
    day, mine, other = DailyBudget(Clock(NOON), Told()), CancellationToken(), CancellationToken()
    with (
        day.stops_when_spent(RUN, mine) as stopped_too,
        day.stops_when_spent(RunId("another"), other),
    ):
        stopped_too(RunId("a target's"))
        day.mark_spent("nothing is left", RunId("a target's"))

    assert (mine.is_cancelled, other.is_cancelled) == (True, False)


async def test_what_no_day_could_pay_for_is_refused() -> None:
    budgets = BudgetsSection.model_validate({"day": {"tokens": 10}, "run": {"tokens": 5}})
    budget_store = pausing(MemoryBudgetStore(budgets), DailyBudget(time.time, told := Told()))

    with pytest.raises(BudgetExceeded, match="day"):
        await budget_store.reserve(BudgetScope(), Spend(tokens=11))
    with pytest.raises(BudgetExceeded, match="run"):
        await budget_store.reserve(BudgetScope(run=RUN), Spend(tokens=6))

    assert told == []


@pytest.mark.parametrize(
    ("budget", "amount", "spent"),
    [
        ({"tokens": 10}, Spend(calls=1, tokens=11), Spend(calls=1, tokens=1)),
        ({"usd": 10}, Spend(calls=1, usd=math.inf), Spend(calls=1, usd=0.1)),
    ],
    ids=["larger than a day", "of no known price"],
)
async def test_what_no_day_could_pay_for_pauses_no_day_that_is_spent_in_part(
    budget: JsonObject, amount: Spend, spent: Spend
) -> None:
    budgets = BudgetsSection.model_validate({"day": budget})
    budget_store = pausing(
        MemoryBudgetStore(budgets, clock=Clock(NOON)), DailyBudget(Clock(NOON), told := Told())
    )
    await budget_store.settle(await budget_store.reserve(BudgetScope(run=RUN), spent), spent, USE)

    with pytest.raises(BudgetExceeded, match="day"):
        await budget_store.reserve(BudgetScope(run=RUN), amount)

    assert told == []


@pytest.mark.parametrize(("came_to", "pauses"), [(2, 0), (30, 1)])
async def test_what_is_put_aside_for_calls_under_way_is_waited_for_before_a_day_is_spent(
    came_to: int, pauses: int
) -> None:
    budgets = BudgetsSection.model_validate({"day": {"tokens": 100}})
    budget_store = pausing(
        MemoryBudgetStore(budgets, clock=Clock(NOON)), DailyBudget(Clock(NOON), told := Told())
    )
    account, asked = BudgetScope(run=RUN), Spend(calls=1, tokens=30)
    others = [await budget_store.reserve(account, asked) for _ in range(3)]
    outcomes, before = list[str](), list[object]()

    async def ask() -> None:
        try:
            await budget_store.reserve(account, asked)
            outcomes.append("given")
        except CallDeferred:
            outcomes.append("put off")

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        before += [*told, *outcomes]
        for other in others:
            await budget_store.settle(other, Spend(calls=1, tokens=came_to), USE)
            await anyio.wait_all_tasks_blocked()

    assert before == []
    assert (outcomes, len(told)) == (["put off" if pauses else "given"], pauses)


async def test_calls_that_ask_for_the_rest_of_a_day_at_once_do_not_wait_for_one_another() -> None:
    budgets = BudgetsSection.model_validate({"day": {"tokens": 100}})
    budget_store = pausing(
        MemoryBudgetStore(budgets, clock=Clock(NOON)), DailyBudget(Clock(NOON), told := Told())
    )
    spent = Spend(calls=1, tokens=90)
    await budget_store.settle(await budget_store.reserve(BudgetScope(run=RUN), spent), spent, USE)

    async def ask() -> None:
        with pytest.raises(CallDeferred):
            await budget_store.reserve(BudgetScope(run=RUN), Spend(calls=1, tokens=30))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(ask)

    assert len(told) == 1


async def test_a_plan_is_held_against_a_whole_day_and_not_against_the_rest_of_one() -> None:
    budgets = BudgetsSection.model_validate({"day": {"calls": 3, "tokens": 100}})
    budget_store = pausing(
        MemoryBudgetStore(budgets, clock=Clock(NOON)), DailyBudget(Clock(NOON), Told())
    )
    await budget_store.reserve(BudgetScope(run=RUN), Spend(calls=3, tokens=40))

    allowance = await budget_store.left(BudgetScope(run=RUN))
    left = allowance.day

    assert (left.calls, left.tokens, left.usd, left.seconds) == (3, 100, None, None)
    assert allowance.spans_days


@pytest.fixture
def model(site: DaemonSite, model_server: FakeModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that reviews everything kindly."""
    model_server.answer(REVIEW, when=asked_for("review"))
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
        site.environment[name] = value


@pytest.mark.usefixtures("model")
async def test_a_spent_day_pauses_the_daemon_until_the_next(
    site: DaemonSite, client: BrokerClient, in_process: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wavewright.engine.service.daemon.budgets.STOP_GRACE_SECONDS", 0.1)
    site.write(more="budgets: {day: {calls: 2}}")
    clock = Clock(time.time())
    *done, second, third = (str(uuid4()) for _ in range(4))
    midnight = format_instant(next_day_start(clock.now))
    async with in_process(clock) as daemon:
        for one in done:
            await client.send(JobRequest(job_id=one, job=job(("say", "one"))))
            await client.until_told(one, "JOB_COMPLETED")
        await client.send(JobRequest(job_id=second, job=job(("say", "two"))))
        paused = await client.until_told(second, "JOB_PAUSED")
        why = daemon.watch.health.faults["budget"]
        # Whoever was waiting for a message takes it in; it is begun by nobody.
        await client.send(JobRequest(job_id=third, job=job(("say", "three"))))
        await client.until_told(third, "ACCEPTED")
    async with in_process(clock) as after:
        # Another daemon knows at once.
        await site.until(lambda: bool(after.said("budget_exhausted")))
        before_midnight = site.calls()
        clock.now = next_day_start(clock.now)
        for one in (second, third):
            await client.until_told(one, "JOB_COMPLETED")

    assert before_midnight == {"say one": 2, "say two": 1}
    assert site.calls() == {"say one": 2, "say two": 1, "say three": 1}
    assert why == f"the day's budget is spent; jobs continue at {midnight}"
    assert midnight in str(paused["reason"])
    for said in (daemon.said("budget_exhausted"), after.said("budget_exhausted")):
        assert [(line["budget_type"], line["action"], line["until"]) for line in said] == [
            ("day", "sleep", midnight)
        ]
    assert len(after.said("budget_renewed")) == 1
    assert after.watch.health.faults["budget"] is None


@pytest.mark.usefixtures("model")
async def test_a_raised_budget_wakes_what_waits_for_the_next_day(
    site: DaemonSite, client: BrokerClient, in_process: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wavewright.engine.service.daemon.budgets.STOP_GRACE_SECONDS", 0.1)
    site.write(more="budgets: {day: {calls: 1}}")
    clock = Clock(time.time())
    first, second = str(uuid4()), str(uuid4())
    async with in_process(clock):
        await client.send(JobRequest(job_id=first, job=job(("say", "one"))))
        await client.until_told(first, "JOB_COMPLETED")
        await client.send(JobRequest(job_id=second, job=job(("say", "two"))))
        await client.until_told(second, "JOB_PAUSED")
    site.write(more="budgets: {day: {calls: 2}}")
    async with in_process(clock):
        await client.until_told(second, "JOB_COMPLETED")

    assert site.calls() == {"say one": 1, "say two": 1}
