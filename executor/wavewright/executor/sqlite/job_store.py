"""The job store in the journal's file.

It works through the journal's own writer thread and on its connection, so that the holds on runs are kept in one
place: whoever claims a job has its run open in that journal. Whatever is wanted while the last transaction is written
is the next one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import anyio

from wavewright.executor.sqlite.job_transactions import SqliteJobTransactions
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.executor.store.job_records import (
    RETENTION_START,
    Decision,
    DecisionId,
    DecisionMade,
    JobChange,
    JobId,
    JobRow,
    JobState,
    MessageId,
    OutgoingMessage,
    Receipt,
    ReceivedMessage,
    RetentionCursor,
)
from wavewright.executor.store.job_store import OUTBOX_LEASE_SECONDS, ProjectJob, project_nothing

_T = TypeVar("_T")


class SqliteJobStore:
    """Jobs, decisions, inbox and outbox beside an open journal; there is nothing of its own to close."""

    def __init__(
        self,
        journal: SqliteJournal,
        *,
        clock: Callable[[], float] = time.time,
        outbox_lease: float = OUTBOX_LEASE_SECONDS,
    ) -> None:
        """Keep jobs in the journal's file, as the journal's owner.

        Args:
            journal: The open journal, which holds the runs of claimed jobs.
            clock: Seconds since the epoch.
            outbox_lease: Seconds for which messages of the outbox are this owner's to publish.
        """
        self._journal = journal
        self._do = SqliteJobTransactions(journal.store, clock=clock, outbox_lease=outbox_lease)

    async def receive(self, message: ReceivedMessage, tell: ProjectJob = project_nothing) -> Receipt:
        """Judge a message and take its effect, with its inbox row and what is told of it, in one transaction.

        Raises:
            JournalError: nothing was written; the message must not be acknowledged.
        """
        return await self._journal.transact(partial(self._do.receive, message, tell))

    async def claim(
        self, *, most_weight: float | None = None, tell: ProjectJob = project_nothing
    ) -> JobRow | None:
        """Take the next job that may be worked on and hold its run; none where there is nothing to do.

        Raises:
            JournalError: nothing was written.
        """
        # Else a cancellation would leave the job held, and nobody would know of it.
        return await self._shielded(partial(self._do.claim, most_weight, tell))

    async def change(self, change: JobChange, tell: ProjectJob = project_nothing) -> None:
        """Say how a job stands that is held here, and give its run up unless it is `running` still.

        Raises:
            RunLost: another owner has it, or it is not held here.
            JournalError: its events could not be written, or it has ended otherwise.
        """
        await self._journal.transact(partial(self._do.change, change, tell))

    async def find_job(self, job: JobId) -> JobRow | None:
        """Return one job."""
        return await self._journal.transact(partial(self._do.find_job, job))

    async def list_jobs(self, states: Sequence[JobState] = ()) -> list[JobRow]:
        """Return jobs in the order in which they came; all states where none is given."""
        return await self._journal.transact(partial(self._do.list_jobs, states))

    async def list_decisions(self, *, is_open: bool = True, job: JobId | None = None) -> list[Decision]:
        """Return decisions in the order in which they were asked: open ones, or answered ones; all jobs' or one's."""
        return await self._journal.transact(partial(self._do.list_decisions, is_open=is_open, job=job))

    async def find_decision(self, prefix: str) -> Decision | None:
        """Return the one decision whose id starts so.

        Raises:
            JournalError: several do.
        """
        return await self._journal.transact(partial(self._do.find_decision, prefix))

    async def decide(self, made: DecisionMade, tell: ProjectJob = project_nothing) -> Receipt:
        """Take a person's answer, or say why not; queues the parked job.

        Raises:
            JournalError: nothing was written.
        """
        return await self._journal.transact(partial(self._do.decide, made, tell))

    async def take_answer(self, decision: DecisionId) -> Decision | None:
        """Return an answered decision that was not taken before and has not expired, and mark it as taken."""
        return await self._shielded(partial(self._do.take_answer, decision))

    async def pending(self, most: int = 100) -> list[OutgoingMessage]:
        """Return messages of the outbox in their order, and lease them to this owner for a few seconds."""
        return await self._journal.transact(partial(self._do.pending, most))

    async def renew(self, messages: Sequence[MessageId]) -> None:
        """Lease messages that this owner has leased for as long again."""
        await self._journal.transact(partial(self._do.renew, messages))

    async def mark_sent(self, messages: Sequence[MessageId]) -> None:
        """Note that the broker has confirmed these messages."""
        await self._journal.transact(partial(self._do.mark_sent, messages))

    async def mark_refused(self, message: MessageId, reason: str) -> None:
        """Keep a message that the broker cannot deliver out of the way until somebody looks."""
        await self._journal.transact(partial(self._do.mark_refused, message, reason))

    async def list_refused(self) -> list[OutgoingMessage]:
        """Return the messages that the broker could not deliver, in their order."""
        return await self._journal.transact(self._do.list_refused)

    async def release(self, messages: Sequence[MessageId]) -> None:
        """Have messages that were refused go out again."""
        await self._journal.transact(partial(self._do.release, messages))

    async def forget(
        self, before: float, beyond: RetentionCursor = RETENTION_START
    ) -> RetentionCursor | None:
        """Forget the ids of messages that were taken in, or went out, before an instant; return where to go on."""
        return await self._journal.transact(partial(self._do.forget, before, beyond))

    async def count_states(self) -> dict[JobState, int]:
        """Return how many jobs are in each state."""
        return await self._journal.transact(self._do.count_states)

    async def _shielded(self, grant: Callable[[], _T]) -> _T:
        """Return what a wish brings even to who is cancelled meanwhile; it takes as long as one transaction."""
        brought = list[_T]()
        with anyio.CancelScope(shield=True):
            brought.append(await self._journal.transact(grant))
        return brought[0]
