"""Approvals that nobody gave in time are asked for anew.

A question for an approval *expires*; its job stays waiting, and whoever answers late is told so. From then on the job
waits for nobody, so the daemon queues it: its run asks again, with a nonce of its own. A question of a planner never
expires, and its job waits as long as it takes.

The store does not grow with every message that ever came or went, nor with every run where a time is set for them.

What the ids of messages are remembered for is telling repeats. A message that is older than the settings allow is
refused whatever its id is, so an id that is older still is needed by nobody and is forgotten.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import anyio

from wavewright.config.sections import DAY_SECONDS
from wavewright.config.settings import Settings
from wavewright.engine.operations.logs import StructuredLog
from wavewright.engine.pipeline.run_files import remove_run_files
from wavewright.executor.store.errors import JournalError, RunBusy, RunLost
from wavewright.executor.store.job_records import (
    RETENTION_START,
    Decision,
    DecisionId,
    JobChange,
    RetentionCursor,
)
from wavewright.executor.store.job_store import JobStore
from wavewright.executor.store.journal import Journal
from wavewright.executor.store.retention import remove_groups
from wavewright.executor.stores import removal_of

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
        is queued for it once and not again each time that it is waiting for another one.
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
        if job is None or job.state != "waiting":
            return False
        run, is_left = job.run, False
        try:
            await self.journal.open_run(run)
        except RunBusy:
            # Another daemon has seen it first.
            return False
        try:
            job = await self.jobs.find_job(decision.job)
            if job is not None and job.state == "waiting":
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


PRUNE_POLL_SECONDS: Final = 600.0
"""How often it is looked for what may be forgotten."""
BETWEEN_GROUPS_SECONDS: Final = 0.05
"""Between two parts of it, so that nobody waits for the store."""


@dataclass(frozen=True, slots=True)
class MessageIdRetention:
    """Forgets the ids of messages that are old enough."""

    jobs: JobStore
    seconds: float
    """For which an id is remembered."""
    clock: Callable[[], float]
    on_fault: Callable[[JournalError], None]

    async def run(self) -> None:
        """Look again and again, until this is cancelled."""
        await _repeat(self.prune, PRUNE_POLL_SECONDS, self.on_fault)

    async def prune(self) -> None:
        """Forget all that is old enough by now."""
        before = self.clock() - self.seconds
        cursor: RetentionCursor | None = RETENTION_START
        while cursor is not None:
            cursor = await self.jobs.forget(before, cursor)
            await anyio.sleep(BETWEEN_GROUPS_SECONDS)


@dataclass(frozen=True, slots=True)
class RunRetention:
    """Removes runs that ended longer ago than the settings keep them, with their files on this machine."""

    journal: Journal
    settings: Settings
    clock: Callable[[], float]
    log: StructuredLog
    on_fault: Callable[[JournalError], None]

    async def run(self) -> None:
        """Remove what is old enough, at once and each day, until this is cancelled; nothing where no time is set."""
        if self.settings.retention is not None:
            await _repeat(self.prune, DAY_SECONDS, self.on_fault)

    async def prune(self) -> None:
        """Remove all that is old enough by now, a group of runs at a time."""
        assert self.settings.retention is not None
        before = self.clock() - self.settings.retention
        runs, size = 0, 0
        try:
            async for removed in remove_groups(removal_of(self.journal), before):
                runs += len(removed.runs)
                size += removed.bytes
                size += await anyio.to_thread.run_sync(remove_run_files, self.settings, removed.runs)
        finally:
            if runs:
                self.log.write("runs_removed", runs=runs, bytes=size)


async def _repeat(
    work: Callable[[], Awaitable[None]], pause: float, on_fault: Callable[[JournalError], None]
) -> None:
    while True:
        try:
            await work()
        except JournalError as fault:
            on_fault(fault)
        await anyio.sleep(pause)
