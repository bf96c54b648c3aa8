"""Who has which run open, as the database keeps it.

Everything here is said within a transaction of the caller's, with the run's row locked, so that the answer still
holds when something is written. Ages are told by the database's clock alone; a process on this machine is looked at.

Read runs and their events back from the database.

The *reader* changes nothing and needs no ownership, so it reads a run while another process writes it. Each event
carries a checksum and its place in the run: a text that was altered or is missing is told, never given out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wavewright.executor.events.types import Event
from wavewright.executor.postgres.driver import Connection
from wavewright.executor.store.errors import JournalError, RunBusy, RunLost
from wavewright.executor.store.journal import RunRow, StoredOutput, match_run, reusable_output, run_status
from wavewright.executor.store.leases import (
    HeldLease,
    Lease,
    LeaseProbe,
    Owner,
    event_damaged_error,
    judge_lease,
    read_event,
    read_lease,
    run_busy_error,
    run_busy_here_error,
    run_lost_error,
)
from wavewright.executor.store.transaction import storable_text
from wavewright.planner.types import RunId, StepKey

if TYPE_CHECKING:
    import asyncpg


LEASE_COLUMNS: Final = """
    session.token, session.host, session.pid, session.process_start, session.pid_namespace, run.since,
    session.heartbeat, session.heartbeat_at, session.lease"""
"""The columns of `read_lease`, of a run joined with its owner's session."""
_MAKE: Final = """
    INSERT INTO run (run, created, fence, owner, since, host, pid)
    VALUES ($1, clock_seconds(), 1, $2, clock_seconds(), $3, $4) ON CONFLICT (run) DO NOTHING RETURNING no, fence"""
_LOOK: Final = f"""
    SELECT {LEASE_COLUMNS}, run.no, run.fence, run.status, clock_seconds() AS now
    FROM run LEFT JOIN session ON session.no = run.owner WHERE run.run = $1 FOR UPDATE OF run"""  # noqa: S608 - constants
_TAKE: Final = """
    UPDATE run SET fence = fence + 1, owner = $2, since = clock_seconds(), host = $3, pid = $4 WHERE no = $1
    RETURNING fence, (SELECT coalesce(max(seq) + 1, 0) FROM event WHERE event.run = $1)"""
_CHECK: Final = "SELECT 1 FROM run WHERE no = $1 AND fence = $2 FOR SHARE"
RELEASE: Final = "UPDATE run SET owner = NULL WHERE no = $1 AND fence = $2"
"""Takes an owner out of a run's row, unless another one stands there; given a held lease's number and fence."""
_OWNER: Final = f"""
    SELECT {LEASE_COLUMNS}, clock_seconds() AS now FROM run JOIN session ON session.no = run.owner
    WHERE run.run = $1"""  # noqa: S608 - constants


class PostgresLeases:
    """The holds of one owner."""

    def __init__(self, owner: Owner, place: str) -> None:
        self.owner = owner
        self.place = place

    async def acquire(
        self,
        connection: Connection,
        run: RunId,
        *,
        session_no: int,
        unmoved: int | None = None,
        waits: bool = True,
    ) -> HeldLease | LeaseProbe:
        """Write this owner into the run's row, or return whom to watch first.

        Args:
            connection: In a transaction.
            run: The run, new or known.
            session_no: The number of this owner's session.
            unmoved: The heartbeat of a watch that is over.
            waits: Whether to wait for whoever is in the middle of something with the run.

        Raises:
            RunBusy: the run's owner lives; or, where it is not waited for, somebody is at it.
        """
        owner = (session_no, self.owner.host, self.owner.pid)
        if (made := await connection.fetchrow(_MAKE, run, *owner)) is not None:
            return HeldLease(made["no"], made["fence"], seq=0, is_finished=False)
        row = await connection.fetchrow(_LOOK if waits else f"{_LOOK} SKIP LOCKED", run)
        if row is None:
            raise run_busy_here_error(run, place=self.place)
        hold = read_lease(tuple(row)[:9])
        # A hold of its own is left over from a fault.
        if hold is not None and hold.owner.token != self.owner.token:
            match judge_lease(hold, now=row["now"], pid_namespace=self.owner.pid_namespace):
                case "busy":
                    raise run_busy_error(run, hold, owner=self.owner, place=self.place)
                case "watch" if hold.heartbeat != unmoved:
                    return LeaseProbe(hold)
                case _:
                    pass
        taken = await connection.fetchrow(_TAKE, row["no"], *owner)
        assert taken is not None
        fence, seq = taken
        return HeldLease(row["no"], fence, seq, row["status"] is not None)

    async def check(self, connection: Connection, run: RunId, held: HeldLease) -> None:
        """Return, in a transaction, where the hold still stands; nobody can take it until that ends.

        Raises:
            RunLost: another owner came.
        """
        if await connection.fetchval(_CHECK, held.no, held.fence) is None:
            raise await self.lost_error(connection, run)

    async def owner_of(self, connection: Connection, run: RunId) -> str | None:
        """Return who has the run open, for people; none where nobody does, or nobody who lives."""
        row = await connection.fetchrow(_OWNER, run)
        hold = None if row is None else read_lease(tuple(row)[:9])
        if row is None or hold is None:
            return None
        is_owned = judge_lease(hold, now=row["now"], pid_namespace=self.owner.pid_namespace) == "busy"
        return str(hold.owner) if is_owned else None

    async def lost_error(self, connection: Connection, run: RunId) -> RunLost:
        """Return the error that names who has a run that was held here."""
        row = await connection.fetchrow("SELECT pid, host FROM run WHERE run = $1", run)
        pid, host = ("?", "?") if row is None else row
        return run_lost_error(run, pid=pid, host=host, place=self.place)

    def busy_error(self, run: RunId, hold: Lease) -> RunBusy:
        """Return the error that names the run's owner."""
        return run_busy_error(run, hold, owner=self.owner, place=self.place)


_EVENTS: Final = """
    SELECT event.seq, event.kind, event.crc, event.body
    FROM event JOIN run ON run.no = event.run WHERE run.run = $1 ORDER BY event.seq"""
_NEWEST: Final = """
    SELECT run.run, event.seq, event.kind, event.crc, event.body
    FROM event JOIN run ON run.no = event.run WHERE event.key = $1 ORDER BY event.id DESC LIMIT 1"""
_RUNS: Final = f"""
    SELECT {LEASE_COLUMNS}, run.run, run.job, run.created, run.finished, run.status,
           coalesce(run.steps, counted.steps) AS steps, coalesce(run.ok, counted.ok) AS ok,
           coalesce(run.failed, counted.failed) AS failed, coalesce(budget_total.tokens, 0) AS tokens,
           clock_seconds() AS now
    FROM run LEFT JOIN session ON session.no = run.owner
    LEFT JOIN LATERAL count_steps(run.no) AS counted ON run.steps IS NULL
    LEFT JOIN budget_total ON counter = 'run' AND name = run.run AND step = ''
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


async def list_runs(connection: Connection, pid_namespace: str) -> list[RunRow]:
    """Return all runs, the newest first."""
    return [_summary(row, pid_namespace) for row in await connection.fetch(_RUNS)]


def _summary(row: asyncpg.Record, pid_namespace: str) -> RunRow:
    hold = read_lease(tuple(row)[:9])
    is_owned = hold is not None and judge_lease(hold, now=row["now"], pid_namespace=pid_namespace) == "busy"
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
