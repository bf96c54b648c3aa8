"""A purse in a database: no token is spent twice, and none is put aside twice, whatever becomes of
connections.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys

import anyio
import pytest

from tests.executor.postgres.journal_helpers import breaking_connections, each_lost_in_turn, until
from tests.support.lossy_proxy import LossyLine
from tests.support.postgres import OwnServer, PostgresServer
from wavewright.config.sections import BudgetSettings, BudgetsSection
from wavewright.executor.postgres.journal import PostgresBudgetStore
from wavewright.executor.store.errors import JournalError, JournalNotWritten
from wavewright.planner.ports.budgets import BudgetScope, Reservation, Spend
from wavewright.planner.ports.model_port import ModelUse
from wavewright.planner.types import RunId, StepId

pytestmark = pytest.mark.anyio

WORK = BudgetScope(run=RunId("r"), job="j", step=StepId("s"))
USE = ModelUse("worker", "n", "acme:one", "answered", seconds=1.0)


async def spent(budget_store: PostgresBudgetStore) -> int:
    return (await budget_store.left(WORK)).day.spent.tokens


async def test_what_was_spent_outlives_the_budget_store(postgres: PostgresServer) -> None:
    url, budgets = (
        postgres.database(),
        BudgetsSection(run=BudgetSettings(tokens=100), recovery_share=0.0),
    )
    async with PostgresBudgetStore(url, budgets) as budget_store:
        await budget_store.settle(
            await budget_store.reserve(WORK, Spend(tokens=30)), Spend(tokens=30), USE
        )
        await budget_store.reserve(WORK, Spend(tokens=30))
    async with PostgresBudgetStore(url, budgets) as budget_store:
        assert (await budget_store.left(WORK)).run.tokens == 40
        assert await budget_store.past_seconds("acme:one", "worker") == (1.0,)


async def test_a_reservation_can_be_settled_by_another_budget_store_of_the_database(
    postgres: PostgresServer,
) -> None:
    url = postgres.database()
    async with PostgresBudgetStore(url) as one, PostgresBudgetStore(url) as other:
        held = await one.reserve(WORK, Spend(tokens=30))
        await other.settle(held, Spend(tokens=10), USE)
        await one.settle(held, Spend(tokens=25), USE)

        assert await spent(one) == 10


async def test_a_reservation_whose_answer_was_lost_is_made_once(postgres: PostgresServer) -> None:
    with LossyLine(postgres.database()) as line:
        async with PostgresBudgetStore(line.url) as budget_store:
            await budget_store.reserve(WORK, Spend(tokens=1))
            reservations = list[Reservation]()
            async for answers in each_lost_in_turn(line):
                held = asyncio.ensure_future(budget_store.reserve(WORK, Spend(tokens=10)))
                await answers.lose(held)
                reservations.append(await held)
                assert await spent(budget_store) == 1 + 10 * len(reservations)
            entries = postgres.fetch("SELECT id FROM wavewright.model_call ORDER BY id", line.url)

    assert {number for (number,) in entries[1:]} == {reservation.id for reservation in reservations}
    assert len(reservations) > 5


async def test_connections_that_break_all_the_time_lose_and_repeat_nothing(
    postgres: PostgresServer,
) -> None:
    url = postgres.database()
    async with (
        PostgresBudgetStore(url) as budget_store,
        breaking_connections(postgres, url) as note_progress,
    ):
        for _ in range(25):
            held = await budget_store.reserve(WORK, Spend(tokens=5))
            note_progress()
            await budget_store.settle(held, Spend(tokens=3), USE)
            note_progress()
    async with PostgresBudgetStore(url) as budget_store:
        assert await spent(budget_store) == 75


async def test_calls_that_wait_at_once_share_a_transaction(postgres: PostgresServer) -> None:
    url = postgres.database()
    async with PostgresBudgetStore(url) as budget_store:
        await budget_store.reserve(WORK, Spend(tokens=3))
        async with anyio.create_task_group() as group:
            for _ in range(200):
                group.start_soon(budget_store.reserve, WORK, Spend(tokens=3))
        (turns,) = postgres.fetch("SELECT transaction_id FROM wavewright.session", url)

        assert await spent(budget_store) == 603
    assert turns[0] in range(2, 20)


RESERVE = """
import asyncio, sys
from wavewright.config.sections import BudgetSettings, BudgetsSection
from wavewright.executor.postgres.journal import PostgresBudgetStore
from wavewright.planner.ports.budgets import BudgetScope, BudgetExceeded, Spend

async def main():
    async with PostgresBudgetStore(sys.argv[1], BudgetsSection(day=BudgetSettings(tokens=150))) as purse:
        print("ready", flush=True)
        sys.stdin.readline()
        count = 0
        try:
            while True:
                await purse.reserve(BudgetScope(run="r", job="j"), Spend(tokens=1))
                count += 1
        except BudgetExceeded:
            print(count, flush=True)

asyncio.run(main())
"""


def test_processes_that_reserve_at_once_never_share_a_token(postgres: PostgresServer) -> None:
    url = postgres.database()
    command = [sys.executable, "-c", RESERVE, url]

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    with start() as one, start() as other:
        for process in (one, other):
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        counts = [0, 0]
        for process in (one, other):
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        for place, process in enumerate((one, other)):
            assert process.stdout is not None
            counts[place] = int(process.stdout.readline())

    assert sum(counts) == 150


async def test_a_database_that_stays_away_is_told_and_nothing_is_put_aside(
    own_postgres: OwnServer,
) -> None:
    async with PostgresBudgetStore(own_postgres.database(), patience=0.1) as budget_store:
        await budget_store.reserve(WORK, Spend(tokens=1))
        own_postgres.stop()
        with pytest.raises(JournalNotWritten, match="the database cannot be reached"):
            await budget_store.reserve(WORK, Spend(tokens=3))
        own_postgres.start()
        await budget_store.reserve(WORK, Spend(tokens=4))

        assert await spent(budget_store) == 5


async def test_a_closed_budget_store_says_so(postgres: PostgresServer) -> None:
    budget_store = PostgresBudgetStore(postgres.database())
    await budget_store.aclose()
    await budget_store.aclose()

    with pytest.raises(JournalError, match="the budget store is closed"):
        await budget_store.reserve(WORK, Spend())
    with pytest.raises(JournalError, match="the budget store is closed"):
        await budget_store.left(WORK)


async def test_a_commit_that_never_arrives_holds_nobody_up_for_long(
    postgres: PostgresServer,
) -> None:
    with LossyLine(postgres.database()) as line:
        async with PostgresBudgetStore(line.url) as budget_store:
            await budget_store.reserve(WORK, Spend(tokens=1))
            # The last of what one reservation asks, so that the server is left in the middle of it.
            line.hold("requests", after=await requests_of_a_reservation(budget_store, line) - 1)
            held = asyncio.ensure_future(budget_store.reserve(WORK, Spend(tokens=10)))
            await until(line.kept_back.is_set)
            line.cut_clients()
            await held
            line.let_through()

            assert await spent(budget_store) == 21


async def requests_of_a_reservation(budget_store: PostgresBudgetStore, line: LossyLine) -> int:
    """Make a reservation and return how many pieces it sends."""
    line.hold("requests", after=1000)
    await budget_store.reserve(WORK, Spend(tokens=10))
    return 1000 - line.pieces_left("requests")
