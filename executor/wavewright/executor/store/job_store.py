"""Jobs that outlive processes: what came in, what is being done, whom is waited for, what must be published.

The job store lies beside the journal in one database and works through the journal's thread, so that a run's events and
the messages that they cause are one transaction. Everything that returns is durable. A job is worked on by whoever
holds the lease of its root run: `claim` opens that run for this owner, the journal's heartbeat keeps the lease, and
every write of a job checks its fence, so that an owner who was replaced writes nothing more. Attempts are counted
before the work, so a job that ends its process is counted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import anyio

from wavewright.executor.store import job_transactions
from wavewright.executor.store.commands import (
    ANY_ORDER,
    LAST_ORDER,
    SEPARATE,
    LockOrder,
    job_lock_order,
)
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
from wavewright.executor.store.job_rules import ProjectJob, project_nothing
from wavewright.executor.store.job_tables import JobTables
from wavewright.executor.store.transaction import TransactionWork

OUTBOX_LEASE_SECONDS: Final = 5.0
"""Seconds for which messages of the outbox are one owner's to publish."""

_T = TypeVar("_T")


class TransactionalJournal(Protocol):
    """What the job store needs of an open journal."""

    def transact(self, work: TransactionWork[_T], *, order: LockOrder = ANY_ORDER) -> Coroutine[Any, Any, _T]:
        """Return what the work does in one transaction, after all that was appended before."""
        ...

    async def read(self, ask: TransactionWork[_T]) -> _T:
        """Return an answer of the store, after all that was appended before; it may be asked twice."""
        ...


