"""Budgets: what is put aside, what it came to, and what is refused."""

from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import anyio
import pytest
from anyio import wait_all_tasks_blocked

from tests.support.postgres import PostgresServer
from wavewright.config.sections import BudgetSettings, BudgetsSection
from wavewright.executor.budgets.limits import CALL_HISTORY_SIZE
from wavewright.executor.budgets.memory import MemoryBudgetStore
from wavewright.executor.postgres.journal import PostgresBudgetStore
from wavewright.executor.sqlite.journal import SqliteBudgetStore
from wavewright.executor.store.errors import JournalError
from wavewright.planner.language.plan import Budget
from wavewright.planner.ports.budgets import BudgetExceeded, BudgetScope, Reservation, Spend
from wavewright.planner.ports.model_port import ModelOutcome, ModelUse, Role
from wavewright.planner.types import RunId, StepId

pytestmark = pytest.mark.anyio

AnyBudgetStore: TypeAlias = MemoryBudgetStore | SqliteBudgetStore | PostgresBudgetStore
Opened: TypeAlias = Callable[[BudgetsSection], AnyBudgetStore]

RUN, OTHER = RunId("run_1"), RunId("run_2")
MIDNIGHT = 1_800_057_600.0
"""2027-01-16 00:00 UTC."""


class Wall:
    """A clock that stands where it is put."""

    def __init__(self) -> None:
        self.now = MIDNIGHT

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def opened(
    request: pytest.FixtureRequest, tmp_path: Path, wall: Wall
) -> AsyncIterator[Opened]:
    """Return what opens a budget store over budgets; what was opened is closed at the end."""
    purses = list[AnyBudgetStore]()

    url = ""
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.database()

    def open_budget_store(budgets: BudgetsSection) -> AnyBudgetStore:
        match request.param:
            case "memory":
                budget_store: AnyBudgetStore = MemoryBudgetStore(budgets, clock=wall)
            case "sqlite":
                budget_store = SqliteBudgetStore(tmp_path / "j.db", budgets, wall)
            case _:
                budget_store = PostgresBudgetStore(url, budgets, wall)
        purses.append(budget_store)
        return budget_store

    yield open_budget_store
    for budget_store in purses:
        await budget_store.aclose()


def tokens(most: int) -> BudgetSettings:
    return BudgetSettings(tokens=most)


def use(
    model: str = "acme:one", *, outcome: ModelOutcome = "answered", seconds: float = 1.0
) -> ModelUse:
    return ModelUse("worker", "n", model, outcome, seconds=seconds)


def account(
    run: RunId | None = RUN,
    *,
    job: str | None = "job",
    step: str | None = None,
    role: Role = "worker",
) -> BudgetScope:
    return BudgetScope(run=run, job=job, step=None if step is None else StepId(step), role=role)


async def spend(
    budget_store: AnyBudgetStore, amount: Spend, who: BudgetScope | None = None
) -> None:
    """Reserve and settle the same."""
    await budget_store.settle(await budget_store.reserve(who or account(), amount), amount, use())


async def refused(
    budget_store: AnyBudgetStore, amount: Spend, who: BudgetScope | None = None
) -> BudgetExceeded:
    with pytest.raises(BudgetExceeded) as caught:
        await budget_store.reserve(who or account(), amount)
    return caught.value


# --- reserve and settle


async def test_without_budgets_anything_may_be_put_aside_and_is_counted(opened: Opened) -> None:
    budget_store = opened(BudgetsSection())

    await budget_store.reserve(account(), Spend(3, 10**9, 500.0, 60.0))

    left = await budget_store.left(account())
    assert (left.run.calls, left.run.tokens, left.run.usd, left.run.seconds) == (
        None,
        None,
        None,
        None,
    )
    assert left.run.spent == left.job.spent == left.day.spent == Spend(3, 10**9, 500.0, 60.0)


async def test_what_is_put_aside_counts_until_it_is_settled_and_then_what_it_came_to(
    opened: Opened,
) -> None:
    budget_store = opened(BudgetsSection(day=BudgetSettings(tokens=100, usd=1.0)))

    held = await budget_store.reserve(account(), Spend(1, 70, 0.7, 10.0))
    await refused(budget_store, Spend(tokens=31))
    await budget_store.settle(held, Spend(1, 20, 0.1, 2.5), use())

    left = await budget_store.left(account())
    assert (left.day.tokens, left.day.usd) == (80, 0.9)
    assert left.day.spent == Spend(1, 20, 0.1, 2.5)
    await budget_store.reserve(account(), Spend(tokens=80))
    await refused(budget_store, Spend(tokens=1))


