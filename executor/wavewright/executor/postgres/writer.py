"""A thread that talks to the database, so that neither waits for the event loop nor the loop for it.

A *desk* takes items to write and questions to answer. All items that came in while it was busy are written together,
in their order, and the questions that came with them are answered after that. Between them it beats, whatever the
event loop does meanwhile. Nobody who put something on it waits for ever: after a fault of its own it refuses what is
left.

What others want of the journal's connection, several in one transaction.

A *wish* is done in the same transaction as those that were made beside it, and as the events that were appended
beside it. One that fails undoes all of them, and then each is done by itself, so that nobody pays for another's fault.
Whatever waits for rows that others may have locked is done in one order on every machine, and what does not wait comes
last, so that nobody waits in a circle.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

from asyncpg import exceptions as pg

from wavewright.executor.postgres.driver import DRIVER_ERRORS, Connection, explain_use
from wavewright.executor.postgres.session import PostgresSession, TransactionWork
from wavewright.executor.store.commands import (
    QueryCommand,
    StopCommand,
    call_on_loop,
    query_command,
    set_exception,
    set_result,
)
from wavewright.executor.store.errors import JournalError, JournalStopped, JournalUnreachable

_T = TypeVar("_T")
_Item = TypeVar("_Item")

MAX_BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class WriterHandlers(Generic[_Item]):
    """What a desk does, all of it on its own thread but for `refuse`."""

    write: Callable[[Sequence[_Item]], Coroutine[Any, Any, None]]
    """Writes items together and answers whoever waits for them; faults of theirs are not raised."""
    reject: Callable[[_Item, JournalError], None]
    """Tells whoever waits for an item that it was not written; called from any thread."""
    heartbeat: Callable[[], Coroutine[Any, Any, None]]
    close: Callable[[], Coroutine[Any, Any, None]]


class WriterThread(Generic[_Item]):
    """The thread, from its start to `stop`."""

    def __init__(self, name: str, place: str, duties: WriterHandlers[_Item], *, pause: float) -> None:
        """Start the thread.

        Args:
            name: What it is, for messages: the journal, the purse.
            place: The database, for messages.
            duties: What to do.
            pause: Seconds between beats.
        """
        self._name = name
        self._place = place
        self._handlers = duties
        self._pause = pause
        self._commands = queue.SimpleQueue[_Item | QueryCommand | StopCommand]()
        self._is_closed = False
        self._has_ended = False
        """Whether the thread takes no more orders; set before it refuses those that are left."""
        self._ended_by: BaseException | None = None
        """The fault of our own at which it ended, if it did."""
        # A daemon: a program that forgets to close it must still be able to end.
        self._thread = threading.Thread(target=self._main, name=f"{name} {place}", daemon=True)
        self._thread.start()

    # On the event loop

    def put(self, item: _Item) -> None:
        """Have an item written."""
        self._enqueue(item)

    async def query(self, answer: Callable[[], Awaitable[_T]]) -> _T:
        """Return what the thread gets for the call, after all that was put before.

        Raises:
            JournalError: it could not be had.
        """
        self.check_open()

        async def explained() -> _T:
            try:
                return await answer()
            except DRIVER_ERRORS as error:
                raise explain_use(error, self._place) from error

        order, waiting = query_command(lambda: self._runner.run(explained()), self._broken)
        self._enqueue(order)
        return await waiting

    def check_open(self) -> None:
        """Raise an error where nothing can be put any more."""
        if self._is_closed:
            raise self._closed()

    async def aclose(self) -> None:
        """Write what is pending and end; doing so again does nothing."""
        try:
            if not self._is_closed:
                await self.query(self._handlers.close)
        finally:
            self.stop()

    def stop(self) -> None:
        """End without an event loop; what was put before is written first."""
        if not self._is_closed:
            self._is_closed = True
            self._commands.put(StopCommand())
        self._thread.join()

    def _enqueue(self, order: _Item | QueryCommand | StopCommand) -> None:
        """Give the thread an order, and answer it here where the thread ended meanwhile."""
        self._commands.put(order)
        if self._has_ended:
            self._reject_rest()

    def _closed(self) -> JournalError:
        if self._ended_by is not None:
            return self._broken(self._ended_by, JournalStopped)
        return JournalError(f"the {self._name} is closed", place=self._place, hint="open it again")

    def _broken(self, cause: BaseException, kind: type[JournalError] = JournalError) -> JournalError:
        fault = kind(
            f"the {self._name} stopped at a fault of its own: {cause!r}",
            place=self._place,
            hint="resume the run; what was journaled before is safe",
        )
        fault.__cause__ = cause
        return fault

    # On the thread

    def _main(self) -> None:
        with asyncio.Runner() as self._runner:
            try:
                self._run_commands()
            except BaseException as error:  # noqa: BLE001 - the edge of the thread: the fault goes to whoever waits
                self._ended_by = error
            finally:
                # After an orderly stop nothing is left; after a fault of our own nobody may wait for ever.
                self._is_closed = self._has_ended = True
                self._reject_rest()
                # The first fault is the one to tell; a connection that is not given up is missed by nobody.
                with suppress(*DRIVER_ERRORS):
                    self._runner.run(self._handlers.close())

    def _run_commands(self) -> None:
        """Carry out orders, and beat between them, until told to stop."""
        next_beat = time.monotonic() + self._pause
        while True:
            order = self._next(max(0.0, next_beat - time.monotonic()))
            items, questions = list[_Item](), list[QueryCommand]()
            while order is not None and not isinstance(order, StopCommand):
                if isinstance(order, QueryCommand):
                    questions.append(order)
                else:
                    items.append(order)
                order = self._next(0.0) if len(items) + len(questions) < MAX_BATCH else None
            self._execute(items, questions)
            if isinstance(order, StopCommand):
                return
            if time.monotonic() >= next_beat:
                self._runner.run(self._handlers.heartbeat())
                next_beat = time.monotonic() + self._pause

    def _execute(self, items: Sequence[_Item], questions: Sequence[QueryCommand]) -> None:
        """Write what came in, and then answer what was asked meanwhile."""
        left = deque(questions)
        try:
            if items:
                self._write(items)
            while left:
                left.popleft().execute()
        except BaseException as error:
            for question in left:
                question.reject(self._broken(error))
            raise

    def _write(self, items: Sequence[_Item]) -> None:
        try:
            self._runner.run(self._handlers.write(items))
        except BaseException as error:
            for item in items:
                self._handlers.reject(item, self._broken(error))
            raise

    def _next(self, seconds: float) -> _Item | QueryCommand | StopCommand | None:
        try:
            return self._commands.get(timeout=seconds) if seconds else self._commands.get_nowait()
        except queue.Empty:
            return None

    def _reject_rest(self) -> None:
        while (order := self._next(0.0)) is not None:
            if isinstance(order, QueryCommand):
                order.reject(self._closed())
            elif not isinstance(order, StopCommand):
                self._handlers.reject(order, self._closed())


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
