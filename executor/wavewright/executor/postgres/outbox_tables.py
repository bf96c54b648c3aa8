"""The outbox's tables in the database: what must go out, and whose it is to send.

A message's *lease* gives it to one owner for a few seconds; the messages of one job are given to one owner at a time,
so that they go out in their order. Everything here happens within a transaction of the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wavewright.executor.job_store.records import MessageId, Outgoing
from wavewright.executor.job_store.texts import OutgoingRow, read_outgoing
from wavewright.executor.postgres.connection import Connection
from wavewright.executor.postgres.texts import plain, plain_value

_PUT_MESSAGE: Final = """
    WITH made AS (
        INSERT INTO outbox (message, kind, exchange, routing_key, job, headers, at)
        VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (message) DO NOTHING RETURNING no
    ) INSERT INTO outbox_body SELECT no, $8 FROM made"""
_OUTGOING: Final = """
    message, kind, exchange, routing_key, job, headers, at, body
    FROM outbox JOIN outbox_body ON outbox_body.no = outbox.no"""
_IS_ANOTHERS: Final = "coalesce({row}.owner <> $1 AND {row}.leased <= $2 AND {row}.leased > $3, false)"
_PENDING: Final = f"""
    SELECT outbox.no, {_OUTGOING}
    WHERE sent IS NULL AND refused IS NULL AND NOT {_IS_ANOTHERS.format(row="outbox")}
    AND NOT EXISTS (
        SELECT 1 FROM outbox AS earlier
        WHERE earlier.job = outbox.job AND earlier.no < outbox.no
        AND earlier.sent IS NULL AND earlier.refused IS NULL AND {_IS_ANOTHERS.format(row="earlier")})
    ORDER BY outbox.no LIMIT $4"""  # noqa: S608 - constants
_SENT: Final = """
    WITH sent AS (
        UPDATE outbox SET sent = $2, refused = NULL WHERE message = ANY($1::text[]) AND sent IS NULL RETURNING no
    ) DELETE FROM outbox_body WHERE no IN (SELECT no FROM sent)"""
_OUTBOX_LOCK: Final = 0x4F757462
"""`Outb` in ASCII: the number of the advisory lock of whoever leases messages, so that a job's keep their order."""


class OutboxTables:
    """Rows of messages, seen in one transaction."""

    def __init__(self, connection: Connection) -> None:
        """Read and write through this connection, within the caller's transaction."""
        self._connection = connection

    async def put(self, messages: Sequence[OutgoingRow]) -> None:
        """Write messages that must go out, but for those that are known already."""
        if messages:
            rows = [tuple(map(plain_value, message)) for message in messages]
            await self._connection.executemany(_PUT_MESSAGE, rows)

    async def lease(self, owner: str, now: float, seconds: float, most: int) -> list[Outgoing]:
        """Return messages that no other owner has leased, and lease them."""
        await self._connection.execute("SELECT pg_advisory_xact_lock($1)", _OUTBOX_LOCK)
        rows = await self._connection.fetch(_PENDING, owner, now, now - seconds, most)
        if rows:
            await self._connection.execute(
                "UPDATE outbox SET owner = $1, leased = $2 WHERE no = ANY($3::bigint[])",
                owner,
                now,
                [row["no"] for row in rows],
            )
        return [read_outgoing(tuple(row)[1:]) for row in rows]

    async def has_messages(self) -> bool:
        """Return whether anything waits to go out."""
        asked = "SELECT EXISTS (SELECT FROM outbox WHERE sent IS NULL AND refused IS NULL)"
        return bool(await self._connection.fetchval(asked))

    async def renew(self, owner: str, messages: Sequence[MessageId], now: float) -> None:
        """Note that messages which this owner has leased are leased from now on."""
        await self._connection.execute(
            "UPDATE outbox SET leased = $3 WHERE message = ANY($2::text[]) AND owner = $1 AND sent IS NULL",
            owner,
            list(map(plain, messages)),
            now,
        )

    async def mark_sent(self, messages: Sequence[MessageId], now: float) -> None:
        """Note that messages were confirmed; their bodies are not kept."""
        await self._connection.execute(_SENT, list(map(plain, messages)), now)

    async def mark_refused(self, message: MessageId, reason: str) -> None:
        """Note that a message cannot be delivered."""
        await self._connection.execute(
            "UPDATE outbox SET refused = $2 WHERE message = $1 AND sent IS NULL",
            plain(message),
            plain(reason),
        )

    async def list_refused(self) -> list[Outgoing]:
        """Return messages that cannot be delivered, in their order."""
        query = f"SELECT refused, {_OUTGOING} WHERE refused IS NOT NULL ORDER BY outbox.no"
        rows = await self._connection.fetch(query)
        return [read_outgoing(tuple(row)[1:], refused=row["refused"]) for row in rows]

    async def release(self, messages: Sequence[MessageId]) -> None:
        """Note that messages may be delivered after all."""
        await self._connection.execute(
            "UPDATE outbox SET refused = NULL WHERE message = ANY($1::text[])", list(map(plain, messages))
        )