async def test_settling_again_changes_nothing(opened: Opened) -> None:
    budget_store = opened(BudgetsSection())
    held = await budget_store.reserve(account(), Spend(tokens=70))

    for came_to in (20, 50, 0):
        await budget_store.settle(held, Spend(tokens=came_to), use())

    assert (await budget_store.left(account())).day.spent.tokens == 20
    assert await budget_store.past_seconds("acme:one", "worker") == (1.0,)


async def test_what_is_not_settled_is_listed_by_run_with_the_model_that_is_asked(
    opened: Opened,
) -> None:
    counters = opened(BudgetsSection())
    scope = account(run=RUN, step=StepId("s1"))
    settled = await counters.reserve(scope, Spend(1, 10))
    standing = await counters.reserve(replace(scope, model="openai:gpt"), Spend(1, 20, 0.5))
    await counters.reserve(replace(scope, run=OTHER), Spend(1, 30))
    await counters.settle(settled, Spend(1, 5), use())

    [found] = await counters.unsettled(RUN)

    assert (found.id, found.amount) == (standing.id, standing.amount)
    assert (found.scope.step, found.scope.model) == ("s1", "openai:gpt")


async def test_settling_what_was_never_put_aside_changes_nothing(opened: Opened) -> None:
    budget_store = opened(BudgetsSection())

    await budget_store.settle(Reservation(99, account(), Spend(tokens=70)), Spend(tokens=20), use())

    assert (await budget_store.left(account())).day.spent == Spend()


async def test_a_call_that_took_more_than_was_put_aside_is_charged_in_full(opened: Opened) -> None:
    budget_store = opened(BudgetsSection(run=tokens(100), recovery_share=0.0))

    held = await budget_store.reserve(account(), Spend(tokens=90))
    await budget_store.settle(held, Spend(tokens=150), use())

    left = await budget_store.left(account())
    assert (left.run.tokens, left.run.spent.tokens) == (0, 150)
    await refused(budget_store, Spend(tokens=1))


async def test_nothing_may_still_be_put_aside_where_a_budget_is_spent(opened: Opened) -> None:
    budget_store = opened(BudgetsSection(day=BudgetSettings(tokens=10, calls=5)))
    await spend(budget_store, Spend(tokens=10))

    await budget_store.reserve(account(), Spend(calls=1))


async def test_parts_of_a_cent_are_given_back_exactly(opened: Opened) -> None:
    budget_store = opened(BudgetsSection(day=BudgetSettings(usd=1.0)))

    for _ in range(100):
        held = await budget_store.reserve(account(), Spend(usd=0.1, seconds=0.3))
        await budget_store.settle(held, Spend(), use(outcome="failed"))

    left = await budget_store.left(account())
    assert (left.day.usd, left.day.spent) == (1.0, Spend())


# --- budgets


@pytest.mark.parametrize(
    ("budgets", "scope", "setting"),
    [
        pytest.param(
            BudgetsSection(run=tokens(10), recovery_share=0),
            "run",
            "`budgets.run.tokens`",
            id="run",
        ),
        pytest.param(BudgetsSection(job=tokens(10)), "job", "`budgets.job.tokens`", id="job"),
        pytest.param(BudgetsSection(day=tokens(10)), "day", "`budgets.day.tokens`", id="day"),
    ],
)
async def test_a_refusal_names_the_budget_what_is_left_and_the_mend(
    opened: Opened, budgets: BudgetsSection, scope: str, setting: str
) -> None:
    budget_store = opened(budgets)
    await spend(budget_store, Spend(tokens=4))

    refusal = await refused(budget_store, Spend(tokens=7))

    assert refusal.scope == scope
    assert str(refusal) == (
        f"the call may take 7 tokens, and the {scope}'s budget of 10 tokens has 6 tokens left"
    )
    assert f"raise {setting} in wavewright.yaml" in str(refusal.hint)
    assert (await budget_store.left(account())).day.spent.tokens == 4


