"""What a store in PostgreSQL holds, read by the judge's own queries.

Rows and the order of events are read with nothing of the daemon's; only the text of an event is
taken apart by its own code, which compares the checksum. A *fault* is something in the tables that
cannot be.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import asyncpg

from tests.crash.oracle import Row
from wavewright.executor.events.types import Event
from wavewright.executor.store.errors import JournalError
from wavewright.executor.store.journal import summarize_run
from wavewright.executor.store.leases import read_event
from wavewright.planner.types import RunId

_EVENTS = """
    SELECT run.run, seq, kind, crc, body FROM wavewright.event
    LEFT JOIN wavewright.run ON run.no = event.run ORDER BY event.run, seq"""


@dataclass(frozen=True)
class Tables:
    """What is in the tables."""

    rows: list[Row]
    events: dict[str, list[Event]]
    """Of each job's run."""
    charged: dict[str, int]
    """Tokens of all entries of the purse, by job."""
    faults: list[str]


async def read_tables(url: str) -> Tables:
    """Return what the store in that database holds, and what is wrong with it."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            jobs = await connection.fetch("SELECT job, run, state, attempts FROM wavewright.job")
            runs = await connection.fetch(
                "SELECT run, status, steps, ok, failed FROM wavewright.run"
            )
            written = await connection.fetch(_EVENTS)
            spent = await connection.fetch(
                "SELECT run, sum(tokens) FROM wavewright.model_call GROUP BY run"
            )
    finally:
        await connection.close()
    events, faults = _events(written)
    faults += [fault for row in runs for fault in _differences(row, events[row["run"]])]
    tokens = {run: int(many) for run, many in spent}
    rows = [Row(job, run, state, attempts) for job, run, state, attempts in jobs]
    return Tables(
        rows,
        {row.job: events[row.run] for row in rows},
        {row.job: tokens.get(row.run, 0) for row in rows},
        faults,
    )


def _events(written: list[asyncpg.Record]) -> tuple[defaultdict[str, list[Event]], list[str]]:
    events, faults = defaultdict[str, list[Event]](list), list[str]()
    for run, seq, kind, crc, body in written:
        if run is None:
            faults.append("I12: there are events of a run that is not there")
            continue
        if seq != len(events[run]):
            faults.append(f"I12: run {run} has event {seq} where event {len(events[run])} belongs")
        try:
            events[run].append(
                read_event(RunId(run), seq, kind, crc, body.encode(), place="the database")
            )
        except JournalError as fault:
            faults.append(f"I12: run {run} cannot be read: {fault}")
    return events, faults


def _differences(row: asyncpg.Record, events: list[Event]) -> list[str]:
    """Return how a run's row, which is derived from its events, differs from them; an open run has
    no counts.
    """
    if row["status"] in (None, "interrupted"):
        return []
    folded = summarize_run(RunId(row["run"]), events, is_owned=False)
    told = (folded.status, folded.steps, folded.ok, folded.failed)
    is_same = told == (row["status"], row["steps"], row["ok"], row["failed"])
    return [] if is_same else [f"I12: the row of run {row['run']} is not what its events say"]
