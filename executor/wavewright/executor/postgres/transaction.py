"""PostgreSQL's dialect: how a statement of the job store is executed in the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, cast

from wavewright.executor.postgres.driver import Connection
from wavewright.executor.postgres.run_rows import LEASE_COLUMNS, PostgresLeases
from wavewright.executor.store.errors import JournalError
from wavewright.executor.store.job_rows import OutgoingRow
from wavewright.executor.store.leases import HeldLease, LeaseProbe
from wavewright.executor.store.transaction import (
    Row,
    Statements,
    StoreTransaction,
    storable_text,
    storable_value,
)
from wavewright.planner.types import RunId

_COLUMN_TYPES: Final = {
    "run": "bigint",
    "message": "text",
    "kind": "text",
    "exchange": "text",
    "routing_key": "text",
    "job": "text",
    "headers": "text",
    "at": "double precision",
    "body": "bytea",
}
"""The columns of messages that are put, a number and those of `OutgoingRow`, with their types."""
_KEPT: Final = "message, kind, exchange, routing_key, job, headers, at"


def put_messages(first: int, *, where: str = "true") -> str:
    """Return the parts of a `WITH` that write messages which are not known yet, and their bodies.

    Args:
        first: The number of the first parameter; it and the next ones are those of `message_columns`.
        where: Which messages to write; `run` is the number that stands beside each.
    """
    arrays = ", ".join(f"${first + place}::{kind}[]" for place, kind in enumerate(_COLUMN_TYPES.values()))
    return f"""
    told AS MATERIALIZED (
        SELECT DISTINCT ON (message) *
        FROM unnest({arrays}) WITH ORDINALITY AS given ({", ".join(_COLUMN_TYPES)}, place)
        WHERE {where} ORDER BY message, place
    ), put AS (
        INSERT INTO outbox ({_KEPT}) SELECT {_KEPT} FROM told ORDER BY place
        ON CONFLICT (message) DO NOTHING RETURNING no, message
    ), put_body AS (
        INSERT INTO outbox_body SELECT no, body FROM put JOIN told USING (message)
    )"""  # noqa: S608 - constants


def message_columns(messages: Sequence[tuple[int, OutgoingRow]]) -> list[list[object]]:
    """Return messages as columns, the first that of the numbers which stand beside them."""
    numbers: list[object] = [number for number, _ in messages]
    columns = range(len(OutgoingRow._fields))
    return [numbers, *([storable_value(row[column]) for _, row in messages] for column in columns)]


_PUT: Final = f"WITH {put_messages(1)} SELECT"


class PostgresStatements(Statements):
    """Statements on a connection."""

    for_update: ClassVar[str] = " FOR UPDATE"
    body_bytes: ClassVar[str] = "convert_to(body, 'UTF8')"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def fetch(self, statement: str, *values: object) -> Sequence[Row]:
        return [*map(tuple, await self._connection.fetch(statement, *map(_bound, values)))]

    async def execute(self, statement: str, *values: object) -> None:
        await self._connection.execute(statement, *map(_bound, values))

    async def execute_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        if rows:
            await self._connection.executemany(statement, [[*map(_bound, row)] for row in rows])

    async def put_messages(self, messages: Sequence[OutgoingRow]) -> None:
        if messages:
            await self._connection.execute(_PUT, *message_columns([(0, message) for message in messages]))

    @staticmethod
    def in_list(parameter: str, kind: str) -> str:
        return f"= ANY({parameter}::{kind}[])"

    @staticmethod
    def skip_locked(table: str) -> str:
        return f" FOR UPDATE OF {table} SKIP LOCKED"

    async def delete_events(self, runs: Sequence[int]) -> None:
        await self.execute("DELETE FROM event WHERE run = ANY($1::bigint[])", list(runs))

    async def lock(self, name: str) -> None:
        await self.fetch("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", name)

    async def try_lock(self, name: str) -> bool:
        ((is_free,),) = await self.fetch("SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))", name)
        return bool(is_free)


class PostgresStoreTransaction(PostgresStatements, StoreTransaction):
    """A transaction of the journal in the database."""

    lease_columns: ClassVar[str] = LEASE_COLUMNS
    lease_join: ClassVar[str] = "LEFT JOIN opening ON opening.no = run.owner"

    def __init__(
        self,
        connection: Connection,
        leases: PostgresLeases,
        *,
        opening: int | None,
        now: float,
        held: Mapping[RunId, HeldLease],
        faults: Mapping[RunId, JournalError],
    ) -> None:
        PostgresStatements.__init__(self, connection)
        StoreTransaction.__init__(
            self, now=now, owner=leases.owner, place=leases.place, held=held, faults=faults
        )
        self._leases = leases
        self._opening = opening

    async def owner_of(self, run: RunId) -> str | None:
        return await self._leases.owner_of(self._connection, run)

    async def _acquire(self, run: RunId, unmoved: int | None) -> HeldLease | LeaseProbe:
        assert self._opening is not None
        return await self._leases.acquire(
            self._connection, run, opening=self._opening, unmoved=unmoved, waits=False
        )

    async def _check(self, run: RunId, held: HeldLease) -> None:
        await self._leases.check(self._connection, run, held)

    async def _release(self, held: HeldLease) -> None:
        await self._leases.release(self._connection, held)


def _bound(value: object) -> object:
    if isinstance(value, list):
        values = cast("list[object]", value)
        return [*map(storable_value, values)]
    return storable_text(value) if isinstance(value, str) else value