@pytest.mark.parametrize(
    ("bound", "amount", "words"),
    [
        pytest.param(
            BudgetSettings(calls=1),
            Spend(calls=2),
            "2 calls, and the day's budget of 1 call",
            id="calls",
        ),
        pytest.param(
            BudgetSettings(usd=0.5),
            Spend(usd=0.6),
            "$0.6000, and the day's budget of $0.5000",
            id="usd",
        ),
        pytest.param(
            BudgetSettings(seconds=9),
            Spend(seconds=9.5),
            "9.5 s, and the day's budget of 9.0 s",
            id="s",
        ),
    ],
)
async def test_every_measure_is_bounded(
    opened: Opened, bound: BudgetSettings, amount: Spend, words: str
) -> None:
    budget_store = opened(BudgetsSection(day=bound))

    assert words in str(await refused(budget_store, amount))


async def test_runs_of_one_job_share_its_budget_and_other_jobs_do_not(opened: Opened) -> None:
    budget_store = opened(BudgetsSection(job=tokens(10)))
    await spend(budget_store, Spend(tokens=6), account(RUN))

    assert (await refused(budget_store, Spend(tokens=5), account(OTHER))).scope == "job"
    await budget_store.reserve(account(OTHER, job="another"), Spend(tokens=10))


async def test_all_runs_share_the_day(opened: Opened) -> None:
    budget_store = opened(BudgetsSection(day=tokens(10)))
    await spend(budget_store, Spend(tokens=6), account(RUN, job="one"))

    assert (await refused(budget_store, Spend(tokens=5), account(OTHER, job="two"))).scope == "day"
    assert (await refused(budget_store, Spend(tokens=5), account(None, job=None))).scope == "day"


async def test_a_step_is_held_to_its_own_budget_over_all_its_items(opened: Opened) -> None:
    budget_store = opened(BudgetsSection())
    step = BudgetScope(run=RUN, step=StepId("a"), step_budget=Budget(tokens=10))
    await spend(budget_store, Spend(tokens=6), step)

    refusal = await refused(budget_store, Spend(tokens=5), step)
    assert (refusal.scope, refusal.hint) == (
        "step",
        "raise the step's `budget.tokens`, or ask for less",
    )
    assert (await budget_store.left(step)).step.tokens == 4
    await budget_store.reserve(
        BudgetScope(run=RUN, step=StepId("b"), step_budget=Budget(tokens=10)), Spend(tokens=10)
    )
    await budget_store.reserve(
        BudgetScope(run=OTHER, step=StepId("a"), step_budget=Budget(tokens=10)), Spend(tokens=10)
    )


async def test_a_goals_own_budget_bounds_its_run_beside_the_configured_one(opened: Opened) -> None:
    budget_store = opened(BudgetsSection(run=tokens(100), recovery_share=0.0))
    budget_store.limit_run(RUN, Budget(tokens=10))

    refusal = await refused(budget_store, Spend(tokens=11))
    assert (refusal.scope, refusal.hint) == (
        "run",
        "raise `limits.budget.tokens` of the goal, or ask for less",
    )
    assert (await refused(budget_store, Spend(tokens=101), account(OTHER))).scope == "run"
    assert (await budget_store.left(account())).run.tokens == 10

    budget_store.limit_run(RUN, None)
    await budget_store.reserve(account(), Spend(tokens=100))


@pytest.mark.parametrize("role", ["planner", "agent", "worker"])
async def test_a_share_of_the_run_is_held_back_for_review_and_recovery(
    opened: Opened, role: Role
) -> None:
    budget_store = opened(BudgetsSection(run=tokens(100), recovery_share=0.2))

    assert (await budget_store.left(account(role=role))).run.tokens == 80
    refusal = await refused(budget_store, Spend(tokens=81), account(role=role))
    assert "80 tokens left beside the 20 tokens held back for review and recovery" in str(refusal)
    await spend(budget_store, Spend(tokens=80), account(role=role))
    await refused(budget_store, Spend(tokens=1), account(role=role))

    await spend(budget_store, Spend(tokens=5), account(role="recovery"))
    await spend(budget_store, Spend(tokens=5), account(role="judge"))
    await spend(budget_store, Spend(tokens=10), account(role="reviewer"))
    assert (await refused(budget_store, Spend(tokens=1), account(role="reviewer"))).scope == "run"


async def test_reviewers_spend_their_share_first_and_the_run_as_a_whole_is_bounded(
    opened: Opened,
) -> None:
    budget_store = opened(BudgetsSection(run=tokens(100), recovery_share=0.2))
    await spend(budget_store, Spend(tokens=20), account(role="judge"))

    assert (await budget_store.left(account())).run.tokens == 80
    await spend(budget_store, Spend(tokens=10), account(role="judge"))
    assert (await budget_store.left(account())).run.tokens == 70
    await refused(budget_store, Spend(tokens=71))


