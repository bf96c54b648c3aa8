"""Who has which run open, as the database keeps it.

Everything here is said within a transaction of the caller's, with the run's row locked, so that the answer still
holds when something is written. Ages are told by the database's clock alone; a process on this machine is looked at.
"""

from __future__ import annotations

from typing import Final

from wavewright.executor.journal_errors import RunBusy, RunLost
from wavewright.executor.lease import HeldLease, Lease, LeaseProbe, Owner, judge_lease, read_lease
from wavewright.executor.postgres.connection import Connection
from wavewright.executor.run_faults import run_busy_error, run_busy_here_error, run_lost_error
from wavewright.planner.types import RunId

LEASE_COLUMNS: Final = """
    opening.token, opening.host, opening.pid, opening.born, opening.realm, run.since,
    opening.beat, opening.beat_at, opening.lease"""
"""The columns of `read_hold`, of a run joined with its owner's opening."""
_MAKE: Final = """
    INSERT INTO run (run, created, fence, owner, since, host, pid)
    VALUES ($1, clock_seconds(), 1, $2, clock_seconds(), $3, $4) ON CONFLICT (run) DO NOTHING RETURNING no, fence"""
_LOOK: Final = f"""
    SELECT {LEASE_COLUMNS}, run.no, run.fence, run.status, clock_seconds() AS now
    FROM run LEFT JOIN opening ON opening.no = run.owner WHERE run.run = $1 FOR UPDATE OF run"""  # noqa: S608 - constants
_TAKE: Final = """
    UPDATE run SET fence = fence + 1, owner = $2, since = clock_seconds(), host = $3, pid = $4 WHERE no = $1
    RETURNING fence, (SELECT coalesce(max(seq) + 1, 0) FROM event WHERE event.run = $1)"""
_CHECK: Final = "SELECT 1 FROM run WHERE no = $1 AND fence = $2 FOR SHARE"
_GIVE_UP: Final = "UPDATE run SET owner = NULL WHERE no = $1 AND fence = $2"
_OWNER: Final = f"""
    SELECT {LEASE_COLUMNS}, clock_seconds() AS now FROM run JOIN opening ON opening.no = run.owner
    WHERE run.run = $1"""  # noqa: S608 - constants


class PostgresLeases:
    """The holds of one owner."""

    def __init__(self, owner: Owner, place: str) -> None:
        self._owner = owner
        self._place = place

    async def acquire(
        self,
        connection: Connection,
        run: RunId,
        *,
        opening: int,
        unmoved: int | None = None,
        waits: bool = True,
    ) -> HeldLease | LeaseProbe:
        """Write this owner into the run's row, or return whom to watch first.

        Args:
            connection: In a transaction.
            run: The run, new or known.
            opening: The number of this owner's opening.
            unmoved: The beat of a watch that is over.
            waits: Whether to wait for whoever is in the middle of something with the run.

        Raises:
            RunBusy: the run's owner lives; or, where it is not waited for, somebody is at it.
        """
        owner = (opening, self._owner.host, self._owner.pid)
        if (made := await connection.fetchrow(_MAKE, run, *owner)) is not None:
            return HeldLease(made["no"], made["fence"], seq=0, is_finished=False)
        row = await connection.fetchrow(_LOOK if waits else f"{_LOOK} SKIP LOCKED", run)
        if row is None:
            raise run_busy_here_error(run, place=self._place)
        hold = read_lease(tuple(row)[:9])
        # A hold of its own is left over from a fault.
        if hold is not None and hold.owner.token != self._owner.token:
            match judge_lease(hold, now=row["now"], realm=self._owner.pid_namespace):
                case "busy":
                    raise run_busy_error(run, hold, owner=self._owner, place=self._place)
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

    @staticmethod
    async def release(connection: Connection, held: HeldLease) -> None:
        """Take this owner out of the run's row, unless another one stands there."""
        await connection.execute(_GIVE_UP, held.no, held.fence)

    async def owner_of(self, connection: Connection, run: RunId) -> str | None:
        """Return who has the run open, for people; none where nobody does, or nobody who lives."""
        row = await connection.fetchrow(_OWNER, run)
        hold = None if row is None else read_lease(tuple(row)[:9])
        if row is None or hold is None:
            return None
        is_owned = judge_lease(hold, now=row["now"], realm=self._owner.pid_namespace) == "busy"
        return str(hold.owner) if is_owned else None

    async def lost_error(self, connection: Connection, run: RunId) -> RunLost:
        """Return the error that names who has a run that was held here."""
        row = await connection.fetchrow("SELECT pid, host FROM run WHERE run = $1", run)
        pid, host = ("?", "?") if row is None else row
        return run_lost_error(run, pid=pid, host=host, place=self._place)

    def busy_error(self, run: RunId, hold: Lease) -> RunBusy:
        """Return the error that names the run's owner."""
        return run_busy_error(run, hold, owner=self._owner, place=self._place)
