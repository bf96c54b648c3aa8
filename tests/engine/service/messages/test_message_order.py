"""The messages of one job, in every order (here a third of them) and each of them twice: the end is
the same.
"""

from __future__ import annotations

from itertools import permutations
from uuid import UUID

import pytest

from tests.crash.run_size import volume
from wavewright.engine.service.job_store.outbox_writes import OutboxWrites
from wavewright.engine.service.job_store.records import (
    Decision,
    DecisionId,
    DecisionMade,
    JobChange,
    JobId,
    JobRequested,
    JobRow,
    MessageId,
    ReceivedMessage,
    Request,
    VerdictGiven,
)
from wavewright.engine.service.job_store.stores import Stores
from wavewright.engine.service.messages.models import decision_id, package_id


def question_of(job: JobId) -> DecisionId:
    return decision_id(job, "question", "Which way?")


def verdict(job: JobId, iteration: int, *, accepted: bool) -> VerdictGiven:
    return VerdictGiven(job, package_id(job, iteration), iteration, accepted)


def messages_of(job: JobId) -> list[ReceivedMessage]:
    requests: list[Request] = [
        JobRequested(job, {}),
        DecisionMade(question_of(job), "north", "ada"),
        verdict(job, 1, accepted=False),
        # These two contradict each other: which of them comes first does decide.
        verdict(job, 2, accepted=True),
        verdict(job, 2, accepted=False),
    ]
    return [
        ReceivedMessage(MessageId(f"{job} {number}"), "any", "somebody", 0.0, request)
        for number, request in enumerate(requests)
    ]


class Daemon:
    """Does what a daemon would: asks its question, then sends a package, and another one for each
    verdict.
    """

    def __init__(self, stores: Stores) -> None:
        self._journal = stores.journal
        self.jobs = stores.jobs

    async def take(self, received: ReceivedMessage) -> None:
        receipt = await self.jobs.receive(received)
        assert receipt.action != "dead_letter"
        while (job := await self.jobs.claim()) is not None:
            await self._work(job)

    async def _work(self, job: JobRow) -> None:
        question = question_of(job.job)
        known = await self.jobs.find_decision(question)
        if known is None or known.choice is None:
            asked = Decision(
                id=question, job=job.job, run=job.run, subject="question", question="Which way?"
            )
            await self._journal.append(job.run, [], OutboxWrites(decisions=(asked,)))
            await self.jobs.change(JobChange(job.job, "waiting"))
            return
        if known.used is None:
            await self._journal.append(job.run, [], OutboxWrites(taken=(question,)))
        iteration = job.iteration + 1
        await self.jobs.change(
            JobChange(
                job.job, "validating", iteration=iteration, package=package_id(job.job, iteration)
            )
        )

    async def end_of(self, job: JobId) -> tuple[object, ...]:
        """Return all that is left of a job when everything has come."""
        row = await self.jobs.find_job(job)
        decision = await self.jobs.find_decision(question_of(job))
        assert row is not None
        assert decision is not None
        return row.state, row.iteration, row.package, row.feedback, decision.choice, decision.by


@pytest.mark.anyio
@pytest.mark.parametrize("first", range(5))
async def test_any_order_of_the_messages_of_a_job_leads_to_the_same_end(
    first: int, stores: Stores
) -> None:
    orders = [order for order in permutations(range(5)) if order[0] == first][:: volume(3, 1)]

    daemon = Daemon(stores)
    for number, order in enumerate(orders):
        job = JobId(str(UUID(int=number)))
        messages = messages_of(job)
        for place in order:
            await daemon.take(messages[place])
            await daemon.take(messages[place])

        is_accepted = order.index(3) < order.index(4)
        state, packages = ("completed", 2) if is_accepted else ("validating", 3)
        verdicts = (verdict(job, 1, accepted=False), verdict(job, 2, accepted=is_accepted))
        end = (state, packages, package_id(job, packages), verdicts, "north", "ada")
        assert await daemon.end_of(job) == end, order