async def test_nothing_is_held_back_of_a_single_call(opened: Opened) -> None:
    budget_store = opened(BudgetsSection(run=BudgetSettings(calls=1), recovery_share=0.2))

    await budget_store.reserve(account(role="planner"), Spend(calls=1))


# --- figures that cannot be believed


@pytest.mark.parametrize("figure", [-5, -0.5, math.nan, math.inf, -math.inf])
async def test_a_figure_that_cannot_be_believed_is_charged_as_it_was_put_aside(
    opened: Opened, figure: float
) -> None:
    budget_store = opened(BudgetsSection())
    aside = Spend(2, 70, 0.7, 7.0)
    held = await budget_store.reserve(account(), aside)

    await budget_store.settle(held, Spend(-1, -3, figure, figure), use())

    assert (await budget_store.left(account())).day.spent == aside


async def test_nobody_gains_by_putting_less_than_nothing_aside(opened: Opened) -> None:
    budget_store = opened(BudgetsSection(day=tokens(10)))

    await budget_store.reserve(account(), Spend(-1, -1_000, -5.0, -1.0))

    assert (await budget_store.left(account())).day.spent == Spend()
    await refused(budget_store, Spend(tokens=11))


async def test_figures_beyond_any_sense_do_not_break_the_sums(opened: Opened) -> None:
    budget_store = opened(BudgetsSection(day=tokens(10)))

    await refused(budget_store, Spend(tokens=10**400))
    held = await budget_store.reserve(account(), Spend(tokens=5))
    await budget_store.settle(held, Spend(10**400, 10**400, 1e300, 1e300), use())

    await refused(budget_store, Spend(tokens=1))


@pytest.mark.parametrize("price", [math.inf, math.nan])
async def test_an_unknown_price_is_refused_under_a_budget_of_money_only(
    opened: Opened, price: float
) -> None:
    budget_store = opened(BudgetsSection(run=tokens(100)))
    held = await budget_store.reserve(account(), Spend(tokens=5, usd=price))
    assert held.amount == Spend(tokens=5)

    budget_store.limit_run(RUN, Budget(usd=100.0))
    refusal = await refused(budget_store, Spend(tokens=5, usd=price))
    assert (
        str(refusal) == "what the call costs is not known, and the run has a budget in US dollars"
    )
    assert "`models.prices`" in str(refusal.hint)


# --- the day


async def test_a_new_day_begins_at_midnight_utc(opened: Opened, wall: Wall) -> None:
    budget_store = opened(BudgetsSection(day=tokens(10)))
    wall.now = MIDNIGHT - 1
    await spend(budget_store, Spend(tokens=10))
    await refused(budget_store, Spend(tokens=1))

    wall.now = MIDNIGHT

    assert (await budget_store.left(account())).day.tokens == 10
    await budget_store.reserve(account(), Spend(tokens=10))


async def test_a_clock_that_goes_back_neither_begins_a_day_anew_nor_gives_anything_back(
    opened: Opened, wall: Wall
) -> None:
    budget_store = opened(BudgetsSection(day=tokens(10)))
    await spend(budget_store, Spend(tokens=7))

    wall.now = MIDNIGHT - 3 * 86_400
    assert (await budget_store.left(account())).day.tokens == 3
    await spend(budget_store, Spend(tokens=3))
    wall.now = MIDNIGHT + 60
    await refused(budget_store, Spend(tokens=1))

    wall.now = MIDNIGHT + 86_400
    await budget_store.reserve(account(), Spend(tokens=10))


async def test_what_is_in_flight_at_midnight_belongs_to_the_day_before(
    opened: Opened, wall: Wall
) -> None:
    budget_store = opened(BudgetsSection(day=tokens(10)))
    wall.now = MIDNIGHT - 1
    held = await budget_store.reserve(account(), Spend(tokens=10))
    wall.now = MIDNIGHT + 1
    await budget_store.settle(held, Spend(tokens=4), use())

    left = await budget_store.left(account())
    assert (left.day.spent.tokens, left.run.spent.tokens) == (0, 0 + 4)


# --- the history


