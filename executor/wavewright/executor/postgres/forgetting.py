"""Ids of messages that nobody needs any more are deleted, a part at a time."""

from __future__ import annotations

from typing import Final

from wavewright.executor.job_store.records import Walk
from wavewright.executor.job_store.walking import MOST_FORGOTTEN, walk_on
from wavewright.executor.postgres.connection import Connection

_OLD_INBOX: Final = f"SELECT no, received FROM inbox WHERE no > $1 ORDER BY no LIMIT {MOST_FORGOTTEN}"  # noqa: S608 - a constant
_OLD_OUTBOX: Final = f"SELECT no, at FROM outbox WHERE no > $1 ORDER BY no LIMIT {MOST_FORGOTTEN}"  # noqa: S608 - a constant
_FORGET_INBOX: Final = "DELETE FROM inbox WHERE no > $1 AND no <= $2 AND received < $3 AND kept IS NULL"
_FORGET_OUTBOX: Final = """
    DELETE FROM outbox WHERE no > $1 AND no <= $2 AND sent < $3 AND NOT EXISTS (
        SELECT FROM job WHERE job.job = outbox.job AND job.state NOT IN ('completed', 'failed', 'dead'))"""


async def forget_messages(connection: Connection, before: float, beyond: Walk) -> Walk | None:
    """Delete rows of messages that are done with, from before an instant, and return where to go on."""
    inbox = await connection.fetch(_OLD_INBOX, beyond.inbox)
    outbox = await connection.fetch(_OLD_OUTBOX, beyond.outbox)
    if inbox:
        await connection.execute(_FORGET_INBOX, beyond.inbox, inbox[-1][0], before)
    if outbox:
        await connection.execute(_FORGET_OUTBOX, beyond.outbox, outbox[-1][0], before)
    return walk_on(beyond, [*map(tuple, inbox)], [*map(tuple, outbox)], before)
