"""PostgreSQL's dialect: the leases of runs, and how a statement of the job store is executed in the
database.

Leases are part of a caller's transaction in which the run's row is locked, so that the answer still
holds when something is written. Ages are measured by the database's clock; a process on this
machine is inspected itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import ClassVar, Final, cast

from wavewright.executor.events.json_values import storable_text, storable_value
from wavewright.executor.postgres.driver import Connection, is_pooled
from wavewright.executor.store.errors import RunLost
from wavewright.executor.store.journal import first_hash
from wavewright.executor.store.leases import (
    HeldLease,
    LeaseProbe,
    RunHolder,
    check_head,
    probe_before_acquiring,
    read_lease,
    run_busy_here_error,
    run_lost_error,
)
from wavewright.executor.store.transaction import Row, Statements, StoreTransaction
from wavewright.planner import RunId

_LEASE_COLUMNS: Final = """
    session.token, session.host, session.pid, session.process_start, session.pid_namespace, run.since,
    session.heartbeat, session.heartbeat_at, session.lease"""
"""The columns of `read_lease`, of a run joined with its owner's session."""
_INSERT: Final = """
    INSERT INTO run (run, created, fence, owner, since, host, pid)
    VALUES ($1, clock_seconds(), 1, $2, clock_seconds(), $3, $4) ON CONFLICT (run) DO NOTHING RETURNING no, fence"""
_LOCK: Final = "SELECT no FROM run WHERE run = $1 FOR UPDATE"
_READ: Final = f"""
    SELECT {_LEASE_COLUMNS}, run.no, run.status, clock_seconds() AS now
    FROM run LEFT JOIN session ON session.no = run.owner WHERE run.no = $1"""  # noqa: S608 - constants
"""A statement of its own: after a wait for the lock, one that locks still joins the session of the
owner before.
"""
_ACQUIRE: Final = """
    UPDATE run SET fence = fence + 1, owner = $2, since = clock_seconds(), host = $3, pid = $4 WHERE no = $1
    RETURNING fence, (SELECT max(seq) FROM event WHERE event.run = $1),
              (SELECT hash FROM event WHERE event.run = $1 ORDER BY seq DESC LIMIT 1),
              (SELECT events FROM run_head WHERE run_head.run = $1),
              (SELECT hash FROM run_head WHERE run_head.run = $1)"""
_CHECK: Final = "SELECT 1 FROM run WHERE no = $1 AND fence = $2 FOR SHARE"
_RELEASE: Final = "UPDATE run SET owner = NULL WHERE no = $1 AND fence = $2"
"""Takes an owner out of a run's row, unless another one stands there; given a held lease's number
and fence.
"""


class PostgresLeases:
    """The leases of one owner."""

    def __init__(self, holder: RunHolder) -> None:
        self.holder = holder
        self.owner, self.place = holder.owner, holder.place

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
            EventDamaged: its events are not those of its head.
        """
        owner = (session_no, self.owner.host, self.owner.pid)
        if (inserted := await connection.fetchrow(_INSERT, run, *owner)) is not None:
            return HeldLease(
                inserted["no"],
                inserted["fence"],
                seq=0,
                is_finished=False,
                last_hash=first_hash(run),
            )
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
        fence, last, last_hash, *head = taken
        seq = 0 if last is None else last + 1
        last_hash = last_hash or first_hash(run)
        check_head(run, seq, last_hash, None if head[0] is None else head, place=self.place)
        return HeldLease(row["no"], fence, seq, row["status"] is not None, last_hash)

    async def check(self, connection: Connection, run: RunId, held: HeldLease) -> None:
        """Return where the lease is still held; no process can acquire it until the transaction
        ends.

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


_MAX_DEFERRED: Final = 4
"""Statements that are combined; few, so that the combinations which occur stay prepared."""


@cache
def _combined(statements: tuple[str, ...]) -> str:
    """Return one statement that executes all of them, with their parameters one after another."""
    parts, used = list[str](), 0
    for number, statement in enumerate(statements):
        parts.append(f"deferred_{number} AS ({_shifted(statement, used)})")
        used += _number_of_parameters(statement)
    return f"WITH {', '.join(parts)} SELECT"


