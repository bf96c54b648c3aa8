"""Whose a run is: a daemon's job's, a job's with several targets, or nobody's but its own.

A run that is part of something larger goes on with that: resumed alone it would leave its job waiting for an answer
that was used up, or a root run that knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wavewright.engine.target_waves import target_waves
from wavewright.executor.job_store.port import JobStore
from wavewright.executor.job_store.records import JobRow, JobState
from wavewright.executor.journal import Journal
from wavewright.executor.state import RunState, fold
from wavewright.planner.types import JsonObject, RunId

OPEN_JOB_STATES: Final[Sequence[JobState]] = ("queued", "running", "parked", "awaiting")
"""States of jobs that have not ended."""


async def job_of_run(journal: Journal, jobs: JobStore, run: RunId) -> JobRow | None:
    """Return the job of a daemon that a run belongs to, as its own or as that of a target; none where it has ended."""
    rows = await jobs.list_jobs(OPEN_JOB_STATES)
    # A run that has asked is named by its question; only else must the journals of jobs with targets be read.
    asking = {decision.job for decision in await jobs.list_decisions() if decision.run == run}
    for row in rows:
        if row.run == run or row.job in asking:
            return row
    for row in rows:
        if _may_have_targets(row.request) and run in target_runs(fold(await journal.load(row.run))):
            return row
    return None


def target_runs(state: RunState) -> frozenset[RunId]:
    """Return the runs of a root run's targets; none where it is a run like any other."""
    waves = target_waves(state)
    return frozenset() if waves is None else frozenset(waves.runs.values())


def no_plan_reason(state: RunState, otherwise: str) -> str:
    """Return why a run has no plan: its targets' runs have theirs, or else what is given."""
    if target_waves(state) is None:
        return otherwise
    shown = f"`wavewright show {state.run}` lists them"
    return f"run {state.run!r} is that of a job with several targets, each with a run of its own: {shown}"


def _may_have_targets(request: JsonObject) -> bool:
    job = request.get("job")
    return "targets" in job if isinstance(job, dict) else True
