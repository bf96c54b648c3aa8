"""The journal and the budget store in a PostgreSQL database, written beside the event loop.

Done means that the server has synced it. A server that is restarted meanwhile is waited for, and
whether a transaction was committed before its connection broke is asked, so that nothing is written
twice.

Every write names the *fence* under which this owner holds the run and is refused, in the same
transaction, once another owner has a higher one. What one run cannot write costs no other run
anything.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, Self, TypeVar

from asyncpg import exceptions as pg

from wavewright.config.sections import BudgetsSection
from wavewright.executor.budgets.stores import StoredBudgetStore
from wavewright.executor.postgres.append import AlongsideRefused, AppendTransaction
from wavewright.executor.postgres.driver import DRIVER_ERRORS, Connection, explain_use
from wavewright.executor.postgres.session import PATIENCE_SECONDS, PostgresSession
from wavewright.executor.postgres.transaction import (
    PostgresLeases,
    PostgresStatements,
    PostgresStoreTransaction,
)
from wavewright.executor.store.entries import AppendEntry
from wavewright.executor.store.errors import JournalError, JournalNotOpened, JournalUnreachable
from wavewright.executor.store.leases import LEASE_SECONDS, LeaseProbe, Owner, this_owner
from wavewright.executor.store.stored_journal import EventStore, StoredJournal
from wavewright.executor.store.transaction import (
    QueuedTransaction,
    Statements,
    StoreTransaction,
    TransactionWork,
)
from wavewright.planner import RunId
from wavewright.planner.ports.budgets import BudgetScope

_T = TypeVar("_T")

_MAX_TRIES: Final = 5
"""Times that a transaction is begun which meets another one that writes the same new row."""


class PostgresEventStore(EventStore):
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
            lease: Seconds for which an owner on another machine is believed without a heartbeat.
            patience: Seconds for which a database that was there and does not answer is waited for.
        """
        owner = owner or this_owner()
        self.session = PostgresSession(url, owner=owner, lease=lease, patience=patience)
        super().__init__(owner, self.session.place, lease)
        self.leases = PostgresLeases(self)

    async def close(self) -> None:
        self.held.clear()
        await self.session.close()

    # Owning runs

    async def claim(self, run: RunId, *, unmoved: int | None = None) -> LeaseProbe | None:
        self._begin_claim(run)
        try:
            session_no = await self.session.number()
            held = await self.session.transact(
                lambda connection, _: self.leases.acquire(
                    connection, run, session_no=session_no, unmoved=unmoved
                )
            )
        except DRIVER_ERRORS as error:
            raise self._explained(error, run) from error
        if isinstance(held, LeaseProbe):
            return held
        self.held[run] = held
        return None

    async def heartbeat(self) -> None:
        await self.session.heartbeat()

    # Writing

    async def write(self, entries: Sequence[AppendEntry]) -> dict[RunId, JournalError]:
        good = [entry for entry in entries if entry.run not in self.faults]
        for run in dict.fromkeys(entry.run for entry in good):
            if run not in self.held:
                await self._claim_at_append(run)
        good = [entry for entry in good if entry.run not in self.faults]
        try:
            if good:
                await self._write_at_once(good)
        except AlongsideRefused as refused:
            self.faults[refused.run] = refused.error
            return await self.write(entries)
        except JournalError as error:
            # The database is away: that will not be different for each run by itself.
            self.faults.update({entry.run: error for entry in good})
        except DRIVER_ERRORS as error:
            await self._write_apart(good, error)
        return {entry.run: self.faults[entry.run] for entry in entries if entry.run in self.faults}

    async def write_and_execute(
        self, entries: Sequence[AppendEntry], works: Sequence[QueuedTransaction]
    ) -> tuple[dict[RunId, JournalError], Sequence[object]] | None:
        if any(entry.run in self.faults or entry.run not in self.held for entry in entries):
            return None
        # A decision is locked before its job, and a work may have locked that already.
        if any(entry.alongside is not None and entry.alongside.locks for entry in entries):
            return None
        try:
            results = await self._write_at_once(entries, works)
        except (*DRIVER_ERRORS, AlongsideRefused, JournalError):
            return None
        return {
            entry.run: self.faults[entry.run] for entry in entries if entry.run in self.faults
        }, results

    async def execute(
        self, works: Sequence[TransactionWork[Any]], run: RunId | None = None
    ) -> Sequence[object]:
        async def work(
            connection: Connection, now: float
        ) -> tuple[PostgresStoreTransaction, Sequence[object]]:
            transaction = self.begin(connection, now)
            results = [await part(transaction) for part in works]
            await transaction.flush()
            return transaction, results

        tries = _MAX_TRIES if len(works) == 1 else 1
        while True:
            tries -= 1
            try:
                transaction, results = await self.session.transact(work)
            except pg.UniqueViolationError as error:
                if tries == 0:
                    raise self._explained(error, run) from error
            except DRIVER_ERRORS as error:
                raise self._explained(error, run) from error
            else:
                self._note_leases(transaction.acquired, transaction.released)
                return results

    @staticmethod
    def is_at_fault(error: JournalError) -> bool:
        return isinstance(error, JournalUnreachable)

    async def read(self, ask: TransactionWork[_T]) -> _T:
        try:
            return await self.session.read(lambda connection: ask(self.begin(connection, 0.0)))
        except DRIVER_ERRORS as error:
            raise self._explained(error) from error

    def begin(self, connection: Connection, now: float) -> PostgresStoreTransaction:
        """Return the store's view of a transaction that began then on a connection."""
        session_no = self.session.no
        return PostgresStoreTransaction(connection, self.leases, session_no=session_no, now=now)

    async def _claim_at_append(self, run: RunId) -> None:
        try:
            watch = await self.claim(run)
        except JournalError as error:
            self.faults[run] = error
        else:
            if watch is not None:
                self.faults[run] = self.busy_error(run, watch.lease)

    def _explained(self, error: Exception, run: RunId | None = None) -> JournalError:
        return explain_use(error, self.place, run)

    async def _write_at_once(
        self, entries: Sequence[AppendEntry], works: Sequence[QueuedTransaction] = ()
    ) -> Sequence[object]:
        """Write the entries and do the works in one transaction; return the results of the works."""
        leases = {entry.run: self.held[entry.run] for entry in entries}
        append = AppendTransaction.from_entries(entries, leases, self.begin, works)
        held = await self.session.commit_once(append.execute, append.find_committed)
        append.mark_committed()
        results: Sequence[object] = ()
        if append.attempts:
            transaction, results = append.attempts[-1]
            self._note_leases(transaction.acquired, transaction.released)
        await self._note_lost(run for run, lease in leases.items() if lease.no not in held)
        return results

    async def _note_lost(self, runs: Iterable[RunId]) -> None:
        for run in runs:
            self.faults[run] = await self.session.read(partial(self.leases.lost_error, run=run))


