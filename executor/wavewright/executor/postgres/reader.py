"""Read runs and their events back from the database.

The *reader* changes nothing and needs no ownership, so it reads a run while another process writes it. Each event
carries a checksum and its place in the run: a text that was altered or is missing is told, never given out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wavewright.executor.events import Event
from wavewright.executor.journal import StoredOutput, reusable_output, run_status
from wavewright.executor.journal_errors import JournalError
from wavewright.executor.journal_runs import RunRow, match_run
from wavewright.executor.lease import judge_lease, read_lease
from wavewright.executor.postgres.connection import Connection
from wavewright.executor.postgres.leases import LEASE_COLUMNS
from wavewright.executor.postgres.texts import storable_text
from wavewright.executor.run_faults import event_damaged_error, read_event
from wavewright.planner.types import RunId, StepKey

if TYPE_CHECKING:
    import asyncpg

_EVENTS: Final = """
    SELECT event.seq, event.kind, event.crc, event.body
    FROM event JOIN run ON run.no = event.run WHERE run.run = $1 ORDER BY event.seq"""
_NEWEST: Final = """
    SELECT run.run, event.seq, event.kind, event.crc, event.body
    FROM event JOIN run ON run.no = event.run WHERE event.key = $1 ORDER BY event.id DESC LIMIT 1"""
_RUNS: Final = f"""
    SELECT {LEASE_COLUMNS}, run.run, run.job, run.created, run.finished, run.status,
           coalesce(run.steps, counted.steps) AS steps, coalesce(run.ok, counted.ok) AS ok,
           coalesce(run.failed, counted.failed) AS failed, coalesce(purse_total.tokens, 0) AS tokens,
           clock_seconds() AS now
    FROM run LEFT JOIN opening ON opening.no = run.owner
    LEFT JOIN LATERAL count_steps(run.no) AS counted ON run.steps IS NULL
    LEFT JOIN purse_total ON pot = 'run' AND name = run.run AND step = ''
    ORDER BY run.created DESC, run.run COLLATE "C" DESC"""  # noqa: S608 - constants


async def load(connection: Connection, run: RunId, place: str) -> list[Event]:
    """Return the run's events in order; none for a run that does not exist.

    Raises:
        JournalDamaged: one is not what was written, names it.
    """
    events, fault = await salvage(connection, run, place)
    if fault is not None:
        raise fault
    return events


async def salvage(connection: Connection, run: RunId, place: str) -> tuple[list[Event], JournalError | None]:
    """Return the run's events up to the first that cannot be read, and what is wrong with that one."""
    events = list[Event]()
    for expected, (seq, kind, crc, body) in enumerate(await connection.fetch(_EVENTS, storable_text(run))):
        if seq != expected:
            return events, event_damaged_error(run, expected, "it is missing", place=place)
        try:
            events.append(read_event(run, seq, kind, crc, body.encode(), place=place))
        except JournalError as fault:
            return events, fault
    return events, None


async def find_output(connection: Connection, key: StepKey, place: str) -> StoredOutput | None:
    """Return the newest whole and unblocked output that any run journaled under the key."""
    row = await connection.fetchrow(_NEWEST, storable_text(key))
    if row is None:
        return None
    run, seq, kind, crc, body = row
    return reusable_output(run, read_event(run, seq, kind, crc, body.encode(), place=place))


async def list_runs(connection: Connection, realm: str) -> list[RunRow]:
    """Return all runs, the newest first."""
    return [_summary(row, realm) for row in await connection.fetch(_RUNS)]


def _summary(row: asyncpg.Record, realm: str) -> RunRow:
    hold = read_lease(tuple(row)[:9])
    is_owned = hold is not None and judge_lease(hold, now=row["now"], realm=realm) == "busy"
    return RunRow(
        run=row["run"],
        job=row["job"],
        status=run_status(row["status"], is_owned=is_owned),
        started=row["created"],
        finished=row["finished"],
        steps=row["steps"],
        ok=row["ok"],
        failed=row["failed"],
        owner=str(hold.owner) if hold is not None and is_owned else None,
        tokens=row["tokens"],
    )


async def find_run(connection: Connection, prefix: str, place: str) -> RunId:
    """Return the run whose id, or whose tail after the last `-`, starts so.

    Raises:
        RunNotFound: none does, or several do.
    """
    rows = await connection.fetch("SELECT run FROM run")
    return match_run(prefix, [RunId(run) for (run,) in rows], place=place)
