"""The job store's tables in the journal's file, row by row.

Everything here happens within a transaction of the caller's and decides nothing: what a job becomes is said in
`rules`, who may say so in `sqlite_transactions`.

What goes into the job store beside a run's events, in their transaction.

The journal's store calls this after it has checked the fence of the run whose events it writes; a job whose root run
is another one is changed only where that one is held here, too.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any, Final, cast

from wavewright.executor.sqlite.outbox import SqliteOutboxTables
from wavewright.executor.store.errors import JournalError
from wavewright.executor.store.job_records import (
    Decision,
    DecisionId,
    JobChange,
    JobId,
    JobRow,
    JobState,
    MessageId,
    ReceivedMessage,
    RetentionCursor,
    VerdictGiven,
)
from wavewright.executor.store.job_rows import (
    DECISION_COLUMNS,
    SELECT_JOB,
    DeferredMessage,
    DeferredRequest,
    OutboxRows,
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
from wavewright.executor.store.job_rules import FINAL_STATES, change_job, resume_job
from wavewright.executor.store.retention import FORGET_PAGE_SIZE, next_cursor, orphaned_messages
from wavewright.planner.types import RunId

_INSERT_JOB: Final = """
    INSERT INTO job (job, run, state, received, weight, attempts, iteration, package, feedback, sent, reason,
                     not_before, finished, since, turn)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_UPDATE_JOB: Final = """
    UPDATE job SET state = ?, attempts = ?, iteration = ?, package = ?, feedback = ?, sent = ?, reason = ?,
                   not_before = ?, finished = ?, since = ?, turn = ?
    WHERE job = ?"""
_WAITING: Final = """
    SELECT job, run, turn, no FROM job INDEXED BY job_turn
    WHERE state = 'queued' AND weight <= :most AND (not_before IS NULL OR not_before <= :now OR :now < since)
    ORDER BY turn, no"""
_BEGUN: Final = "SELECT job, run, turn, no FROM job WHERE state = 'running' AND weight <= ? ORDER BY turn, no"
_RIPE: Final = """
    SELECT no, message, kind, source, at, kept FROM inbox INDEXED BY inbox_ripe WHERE is_ripe = 1 ORDER BY no"""
