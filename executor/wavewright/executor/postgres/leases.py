"""The leases of runs in the database.

Everything here is part of a caller's transaction in which the run's row is locked, so that the answer still holds when
something is written. Ages are measured by the database's clock; a process on this machine is inspected itself.
"""

from __future__ import annotations

from typing import Final

from wavewright.executor.postgres.driver import Connection
from wavewright.executor.store.errors import RunLost
from wavewright.executor.store.leases import (
    HeldLease,
    LeaseProbe,
    Owner,
    probe_before_acquiring,
    read_lease,
    run_busy_here_error,
    run_lost_error,
)
from wavewright.planner.types import RunId

LEASE_COLUMNS: Final = """
    session.token, session.host, session.pid, session.process_start, session.pid_namespace, run.since,
    session.heartbeat, session.heartbeat_at, session.lease"""
"""The columns of `read_lease`, of a run joined with its owner's session."""
_INSERT: Final = """
    INSERT INTO run (run, created, fence, owner, since, host, pid)
    VALUES ($1, clock_seconds(), 1, $2, clock_seconds(), $3, $4) ON CONFLICT (run) DO NOTHING RETURNING no, fence"""
_LOCK: Final = "SELECT no FROM run WHERE run = $1 FOR UPDATE"
_READ: Final = f"""
    SELECT {LEASE_COLUMNS}, run.no, run.status, clock_seconds() AS now
    FROM run LEFT JOIN session ON session.no = run.owner WHERE run.no = $1"""  # noqa: S608 - constants
"""A statement of its own: after a wait for the lock, one that locks still joins the session of the owner before."""
_ACQUIRE: Final = """
    UPDATE run SET fence = fence + 1, owner = $2, since = clock_seconds(), host = $3, pid = $4 WHERE no = $1
    RETURNING fence, (SELECT coalesce(max(seq) + 1, 0) FROM event WHERE event.run = $1)"""
_CHECK: Final = "SELECT 1 FROM run WHERE no = $1 AND fence = $2 FOR SHARE"
RELEASE: Final = "UPDATE run SET owner = NULL WHERE no = $1 AND fence = $2"
"""Takes an owner out of a run's row, unless another one stands there; given a held lease's number and fence."""


class PostgresLeases:
    """The leases of one owner."""

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
        """Write this owner into the run's row, or return the lease that must be probed first.

        Args:
            connection: In a transaction.
            run: The run, new or known.
            session_no: The number of this owner's session.
            unmoved: The heartbeat of a probe that has ended.
            waits: Whether to wait for another transaction that has locked the run.

        Raises:
            RunBusy: its owner is alive; or, without waiting, another transaction has locked it.
        """
        owner = (session_no, self.owner.host, self.owner.pid)
        if (made := await connection.fetchrow(_INSERT, run, *owner)) is not None:
            return HeldLease(made["no"], made["fence"], seq=0, is_finished=False)
        no = await connection.fetchval(_LOCK if waits else f"{_LOCK} SKIP LOCKED", run)
        if no is None:
            raise run_busy_here_error(run, place=self.place)
        row = await connection.fetchrow(_READ, no)
        assert row is not None
        lease = read_lease(tuple(row)[:9])
        probe = probe_before_acquiring(
            run, lease, owner=self.owner, now=row["now"], unmoved=unmoved, place=self.place
        )
        if probe is not None:
            return probe
        taken = await connection.fetchrow(_ACQUIRE, row["no"], *owner)
        assert taken is not None
        fence, seq = taken
        return HeldLease(row["no"], fence, seq, row["status"] is not None)

    async def check(self, connection: Connection, run: RunId, held: HeldLease) -> None:
        """Return where the lease is still held; no process can acquire it until the transaction ends.

        Raises:
            RunLost: another owner has it.
        """
        if await connection.fetchval(_CHECK, held.no, held.fence) is None:
            raise await self.lost_error(connection, run)

    async def lost_error(self, connection: Connection, run: RunId) -> RunLost:
        """Return the error that names who has a run that was held here."""
        row = await connection.fetchrow("SELECT pid, host FROM run WHERE run = $1", run)
        pid, host = ("?", "?") if row is None else row
        return run_lost_error(run, pid=pid, host=host, place=self.place)
