"""The journal in a SQLite file, written beside the event loop.

All appends of one *tick* of the loop are one transaction, and all ticks that pass while one is being written are the
next: the more a run does at once, the less a step costs. One writer thread owns the file; only a *lone* append, which
nothing else is expected beside, is written in place while the disk is quick, since the way to the thread and back
takes half as long as the disk itself. Done means synced: what an `append` reported survives a crash and a power cut.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

import anyio

from wavewright.executor.events.types import Event
from wavewright.executor.sqlite.event_store import DatabaseLocked, SqliteEventStore
from wavewright.executor.store.commands import (
    AppendBatch,
    AppendEntry,
    Command,
    CommandQueue,
    QueryCommand,
    StopCommand,
    TransactionCommand,
    append_entry,
    call_on_loop,
    query_command,
    resolve_batch,
    set_exception,
    transaction_command,
)
from wavewright.executor.store.errors import JournalError, JournalStopped
from wavewright.executor.store.job_records import OutboxWrites
from wavewright.executor.store.journal import COMPLETED, RunRow, StoredOutput
from wavewright.executor.store.leases import LEASE_SECONDS
from wavewright.planner.types import RunId, StepKey

INLINE_WRITE_SECONDS: Final = 0.001
"""A disk that took longer for the last commit is not waited for on the event loop."""
_INLINE_EVENTS: Final = 4
"""A step that ends a wave, with the start of the next and its first call."""

_T = TypeVar("_T")


class SqliteJournal:
    """A journal in a file; many runs and many processes may share it, each run having one owner."""

    def __init__(
        self,
        path: Path | str,
        *,
        lease: float = LEASE_SECONDS,
        patience: float = 10.0,
        quick: float = INLINE_WRITE_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open the file, and create it where there is none.

        Args:
            path: The file.
            lease: Seconds for which an owner on another machine is believed without a beat.
            patience: Seconds to wait for another program's lock.
            quick: A lone append is written on the event loop's thread while commits take less; 0 for never.
            clock: Seconds since the epoch.

        Raises:
            JournalError: with the place and the fix.
        """
        self.path = Path(path)
        self._store = SqliteEventStore(path, lease=lease, patience=patience, clock=clock)
        self._store_lock = threading.Lock()
        """Held while the store is used: by the writer, or by the loop for a lone append."""
        self._quick = quick
        self._commands = CommandQueue()
        self._gathering: AppendBatch | None = None
        self._pending = 0
        """Batches handed to the writer that have not come back; a lone append must not overtake them."""
        self._expects_lone = False
        """Whether the last tick brought one append only."""
        self._is_tick_used = False
        """Whether an append was written in place in this tick, so that any further one is gathered."""
        self._is_closed = False
        self._has_ended = False
        """Whether the writer takes no more orders; set before it answers those that are left."""
        self._ended_by: BaseException | None = None
        """The fault of our own at which it ended, if it did."""
        # A daemon: a program that forgets to close the journal must still be able to end.
        self._writer = threading.Thread(
            target=self._writer_main, name=f"journal {self.path.name}", daemon=True
        )
        self._writer.start()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # On the event loop

    @property
    def store(self) -> SqliteEventStore:
        """The open file, for wishes; see `transact`."""
        return self._store

    def append(
        self, run: RunId, events: Sequence[Event], alongside: OutboxWrites | None = None
    ) -> Awaitable[None]:
        """Write the events at the end of the run; what is returned is done once they are synced to the disk.

        Raises:
            JournalError: when awaited; at once for events that are not JSON and for a run with an earlier fault.
        """
        if (fault := self._store.faults.get(run)) is not None:
            raise fault
        self._check_open()
        entry = append_entry(run, events, alongside)
        batch = self._gathering
        if batch is None:
            if self._is_lone(entry) and self._is_written_in_place(entry):
                return COMPLETED
            loop = asyncio.get_running_loop()
            batch = self._gathering = AppendBatch(loop)
            # After all that is ready to run in this tick.
            loop.call_soon(self._hand_over)
        future: asyncio.Future[None] = batch.loop.create_future()
        batch.entries.append(entry)
        batch.waiting.append(future)
        return future

    def _hand_over(self) -> None:
        batch, self._gathering = self._gathering, None
        if batch is not None:
            self._expects_lone = len(batch.entries) == 1 and not self._is_tick_used
            self._pending += 1
            self._enqueue(batch)

    def _enqueue(self, order: Command) -> None:
        """Give the writer an order, and answer it here where the writer ended meanwhile."""
        self._commands.put(order)
        if self._has_ended:
            self._reject_rest()

    def _is_lone(self, entry: AppendEntry) -> bool:
        """Return whether nothing is gained by writing an append together with others, or beside the loop.

        Whether more will come in this tick cannot be known; that nothing else came in the last one is a good guess,
        and a wrong one costs a single commit.
        """
        return (
            self._expects_lone
            and not self._is_tick_used
            and self._pending == 0
            and len(entry.rows) <= _INLINE_EVENTS
            and self._store.last_write < self._quick
            and not self._store.log.needs_space
            and self._store.holds(entry.run)
        )

    def _is_written_in_place(self, entry: AppendEntry) -> bool:
        """Write the append here and now, unless somebody else is using the store or the file.

        Raises:
            JournalError: it cannot be written.
        """
        if not self._store_lock.acquire(blocking=False):
            return False
        try:
            faults = self._store.write([entry], may_wait=False)
        except DatabaseLocked:
            return False
        except Exception as error:
            fault = self._store.faults[entry.run] = self._broken(error)
            raise fault from error
        finally:
            self._store_lock.release()
        if faults:
            raise faults[entry.run]
        if self._store.log.needs_checkpoint:
            self._enqueue(QueryCommand(self._checkpoint, lambda _: None))
        self._is_tick_used = True
        asyncio.get_running_loop().call_soon(self._end_tick)
        return True

    def _end_tick(self) -> None:
        if self._gathering is not None:
            # More came in the tick than the append that was written in place.
            self._hand_over()
        self._is_tick_used = False

    def _on_written(self, batches: Sequence[AppendBatch], faults: dict[RunId, JournalError]) -> None:
        try:
            for batch in batches:
                self._pending -= 1
                resolve_batch(batch, faults)
        except Exception as error:  # noqa: BLE001 - a fault of our own: whoever waits is told, and nobody for ever
            fault = self._broken(error)
            for batch in batches:
                for waiting in batch.waiting:
                    set_exception(waiting, fault)

    def _check_open(self) -> None:
        if self._is_closed:
            raise self._closed()

    def _closed(self) -> JournalError:
        if self._ended_by is not None:
            return self._broken(self._ended_by, JournalStopped)
        return JournalError("the journal is closed", place=str(self.path), hint="open it again")

    def _broken(self, cause: BaseException, kind: type[JournalError] = JournalError) -> JournalError:
        fault = kind(
            f"the journal stopped at a fault of its own: {cause!r}",
            place=str(self.path),
            hint="resume the run; what was journaled before is safe",
        )
        fault.__cause__ = cause
        return fault

    async def query(self, ask: Callable[[], _T]) -> _T:
        """Return what the writer thread gets for the call, after all that was appended before."""
        self._check_open()
        self._hand_over()

        def locked() -> _T:
            with self._store_lock:
                return ask()

        order, waiting = query_command(locked, self._broken)
        self._enqueue(order)
        return await waiting

    async def transact(self, grant: Callable[[], _T]) -> _T:
        """Return what the call does to the store in one transaction, after all that was appended before.

        What others want while the last transaction is written is done in the same one. The call may be repeated,
        when another one beside it failed; nothing of the first time is written then.

        Raises:
            JournalError: it could not be written, or what the call itself raised; nothing was written.
        """
        self._check_open()
        self._hand_over()
        order, waiting = transaction_command(grant)
        self._enqueue(order)
        return await waiting

    async def open_run(self, run: RunId) -> None:
        """Become the run's one owner, new or to be resumed.

        Raises:
            RunBusy: another process, or this one, has it open.
        """
        beat: int | None = None
        while (watch := await self.query(partial(self._store.claim, run, unmoved=beat))) is not None:
            if beat is not None:
                raise self._store.busy_error(run, watch.lease)
            beat = watch.lease.heartbeat
            await anyio.sleep(watch.lease.probe_seconds)

    async def close_run(self, run: RunId) -> None:
        """Write what is pending and give the run up."""
        await self.query(lambda: self._store.release(run))

    async def load(self, run: RunId) -> list[Event]:
        """Return the run's events in order.

        Raises:
            JournalDamaged: one is not what was written.
        """
        return await self.query(lambda: self._store.reader.load(run))

    async def find_output(self, key: StepKey) -> StoredOutput | None:
        """Return the newest whole and unblocked output that any run journaled under the key."""
        return await self.query(lambda: self._store.reader.find_output(key))

    async def list_runs(self) -> list[RunRow]:
        """Return all runs, the newest first."""
        return await self.query(self._store.reader.list_runs)

    async def find_run(self, prefix: str) -> RunId:
        """Return the run whose id or tail starts so."""
        return await self.query(lambda: self._store.reader.find_run(prefix))

    async def aclose(self) -> None:
        """Write what is pending, give up all runs and close; closing again does nothing."""
        try:
            if not self._is_closed:
                await self.query(self._store.close)
        finally:
            self.close()

    def close(self) -> None:
        """Close without an event loop; what was handed over is written first."""
        if not self._is_closed:
            self._is_closed = True
            self._commands.put(StopCommand())
        self._writer.join()

    # On the writer's thread

    def _writer_main(self) -> None:
        try:
            self._run_commands()
        except BaseException as error:  # noqa: BLE001 - the edge of the thread: the fault goes to whoever waits
            self._ended_by = error
            # The first fault is the one to tell; a second, in giving up the runs, leaves the file closed all the same.
            with suppress(Exception), self._store_lock:
                self._store.close()
        finally:
            # After an orderly stop nothing is left; after a fault of our own nobody may wait for ever.
            self._is_closed = self._has_ended = True
            self._reject_rest()

    def _run_commands(self) -> None:
        """Carry out orders, and beat between them, until told to stop."""
        pause = self._store.lease / 3
        next_beat = time.monotonic() + pause
        while True:
            match self._commands.next(next_beat):
                case AppendBatch() as batch:
                    self._write(self._commands.take_same_kind(batch))
                case TransactionCommand() as wanted:
                    self._execute(self._commands.take_same_kind(wanted))
                case QueryCommand() as asked:
                    asked.execute()
                case StopCommand():
                    self._store.close()
                    return
                case None:
                    pass
            if time.monotonic() >= next_beat:
                with self._store_lock:
                    self._store.heartbeat()
                next_beat = time.monotonic() + pause

    def _reject_rest(self) -> None:
        while (order := self._commands.next_nowait()) is not None:
            if isinstance(order, AppendBatch):
                self._reject(order, self._closed())
            elif isinstance(order, QueryCommand | TransactionCommand):
                order.reject(self._closed())

    def _reject(self, batch: AppendBatch, fault: JournalError) -> None:
        call_on_loop(batch.loop, self._on_written, [batch], {entry.run: fault for entry in batch.entries})

    def _write(self, batches: Sequence[AppendBatch]) -> None:
        try:
            with self._store_lock:
                faults = self._store.write([entry for batch in batches for entry in batch.entries])
        except BaseException as error:
            for batch in batches:
                self._reject(batch, self._broken(error))
            raise
        # Only now, so that a lone append which follows at once finds the store free.
        call_on_loop(batches[0].loop, self._on_written, batches, faults)
        self._checkpoint()

    def _execute(self, wishes: Sequence[TransactionCommand]) -> None:
        try:
            with self._store_lock:
                answers = self._store.execute([wanted.execute for wanted in wishes])
        except Exception as error:  # noqa: BLE001 - a fault of whoever wished: it is told, and nobody else pays for it
            if len(wishes) > 1:
                for wanted in wishes:
                    self._execute([wanted])
            else:
                wishes[0].reject(error)
            return
        for wanted, answer in zip(wishes, answers, strict=True):
            if isinstance(answer, JournalError):
                wanted.reject(answer)
            else:
                wanted.resolve(answer)
        self._checkpoint()

    def _checkpoint(self) -> None:
        if self._store.log.needs_checkpoint:
            with self._store_lock:
                self._store.log.checkpoint()