_RIPEN: Final = "UPDATE inbox INDEXED BY inbox_kept SET is_ripe = 1 WHERE kept IS NOT NULL AND subject = ?"
_INSERT_MESSAGE: Final = """
    INSERT INTO inbox (message, kind, source, at, received, subject, iteration, kept) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
_INSERT_DECISION: Final = f"""
    INSERT INTO decision ({DECISION_COLUMNS}) VALUES ({", ".join("?" * len(DECISION_COLUMNS.split(", ")))})
    ON CONFLICT (id) DO NOTHING"""  # noqa: S608 - names and question marks of our own
_TAKE: Final = """
    UPDATE decision SET used = :now
    WHERE id = :id AND choice IS NOT NULL AND used IS NULL AND (expires IS NULL OR expires > :now)"""
_OLD_INBOX: Final = f"SELECT no, received FROM inbox WHERE no > ? ORDER BY no LIMIT {FORGET_PAGE_SIZE}"  # noqa: S608 - as above
_OLD_OUTBOX: Final = f"SELECT no, at FROM outbox WHERE no > ? ORDER BY no LIMIT {FORGET_PAGE_SIZE}"  # noqa: S608 - as above
_FORGET_INBOX: Final = "DELETE FROM inbox WHERE no > ? AND no <= ? AND received < ? AND kept IS NULL"
_OLD_KEPT: Final = """
    SELECT inbox.no, kept, package, sent
    FROM inbox LEFT JOIN job ON job.job = subject AND state NOT IN ('completed', 'failed', 'dead')
    WHERE inbox.no > ? AND inbox.no <= ? AND inbox.received < ? AND kept IS NOT NULL AND is_ripe = 0"""
_FORGET_OUTBOX: Final = """
    DELETE FROM outbox WHERE no > ? AND no <= ? AND sent < ? AND NOT EXISTS (
        SELECT 1 FROM job WHERE job.job = outbox.job AND job.state NOT IN ('completed', 'failed', 'dead'))"""


class SqliteJobTables:
    """Rows of jobs, decisions, inbox and outbox."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Read and write through this connection, within the caller's transactions."""
        self._connection = connection
        self._written = 0
        self.outbox = SqliteOutboxTables(connection)

    def take_written_bytes(self) -> int:
        """Return the bytes of the long texts that were written since this was last asked."""
        written = self._written + self.outbox.written
        self._written = self.outbox.written = 0
        return written

    # Jobs

    def find_job(self, job: JobId) -> JobRow | None:
        """Return one job; who works on it is not looked up."""
        row = self._connection.execute(f"{SELECT_JOB} WHERE job.job = ?", (job,)).fetchone()
        return None if row is None else read_job(row)

    def list_jobs(self, states: Sequence[JobState]) -> list[JobRow]:
        """Return jobs in the order in which they came."""
        marks = ", ".join("?" * len(states))
        where = f"WHERE state IN ({marks})" if states else ""
        rows = self._connection.execute(f"{SELECT_JOB} {where} ORDER BY job.no", tuple(states))
        return [read_job(row) for row in rows]

    def has_run(self, run: RunId) -> bool:
        """Return whether some job or some run has that id."""
        asked = "SELECT 1 FROM job WHERE run = ? UNION ALL SELECT 1 FROM run WHERE run = ?"
        return bool(self._rows(asked, run, run))

    def add_job(self, job: JobRow) -> None:
        """Write a new job."""
        request = to_json_text(job.request, place=f"job {job.job}")
        cursor = self._connection.execute(
            _INSERT_JOB, (job.job, job.run, job.state, job.received, job.weight, *mutable_columns(job)[1:])
        )
        self._connection.execute("INSERT INTO job_request VALUES (?, ?)", (cursor.lastrowid, request))
        self._written += len(request)

    def save_job(self, job: JobRow) -> None:
        """Write how a job stands now; messages that wait for it to wait or to end are ripe with that."""
        self._connection.execute(_UPDATE_JOB, (*mutable_columns(job), job.job))
        if job.state in {"awaiting", "parked"} or job.state in FINAL_STATES:
            self._connection.execute(_RIPEN, (job.job,))

    def begun_jobs(self, most_weight: float) -> list[WaitingJob]:
        """Return jobs that somebody has begun, the longest waiting first."""
        return [WaitingJob(turn, no, job, run) for job, run, turn, no in self._rows(_BEGUN, most_weight)]

    def waiting_jobs(self, most_weight: float, now: float) -> Generator[WaitingJob]:
        """Give jobs that are queued and due, the next one first; to be closed when one was found."""
        with closing(self._connection.execute(_WAITING, {"most": most_weight, "now": now})) as rows:
            for job, run, turn, no in rows:
                yield WaitingJob(turn, no, job, run)

    def poison_candidate_runs(self, most_attempts: int) -> list[RunId]:
        """Return the runs of begun jobs that have had more attempts."""
        asked = "SELECT run FROM job WHERE state = 'running' AND attempts > ?"
        return [run for (run,) in self._connection.execute(asked, (most_attempts,))]

    def count_states(self) -> dict[JobState, int]:
        """Return how many jobs are in each state that has any."""
        return dict(self._connection.execute("SELECT state, count(*) FROM job GROUP BY state").fetchall())

    # The inbox

    def is_seen(self, message: MessageId) -> bool:
        """Return whether a message with this id is remembered."""
        return bool(self._rows("SELECT 1 FROM inbox WHERE message = ?", message))

    def remember(self, message: ReceivedMessage, now: float, *, is_kept: bool) -> None:
        """Write a message that had an effect, or that is kept until its turn comes."""
        kept = deferred_text(cast("DeferredRequest", message.request)) if is_kept else None
        self._connection.execute(
            _INSERT_MESSAGE,
            (message.message, message.kind, message.source, message.at, now, *subject_of(message), kept),
        )

    def ripe_messages(self) -> list[DeferredMessage]:
        """Return kept messages that are to be judged again since what they name has changed, in their order."""
        return [read_deferred_message(row) for row in self._rows(_RIPE)]

    def kept_verdicts(self, job: JobId, before: int | None = None) -> tuple[VerdictGiven, ...]:
        """Return verdicts on a job that are kept, and came before the message of that number where one is given."""
        rows = self._rows(
            """SELECT kept FROM inbox
               WHERE kept IS NOT NULL AND subject = ? AND (? IS NULL OR no < ?) ORDER BY no""",
            job,
            before,
            before,
        )
        requests = [read_deferred(kept) for (kept,) in rows]
        return tuple(request for request in requests if isinstance(request, VerdictGiven))

    def set_judged(self, no: int, *, is_done: bool) -> None:
        """Note that a kept message was judged again: it is done with, or waits for the next change."""
        done = ", kept = NULL" if is_done else ""
        self._connection.execute(f"UPDATE inbox SET is_ripe = 0{done} WHERE no = ?", (no,))  # noqa: S608

    # Decisions

    def ask(self, decisions: Sequence[tuple[object, ...]]) -> None:
        """Write decisions, but for those that are known already; answers that came ahead of them are ripe with that."""
        self._connection.executemany(_INSERT_DECISION, decisions)
        self._connection.executemany(_RIPEN, [(decision[0],) for decision in decisions])

    def find_decision(self, decision: DecisionId) -> Decision | None:
        """Return one decision."""
        rows = self._rows(f"SELECT {DECISION_COLUMNS} FROM decision WHERE id = ?", decision)  # noqa: S608
        return read_decision(rows[0]) if rows else None

    def match_decisions(self, prefix: str) -> list[Decision]:
        """Return decisions whose id starts so."""
        query = f"SELECT {DECISION_COLUMNS} FROM decision WHERE substr(id, 1, length(?)) = ? ORDER BY no"  # noqa: S608
        return [read_decision(row) for row in self._rows(query, prefix, prefix)]

    def list_decisions(self, *, is_open: bool, job: JobId | None) -> list[Decision]:
        """Return decisions that are open, or that were answered, in the order in which they were asked."""
        standing = "IS NULL" if is_open else "IS NOT NULL"
        where, values = ("", ()) if job is None else ("AND job = ?", (job,))
        query = f"SELECT {DECISION_COLUMNS} FROM decision WHERE choice {standing} {where} ORDER BY no"  # noqa: S608
        return [read_decision(row) for row in self._rows(query, *values)]

    def answer(self, decision: DecisionId, choice: str, by: str, now: float) -> None:
        """Write the answer to a decision."""
        self._connection.execute(
            "UPDATE decision SET choice = ?, answered_by = ?, answered = ? WHERE id = ?",
            (choice, by, now, decision),
        )

    def take(self, decision: DecisionId, now: float) -> bool:
        """Mark an answer as taken; return whether it was there to be taken."""
        return self._connection.execute(_TAKE, {"now": now, "id": decision}).rowcount == 1

    def has_untaken_answer(self, job: JobId, now: float) -> bool:
        """Return whether somebody answered a question of the job that the job has not looked at yet."""
        query = """SELECT 1 FROM decision WHERE job = ? AND choice IS NOT NULL AND used IS NULL
                   AND (expires IS NULL OR expires > ?)"""
        return bool(self._rows(query, job, now))

    # Messages, in and out

    def forget_messages(self, before: float, beyond: RetentionCursor) -> RetentionCursor | None:
        """Delete rows of messages from before an instant, but for those that are needed; return where to go on."""
        inbox, outbox = self._rows(_OLD_INBOX, beyond.inbox), self._rows(_OLD_OUTBOX, beyond.outbox)
        if inbox:
            part = (beyond.inbox, inbox[-1][0], before)
            self._connection.execute(_FORGET_INBOX, part)
            kept = orphaned_messages(self._rows(_OLD_KEPT, *part))
            self._connection.executemany("DELETE FROM inbox WHERE no = ?", [(no,) for no in kept])
        if outbox:
            self._connection.execute(_FORGET_OUTBOX, (beyond.outbox, outbox[-1][0], before))
        return next_cursor(beyond, inbox, outbox, before)

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(query, values).fetchall()


