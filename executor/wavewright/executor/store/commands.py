"""Events as rows of the journal's tables, made before the writer is asked to write them.

An *entry* is what one append writes. It is text already, so that an event that is not JSON is refused where it comes
from, and nothing that changes afterwards changes what is written.

Orders to the writer thread of a journal or a purse, and the way of its answers back to the event loop.

An *order* is a batch to write, a question to answer, a wish to grant, or the last one. Whoever waits for one gets an
answer or an error; answers for a loop that is closed, and for those who no longer wait, are dropped.
"""

from __future__ import annotations

import asyncio
import queue
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias, TypeVar

from wavewright.executor.events.codec import CodecError, encode
from wavewright.executor.events.types import Event, ItemFinished, Noted, RunFinished, RunStarted, StepFinished
from wavewright.executor.store.errors import EventUnwritable, JournalError
from wavewright.executor.store.job_records import OutboxWrites
from wavewright.executor.store.job_rows import OutboxRows, outbox_rows
from wavewright.executor.store.journal import reusable_key
from wavewright.planner.types import RunId

# Named once: building a union of types for every event takes longer than asking it.
_FINISHED: Final = (StepFinished, ItemFinished)
_RUN_EVENTS: Final = (RunStarted, RunFinished)
_AFTER_END: Final = (RunFinished, Noted)


class EventRow(NamedTuple):
    """An event as it stands in the `event` table."""

    at: float
    kind: str
    step: str | None
    status: str | None
    key: str | None
    crc: int
    body: str


class AppendEntry(NamedTuple):
    """The events of one append, ready to be written."""

    run: RunId
    rows: Sequence[EventRow]
    run_events: Sequence[RunStarted | RunFinished]
    """Events that change the run's own row."""
    is_run_end: bool
    """Whether the events leave a finished run finished."""
    outbox_rows: OutboxRows | None = None
    """What the job store takes in the same transaction."""


def append_entry(run: RunId, events: Sequence[Event], alongside: OutboxWrites | None = None) -> AppendEntry:
    """Return the events as rows, and what is written alongside.

    Raises:
        EventUnwritable: an event is not JSON.
    """
    rows = list[EventRow]()
    marks = list[RunStarted | RunFinished]()
    is_end = True
    try:
        for event in events:
            rows.append(_row(event))
            if isinstance(event, _RUN_EVENTS):
                marks.append(event)
            is_end = is_end and isinstance(event, _AFTER_END)
    except CodecError as error:
        raise EventUnwritable(
            str(error),
            place=f"run {run}",
            hint="a tool returns JSON values only: see the output of that step",
        ) from error
    return AppendEntry(run, rows, marks, is_end, None if alongside is None else outbox_rows(alongside))


def _row(event: Event) -> EventRow:
    kind, body = encode(event)
    crc = zlib.crc32(body.encode("ascii"))
    if isinstance(event, _FINISHED):
        return EventRow(event.at, kind, event.step, event.status, reusable_key(event), crc, body)
    return EventRow(event.at, kind, getattr(event, "step", None), None, None, crc, body)


_T = TypeVar("_T")


@dataclass(slots=True)
class AppendBatch:
    """What was appended in one tick."""

    loop: asyncio.AbstractEventLoop
    entries: list[AppendEntry] = field(default_factory=list[AppendEntry])
    waiting: list[asyncio.Future[None]] = field(default_factory=list["asyncio.Future[None]"])
    """One future an entry."""


@dataclass(slots=True)
class QueryCommand:
    """Something else for the writer thread to do."""

    execute: Callable[[], None]
    reject: Callable[[JournalError], None]
    """Called instead of `answer` where the writer has ended."""


@dataclass(slots=True)
class TransactionCommand:
    """Something to do in one transaction, together with the wishes beside it."""

    execute: Callable[[], object]
    """Called within the transaction; perhaps twice, the first time in vain."""
    resolve: Callable[[object], None]
    reject: Callable[[Exception], None]
    """Called instead of `answer` where it raised, or was not called."""


@dataclass(slots=True)
class StopCommand:
    """The last order."""


Command: TypeAlias = AppendBatch | QueryCommand | TransactionCommand | StopCommand
_Batchable = TypeVar("_Batchable", AppendBatch, TransactionCommand)


class CommandQueue:
    """Orders on their way to the one thread that carries them out."""

    def __init__(self) -> None:
        self._commands = queue.SimpleQueue[Command]()
        self._taken: Command | None = None
        """An order that was taken off the queue and not given out yet."""

    def put(self, order: Command) -> None:
        """Add an order, from any thread."""
        self._commands.put(order)

    def next(self, until: float) -> Command | None:
        """Return the next order; none where there is none until then, by the monotonic clock."""
        if self._taken is not None:
            return self.next_nowait()
        try:
            return self._commands.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            return None

    def next_nowait(self) -> Command | None:
        """Return the next order, if there is one."""
        order, self._taken = self._taken, None
        if order is not None:
            return order
        try:
            return self._commands.get_nowait()
        except queue.Empty:
            return None

    def take_same_kind(self, first: _Batchable) -> list[_Batchable]:
        """Return an order with those of its kind that follow it at once."""
        found = [first]
        while (order := self.next_nowait()) is not None:
            if not isinstance(order, type(first)):
                self._taken = order
                break
            found.append(order)
        return found


def call_on_loop(loop: asyncio.AbstractEventLoop, back: Callable[..., None], *arguments: object) -> None:
    """Call back on the loop, from any thread."""
    try:
        loop.call_soon_threadsafe(back, *arguments)
    except RuntimeError:
        # The loop is closed, so nobody waits any more.
        return


def set_result(future: asyncio.Future[_T], answer: _T) -> None:
    """Answer one who waits."""
    if not future.done():
        future.set_result(answer)


def set_exception(future: asyncio.Future[_T], error: BaseException) -> None:
    """Tell one who waits why there is no answer."""
    if not future.done():
        future.set_exception(error)
        # Mark it as seen: an append that nobody awaits fails again at the next one, so no warning is needed.
        future.exception()


def query_command(
    ask: Callable[[], _T], broken: Callable[[BaseException], JournalError]
) -> tuple[QueryCommand, asyncio.Future[_T]]:
    """Return a question for the writer thread, and what to await on this loop for its answer.

    A fault of our own, as `broken` tells it, goes to whoever waits, and ends the writer.
    """
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[_T] = loop.create_future()

    def answer() -> None:
        try:
            found = ask()
        except JournalError as error:
            give_up(error)
        except BaseException as error:
            give_up(broken(error))
            raise
        else:
            call_on_loop(loop, set_result, waiting, found)

    def give_up(error: JournalError) -> None:
        call_on_loop(loop, set_exception, waiting, error)

    return QueryCommand(answer, give_up), waiting


def transaction_command(grant: Callable[[], _T]) -> tuple[TransactionCommand, asyncio.Future[_T]]:
    """Return a wish for the writer thread, and what to await on this loop for what it returns."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[_T] = loop.create_future()
    return (
        TransactionCommand(
            grant,
            lambda answer: call_on_loop(loop, set_result, waiting, answer),
            lambda error: call_on_loop(loop, set_exception, waiting, error),
        ),
        waiting,
    )


def resolve_batch(batch: AppendBatch, faults: dict[RunId, JournalError]) -> None:
    """Tell all who wait for a batch what became of it."""
    if not faults:
        for future in batch.waiting:
            if not future.done():
                future.set_result(None)
        return
    for entry, future in zip(batch.entries, batch.waiting, strict=True):
        if (fault := faults.get(entry.run)) is None:
            set_result(future, None)
        else:
            set_exception(future, fault)
