"""Approvals that nobody gave in time are asked for anew.

A question for an approval *expires*; its job stays parked, and whoever answers late is told so. From then on the job
waits for nobody, so the daemon queues it: its run asks again, with a nonce of its own. A question of a planner never
expires, and its job waits as long as it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import anyio

from wavewright.executor.job_store.port import JobStore
from wavewright.executor.job_store.records import Decision, DecisionId, JobChange
from wavewright.executor.journal import Journal
from wavewright.executor.journal_errors import JournalError, RunBusy, RunLost

RENEWAL_POLL_SECONDS: Final = 30.0
"""How often it is looked whether a question has expired."""


@dataclass(frozen=True, slots=True)
class ApprovalRenewal:
    """Queues the jobs whose question nobody may answer any more."""

    jobs: JobStore
    journal: Journal
    clock: Callable[[], float]
    on_fault: Callable[[JournalError], None]
    _renewed: set[DecisionId] = field(default_factory=set[DecisionId])
    """Questions whose jobs were queued here and that are open still."""

    async def run(self) -> None:
        """Look again and again, until this is cancelled."""
        while True:
            try:
                await self.renew()
            except JournalError as fault:
                self.on_fault(fault)
            await anyio.sleep(RENEWAL_POLL_SECONDS)

    async def renew(self) -> int:
        """Queue them and return how many there were.

        A question may stay open that nobody waits for: its run has asked anew since, or has ended otherwise. Its job
        is queued for it once and not again each time that it is parked for another one.
        """
        now, renewed = self.clock(), 0
        found = await self.jobs.list_decisions()
        self._renewed.intersection_update([decision.id for decision in found])
        for decision in newest_by_run(found):
            is_expired = decision.expires is not None and decision.expires <= now
            if is_expired and decision.id not in self._renewed and await self._requeue_job(decision):
                self._renewed.add(decision.id)
                renewed += 1
        return renewed

    async def _requeue_job(self, decision: Decision) -> bool:
        job = await self.jobs.find_job(decision.job)
        if job is None or job.state != "parked":
            return False
        run, is_left = job.run, False
        try:
            await self.journal.open_run(run)
        except RunBusy:
            # Another daemon has seen it first.
            return False
        try:
            job = await self.jobs.find_job(decision.job)
            if job is not None and job.state == "parked":
                await self.jobs.change(
                    JobChange(decision.job, "queued", reason="nobody has answered in time")
                )
                is_left = True
        except RunLost:
            return False
        finally:
            if not is_left:
                # Or nobody could claim the job for as long as this process lives.
                with anyio.CancelScope(shield=True):
                    await self.journal.close_run(run)
        return is_left


def newest_by_run(decisions: list[Decision]) -> list[Decision]:
    """Return the last question of each run: those before it wait for no answer any more."""
    return [*{decision.run: decision for decision in decisions}.values()]
