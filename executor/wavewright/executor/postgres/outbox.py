"""The outbox's tables in the database: what must go out, and whose it is to send.

A message's *lease* gives it to one owner for a few seconds; the messages of one job are given to one owner at a time,
so that they go out in their order. Everything here happens within a transaction of the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wavewright.executor.postgres.driver import Connection, storable_text, storable_value
from wavewright.executor.store.job_records import MessageId, OutgoingMessage
from wavewright.executor.store.job_rows import OutgoingRow, read_outgoing

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
_OUTGOING: Final = """
    message, kind, exchange, routing_key, job, headers, at, body
    FROM outbox JOIN outbox_body ON outbox_body.no = outbox.no"""
_IS_LEASED_ELSEWHERE: Final = (
    "coalesce({row}.owner <> $1 AND {row}.leased <= now AND {row}.leased > now - $2, false)"
)
# The time is that of the statement, which comes after the lock: by then another owner may have leased messages.
_LEASE: Final = f"""
    WITH clock AS MATERIALIZED (SELECT clock_seconds() AS now), found AS MATERIALIZED (
        SELECT outbox.no, {_OUTGOING}, clock
        WHERE sent IS NULL AND refused IS NULL AND NOT {_IS_LEASED_ELSEWHERE.format(row="outbox")}
        AND NOT EXISTS (
            SELECT 1 FROM outbox AS earlier
            WHERE earlier.job = outbox.job AND earlier.no < outbox.no
            AND earlier.sent IS NULL AND earlier.refused IS NULL AND {_IS_LEASED_ELSEWHERE.format(row="earlier")})
        ORDER BY outbox.no LIMIT $3
    ), leased AS (
        UPDATE outbox SET owner = $1, leased = now FROM clock WHERE outbox.no IN (SELECT no FROM found)
    ) SELECT {_KEPT}, body FROM found ORDER BY no"""  # noqa: S608 - constants
_SENT: Final = """
    WITH sent AS (
        UPDATE outbox SET sent = clock_seconds(), refused = NULL WHERE message = ANY($1::text[]) AND sent IS NULL
        RETURNING no
    ) DELETE FROM outbox_body WHERE no IN (SELECT no FROM sent)"""
_RENEW: Final = """
    UPDATE outbox SET leased = clock_seconds() WHERE message = ANY($2::text[]) AND owner = $1 AND sent IS NULL"""
_OUTBOX_LOCK: Final = 0x4F757462
"""`Outb` in ASCII: the number of the advisory lock of whoever leases messages, so that a job's keep their order."""


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


class PostgresOutboxTables:
    """Rows of messages, seen in one transaction."""

    def __init__(self, connection: Connection) -> None:
        """Read and write through this connection, within the caller's transaction."""
        self._connection = connection

    async def put(self, messages: Sequence[OutgoingRow]) -> None:
        """Write messages that must go out, but for those that are known already."""
        if messages:
            await self._connection.execute(_PUT, *message_columns([(0, message) for message in messages]))

    async def lease(self, owner: str, seconds: float, most: int) -> list[OutgoingMessage]:
        """Return messages that no other owner has leased, and lease them."""
        await self._connection.execute("SELECT pg_advisory_xact_lock($1)", _OUTBOX_LOCK)
        rows = await self._connection.fetch(_LEASE, owner, seconds, most)
        return [read_outgoing(tuple(row)) for row in rows]

    async def has_messages(self) -> bool:
        """Return whether anything waits to go out."""
        asked = "SELECT EXISTS (SELECT FROM outbox WHERE sent IS NULL AND refused IS NULL)"
        return bool(await self._connection.fetchval(asked))

    async def renew(self, owner: str, messages: Sequence[MessageId]) -> None:
        """Note that messages which this owner has leased are leased from now on."""
        await self._connection.execute(_RENEW, owner, list(map(storable_text, messages)))

    async def mark_sent(self, messages: Sequence[MessageId]) -> None:
        """Note that messages were confirmed; their bodies are not kept."""
        await self._connection.execute(_SENT, list(map(storable_text, messages)))

    async def mark_refused(self, message: MessageId, reason: str) -> None:
        """Note that a message cannot be delivered."""
        await self._connection.execute(
            "UPDATE outbox SET refused = $2 WHERE message = $1 AND sent IS NULL",
            storable_text(message),
            storable_text(reason),
        )

    async def list_refused(self) -> list[OutgoingMessage]:
        """Return messages that cannot be delivered, in their order."""
        query = f"SELECT refused, {_OUTGOING} WHERE refused IS NOT NULL ORDER BY outbox.no"
        rows = await self._connection.fetch(query)
        return [read_outgoing(tuple(row)[1:], refused=row["refused"]) for row in rows]

    async def release(self, messages: Sequence[MessageId]) -> None:
        """Note that messages may be delivered after all."""
        await self._connection.execute(
            "UPDATE outbox SET refused = NULL WHERE message = ANY($1::text[])",
            list(map(storable_text, messages)),
        )
