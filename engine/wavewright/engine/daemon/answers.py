"""Whoever a job's run asks: people who answer through the job store, perhaps days later.

An answer that is there already is given; where there is none the run parks. It is taken in the transaction in which
the run journals it, so one answer is used once, and an approval only for exactly what was asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wavewright.engine.approvals import APPROVE, matches_binding
from wavewright.engine.context import ApprovalRequest
from wavewright.engine.daemon.outbox_journal import OutboxJournal
from wavewright.engine.daemon.parking import MAX_QUESTION_LENGTH
from wavewright.executor.job_store.port import JobStore
from wavewright.executor.job_store.records import Decision
from wavewright.planner.planning import UserQuestion
from wavewright.planner.types import RunId


@dataclass(frozen=True, slots=True)
class StoredAnswers:
    """Approver and asker of one job."""

    jobs: JobStore
    journal: OutboxJournal
    clock: Callable[[], float]
    run: RunId
    """Whose questions are answered: the job's run, or that of one of its targets."""

    async def ask(self, question: UserQuestion) -> str | None:
        """Return what a person has answered to the question that the run waits with."""
        wanted = self.journal.open_decision_of(self.run)
        asked = question.question[:MAX_QUESTION_LENGTH]
        if wanted is None or wanted.subject != "question" or wanted.question != asked:
            return None
        return await self._stored_choice(wanted)

    async def approve(self, request: ApprovalRequest) -> bool | None:
        """Return a person's word for exactly this plan or patch."""
        wanted = self.journal.open_decision_of(self.run)
        if (
            wanted is None
            or wanted.subject != request.subject
            or not matches_binding(wanted.binding, request.binding)
        ):
            return None
        choice = await self._stored_choice(wanted)
        return None if choice is None else choice == APPROVE

    async def _stored_choice(self, wanted: Decision) -> str | None:
        known = await self.jobs.find_decision(wanted.id)
        if known is None or known.used is not None or self._has_expired(known):
            return None
        return known.choice

    def _has_expired(self, decision: Decision) -> bool:
        return decision.expires is not None and self.clock() >= decision.expires


async def discard_stale_answers(jobs: JobStore, journal: OutboxJournal) -> None:
    """Use up the answers to what a job asks no more: with one of them left it would never stay parked."""
    wanted = {decision.id for decision in journal.open_decisions}
    for decision in await jobs.list_decisions(is_open=False, job=journal.job):
        if decision.used is None and decision.id not in wanted:
            await jobs.take_answer(decision.id)
