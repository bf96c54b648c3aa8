"""The journal in a PostgreSQL database, written beside the event loop.

Done means that the server has synced it. A server that is restarted meanwhile is waited for, and what may have been
written before is asked for, never written twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Self, TypeVar

from wavewright.executor.events.types import Event
from wavewright.executor.postgres import run_rows as reader
from wavewright.executor.postgres.driver import DRIVER_ERRORS, Connection, explain_use
from wavewright.executor.postgres.event_store import PostgresEventStore
from wavewright.executor.postgres.session import PATIENCE_SECONDS
from wavewright.executor.store.journal import RunRow, StoredOutput
from wavewright.executor.store.leases import LEASE_SECONDS
from wavewright.executor.store.stored_journal import StoredJournal
from wavewright.planner.types import RunId, StepKey

_T = TypeVar("_T")


class PostgresJournal(StoredJournal):
    """A journal in a database; many runs and many machines may share it, each run having one owner."""

    def __init__(self, url: str, *, lease: float = LEASE_SECONDS, patience: float = PATIENCE_SECONDS) -> None:
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
            await self._ask(_ask_nothing)
        except BaseException:
            self.close()
            raise
        return self

    async def load(self, run: RunId) -> list[Event]:
        """Return the run's events in order.

        Raises:
            JournalDamaged: one is not what was written.
        """

        async def load(connection: Connection) -> list[Event]:
            held = self.store.held_lease(run)
            # A run that is held here changes here only; of a new one there is nothing to ask for.
            if held is not None and held.seq == 0:
                return []
            return await reader.load(connection, run, self.place)

        return await self._ask(load)

    async def find_output(self, key: StepKey) -> StoredOutput | None:
        """Return the newest whole and unblocked output that any run journaled under the key."""
        return await self._ask(lambda connection: reader.find_output(connection, key, self.place))

    async def list_runs(self) -> list[RunRow]:
        """Return all runs, the newest first."""
        return await self._ask(lambda connection: reader.list_runs(connection, self.store.pid_namespace))

    async def find_run(self, prefix: str) -> RunId:
        """Return the run whose id or tail starts so."""
        return await self._ask(lambda connection: reader.find_run(connection, prefix, self.place))

    async def _ask(self, question: Callable[[Connection], Awaitable[_T]]) -> _T:
        async def explained() -> _T:
            try:
                return await self.store.session.read(question)
            except DRIVER_ERRORS as error:
                raise explain_use(error, self.place) from error

        return await self.query(explained)


async def _ask_nothing(_: Connection) -> None:
    """Ask for nothing but a connection."""
