"""The job store: jobs, decisions, inbox and outbox, which outlive processes.

It shares the journal's database and writer thread, so that a run's events and the messages that
they cause are one transaction. Every method that returns has committed. A job's owner holds the
lease of its root run: `claim` opens that run for this owner, the journal's heartbeat renews the
lease, and every write of a job checks its fence, so that a replaced owner writes nothing more. An
attempt is counted before its work, so a job that ends its process is counted.

The *outbox* is the messages that wait to be published, in the order in which they were caused.
Messages are written in the transaction of what causes them, and an owner leases those that it
publishes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final, Protocol, TypeVar

import anyio

from wavewright.engine.service.job_store import transactions
from wavewright.engine.service.job_store.records import (
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
from wavewright.engine.service.job_store.rows import job_of_request, read_outgoing
from wavewright.engine.service.job_store.rules import ProjectJob, project_nothing
from wavewright.engine.service.job_store.tables import JobTables
from wavewright.executor import JournalError
from wavewright.executor.store import run_queries
from wavewright.executor.store.journal import CancelRequest
from wavewright.executor.store.transaction import (
    ANY_ORDER,
    LAST_ORDER,
    SEPARATE,
    LockOrder,
    StoreTransaction,
    TransactionWork,
    lock_order_of,
)
from wavewright.planner import RunId

OUTBOX_LEASE_SECONDS: Final = 5.0
"""Length of an owner's lease of outbox messages, in seconds."""

_T = TypeVar("_T")

_HAS_WAITING: Final = "SELECT 1 FROM outbox WHERE sent IS NULL AND refused IS NULL LIMIT 1"
# A lease from the future is one from before the clock went back; it counts for nothing.
_IS_LEASED_ELSEWHERE: Final = (
    "coalesce({row}.owner <> $1 AND {row}.leased <= now AND {row}.leased > now - $2, false)"
)
_LEASE: Final = f"""
    UPDATE outbox SET owner = $1, leased = clock_seconds() WHERE no IN (
        SELECT outbox.no FROM outbox, (SELECT clock_seconds() AS now) AS clock
        WHERE sent IS NULL AND refused IS NULL AND NOT {_IS_LEASED_ELSEWHERE.format(row="outbox")}
        AND NOT EXISTS (
            SELECT 1 FROM outbox AS earlier
            WHERE earlier.job = outbox.job AND earlier.no < outbox.no
            AND earlier.sent IS NULL AND earlier.refused IS NULL AND {_IS_LEASED_ELSEWHERE.format(row="earlier")})
        ORDER BY outbox.no LIMIT $3)
    RETURNING no, message, kind, exchange, routing_key, job, headers, at,
              (SELECT body FROM outbox_body WHERE outbox_body.no = outbox.no)"""  # noqa: S608 - constants
_JOBS_WITH_WAITING: Final = """
    SELECT DISTINCT job FROM outbox WHERE sent IS NULL AND refused IS NULL AND job IS NOT NULL"""
_WAITING_OF_JOB: Final = """
    SELECT message, kind, exchange, routing_key, job, headers, at, body
    FROM outbox JOIN outbox_body ON outbox_body.no = outbox.no
    WHERE sent IS NULL AND refused IS NULL AND job = $1 ORDER BY outbox.no"""
_REFUSE: Final = "UPDATE outbox SET refused = $1 WHERE message = $2 AND sent IS NULL"
_REFUSED: Final = """
    SELECT refused, message, kind, exchange, routing_key, job, headers, at, body
    FROM outbox JOIN outbox_body ON outbox_body.no = outbox.no WHERE refused IS NOT NULL ORDER BY outbox.no"""


class TransactionalJournal(Protocol):
    """The part of an open journal that the job store needs."""

    def transact(
        self, work: TransactionWork[_T], *, order: LockOrder = ANY_ORDER
    ) -> Coroutine[Any, Any, _T]:
        """Run the work in one transaction, after all earlier appends, and return its result."""
        ...

    async def read(self, ask: TransactionWork[_T]) -> _T:
        """Run a query after all earlier appends, and return its result; it may run twice."""
        ...


