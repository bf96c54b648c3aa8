"""The job store in the journal's database.

It works through the journal's own thread and on its connection, so that the holds on runs are kept in one place:
whoever claims a job has its run open in that journal. All times are by the database's clock.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import anyio

from wavewright.executor.postgres.driver import Connection
from wavewright.executor.postgres.job_tables import PostgresJobTables
from wavewright.executor.postgres.job_transactions import ClaimedJob, PostgresJobTransactions
from wavewright.executor.postgres.journal import PostgresJournal
from wavewright.executor.postgres.outbox import PostgresOutboxTables
from wavewright.executor.postgres.retention import forget_messages
from wavewright.executor.postgres.writer import LAST_ORDER, job_lock_order
from wavewright.executor.store.errors import JournalError
from wavewright.executor.store.job_records import (
    RETENTION_START,
    Decision,
    DecisionId,
    DecisionMade,
    JobChange,
    JobId,
    JobRequested,
    JobRow,
    JobState,
    MessageId,
    OutgoingMessage,
    Receipt,
    ReceivedMessage,
    RetentionCursor,
)
from wavewright.executor.store.job_rows import job_of_request
from wavewright.executor.store.job_store import OUTBOX_LEASE_SECONDS, ProjectJob, project_nothing
from wavewright.planner.types import RunId

_T = TypeVar("_T")


class PostgresJobStore:
    """Jobs, decisions, inbox and outbox beside an open journal; there is nothing of its own to close."""

    def __init__(self, journal: PostgresJournal, *, outbox_lease: float = OUTBOX_LEASE_SECONDS) -> None:
        """Keep jobs in the journal's database, as the journal's owner.

        Args:
            journal: The open journal, which holds the runs of claimed jobs.
            outbox_lease: Seconds for which messages of the outbox are this owner's to publish.
        """
        self._journal = journal
        self._store = journal.store
        self._outbox_lease = outbox_lease
        self._do = PostgresJobTransactions(journal.store)
        self._new = 0
        """Jobs that came in here and were not claimed since; so many claims find something and need not look first."""

    async def receive(self, message: ReceivedMessage, tell: ProjectJob = project_nothing) -> Receipt:
        """Judge a message and take its effect, with its inbox row and what is told of it, in one transaction.

        Raises:
            JournalError: nothing was written; the message must not be acknowledged.
        """
        caller = _GuardedProjection(tell)
        receipt = await caller.result(
            self._journal.transact(
                partial(self._do.receive, message=message, tell=caller.project),
                place=job_lock_order(job_of_request(message.request)),
            )
        )
        if receipt.action == "accept" and isinstance(message.request, JobRequested):
            self._new += 1
        return receipt

    async def claim(
        self, *, most_weight: float | None = None, tell: ProjectJob = project_nothing
    ) -> JobRow | None:
        """Take the next job that may be worked on and hold its run; none where there is nothing to do.

        Raises:
            JournalError: nothing was written.
        """
        # Looking costs the database no commit, and nothing to do is what a daemon finds most of the time.
        if not self._new and not await self._read(partial(self._do.may_claim, most_weight=most_weight)):
            return None
        self._new = max(0, self._new - 1)
        caller = _GuardedProjection(tell)
        work = partial(self._do.claim, most_weight=most_weight, tell=caller.project)
        # Else a cancellation would leave the job held, and nobody would know of it.
        claimed = await caller.result(
            self._shielded(self._journal.transact(work, self._note, place=LAST_ORDER))
        )
        return None if claimed is None else claimed.job

    def _note(self, claimed: ClaimedJob | None) -> None:
        if claimed is not None:
            self._store.note_acquired(claimed.job.run, claimed.held)

    async def change(self, change: JobChange, tell: ProjectJob = project_nothing) -> None:
        """Say how a job stands that is held here, and give its run up unless it is `running` still.

        Raises:
            RunLost: another owner has it, or it is not held here.
            JournalError: its events could not be written, or it has ended otherwise.
        """
        caller = _GuardedProjection(tell)
        work = partial(self._do.change, change=change, tell=caller.project)
        await caller.result(self._journal.transact(work, self._drop, place=job_lock_order(change.job)))

    def _drop(self, run: RunId | None) -> None:
        if run is not None:
            self._store.note_released(run)

    async def find_job(self, job: JobId) -> JobRow | None:
        """Return one job."""
        return await self._read(partial(self._do.find_job, job=job))

    async def list_jobs(self, states: Sequence[JobState] = ()) -> list[JobRow]:
        """Return jobs in the order in which they came; all states where none is given."""
        return await self._read(partial(self._do.list_jobs, states=states))

    async def list_decisions(self, *, is_open: bool = True, job: JobId | None = None) -> list[Decision]:
        """Return decisions in the order in which they were asked: open ones, or answered ones; all jobs' or one's."""
        return await self._read(
            lambda connection: PostgresJobTables(connection).list_decisions(is_open=is_open, job=job)
        )

    async def find_decision(self, prefix: str) -> Decision | None:
        """Return the one decision whose id starts so.

        Raises:
            JournalError: several do.
        """
        return await self._read(partial(self._do.find_decision, prefix=prefix))

    async def decide(self, made: DecisionMade, tell: ProjectJob = project_nothing) -> Receipt:
        """Take a person's answer, or say why not; queues the parked job.

        Raises:
            JournalError: nothing was written.
        """
        caller = _GuardedProjection(tell)
        return await caller.result(
            self._journal.transact(
                partial(self._do.decide, made=made, tell=caller.project), place=job_lock_order(None)
            )
        )

    async def take_answer(self, decision: DecisionId) -> Decision | None:
        """Return an answered decision that was not taken before and has not expired, and mark it as taken."""
        work = partial(self._do.take_answer, decision=decision)
        return await self._shielded(self._journal.transact(work, place=job_lock_order(None)))

    async def pending(self, most: int = 100) -> list[OutgoingMessage]:
        """Return messages of the outbox in their order, and lease them to this owner for a few seconds."""
        if not await self._read(lambda connection: PostgresOutboxTables(connection).has_messages()):
            return []
        owner, lease = self._store.session.owner.token, self._outbox_lease
        return await self._journal.transact(
            lambda connection, _: PostgresOutboxTables(connection).lease(owner, lease, most)
        )

    async def renew(self, messages: Sequence[MessageId]) -> None:
        """Lease messages that this owner has leased for as long again."""
        owner = self._store.session.owner.token
        await self._journal.transact(
            lambda connection, _: PostgresOutboxTables(connection).renew(owner, messages)
        )

    async def mark_sent(self, messages: Sequence[MessageId]) -> None:
        """Note that the broker has confirmed these messages."""
        await self._journal.transact(
            lambda connection, _: PostgresOutboxTables(connection).mark_sent(messages)
        )

    async def mark_refused(self, message: MessageId, reason: str) -> None:
        """Keep a message that the broker cannot deliver out of the way until somebody looks."""
        await self._journal.transact(
            lambda connection, _: PostgresOutboxTables(connection).mark_refused(message, reason)
        )

    async def list_refused(self) -> list[OutgoingMessage]:
        """Return the messages that the broker could not deliver, in their order."""
        return await self._read(lambda connection: PostgresOutboxTables(connection).list_refused())

    async def release(self, messages: Sequence[MessageId]) -> None:
        """Have messages that were refused go out again."""
        await self._journal.transact(lambda connection, _: PostgresOutboxTables(connection).release(messages))

    async def forget(
        self, before: float, beyond: RetentionCursor = RETENTION_START
    ) -> RetentionCursor | None:
        """Forget the ids of messages that were taken in, or went out, before an instant; return where to go on."""
        return await self._journal.transact(lambda connection, _: forget_messages(connection, before, beyond))

    async def count_states(self) -> dict[JobState, int]:
        """Return how many jobs are in each state."""
        return await self._read(self._do.count_states)

    async def _read(self, ask: Callable[[Connection], Awaitable[_T]]) -> _T:
        return await self._journal.query(lambda: self._store.session.read(ask))

    @staticmethod
    async def _shielded(work: Awaitable[_T]) -> _T:
        """Return what the work brings even to who is cancelled meanwhile; it takes as long as one transaction."""
        brought = list[_T]()
        with anyio.CancelScope(shield=True):
            brought.append(await work)
        return brought[0]


class _ProjectionFailed(JournalError):
    """What a caller's `tell` raised, on its way out of the transaction."""


class _GuardedProjection:
    """Keeps a fault of a caller's `tell` for that caller: it undoes the transaction, and nobody else pays for it."""

    def __init__(self, tell: ProjectJob) -> None:
        self._project = tell
        self._faults = list[Exception]()

    def project(self, job: JobRow) -> Sequence[OutgoingMessage]:
        """Tell of a job, on the journal's thread."""
        try:
            return self._project(job)
        except Exception as error:
            self._faults.append(error)
            raise _ProjectionFailed("what is told of a job could not be made") from error

    async def result(self, work: Awaitable[_T]) -> _T:
        """Return what comes of the work, or raise what the caller's own `tell` did."""
        try:
            return await work
        except _ProjectionFailed:
            raise self._faults[-1] from None