async def test_the_seconds_of_answered_calls_are_remembered_by_model_and_role(
    opened: Opened,
) -> None:
    budget_store = opened(BudgetsSection())

    async def call(one: ModelUse, role: Role) -> None:
        await budget_store.settle(
            await budget_store.reserve(account(role=role), Spend()), Spend(), one
        )

    await call(use(seconds=1.5), "worker")
    await call(use(seconds=2.5), "worker")
    await call(use(seconds=9.0, outcome="timeout"), "worker")
    await call(use(seconds=math.nan), "worker")
    await call(use(seconds=-1.0), "worker")
    await call(use("acme:two", seconds=4.0), "worker")
    await call(use(seconds=5.0), "planner")

    assert await budget_store.past_seconds("acme:one", "worker") == (1.5, 2.5)
    assert await budget_store.past_seconds("acme:two", "worker") == (4.0,)
    assert await budget_store.past_seconds("acme:one", "planner") == (5.0,)
    assert await budget_store.past_seconds("acme:one", "judge") == ()


async def test_only_the_latest_calls_are_given_out(opened: Opened) -> None:
    budget_store = opened(BudgetsSection())

    async def call(seconds: float) -> None:
        await budget_store.settle(
            await budget_store.reserve(account(), Spend()), Spend(), use(seconds=seconds)
        )

    for number in range(CALL_HISTORY_SIZE + 5):
        await call(float(number))

    past = await budget_store.past_seconds("acme:one", "worker")
    assert len(past) == CALL_HISTORY_SIZE
    assert (past[0], past[-1]) == (5.0, CALL_HISTORY_SIZE + 4.0)


# --- many at once


async def test_calls_at_once_share_a_budget_to_the_last_token(opened: Opened) -> None:
    budget_store = opened(BudgetsSection(day=tokens(100)))
    made, refusals = list[Reservation](), list[BudgetExceeded]()

    async def try_one() -> None:
        try:
            made.append(await budget_store.reserve(account(), Spend(tokens=7)))
        except BudgetExceeded as refusal:
            refusals.append(refusal)

    async with anyio.create_task_group() as group:
        for _ in range(60):
            group.start_soon(try_one)

    assert (len(made), len(refusals)) == (14, 46)
    assert len({held.id for held in made}) == 14


# --- in the journal's file


async def test_what_was_spent_outlives_the_budget_store(tmp_path: Path) -> None:
    budgets = BudgetsSection(run=tokens(100), recovery_share=0.0)
    async with SqliteBudgetStore(tmp_path / "j.db", budgets) as budget_store:
        await spend(budget_store, Spend(tokens=30))
        await budget_store.reserve(account(), Spend(tokens=30))
    async with SqliteBudgetStore(tmp_path / "j.db", budgets) as budget_store:
        assert (await budget_store.left(account())).run.tokens == 40
        assert await budget_store.past_seconds("acme:one", "worker") == (1.0,)


async def test_a_reservation_can_be_settled_by_another_budget_store_of_the_file(
    tmp_path: Path,
) -> None:
    async with (
        SqliteBudgetStore(tmp_path / "j.db") as one,
        SqliteBudgetStore(tmp_path / "j.db") as other,
    ):
        held = await one.reserve(account(step="a"), Spend(tokens=30))
        await other.settle(held, Spend(tokens=10), use())
        await one.settle(held, Spend(tokens=25), use())
        left = await one.left(account(step="a"))

    assert (left.run.spent.tokens, left.step.spent.tokens) == (10, 10)


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Let nobody write the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as lock:
        lock.execute("BEGIN IMMEDIATE")
        yield
        lock.execute("ROLLBACK")


async def test_who_is_cancelled_while_reserving_has_put_nothing_aside(tmp_path: Path) -> None:
    async with SqliteBudgetStore(tmp_path / "j.db") as budget_store:
        with locked(tmp_path / "j.db"):
            async with anyio.create_task_group() as group:
                group.start_soon(budget_store.reserve, account(), Spend(tokens=30))
                await wait_all_tasks_blocked()
                group.cancel_scope.cancel()
        held = await budget_store.reserve(account(), Spend(tokens=1))
        with anyio.fail_after(20):
            while (await budget_store.left(account())).day.spent != Spend(tokens=1):
                await anyio.lowlevel.checkpoint()

    assert held.id == 2


async def test_settling_is_done_even_where_who_asked_was_cancelled(tmp_path: Path) -> None:
    async with SqliteBudgetStore(tmp_path / "j.db") as budget_store:
        held = await budget_store.reserve(account(), Spend(tokens=30))
        with anyio.CancelScope() as scope:
            scope.cancel()
            await budget_store.settle(held, Spend(tokens=10), use())

        assert (await budget_store.left(account())).day.spent.tokens == 10


