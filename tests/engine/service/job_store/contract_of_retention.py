"""What every store promises of removing runs: whole groups that have ended, and nothing that is
needed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Literal

import pytest

from tests.engine.service.job_store.job_examples import (
    DaemonStores,
    StoresTestCase,
    claimed,
    project_state,
    request_of,
    row_of,
)
from tests.executor.event_examples import run_started, step_finished
from wavewright.engine.service.job_store.message_retention import RUN_OF_OPEN_JOB
from wavewright.engine.service.job_store.records import JobChange
from wavewright.engine.service.job_store.stores import Stores
from wavewright.executor.events.types import Event, Noted, RetryOf, RunFinished
from wavewright.executor.store.retention import RunRemoval, find_groups, remove_groups
from wavewright.planner.ports.budgets import BudgetScope, Spend
from wavewright.planner.types import RunId, StepKey

A, B, C = (
    RunId("20261101-000000-aaaaaa"),
    RunId("20261102-000000-bbbbbb"),
    RunId("20261103-000000-cccccc"),
)
Status = Literal["achieved", "not_achieved", "failed", "interrupted"]


async def add(
    stores: Stores,
    run: RunId,
    *between: Event,
    ended: float = 9.0,
    status: Status = "achieved",
    retry: RunId | None = None,
    is_open: bool = False,
) -> None:
    """Journal a run that has ended, and give it up unless it is to stay open."""
    started = run_started(run)
    if retry is not None:
        started = replace(started, retry=RetryOf(retry, retry))
    step = step_finished("a", key=f"key of {run}", output="out")
    await stores.journal.append(run, [started, step, *between, RunFinished(ended, status)])
    if not is_open:
        await stores.journal.close_run(run)


def names(run: RunId) -> Noted:
    return Noted(3.0, "target_started", {"target": "\0 one", "run": run})


async def removed(
    stores: Stores, before: float = 10.0, spared: Collection[RunId] = ()
) -> list[RunId]:
    removal = RunRemoval(stores.journal, RUN_OF_OPEN_JOB)
    return [run async for one in remove_groups(removal, before, spared) for run in one.runs]


async def left(stores: Stores) -> list[RunId]:
    return sorted(row.run for row in await stores.journal.list_runs())


class RetentionContract(StoresTestCase):
    """Removing runs."""

    @pytest.mark.anyio
    async def test_a_run_that_ended_before_is_removed_with_its_events_and_the_others_stay(
        self, one: Stores
    ) -> None:
        await add(one, A)
        await add(one, B, ended=11.0)

        (group,) = [
            group async for group in remove_groups(RunRemoval(one.journal, RUN_OF_OPEN_JOB), 10.0)
        ]

        assert group.runs == (A,)
        assert group.bytes > 100
        assert await left(one) == [B]
        assert await one.journal.load(A) == []
        assert len(await one.journal.load(B)) == 3

    @pytest.mark.anyio
    async def test_outputs_of_a_removed_run_are_not_found_and_those_of_others_are(
        self, one: Stores
    ) -> None:
        await add(one, A, ended=11.0)
        await add(one, B)

        await removed(one)
        await add(one, C)

        keys = [StepKey(f"key of {run}") for run in (A, B, C)]
        assert [(await one.journal.find_output(key)) is not None for key in keys] == [
            True,
            False,
            True,
        ]

    @pytest.mark.anyio
    async def test_a_run_that_has_not_ended_is_kept(self, one: Stores) -> None:
        await add(one, A, status="interrupted")
        await one.journal.append(B, [run_started(B)])
        await one.journal.close_run(B)
        await add(one, C)
        await one.journal.append(C, [step_finished("more")])
        await one.journal.close_run(C)

        assert await removed(one) == []
        assert await left(one) == [A, B, C]

    @pytest.mark.anyio
    async def test_a_run_that_somebody_has_open_is_kept_until_that_owner_is_gone(
        self, one: Stores, other: Stores, daemons: DaemonStores
    ) -> None:
        await add(other, A, is_open=True)
        while_open = await removed(one)

        await daemons.kill(other)

        assert while_open == []
        assert await removed(one) == [A]

    @pytest.mark.anyio
    async def test_the_run_of_a_job_is_kept_until_the_job_has_ended(self, one: Stores) -> None:
        await one.jobs.receive(request_of(1), project_state)
        job = await claimed(one, 1)
        await add(one, job.run, is_open=True)
        await one.jobs.change(JobChange(job.job, "validating"), project_state)

        assert await removed(one) == []
        assert await left(one) == [job.run]

    @pytest.mark.anyio
    async def test_the_run_of_a_job_that_has_ended_is_removed_and_its_row_stays(
        self, one: Stores
    ) -> None:
        await one.jobs.receive(request_of(1), project_state)
        job = await claimed(one, 1)
        await add(one, job.run, is_open=True)
        await one.jobs.change(JobChange(job.job, "completed"), project_state)

        assert await removed(one) == [job.run]
        assert (await row_of(one, 1)).state == "completed"

    @pytest.mark.anyio
    @pytest.mark.parametrize("kept", [A, B, C])
    async def test_runs_that_name_each_other_go_together_or_stay_together(
        self, one: Stores, kept: RunId
    ) -> None:
        ends = {run: 11.0 if run == kept else 9.0 for run in (A, B, C)}
        await add(one, A, ended=ends[A])
        await add(one, B, names(A), ended=ends[B])
        await add(one, C, ended=ends[C], retry=A)

        too_early = await removed(one)

        assert too_early == []
        assert await removed(one, before=12.0) == [A, B, C]

    @pytest.mark.anyio
    async def test_a_run_is_kept_that_is_repeated_after_it_was_found(self, one: Stores) -> None:
        await add(one, A)
        removal = RunRemoval(one.journal, RUN_OF_OPEN_JOB)
        ((group,), read_up_to) = await find_groups(removal, 10.0)
        await add(one, B, ended=11.0, retry=A)

        assert await removal.remove(group, 10.0, read_up_to) is None
        assert await left(one) == [A, B]

    @pytest.mark.anyio
    async def test_a_run_is_kept_that_goes_on_after_it_was_found(self, one: Stores) -> None:
        await add(one, A)
        removal = RunRemoval(one.journal, RUN_OF_OPEN_JOB)
        ((group,), read_up_to) = await find_groups(removal, 10.0)
        await one.journal.open_run(A)

        assert await removal.remove(group, 10.0, read_up_to) is None
        assert len(await one.journal.load(A)) == 3

    @pytest.mark.anyio
    async def test_runs_that_are_spared_are_kept_with_their_group(self, one: Stores) -> None:
        await add(one, A)
        await add(one, B, retry=A)
        await add(one, C)

        assert await removed(one, spared={B}) == [C]

    @pytest.mark.anyio
    async def test_what_a_removed_run_has_spent_stays_spent(self, one: Stores) -> None:
        await add(one, A)
        await one.budget_store.reserve(BudgetScope(run=A), Spend(tokens=7))

        await removed(one)

        assert (await one.budget_store.left(BudgetScope(run=B))).day.spent.tokens == 7
