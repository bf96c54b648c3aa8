"""What goes into the job store beside a run's events, in their transaction.

The journal's store calls this after it has checked the fence of the run whose events it writes; a job whose root run
is another one is changed only where that one is held here, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from wavewright.executor.job_store.records import JobChange, JobId, JobRow
from wavewright.executor.job_store.rules import change_job, resume_job
from wavewright.executor.job_store.texts import OutboxRows
from wavewright.executor.journal_errors import JournalError
from wavewright.executor.postgres.job_tables import PostgresJobTables
from wavewright.planner.types import RunId


async def put_outbox_rows(
    tables: PostgresJobTables, beside: OutboxRows, now: float, check: Callable[[RunId], Awaitable[None]]
) -> RunId | None:
    """Write what goes beside events, but for messages; return the run of a job that nobody works on any more.

    Args:
        tables: The job store's, in the transaction of the events, with the decisions locked that are asked.
        beside: What to write.
        now: Seconds since the epoch, by the database's clock.
        check: Raises where a run is not held here.

    Raises:
        RunLost: the job that is changed is not held here.
        JournalError: there is no such job, it has ended otherwise, or an answer is not there to be taken.
    """
    job = None if beside.change is None else await require_job(tables, beside.change.job)
    await tables.ask(beside.decisions)
    for decision in beside.taken:
        if not await tables.take(decision, now):
            raise JournalError(
                f"the answer to decision {decision} cannot be taken: it was taken before, has expired or was not given",
                mend="resume the run; it asks again",
            )
    if beside.change is None or job is None:
        return None
    await check(job.run)
    await tables.save_job(await changed_job(tables, job, beside.change, now))
    return None if beside.change.state == "running" else job.run


async def changed_job(tables: PostgresJobTables, job: JobRow, change: JobChange, now: float) -> JobRow:
    """Return a job as its owner says that it stands; one that waits for an answer which is there goes on.

    Raises:
        JournalError: it has ended, and not so.
    """
    job = change_job(job, change, now)
    is_answered = job.state == "parked" and await tables.has_untaken_answer(job.job, now)
    return resume_job(job, now) if is_answered else job


async def require_job(tables: PostgresJobTables, job: JobId) -> JobRow:
    """Return a job that must be there, its row locked.

    Raises:
        JournalError: it is not.
    """
    found = await tables.find_job(job, locked=True)
    if found is None:
        raise JournalError(f"there is no job {job}", mend="a job is made by the message that asks for it")
    return found