def commits(log: Path) -> int:
    """Return how many transactions a write-ahead log holds; see the file format, section 4.1."""
    content = log.read_bytes()
    frame, salts = 24 + int.from_bytes(content[8:12], "big"), content[16:24]
    frames = [content[at : at + 24] for at in range(32, len(content), frame)]
    return sum(head[4:8] != bytes(4) for head in frames if head[8:16] == salts)


async def test_calls_that_wait_at_once_share_a_transaction(tmp_path: Path) -> None:
    path, log = tmp_path / "j.db", tmp_path / "j.db-wal"
    async with SqliteBudgetStore(path) as budget_store:
        await budget_store.reserve(account(), Spend(tokens=1))
        before = commits(log)
        async with anyio.create_task_group() as group:
            with locked(path):
                for _ in range(200):
                    group.start_soon(budget_store.reserve, account(), Spend(tokens=3))
                await wait_all_tasks_blocked()
        spent = (await budget_store.left(account())).day.spent
        after = commits(log)

    assert spent.tokens == 601
    assert after - before <= 2


async def test_a_closed_budget_store_says_so(tmp_path: Path) -> None:
    budget_store = SqliteBudgetStore(tmp_path / "j.db")
    await budget_store.aclose()
    await budget_store.aclose()

    with pytest.raises(JournalError, match="the budget store is closed"):
        await budget_store.reserve(account(), Spend())
    with pytest.raises(JournalError, match="the budget store is closed"):
        await budget_store.left(account())


async def test_a_file_that_cannot_be_written_is_told_and_nothing_is_put_aside(
    tmp_path: Path,
) -> None:
    async with SqliteBudgetStore(tmp_path / "j.db", patience=0.05) as budget_store:
        with (
            locked(tmp_path / "j.db"),
            pytest.raises(JournalError, match="keeps the journal locked"),
        ):
            await budget_store.reserve(account(), Spend(tokens=3))

        await budget_store.reserve(account(), Spend(tokens=4))
        assert (await budget_store.left(account())).day.spent.tokens == 4


RESERVE = """
import asyncio, sys
from wavewright.config.sections import BudgetSettings, BudgetsSection
from wavewright.executor.sqlite.journal import SqliteBudgetStore
from wavewright.planner.ports.budgets import BudgetScope, BudgetExceeded, Spend

path, tokens, settles = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "settle"

async def main():
    async with SqliteBudgetStore(path, BudgetsSection(day=BudgetSettings(tokens=tokens))) as counters:
        print("ready", flush=True)
        sys.stdin.readline()
        count = 0
        try:
            while True:
                await counters.reserve(BudgetScope(run="r", job="j"), Spend(tokens=1))
                count += 1
                if not settles:
                    print("reserved", flush=True)
        except BudgetExceeded:
            print(count, flush=True)

asyncio.run(main())
"""


def start(path: Path, budget: int, mode: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RESERVE, str(path), str(budget), mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def let_go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_processes_that_reserve_at_once_never_share_a_token(tmp_path: Path) -> None:
    with (
        start(tmp_path / "j.db", 150, "settle") as one,
        start(tmp_path / "j.db", 150, "settle") as other,
    ):
        for process in (one, other):
            assert read_line(process) == "ready"
        for process in (one, other):
            let_go(process)
        counts = [int(read_line(process)) for process in (one, other)]

    assert sum(counts) == 150


async def test_what_a_killed_process_had_put_aside_counts_as_spent(tmp_path: Path) -> None:
    with start(tmp_path / "j.db", 10_000, "hold") as process:
        assert read_line(process) == "ready"
        let_go(process)
        told = sum(read_line(process) == "reserved" for _ in range(20))
        process.kill()
        told += (process.stdout.read() if process.stdout else "").count("reserved")

    async with SqliteBudgetStore(
        tmp_path / "j.db", BudgetsSection(day=tokens(10_000))
    ) as budget_store:
        spent = (await budget_store.left(account(RunId("r"), job="j"))).run.spent.tokens
    # One may be on the disk that the process did not come to tell of.
    assert told <= spent <= told + 1
    assert told >= 20


async def test_a_refusal_shows_figures_however_small() -> None:
    budget_store = MemoryBudgetStore(BudgetsSection.model_validate({"day": {"usd": 0.00004}}))

    with pytest.raises(BudgetExceeded) as caught:
        await budget_store.reserve(BudgetScope(), Spend(usd=0.00005))

    assert (
        str(caught.value)
        == "the call may take $0.00005, and the day's budget of $0.00004 has $0.00004 left"
    )
