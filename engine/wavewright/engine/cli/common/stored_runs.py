"""Finding the run that a command names: by its id, by a unique prefix, or the newest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavewright.engine.cli.common.arguments import has_journal, no_journal, open_journal
from wavewright.engine.targets.waves import target_runs
from wavewright.executor.events.state import fold
from wavewright.executor.store.journal import ENDED_STATUSES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavewright.config.settings import Settings
    from wavewright.executor.events.types import Event
    from wavewright.executor.store.journal import Journal, RunRow
    from wavewright.planner.types import RunId


async def find_run(journal: Journal, prefix: str | None) -> RunId:
    """Return the run whose id, or whose tail after the last `-`, starts with `prefix`; the newest run for None.

    The newest run of a job with several targets is the job's, not that of its last target.

    Raises:
        RunNotFound: no run has this prefix, several do (they are named), or there is no run.
    """
    if prefix is None:
        rows = await journal.list_runs()
        return await _root_run(journal, rows, rows[0]) if rows else await journal.find_run("")
    return await journal.find_run(prefix)


async def root_run_of(journal: Journal, run: RunId) -> RunId:
    """Return the run of the job that a run is a target of; the run itself where it is that of no target."""
    rows = await journal.list_runs()
    found = next((row for row in rows if row.run == run), None)
    return run if found is None else await _root_run(journal, rows, found)


async def _root_run(journal: Journal, rows: Sequence[RunRow], found: RunRow) -> RunId:
    for row in rows:
        # The run of a target is named after its job's, which lists it. Before its first event it has no name, and its
        # job goes on.
        may_list = found.job.startswith(f"{row.job}: ") if found.job else row.status not in ENDED_STATUSES
        if may_list and row != found and found.run in target_runs(fold(await journal.load(row.run))):
            return row.run
    return found.run


async def load_run(settings: Settings, prefix: str | None) -> tuple[RunId, list[Event]]:
    """Return a run of the project's journal, found as by `find_run`, and its events.

    Raises:
        CommandError: there are no runs yet.
        RunNotFound: there is no such run.
    """
    if not has_journal(settings):
        raise no_journal(settings)
    async with open_journal(settings) as journal:
        run = await find_run(journal, prefix)
        return run, await journal.load(run)
