"""A thread that talks to the database, so that neither waits for the event loop nor the loop for it.

A *desk* takes items to write and questions to answer. All items that came in while it was busy are written together,
in their order, and the questions that came with them are answered after that. Between them it beats, whatever the
event loop does meanwhile. Nobody who put something on it waits for ever: after a fault of its own it refuses what is
left.
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
from typing import Any, Final, Generic, TypeVar

from wavewright.executor.journal_errors import JournalError, JournalStopped
from wavewright.executor.journal_orders import QueryCommand, StopCommand, query_command
from wavewright.executor.postgres.faults import DRIVER_ERRORS, explain_use

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
        return JournalError(f"the {self._name} is closed", place=self._place, mend="open it again")

    def _broken(self, cause: BaseException, kind: type[JournalError] = JournalError) -> JournalError:
        fault = kind(
            f"the {self._name} stopped at a fault of its own: {cause!r}",
            place=self._place,
            mend="resume the run; what was journaled before is safe",
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