def put_outbox_rows(
    tables: SqliteJobTables, beside: OutboxRows, now: float, check: Callable[[RunId], None]
) -> RunId | None:
    """Write what goes beside events, and return the run that is to be given up: that of a job nobody works on now.

    Args:
        tables: The job store's.
        beside: What to write.
        now: Seconds since the epoch.
        check: Raises where a run is not held here.

    Raises:
        RunLost: the job that is changed is not held here.
        JournalError: there is no such job, it has ended otherwise, or an answer is not there to be taken.
    """
    for decision in beside.taken:
        if not tables.take(decision, now):
            raise JournalError(
                f"the answer to decision {decision} cannot be taken: it was taken before, has expired or was not given",
                hint="resume the run; it asks again",
            )
    tables.ask(beside.decisions)
    tables.outbox.put(beside.messages)
    if beside.change is None:
        return None
    job = require_job(tables, beside.change.job)
    check(job.run)
    tables.save_job(changed_job(tables, job, beside.change, now))
    return None if beside.change.state == "running" else job.run


def changed_job(tables: SqliteJobTables, job: JobRow, change: JobChange, now: float) -> JobRow:
    """Return a job as its owner says that it stands; one that waits for an answer which is there goes on.

    Raises:
        JournalError: it has ended, and not so.
    """
    job = change_job(job, change, now)
    is_answered = job.state == "parked" and tables.has_untaken_answer(job.job, now)
    return resume_job(job, now) if is_answered else job


def require_job(tables: SqliteJobTables, job: JobId) -> JobRow:
    """Return a job that must be there.

    Raises:
        JournalError: it is not.
    """
    found = tables.find_job(job)
    if found is None:
        raise JournalError(f"there is no job {job}", hint="a job is made by the message that asks for it")
    return found