async def lease_messages(
    transaction: StoreTransaction, *, seconds: float, most: int
) -> list[OutgoingMessage]:
    """Return messages that no other owner has leased, and lease them to the transaction's owner.

    The messages of one job are leased by one owner at a time, so that they are published in their
    order.
    """
    await transaction.lock("outbox")
    # A statement of its own: it sees what another owner has leased before the lock was had.
    rows = await transaction.fetch(_LEASE, transaction.owner.token, seconds, most)
    return [read_outgoing(row[1:]) for row in sorted(rows, key=itemgetter(0))]


class JobStore:
    """Jobs, decisions, inbox and outbox in the database of an open journal, which also closes it."""

    def __init__(
        self, journal: TransactionalJournal, *, outbox_lease: float = OUTBOX_LEASE_SECONDS
    ) -> None:
        """Use the database of a journal, as the journal's owner.

        Args:
            journal: The open journal, which holds the runs of claimed jobs.
            outbox_lease: Length of this owner's lease of outbox messages, in seconds.
        """
        self._journal = journal
        self._lease_seconds = outbox_lease
        self._claims = transactions.JobClaims()

    # Jobs

    async def receive(
        self, message: ReceivedMessage, project: ProjectJob = project_nothing
    ) -> Receipt:
        """Decide on a message and apply its effect, with inbox row and projection, in one
        transaction.

        A message id that was seen before has no effect. A verdict on the current package ends the
        job or queues it again; an answer queues its waiting job again. `project` is called if a job
        changed. A verdict that arrives before its job awaits it, and a message that the rule
        defers, is kept, and takes effect in a later `change` or `claim`. Only ids of messages that
        took effect or are kept are remembered, so a refused message is decided again when it is
        sent again.

        Raises:
            JournalError: nothing was written; the message must not be acknowledged.
        """
        job = job_of_request(message.request)
        order = SEPARATE if job is None else lock_order_of(job)
        receive = partial(transactions.receive, message=message)
        return await self.transact(receive, project, order)

    async def transact(
        self, work: Callable[..., Awaitable[_T]], project: ProjectJob, order: LockOrder
    ) -> _T:
        """Return the result of work with a projection, whose exception rolls back that work only
        and is raised here.
        """
        errors = list[Exception]()

        def guarded(job: JobRow) -> Sequence[OutgoingMessage]:
            try:
                return project(job)
            except Exception as error:
                errors.append(error)
                raise _ProjectionFailed("the messages of a job could not be made") from error

        try:
            return await self._journal.transact(partial(work, project=guarded), order=order)
        except _ProjectionFailed:
            raise errors[-1] from None

    async def claim(
        self, *, most_weight: float | None = None, project: ProjectJob = project_nothing
    ) -> JobRow | None:
        """Start the next job that may be worked on and lease its run; None if there is nothing to
        do.

        These are `queued` jobs that are due and `running` jobs whose owner is gone, the longest
        waiting first, with light jobs before heavy ones that came a little earlier. A job that was
        started `MAX_ATTEMPTS` times becomes `dead` instead, with its projection, and the next one
        is tried. Deferred messages that are due take effect first. The call never waits: an
        owner who may be dead is probed between calls.

        Raises:
            JournalError: nothing was written.
        """
        # The query needs no commit, and most of the time there is nothing to do.
        may_claim = partial(self._claims.may_claim, most_weight=most_weight)
        if not await self._journal.read(may_claim):
            return None
        # Otherwise a cancellation would leave a leased job that no caller knows of.
        claim = partial(self._claims.claim, most_weight=most_weight)
        return await _shielded(self.transact(claim, project, LAST_ORDER))

    async def change(self, change: JobChange, project: ProjectJob = project_nothing) -> None:
        """Change a job that is held here, and release its run unless the job is still `running`.

        A job that is to await a verdict or an answer which has already arrived is queued at once.
        An end is final; repeating the same end is allowed.

        Raises:
            RunLost: another owner has it, or it is not held here.
            JournalError: its events could not be written and it is not only deferred, or it has
                another end.
        """
        await self.transact(partial(transactions.change, wanted=change), project, SEPARATE)

    async def cancel_waiting(
        self, job: JobId, reason: str, project: ProjectJob = project_nothing
    ) -> JobRow:
        """Cancel a job that is not at work, and return it; one that is at work or has ended is
        returned as it is.

        Raises:
            JournalError: there is no such job, or nothing was written.
        """
        cancel = partial(transactions.cancel_waiting, job=job, reason=reason)
        return await self.transact(cancel, project, SEPARATE)

    async def find_job(self, job: JobId) -> JobRow | None:
        """Return one job."""
        return await self._journal.read(partial(transactions.find_job, job=job))

    async def list_jobs(
        self, states: Sequence[JobState] = (), *, newest: int | None = None
    ) -> list[JobRow]:
        """Return jobs in the order of arrival, or so many newest, these first; all states by
        default.
        """
        return await self._journal.read(
            partial(transactions.list_jobs, states=states, newest=newest)
        )

    async def list_decisions(
        self, *, is_open: bool = True, job: JobId | None = None
    ) -> list[Decision]:
        """Return open or answered decisions, of all jobs or of one, in the order in which they were
        asked.
        """
        return await self._journal.read(
            lambda transaction: JobTables(transaction).list_decisions(is_open=is_open, job=job)
        )

    async def find_decision(self, prefix: str) -> Decision | None:
        """Return the one decision whose id has this prefix.

        Raises:
            JournalError: several have.
        """
        return await self._journal.read(partial(transactions.find_decision, prefix=prefix))

    async def decide(self, made: DecisionMade, project: ProjectJob = project_nothing) -> Receipt:
        """Apply a person's answer and queue the waiting job; the receipt is `accept`, or why it was
        refused.

        Raises:
            JournalError: nothing was written.
        """
        return await self.transact(partial(transactions.decide, made=made), project, SEPARATE)

    async def take_answer(self, decision: DecisionId) -> Decision | None:
        """Return an answered decision that was not taken and has not expired, and mark it as taken.

        After a crash before the run has journaled the answer's effect the decision stays taken;
        `taken` of `OutboxWrites` marks it in the transaction of those events instead.
        """
        work = partial(transactions.take_answer, decision=decision)
        return await _shielded(self._journal.transact(work, order=SEPARATE))

    async def find_cancel_request(self, run: RunId) -> CancelRequest | None:
        """Return who has requested the cancellation of a run, if there is a request."""
        return await self._journal.read(partial(run_queries.find_cancel_request, run=run))

    async def forget(
        self, before: float, beyond: RetentionCursor = RETENTION_START
    ) -> RetentionCursor | None:
        """Remove the ids of messages that were received or published before an instant, at most a
        thousand of each.

        Removed are received messages that took effect, published ones that the broker confirmed and
        whose job has ended, and deferred ones that name an unknown job or decision or an
        unpublished package. Verdicts on published packages stay until their job can take them, and
        so do unpublished messages. A message whose id was removed would be accepted again, so
        `before` must be older than the maximum age of messages.

        Returns:
            Where to continue; None if everything was inspected.
        """
        return await self._journal.transact(
            lambda transaction: JobTables(transaction).forget_messages(before, beyond)
        )

    async def count_ended(self, since: float) -> dict[JobState, int]:
        """Return the number of jobs that have ended since an instant, in each final state."""
        return await self._journal.read(
            lambda transaction: JobTables(transaction).count_ended(since)
        )

    async def count_queued(self) -> int:
        """Return the number of jobs that wait to be started."""
        return await self._journal.read(lambda transaction: JobTables(transaction).count_queued())

    async def count_states(self) -> dict[JobState, int]:
        """Return the number of jobs in each state."""
        return await self._journal.read(lambda transaction: JobTables(transaction).count_states())

    # The outbox

    async def pending(self, most: int = 100) -> list[OutgoingMessage]:
        """Return messages of the outbox in order, leased to this owner for a few seconds.

        Messages that another owner has leased are left out, with later ones of the same job: the
        messages of a job are published in order. Messages that this owner leased before and did not
        mark are returned again.
        """
        if not await self._journal.read(lambda transaction: transaction.has_rows(_HAS_WAITING)):
            return []
        return await self._journal.transact(
            partial(lease_messages, seconds=self._lease_seconds, most=most)
        )

    async def jobs_with_pending(self) -> list[JobId]:
        """Return the jobs of which messages wait in the outbox, whoever has leased them."""
        rows = await self._journal.read(lambda transaction: transaction.fetch(_JOBS_WITH_WAITING))
        return [job for (job,) in rows]

    async def pending_of_job(self, job: JobId) -> list[OutgoingMessage]:
        """Return the messages of a job that wait in the outbox, in order, without leasing them."""
        rows = await self._journal.read(lambda transaction: transaction.fetch(_WAITING_OF_JOB, job))
        return [read_outgoing(row) for row in rows]

    async def renew(self, messages: Sequence[MessageId]) -> None:
        """Renew this owner's leases of messages; other messages are unchanged."""

        async def renew(transaction: StoreTransaction) -> None:
            where = f"owner = $1 AND message {transaction.in_list('$2', 'text')} AND sent IS NULL"
            query = f"UPDATE outbox SET leased = clock_seconds() WHERE {where}"  # noqa: S608 - constants
            await transaction.execute(query, transaction.owner.token, list(messages))

        await self._journal.transact(renew)

    async def mark_sent(self, messages: Sequence[MessageId]) -> None:
        """Mark messages as confirmed by the broker; their bodies are not kept."""

        async def mark(transaction: StoreTransaction) -> None:
            where = f"message {transaction.in_list('$1', 'text')} AND sent IS NULL"
            delete = f"DELETE FROM outbox_body WHERE no IN (SELECT no FROM outbox WHERE {where})"  # noqa: S608 - constants
            await transaction.defer(delete, list(messages))
            update = f"UPDATE outbox SET sent = clock_seconds(), refused = NULL WHERE {where}"  # noqa: S608 - constants
            await transaction.execute(update, list(messages))

        await self._journal.transact(mark)

    async def mark_refused(self, message: MessageId, reason: str) -> None:
        """Set a message aside that the broker cannot deliver, until `release`."""
        await self._journal.transact(
            lambda transaction: transaction.execute(_REFUSE, reason, message)
        )

    async def list_refused(self) -> list[OutgoingMessage]:
        """Return the messages that the broker could not deliver, in order."""
        rows = await self._journal.read(lambda transaction: transaction.fetch(_REFUSED))
        return [read_outgoing(row[1:], refused=row[0]) for row in rows]

    async def release(self, messages: Sequence[MessageId]) -> None:
        """Queue undeliverable messages for publishing again."""

        async def release(transaction: StoreTransaction) -> None:
            where = f"message {transaction.in_list('$1', 'text')}"
            await transaction.execute(
                f"UPDATE outbox SET refused = NULL WHERE {where}",  # noqa: S608
                list(messages),
            )

        await self._journal.transact(release)


async def _shielded(work: Awaitable[_T]) -> _T:
    """Return the result of one transaction, which completes even if the caller is cancelled."""
    results = list[_T]()
    with anyio.CancelScope(shield=True):
        results.append(await work)
    return results[0]


class _ProjectionFailed(JournalError):
    """Carries an exception of a caller's projection out of the transaction."""
