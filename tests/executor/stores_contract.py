"""What every job store promises, whatever keeps it.

A module of tests inherits `JobStoreContract` and gives it `daemons`: a way to open the same stores as several daemons
would, to let one of them die, and to let time pass for the outbox.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

import anyio
import pytest

from tests.executor.event_examples import run_started, step_finished
from wavewright.executor.job_store.port import MOST_ATTEMPTS
from wavewright.executor.job_store.records import (
    Alongside,
    Decision,
    DecisionId,
    DecisionMade,
    JobChange,
    JobId,
    JobRequested,
    JobRow,
    MessageId,
    Outgoing,
    Receipt,
    Received,
    Request,
    VerdictGiven,
)
from wavewright.executor.journal_errors import JournalError, RunBusy, RunLost
from wavewright.executor.stores import Stores
from wavewright.planner.types import JsonObject, RunId


class Daemons(Protocol):
    """Opens the same stores as several daemons would."""

    async def open(self) -> Stores:
        """Return the stores of one more daemon; they are closed at the end of the test."""
        ...

    async def bury(self, stores: Stores) -> None:
        """Let the others find this daemon dead from now on, though it can still try to write."""
        ...

    async def let_leases_pass(self) -> None:
        """Let all leases of the outbox end."""
        ...


def uuid(number: int) -> str:
    return str(UUID(int=number))


def job_id(number: int) -> JobId:
    return JobId(uuid(1_000 + number))


def request_of(number: int, *, weight: float = 1.0, message: int | None = None) -> Received:
    return received(
        JobRequested(job_id(number), {"job": {"goal": f"work {number}"}}, weight),
        message=10_000 + number if message is None else message,
    )


def received(request: Request, *, message: int) -> Received:
    return Received(MessageId(uuid(message)), type(request).__name__, "tester", 5.0, request)


def verdict(
    number: int,
    iteration: int,
    *,
    accepted: bool = False,
    package: str = "",
    feedback: Sequence[str] = ("more",),
) -> VerdictGiven:
    return VerdictGiven(
        job_id(number), package or package_id(number, iteration), iteration, accepted, tuple(feedback)
    )


def package_id(number: int, iteration: int) -> str:
    return f"package {number}/{iteration}"


def decision_of(
    number: int,
    run: RunId,
    *,
    id_: int = 1,
    options: tuple[str, ...] = ("yes", "no"),
    expires: float | None = None,
) -> Decision:
    return Decision(
        id=DecisionId(uuid(2_000 + id_)),
        job=job_id(number),
        run=run,
        subject="question",
        question="Which zone?",
        options=options,
        context="because",
        binding={"plan": "sha256:1", "steps": ["a"]},
        asked=7.0,
        expires=expires,
    )


def outgoing(
    number: int, *, job: int | None = 1, body: bytes = b"{}", headers: JsonObject | None = None
) -> Outgoing:
    return Outgoing(
        message=MessageId(uuid(3_000 + number)),
        kind="job_status",
        exchange="knowledge.topic",
        routing_key="job.status",
        body=body,
        job=None if job is None else job_id(job),
        headers=headers or {},
        at=float(number),
    )


def tell_state(job: JobRow) -> Sequence[Outgoing]:
    """Tell of a job by its state, as a daemon would: the same state of the same job is the same message."""
    number = int(UUID(job.job)) - 1_000
    kind = f"{job.state} {job.attempts} {job.iteration} {len(job.feedback)}"
    return [
        Outgoing(
            message=MessageId(f"{number} {kind}"),
            kind=job.state,
            exchange="knowledge.topic",
            routing_key="job.status",
            body=kind.encode(),
            job=job.job,
        )
    ]


async def told(stores: Stores) -> list[str]:
    """Return the kinds of the messages that wait to go out."""
    return [message.kind for message in await stores.jobs.pending()]


async def claimed(stores: Stores, number: int | None = None) -> JobRow:
    """Return the job that is claimed next, the expected one."""
    job = await stores.jobs.claim(tell=tell_state)
    assert job is not None
    assert number is None or job.job == job_id(number)
    return job


async def send_package(stores: Stores, job: JobRow, number: int, iteration: int) -> None:
    """Journal a package as sent, and await its verdict."""
    change = JobChange(job.job, "running", iteration=iteration, package=package_id(number, iteration))
    await stores.journal.append(
        job.run,
        [step_finished(f"package_{iteration}")],
        Alongside(messages=(outgoing(iteration),), change=change),
    )
    await stores.jobs.change(JobChange(job.job, "awaiting"), tell_state)


async def row_of(stores: Stores, number: int) -> JobRow:
    job = await stores.jobs.find_job(job_id(number))
    assert job is not None
    return job


@pytest.mark.anyio
class JobStoreContract:
    """Inherit this, and give the fixture `daemons`."""

    @pytest.fixture
    async def one(self, daemons: Daemons) -> Stores:
        return await daemons.open()

    @pytest.fixture
    async def other(self, daemons: Daemons) -> Stores:
        return await daemons.open()

    # -- what comes in

    async def test_a_requested_job_is_queued_and_told_of_once(self, one: Stores) -> None:
        first = await one.jobs.receive(request_of(1), tell_state)
        again = await one.jobs.receive(request_of(1), tell_state)

        job = await row_of(one, 1)
        assert (first.action, again.action, again.kind) == ("accept", "ack_duplicate", "duplicate")
        assert (job.state, job.attempts, job.iteration, job.feedback) == ("queued", 0, 0, ())
        assert job.request == {"job": {"goal": "work 1"}}
        assert await told(one) == ["queued"]

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
        await one.journal.append(job.run, [], Alongside(decisions=(decision_of(1, job.run),)))

        first = await one.jobs.receive(answer)
        second = await one.jobs.receive(answer)

        assert (first.action, second.action) == ("dead_letter", "dead_letter")

    async def test_requests_at_once_all_become_jobs_with_runs_of_their_own(self, one: Stores) -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(40):
                tasks.start_soon(one.jobs.receive, request_of(number), tell_state)

        jobs = await one.jobs.list_jobs()
        assert {job.job for job in jobs} == {job_id(number) for number in range(40)}
        assert len({job.run for job in jobs}) == 40
        assert len(await told(one)) == 40

    async def test_a_fault_in_what_is_told_undoes_that_message_alone(self, one: Stores) -> None:
        def stumble(job: JobRow) -> Sequence[Outgoing]:
            raise LookupError(f"cannot tell of {job.job}")

        async def fail() -> None:
            with pytest.raises(LookupError, match="cannot tell of"):
                await one.jobs.receive(request_of(1), stumble)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fail)
            for number in (2, 3):
                tasks.start_soon(one.jobs.receive, request_of(number), tell_state)

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

    async def test_every_job_is_claimed_once_by_several_daemons(self, one: Stores, other: Stores) -> None:
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
            await one.jobs.change(JobChange(job_id(number), "queued", "later", not_before=not_before))

        await claimed(one, 2)
        assert await one.jobs.claim() is None
        assert (await row_of(one, 1)).reason == "later"

    # -- how a job stands

    async def test_saying_how_a_job_ended_gives_its_run_up_and_is_told(
        self, one: Stores, other: Stores
    ) -> None:
        await one.jobs.receive(request_of(1))
        job = await claimed(one)

        await one.jobs.change(JobChange(job.job, "failed", "no source"), tell_state)

        row = await row_of(one, 1)
        assert (row.state, row.reason, row.owner) == ("failed", "no source", None)
        assert row.finished is not None
        assert await told(one) == ["failed"]
        await other.journal.open_run(job.run)

    async def test_a_job_that_is_running_still_keeps_its_run(self, one: Stores, other: Stores) -> None:
        await one.jobs.receive(request_of(1))
        job = await claimed(one)

        await one.jobs.change(JobChange(job.job, "running", iteration=3, package="p"))

        row = await row_of(one, 1)
        assert (row.state, row.iteration, row.package, row.attempts) == ("running", 3, "p", 1)
        with pytest.raises(RunBusy):
            await other.journal.open_run(job.run)

    async def test_only_who_holds_a_job_says_how_it_stands(self, one: Stores, other: Stores) -> None:
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
        await one.journal.append(job.run, [], Alongside(change=JobChange(job.job, "completed", "done")))
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
        assert await one.jobs.count_states() == {
            "queued": 2, "running": 1, "parked": 0, "awaiting": 0, "completed": 1, "failed": 0, "dead": 0,
        }  # fmt: skip

    # -- attempts

    async def test_a_job_whose_daemon_died_is_claimed_by_another_with_its_next_attempt(
        self, one: Stores, other: Stores, daemons: Daemons
    ) -> None:
        await one.jobs.receive(request_of(1))
        job = await claimed(one)
        await one.journal.append(job.run, [run_started(job.run)])

        await daemons.bury(one)
        taken = await claimed(other, 1)

        assert (taken.state, taken.attempts, taken.run) == ("running", 2, job.run)
        assert await other.journal.load(job.run) == [run_started(job.run)]

    async def test_a_late_owner_writes_nothing_more(
        self, one: Stores, other: Stores, daemons: Daemons
    ) -> None:
        await one.jobs.receive(request_of(1))
        job = await claimed(one)
        await daemons.bury(one)
        await claimed(other, 1)

        with pytest.raises(RunLost):
            await one.jobs.change(JobChange(job.job, "completed"), tell_state)
        with pytest.raises(RunLost):
            await one.journal.append(job.run, [step_finished("late")], Alongside(messages=(outgoing(1),)))

        assert (await row_of(other, 1)).state == "running"
        assert await other.journal.load(job.run) == []
        assert await told(other) == []

    async def test_a_job_that_ends_every_daemon_is_dead_after_its_last_attempt(
        self, daemons: Daemons, other: Stores
    ) -> None:
        await other.jobs.receive(request_of(1))
        for attempt in range(MOST_ATTEMPTS):
            stores = await daemons.open()
            assert (await claimed(stores, 1)).attempts == attempt + 1
            await daemons.bury(stores)
        await other.jobs.receive(request_of(2))

        await claimed(other, 2)

        row = await row_of(other, 1)
        assert (row.state, row.attempts, row.owner) == ("dead", MOST_ATTEMPTS, None)
        assert row.reason == "begun 5 times, and never came to an end"
        assert await told(other) == ["dead"]

    async def test_an_attempt_that_failed_counts_and_one_that_was_put_off_does_not(self, one: Stores) -> None:
        await one.jobs.receive(request_of(1))
        for _ in range(MOST_ATTEMPTS + 1):
            await claimed(one, 1)
            await one.jobs.change(JobChange(job_id(1), "queued", "the daemon stops"))
        for _ in range(MOST_ATTEMPTS):
            await claimed(one, 1)
            await one.jobs.change(JobChange(job_id(1), "queued", "boom", is_failed_attempt=True))

        assert await one.jobs.claim() is None

        row = await row_of(one, 1)
        assert (row.state, row.reason) == (
            "dead", "begun 5 times, and never came to an end; the last that it said: boom",
        )  # fmt: skip

    async def test_a_job_that_came_forward_begins_its_attempts_anew(self, one: Stores) -> None:
        await one.jobs.receive(request_of(1))
        await claimed(one)
        await one.jobs.change(JobChange(job_id(1), "queued", is_failed_attempt=True))
        await send_package(one, await claimed(one), 1, 1)
        await one.jobs.receive(received(verdict(1, 1), message=20))

        assert (await claimed(one)).attempts == 1

    # -- verdicts

    async def test_a_verdict_on_the_package_in_hand_ends_the_job(self, one: Stores) -> None:
        await one.jobs.receive(request_of(1))
        await send_package(one, await claimed(one), 1, 1)

        receipt = await one.jobs.receive(
            received(verdict(1, 1, accepted=True, feedback=()), message=20), tell_state
        )

        row = await row_of(one, 1)
        assert receipt == Receipt("accept")
        assert (row.state, row.iteration, row.feedback) == (
            "completed", 1, (verdict(1, 1, accepted=True, feedback=()),),
        )  # fmt: skip
        assert (await told(one))[-1] == "completed"

    async def test_a_verdict_that_wants_more_queues_the_job_again_with_its_feedback(
        self, one: Stores
    ) -> None:
        await one.jobs.receive(request_of(1))
        first = await claimed(one)
        await send_package(one, first, 1, 1)

        await one.jobs.receive(received(verdict(1, 1, feedback=["more", "sources"]), message=20))
        job = await claimed(one, 1)

        assert job.run == first.run
        assert (job.iteration, job.package) == (1, package_id(1, 1))
        assert job.feedback == (verdict(1, 1, feedback=["more", "sources"]),)

    async def test_a_verdict_that_comes_while_the_job_is_running_has_its_effect_afterwards(
        self, one: Stores
    ) -> None:
        await one.jobs.receive(request_of(1))
        job = await claimed(one)
        change = JobChange(job.job, "running", iteration=1, package=package_id(1, 1))
        await one.journal.append(job.run, [step_finished("a")], Alongside(change=change))

        receipt = await one.jobs.receive(received(verdict(1, 1, accepted=True), message=20), tell_state)
        again = await one.jobs.receive(received(verdict(1, 1, accepted=True), message=21), tell_state)
        while_running = await row_of(one, 1)
        await one.jobs.change(JobChange(job.job, "awaiting"), tell_state)

        assert (receipt.action, again.action) == ("accept", "ack_duplicate")
        assert (while_running.state, while_running.feedback) == ("running", ())
        assert (await row_of(one, 1)).state == "completed"
        assert await told(one) == ["awaiting", "completed"]

    async def test_messages_of_a_job_in_any_order_lead_to_the_same_end(self, one: Stores) -> None:
        late = [received(verdict(1, 2, accepted=True), message=21), received(verdict(1, 1), message=20)]
        for message in (*late, *late):
            assert (await one.jobs.receive(message)).action in {"defer", "ack_duplicate"}
        await one.jobs.receive(request_of(1))

        await send_package(one, await claimed(one), 1, 1)
        after_first = await row_of(one, 1)
        await send_package(one, await claimed(one), 1, 2)

        row = await row_of(one, 1)
        assert (after_first.state, after_first.iteration) == ("queued", 1)
        assert row.state == "completed"
        assert [given.iteration for given in row.feedback] == [1, 2]

    async def test_a_kept_verdict_has_its_effect_where_the_wait_was_journaled_with_the_package(
        self, one: Stores
    ) -> None:
        await one.jobs.receive(received(verdict(1, 1), message=20))
        await one.jobs.receive(request_of(1))
        job = await claimed(one)
        change = JobChange(job.job, "awaiting", iteration=1, package=package_id(1, 1))
        await one.journal.append(job.run, [step_finished("a")], Alongside(change=change))

        assert (await claimed(one, 1)).feedback == (verdict(1, 1),)

    async def test_a_verdict_on_an_earlier_package_or_an_ended_job_changes_nothing(self, one: Stores) -> None:
        await one.jobs.receive(request_of(1))
        await send_package(one, await claimed(one), 1, 1)
        await one.jobs.receive(received(verdict(1, 1), message=20))
        await send_package(one, await claimed(one), 1, 2)

        again = await one.jobs.receive(received(verdict(1, 1, accepted=True), message=21))
        await one.jobs.receive(received(verdict(1, 2, accepted=True), message=22))
        before = await row_of(one, 1)
        late = await one.jobs.receive(received(verdict(1, 3), message=23))

        assert again.action in {"ignore_stale", "ack_duplicate"}
        assert late.action == "ignore_stale"
        assert await row_of(one, 1) == before

    # -- decisions

    async def test_a_parked_job_goes_on_with_the_answer(self, one: Stores, other: Stores) -> None:
        await one.jobs.receive(request_of(1))
        job = await claimed(one)
        asked = decision_of(1, job.run)
        await one.journal.append(
            job.run, [step_finished("a")], Alongside(decisions=(asked,), change=JobChange(job.job, "parked"))
        )
        while_parked = await other.jobs.claim()

        receipt = await other.jobs.decide(DecisionMade(asked.id, "yes", "ada"), tell_state)

        assert while_parked is None
        assert receipt.action == "accept"
        assert await told(other) == ["queued"]
        assert (await claimed(other, 1)).attempts == 1
        taken = await other.jobs.take_answer(asked.id)
        assert taken is not None
        assert (taken.choice, taken.by, taken.question) == ("yes", "ada", asked.question)
        assert (taken.binding, taken.options) == (asked.binding, asked.options)

    async def test_an_answer_is_taken_once(self, one: Stores) -> None:
        asked = await self._ask(one)
        before = await one.jobs.take_answer(asked.id)
        await one.jobs.decide(DecisionMade(asked.id, "no", "ada"))

        first, second = await one.jobs.take_answer(asked.id), await one.jobs.take_answer(asked.id)

        assert before is None
        assert first is not None
        assert first.choice == "no"
        assert second is None

    async def test_an_answer_is_taken_with_the_events_that_act_on_it(self, one: Stores) -> None:
        asked = await self._ask(one)
        run = asked.run
        await one.jobs.decide(DecisionMade(asked.id, "no", "ada"))

        await one.journal.append(run, [step_finished("a")], Alongside(taken=(asked.id,)))

        assert await one.jobs.take_answer(asked.id) is None
        with pytest.raises(JournalError, match="cannot be taken"):
            await one.journal.append(run, [step_finished("b")], Alongside(taken=(asked.id,)))
        assert await one.journal.load(run) == [step_finished("a")]

    async def test_the_first_answer_stands(self, one: Stores) -> None:
        asked = await self._ask(one)

        receipts = [
            await one.jobs.decide(DecisionMade(asked.id, choice, "ada")) for choice in ("maybe", "yes", "no")
        ]

        assert [receipt.action for receipt in receipts] == ["dead_letter", "accept", "ack_duplicate"]
        found = await one.jobs.find_decision(asked.id)
        assert found is not None
        assert found.choice == "yes"

    async def test_an_expired_decision_takes_no_answer(self, one: Stores) -> None:
        asked = await self._ask(one, expires=1.0)

        receipt = await one.jobs.decide(DecisionMade(asked.id, "yes", "ada"))

        assert receipt.action == "ignore_stale"
        assert await one.jobs.take_answer(asked.id) is None

    async def test_an_answer_to_an_unknown_decision_is_refused_at_the_command_line(self, one: Stores) -> None:
        receipt = await one.jobs.decide(DecisionMade(DecisionId(uuid(4)), "yes", "ada"))

        assert (receipt.action, receipt.kind) == ("dead_letter", "unknown_correlation")

    async def test_an_answer_that_comes_before_its_job_is_parked_is_there_when_it_parks(
        self, one: Stores
    ) -> None:
        asked = await self._ask(one)

        await one.jobs.receive(received(DecisionMade(asked.id, "yes", "ada"), message=20))
        while_running = await row_of(one, 1)
        await one.jobs.change(JobChange(job_id(1), "parked"))

        assert while_running.state == "running"
        assert (await row_of(one, 1)).state == "queued"

    async def test_an_answer_that_overtakes_its_question_is_taken_when_it_is_asked(self, one: Stores) -> None:
        await one.jobs.receive(
            received(DecisionMade(decision_of(1, RunId("r")).id, "yes", "ada"), message=20)
        )
        asked = await self._ask(one)
        await one.jobs.change(JobChange(job_id(1), "parked"))

        await claimed(one, 1)

        taken = await one.jobs.take_answer(asked.id)
        assert taken is not None
        assert taken.choice == "yes"

    async def test_the_same_question_is_asked_once(self, one: Stores) -> None:
        asked = await self._ask(one)
        await one.jobs.decide(DecisionMade(asked.id, "yes", "ada"))

        await one.journal.append(asked.run, [], Alongside(decisions=(asked,)))

        assert await one.jobs.list_decisions() == []
        assert [decision.id for decision in await one.jobs.list_decisions(is_open=False)] == [asked.id]

    async def test_a_decision_is_found_by_the_beginning_of_its_id(self, one: Stores) -> None:
        asked = await self._ask(one)
        far = DecisionId("f" + asked.id[1:])
        other = Decision(far, asked.job, asked.run, "question", "And?", asked=8.0)
        await one.journal.append(asked.run, [], Alongside(decisions=(other,)))

        assert await one.jobs.find_decision("f0") == other
        assert await one.jobs.find_decision("f1") is None
        assert await one.jobs.find_decision("") is None
        assert await one.jobs.find_decision("%") is None
        assert await one.jobs.list_decisions() == [asked, other]

    async def test_an_ambiguous_beginning_of_an_id_is_told(self, one: Stores) -> None:
        asked = await self._ask(one)
        second = decision_of(1, asked.run, id_=2)
        await one.journal.append(asked.run, [], Alongside(decisions=(second,)))

        with pytest.raises(JournalError, match="2 decisions start with '0000'"):
            await one.jobs.find_decision("0000")

    async def _ask(self, stores: Stores, *, expires: float | None = None) -> Decision:
        """Let job 1 ask a question while it runs."""
        await stores.jobs.receive(request_of(1))
        job = await claimed(stores, 1)
        asked = decision_of(1, job.run, expires=expires)
        await stores.journal.append(job.run, [], Alongside(decisions=(asked,)))
        return asked

    # -- alongside

    async def test_what_goes_alongside_is_written_with_the_events_or_not_at_all(self, one: Stores) -> None:
        await one.jobs.receive(request_of(1))
        job = await claimed(one)
        message = outgoing(1, body=b"\x00\xff {}", headers={"x-a": [1, "ü"]})

        await one.journal.append(
            job.run,
            [run_started(job.run), step_finished("a")],
            Alongside(messages=(message,), change=JobChange(job.job, "running", "halfway")),
        )
        with pytest.raises(JournalError):
            await one.journal.append(
                job.run,
                [step_finished("b")],
                Alongside(messages=(outgoing(2),), change=JobChange(job_id(99), "completed")),
            )

        assert await one.journal.load(job.run) == [run_started(job.run), step_finished("a")]
        assert await one.jobs.pending() == [message]
        assert (await row_of(one, 1)).reason == "halfway"

    async def test_a_change_alongside_events_gives_the_run_up_with_them(
        self, one: Stores, other: Stores
    ) -> None:
        await one.jobs.receive(request_of(1))
        job = await claimed(one)
        change = JobChange(job.job, "awaiting", iteration=1, package=package_id(1, 1))

        # Both are one transaction: what comes after the change belongs to the same hold.
        ended = one.journal.append(job.run, [step_finished("a")], Alongside(change=change))
        noted = one.journal.append(job.run, [step_finished("b")])
        await ended
        await noted
        await other.jobs.receive(received(verdict(1, 1), message=20))

        again = await claimed(one, 1)
        assert (again.run, again.attempts) == (job.run, 1)
        await one.journal.append(
            job.run, [step_finished("c")], Alongside(change=JobChange(job.job, "failed"))
        )
        await other.journal.open_run(job.run)
        assert await other.journal.load(job.run) == [
            step_finished("a"),
            step_finished("b"),
            step_finished("c"),
        ]

    async def test_what_is_not_json_is_refused_at_once(self, one: Stores) -> None:
        bad = outgoing(1, headers={"x": float("nan")})

        with pytest.raises(JournalError, match="cannot be written as JSON"):
            one.journal.append(RunId("r"), [run_started("r")], Alongside(messages=(bad,)))

    async def test_a_job_cannot_be_said_to_stand_otherwise_after_events_that_were_not_written(
        self, one: Stores
    ) -> None:
        await one.jobs.receive(request_of(1))
        job = await claimed(one)
        with pytest.raises(JournalError):
            await one.journal.append(
                job.run, [step_finished("a")], Alongside(change=JobChange(job_id(9), "completed"))
            )

        with pytest.raises(JournalError, match="there is no job"):
            await one.jobs.change(JobChange(job.job, "completed"))
        await one.journal.close_run(job.run)

        assert (await claimed(one, 1)).attempts == 2

    async def test_a_job_is_not_changed_by_another_run_than_its_own_unless_that_is_held_too(
        self, one: Stores, other: Stores
    ) -> None:
        await one.jobs.receive(request_of(1))
        await claimed(one)
        change = Alongside(change=JobChange(job_id(1), "completed"))
        child = RunId("20261121-231907-3f2a7c")

        with pytest.raises(RunLost):
            await other.journal.append(child, [run_started(child)], change)
        await other.journal.close_run(child)
        await one.journal.append(child, [run_started(child)], change)

        assert (await row_of(one, 1)).state == "completed"

    # -- the outbox

    async def test_messages_go_out_in_their_order_until_they_are_confirmed(self, one: Stores) -> None:
        await self._put(one, *(outgoing(number, job=number % 2) for number in range(5)))

        first = await one.jobs.pending(2)
        again = await one.jobs.pending(2)
        await one.jobs.mark_sent([message.message for message in first])

        assert first == again == [outgoing(0, job=0), outgoing(1, job=1)]
        assert [message.at for message in await one.jobs.pending()] == [2.0, 3.0, 4.0]

    async def test_a_message_that_was_put_twice_goes_out_once(self, one: Stores) -> None:
        await self._put(one, outgoing(1), outgoing(1))
        first = await one.jobs.pending()
        await one.jobs.mark_sent([message.message for message in first])
        await self._put(one, outgoing(1))

        assert len(first) == 1
        assert await one.jobs.pending() == []

    async def test_what_one_daemon_is_publishing_no_other_publishes_until_its_lease_ends(
        self, one: Stores, other: Stores, daemons: Daemons
    ) -> None:
        await self._put(one, outgoing(1), outgoing(2, job=2))
        leased = await one.jobs.pending(1)

        elsewhere = await other.jobs.pending()
        await daemons.let_leases_pass()
        afterwards = await other.jobs.pending()

        assert leased == [outgoing(1)]
        assert elsewhere == [outgoing(2, job=2)]
        assert afterwards == [outgoing(1), outgoing(2, job=2)]

    async def test_the_messages_of_a_job_go_out_in_order_from_several_daemons(
        self, one: Stores, other: Stores
    ) -> None:
        await self._put(one, outgoing(1), outgoing(2), outgoing(3, job=None), outgoing(4, job=None))
        await one.jobs.pending(1)

        elsewhere = await other.jobs.pending()
        await one.jobs.mark_sent([outgoing(1).message])
        afterwards = await other.jobs.pending()

        assert elsewhere == [outgoing(3, job=None), outgoing(4, job=None)]
        assert outgoing(2) in afterwards

    async def test_a_message_that_the_broker_refuses_is_kept_aside_and_shown(self, one: Stores) -> None:
        await self._put(one, outgoing(1), outgoing(2))
        await one.jobs.pending()

        await one.jobs.mark_refused(outgoing(1).message, "NO_ROUTE")

        assert await one.jobs.pending() == [outgoing(2)]
        (refused,) = await one.jobs.list_refused()
        assert (refused.message, refused.body, refused.refused) == (outgoing(1).message, b"{}", "NO_ROUTE")

    async def test_marking_a_message_twice_or_an_unknown_one_does_nothing(self, one: Stores) -> None:
        await self._put(one, outgoing(1))
        await one.jobs.mark_sent([outgoing(1).message, outgoing(1).message, MessageId("none")])
        await one.jobs.mark_refused(outgoing(1).message, "late")

        assert await one.jobs.pending() == []
        assert await one.jobs.list_refused() == []

    async def _put(self, stores: Stores, *messages: Outgoing) -> None:
        run = RunId("20261121-231907-0b0b0b")
        await stores.journal.append(run, [], Alongside(messages=messages))
