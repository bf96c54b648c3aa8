"""Whatever is put aside and settled in whatever order: the sums are exact, and no budget is
overspent.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.crash.run_size import volume
from tests.support.postgres import PostgresServer
from wavewright.config.sections import BudgetSettings, BudgetsSection
from wavewright.executor.budgets.limits import FINISHING_ROLES, BudgetLimits, Reserve, Settle
from wavewright.executor.budgets.memory import MemoryBudgetStore
from wavewright.executor.budgets.tables import BudgetTables
from wavewright.executor.postgres.journal import PostgresBudgetDatabase
from wavewright.executor.sqlite.journal import SqliteBudgetDatabase
from wavewright.executor.store.writer import run_inline
from wavewright.planner.language.plan import Budget
from wavewright.planner.ports.budgets import (
    Allowance,
    BudgetExceeded,
    BudgetScope,
    Reservation,
    Spend,
)
from wavewright.planner.ports.model_port import ModelUse, Role
from wavewright.planner.types import RunId, StepId

T = TypeVar("T")

DAY = 86_400.0
START = 20_000 * DAY
RUN_TOKENS, HELD_BACK, JOB_TOKENS, DAY_TOKENS, STEP_TOKENS, GOAL_CALLS = 100, 20, 150, 200, 60, 8

BUDGETS = BudgetsSection(
    run=BudgetSettings(tokens=RUN_TOKENS),
    job=BudgetSettings(tokens=JOB_TOKENS),
    day=BudgetSettings(tokens=DAY_TOKENS),
    recovery_share=HELD_BACK / RUN_TOKENS,
)
STEP = Budget(tokens=STEP_TOKENS)
GOAL = Budget(calls=GOAL_CALLS)
USE = ModelUse("worker", "n", "m", "answered", seconds=1.0)

roles: st.SearchStrategy[Role] = st.sampled_from(["planner", "worker", "judge", "recovery"])
accounts = st.builds(
    BudgetScope,
    run=st.sampled_from([RunId("r1"), RunId("r2"), None]),
    job=st.sampled_from(["j1", "j2", None]),
    step=st.sampled_from([StepId("s1"), StepId("s2"), None]),
    role=roles,
    step_budget=st.sampled_from([STEP, None]),
)
figures = st.integers(0, 45)
lies = st.integers(max_value=-1)


def now(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine gives that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("it waits")


class ExpectedReservation:
    """One call, as it should be counted."""

    def __init__(self, account: BudgetScope, day: int, asked: int) -> None:
        self.account = account
        self.day = day
        self.asked = asked
        self.tokens = asked
        self.calls = 1
        self.is_settled = False

    @property
    def beyond(self) -> int:
        """What the call took more than was put aside for it."""
        return max(0, self.tokens - self.asked)


class BudgetStoreMachine(RuleBasedStateMachine):
    """Compare a purse with a plain list of calls."""

    held = Bundle("held")

    def __init__(self) -> None:
        super().__init__()
        self.time = START
        self.latest = 0
        self.entries = dict[int, ExpectedReservation]()

    # What a subclass brings

    def reserve_now(self, account: BudgetScope, amount: Spend) -> Reservation | BudgetExceeded:
        raise NotImplementedError

    def settle_now(self, reservation: Reservation, spent: Spend) -> None:
        raise NotImplementedError

    def left_now(self, account: BudgetScope) -> Allowance:
        raise NotImplementedError

    # What may happen

    @rule(target=held, account=accounts, tokens=figures)
    def reserve(self, account: BudgetScope, tokens: int) -> Reservation | None:
        before = self.left_now(account)
        most = [left.tokens for left in (before.run, before.job, before.day, before.step)]
        fits = tokens <= min((left for left in most if left is not None), default=10**9)
        has_calls = before.run.calls is None or before.run.calls >= 1
        answer = self.reserve_now(account, Spend(calls=1, tokens=tokens))

        assert isinstance(answer, Reservation) == (fits and has_calls)
        if isinstance(answer, BudgetExceeded):
            assert self.left_now(account) == before
            return None
        self.latest = max(self.latest, int(self.time // DAY))
        assert answer.id not in self.entries
        self.entries[answer.id] = ExpectedReservation(account, self.latest, tokens)
        return answer

    @rule(reservation=held, tokens=figures)
    def settle(self, reservation: Reservation | None, tokens: int) -> None:
        if reservation is None:
            return
        self.settle_now(reservation, Spend(calls=1, tokens=tokens))
        entry = self.entries[reservation.id]
        if not entry.is_settled:
            entry.tokens, entry.is_settled = tokens, True

    @rule(reservation=held, tokens=lies)
    def settle_with_a_lie(self, reservation: Reservation | None, tokens: int) -> None:
        if reservation is None:
            return
        self.settle_now(reservation, Spend(calls=1, tokens=tokens, usd=math.nan))
        self.entries[reservation.id].is_settled = True

    @rule(account=accounts, tokens=st.integers(DAY_TOKENS + 1, 10**30))
    def ask_for_far_too_much(self, account: BudgetScope, tokens: int) -> None:
        assert isinstance(self.reserve_now(account, Spend(tokens=tokens)), BudgetExceeded)

    @rule(days=st.integers(-3, 2), seconds=st.floats(0, DAY - 1))
    def set_the_clock(self, days: int, seconds: float) -> None:
        self.time = (self.time // DAY + days) * DAY + seconds

    @precondition(lambda self: self.entries)
    @rule()
    def settle_all(self) -> None:
        for number, entry in self.entries.items():
            self.settle_now(
                Reservation(number, entry.account, Spend()), Spend(tokens=entry.tokens, calls=1)
            )
            entry.is_settled = True

    # What always holds

    @invariant()
    def sums_are_exact(self) -> None:
        today = max(self.latest, int(self.time // DAY))
        for run in ("r1", "r2"):
            entries = [one for one in self.entries.values() if one.account.run == run]
            left = self.left_now(BudgetScope(run=RunId(run)))
            assert (left.run.spent.tokens, left.run.spent.calls) == (tokens(entries), len(entries))
            for step in ("s1", "s2"):
                of_step = [one for one in entries if one.account.step == step]
                account = BudgetScope(run=RunId(run), step=StepId(step), step_budget=STEP)
                left = self.left_now(account)
                assert left.step.spent.tokens == tokens(of_step)
                assert left.step.tokens == max(0, STEP_TOKENS - tokens(of_step))
        for job in ("j1", "j2"):
            entries = [one for one in self.entries.values() if one.account.job == job]
            left = self.left_now(BudgetScope(job=job))
            assert left.job.spent.tokens == tokens(entries)
            assert left.job.tokens == max(0, JOB_TOKENS - tokens(entries))
        entries = [one for one in self.entries.values() if one.day == today]
        assert self.left_now(BudgetScope()).day.spent.tokens == tokens(entries)

    @invariant()
    def nothing_is_overspent_but_by_what_single_calls_took_beyond_what_was_put_aside(self) -> None:
        for run in ("r1", "r2"):
            entries = [one for one in self.entries.values() if one.account.run == run]
            working = [one for one in entries if one.account.role not in FINISHING_ROLES]
            assert tokens(entries) <= RUN_TOKENS + beyond(entries)
            assert tokens(working) <= RUN_TOKENS - HELD_BACK + beyond(working)
        for job in ("j1", "j2"):
            entries = [one for one in self.entries.values() if one.account.job == job]
            assert tokens(entries) <= JOB_TOKENS + beyond(entries)
        for day in {one.day for one in self.entries.values()}:
            entries = [one for one in self.entries.values() if one.day == day]
            assert tokens(entries) <= DAY_TOKENS + beyond(entries)


def tokens(entries: list[ExpectedReservation]) -> int:
    return sum(entry.tokens for entry in entries)


def beyond(entries: list[ExpectedReservation]) -> int:
    return sum(entry.beyond for entry in entries)


class MemoryBudgetStoreMachine(BudgetStoreMachine):
    def __init__(self) -> None:
        super().__init__()
        self.budget_store = MemoryBudgetStore(BUDGETS, clock=lambda: self.time)
        self.budget_store.limit_run(RunId("r1"), GOAL)

    def reserve_now(self, account: BudgetScope, amount: Spend) -> Reservation | BudgetExceeded:
        try:
            return now(self.budget_store.reserve(account, amount))
        except BudgetExceeded as refusal:
            return refusal

    def settle_now(self, reservation: Reservation, spent: Spend) -> None:
        now(self.budget_store.settle(reservation, spent, USE))

    def left_now(self, account: BudgetScope) -> Allowance:
        return now(self.budget_store.left(account))


class SqliteBudgetStoreMachine(BudgetStoreMachine):
    """The file is closed and opened again at any time, and two stores take turns."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.budgets = BudgetLimits(BUDGETS)
        self.budgets.limit_run("r1", GOAL)
        self.stores = [self.opened(), self.opened()]
        self.turn = 0

    def opened(self) -> BudgetTables:
        database = SqliteBudgetDatabase(Path(self.folder.name) / "j.db")
        return BudgetTables(database, self.budgets, clock=lambda: self.time)

    @property
    def store(self) -> BudgetTables:
        """The one whose turn it is."""
        self.turn += 1
        return self.stores[self.turn % 2]

    @rule()
    def open_again(self) -> None:
        run_inline(self.store.database.close())
        self.stores[self.turn % 2] = self.opened()

    def reserve_now(self, account: BudgetScope, amount: Spend) -> Reservation | BudgetExceeded:
        (answer,) = run_inline(self.store.transact([Reserve(account, amount)]))
        assert answer is not None
        return answer

    def settle_now(self, reservation: Reservation, spent: Spend) -> None:
        run_inline(self.store.transact([Settle(reservation.id, spent, USE)]))

    def left_now(self, account: BudgetScope) -> Allowance:
        return run_inline(self.store.left(account))

    def teardown(self) -> None:
        for store in self.stores:
            run_inline(store.database.close())
        self.folder.cleanup()


