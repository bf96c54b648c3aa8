"""Runs as people name them: by the beginning of an id, or as the newest."""

from __future__ import annotations

from collections.abc import Sequence

from wavewright.engine.run.target_waves import target_runs
from wavewright.executor import Journal, fold
from wavewright.executor.store.journal import ENDED_STATUSES, RunRow
from wavewright.planner import RunId
from wavewright.planner.types import read_run_id


async def find_run(journal: Journal, prefix: str | None) -> RunId:
    """Return the run whose id, or whose tail after the last `-`, starts with `prefix`; the newest
    run for None.

    The newest run of a job with several targets is the job's, not that of its last target.

    Raises:
        RunNotFound: no run has this prefix, several do (they are named), or there is no run.
        RunIdRefused: its id can be none, as in a database that was edited.
    """
    rows = await journal.list_runs() if prefix is None else []
    run = await _root_run(journal, rows, rows[0]) if rows else await journal.find_run(prefix or "")
    # Whoever has edited the database may have written anything there.
    return read_run_id(run)


async def root_run_of(journal: Journal, run: RunId) -> RunId:
    """Return the run of the job that a run is a target of; the run itself where it is that of no
    target.
    """
    rows = await journal.list_runs()
    row_of_run = next((row for row in rows if row.run == run), None)
    return run if row_of_run is None else await _root_run(journal, rows, row_of_run)


async def _root_run(journal: Journal, rows: Sequence[RunRow], target: RunRow) -> RunId:
    for row in rows:
        # The run of a target is named after its job's, which lists it. Before its first event it
        # has no name, and its job goes on.
        may_list = (
            target.job.startswith(f"{row.job}: ")
            if target.job
            else row.status not in ENDED_STATUSES
        )
        if (
            may_list
            and row != target
            and target.run in target_runs(fold(await journal.load(row.run)))
        ):
            return row.run
    return target.run