class JobStore:
    """Jobs, decisions, inbox and outbox beside an open journal; there is nothing of its own to close."""

    def __init__(self, journal: TransactionalJournal, *, outbox_lease: float = OUTBOX_LEASE_SECONDS) -> None:
        """Keep jobs beside the journal, as the journal's owner.

        Args:
            journal: The open journal, which holds the runs of claimed jobs.
            outbox_lease: Seconds for which messages of the outbox are this owner's to publish.
        """
        self._journal = journal
        self._outbox_lease = outbox_lease
        self._claims = job_transactions.JobClaims()
        self._new = 0
        """Jobs that came in here and were not claimed since; so many claims find something and need not look first."""

    async def receive(self, message: ReceivedMessage, project: ProjectJob = project_nothing) -> Receipt:
        """Judge a message and apply its effect, with its inbox row and its projection, in one transaction.

        A message id that was seen before has no effect. A verdict that answers the package in hand ends the job or
        queues it again; an answer queues its waiting job again. `project` is asked where a job changed. A verdict that
        comes before its job awaits it, and what the rule defers, is kept: it has its effect when `change` or `claim`
        finds that its turn has come. Only messages that had an effect or are kept are remembered by their id, so
        that one which was refused is judged again when it is sent again.

        Raises:
            JournalError: nothing was written; the message must not be acknowledged.
        """
        guarded = _GuardedProjection(project)
        work = partial(job_transactions.receive, message=message, project=guarded.project)
        job = job_of_request(message.request)
        order = SEPARATE if job is None else job_lock_order(job)
        receipt = await guarded.result(self._journal.transact(work, order=order))
        if receipt.action == "accept" and isinstance(message.request, JobRequested):
            self._new += 1
        return receipt

    async def claim(
        self, *, most_weight: float | None = None, project: ProjectJob = project_nothing
    ) -> JobRow | None:
        """Begin the next job that may be worked on and hold its run; None where there is nothing to do.

        Those are `queued` ones whose time has come and `running` ones whose owner is gone, the longest waiting
        first, with small ones before large ones that came a little earlier. A job that was begun `MAX_ATTEMPTS`
        times becomes `dead` instead, `project` is asked about it, and the next one is looked at. Of jobs that were
        begun `TRUSTED_ATTEMPTS` times and did not advance, an owner is given one at a time, until it has advanced.
        Messages whose turn has come have their effect first. It never waits: an owner who may be dead is probed from
        one call to the next.

        Raises:
            JournalError: nothing was written.
        """
        # Looking costs the database no commit, and nothing to do is what a daemon finds most of the time.
        may_claim = partial(self._claims.may_claim, most_weight=most_weight)
        if not self._new and not await self._journal.read(may_claim):
            return None
        self._new = max(0, self._new - 1)
        guarded = _GuardedProjection(project)
        work = partial(self._claims.claim, most_weight=most_weight, project=guarded.project)
        # Else a cancellation would leave the job held, and nobody would know of it.
        return await guarded.result(_shielded(self._journal.transact(work, order=LAST_ORDER)))

    async def change(self, change: JobChange, project: ProjectJob = project_nothing) -> None:
        """Say how a job stands that is held here, and release its run unless it is `running` still.

        A job that is to await a verdict or an answer which is there already goes on at once. An end is final: only
        the same end may be said again.

        Raises:
            RunLost: another owner has it, or it is not held here.
            JournalError: its events could not be written, and it is not only put off; or it has ended otherwise.
        """
        guarded = _GuardedProjection(project)
        work = partial(job_transactions.change, wanted=change, project=guarded.project)
        await guarded.result(self._journal.transact(work, order=SEPARATE))

    async def find_job(self, job: JobId) -> JobRow | None:
        """Return one job."""
        return await self._journal.read(partial(job_transactions.find_job, job=job))

    async def list_jobs(self, states: Sequence[JobState] = ()) -> list[JobRow]:
        """Return jobs in the order in which they came; all states where none is given."""
        return await self._journal.read(partial(job_transactions.list_jobs, states=states))

    async def list_decisions(self, *, is_open: bool = True, job: JobId | None = None) -> list[Decision]:
        """Return decisions in the order in which they were asked: open ones, or answered ones; all jobs' or one's."""
        return await self._journal.read(
            lambda transaction: JobTables(transaction).list_decisions(is_open=is_open, job=job)
        )

    async def find_decision(self, prefix: str) -> Decision | None:
        """Return the one decision whose id starts so.

        Raises:
            JournalError: several do.
        """
        return await self._journal.read(partial(job_transactions.find_decision, prefix=prefix))

    async def decide(self, made: DecisionMade, project: ProjectJob = project_nothing) -> Receipt:
        """Take a person's answer: `accept`, or why not (`ack_duplicate`, `dead_letter`); queues the waiting job.

        Raises:
            JournalError: nothing was written.
        """
        guarded = _GuardedProjection(project)
        work = partial(job_transactions.decide, made=made, project=guarded.project)
        return await guarded.result(self._journal.transact(work, order=SEPARATE))

    async def take_answer(self, decision: DecisionId) -> Decision | None:
        """Return an answered decision that was not taken before and has not expired, and mark it as taken.

        A crash after this and before the run has journaled what it does with the answer leaves it taken; `taken` of
        `OutboxWrites` marks it in the transaction of those events.
        """
        work = partial(job_transactions.take_answer, decision=decision)
        return await _shielded(self._journal.transact(work, order=SEPARATE))

    async def pending(self, most: int = 100) -> list[OutgoingMessage]:
        """Return messages of the outbox in their order, and lease them to this owner for a few seconds.

        What another owner has leased is left out, and so is what comes after it of the same job: the messages of a
        job are published in their order. What this owner leased before and did not mark is returned again.
        """
        if not await self._journal.read(lambda transaction: JobTables(transaction).has_messages()):
            return []
        work = partial(job_transactions.lease_messages, seconds=self._outbox_lease, most=most)
        return await self._journal.transact(work)

    async def renew(self, messages: Sequence[MessageId]) -> None:
        """Lease messages that this owner has leased for as long again; of others nothing changes."""
        await self._journal.transact(
            lambda transaction: JobTables(transaction).renew_messages(transaction.owner.token, messages)
        )

    async def mark_sent(self, messages: Sequence[MessageId]) -> None:
        """Note that the broker has confirmed these messages."""
        await self._journal.transact(lambda transaction: JobTables(transaction).mark_sent(messages))

    async def mark_refused(self, message: MessageId, reason: str) -> None:
        """Keep a message that the broker cannot deliver out of the way until it is released; it is not lost."""
        await self._journal.transact(lambda transaction: JobTables(transaction).mark_refused(message, reason))

    async def list_refused(self) -> list[OutgoingMessage]:
        """Return the messages that the broker could not deliver, in their order."""
        return await self._journal.read(lambda transaction: JobTables(transaction).list_refused())

    async def release(self, messages: Sequence[MessageId]) -> None:
        """Publish messages again that were refused, where what kept them back may be fixed."""
        await self._journal.transact(lambda transaction: JobTables(transaction).release_messages(messages))

    async def forget(
        self, before: float, beyond: RetentionCursor = RETENTION_START
    ) -> RetentionCursor | None:
        """Forget the ids of messages that were taken in, or published, before an instant: of a thousand each, at most.

        Forgotten are those that have had their effect, those that the broker has confirmed and whose job has ended,
        and those whose turn never came: they name a job or a decision that is not known, or a package that is not
        out. A verdict on a package that is out stays until its job can take it, and what has to be published stays,
        too. A message whose id was forgotten would be taken in again, so the instant lies further back than a message
        may be old.

        Returns:
            Where to go on; None where everything was looked at.
        """
        return await self._journal.transact(
            lambda transaction: JobTables(transaction).forget_messages(before, beyond)
        )

    async def count_states(self) -> dict[JobState, int]:
        """Return how many jobs are in each state, for metrics."""
        return await self._journal.read(job_transactions.count_states)


async def _shielded(work: Awaitable[_T]) -> _T:
    """Return what the work returns even to a caller that is cancelled meanwhile; it takes one transaction."""
    results = list[_T]()
    with anyio.CancelScope(shield=True):
        results.append(await work)
    return results[0]


class _ProjectionFailed(JournalError):
    """A caller's projection raised; on its way out of the transaction."""


class _GuardedProjection:
    """Keeps an error of a caller's projection for that caller: it undoes the transaction, and nobody else fails."""

    def __init__(self, project: ProjectJob) -> None:
        self._project = project
        self._errors = list[Exception]()

    def project(self, job: JobRow) -> Sequence[OutgoingMessage]:
        """Make the messages of a job, on the journal's thread."""
        try:
            return self._project(job)
        except Exception as error:
            self._errors.append(error)
            raise _ProjectionFailed("the messages of a job could not be made") from error

    async def result(self, work: Awaitable[_T]) -> _T:
        """Return what comes of the work, or raise what the caller's own projection did."""
        try:
            return await work
        except _ProjectionFailed:
            raise self._errors[-1] from None
