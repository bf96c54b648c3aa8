"""What every job store promises of attempts: they are counted, come to an end, and leave no job to
nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import anyio
import pytest

from tests.engine.service.job_store.job_examples import (
    FEW_ATTEMPTS,
    DaemonStores,
    StoresTestCase,
    claimed,
    job_id,
    outgoing,
    project_state,
    published_states,
    received,
    request_of,
    row_of,
    send_package,
    verdict,
)
from tests.executor.event_examples import run_started, step_finished
from wavewright.engine.service.job_store import rules
from wavewright.engine.service.job_store.outbox_writes import OutboxWrites
from wavewright.engine.service.job_store.records import JobChange, JobRow, OutgoingMessage
from wavewright.engine.service.job_store.rules import (
    MAX_FAILURES,
    CrashSuspects,
    has_advanced,
)
from wavewright.engine.service.job_store.stores import Stores
from wavewright.executor.events.types import Event, Noted, StepStarted, StepStatus
from wavewright.executor.store import run_queries
from wavewright.executor.store.errors import JournalError, JournalNotWritten, RunLost
from wavewright.planner.types import StepId, StepKey


@pytest.mark.anyio
class AttemptsContract(StoresTestCase):
    """Part of `JobStoreContract`."""

    async def test_a_job_whose_daemon_died_is_claimed_by_another_with_its_next_attempt(
        self, one: Stores, other: Stores, daemons: DaemonStores
    ) -> None:
        await one.jobs.receive(request_of(1))
        job = await claimed(one)
        await one.journal.append(job.run, [run_started(job.run)])

        await daemons.kill(one)
        taken = await claimed(other, 1)

        assert (taken.state, taken.attempts, taken.run) == ("running", 2, job.run)
        assert await other.journal.load(job.run) == [run_started(job.run)]

    async def test_a_late_owner_writes_nothing_more(
        self, one: Stores, other: Stores, daemons: DaemonStores
    ) -> None:
        await one.jobs.receive(request_of(1))
        job = await claimed(one)
        await daemons.kill(one)
        await claimed(other, 1)

        with pytest.raises(RunLost):
            await one.jobs.change(JobChange(job.job, "completed"), project_state)
        with pytest.raises(RunLost):
            await one.journal.append(
                job.run, [step_finished("late")], OutboxWrites(messages=(outgoing(1),))
            )

        assert (await row_of(other, 1)).state == "running"
        assert await other.journal.load(job.run) == []
        assert await published_states(other) == []

    async def test_jobs_that_were_there_each_time_a_daemon_died_keep_no_other_one_waiting(
        self, daemons: DaemonStores, other: Stores
    ) -> None:
        for number in (1, 2):
            await other.jobs.receive(request_of(number))
        for _ in range(3):
            stores = await daemons.open()
            for number in (1, 2):
                await claimed(stores, number)
            await daemons.kill(stores)

        first = await claimed(other, 1)
        second = await claimed(other, 2)
        advanced = OutboxWrites(change=JobChange(first.job, "running", has_advanced=True))
        await other.journal.append(first.run, [run_started(first.run)], advanced)

        assert ((await row_of(other, 1)).attempts, second.attempts) == (1, 4)

    async def test_a_job_that_ends_every_daemon_is_dead_after_its_last_attempt(
        self, daemons: DaemonStores, other: Stores
    ) -> None:
        await other.jobs.receive(request_of(1))
        for attempt in range(FEW_ATTEMPTS):
            stores = await daemons.open()
            assert (await claimed(stores, 1)).attempts == attempt + 1
            await daemons.kill(stores)
        await other.jobs.receive(request_of(2))

        await claimed(other, 2)

        row = await row_of(other, 1)
        assert (row.state, row.attempts, row.owner) == ("dead", FEW_ATTEMPTS, None)
        assert row.reason == "started 5 times, and never finished"
        found = await other.journal.read(partial(run_queries.find_row, run=row.run))
        assert found is not None
        assert found[0].given_up == row.reason
        assert await published_states(other) == ["dead"]

    async def test_a_call_that_ends_its_process_is_not_cleared_by_its_siblings_nor_by_busy_neighbours(
        self, daemons: DaemonStores, other: Stores
    ) -> None:
        for number in (1, 2):
            await other.jobs.receive(request_of(number))
        for attempt in range(FEW_ATTEMPTS):
            stores = await daemons.open()
            sibling = f"sibling {attempt}"
            await attempt_cut_off(stores, 1, begun=["kill", sibling], ended=[sibling])
            if attempt < 2:
                await attempt_cut_off(stores, 2, begun=["busy"])
            await daemons.kill(stores)

        await attempt_cut_off(other, 2, begun=["busy"], ended=["busy"])

        poison, busy = await row_of(other, 1), await row_of(other, 2)
        assert (poison.state, poison.attempts) == ("dead", FEW_ATTEMPTS)
        assert (busy.state, busy.attempts) == ("running", 1)

    async def test_steps_that_were_only_cancelled_are_no_progress(
        self, daemons: DaemonStores, other: Stores
    ) -> None:
        await other.jobs.receive(request_of(1))
        for _ in range(FEW_ATTEMPTS):
            stores = await daemons.open()
            await attempt_cut_off(stores, 1, begun=["a", "b"], ended=["a", "b"], status="cancelled")
            await daemons.kill(stores)

        assert await other.jobs.claim() is None
        assert (await row_of(other, 1)).state == "dead"

    async def test_a_job_whose_owner_is_killed_at_another_call_each_time_is_never_dead(
        self, daemons: DaemonStores, other: Stores
    ) -> None:
        await other.jobs.receive(request_of(1))
        for attempt in range(2 * FEW_ATTEMPTS):
            stores = await daemons.open()
            await attempt_cut_off(stores, 1, begun=[f"call {attempt}"])
            await daemons.kill(stores)

        assert (await claimed(other, 1)).attempts < FEW_ATTEMPTS

    async def test_a_job_that_could_not_even_be_given_up_is_begun_again_by_its_own_daemon(
        self, one: Stores, other: Stores, daemons: DaemonStores
    ) -> None:
        for number in (1, 2):
            await one.jobs.receive(request_of(number))
        begun = jobs = [await claimed(one, number) for number in (1, 2)]

        for _ in range(2):
            await daemons.forbid_writes()
            for job in jobs:
                with pytest.raises(JournalError):
                    await one.journal.append(job.run, [step_finished("a")])
                with pytest.raises(JournalError):
                    await one.jobs.change(JobChange(job.job, "queued", "the store"))
            await daemons.allow_writes()
            # Until they are let go, somebody may be working on them.
            assert await _claimed_at_once(one) == []
            await daemons.forbid_writes()
            for job in jobs:
                with pytest.raises(JournalError):
                    await one.journal.close_run(job.run)
            await daemons.allow_writes()
            assert await other.jobs.claim() is None
            begun = await _claimed_at_once(one)

        job, _ = begun
        await one.journal.append(job.run, [step_finished("a")])
        assert await other.journal.load(job.run) == [step_finished("a")]

    async def test_an_attempt_that_failed_counts_and_one_that_was_put_off_does_not(
        self, one: Stores
    ) -> None:
        await one.jobs.receive(request_of(1))
        for _ in range(FEW_ATTEMPTS + 1):
            await claimed(one, 1)
            await one.jobs.change(JobChange(job_id(1), "queued", "the daemon stops"))
        for _ in range(MAX_FAILURES):
            await claimed(one, 1)
            await one.jobs.change(JobChange(job_id(1), "queued", "boom", is_failed_attempt=True))

        assert await one.jobs.claim() is None

        row = await row_of(one, 1)
        assert (row.state, row.reason) == (
            "dead", "started 5 times, and failed each time; last reason: boom",
        )  # fmt: skip

    async def test_a_job_whose_process_ends_again_and_again_is_begun_after_longer_pauses(
        self, daemons: DaemonStores, other: Stores, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await other.jobs.receive(request_of(1))
        stores = await daemons.open()
        await claimed(stores, 1)
        await daemons.kill(stores)

        monkeypatch.setattr(rules, "ATTEMPT_PAUSES", (600.0,))
        early = await other.jobs.claim()
        monkeypatch.setattr(rules, "ATTEMPT_PAUSES", (0.0, 600.0))
        due = await claimed(other, 1)

        assert early is None
        assert due.attempts == 2

    async def test_a_dead_job_whose_request_is_sent_again_continues_its_run(
        self, daemons: DaemonStores, other: Stores
    ) -> None:
        await other.jobs.receive(request_of(1))
        run = (await row_of(other, 1)).run
        for _ in range(FEW_ATTEMPTS):
            stores = await daemons.open()
            await claimed(stores, 1)
            await daemons.kill(stores)
        assert await other.jobs.claim() is None

        receipt = await other.jobs.receive(request_of(1, message=77))
        again = await claimed(other, 1)

        assert receipt.action == "accept"
        assert (again.run, again.attempts, again.finished) == (run, 1, None)

    async def test_a_job_that_came_forward_begins_its_attempts_anew(self, one: Stores) -> None:
        await one.jobs.receive(request_of(1))
        await claimed(one)
        await one.jobs.change(JobChange(job_id(1), "queued", is_failed_attempt=True))
        await send_package(one, await claimed(one), 1, 1)
        await one.jobs.receive(received(verdict(1, 1), message=20))

        assert (await claimed(one)).attempts == 1

    async def test_who_is_cancelled_while_claiming_gets_the_job_or_leaves_it_to_others(
        self, one: Stores, other: Stores
    ) -> None:
        await one.jobs.receive(request_of(1))
        taken = list[JobRow | None]()

        with anyio.CancelScope() as scope:
            scope.cancel()
            taken.append(await one.jobs.claim())
        if not taken:
            taken.append(await other.jobs.claim())

        assert [job and job.job for job in taken] == [job_id(1)]

    @pytest.mark.parametrize("fault", [LookupError, JournalNotWritten])
    async def test_a_claim_that_could_not_be_told_of_leaves_the_job_to_others(
        self, one: Stores, fault: type[Exception]
    ) -> None:
        def tell(job: JobRow) -> list[OutgoingMessage]:
            if fault is LookupError:
                raise LookupError(job.job)
            return [outgoing(1, headers={"x": float("nan")})]

        await one.jobs.receive(request_of(1))
        for _ in range(MAX_FAILURES):
            job = await claimed(one, 1)
            await one.jobs.change(JobChange(job.job, "queued", is_failed_attempt=True))
        await one.jobs.receive(request_of(2))

        # The first is worn out and would be told of as dead, the second claimed.
        with pytest.raises(fault):
            await one.jobs.claim(project=tell)

        job = await claimed(one, 2)
        assert job.attempts == 1
        assert await published_states(one) == ["dead"]


async def attempt_cut_off(
    stores: Stores,
    number: int,
    *,
    begun: Sequence[str],
    ended: Sequence[str] = (),
    status: StepStatus = "ok",
) -> None:
    """Work on a job as a daemon does until its process dies: calls are made, and some come to an
    end.
    """
    job = await claimed(stores, number)
    blame = CrashSuspects().after(await stores.journal.load(job.run))
    first = Noted(1.0, "resumed", {"announced": True}) if job.attempts > 1 else run_started(job.run)
    events: list[Event] = [
        first,
        *(StepStarted(2.0, StepId(call), StepKey(call)) for call in begun),
        *(step_finished(call, key=call, status=status) for call in ended),
    ]
    for event in events:
        after = blame.after([event])
        change = JobChange(job.job, "running", has_advanced=has_advanced(blame, [event], after))
        await stores.journal.append(job.run, [event], OutboxWrites(change=change))
        blame = after


async def _claimed_at_once(stores: Stores) -> list[JobRow]:
    """Return what several slots of one daemon claim in the same moment."""
    begun = list[JobRow]()

    async def claim() -> None:
        job = await stores.jobs.claim()
        if job is not None:
            begun.append(job)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(claim)
    return begun
