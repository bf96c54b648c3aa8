"""A journal in a file or a database, written by a thread beside the event loop.

All appends of one tick of the loop are one transaction, and all ticks that pass while one is being
written are the next, together with the transactions that others queued meanwhile: the more a run
does at once, the less a step costs.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

import anyio
from anyio.abc import AsyncResource

from wavewright.executor.events.types import Event
from wavewright.executor.store import run_queries
from wavewright.executor.store.entries import AppendBatch, AppendEntry, append_entry
from wavewright.executor.store.errors import JournalError
from wavewright.executor.store.journal import (
    CancelRequest,
    LeftAnswer,
    RunHead,
    RunRow,
    StoredOutput,
)
from wavewright.executor.store.leases import LeaseProbe, Owner, RunHolder
from wavewright.executor.store.transaction import (
    ANY_ORDER,
    SEPARATE,
    Alongside,
    LockOrder,
    QueuedTransaction,
    TransactionWork,
)
from wavewright.executor.store.writer import (
    CoroutineRunner,
    WriterHandlers,
    WriterThread,
    call_on_loop,
    set_exception,
    set_result,
)
from wavewright.planner import RunId, StepKey

_T = TypeVar("_T")


class EventStore(RunHolder, ABC):
    """The tables of a journal, open to one owner, used from its writer thread.

    Every write names the *fence* under which this owner holds the run and is refused, in the same
    transaction, once another owner has a higher one. A transaction is written whole or not at all,
    and what one run cannot write costs no other run anything.
    """

    def __init__(self, owner: Owner, place: str, lease: float) -> None:
        super().__init__(owner, place)
        self.lease = lease
        """Seconds for which an owner on another machine is believed without a heartbeat."""

    @abstractmethod
    async def claim(self, run: RunId, *, unmoved: int | None = None) -> LeaseProbe | None:
        """Become the run's owner; or return the lease that must be probed first.

        Args:
            run: The run, new or known.
            unmoved: The heartbeat of a probe that has ended.

        Raises:
            RunBusy: its owner is alive.
        """

    async def release(self, run: RunId) -> None:
        """Give the run up; nothing where it is not held."""
        try:
            if run in self.held:
                await self.execute([lambda transaction: transaction.release(run)], run)
        finally:
            self._note_leases({}, [run])

    @abstractmethod
    async def write(self, entries: Sequence[AppendEntry]) -> dict[RunId, JournalError]:
        """Write the entries in one transaction and return, run by run, what could not be written
        and why.

        Nothing more is written to a run that is returned, until it is claimed again.
        """

    async def _write_apart(self, entries: Sequence[AppendEntry], error: Exception) -> None:
        """Write each run's entries by themselves after they failed together; note the fault of a
        lone run.
        """
        runs = dict.fromkeys(entry.run for entry in entries)
        if len(runs) > 1:
            for run in runs:
                await self.write([entry for entry in entries if entry.run == run])
            return
        (run,) = runs
        self.faults[run] = self._explained(error, run)

    @abstractmethod
    def _explained(self, error: Exception, run: RunId | None = None) -> JournalError:
        """Return an error of the driver, or of the journal, as the journal's, for a run where one is
        named.
        """

    @abstractmethod
    async def write_and_execute(
        self, entries: Sequence[AppendEntry], works: Sequence[QueuedTransaction]
    ) -> tuple[dict[RunId, JournalError], Sequence[object]] | None:
        """Write the entries and do the works in one transaction; return the faults as `write` does,
        and the results.

        None where nothing was done: a part of it is at fault, or the parts do not go together.
        """

    @abstractmethod
    async def execute(
        self, works: Sequence[TransactionWork[Any]], run: RunId | None = None
    ) -> Sequence[object]:
        """Return the results of the works, which are done in one transaction; messages of errors
        name the run.

        Raises:
            JournalError: nothing was written.
        """

    @staticmethod
    @abstractmethod
    def is_at_fault(error: JournalError) -> bool:
        """Return whether the store itself, and not one of the works, is the cause: a second try
        would not help.
        """

    @abstractmethod
    async def read(self, ask: TransactionWork[_T]) -> _T:
        """Return an answer of the store; it may be asked twice.

        Raises:
            JournalError: the store cannot be read.
        """

    @abstractmethod
    async def heartbeat(self) -> None:
        """Show that the owner of the held runs is alive."""

    @abstractmethod
    async def close(self) -> None:
        """Give up all runs and close; closing again does nothing."""


class StoredJournal(AsyncResource):
    """A journal that many runs and many processes may share, each run having one owner."""

    def __init__(
        self,
        store: EventStore,
        *,
        runner: Callable[[], AbstractContextManager[CoroutineRunner]] = asyncio.Runner,
    ) -> None:
        """Start the writer thread.

        Args:
            store: The tables.
            runner: Makes what runs the store's coroutines, on the thread.
        """
        self._store = store
        self._gathering: AppendBatch | None = None
        self._writer = WriterThread[AppendBatch | QueuedTransaction](
            "journal",
            store.place,
            WriterHandlers(self._write, self._reject, store.heartbeat, store.close),
            heartbeat_seconds=store.lease / 3,
            runner=runner,
        )

    # On the event loop

    def append(
        self, run: RunId, events: Sequence[Event], alongside: Alongside | None = None
    ) -> Awaitable[None]:
        """Write the events at the end of the run; what is returned is done once they are durable.

        What is given alongside is written in the same transaction, or neither is.

        Raises:
            JournalError: when awaited; at once for events that are not JSON and for a run with an
                earlier fault.
        """
        if (fault := self._store.faults.get(run)) is not None:
            raise fault
        self._writer.check_open()
        return self._append(append_entry(run, events, alongside))

    def _append(self, entry: AppendEntry) -> Awaitable[None]:
        batch = self._gathering
        if batch is None:
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
            self._writer.put(batch)

    def _resolve(self, batch: AppendBatch, faults: dict[RunId, JournalError]) -> None:
        """Resolve the futures of a batch that has been written."""
        for entry, future in zip(batch.entries, batch.waiting, strict=True):
            if (fault := faults.get(entry.run)) is None:
                set_result(future, None)
            else:
                set_exception(future, fault)

    async def open_run(self, run: RunId) -> None:
        """Become the run's one owner, new or to be resumed.

        Raises:
            RunBusy: another process, or this one, has it open.
        """
        heartbeat: int | None = None
        while (
            probe := await self.query(partial(self._store.claim, run, unmoved=heartbeat))
        ) is not None:
            if heartbeat is not None:
                raise self._store.busy_error(run, probe.lease)
            heartbeat = probe.lease.heartbeat
            await anyio.sleep(probe.lease.probe_seconds)

    async def close_run(self, run: RunId) -> None:
        """Write what is pending and release the run."""
        await self.query(partial(self._store.release, run))

    async def aclose(self) -> None:
        """Write what is pending, release all runs and close; closing again does nothing."""
        self._hand_over()
        await self._writer.aclose()

    def close(self) -> None:
        """Close without an event loop; what was handed over is written first."""
        self._writer.stop()

    async def query(self, answer: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Return what the call returns on the writer thread, after all that was appended before."""
        self._writer.check_open()
        self._hand_over()
        return await self._writer.query(answer)

    async def is_pooled(self) -> bool:
        """Whether a connection pooler is between this process and a database; a file has none.

        Raises:
            JournalError: the database cannot be reached.
        """
        return False

    async def check_writable(self) -> None:
        """Refuse a store that can only be read, for who will write to it and finds out before.

        Raises:
            JournalNotOpened: with the place and the fix.
            JournalError: the database cannot be reached.
        """

    async def read(self, ask: TransactionWork[_T]) -> _T:
        """Return an answer of the store, after all that was appended before; it may be asked twice.

        Raises:
            JournalError: the store cannot be read.
        """
        return await self.query(partial(self._store.read, ask))

    async def load(self, run: RunId) -> list[Event]:
        """Return the run's events in order.

        Raises:
            JournalDamaged: one is not what was written.
        """
        return await self.read(partial(run_queries.load, run=run))

    async def head(self, run: RunId) -> RunHead:
        """Return the head of the run's hash chain, after all that was appended before."""
        return await self.read(partial(run_queries.head, run=run))

    async def find_output(self, key: StepKey) -> StoredOutput | None:
        """Return the newest whole and unblocked output that any run journaled under the key."""
        return await self.read(partial(run_queries.find_output, key=key))

    async def list_runs(self) -> list[RunRow]:
        """Return all runs, the newest first."""
        return await self.read(run_queries.list_runs)

    async def list_achieved(
        self, job: str, origin: str, *, before: RunId | None = None, limit: int
    ) -> list[RunRow]:
        """Return the achieved runs of a job that were begun last, the newest first."""
        return await self.read(
            partial(run_queries.list_achieved, job=job, origin=origin, before=before, limit=limit)
        )

    async def list_retries(self, origin: RunId) -> list[RunRow]:
        """Return the runs that retry a run, directly or through others, the newest first."""
        return await self.read(partial(run_queries.list_retries, origin=origin))

    async def find_run(self, prefix: str) -> RunId:
        """Return the run whose id or tail starts so.

        Raises:
            RunNotFound: none does, or several do.
        """
        return await self.read(partial(run_queries.find_run, prefix=prefix))

    async def request_cancel(self, run: RunId, wanted: CancelRequest) -> None:
        """Keep the request to cancel a run for its owner; the first request stands.

        Raises:
            JournalError: nothing was written.
        """
        await self.transact(partial(run_queries.request_cancel, run=run, wanted=wanted))

    async def find_cancel_request(self, run: RunId) -> CancelRequest | None:
        """Return who has requested the cancellation of a run, if there is a request."""
        return await self.read(partial(run_queries.find_cancel_request, run=run))

    async def leave_answer(self, run: RunId, answer: LeftAnswer) -> None:
        """Keep an answer for the owner of a run; the first one to a question stands.

        Raises:
            JournalError: nothing was written.
        """
        await self.transact(partial(run_queries.leave_answer, run=run, answer=answer))

    async def find_left_answer(self, run: RunId, nonce: str) -> LeftAnswer | None:
        """Return the answer that was left to a question of a run, if there is one."""
        return await self.read(partial(run_queries.find_left_answer, run=run, nonce=nonce))

    async def transact(self, work: TransactionWork[_T], *, order: LockOrder = ANY_ORDER) -> _T:
        """Return what the work does in one transaction, after all that was appended before.

        What others want while the last transaction is written is done in the same one. The work may
        be repeated, when another one beside it failed; nothing of the first time is written then.

        Args:
            work: What to do.
            order: Of the work, among what others want.

        Raises:
            JournalError: it could not be written, or what the work itself raised; nothing was
                written.
        """
        self._writer.check_open()
        self._hand_over()
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[_T] = loop.create_future()
        self._writer.put(QueuedTransaction(work, loop, waiting, order))
        return await waiting

    # On the writer thread

    async def _write(self, commands: Sequence[AppendBatch | QueuedTransaction]) -> None:
        """Write what was appended and do the transactions, in one transaction but for those that
        are separate.

        No caller has the result of a transaction yet, so no event can depend on one, and the events
        come first.
        """
        batches = [command for command in commands if isinstance(command, AppendBatch)]
        queued = [command for command in commands if isinstance(command, QueuedTransaction)]
        separate = [command for command in queued if command.lock_order == SEPARATE]
        works = [command for command in queued if command.lock_order != SEPARATE]
        works.sort(key=attrgetter("lock_order"))
        entries = [entry for batch in batches for entry in batch.entries]
        done = None
        if entries and works:
            done = await self._store.write_and_execute(entries, works)
        faults, results = done or ({}, ())
        if done is None and entries:
            faults = await self._store.write(entries)
        for batch in batches:
            call_on_loop(batch.loop, self._resolve, batch, faults)
        fault_of_store = None
        if done is None:
            fault_of_store = await self._execute(works)
        else:
            for work, result in zip(works, results, strict=True):
                work.resolve(result)
        for work in separate:
            if fault_of_store is None:
                fault_of_store = await self._execute([work])
            else:
                work.reject(fault_of_store)

    async def _execute(self, works: Sequence[QueuedTransaction]) -> JournalError | None:
        """Do the works in one transaction, each by itself after they failed together; return a
        fault of the store.
        """
        if not works:
            return None
        try:
            results = await self._store.execute([queued.work for queued in works])
        except JournalError as error:
            is_at_fault = self._store.is_at_fault(error)
            if len(works) > 1 and not is_at_fault:
                for queued in works:
                    await self._execute([queued])
                return None
            for queued in works:
                queued.reject(error)
            return error if is_at_fault else None
        for queued, result in zip(works, results, strict=True):
            queued.resolve(result)
        return None

    def _reject(self, command: AppendBatch | QueuedTransaction, fault: JournalError) -> None:
        if isinstance(command, QueuedTransaction):
            command.reject(fault)
        else:
            call_on_loop(
                command.loop,
                self._resolve,
                command,
                {entry.run: fault for entry in command.entries},
            )
