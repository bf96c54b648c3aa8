"""A thread that owns a store's connection, and the commands that the event loop gives it.

All commands that arrive while the thread is busy are written together in their order, and the
queries that arrived with them are answered after that. Between them the thread sends heartbeats,
whatever the event loop does. No caller waits for ever: after an error of its own the thread rejects
what is left. Results for a closed loop, and for callers that were cancelled, are dropped.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from wavewright.executor.store.errors import JournalError, JournalStopped

_T = TypeVar("_T")
_Item = TypeVar("_Item")

_MAX_BATCH: Final = 500
"""Commands that are written together."""


def call_on_loop(
    loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *arguments: object
) -> None:
    """Call back on the loop, from any thread."""
    # Where the loop is closed, no caller waits any more.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(callback, *arguments)


def set_result(future: asyncio.Future[_T], result: _T) -> None:
    """Set the result, unless the caller was cancelled."""
    if not future.done():
        future.set_result(result)


def set_exception(future: asyncio.Future[_T], error: BaseException) -> None:
    """Set the exception, unless the caller was cancelled."""
    if not future.done():
        future.set_exception(error)
        # Mark it as seen: an append that is not awaited fails again at the next one, so no warning
        # is needed.
        future.exception()


class CoroutineRunner(Protocol):
    """Runs coroutines to their end on the writer thread; `asyncio.Runner` is one."""

    def run(self, coroutine: Coroutine[Any, Any, _T], /) -> _T:
        """Return what the coroutine returns."""
        ...


class InlineRunner(AbstractContextManager["InlineRunner"]):
    """Runs coroutines that never wait."""

    def __exit__(self, *_: object) -> None:
        """Do nothing: there is nothing to close."""

    def run(self, coroutine: Coroutine[Any, Any, _T], /) -> _T:
        """Return what the coroutine returns."""
        return run_inline(coroutine)


def run_inline(work: Awaitable[_T]) -> _T:
    """Return what work returns that never waits."""
    coroutine = _wait_for(work)
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: _T = stop.value
        return result
    coroutine.close()
    raise RuntimeError("a coroutine that must not wait did")


async def _wait_for(work: Awaitable[_T]) -> _T:
    return await work


@dataclass(frozen=True, slots=True)
class WriterHandlers(Generic[_Item]):
    """What the thread does; all of it runs on the thread except `reject`."""

    write: Callable[[Sequence[_Item]], Coroutine[Any, Any, None]]
    """Writes commands together and resolves them; errors that belong to a command are not raised.
    """
    reject: Callable[[_Item, JournalError], None]
    """Fails a command that was not written; called from any thread."""
    heartbeat: Callable[[], Coroutine[Any, Any, None]]
    close: Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class _Query:
    """A question for the thread."""

    execute: Callable[[], None]
    reject: Callable[[JournalError], None]


class _LastCommand:
    """The last command."""


class WriterThread(Generic[_Item]):
    """The thread, from its start to `stop`."""

    def __init__(
        self,
        name: str,
        place: str,
        handlers: WriterHandlers[_Item],
        *,
        heartbeat_seconds: float,
        runner: Callable[[], AbstractContextManager[CoroutineRunner]] = asyncio.Runner,
    ) -> None:
        """Start the thread.

        Args:
            name: What it writes, for messages: the journal, the budget store.
            place: The file or the database, for messages.
            handlers: What to do.
            heartbeat_seconds: Seconds between heartbeats.
            runner: Makes what runs the handlers' coroutines, on the thread.
        """
        self._name = name
        self._place = place
        self._handlers = handlers
        self._heartbeat_seconds = heartbeat_seconds
        self._make_runner = runner
        self._commands = queue.SimpleQueue[_Item | _Query | _LastCommand]()
        self.is_closed = False
        """Whether nothing can be put any more."""
        self._has_ended = False
        """Whether the thread takes no more commands; set before it rejects those that are left."""
        self._ended_by: BaseException | None = None
        """The error of its own at which the thread ended, if it did."""
        # A daemon: a program that forgets to close the store must still be able to end.
        self._thread = threading.Thread(target=self._main, name=f"{name} {place}", daemon=True)
        self._thread.start()

    # On the event loop

    def put(self, item: _Item) -> None:
        """Have a command written."""
        self._enqueue(item)

    async def query(self, answer: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Return what the call returns on the thread, after all that was put before.

        Raises:
            JournalError: the call raised it, or the thread has ended.
        """
        self.check_open()
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[_T] = loop.create_future()

        def reject(error: JournalError) -> None:
            call_on_loop(loop, set_exception, waiting, error)

        def execute() -> None:
            try:
                answered = self._runner.run(answer())
            except JournalError as error:
                reject(error)
            except BaseException as error:
                reject(self.internal_error(error))
                raise
            else:
                call_on_loop(loop, set_result, waiting, answered)

        self._enqueue(_Query(execute, reject))
        return await waiting

    def check_open(self) -> None:
        """Raise an error where nothing can be put any more."""
        if self.is_closed:
            raise self._closed_error()

    async def aclose(self) -> None:
        """Write what is pending and end; doing so again does nothing."""
        try:
            if not self.is_closed:
                await self.query(self._handlers.close)
        finally:
            self.stop()

    def stop(self) -> None:
        """End without an event loop; what was put before is written first."""
        if not self.is_closed:
            self.is_closed = True
            self._commands.put(_LastCommand())
        self._thread.join()

    def _enqueue(self, command: _Item | _Query) -> None:
        """Give the thread a command, and reject it here where the thread ended meanwhile."""
        self._commands.put(command)
        if self._has_ended:
            self._reject_rest()

    def _closed_error(self) -> JournalError:
        if self._ended_by is not None:
            return self.internal_error(self._ended_by, JournalStopped)
        return JournalError(
            f"the {self._name} is closed",
            place=self._place,
            hint="open it again; in a program, stay inside `async with` until its runs have ended",
        )

    def internal_error(
        self, cause: BaseException, kind: type[JournalError] = JournalError
    ) -> JournalError:
        """Return the error for a fault of this program."""
        error = kind(
            f"the {self._name} stopped at an error of its own: {cause!r}",
            place=self._place,
            hint="resume the run; what was journaled before is safe",
        )
        error.__cause__ = cause
        return error

    # On the thread

    def _main(self) -> None:
        with self._make_runner() as self._runner:
            try:
                self._run_commands()
            except BaseException as error:  # noqa: BLE001 - the edge of the thread: the error goes to the waiting caller
                self._ended_by = error
            finally:
                # After an orderly stop nothing is left; after an internal error no caller may wait
                # for ever.
                self.is_closed = self._has_ended = True
                self._reject_rest()
                # The first error is the one to report; the connection is closed nevertheless.
                with suppress(Exception):
                    self._runner.run(self._handlers.close())

    def _run_commands(self) -> None:
        """Carry out commands, and send heartbeats between them, until told to stop."""
        next_beat = time.monotonic() + self._heartbeat_seconds
        while True:
            command = self._next(max(0.0, next_beat - time.monotonic()))
            items: list[_Item] = []
            queries: list[_Query] = []
            while command is not None and not isinstance(command, _LastCommand):
                if isinstance(command, _Query):
                    queries.append(command)
                else:
                    items.append(command)
                command = self._next(0.0) if len(items) + len(queries) < _MAX_BATCH else None
            self._execute(items, queries)
            if isinstance(command, _LastCommand):
                return
            if time.monotonic() >= next_beat:
                self._runner.run(self._handlers.heartbeat())
                next_beat = time.monotonic() + self._heartbeat_seconds

    def _execute(self, items: Sequence[_Item], queries: Sequence[_Query]) -> None:
        """Write what came in, and then answer what was asked meanwhile."""
        left = deque(queries)
        try:
            if items:
                self._write(items)
            while left:
                left.popleft().execute()
        except BaseException as error:
            for query in left:
                query.reject(self.internal_error(error))
            raise

    def _write(self, items: Sequence[_Item]) -> None:
        try:
            self._runner.run(self._handlers.write(items))
        except BaseException as error:
            for item in items:
                self._handlers.reject(item, self.internal_error(error))
            raise

    def _next(self, seconds: float) -> _Item | _Query | _LastCommand | None:
        try:
            return self._commands.get(timeout=seconds) if seconds else self._commands.get_nowait()
        except queue.Empty:
            return None

    def _reject_rest(self) -> None:
        while (command := self._next(0.0)) is not None:
            if isinstance(command, _Query):
                command.reject(self._closed_error())
            elif not isinstance(command, _LastCommand):
                self._handlers.reject(command, self._closed_error())
