"""The budget store in the journal's database."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Self, TypeVar

from wavewright.config.sections import BudgetsSection
from wavewright.executor.budgets.stores import StoredBudgetStore
from wavewright.executor.postgres.driver import DRIVER_ERRORS, explain_use
from wavewright.executor.postgres.session import PATIENCE_SECONDS, PostgresSession
from wavewright.executor.postgres.transaction import PostgresStatements
from wavewright.executor.store.leases import this_owner
from wavewright.executor.store.transaction import Statements
from wavewright.planner.ports.budgets import BudgetScope

_T = TypeVar("_T")


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
            return await self._session.transact(lambda connection, _: work(PostgresStatements(connection)))
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
