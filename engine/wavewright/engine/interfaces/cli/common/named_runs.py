"""The run that a command names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavewright.config import Settings
from wavewright.engine.interfaces.cli.common.arguments import open_journal, require_journal
from wavewright.engine.interfaces.cli.common.output import CommandError
from wavewright.engine.run.find_run import find_run
from wavewright.executor import RunNotFound
from wavewright.planner import RunId

if TYPE_CHECKING:
    from wavewright.executor import Event
    from wavewright.executor.store.stored_journal import StoredJournal


async def load_run(settings: Settings, wanted: str | None) -> tuple[RunId, list[Event]]:
    """Return a run of the project's journal, found as by `find_named_run`, and its events.

    Raises:
        CommandError: there are no runs yet.
        RunNotFound: there is no such run.
    """
    async with open_journal(require_journal(settings)) as journal:
        run = await find_named_run(journal, wanted)
        return run, await journal.load(run)


def not_begun(run: RunId) -> CommandError:
    """Return the error of a run without events, to be raised."""
    hint = "`wavewright serve` or a daemon executes it"
    return CommandError(f"run {run!r} has not begun: its job waits for a daemon", hint=hint)


async def find_named_run(journal: StoredJournal, wanted: str | None) -> RunId:
    """Return the run that a command names: by the beginning of its id as `find_run` does, or by that
    of its job's id; the newest run for None.

    Raises:
        RunNotFound: there is no such run or job, or there are several.
    """
    try:
        return await find_run(journal, wanted)
    except RunNotFound:
        # Few name a job.
        from wavewright.engine.service.job_store.store import JobStore
        from wavewright.engine.service.requested_jobs import named_job

        job = await named_job(JobStore(journal), wanted or "")
        if job is None:
            raise
        return job.run
