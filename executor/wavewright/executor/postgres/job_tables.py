"""The job store's tables in the database, row by row.

Everything here happens within a transaction of the caller's and decides nothing: what a job becomes is said in
`rules`, who may say so in `job_transactions`. A job that is going to change is read with its row locked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple, cast

from wavewright.executor.postgres.driver import Connection, storable_text, storable_value
from wavewright.executor.postgres.outbox import PostgresOutboxTables
from wavewright.executor.postgres.run_rows import LEASE_COLUMNS
from wavewright.executor.store.job_records import (
    Decision,
    DecisionId,
    DecisionMade,
    JobId,
    JobRow,
    JobState,
    MessageId,
    ReceivedMessage,
    VerdictGiven,
)
from wavewright.executor.store.job_rows import (
    DECISION_COLUMNS,
    SELECT_JOB,
    DeferredMessage,
    DeferredRequest,
    WaitingJob,
    deferred_text,
    mutable_columns,
    read_decision,
    read_deferred,
    read_deferred_message,
    read_job,
    subject_of,
    to_json_text,
)
from wavewright.executor.store.job_rules import FINAL_STATES
from wavewright.executor.store.leases import Lease, read_lease
from wavewright.planner.types import RunId

# Nothing where some job or some run has the run's id.
_INSERT_JOB: Final = """
    WITH made AS (
        INSERT INTO job (job, run, received, weight, state, attempts, iteration, package, feedback, sent,
                         reason, not_before, finished, since, turn)
        SELECT $1, $2, $3, $4, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16
        WHERE NOT EXISTS (SELECT FROM run WHERE run = $2) ON CONFLICT (run) DO NOTHING RETURNING no
    ) INSERT INTO job_request SELECT no, $5 FROM made RETURNING no"""
_UPDATE_JOB: Final = """
    UPDATE job SET state = $2, attempts = $3, iteration = $4, package = $5, feedback = $6, sent = $7,
                   reason = $8, not_before = $9, finished = $10, since = $11, turn = $12
    WHERE job = $1"""
_IS_DUE: Final = (
    "state = 'queued' AND weight <= $1 AND (not_before IS NULL OR not_before <= {now} OR {now} < since)"
)
_NEXT_WAITING: Final = f"""
    {SELECT_JOB} WHERE {_IS_DUE.format(now="$2")} AND (turn, no) > ($3, $4)
    ORDER BY turn, no LIMIT 1 FOR UPDATE SKIP LOCKED"""
_LOCK_BEGUN: Final = f"{SELECT_JOB} WHERE job = $1 AND state = 'running' FOR UPDATE SKIP LOCKED"
# There are no savepoints here, so a row that this transaction wrote bears the transaction's own number, cut to a xid.
_IS_WRITTEN_NOW: Final = "coalesce(run.xmin::text::bigint = txid_current_if_assigned() & 4294967295, false)"
_BEGUN: Final = f"""
    SELECT {LEASE_COLUMNS}, {_IS_WRITTEN_NOW}, job.turn, job.no, job.job, job.run
    FROM job LEFT JOIN run ON run.run = job.run LEFT JOIN opening ON opening.no = run.owner
    WHERE state = 'running' AND weight <= $1 ORDER BY job.turn, job.no"""  # noqa: S608 - constants
_POISON_CANDIDATES: Final = f"""
    SELECT job.run, {_IS_WRITTEN_NOW} FROM job JOIN run ON run.run = job.run
    WHERE state = 'running' AND attempts > $1 AND run.owner = $2"""  # noqa: S608 - constants
_RIPE: Final = """
    SELECT no, message, kind, source, at, kept FROM inbox WHERE is_ripe ORDER BY no"""
# Once what it names is locked: by then another owner may have judged it.
_IS_RIPE: Final = "SELECT 1 FROM inbox WHERE no = $1 AND is_ripe FOR UPDATE SKIP LOCKED"
_TRY_DECISION: Final = "SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))"
_FREE_DECISION: Final = "SELECT 1 FROM decision WHERE id = $1 FOR UPDATE SKIP LOCKED"
_FREE_JOB: Final = "SELECT 1 FROM job WHERE job = $1 FOR UPDATE SKIP LOCKED"
_RIPEN: Final = (
    "UPDATE inbox SET is_ripe = true WHERE kept IS NOT NULL AND NOT is_ripe AND subject = {subject}"
)
_SAVE_AND_RIPEN: Final = f"WITH saved AS ({_UPDATE_JOB}) {_RIPEN.format(subject='$1')}"
_JUDGED: Final = "UPDATE inbox SET is_ripe = false, kept = CASE WHEN $2 THEN NULL ELSE kept END WHERE no = $1"
_HAS_WORK: Final = f"""
    SELECT EXISTS (SELECT FROM inbox WHERE is_ripe) OR EXISTS (SELECT FROM job WHERE {_IS_DUE.format(now="now")}), now
    FROM clock_seconds() AS now"""  # noqa: S608 - constants
_INSERT_MESSAGE: Final = """
    INSERT INTO inbox (message, kind, source, at, received, subject, iteration, kept)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"""
_INSERT_DECISION: Final = f"""
    INSERT INTO decision ({DECISION_COLUMNS})
    VALUES ({", ".join(f"${place + 1}" for place in range(len(DECISION_COLUMNS.split(", "))))})
    ON CONFLICT (id) DO NOTHING"""  # noqa: S608 - names and numbers of our own
_LOCK_DECISION: Final = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))"
_DECISION: Final = f"SELECT {DECISION_COLUMNS} FROM decision"  # noqa: S608 - names of our own
_IS_ANSWERED: Final = "choice IS NOT NULL AND used IS NULL AND (expires IS NULL OR expires > $2)"
_TAKE: Final = f"UPDATE decision SET used = $2 WHERE id = $1 AND {_IS_ANSWERED} RETURNING no"  # noqa: S608 - constants
_UNTAKEN: Final = f"SELECT 1 FROM decision WHERE job = $1 AND {_IS_ANSWERED} LIMIT 1"  # noqa: S608 - constants


class BegunJob(NamedTuple):
    """A job that somebody has begun, and who holds it."""

    place: WaitingJob
    lease: Lease | None
    is_taken_now: bool
    """Whether that hold was written in this very transaction."""


class PostgresJobTables:
    """Rows of jobs, decisions, inbox and outbox, seen in one transaction."""

    def __init__(self, connection: Connection) -> None:
        """Read and write through this connection, within the caller's transaction."""
        self._connection = connection
        self.outbox = PostgresOutboxTables(connection)

    # Jobs

    async def find_job(self, job: JobId, *, locked: bool = False) -> JobRow | None:
        """Return one job; who works on it is not looked up."""
        suffix = " FOR UPDATE" if locked else ""
        row = await self._connection.fetchrow(f"{SELECT_JOB} WHERE job = $1{suffix}", storable_text(job))
        return None if row is None else read_job(tuple(row))

    async def list_jobs(self, states: Sequence[JobState]) -> list[JobRow]:
        """Return jobs in the order in which they came."""
        where = "cardinality($1::text[]) = 0 OR state = ANY($1)"
        rows = await self._connection.fetch(f"{SELECT_JOB} WHERE {where} ORDER BY job.no", list(states))
        return [read_job(tuple(row)) for row in rows]

    async def add_job(self, job: JobRow) -> bool:
        """Write a new job; return whether no other job or run had its run's id, else nothing is written."""
        request = to_json_text(job.request, place=f"job {job.job}")
        made = await self._connection.fetchval(
            _INSERT_JOB,
            storable_text(job.job),
            job.run,
            job.received,
            job.weight,
            request,
            *_storable_columns(job),
        )
        return made is not None

    async def save_job(self, job: JobRow) -> None:
        """Write how a job stands now; messages that wait for it to wait or to end are ripe with that."""
        is_waited_for = job.state in {"awaiting", "parked"} or job.state in FINAL_STATES
        query = _SAVE_AND_RIPEN if is_waited_for else _UPDATE_JOB
        await self._connection.execute(query, job.job, *_storable_columns(job))

    async def begun_jobs(self, most_weight: float) -> list[BegunJob]:
        """Return jobs that somebody has begun, the longest waiting first."""
        rows = await self._connection.fetch(_BEGUN, most_weight)
        return [BegunJob(WaitingJob(*row[10:]), read_lease(row[:9]), row[9]) for row in map(tuple, rows)]

    async def lock_begun(self, job: JobId) -> JobRow | None:
        """Lock and return a job; none where somebody else has it locked, or it is not begun any more."""
        row = await self._connection.fetchrow(_LOCK_BEGUN, job)
        return None if row is None else read_job(tuple(row))

    async def next_waiting(
        self, most_weight: float, now: float, after: WaitingJob | None
    ) -> tuple[WaitingJob, JobRow] | None:
        """Lock and return the next job that is queued and due, leaving those out that somebody else has locked."""
        place = (-math.inf, 0) if after is None else (after.queue_rank, after.no)
        row = await self._connection.fetchrow(_NEXT_WAITING, most_weight, now, *place)
        if row is None:
            return None
        job = read_job(tuple(row))
        return WaitingJob(job.queue_rank, row["no"], job.job, job.run), job

    async def has_work(self, most_weight: float) -> tuple[bool, float]:
        """Return whether a job is due or a kept message is ripe, and when that was so."""
        row = await self._connection.fetchrow(_HAS_WORK, most_weight)
        assert row is not None
        is_there, now = row
        return is_there, now

    async def poison_candidate_runs(self, most_attempts: int, opening: int) -> list[tuple[RunId, bool]]:
        """Return the runs under a hold of this opening's of begun jobs that have had more attempts.

        Beside each, whether that hold was written in this very transaction.
        """
        rows = await self._connection.fetch(_POISON_CANDIDATES, most_attempts, opening)
        return [(run, is_taken_now) for run, is_taken_now in rows]

    async def count_states(self) -> dict[JobState, int]:
        """Return how many jobs are in each state that has any."""
        rows = await self._connection.fetch("SELECT state, count(*) FROM job GROUP BY state")
        return {row["state"]: row["count"] for row in rows}

    # The inbox

    async def is_seen(self, message: MessageId) -> bool:
        """Return whether a message with this id is remembered."""
        asked = "SELECT EXISTS (SELECT FROM inbox WHERE message = $1)"
        return bool(await self._connection.fetchval(asked, storable_text(message)))

    async def remember(self, message: ReceivedMessage, now: float, *, is_kept: bool) -> None:
        """Write a message that had an effect, or that is kept until its turn comes."""
        kept = deferred_text(cast("DeferredRequest", message.request)) if is_kept else None
        subject, iteration = subject_of(message)
        columns = (
            storable_text(message.message),
            storable_text(message.kind),
            storable_text(message.source),
            message.at,
            now,
        )
        await self._connection.execute(_INSERT_MESSAGE, *columns, storable_text(subject), iteration, kept)

    async def ripe_messages(self) -> list[DeferredMessage]:
        """Return kept messages that are to be judged again since what they name has changed, in their order."""
        return [read_deferred_message(tuple(row)) for row in await self._connection.fetch(_RIPE)]

    async def lock_ripe(self, kept: DeferredMessage) -> bool:
        """Lock a kept message with what it names; return whether that was free, and it is still to be judged again."""
        if isinstance(kept.request, DecisionMade):
            decision = storable_text(kept.request.decision)
            if not await self._connection.fetchval(_TRY_DECISION, decision):
                return False
            asked = await self.find_decision(kept.request.decision)
            if asked is None or await self._connection.fetchval(_FREE_DECISION, decision) is None:
                return False
            job = asked.job
        else:
            job = kept.request.job
        is_known = await self.find_job(job) is not None
        if is_known and await self._connection.fetchval(_FREE_JOB, storable_text(job)) is None:
            return False
        return await self._connection.fetchval(_IS_RIPE, kept.no) is not None

    async def kept_verdicts(self, job: JobId, before: int | None = None) -> tuple[VerdictGiven, ...]:
        """Return verdicts on a job that are kept, and came before the message of that number where one is given."""
        rows = await self._connection.fetch(
            """SELECT kept FROM inbox
               WHERE kept IS NOT NULL AND subject = $1 AND ($2::bigint IS NULL OR no < $2) ORDER BY no""",
            storable_text(job),
            before,
        )
        requests = [read_deferred(kept) for (kept,) in rows]
        return tuple(request for request in requests if isinstance(request, VerdictGiven))

    async def set_judged(self, no: int, *, is_done: bool) -> None:
        """Note that a kept message was judged again: it is done with, or waits for the next change."""
        await self._connection.execute(_JUDGED, no, is_done)

    # Decisions

    async def ask(self, decisions: Sequence[tuple[object, ...]]) -> None:
        """Write decisions, but for those that are known already; answers that came ahead of them are ripe with that."""
        if decisions:
            rows = [tuple(map(storable_value, decision)) for decision in decisions]
            await self._connection.executemany(_INSERT_DECISION, rows)
            await self._connection.execute(_RIPEN.format(subject="ANY($1::text[])"), [row[0] for row in rows])

    async def lock_decisions(self, decisions: Sequence[tuple[object, ...]]) -> None:
        """Have decisions to oneself that are to be asked."""
        for decision in sorted(str(decision[0]) for decision in decisions):
            await self.lock_decision(DecisionId(decision))

    async def lock_decision(self, decision: DecisionId) -> None:
        """Have a decision that may not be there yet to oneself: an answer comes before the question or sees it."""
        await self._connection.execute(_LOCK_DECISION, storable_text(decision))

    async def find_decision(self, decision: DecisionId, *, locked: bool = False) -> Decision | None:
        """Return one decision."""
        suffix = " FOR UPDATE" if locked else ""
        row = await self._connection.fetchrow(f"{_DECISION} WHERE id = $1{suffix}", storable_text(decision))
        return None if row is None else read_decision(tuple(row))

    async def match_decisions(self, prefix: str) -> list[Decision]:
        """Return decisions whose id starts so."""
        rows = await self._connection.fetch(
            f"{_DECISION} WHERE starts_with(id, $1) ORDER BY no", storable_text(prefix)
        )
        return [read_decision(tuple(row)) for row in rows]

    async def list_decisions(self, *, is_open: bool, job: JobId | None) -> list[Decision]:
        """Return decisions that are open, or that were answered, in the order in which they were asked."""
        standing = "IS NULL" if is_open else "IS NOT NULL"
        where, values = ("", ()) if job is None else ("AND job = $1", (storable_text(job),))
        rows = await self._connection.fetch(
            f"{_DECISION} WHERE choice {standing} {where} ORDER BY no", *values
        )
        return [read_decision(tuple(row)) for row in rows]

    async def answer(self, decision: DecisionId, choice: str, by: str, now: float) -> None:
        """Write the answer to a decision."""
        await self._connection.execute(
            "UPDATE decision SET choice = $2, answered_by = $3, answered = $4 WHERE id = $1",
            decision,
            storable_text(choice),
            storable_text(by),
            now,
        )

    async def take(self, decision: DecisionId, now: float) -> bool:
        """Mark an answer as taken; return whether it was there to be taken."""
        return await self._connection.fetchval(_TAKE, storable_text(decision), now) is not None

    async def has_untaken_answer(self, job: JobId, now: float) -> bool:
        """Return whether somebody answered a question of the job that the job has not looked at yet."""
        return await self._connection.fetchval(_UNTAKEN, job, now) is not None


def _storable_columns(job: JobRow) -> tuple[object, ...]:
    return tuple(map(storable_value, mutable_columns(job)))
