"""The outbox's tables in the journal's file: what must go out, and whose it is to send.

A message's *lease* gives it to one owner for a few seconds; the messages of one job are given to one owner at a time,
so that they go out in their order. Everything here happens within a transaction of the caller's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from wavewright.executor.store.job_records import MessageId, OutgoingMessage
from wavewright.executor.store.job_rows import OutgoingRow, read_outgoing

_OUTGOING: Final = """
    message, kind, exchange, routing_key, job, headers, at, body
    FROM outbox JOIN outbox_body ON outbox_body.no = outbox.no"""
_IS_LEASED_ELSEWHERE: Final = "{row}.owner <> :owner AND {row}.leased <= :now AND {row}.leased > :ended"
_PENDING: Final = f"""
    SELECT outbox.no, {_OUTGOING}
    WHERE sent IS NULL AND refused IS NULL AND NOT coalesce({_IS_LEASED_ELSEWHERE.format(row="outbox")}, 0)
    AND NOT EXISTS (
        SELECT 1 FROM outbox AS earlier INDEXED BY outbox_by_job
        WHERE earlier.job = outbox.job AND earlier.no < outbox.no
        AND earlier.sent IS NULL AND earlier.refused IS NULL AND {_IS_LEASED_ELSEWHERE.format(row="earlier")})
    ORDER BY outbox.no LIMIT :most"""  # noqa: S608 - constants

_MAX_PARAMETERS: Final = 500
"""Values of one statement; SQLite may be built for no more than 999."""

_T = TypeVar("_T")


class SqliteOutboxTables:
    """Rows of messages."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Read and write through this connection, within the caller's transactions."""
        self._connection = connection
        self.written = 0
        """Bytes of the bodies that were written; for whoever looks after the log to set back."""

    def put(self, messages: Sequence[OutgoingRow]) -> None:
        """Write messages that must go out, but for those that are known already."""
        for *columns, body in messages:
            cursor = self._connection.execute(
                """INSERT INTO outbox (message, kind, exchange, routing_key, job, headers, at)
                   VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (message) DO NOTHING""",
                columns,
            )
            if cursor.rowcount == 1:
                self._connection.execute("INSERT INTO outbox_body VALUES (?, ?)", (cursor.lastrowid, body))
                self.written += len(body)

    def lease(self, owner: str, now: float, seconds: float, most: int) -> list[OutgoingMessage]:
        """Return messages that no other owner has leased, and lease them."""
        # A lease from the future is one from before the clock went back; it counts for nothing.
        values = {"owner": owner, "now": now, "ended": now - seconds, "most": most}
        rows = self._connection.execute(_PENDING, values).fetchall()
        for numbers in _chunks([row[0] for row in rows]):
            self._connection.execute(
                f"UPDATE outbox SET owner = ?, leased = ? WHERE no IN ({_placeholders(numbers)})",  # noqa: S608 - question marks
                (owner, now, *numbers),
            )
        return [read_outgoing(row[1:]) for row in rows]

    def renew(self, owner: str, messages: Sequence[MessageId], now: float) -> None:
        """Note that messages which this owner has leased are leased from now on."""
        self._connection.executemany(
            "UPDATE outbox SET leased = ? WHERE message = ? AND owner = ? AND sent IS NULL",
            [(now, message, owner) for message in messages],
        )

    def mark_sent(self, messages: Sequence[MessageId], now: float) -> None:
        """Note that messages were confirmed; their bodies are not kept."""
        for part in _chunks(messages):
            marks = _placeholders(part)
            self._connection.execute(
                f"""DELETE FROM outbox_body WHERE no IN (
                        SELECT no FROM outbox WHERE message IN ({marks}) AND sent IS NULL)""",  # noqa: S608 - as above
                part,
            )
            self._connection.execute(
                f"UPDATE outbox SET sent = ?, refused = NULL WHERE message IN ({marks}) AND sent IS NULL",  # noqa: S608
                (now, *part),
            )

    def mark_refused(self, message: MessageId, reason: str) -> None:
        """Note that a message cannot be delivered."""
        self._connection.execute(
            "UPDATE outbox SET refused = ? WHERE message = ? AND sent IS NULL", (reason, message)
        )

    def list_refused(self) -> list[OutgoingMessage]:
        """Return messages that cannot be delivered, in their order."""
        query = f"SELECT refused, {_OUTGOING} WHERE refused IS NOT NULL ORDER BY outbox.no"
        return [read_outgoing(row[1:], refused=row[0]) for row in self._connection.execute(query)]

    def release(self, messages: Sequence[MessageId]) -> None:
        """Note that messages may be delivered after all."""
        self._connection.executemany(
            "UPDATE outbox SET refused = NULL WHERE message = ?", [(message,) for message in messages]
        )


# One statement for many rows: with each, the writer's thread gives the interpreter away and waits to have it again.


def _chunks(values: Sequence[_T]) -> Iterator[Sequence[_T]]:
    return (values[start : start + _MAX_PARAMETERS] for start in range(0, len(values), _MAX_PARAMETERS))


def _placeholders(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
