"""The leases of runs in the journal's file, each in its run's row.

Everything here is part of a caller's transaction, so that the answer still holds when something is written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

from wavewright.executor.store.leases import (
    HeldLease,
    LeaseProbe,
    Owner,
    probe_before_acquiring,
    read_lease,
    run_lost_error,
)
from wavewright.planner.types import RunId

LEASE_COLUMNS: Final = (
    "owner, host, pid, process_start, pid_namespace, run.since, heartbeat, heartbeat_at, lease"
)
"""The columns of `read_lease`, of a run."""


class SqliteLeases:
    """The leases of one owner."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        *,
        owner: Owner,
        clock: Callable[[], float],
        seconds: float,
    ) -> None:
        """Keep leases for this owner, each for so many seconds after its last heartbeat."""
        self._connection = connection
        connection.create_function("clock_seconds", 0, clock)
        self.path = path
        self.owner = owner
        self._clock = clock
        self._seconds = seconds

    def acquire(self, run: RunId, *, unmoved: int | None = None) -> HeldLease | LeaseProbe:
        """Write this owner into the run's row, or return the lease that must be probed first.

        Args:
            run: The run, new or known.
            unmoved: The heartbeat of a probe that has ended.

        Raises:
            RunBusy: its owner is alive.
        """
        now = self._clock()
        self._connection.execute("INSERT OR IGNORE INTO run (run, created) VALUES (?, ?)", (run, now))
        no, fence, status, *columns = self._connection.execute(
            f"SELECT no, fence, status, {LEASE_COLUMNS} FROM run WHERE run = ?",  # noqa: S608 - a constant
            (run,),
        ).fetchone()
        lease = read_lease(tuple(columns))
        probe = probe_before_acquiring(
            run, lease, owner=self.owner, now=now, unmoved=unmoved, place=str(self.path)
        )
        if probe is not None:
            return probe
        owner = self.owner
        self._connection.execute(
            """UPDATE run SET fence = fence + 1, heartbeat = heartbeat + 1, owner = ?, host = ?, pid = ?,
               process_start = ?, pid_namespace = ?, since = ?, heartbeat_at = ?, lease = ? WHERE no = ?""",
            (
                owner.token,
                owner.host,
                owner.pid,
                owner.process_start,
                owner.pid_namespace,
                now,
                now,
                self._seconds,
                no,
            ),
        )
        (seq,) = self._connection.execute(
            "SELECT coalesce(max(seq) + 1, 0) FROM event WHERE run = ?", (no,)
        ).fetchone()
        return HeldLease(no, fence + 1, seq, status is not None)

    def check(self, run: RunId, held: HeldLease) -> None:
        """Return where the lease is still held.

        Raises:
            RunLost: another owner has it.
        """
        fence, host, pid = self._connection.execute(
            "SELECT fence, host, pid FROM run WHERE no = ?", (held.no,)
        ).fetchone()
        if fence != held.fence:
            raise run_lost_error(run, pid=pid, host=host, place=str(self.path))

    def release(self, held: HeldLease) -> None:
        """Take this owner out of the run's row, unless another one stands there."""
        self._connection.execute(
            "UPDATE run SET owner = NULL WHERE no = ? AND fence = ?", (held.no, held.fence)
        )

    def heartbeat(self) -> None:
        """Renew all leases of this owner."""
        self._connection.execute(
            "UPDATE run SET heartbeat = heartbeat + 1, heartbeat_at = ? WHERE owner = ?",
            (self._clock(), self.owner.token),
        )
