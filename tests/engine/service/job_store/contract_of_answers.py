"""What every job store promises of verdicts and decisions: in any order, once, and not too late."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.engine.service.job_store.job_examples import (
    StoresTestCase,
    claimed,
    decision_of,
    job_id,
    package_id,
    project_state,
    published_states,
    received,
    request_of,
    row_of,
    send_package,
    uuid,
    verdict,
)
from tests.executor.event_examples import step_finished
from wavewright.engine.service.job_store.outbox_writes import OutboxWrites
from wavewright.engine.service.job_store.records import (
    Decision,
    DecisionId,
    DecisionMade,
    JobChange,
    JobRow,
    Receipt,
    SentPackage,
    VerdictGiven,
)
from wavewright.engine.service.job_store.stores import Stores
from wavewright.executor.store.errors import JournalError
from wavewright.planner.types import RunId


@pytest.mark.anyio
class AnswersContract(StoresTestCase):
    """Part of `JobStoreContract`."""

    # -- verdicts

    async def test_a_verdict_on_the_package_in_hand_ends_the_job(self, one: Stores) -> None:
        await one.jobs.receive(request_of(1))
        await send_package(one, await claimed(one), 1, 1)

        receipt = await one.jobs.receive(
            received(verdict(1, 1, accepted=True, feedback=()), message=20), project_state
        )

        row = await row_of(one, 1)
        assert receipt == Receipt("accept")
        assert (row.state, row.iteration, row.feedback) == (
            "completed", 1, (verdict(1, 1, accepted=True, feedback=()),),
        )  # fmt: skip
        assert (await published_states(one))[-1] == "completed"

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
        await one.journal.append(job.run, [step_finished("a")], OutboxWrites(change=change))

        receipt = await one.jobs.receive(
            received(verdict(1, 1, accepted=True), message=20), project_state
        )
        again = await one.jobs.receive(
            received(verdict(1, 1, accepted=True), message=21), project_state
        )
        while_running = await row_of(one, 1)
        await one.jobs.change(JobChange(job.job, "validating"), project_state)

        assert (receipt.action, again.action) == ("accept", "ack_duplicate")
        assert (while_running.state, while_running.feedback) == ("running", ())
        assert (await row_of(one, 1)).state == "completed"
        assert await published_states(one) == ["validating", "completed"]

    async def test_messages_of_a_job_in_any_order_lead_to_the_same_end(self, one: Stores) -> None:
        late = [
            received(verdict(1, 2, accepted=True), message=21),
            received(verdict(1, 1), message=20),
        ]
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
        change = JobChange(job.job, "validating", iteration=1, package=package_id(1, 1))
        await one.journal.append(job.run, [step_finished("a")], OutboxWrites(change=change))

        assert (await claimed(one, 1)).feedback == (verdict(1, 1),)

    async def test_a_verdict_on_an_earlier_package_or_an_ended_job_changes_nothing(
        self, one: Stores
    ) -> None:
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

    async def test_each_package_of_a_target_has_a_verdict_of_its_own_and_the_job_always_goes_on(
        self, one: Stores
    ) -> None:
        await one.jobs.receive(request_of(1))
        job = await claimed(one)
        # It overtakes its package.
        early = await one.jobs.receive(received(of_target("C", accepted=True), message=20))
        await send_targets(one, job, "A", "B", "C")
        while_running = await one.jobs.receive(received(of_target("B"), message=21))
        before = await row_of(one, 1)
        await one.jobs.change(JobChange(job.job, "validating"))
        again = await claimed(one, 1)

        assert (early.action, while_running.action) == ("defer", "accept")
        assert before.feedback == ()
        assert [given.package for given in again.feedback] == ["C", "B"]
        assert again.sent == (SentPackage("A", 1),)

    async def test_verdicts_on_targets_that_are_wrong_late_or_doubled_change_nothing(
        self, one: Stores
    ) -> None:
        await one.jobs.receive(request_of(1))
        job = await claimed(one)
        await send_targets(one, job, "A", "B")
        await one.jobs.change(JobChange(job.job, "waiting"))
        first = await one.jobs.receive(received(of_target("A"), message=20))
        second = await one.jobs.receive(received(of_target("B", accepted=True), message=21))
        before = await row_of(one, 1)
        wrong = [
            await one.jobs.receive(received(of_target("A", accepted=True), message=22)),
            await one.jobs.receive(received(of_target("never sent"), message=23)),
        ]
        after = await row_of(one, 1)
        job = await claimed(one, 1)
        change = JobChange(job.job, "validating", sent=(SentPackage("A again", 2),))
        await one.journal.append(job.run, [step_finished("b")], OutboxWrites(change=change))
        wrong += [await one.jobs.receive(received(of_target("A again", 3), message=24))]

        assert (first.action, second.action, before.state) == ("accept", "accept", "queued")
        assert [receipt.action for receipt in wrong] == ["ack_duplicate", "defer", "dead_letter"]
        assert after == before
        assert (await row_of(one, 1)).state == "validating"

    # -- decisions

    async def test_a_waiting_job_goes_on_with_the_answer(self, one: Stores, other: Stores) -> None:
        await one.jobs.receive(request_of(1))
        job = await claimed(one)
        asked = decision_of(1, job.run)
        await one.journal.append(
            job.run,
            [step_finished("a")],
            OutboxWrites(decisions=(asked,), change=JobChange(job.job, "waiting")),
        )
        while_waiting = await other.jobs.claim()

        receipt = await other.jobs.decide(DecisionMade(asked.id, "yes", "ada"), project_state)

        assert while_waiting is None
        assert receipt.action == "accept"
        assert await published_states(other) == ["queued"]
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

        await one.journal.append(run, [step_finished("a")], OutboxWrites(taken=(asked.id,)))

        assert await one.jobs.take_answer(asked.id) is None
        with pytest.raises(JournalError, match="cannot be taken"):
            await one.journal.append(run, [step_finished("b")], OutboxWrites(taken=(asked.id,)))
        assert await one.journal.load(run) == [step_finished("a")]

    async def test_the_first_answer_stands(self, one: Stores) -> None:
        asked = await self._ask(one)

        receipts = [
            await one.jobs.decide(DecisionMade(asked.id, choice, "ada"))
            for choice in ("maybe", "yes", "no")
        ]

        assert [receipt.action for receipt in receipts] == [
            "dead_letter",
            "accept",
            "ack_duplicate",
        ]
        found = await one.jobs.find_decision(asked.id)
        assert found is not None
        assert found.choice == "yes"

    async def test_an_expired_decision_takes_no_answer(self, one: Stores) -> None:
        asked = await self._ask(one, expires=1.0)

        receipt = await one.jobs.decide(DecisionMade(asked.id, "yes", "ada"))

        assert receipt.action == "ignore_stale"
        assert await one.jobs.take_answer(asked.id) is None

    async def test_an_answer_that_the_broker_got_in_time_counts_however_late_it_is_read(
        self, one: Stores
    ) -> None:
        asked = await self._ask(one, expires=1_000.0)
        made = DecisionMade(asked.id, "yes", "ada")
        late = replace(received(made, message=8), arrived=1_000.0)
        in_time = replace(received(made, message=9), arrived=999.0)

        receipts = [(await one.jobs.receive(message)).action for message in (late, in_time)]
        taken = await one.jobs.take_answer(asked.id)

        assert receipts == ["ignore_stale", "accept"]
        assert taken is not None
        assert taken.choice == "yes"

    async def test_an_answer_to_an_unknown_decision_is_refused_at_the_command_line(
        self, one: Stores
    ) -> None:
        receipt = await one.jobs.decide(DecisionMade(DecisionId(uuid(4)), "yes", "ada"))

        assert (receipt.action, receipt.kind) == ("dead_letter", "unknown_correlation")

    async def test_an_answer_that_comes_before_its_job_waits_is_there_when_it_does(
        self, one: Stores
    ) -> None:
        asked = await self._ask(one)

        await one.jobs.receive(received(DecisionMade(asked.id, "yes", "ada"), message=20))
        while_running = await row_of(one, 1)
        await one.jobs.change(JobChange(job_id(1), "waiting"))

        assert while_running.state == "running"
        assert (await row_of(one, 1)).state == "queued"

    async def test_an_answer_that_overtakes_its_question_is_taken_when_it_is_asked(
        self, one: Stores
    ) -> None:
        await one.jobs.receive(
            received(DecisionMade(decision_of(1, RunId("r")).id, "yes", "ada"), message=20)
        )
        asked = await self._ask(one)
        await one.jobs.change(JobChange(job_id(1), "waiting"))

        await claimed(one, 1)

        taken = await one.jobs.take_answer(asked.id)
        assert taken is not None
        assert taken.choice == "yes"

    async def test_the_same_question_is_asked_once(self, one: Stores) -> None:
        asked = await self._ask(one)
        await one.jobs.decide(DecisionMade(asked.id, "yes", "ada"))

        await one.journal.append(asked.run, [], OutboxWrites(decisions=(asked,)))

        assert await one.jobs.list_decisions() == []
        assert [decision.id for decision in await one.jobs.list_decisions(is_open=False)] == [
            asked.id
        ]

    async def test_a_decision_is_found_by_the_beginning_of_its_id(self, one: Stores) -> None:
        asked = await self._ask(one)
        far = DecisionId("f" + asked.id[1:])
        other = Decision(far, asked.job, asked.run, "question", "And?", asked=8.0)
        await one.journal.append(asked.run, [], OutboxWrites(decisions=(other,)))

        assert await one.jobs.find_decision("f0") == other
        assert await one.jobs.find_decision("f1") is None
        assert await one.jobs.find_decision("") is None
        assert await one.jobs.find_decision("%") is None
        assert await one.jobs.list_decisions() == [asked, other]
        assert await one.jobs.list_decisions(job=asked.job) == [asked, other]
        assert await one.jobs.list_decisions(job=job_id(2)) == []

    async def test_an_ambiguous_beginning_of_an_id_is_told(self, one: Stores) -> None:
        asked = await self._ask(one)
        second = decision_of(1, asked.run, id_=2)
        await one.journal.append(asked.run, [], OutboxWrites(decisions=(second,)))

        with pytest.raises(JournalError, match="2 decisions start with '0000'"):
            await one.jobs.find_decision("0000")

    async def _ask(self, stores: Stores, *, expires: float | None = None) -> Decision:
        """Let job 1 ask a question while it runs."""
        await stores.jobs.receive(request_of(1))
        job = await claimed(stores, 1)
        asked = decision_of(1, job.run, expires=expires)
        await stores.journal.append(job.run, [], OutboxWrites(decisions=(asked,)))
        return asked


def of_target(package: str, iteration: int = 1, *, accepted: bool = False) -> VerdictGiven:
    return verdict(1, iteration, package=package, accepted=accepted)


async def send_targets(one: Stores, job: JobRow, *packages: str) -> None:
    """Send the first packages of targets while their job goes on."""
    for package in packages:
        change = JobChange(job.job, "running", sent=(SentPackage(package, 1),))
        await one.journal.append(job.run, [step_finished(package)], OutboxWrites(change=change))
