"""What others want of the journal's connection, several in one transaction.

A *wish* is done in the same transaction as those that were made beside it, and as the events that were appended
beside it. One that fails undoes all of them, and then each is done by itself, so that nobody pays for another's fault.
Whatever waits for rows that others may have locked is done in one order on every machine, and what does not wait comes
last, so that nobody waits in a circle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from asyncpg import exceptions as pg

from wavewright.executor.journal_errors import JournalError, JournalUnreachable
from wavewright.executor.journal_orders import call_on_loop, set_exception, set_result
from wavewright.executor.postgres.connection import Connection
from wavewright.executor.postgres.faults import DRIVER_ERRORS, explain_use
from wavewright.executor.postgres.session import PostgresSession, TransactionWork

_Result = TypeVar("_Result")

_MAX_TRIES: Final = 5
"""Times that a wish is begun which meets another transaction that writes the same new row."""


LockOrder: TypeAlias = tuple[int, str]
"""Of a wish among those beside it."""
ANY_ORDER: Final[LockOrder] = (1, "")
LAST_ORDER: Final[LockOrder] = (2, "")
"""For what locks rows and waits for none."""


def job_lock_order(job: str | None) -> LockOrder:
    """Return the place of what locks a job; of one that is not known beforehand, the first."""
    return (0, job or "")


@dataclass(slots=True)
class QueuedTransaction:
    """Something to do in a transaction, and who waits for what it brings."""

    work: TransactionWork[Any]
    """Perhaps called twice, the first time in vain."""
    on_commit: Callable[[Any], None]
    """Called with what it brought, on the journal's thread, once that is committed."""
    loop: asyncio.AbstractEventLoop
    waiting: asyncio.Future[Any]
    lock_order: LockOrder


def queued_transaction(
    work: TransactionWork[_Result], after: Callable[[_Result], None], place: LockOrder
) -> tuple[QueuedTransaction, asyncio.Future[_Result]]:
    """Return a wish, and what to await on this loop for what it brings."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[_Result] = loop.create_future()
    return QueuedTransaction(work, after, loop, waiting, place), waiting


async def execute_transactions(session: PostgresSession, wishes: Sequence[QueuedTransaction]) -> None:
    """Do what was wished, and answer whoever waits for it."""
    if not wishes:
        return
    wishes = sorted(wishes, key=lambda one: one.lock_order)

    async def work(connection: Connection, now: float) -> list[object]:
        return [await one.work(connection, now) for one in wishes]

    tries = _MAX_TRIES if len(wishes) == 1 else 1
    while True:
        tries -= 1
        try:
            answers = await session.transact(work)
        except pg.UniqueViolationError as error:
            if tries == 0:
                await _execute_separately(session, wishes, error)
                return
        except (*DRIVER_ERRORS, JournalError) as error:
            await _execute_separately(session, wishes, error)
            return
        else:
            for one, answer in zip(wishes, answers, strict=True):
                resolve(one, answer)
            return


async def _execute_separately(
    session: PostgresSession, wishes: Sequence[QueuedTransaction], error: Exception
) -> None:
    """Grant each wish by itself after they failed together; tell a lone one why it failed."""
    if len(wishes) == 1 or isinstance(error, JournalUnreachable):
        for one in wishes:
            reject(one, explain_use(error, session.place))
        return
    for one in wishes:
        await execute_transactions(session, [one])


def resolve(one: QueuedTransaction, answer: object) -> None:
    """Tell whoever waits for a wish what it brought, once that is committed."""
    one.on_commit(answer)
    call_on_loop(one.loop, set_result, one.waiting, answer)


def reject(one: QueuedTransaction, fault: JournalError) -> None:
    """Tell whoever waits for a wish that it was not done."""
    call_on_loop(one.loop, set_exception, one.waiting, fault)
