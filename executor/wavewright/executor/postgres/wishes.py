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
from wavewright.executor.journal_orders import call_back, fail, fulfil
from wavewright.executor.postgres.connection import Connection
from wavewright.executor.postgres.faults import FAULTS, explain_use
from wavewright.executor.postgres.session import Session, Work

_T = TypeVar("_T")

_MOST_TRIES: Final = 5
"""Times that a wish is begun which meets another transaction that writes the same new row."""


Place: TypeAlias = tuple[int, str]
"""Of a wish among those beside it."""
ANYWHERE: Final[Place] = (1, "")
LAST: Final[Place] = (2, "")
"""For what locks rows and waits for none."""


def place_of_job(job: str | None) -> Place:
    """Return the place of what locks a job; of one that is not known beforehand, the first."""
    return (0, job or "")


@dataclass(slots=True)
class Wish:
    """Something to do in a transaction, and who waits for what it brings."""

    work: Work[Any]
    """Perhaps called twice, the first time in vain."""
    after: Callable[[Any], None]
    """Called with what it brought, on the journal's thread, once that is committed."""
    loop: asyncio.AbstractEventLoop
    waiting: asyncio.Future[Any]
    place: Place


def wish(work: Work[_T], after: Callable[[_T], None], place: Place) -> tuple[Wish, asyncio.Future[_T]]:
    """Return a wish, and what to await on this loop for what it brings."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[_T] = loop.create_future()
    return Wish(work, after, loop, waiting, place), waiting


async def grant(session: Session, wishes: Sequence[Wish]) -> None:
    """Do what was wished, and answer whoever waits for it."""
    if not wishes:
        return
    wishes = sorted(wishes, key=lambda one: one.place)

    async def work(connection: Connection, now: float) -> list[object]:
        return [await one.work(connection, now) for one in wishes]

    tries = _MOST_TRIES if len(wishes) == 1 else 1
    while True:
        tries -= 1
        try:
            answers = await session.transact(work)
        except pg.UniqueViolationError as error:
            if tries == 0:
                await _apart(session, wishes, error)
                return
        except (*FAULTS, JournalError) as error:
            await _apart(session, wishes, error)
            return
        else:
            for one, answer in zip(wishes, answers, strict=True):
                grant_with(one, answer)
            return


async def _apart(session: Session, wishes: Sequence[Wish], error: Exception) -> None:
    """Grant each wish by itself after they failed together; tell a lone one why it failed."""
    if len(wishes) == 1 or isinstance(error, JournalUnreachable):
        for one in wishes:
            refuse(one, explain_use(error, session.place))
        return
    for one in wishes:
        await grant(session, [one])


def grant_with(one: Wish, answer: object) -> None:
    """Tell whoever waits for a wish what it brought, once that is committed."""
    one.after(answer)
    call_back(one.loop, fulfil, one.waiting, answer)


def refuse(one: Wish, fault: JournalError) -> None:
    """Tell whoever waits for a wish that it was not done."""
    call_back(one.loop, fail, one.waiting, fault)
