"""What there is to tell, of each kind."""

from __future__ import annotations

import time

import pytest

from tests.engine.service.notices.conftest import Site
from wavewright.config.notices import NoticeKind
from wavewright.config.sections import BudgetSettings, BudgetsSection
from wavewright.engine.service.job_store.records import (
    Decision,
    DecisionId,
    JobChange,
    JobId,
    JobRequested,
    MessageId,
    ReceivedMessage,
)
from wavewright.engine.service.job_store.tables import JobTables
from wavewright.engine.service.notices.events import NoticeEvent, find_events
from wavewright.executor.budgets.limits import budget_day
from wavewright.executor.events.types import RunFinished, RunStarted
from wavewright.executor.store.transaction import StoreTransaction
from wavewright.planner.types import RunId

pytestmark = pytest.mark.anyio

BUDGETS = BudgetsSection(day=BudgetSettings(tokens=1_000))


async def events(site: Site, kind: NoticeKind, since: float = 0.0) -> list[NoticeEvent]:
    return await site.journal.read(
        lambda transaction: find_events(transaction, [kind], since, time.time(), BUDGETS)
    )


async def execute(site: Site, statement: str, *values: object) -> None:
    async def work(transaction: StoreTransaction) -> None:
        await transaction.execute(statement, *values)

    await site.journal.transact(work)


async def test_a_question_that_is_open_is_told(site: Site) -> None:
    asked = Decision(DecisionId("d"), JobId("j"), RunId("r"), "question", "which?", asked=10.0)

    async def ask(transaction: StoreTransaction) -> None:
        await JobTables(transaction).ask([asked])

    await site.journal.transact(ask)
    [event] = await events(site, "decision_waits")
    assert event.text == "a person must answer: which?"

    await execute(site, "UPDATE decision SET choice = 'a'")
    assert await events(site, "decision_waits") == []


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("failed", "run_failed"),
        ("not_achieved", "run_not_achieved"),
        ("not_achieved", "run_failed"),
    ],
)
async def test_a_run_without_a_daemon_is_told(site: Site, status: str, kind: NoticeKind) -> None:
    run, now = RunId("r1"), time.time()
    await site.journal.open_run(run)
    started = RunStarted(run, now, "digest", {}, now)
    ended = RunFinished(now, "failed" if status == "failed" else "not_achieved")
    await site.journal.append(run, [started, ended])

    [event] = await events(site, kind, now - 1)
    assert (event.id, event.run) == ("run r1", run)
    assert await events(site, kind, now + 1) == []


async def test_a_run_that_failed_is_not_told_as_not_achieved(site: Site) -> None:
    run, now = RunId("r1"), time.time()
    await site.journal.open_run(run)
    await site.journal.append(run, [RunStarted(run, now, "digest", {}, now)])
    await site.journal.append(run, [RunFinished(now, "failed")])

    assert await events(site, "run_not_achieved") == []


async def test_a_run_that_did_not_achieve_its_goal_is_told_with_the_reason(site: Site) -> None:
    run, now = RunId("r1"), time.time()
    await site.journal.open_run(run)
    started = RunStarted(run, now, "digest", {}, now)
    reason = "Goal not achieved. Step 'a' failed (tool): the feed is away."
    await site.journal.append(run, [started, RunFinished(now, "not_achieved", reason)])

    [event] = await events(site, "run_failed")
    said = "has not achieved its goal: Step 'a' failed (tool): the feed is away."
    assert event.text == f"run r1 of 'digest' {said}"


async def test_a_run_of_a_daemon_that_failed_is_told_with_its_reason(site: Site) -> None:
    now, request = time.time(), JobRequested(JobId("j"), {"job": {"name": "digest"}})
    await site.jobs.receive(ReceivedMessage(MessageId("m"), "job", "test", now, request))
    held = await site.jobs.claim()
    assert held is not None
    started = RunStarted(held.run, now, "digest", {}, now)
    await site.journal.append(held.run, [started, RunFinished(now, "failed")])
    await site.jobs.change(JobChange(held.job, "failed", reason="the feed is away"))

    first, *others = await events(site, "run_failed", now - 1)
    assert first.text == f"run {held.run} of 'digest' has failed: the feed is away"
    # Told by the row of its job as well, under the one id by which it is told once.
    assert {event.id for event in others} == {first.id}


@pytest.mark.parametrize(("tokens", "count"), [(799, 0), (800, 1)])
async def test_the_budget_of_the_day_is_told_at_80_percent(
    site: Site, tokens: int, count: int
) -> None:
    put = "INSERT INTO budget_total VALUES ('day', $1, '', 1, $2, 0, 0)"
    await execute(site, put, budget_day(time.time(), None), tokens)
    await execute(site, put, "2020-01-01", 5_000)

    assert len(await events(site, "budget_reached")) == count


async def test_an_instant_that_was_missed_is_told(site: Site) -> None:
    put = "INSERT INTO schedule_instant (name, instant, outcome) VALUES ('morning', 20.0, $1)"
    await execute(site, put, "missed")

    [event] = await events(site, "schedule_missed", 10.0)
    assert event.text == "schedule morning was missed: it was due at 1970-01-01T00:00:20Z"
