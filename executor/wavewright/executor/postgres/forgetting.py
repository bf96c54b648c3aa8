"""Ids of messages that nobody needs any more are deleted, a part at a time."""

from __future__ import annotations

from typing import Final

from wavewright.executor.job_store.records import RetentionCursor
from wavewright.executor.job_store.walking import FORGET_PAGE_SIZE, next_cursor, orphaned_messages
from wavewright.executor.postgres.connection import Connection

_OLD_INBOX: Final = f"SELECT no, received FROM inbox WHERE no > $1 ORDER BY no LIMIT {FORGET_PAGE_SIZE}"  # noqa: S608 - a constant
_OLD_OUTBOX: Final = f"SELECT no, at FROM outbox WHERE no > $1 ORDER BY no LIMIT {FORGET_PAGE_SIZE}"  # noqa: S608 - a constant
_FORGET_INBOX: Final = "DELETE FROM inbox WHERE no > $1 AND no <= $2 AND received < $3 AND kept IS NULL"
_OLD_KEPT: Final = """
    SELECT inbox.no, kept, package, sent
    FROM inbox LEFT JOIN job ON job.job = subject AND state NOT IN ('completed', 'failed', 'dead')
    WHERE inbox.no > $1 AND inbox.no <= $2 AND inbox.received < $3 AND kept IS NOT NULL AND NOT is_ripe"""
_FORGET_KEPT: Final = "DELETE FROM inbox WHERE no = ANY($1::bigint[]) AND NOT is_ripe"
_FORGET_OUTBOX: Final = """
    DELETE FROM outbox WHERE no > $1 AND no <= $2 AND sent < $3 AND NOT EXISTS (
        SELECT FROM job WHERE job.job = outbox.job AND job.state NOT IN ('completed', 'failed', 'dead'))"""


async def forget_messages(
    connection: Connection, before: float, beyond: RetentionCursor
) -> RetentionCursor | None:
    """Delete rows of messages from before an instant, but for those that are needed; return where to go on."""
    inbox = await connection.fetch(_OLD_INBOX, beyond.inbox)
    outbox = await connection.fetch(_OLD_OUTBOX, beyond.outbox)
    if inbox:
        part = (beyond.inbox, inbox[-1][0], before)
        await connection.execute(_FORGET_INBOX, *part)
        kept = orphaned_messages([*map(tuple, await connection.fetch(_OLD_KEPT, *part))])
        await connection.execute(_FORGET_KEPT, kept)
    if outbox:
        await connection.execute(_FORGET_OUTBOX, beyond.outbox, outbox[-1][0], before)
    return next_cursor(beyond, [*map(tuple, inbox)], [*map(tuple, outbox)], before)