class PostgresBudgetStoreMachine(BudgetStoreMachine):
    """As over a file, with a database that every example finds empty; a connection may break at any
    time, too.
    """

    server: PostgresServer
    url: str

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.budgets = BudgetLimits(BUDGETS)
        self.budgets.limit_run("r1", GOAL)
        self.stores = [self.opened(), self.opened()]
        self.turn = 0
        self.left_now(BudgetScope())
        self.server.run("TRUNCATE wavewright.model_call, wavewright.budget_total", self.url)

    def opened(self) -> BudgetTables:
        return BudgetTables(PostgresBudgetDatabase(self.url), self.budgets, clock=lambda: self.time)

    @property
    def store(self) -> BudgetTables:
        """The one whose turn it is."""
        self.turn += 1
        return self.stores[self.turn % 2]

    @rule()
    def open_again(self) -> None:
        self.loop.run(self.store.database.close())
        self.stores[self.turn % 2] = self.opened()

    @rule()
    def break_connections(self) -> None:
        self.server.kill_connections(self.url)

    def reserve_now(self, account: BudgetScope, amount: Spend) -> Reservation | BudgetExceeded:
        (answer,) = self.loop.run(self.store.transact([Reserve(account, amount)]))
        assert answer is not None
        return answer

    def settle_now(self, reservation: Reservation, spent: Spend) -> None:
        self.loop.run(self.store.transact([Settle(reservation.id, spent, USE)]))

    def left_now(self, account: BudgetScope) -> Allowance:
        return self.loop.run(self.store.left(account))

    def teardown(self) -> None:
        for store in self.stores:
            self.loop.run(store.database.close())
        self.loop.close()


@pytest.mark.timeout(120)
def test_a_budget_store_in_a_database_keeps_the_same_laws(postgres: PostgresServer) -> None:
    class Machine(PostgresBudgetStoreMachine):
        server = postgres
        url = postgres.database()

    run_state_machine_as_test(Machine, settings=settings(max_examples=4, stateful_step_count=15))


TestMemoryBudgetStore = pytest.mark.timeout(120)(MemoryBudgetStoreMachine.TestCase)
TestMemoryBudgetStore.settings = settings(max_examples=volume(20, 60), stateful_step_count=40)
TestSqliteBudgetStore = pytest.mark.timeout(120)(SqliteBudgetStoreMachine.TestCase)
TestSqliteBudgetStore.settings = settings(max_examples=12, stateful_step_count=30)