def _shifted(statement: str, by: int) -> str:
    return re.sub(r"\$(\d+)", lambda match: f"${int(match[1]) + by}", statement)


def _number_of_parameters(statement: str) -> int:
    return max(map(int, re.findall(r"\$(\d+)", statement)), default=0)


class PostgresStatements(Statements):
    """Statements on a connection."""

    for_update: ClassVar[str] = " FOR UPDATE"
    body_bytes: ClassVar[str] = "convert_to(body, 'UTF8')"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._deferred = list[str]()
        self._deferred_values = list[object]()

    @property
    def is_pooled(self) -> bool:
        """Whether a pooler is between this process and the database."""
        return is_pooled(self._connection)

    async def fetch(self, statement: str, *values: object) -> Sequence[Row]:
        await self.flush()
        return [*map(tuple, await self._connection.fetch(statement, *map(_bound, values)))]

    async def execute(self, statement: str, *values: object) -> None:
        await self.defer(statement, *values)
        await self.flush()

    async def defer(self, statement: str, *values: object) -> None:
        if len(self._deferred) == _MAX_DEFERRED:
            await self.flush()
        self._deferred.append(statement)
        self._deferred_values += map(_bound, values)

    async def flush(self) -> None:
        statements, self._deferred = tuple(self._deferred), []
        values, self._deferred_values = self._deferred_values, []
        if len(statements) == 1:
            await self._connection.execute(statements[0], *values)
        elif statements:
            await self._connection.execute(_combined(statements), *values)

    async def execute_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        if rows:
            await self.flush()
            await self._connection.executemany(statement, [[*map(_bound, row)] for row in rows])

    @staticmethod
    def in_list(parameter: str, kind: str) -> str:
        return f"= ANY({parameter}::{kind}[])"

    @staticmethod
    def body_field(name: str) -> str:
        return f"as_json(body) ->> '{name}'"

    @staticmethod
    def skip_locked(table: str) -> str:
        return f" FOR UPDATE OF {table} SKIP LOCKED"

    async def delete_events(self, runs: Sequence[int]) -> None:
        await self.execute("DELETE FROM event WHERE run = ANY($1::bigint[])", list(runs))

    @staticmethod
    def lock_of(parameter: str) -> str:
        return f"pg_advisory_xact_lock(hashtextextended({parameter}, 0))"

    async def try_lock(self, name: str) -> bool:
        ((is_free,),) = await self.fetch(
            "SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))", name
        )
        return bool(is_free)


_NEWEST: Final = f"""
    SELECT run.run, event.seq, event.kind, event.crc, {PostgresStatements.body_bytes}
    FROM event JOIN run ON run.no = event.run WHERE event.key = $1 ORDER BY event.id DESC LIMIT 1"""  # noqa: S608


class PostgresStoreTransaction(PostgresStatements, StoreTransaction):
    """A transaction of the journal in the database."""

    lease_columns: ClassVar[str] = _LEASE_COLUMNS
    lease_join: ClassVar[str] = "LEFT JOIN session ON session.no = run.owner"

    def __init__(
        self, connection: Connection, leases: PostgresLeases, *, session_no: int | None, now: float
    ) -> None:
        PostgresStatements.__init__(self, connection)
        StoreTransaction.__init__(self, leases.holder, now)
        self._leases = leases
        self._session_no = session_no

    async def newest_event(self, key: str) -> Row | None:
        return await self.fetch_one(_NEWEST, key)

    async def _acquire(self, run: RunId, unmoved: int | None) -> HeldLease | LeaseProbe:
        assert self._session_no is not None
        await self.flush()
        return await self._leases.acquire(
            self._connection, run, session_no=self._session_no, unmoved=unmoved, waits=False
        )

    async def _check(self, run: RunId, held: HeldLease) -> None:
        await self.flush()
        await self._leases.check(self._connection, run, held)

    async def _release(self, held: HeldLease) -> None:
        await self.defer(_RELEASE, held.no, held.fence)


def _bound(value: object) -> object:
    if isinstance(value, list):
        values = cast("list[object]", value)
        return [*map(storable_value, values)]
    return storable_text(value) if isinstance(value, str) else value
