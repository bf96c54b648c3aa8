"""The journal in a PostgreSQL database, written beside the event loop.

Done means that the server has synced it. A server that is restarted meanwhile is waited for, and whether a transaction
was committed before its connection broke is asked, so that nothing is written twice.
"""

from __future__ import annotations

from typing import Self

from wavewright.executor.postgres.event_store import PostgresEventStore
from wavewright.executor.postgres.session import PATIENCE_SECONDS
from wavewright.executor.store.leases import LEASE_SECONDS
from wavewright.executor.store.stored_journal import StoredJournal
from wavewright.executor.store.transaction import StoreTransaction


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
            await self.read(_ask_nothing)
        except BaseException:
            self.close()
            raise
        return self


async def _ask_nothing(_: StoreTransaction) -> None:
    """Need nothing but a connection."""