class PostgresJournal(StoredJournal):
    """A journal in a database; many runs and many machines may share it, each run having one owner."""

    def __init__(
        self, url: str, *, lease: float = LEASE_SECONDS, patience: float = PATIENCE_SECONDS
    ) -> None:
        """Connect as soon as it is entered, or at the first call.

        Args:
            url: The database's address, `postgresql://user:password@host:port/database`.
            lease: Seconds for which an owner on another machine is believed without a heartbeat.
            patience: Seconds for which a database that was there and does not answer is waited for.
        """
        self.store = PostgresEventStore(url, lease=lease, patience=patience)
        self.place = self.store.place
        """The address as it may be shown."""
        super().__init__(self.store)

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            JournalError: the database cannot be used, with the fix.
        """
        try:
            await self.read(_ask_nothing)
        except BaseException:
            self.close()
            raise
        return self

    async def is_pooled(self) -> bool:
        """Whether a pooler is between this process and the database.

        Raises:
            JournalError: the database cannot be reached.
        """

        async def ask(transaction: StoreTransaction) -> bool:
            assert isinstance(transaction, PostgresStatements)
            return transaction.is_pooled

        return await self.read(ask)

    async def check_writable(self) -> None:
        """Refuse a standby, and a database whose transactions are read-only.

        Raises:
            JournalNotOpened: it is one.
            JournalError: the database cannot be reached.
        """

        async def ask(transaction: StoreTransaction) -> bool:
            row = await transaction.fetch_one(_IS_READ_ONLY)
            return row is not None and bool(row[0])

        if await self.read(ask):
            raise JournalNotOpened(
                "the database is read-only",
                place=self.place,
                hint="name the primary server: a standby takes no events",
            )


_IS_READ_ONLY: Final = """
    SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on'"""


async def _ask_nothing(_: StoreTransaction) -> None:
    """Need nothing but a connection."""


class PostgresBudgetDatabase:
    """The journal's database, open for the budget store."""

    def __init__(self, url: str, *, patience: float = PATIENCE_SECONDS) -> None:
        """Connect at the first call of anything here.

        Args:
            url: The database's address.
            patience: Seconds for which a database that was there and does not answer is waited for.
        """
        self._session = PostgresSession(url, owner=this_owner(), patience=patience)
        self.place = self._session.place
        self.heartbeat = self._session.heartbeat
        self.close = self._session.close

    async def transact(self, work: Callable[[Statements], Awaitable[_T]]) -> _T:
        """Do all of the work in one transaction, or nothing, and never twice."""
        try:
            return await self._session.transact(
                lambda connection, _: work(PostgresStatements(connection))
            )
        except DRIVER_ERRORS as error:
            raise explain_use(error, self.place) from error

    async def read(self, ask: Callable[[Statements], Awaitable[_T]]) -> _T:
        """Return an answer of the database; it may be asked twice."""
        try:
            return await self._session.read(lambda connection: ask(PostgresStatements(connection)))
        except DRIVER_ERRORS as error:
            raise explain_use(error, self.place) from error


class PostgresBudgetStore(StoredBudgetStore):
    """A budget store in the journal's database."""

    def __init__(
        self,
        url: str,
        budgets: BudgetsSection | None = None,
        clock: Callable[[], float] = time.time,
        *,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        """Connect as soon as it is entered, or at the first call.

        Args:
            url: The database's address.
            budgets: The configured budgets; none where absent.
            clock: Seconds since the epoch.
            patience: Seconds for which a database that was there and does not answer is waited for.
        """
        database = PostgresBudgetDatabase(url, patience=patience)
        self.place = database.place
        """The address as it may be shown."""
        super().__init__(database, budgets, clock)

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            JournalError: the database cannot be used, with the fix.
        """
        try:
            await self.left(BudgetScope())
        except BaseException:
            self.close()
            raise
        return self
