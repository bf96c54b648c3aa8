"""Whoever a job's run asks: people who answer through the job store, perhaps days later.

An answer that is there already is given; where there is none the run parks. It is taken in the transaction in which
the run journals it, so one answer is used once, and an approval only for exactly what was asked.
"""

from __future__ import annotations

from dataclasses import dataclass

from wavewright.engine.context import ApprovalRequest
from wavewright.engine.daemon.outbox_journal import OutboxJournal
from wavewright.engine.daemon.parking import APPROVE
from wavewright.executor.job_store.port import JobStore
from wavewright.executor.job_store.records import Decision
from wavewright.planner.planning import UserQuestion


@dataclass(frozen=True, slots=True)
class Answers:
    """Approver and asker of one job."""

    jobs: JobStore
    journal: OutboxJournal

    async def ask(self, question: UserQuestion) -> str | None:
        """Return what a person has answered to the question that the run waits with."""
        wanted = self.journal.wanted
        if wanted is None or wanted.subject != "question" or wanted.question != question.question:
            return None
        return await self._choice(wanted)

    async def approve(self, request: ApprovalRequest) -> bool | None:
        """Return a person's word for exactly this plan or patch."""
        wanted = self.journal.wanted
        if wanted is None or wanted.subject != request.subject or wanted.binding != request.binding:
            return None
        choice = await self._choice(wanted)
        return None if choice is None else choice == APPROVE

    async def _choice(self, wanted: Decision) -> str | None:
        known = await self.jobs.find_decision(wanted.id)
        return None if known is None or known.used is not None else known.choice
