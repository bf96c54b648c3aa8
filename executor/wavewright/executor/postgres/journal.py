"""The journal in a PostgreSQL database, written beside the event loop.

All appends of one tick of the loop are one transaction, and all ticks that pass while one is being written are the
next, as in a file, together with what others wished for meanwhile. Done means that the server has synced it. A server
that is restarted meanwhile is waited for, and what may have been written before is asked for, never written twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

import anyio

from wavewright.executor.events.types import Event
from wavewright.executor.postgres import run_rows as reader
from wavewright.executor.postgres.driver import Connection
from wavewright.executor.postgres.event_store import PostgresEventStore
from wavewright.executor.postgres.session import PATIENCE_SECONDS, TransactionWork
from wavewright.executor.postgres.writer import (
    ANY_ORDER,
    LockOrder,
    QueuedTransaction,
    WriterHandlers,
    WriterThread,
    execute_transactions,
    queued_transaction,
    reject,
)
from wavewright.executor.store.commands import AppendBatch, append_entry, call_on_loop, resolve_batch
from wavewright.executor.store.errors import JournalError
from wavewright.executor.store.job_records import OutboxWrites
from wavewright.executor.store.journal import RunRow, StoredOutput
from wavewright.executor.store.leases import LEASE_SECONDS
from wavewright.planner.types import RunId, StepKey

_T = TypeVar("_T")


def _discard(_: object) -> None:
    """Do nothing with it."""


class PostgresJournal:
    """A journal in a database; many runs and many machines may share it, each run having one owner."""

    def __init__(self, url: str, *, lease: float = LEASE_SECONDS, patience: float = PATIENCE_SECONDS) -> None:
        """Connect as soon as it is entered, or at the first call.

        Args:
            url: The database's address, `postgresql://user:password@host:port/database`.
            lease: Seconds for which an owner on another machine is believed without a beat.
            patience: Seconds for which a database that was there and does not answer is waited for.
        """
        self.store = PostgresEventStore(url, lease=lease, patience=patience)
        self.place = self.store.place
        """The address as it may be shown."""
        self._gathering: AppendBatch | None = None
        self._writer = WriterThread[AppendBatch | QueuedTransaction](
            "journal",
            self.place,
            WriterHandlers(self._run_commands, _reject, self.store.session.heartbeat, self.store.close),
            pause=lease / 3,
        )

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            JournalError: the database cannot be used, with the mend.
        """
        try:
            await self.read(_ask_nothing)
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def append(
        self, run: RunId, events: Sequence[Event], alongside: OutboxWrites | None = None
    ) -> Awaitable[None]:
        """Write the events at the end of the run; what is returned is done once the server has synced them.

        What is given alongside is written in the same transaction, or neither is.

        Raises:
            JournalError: when awaited; at once for events that are not JSON and for a run with an earlier fault.
        """
        if (fault := self.store.faults.get(run)) is not None:
            raise fault
        self._writer.check_open()
        entry = append_entry(run, events, alongside)
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

    async def open_run(self, run: RunId) -> None:
        """Become the run's one owner, new or to be resumed.

        Raises:
            RunBusy: another process, or this one, has it open.
        """
        beat: int | None = None
        while (watch := await self.query(partial(self.store.claim, run, unmoved=beat))) is not None:
            if beat is not None:
                raise self.store.leases.busy_error(run, watch.lease)
            beat = watch.lease.heartbeat
            await anyio.sleep(watch.lease.probe_seconds)

    async def close_run(self, run: RunId) -> None:
        """Write what is pending and give the run up."""
        await self.query(lambda: self.store.release(run))

    async def load(self, run: RunId) -> list[Event]:
        """Return the run's events in order.

        Raises:
            JournalDamaged: one is not what was written.
        """

        async def load() -> list[Event]:
            held = self.store.held_lease(run)
            # A run that is held here changes here only; of a new one there is nothing to ask for.
            if held is not None and held.seq == 0:
                return []
            return await self.store.session.read(lambda connection: reader.load(connection, run, self.place))

        return await self.query(load)

    async def find_output(self, key: StepKey) -> StoredOutput | None:
        """Return the newest whole and unblocked output that any run journaled under the key."""
        return await self.read(lambda connection: reader.find_output(connection, key, self.place))

    async def list_runs(self) -> list[RunRow]:
        """Return all runs, the newest first."""
        return await self.read(lambda connection: reader.list_runs(connection, self.store.pid_namespace))

    async def find_run(self, prefix: str) -> RunId:
        """Return the run whose id or tail starts so."""
        return await self.read(lambda connection: reader.find_run(connection, prefix, self.place))

    async def aclose(self) -> None:
        """Write what is pending, give up all runs and close; closing again does nothing."""
        self._hand_over()
        await self._writer.aclose()

    def close(self) -> None:
        """Close without an event loop; what was handed over is written first."""
        self._writer.stop()

    async def query(self, answer: Callable[[], Awaitable[_T]]) -> _T:
        """Return what the journal's thread gets for the call, after all that was appended before."""
        self._writer.check_open()
        self._hand_over()
        return await self._writer.query(answer)

    async def transact(
        self,
        work: TransactionWork[_T],
        after: Callable[[_T], None] = _discard,
        *,
        place: LockOrder = ANY_ORDER,
    ) -> _T:
        """Return what the work does in a transaction, after all that was appended before.

        What others want while the last transaction is written is done in the same one.

        Args:
            work: Perhaps called twice, the first time in vain.
            after: Called with what it brought, on the journal's thread, once that is committed.
            place: Of what is done, among what others want.

        Raises:
            JournalError: it could not be written, or what the work itself raised; nothing was written.
        """
        self._writer.check_open()
        self._hand_over()
        order, waiting = queued_transaction(work, after, place)
        self._writer.put(order)
        return await waiting

    async def read(self, ask: Callable[[Connection], Awaitable[_T]]) -> _T:
        """Return an answer of the database, after all that was appended before; it may be asked twice.

        Raises:
            JournalError: the database cannot be read.
        """
        return await self.query(lambda: self.store.session.read(ask))

    def _hand_over(self) -> None:
        batch, self._gathering = self._gathering, None
        if batch is not None:
            self._writer.put(batch)

    async def _run_commands(self, orders: Sequence[AppendBatch | QueuedTransaction]) -> None:
        """Write what was appended and grant what was wished, in one transaction if that can be.

        Nobody has an answer to a wish yet, so no event can rest on one, and the events come first.
        """
        batches = [order for order in orders if isinstance(order, AppendBatch)]
        wishes = [order for order in orders if isinstance(order, QueuedTransaction)]
        entries = [entry for batch in batches for entry in batch.entries]
        faults = await self.store.write_and_execute(entries, wishes) if entries and wishes else None
        is_done = faults is not None
        if faults is None:
            faults = await self.store.write(entries)
        for batch in batches:
            call_on_loop(batch.loop, resolve_batch, batch, faults)
        if not is_done:
            await execute_transactions(self.store.session, wishes)


def _reject(order: AppendBatch | QueuedTransaction, fault: JournalError) -> None:
    if isinstance(order, QueuedTransaction):
        reject(order, fault)
        return
    batch = order
    call_on_loop(batch.loop, resolve_batch, batch, {entry.run: fault for entry in batch.entries})


async def _ask_nothing(_: Connection) -> None:
    """Ask for nothing but a connection."""
