"""What every job store promises of jobs: that they come in once, are claimed in turn, and end."""

from __future__ import annotations

import time
from collections.abc import Sequence

import anyio
import pytest

from tests.engine.service.job_store.job_examples import (
    StoresTestCase,
    claimed,
    decision_of,
    job_id,
    project_state,
    published_states,
    received,
    request_of,
    row_of,
)
from tests.executor.event_examples import run_started
from wavewright.engine.service.job_store.outbox_writes import OutboxWrites
from wavewright.engine.service.job_store.records import (
    DecisionMade,
    JobChange,
    JobId,
    JobRow,
    OutgoingMessage,
)
from wavewright.engine.service.job_store.stores import Stores
from wavewright.executor.store.errors import JournalError, RunBusy, RunLost
from wavewright.planner.types import RunId


@pytest.mark.anyio
class ClaimsContract(StoresTestCase):
    """Part of `JobStoreContract`."""

    # -- what comes in

    async def test_a_requested_job_is_queued_and_told_of_once(self, one: Stores) -> None:
        first = await one.jobs.receive(request_of(1), project_state)
        again = await one.jobs.receive(request_of(1), project_state)

        job = await row_of(one, 1)
        assert (first.action, again.action, again.kind) == ("accept", "ack_duplicate", "duplicate")
        assert (job.state, job.attempts, job.iteration, job.feedback) == ("queued", 0, 0, ())
        assert job.request == {"job": {"goal": "work 1"}}
        assert await published_states(one) == ["queued"]

    async def test_another_message_for_a_known_job_makes_no_second_one(self, one: Stores) -> None:
        await one.jobs.receive(request_of(1))

        receipt = await one.jobs.receive(request_of(1, message=77))

        assert (receipt.action, receipt.kind) == ("ack_duplicate", "duplicate_job")
        assert len(await one.jobs.list_jobs()) == 1

    async def test_a_message_that_had_no_effect_is_judged_again_when_it_is_sent_again(
        self, one: Stores
    ) -> None:
        answer = received(DecisionMade(decision_of(1, RunId("r")).id, "perhaps", "ada"), message=50)
        await one.jobs.receive(request_of(1))
        job = await claimed(one)
        await one.journal.append(job.run, [], OutboxWrites(decisions=(decision_of(1, job.run),)))

        first = await one.jobs.receive(answer)
        second = await one.jobs.receive(answer)

        assert (first.action, second.action) == ("dead_letter", "dead_letter")

    async def test_requests_at_once_all_become_jobs_with_runs_of_their_own(
        self, one: Stores
    ) -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(40):
                tasks.start_soon(one.jobs.receive, request_of(number), project_state)

        jobs = await one.jobs.list_jobs()
        assert {job.job for job in jobs} == {job_id(number) for number in range(40)}
        assert len({job.run for job in jobs}) == 40
        assert len(await published_states(one)) == 40

    async def test_a_fault_in_what_is_told_undoes_that_message_alone(self, one: Stores) -> None:
        def stumble(job: JobRow) -> Sequence[OutgoingMessage]:
            raise LookupError(f"cannot tell of {job.job}")

        async def fail() -> None:
            with pytest.raises(LookupError, match="cannot tell of"):
                await one.jobs.receive(request_of(1), stumble)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fail)
            for number in (2, 3):
                tasks.start_soon(one.jobs.receive, request_of(number), project_state)

        assert [job.job for job in await one.jobs.list_jobs()] == [job_id(2), job_id(3)]
        assert (await one.jobs.receive(request_of(1))).action == "accept"

    # -- whose turn it is

    async def test_nothing_to_do_is_said_so(self, one: Stores) -> None:
        assert await one.jobs.claim() is None

    async def test_jobs_are_claimed_in_the_order_in_which_they_came(self, one: Stores) -> None:
        for number in (3, 1, 2):
            await one.jobs.receive(request_of(number))

        assert [(await claimed(one)).job for _ in range(3)] == [job_id(3), job_id(1), job_id(2)]
        assert await one.jobs.claim() is None

    async def test_a_small_job_is_claimed_before_a_large_one_that_came_a_little_earlier(
        self, one: Stores
    ) -> None:
        await one.jobs.receive(request_of(1, weight=50))
        await one.jobs.receive(request_of(2, weight=1))

        assert [(await claimed(one)).job for _ in range(2)] == [job_id(2), job_id(1)]

    async def test_an_urgent_job_is_claimed_before_one_that_came_earlier(self, one: Stores) -> None:
        await one.jobs.receive(request_of(1))
        await one.jobs.receive(request_of(2, priority=9, weight=50))
        await one.jobs.receive(request_of(3, priority=2))

        claims = [(await claimed(one)).job for _ in range(3)]
        assert claims == [job_id(2), job_id(3), job_id(1)]

    async def test_a_job_that_is_queued_again_keeps_its_priority(self, one: Stores) -> None:
        await one.jobs.receive(request_of(1, priority=1))
        await one.jobs.receive(request_of(2))
        await one.jobs.change(JobChange((await claimed(one)).job, "queued", "stopped"))

        assert [(await claimed(one)).job for _ in range(2)] == [job_id(1), job_id(2)]

    async def test_a_slot_for_small_jobs_passes_large_ones_by(self, one: Stores) -> None:
        await one.jobs.receive(request_of(1, weight=50))
        small = await one.jobs.claim(most_weight=10)
        await one.jobs.receive(request_of(2, weight=60))

        assert small is None
        assert await one.jobs.claim(most_weight=10) is None
        assert [(await claimed(one)).job for _ in range(2)] == [job_id(1), job_id(2)]

    async def test_a_claimed_job_runs_for_its_owner_whose_run_is_open(
        self, one: Stores, other: Stores
    ) -> None:
        await one.jobs.receive(request_of(1))
        job = await claimed(one, 1)

        seen = await row_of(other, 1)
        assert (seen.state, seen.attempts) == ("running", 1)
        assert seen.owner == job.owner
        assert seen.owner is not None
        assert "pid" in seen.owner
        assert await other.jobs.claim() is None
        with pytest.raises(RunBusy):
            await other.journal.open_run(job.run)
        await one.journal.append(job.run, [run_started(job.run)])
        assert await other.journal.load(job.run) == [run_started(job.run)]

    async def test_every_job_is_claimed_once_by_several_daemons(
        self, one: Stores, other: Stores
    ) -> None:
        for number in range(30):
            await one.jobs.receive(request_of(number))
        found = list[JobId]()

        async def work(stores: Stores) -> None:
            while (job := await stores.jobs.claim()) is not None:
                found.append(job.job)

        async with anyio.create_task_group() as tasks:
            for stores in (one, other, one, other):
                tasks.start_soon(work, stores)

        assert sorted(found) == sorted(job_id(number) for number in range(30))

    async def test_a_job_that_is_put_off_waits_for_its_time(self, one: Stores) -> None:
        await one.jobs.receive(request_of(1))
        await one.jobs.receive(request_of(2))
        now = time.time()

        for number, not_before in ((1, now + 3600), (2, now - 1)):
            await claimed(one, number)
            await one.jobs.change(
                JobChange(job_id(number), "queued", "later", not_before=not_before)
            )

        await claimed(one, 2)
        assert await one.jobs.claim() is None
        assert (await row_of(one, 1)).reason == "later"

    # -- how a job stands

    async def test_saying_how_a_job_ended_gives_its_run_up_and_is_told(
        self, one: Stores, other: Stores
    ) -> None:
        await one.jobs.receive(request_of(1))
        job = await claimed(one)

        await one.jobs.change(JobChange(job.job, "failed", "no source"), project_state)

        row = await row_of(one, 1)
        assert (row.state, row.reason, row.owner) == ("failed", "no source", None)
        assert row.finished is not None
        assert await published_states(one) == ["failed"]
        await other.journal.open_run(job.run)

    async def test_a_job_that_is_running_still_keeps_its_run(
        self, one: Stores, other: Stores
    ) -> None:
        await one.jobs.receive(request_of(1))
        job = await claimed(one)

        await one.jobs.change(JobChange(job.job, "running", iteration=3, package="p"))

        row = await row_of(one, 1)
        assert (row.state, row.iteration, row.package, row.attempts) == ("running", 3, "p", 1)
        with pytest.raises(RunBusy):
            await other.journal.open_run(job.run)

    async def test_only_who_holds_a_job_says_how_it_stands(
        self, one: Stores, other: Stores
    ) -> None:
        await one.jobs.receive(request_of(1))
        with pytest.raises(RunLost):
            await one.jobs.change(JobChange(job_id(1), "completed"))
        await claimed(one)

        with pytest.raises(RunLost):
            await other.jobs.change(JobChange(job_id(1), "completed"))

        assert (await row_of(one, 1)).state == "running"

    async def test_an_unknown_job_cannot_be_changed(self, one: Stores) -> None:
        with pytest.raises(JournalError, match="there is no job"):
            await one.jobs.change(JobChange(job_id(9), "completed"))

    async def test_an_end_is_final(self, one: Stores) -> None:
        await one.jobs.receive(request_of(1))
        job = await claimed(one)
        await one.journal.append(
            job.run, [], OutboxWrites(change=JobChange(job.job, "completed", "done"))
        )
        await one.journal.open_run(job.run)

        with pytest.raises(JournalError, match="is completed; it cannot become queued"):
            await one.jobs.change(JobChange(job.job, "queued"))
        await one.jobs.change(JobChange(job.job, "completed"))

        assert (await row_of(one, 1)).reason == "done"
        assert await one.jobs.claim() is None

    async def test_jobs_are_listed_and_counted_by_state(self, one: Stores) -> None:
        for number in range(4):
            await one.jobs.receive(request_of(number))
        await claimed(one, 0)
        await one.jobs.change(JobChange(job_id(0), "completed"))
        await claimed(one, 1)

        queued = await one.jobs.list_jobs(["queued"])
        ended = await one.jobs.list_jobs(["completed", "running"])

        assert [job.job for job in queued] == [job_id(2), job_id(3)]
        assert [job.job for job in ended] == [job_id(0), job_id(1)]
        assert [job.job for job in await one.jobs.list_jobs(newest=3)] == [
            job_id(3),
            job_id(2),
            job_id(1),
        ]
        assert await one.jobs.count_ended(0.0) == {"completed": 1}
        assert await one.jobs.count_ended(1e12) == {}
        assert await one.jobs.count_states() == {
            "queued": 2, "running": 1, "waiting": 0, "validating": 0, "completed": 1,
            "cancelled": 0, "failed": 0, "dead": 0,
        }  # fmt: skip
