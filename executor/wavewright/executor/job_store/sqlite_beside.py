"""What goes into the job store beside a run's events, in their transaction.

The journal's store calls this after it has checked the fence of the run whose events it writes; a job whose root run
is another one is changed only where that one is held here, too.
"""

from __future__ import annotations

from collections.abc import Callable

from wavewright.executor.job_store.records import JobChange, JobId, JobRow
from wavewright.executor.job_store.rules import change_job, resume_job
from wavewright.executor.job_store.sqlite_tables import SqliteJobTables
from wavewright.executor.job_store.texts import OutboxRows
from wavewright.executor.journal_errors import JournalError
from wavewright.planner.types import RunId


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
                mend="resume the run; it asks again",
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
        raise JournalError(f"there is no job {job}", mend="a job is made by the message that asks for it")
    return found
