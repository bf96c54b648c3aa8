"""The outbox: messages that wait to be published, in the order in which they were caused.

Messages are written in the transaction of what causes them, and an owner leases those that it publishes.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final, Protocol, TypeVar

from wavewright.executor.store.commands import ANY_ORDER, LockOrder
from wavewright.executor.store.job_records import MessageId, OutgoingMessage
from wavewright.executor.store.job_rows import read_outgoing
from wavewright.executor.store.transaction import StoreTransaction, TransactionWork

OUTBOX_LEASE_SECONDS: Final = 5.0
"""Length of an owner's lease of outbox messages, in seconds."""

_T = TypeVar("_T")

_HAS_WAITING: Final = "SELECT 1 FROM outbox WHERE sent IS NULL AND refused IS NULL LIMIT 1"
# A lease from the future is one from before the clock went back; it counts for nothing.
_IS_LEASED_ELSEWHERE: Final = (
    "coalesce({row}.owner <> $1 AND {row}.leased <= now AND {row}.leased > now - $2, false)"
)
_LEASE: Final = f"""
    UPDATE outbox SET owner = $1, leased = clock_seconds() WHERE no IN (
        SELECT outbox.no FROM outbox, (SELECT clock_seconds() AS now) AS clock
        WHERE sent IS NULL AND refused IS NULL AND NOT {_IS_LEASED_ELSEWHERE.format(row="outbox")}
        AND NOT EXISTS (
            SELECT 1 FROM outbox AS earlier
            WHERE earlier.job = outbox.job AND earlier.no < outbox.no
            AND earlier.sent IS NULL AND earlier.refused IS NULL AND {_IS_LEASED_ELSEWHERE.format(row="earlier")})
        ORDER BY outbox.no LIMIT $3)
    RETURNING no, message, kind, exchange, routing_key, job, headers, at,
              (SELECT body FROM outbox_body WHERE outbox_body.no = outbox.no)"""  # noqa: S608 - constants
_REFUSE: Final = "UPDATE outbox SET refused = $1 WHERE message = $2 AND sent IS NULL"
_REFUSED: Final = """
    SELECT refused, message, kind, exchange, routing_key, job, headers, at, body
    FROM outbox JOIN outbox_body ON outbox_body.no = outbox.no WHERE refused IS NOT NULL ORDER BY outbox.no"""


class TransactionalJournal(Protocol):
    """The part of an open journal that the job store needs."""

    def transact(self, work: TransactionWork[_T], *, order: LockOrder = ANY_ORDER) -> Coroutine[Any, Any, _T]:
        """Run the work in one transaction, after all earlier appends, and return its result."""
        ...

    async def read(self, ask: TransactionWork[_T]) -> _T:
        """Run a query after all earlier appends, and return its result; it may run twice."""
        ...


async def lease_messages(
    transaction: StoreTransaction, *, seconds: float, most: int
) -> list[OutgoingMessage]:
    """Return messages that no other owner has leased, and lease them to the transaction's owner.

    The messages of one job are leased by one owner at a time, so that they are published in their order.
    """
    await transaction.lock("outbox")
    # A statement of its own: it sees what another owner has leased before the lock was had.
    rows = await transaction.fetch(_LEASE, transaction.owner.token, seconds, most)
    return [read_outgoing(row[1:]) for row in sorted(rows, key=itemgetter(0))]


class Outbox:
    """Messages to publish, in the database of an open journal."""

    def __init__(self, journal: TransactionalJournal, lease_seconds: float) -> None:
        self._journal = journal
        self._lease_seconds = lease_seconds

    async def pending(self, most: int = 100) -> list[OutgoingMessage]:
        """Return messages of the outbox in order, leased to this owner for a few seconds.

        Messages that another owner has leased are left out, with later ones of the same job: the messages of a job are
        published in order. Messages that this owner leased before and did not mark are returned again.
        """
        if not await self._journal.read(lambda transaction: transaction.has_rows(_HAS_WAITING)):
            return []
        return await self._journal.transact(partial(lease_messages, seconds=self._lease_seconds, most=most))

    async def renew(self, messages: Sequence[MessageId]) -> None:
        """Renew this owner's leases of messages; other messages are unchanged."""

        async def renew(transaction: StoreTransaction) -> None:
            where = f"owner = $1 AND message {transaction.in_list('$2', 'text')} AND sent IS NULL"
            query = f"UPDATE outbox SET leased = clock_seconds() WHERE {where}"  # noqa: S608 - constants
            await transaction.execute(query, transaction.owner.token, list(messages))

        await self._journal.transact(renew)

    async def mark_sent(self, messages: Sequence[MessageId]) -> None:
        """Mark messages as confirmed by the broker; their bodies are not kept."""

        async def mark(transaction: StoreTransaction) -> None:
            where = f"message {transaction.in_list('$1', 'text')} AND sent IS NULL"
            delete = f"DELETE FROM outbox_body WHERE no IN (SELECT no FROM outbox WHERE {where})"  # noqa: S608 - constants
            await transaction.defer(delete, list(messages))
            update = f"UPDATE outbox SET sent = clock_seconds(), refused = NULL WHERE {where}"  # noqa: S608 - constants
            await transaction.execute(update, list(messages))

        await self._journal.transact(mark)

    async def mark_refused(self, message: MessageId, reason: str) -> None:
        """Set a message aside that the broker cannot deliver, until `release`."""
        await self._journal.transact(lambda transaction: transaction.execute(_REFUSE, reason, message))

    async def list_refused(self) -> list[OutgoingMessage]:
        """Return the messages that the broker could not deliver, in order."""
        rows = await self._journal.read(lambda transaction: transaction.fetch(_REFUSED))
        return [read_outgoing(row[1:], refused=row[0]) for row in rows]

    async def release(self, messages: Sequence[MessageId]) -> None:
        """Queue undeliverable messages for publishing again."""

        async def release(transaction: StoreTransaction) -> None:
            where = f"message {transaction.in_list('$1', 'text')}"
            await transaction.execute(f"UPDATE outbox SET refused = NULL WHERE {where}", list(messages))  # noqa: S608

        await self._journal.transact(release)
