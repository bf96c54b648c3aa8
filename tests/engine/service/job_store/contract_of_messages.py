"""What every job store promises of messages: written with the events that they tell of, sent in
order.
"""

from __future__ import annotations

import time

import pytest

from tests.engine.service.job_store.job_examples import (
    DaemonStores,
    StoresTestCase,
    claimed,
    job_id,
    outgoing,
    package_id,
    received,
    request_of,
    row_of,
    send_package,
    verdict,
)
from tests.executor.event_examples import run_started, step_finished
from wavewright.engine.service.job_store.message_retention import FORGET_PAGE_SIZE
from wavewright.engine.service.job_store.outbox_writes import OutboxWrites
from wavewright.engine.service.job_store.records import (
    RETENTION_START,
    DecisionId,
    DecisionMade,
    JobChange,
    MessageId,
    OutgoingMessage,
    RetentionCursor,
    SentPackage,
)
from wavewright.engine.service.job_store.stores import Stores
from wavewright.executor.store.errors import JournalError, RunLost
from wavewright.planner.types import RunId


@pytest.mark.anyio
class MessagesContract(StoresTestCase):
    """Part of `JobStoreContract`."""

    # -- alongside

    async def test_what_goes_alongside_is_written_with_the_events_or_not_at_all(
        self, one: Stores
    ) -> None:
        await one.jobs.receive(request_of(1))
        job = await claimed(one)
        message = outgoing(1, body=b"\x00\xff {}", headers={"x-a": [1, "ü"]})

        await one.journal.append(
            job.run,
            [run_started(job.run), step_finished("a")],
            OutboxWrites(messages=(message,), change=JobChange(job.job, "running", "halfway")),
        )
        with pytest.raises(JournalError):
            await one.journal.append(
                job.run,
                [step_finished("b")],
                OutboxWrites(messages=(outgoing(2),), change=JobChange(job_id(99), "completed")),
            )

        assert await one.journal.load(job.run) == [run_started(job.run), step_finished("a")]
        assert await one.jobs.pending() == [message]
        assert (await row_of(one, 1)).reason == "halfway"

    async def test_a_change_alongside_events_gives_the_run_up_with_them(
        self, one: Stores, other: Stores
    ) -> None:
        await one.jobs.receive(request_of(1))
        job = await claimed(one)
        change = JobChange(job.job, "validating", iteration=1, package=package_id(1, 1))

        # Both are one transaction: what comes after the change belongs to the same hold.
        ended = one.journal.append(job.run, [step_finished("a")], OutboxWrites(change=change))
        noted = one.journal.append(job.run, [step_finished("b")])
        await ended
        await noted
        await other.jobs.receive(received(verdict(1, 1), message=20))

        again = await claimed(one, 1)
        assert (again.run, again.attempts) == (job.run, 1)
        await one.journal.append(
            job.run, [step_finished("c")], OutboxWrites(change=JobChange(job.job, "failed"))
        )
        await other.journal.open_run(job.run)
        assert await other.journal.load(job.run) == [
            step_finished("a"),
            step_finished("b"),
            step_finished("c"),
        ]

    async def test_what_is_not_json_is_refused_with_its_events(self, one: Stores) -> None:
        bad = outgoing(1, headers={"x": float("nan")})

        with pytest.raises(JournalError, match="cannot be written as JSON"):
            await one.journal.append(RunId("r"), [run_started("r")], OutboxWrites(messages=(bad,)))
        assert await one.journal.load(RunId("r")) == []

    async def test_a_job_can_only_be_put_off_after_events_that_were_not_written(
        self, one: Stores, other: Stores
    ) -> None:
        await one.jobs.receive(request_of(1))
        job = await claimed(one)
        with pytest.raises(JournalError):
            await one.journal.append(
                job.run,
                [step_finished("a")],
                OutboxWrites(change=JobChange(job_id(9), "completed")),
            )

        with pytest.raises(JournalError, match="there is no job"):
            await one.jobs.change(JobChange(job.job, "completed"))
        await one.jobs.change(JobChange(job.job, "queued", "the events could not be written"))

        assert (await claimed(other, 1)).attempts == 1
        await other.journal.append(job.run, [step_finished("b")])
        assert await other.journal.load(job.run) == [step_finished("b")]

    async def test_a_job_is_not_changed_by_another_run_than_its_own_unless_that_is_held_too(
        self, one: Stores, other: Stores
    ) -> None:
        await one.jobs.receive(request_of(1))
        await claimed(one)
        change = OutboxWrites(change=JobChange(job_id(1), "completed"))
        child = RunId("20261121-231907-3f2a7c")

        with pytest.raises(RunLost):
            await other.journal.append(child, [run_started(child)], change)
        await other.journal.close_run(child)
        await one.journal.append(child, [run_started(child)], change)

        assert (await row_of(one, 1)).state == "completed"

    # -- the outbox

    async def test_messages_go_out_in_their_order_until_they_are_confirmed(
        self, one: Stores
    ) -> None:
        await self._put(one, *(outgoing(number, job=number % 2) for number in range(5)))

        first = await one.jobs.pending(2)
        again = await one.jobs.pending(2)
        await one.jobs.mark_sent([message.message for message in first])

        assert first == again == [outgoing(0, job=0), outgoing(1, job=1)]
        assert [message.at for message in await one.jobs.pending()] == [2.0, 3.0, 4.0]

    async def test_as_many_messages_as_there_are_are_given_out_and_confirmed_at_once(
        self, one: Stores
    ) -> None:
        await one.jobs.receive(request_of(1))
        job = await claimed(one)
        messages = tuple(outgoing(number) for number in range(1, 1_101))
        await one.journal.append(job.run, [run_started(job.run)], OutboxWrites(messages=messages))

        waiting = await one.jobs.pending(2_000)
        await one.jobs.mark_sent([message.message for message in waiting[:-1]])

        assert waiting == [*messages]
        assert await one.jobs.pending() == [messages[-1]]

    async def test_a_message_that_was_put_twice_goes_out_once(self, one: Stores) -> None:
        await self._put(one, outgoing(1), outgoing(1))
        first = await one.jobs.pending()
        await one.jobs.mark_sent([message.message for message in first])
        await self._put(one, outgoing(1))

        assert len(first) == 1
        assert await one.jobs.pending() == []

    async def test_what_one_daemon_is_publishing_no_other_publishes_until_its_lease_ends(
        self, one: Stores, other: Stores, daemons: DaemonStores
    ) -> None:
        await self._put(one, outgoing(1), outgoing(2, job=2))
        leased = await one.jobs.pending(1)

        elsewhere = await other.jobs.pending()
        await daemons.expire_leases()
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

    async def test_a_message_that_the_broker_refuses_is_kept_aside_and_shown(
        self, one: Stores
    ) -> None:
        await self._put(one, outgoing(1), outgoing(2))
        await one.jobs.pending()

        await one.jobs.mark_refused(outgoing(1).message, "NO_ROUTE")

        assert await one.jobs.pending() == [outgoing(2)]
        (refused,) = await one.jobs.list_refused()
        assert (refused.message, refused.body, refused.refused) == (
            outgoing(1).message,
            b"{}",
            "NO_ROUTE",
        )

    async def test_a_refused_message_that_is_released_goes_out_in_its_place(
        self, one: Stores
    ) -> None:
        await self._put(one, outgoing(1), outgoing(2), outgoing(3))
        await one.jobs.pending()
        for number in (1, 2):
            await one.jobs.mark_refused(outgoing(number).message, "NO_ROUTE")

        await one.jobs.release([outgoing(1).message, MessageId("none")])

        assert await one.jobs.pending() == [outgoing(1), outgoing(3)]
        assert [refused.message for refused in await one.jobs.list_refused()] == [
            outgoing(2).message
        ]

    async def test_a_message_that_went_out_does_not_go_out_again_when_it_is_released(
        self, one: Stores
    ) -> None:
        await self._put(one, outgoing(1))
        await one.jobs.mark_sent([outgoing(1).message])

        await one.jobs.release([outgoing(1).message])

        assert await one.jobs.pending() == []

    async def test_marking_a_message_twice_or_an_unknown_one_does_nothing(
        self, one: Stores
    ) -> None:
        await self._put(one, outgoing(1))
        await one.jobs.mark_sent([outgoing(1).message, outgoing(1).message, MessageId("none")])
        await one.jobs.mark_refused(outgoing(1).message, "late")

        assert await one.jobs.pending() == []
        assert await one.jobs.list_refused() == []

    async def test_a_lease_is_renewed_by_whoever_has_it_and_by_nobody_else(
        self, one: Stores, other: Stores, daemons: DaemonStores
    ) -> None:
        await self._put(one, outgoing(1), outgoing(2, job=2))
        mine = [message.message for message in await one.jobs.pending()]
        await daemons.expire_leases()

        await one.jobs.renew(mine[:1])
        await other.jobs.renew(mine)

        assert await other.jobs.pending() == [outgoing(2, job=2)]

    # -- what is old

    async def test_ids_of_what_is_done_with_are_forgotten_once_they_are_old(
        self, one: Stores
    ) -> None:
        for number in (1, 2):
            await one.jobs.receive(request_of(number))
        done = await claimed(one, 1)
        await one.jobs.change(JobChange(done.job, "completed"))
        await self._put(
            one, *(outgoing(number, job=number) for number in (1, 2, 3)), outgoing(4, job=1)
        )
        await one.jobs.mark_sent([outgoing(number).message for number in (1, 2, 3)])

        await self._forget(one, time.time() - 3_600)
        young = await one.jobs.receive(request_of(1))
        await self._forget(one, time.time() + 3_600)
        old = await one.jobs.receive(request_of(1))

        # The job is known for good, so its request is a repeat by whichever id.
        assert (young.kind, old.kind) == ("duplicate", "duplicate_job")
        assert {young.action, old.action} == {"ack_duplicate"}
        await self._put(one, *(outgoing(number, job=number) for number in (1, 2, 3)))
        # Of the second job more may be told: what was told of it is remembered. The last was never
        # sent.
        assert await one.jobs.pending() == [
            outgoing(4, job=1),
            outgoing(1, job=1),
            outgoing(3, job=3),
        ]

    async def test_what_names_nothing_that_comes_is_kept_for_a_while_and_then_forgotten(
        self, one: Stores
    ) -> None:
        await one.jobs.receive(request_of(1))
        await send_package(one, await claimed(one), 1, 1)
        strangers = [
            received(verdict(9, 1), message=20),
            received(verdict(1, 2, package="made up"), message=21),
            received(DecisionMade(DecisionId("unheard of"), "yes", "ada"), message=22),
        ]

        async def kinds() -> list[str | None]:
            return [(await one.jobs.receive(message)).kind for message in strangers]

        first = await kinds()
        await self._forget(one, time.time() - 3_600)
        young = await kinds()
        await self._forget(one, time.time() + 3_600)

        assert first == ["unknown_correlation", "out_of_order", "unknown_correlation"]
        assert young == ["duplicate"] * 3
        assert await kinds() == first

    async def test_a_verdict_on_a_package_that_is_out_is_not_forgotten_however_old_it_is(
        self, one: Stores
    ) -> None:
        await one.jobs.receive(request_of(1))
        job = await claimed(one)
        change = JobChange(
            job.job,
            "running",
            iteration=1,
            package=package_id(1, 1),
            sent=(SentPackage("of a target", 4),),
        )
        await one.journal.append(job.run, [], OutboxWrites(change=change))
        await one.jobs.receive(received(verdict(1, 1), message=20))
        await one.jobs.receive(received(verdict(1, 4, package="of a target"), message=21))

        await self._forget(one, time.time() + 3_600)
        await one.jobs.change(JobChange(job.job, "validating"))

        row = await row_of(one, 1)
        assert (row.state, [one.iteration for one in row.feedback]) == ("queued", [1, 4])

    async def test_many_are_forgotten_a_part_at_a_time(self, one: Stores) -> None:
        many = [outgoing(number, job=None) for number in range(FORGET_PAGE_SIZE + 1)]
        await self._put(one, *many)
        await one.jobs.mark_sent([message.message for message in many])

        parts = await self._forget(one, time.time() + 3_600)
        await self._put(one, *many)

        assert parts == 3
        assert len(await one.jobs.pending(len(many))) == len(many)

    async def _forget(self, stores: Stores, before: float) -> int:
        """Forget all from before an instant; return in how many parts."""
        walk: RetentionCursor | None = RETENTION_START
        parts = 0
        while walk is not None:
            walk = await stores.jobs.forget(before, walk)
            parts += 1
        return parts

    async def _put(self, stores: Stores, *messages: OutgoingMessage) -> None:
        run = RunId("20261121-231907-0b0b0b")
        await stores.journal.append(run, [], OutboxWrites(messages=messages))
