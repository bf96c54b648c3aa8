"""All that is said to the journal's tables, one call at a time.

Every write names the *fence* under which this owner holds the run and is refused, in the same transaction, once
another owner has a higher one. What one run cannot write costs no other run anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from wavewright.executor.postgres.append import AppendTransaction, OutboxRowsRefused
from wavewright.executor.postgres.driver import DRIVER_ERRORS, Connection, explain_use
from wavewright.executor.postgres.run_rows import PostgresLeases
from wavewright.executor.postgres.session import PATIENCE_SECONDS, PostgresSession
from wavewright.executor.postgres.writer import QueuedTransaction, job_lock_order, reject, resolve
from wavewright.executor.store.commands import AppendEntry
from wavewright.executor.store.errors import JournalError, JournalUnreachable, RunLost
from wavewright.executor.store.leases import (
    LEASE_SECONDS,
    HeldLease,
    LeaseProbe,
    Owner,
    run_busy_here_error,
    this_owner,
)
from wavewright.planner.types import RunId


class PostgresEventStore:
    """The journal's tables, open to one owner."""

    def __init__(
        self,
        url: str,
        *,
        owner: Owner | None = None,
        lease: float = LEASE_SECONDS,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        """Connect at the first call of anything here.

        Args:
            url: The database's address.
            owner: Who opens it; this process where not given.
            lease: Seconds for which an owner on another machine is believed without a beat.
            patience: Seconds for which a database that was there and does not answer is waited for.
        """
        owner = owner or this_owner()
        self.lease = lease
        self.session = PostgresSession(url, owner=owner, lease=lease, patience=patience)
        self.place = self.session.place
        self.pid_namespace = owner.pid_namespace
        self.leases = PostgresLeases(owner, self.place)
        self.faults = dict[RunId, JournalError]()
        """Runs to which nothing more is written here, and why, until they are opened again."""
        self._held = dict[RunId, HeldLease]()

    async def close(self) -> None:
        """Give up all runs and close; closing again does nothing."""
        self._held.clear()
        await self.session.close()

    # Owning runs

    async def claim(self, run: RunId, *, unmoved: int | None = None) -> LeaseProbe | None:
        """Become the run's owner; or return how long to watch its present one first.

        Args:
            run: The run, new or known.
            unmoved: The beat of a watch that is over.

        Raises:
            RunBusy: its owner lives.
        """
        if run in self._held and run not in self.faults:
            raise run_busy_here_error(run, place=self.place)
        self._held.pop(run, None)
        self.faults.pop(run, None)
        try:
            opening = await self.session.number()
            held = await self.session.transact(
                lambda connection, _: self.leases.acquire(connection, run, opening=opening, unmoved=unmoved)
            )
        except DRIVER_ERRORS as error:
            raise explain_use(error, self.place, run) from error
        if isinstance(held, LeaseProbe):
            return held
        self._held[run] = held
        return None

    def note_acquired(self, run: RunId, held: HeldLease) -> None:
        """Take note of a run that was claimed in another transaction of this session."""
        self.faults.pop(run, None)
        self._held[run] = held

    def note_released(self, run: RunId) -> None:
        """Take note of a run that was given up in another transaction of this session."""
        self._held.pop(run, None)

    async def check(self, connection: Connection, run: RunId, *, despite_faults: bool = False) -> None:
        """Return, in a transaction, where the run is held here and all that was appended to it is written.

        Args:
            connection: Within a transaction.
            run: The run.
            despite_faults: Whether it does not matter that something could not be written.

        Raises:
            RunLost: it is not held, or another owner came.
            JournalError: something could not be written.
        """
        fault = self.faults.get(run)
        if isinstance(fault, RunLost) or (fault is not None and not despite_faults):
            raise fault
        held = self._held.get(run)
        if held is None:
            raise RunLost(f"run {run} is not open here", place=self.place, hint="open it first")
        await self.leases.check(connection, run, held)

    def held_lease(self, run: RunId, *, despite_faults: bool = False) -> HeldLease | None:
        """Return how a run is held here, if it is, and if all that was appended to it is written."""
        return None if run in self.faults and not despite_faults else self._held.get(run)

    async def release(self, run: RunId) -> None:
        """Give the run up; nothing where it is not held."""
        held = self._held.pop(run, None)
        self.faults.pop(run, None)
        if held is None:
            return
        try:
            await self.session.transact(lambda connection, _: self.leases.release(connection, held))
        except DRIVER_ERRORS as error:
            raise explain_use(error, self.place, run) from error

    # Writing

    async def write(self, entries: Sequence[AppendEntry]) -> dict[RunId, JournalError]:
        """Write the entries in one transaction and return, run by run, what could not be written and why.

        Nothing more is written to a run that is returned, until it is claimed again.
        """
        good = [entry for entry in entries if entry.run not in self.faults]
        for run in dict.fromkeys(entry.run for entry in good):
            if run not in self._held:
                await self._claim_at_append(run)
        good = [entry for entry in good if entry.run not in self.faults]
        try:
            if good:
                await self._write_at_once(good)
        except OutboxRowsRefused as refused:
            self.faults[refused.run] = refused.error
            return await self.write(entries)
        except JournalError as error:
            # The database is away: that will not be different for each run by itself.
            self.faults.update({entry.run: error for entry in good})
        except DRIVER_ERRORS as error:
            await self._write_apart(good, error)
        return {entry.run: self.faults[entry.run] for entry in entries if entry.run in self.faults}

    async def write_and_execute(
        self, entries: Sequence[AppendEntry], wishes: Sequence[QueuedTransaction]
    ) -> dict[RunId, JournalError] | None:
        """Write the entries and grant the wishes in one transaction; return the faults as `write` does.

        None where nothing was done: something of it is at fault and the rest need not be, or they do not go together.
        """
        if any(entry.run in self.faults or entry.run not in self._held for entry in entries):
            return None
        # A decision is locked before its job, and a wish may have locked that already.
        if any(entry.outbox_rows is not None and entry.outbox_rows.decisions for entry in entries):
            return None
        # Nor is it known beforehand which job an answer locks: it would come before those that are locked in order.
        if any(wish.lock_order == job_lock_order(None) for wish in wishes):
            return None
        try:
            answers = await self._write_at_once(entries, wishes)
        except JournalUnreachable as error:
            self.faults.update({entry.run: error for entry in entries})
            for wish in wishes:
                reject(wish, error)
        except (*DRIVER_ERRORS, OutboxRowsRefused, JournalError):
            return None
        else:
            for number, wish in enumerate(wishes):
                resolve(wish, answers[number])
        return {entry.run: self.faults[entry.run] for entry in entries if entry.run in self.faults}

    async def _claim_at_append(self, run: RunId) -> None:
        try:
            watch = await self.claim(run)
        except JournalError as error:
            self.faults[run] = error
        else:
            if watch is not None:
                self.faults[run] = self.leases.busy_error(run, watch.lease)

    async def _write_apart(self, entries: Sequence[AppendEntry], error: Exception) -> None:
        """Write each run's entries by themselves after they failed together; note the fault of a lone run."""
        runs = dict.fromkeys(entry.run for entry in entries)
        if len(runs) > 1:
            for run in runs:
                await self.write([entry for entry in entries if entry.run == run])
            return
        (run,) = runs
        self.faults[run] = explain_use(error, self.place, run)

    async def _write_at_once(
        self, entries: Sequence[AppendEntry], wishes: Sequence[QueuedTransaction] = ()
    ) -> Mapping[int, object]:
        """Write the entries and grant the wishes in one transaction; return what each wish brought, by its place."""
        holds = {entry.run: self._held[entry.run] for entry in entries}
        append = AppendTransaction.from_entries(entries, holds, self.check, wishes)
        there = await self.session.commit_once(append.execute, append.find_committed)
        append.mark_committed()
        for run in append.released:
            self._held.pop(run, None)
        await self._note_lost(run for run, hold in holds.items() if hold.no not in there)
        return append.results

    async def _note_lost(self, runs: Iterable[RunId]) -> None:
        for run in runs:
            self.faults[run] = await self.session.read(partial(self.leases.lost_error, run=run))
