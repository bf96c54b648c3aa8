"""The job store's tables, row by row.

Everything here happens within a transaction and decides nothing: `rules` says what a job
becomes, `transactions` who may say so. A job that is going to change is read with its row
locked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple, cast, get_args

from wavewright.engine.service.job_store.message_retention import (
    FORGET_PAGE_SIZE,
    IS_OPEN,
    next_cursor,
    orphaned_messages,
)
from wavewright.engine.service.job_store.records import (
    Decision,
    DecisionId,
    DecisionMade,
    JobId,
    JobRow,
    JobState,
    MessageId,
    OutgoingMessage,
    ReceivedMessage,
    RetentionCursor,
    VerdictGiven,
)
from wavewright.engine.service.job_store.rows import (
    DECISION_COLUMNS,
    SELECT_JOB,
    DeferredMessage,
    DeferredRequest,
    WaitingJob,
    decision_row,
    deferred_text,
    mutable_columns,
    outgoing_row,
    read_decision,
    read_deferred,
    read_deferred_message,
    read_job,
    subject_of,
    to_json_text,
)
from wavewright.engine.service.job_store.rules import FINAL_STATES
from wavewright.executor.store.leases import Lease, read_lease
from wavewright.executor.store.transaction import StoreTransaction

# No row where some job or some run has the run's id.
_INSERT_JOB: Final = """
    INSERT INTO job (job, run, received, weight, state, attempts, failures, iteration, package, feedback, sent,
                     reason, not_before, finished, since, queue_rank)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16
    WHERE NOT EXISTS (SELECT 1 FROM run WHERE run = $2) ON CONFLICT (run) DO NOTHING RETURNING no"""
_UPDATE_JOB: Final = """
    UPDATE job SET state = $1, attempts = $2, failures = $3, iteration = $4, package = $5, feedback = $6,
                   sent = $7, reason = $8, not_before = $9, finished = $10, since = $11, queue_rank = $12
    WHERE job = $13"""
_IS_DUE: Final = "state = 'queued' AND weight <= $1 AND (not_before IS NULL OR not_before <= {now} OR {now} < since)"
_RIPE: Final = "SELECT no, message, kind, source, at, kept FROM inbox WHERE is_ripe ORDER BY no"
_RIPEN: Final = (
    "UPDATE inbox SET is_ripe = true WHERE kept IS NOT NULL AND NOT is_ripe AND subject = $1"
)
_JUDGED: Final = (
    "UPDATE inbox SET is_ripe = false, kept = CASE WHEN $1 THEN NULL ELSE kept END WHERE no = $2"
)
_INSERT_MESSAGE: Final = """
    INSERT INTO inbox (message, kind, source, at, received, subject, iteration, kept)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"""
_DECISION: Final = f"SELECT {DECISION_COLUMNS} FROM decision"  # noqa: S608 - names of our own
_INSERT_DECISION: Final = f"""
    INSERT INTO decision ({DECISION_COLUMNS})
    VALUES ({", ".join(f"${place + 1}" for place in range(len(DECISION_COLUMNS.split(", "))))})
    ON CONFLICT (id) DO NOTHING"""  # noqa: S608 - names and numbers of our own
# An answer that was given in time counts, also where its job waits for a slot until it is late.
_IS_ANSWERED: Final = (
    "choice IS NOT NULL AND used IS NULL AND (expires IS NULL OR expires > answered)"
)
_TAKE: Final = f"UPDATE decision SET used = $1 WHERE id = $2 AND {_IS_ANSWERED} RETURNING no"  # noqa: S608 - constants
_UNTAKEN: Final = f"SELECT 1 FROM decision WHERE {_IS_ANSWERED} AND job = $1 LIMIT 1"  # noqa: S608 - constants

# The same message again is the same bytes: it changes nothing, and one that was sent gets no body.
_PUT_MESSAGE: Final = """
    INSERT INTO outbox (message, kind, exchange, routing_key, job, headers, at)
    VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (message) DO NOTHING"""
_PUT_BODY: Final = """
    INSERT INTO outbox_body (no, body) SELECT no, $2 FROM outbox WHERE message = $1 AND sent IS NULL
    ON CONFLICT (no) DO NOTHING"""

_OLD_INBOX: Final = (
    f"SELECT no, received FROM inbox WHERE no > $1 ORDER BY no LIMIT {FORGET_PAGE_SIZE}"  # noqa: S608 - a constant
)
_OLD_OUTBOX: Final = f"SELECT no, at FROM outbox WHERE no > $1 ORDER BY no LIMIT {FORGET_PAGE_SIZE}"  # noqa: S608 - a constant
_FORGET_INBOX: Final = (
    "DELETE FROM inbox WHERE no > $1 AND no <= $2 AND received < $3 AND kept IS NULL"
)
_OLD_KEPT: Final = f"""
    SELECT inbox.no, kept, package, sent FROM inbox LEFT JOIN job ON job.job = subject AND {IS_OPEN}
    WHERE inbox.no > $1 AND inbox.no <= $2 AND inbox.received < $3 AND kept IS NOT NULL AND NOT is_ripe"""  # noqa: S608 - constants
_FORGET_OUTBOX: Final = f"""
    DELETE FROM outbox WHERE no > $1 AND no <= $2 AND sent < $3
    AND NOT EXISTS (SELECT 1 FROM job WHERE job.job = outbox.job AND {IS_OPEN})"""  # noqa: S608 - constants


class BegunJob(NamedTuple):
    """A job that was begun, and who holds its run."""

    place: WaitingJob
    lease: Lease | None
    attempts: int
    since: float
    """When the last attempt began."""


class FoundWork(NamedTuple):
    """What may be claimed at an instant."""

    now: float
    has_ripe_message: bool
    has_due_job: bool
    begun: Sequence[BegunJob]
    """The longest waiting first."""


class JobTables:
    """Rows of jobs, decisions and inbox, as one transaction sees them."""

    def __init__(self, transaction: StoreTransaction) -> None:
        """Read and write within this transaction."""
        self._transaction = transaction

    # Jobs

    async def find_job(self, job: JobId, *, locked: bool = False) -> JobRow | None:
        """Return one job; who works on it is not looked up."""
        row = await self._transaction.fetch_one(self._select_job(locked=locked), job)
        return None if row is None else read_job(row)

    async def lock_job_and_message(
        self, job: JobId, message: MessageId
    ) -> tuple[JobRow | None, bool]:
        """Lock and return a job, and whether a message with this id is remembered.

        A job that is not known yet is locked by its id: of two owners that are given messages about
        it, each in an order of its own, one waits for the other before it writes any.

        A message that another owner has taken in while the lock was waited for may be returned as
        not remembered: to remember it again is refused by the database.
        """
        query = f"""
            SELECT CASE WHEN known.job IS NULL THEN {self._transaction.lock_of("$1")} END,
                   EXISTS (SELECT 1 FROM inbox WHERE message = $2), known.*
            FROM (SELECT 1) AS one LEFT JOIN ({self._select_job(locked=True)}) AS known ON true"""  # noqa: S608
        ((_, is_seen, *row),) = await self._transaction.fetch(query, job, message)
        return None if row[0] is None else read_job(row), bool(is_seen)

    def _select_job(self, *, locked: bool) -> str:
        return f"{SELECT_JOB} WHERE job.job = $1{self._transaction.for_update if locked else ''}"

    async def list_jobs(
        self, states: Sequence[JobState], newest: int | None = None
    ) -> list[JobRow]:
        """Return jobs in the order in which they came, or so many newest, these first; of all
        states by default.
        """
        where, values = "", list[object]()
        if states:
            where, values = f"WHERE state {self._transaction.in_list('$1', 'text')}", [list(states)]
        order = "ORDER BY job.no" if newest is None else f"ORDER BY job.no DESC LIMIT {newest:d}"
        rows = await self._transaction.fetch(f"{SELECT_JOB} {where} {order}", *values)
        return [read_job(row) for row in rows]

    async def add_job(self, job: JobRow) -> bool:
        """Write a new job; return whether no other job or run had its run's id, else nothing is
        written.
        """
        request = to_json_text(job.request, place=f"job {job.job}")
        columns = (job.job, job.run, job.received, job.weight, *mutable_columns(job))
        row = await self._transaction.fetch_one(_INSERT_JOB, *columns)
        if row is None:
            return False
        await self._transaction.defer("INSERT INTO job_request VALUES ($1, $2)", row[0], request)
        return True

    async def save_job(self, job: JobRow) -> None:
        """Write how a job stands now; messages that wait for it to wait or to end are ripe with
        that.
        """
        await self._transaction.defer(_UPDATE_JOB, *mutable_columns(job), job.job)
        if job.state in {"validating", "waiting"} or job.state in FINAL_STATES:
            await self._transaction.defer(_RIPEN, job.job)

    async def find_work(self, most_weight: float) -> FoundWork:
        """Return what may be claimed now."""
        rows = await self._transaction.fetch(
            f"""SELECT {self._transaction.lease_columns}, job.queue_rank, job.no, job.job, job.run,
                       job.attempts, job.since, has_ripe, has_due, now
                FROM (SELECT now, EXISTS (SELECT 1 FROM inbox WHERE is_ripe) AS has_ripe,
                             EXISTS (SELECT 1 FROM job WHERE {_IS_DUE.format(now="now")}) AS has_due
                      FROM (SELECT clock_seconds() AS now) AS clock) AS found
                LEFT JOIN job ON state = 'running' AND weight <= $1
                LEFT JOIN run ON run.run = job.run {self._transaction.lease_join}
                ORDER BY job.queue_rank, job.no""",  # noqa: S608 - constants
            most_weight,
        )
        *_, has_ripe, has_due, now = rows[0]
        begun = [
            BegunJob(WaitingJob(*row[9:13]), read_lease(row[:9]), *row[13:15])
            for row in rows
            if row[12] is not None
        ]
        return FoundWork(now, bool(has_ripe), bool(has_due), begun)

    async def lock_begun(self, job: JobId) -> JobRow | None:
        """Lock and return a job; None where another transaction has it locked, or it is not begun
        any more.
        """
        query = f"{SELECT_JOB} WHERE job = $1 AND state = 'running'{self._transaction.skip_locked('job')}"
        row = await self._transaction.fetch_one(query, job)
        return None if row is None else read_job(row)

    async def next_waiting(
        self, most_weight: float, now: float, after: WaitingJob | None
    ) -> tuple[WaitingJob, JobRow] | None:
        """Lock and return the next job that is queued and due, without those that other
        transactions have locked.
        """
        place = (-math.inf, 0) if after is None else (after.queue_rank, after.no)
        query = f"""{SELECT_JOB} WHERE {_IS_DUE.format(now="$2")} AND (queue_rank, no) > ($3, $4)
                    ORDER BY queue_rank, no LIMIT 1{self._transaction.skip_locked("job")}"""
        row = await self._transaction.fetch_one(query, most_weight, now, *place)
        if row is None:
            return None
        job = read_job(row)
        return WaitingJob(job.queue_rank, row[-1], job.job, job.run), job

    async def count_states(self) -> dict[JobState, int]:
        """Return how many jobs are in each state."""
        rows = await self._transaction.fetch("SELECT state, count(*) FROM job GROUP BY state")
        return dict.fromkeys(get_args(JobState), 0) | dict(map(tuple, rows))

    async def count_queued(self) -> int:
        """Return how many jobs wait to be started."""
        ((count,),) = await self._transaction.fetch(
            "SELECT count(*) FROM job WHERE state = 'queued'"
        )
        return int(count)

    async def count_ended(self, since: float) -> dict[JobState, int]:
        """Return how many jobs have ended since an instant, in each state that has any."""
        query = "SELECT state, count(*) FROM job WHERE finished >= $1 GROUP BY state"
        return dict(map(tuple, await self._transaction.fetch(query, since)))

    # The inbox

    async def is_seen(self, message: MessageId) -> bool:
        """Return whether a message with this id is remembered."""
        return await self._transaction.has_rows("SELECT 1 FROM inbox WHERE message = $1", message)

    async def remember(self, message: ReceivedMessage, now: float, *, is_kept: bool) -> None:
        """Write a message that had an effect, or that is kept until its turn comes."""
        kept = deferred_text(cast("DeferredRequest", message.request)) if is_kept else None
        columns = (message.message, message.kind, message.source, message.at, now)
        await self._transaction.defer(_INSERT_MESSAGE, *columns, *subject_of(message), kept)

    async def ripe_messages(self) -> list[DeferredMessage]:
        """Return kept messages that are to be judged again since what they name has changed, in
        their order.
        """
        return [read_deferred_message(row) for row in await self._transaction.fetch(_RIPE)]

    async def lock_ripe(self, kept: DeferredMessage) -> bool:
        """Lock a kept message with what it names; return whether that was free, and it is still to
        be judged again.
        """
        skip_locked, has_rows = self._transaction.skip_locked, self._transaction.has_rows
        if isinstance(kept.request, DecisionMade):
            decision = kept.request.decision
            if not await self._transaction.try_lock(decision):
                return False
            row = await self.find_decision(decision)
            free = f"SELECT 1 FROM decision WHERE id = $1{skip_locked('decision')}"  # noqa: S608 - constants
            if row is None or not await has_rows(free, decision):
                return False
            job = row.job
        else:
            job = kept.request.job
        is_known = await self.find_job(job) is not None
        free = f"SELECT 1 FROM job WHERE job = $1{skip_locked('job')}"  # noqa: S608 - constants
        if is_known and not await has_rows(free, job):
            return False
        # Another owner may have judged it before it was locked.
        ripe = f"SELECT 1 FROM inbox WHERE no = $1 AND is_ripe{skip_locked('inbox')}"  # noqa: S608 - constants
        return await has_rows(ripe, kept.no)

    async def kept_verdicts(
        self, job: JobId, before: int | None = None
    ) -> tuple[VerdictGiven, ...]:
        """Return verdicts on a job that are kept, and came before the message of that number where
        one is given.
        """
        rows = await self._transaction.fetch(
            "SELECT kept FROM inbox WHERE kept IS NOT NULL AND subject = $1 AND no < $2 ORDER BY no",
            job,
            2**63 - 1 if before is None else before,
        )
        requests = [read_deferred(kept) for (kept,) in rows]
        return tuple(request for request in requests if isinstance(request, VerdictGiven))

    async def set_judged(self, no: int, *, is_done: bool) -> None:
        """Note that a kept message was judged again: it is done with, or waits for the next change."""
        await self._transaction.execute(_JUDGED, is_done, no)

    async def forget_messages(
        self, before: float, beyond: RetentionCursor
    ) -> RetentionCursor | None:
        """Delete rows of messages from before an instant, but for those that are needed; return
        where to go on.
        """
        inbox = await self._transaction.fetch(_OLD_INBOX, beyond.inbox)
        outbox = await self._transaction.fetch(_OLD_OUTBOX, beyond.outbox)
        if inbox:
            page = (beyond.inbox, inbox[-1][0], before)
            await self._transaction.execute(_FORGET_INBOX, *page)
            orphans = orphaned_messages(await self._transaction.fetch(_OLD_KEPT, *page))
            in_list = self._transaction.in_list("$1", "bigint")
            await self._transaction.execute(
                f"DELETE FROM inbox WHERE no {in_list} AND NOT is_ripe",  # noqa: S608
                orphans,
            )
        if outbox:
            await self._transaction.execute(_FORGET_OUTBOX, beyond.outbox, outbox[-1][0], before)
        return next_cursor(beyond, inbox, outbox, before)

    # The outbox

    async def put_messages(self, messages: Sequence[OutgoingMessage]) -> None:
        """Write messages that must go out, except those that are known already."""
        if messages:
            rows = [outgoing_row(message) for message in messages]
            await self._transaction.execute_many(_PUT_MESSAGE, rows)
            bodies = [(message.message, message.body) for message in messages]
            await self._transaction.execute_many(_PUT_BODY, bodies)

    # Decisions

    async def ask(self, decisions: Sequence[Decision]) -> None:
        """Write decisions, but for those that are known already; answers that came ahead of them
        are ripe with that.
        """
        if decisions:
            rows = [decision_row(decision) for decision in decisions]
            await self._transaction.execute_many(_INSERT_DECISION, rows)
            await self._transaction.execute_many(_RIPEN, [(decision.id,) for decision in decisions])

    async def lock_decision(self, decision: DecisionId) -> None:
        """Lock a decision, which need not be there yet: it is asked before an answer, or sees it."""
        await self._transaction.lock(decision)

    async def find_decision(self, decision: DecisionId, *, locked: bool = False) -> Decision | None:
        """Return one decision."""
        suffix = self._transaction.for_update if locked else ""
        row = await self._transaction.fetch_one(f"{_DECISION} WHERE id = $1{suffix}", decision)
        return None if row is None else read_decision(row)

    async def match_decisions(self, prefix: str) -> list[Decision]:
        """Return decisions whose id starts so."""
        query = f"{_DECISION} WHERE substr(id, 1, length(CAST($1 AS text))) = $1 ORDER BY no"
        return [read_decision(row) for row in await self._transaction.fetch(query, prefix)]

    async def list_decisions(self, *, is_open: bool, job: JobId | None) -> list[Decision]:
        """Return decisions that are open, or that were answered, in the order in which they were
        asked.
        """
        standing = "IS NULL" if is_open else "IS NOT NULL"
        where, values = ("", ()) if job is None else ("AND job = $1", (job,))
        query = f"{_DECISION} WHERE choice {standing} {where} ORDER BY no"
        return [read_decision(row) for row in await self._transaction.fetch(query, *values)]

    async def answer(self, decision: DecisionId, choice: str, by: str, now: float) -> None:
        """Write the answer to a decision."""
        query = "UPDATE decision SET choice = $1, answered_by = $2, answered = $3 WHERE id = $4"
        await self._transaction.execute(query, choice, by, now, decision)

    async def take(self, decision: DecisionId, now: float) -> bool:
        """Mark an answer as taken; return whether it was there to be taken."""
        return await self._transaction.has_rows(_TAKE, now, decision)

    async def has_untaken_answer(self, job: JobId) -> bool:
        """Return whether there is an answer to a question of the job that the job has not read yet."""
        return await self._transaction.has_rows(_UNTAKEN, job)
