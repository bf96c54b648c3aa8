"""An owner's session: one connection at a time, reconnected when it breaks, and no transaction
committed twice.

A *transaction id* counts the transactions of a session and is written in the transaction itself.
When a connection breaks during a commit, the session's row says whether the transaction was
committed; it is repeated only if not. A late request on an abandoned connection finds its
transaction id taken and changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import astuple
from typing import Final, TypeVar

import anyio

from wavewright.config import WavewrightError
from wavewright.executor.postgres.driver import (
    DRIVER_ERRORS,
    Connection,
    PostgresTransaction,
    connect,
    display_url,
    explain_opening,
    is_conflict,
    is_connection_lost,
    is_pooled,
    unreachable_error,
)
from wavewright.executor.postgres.schema import prepare_schema
from wavewright.executor.store.errors import JournalError, JournalNotWritten
from wavewright.executor.store.leases import LEASE_SECONDS, Owner

_T = TypeVar("_T")
PATIENCE_SECONDS: Final = 30.0
"""Seconds for which a database that was there and does not answer is waited for."""
_ANSWER_SECONDS: Final = 15.0
"""Within which a statement is answered, or the connection is taken for broken."""
_CONNECT_SECONDS: Final = 10.0
_MAX_PAUSE_SECONDS: Final = 1.0

# What the server or the user's settings may say otherwise. Reported means durable, so `off` is not
# obeyed; what a broken connection leaves behind must not keep rows locked for long.
_SETTINGS: Final = """
    SET search_path TO wavewright, pg_catalog;
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
    SET default_transaction_isolation TO 'read committed';
    SET lock_timeout TO '10s';
    SET idle_in_transaction_session_timeout TO '5s';
"""
_OPEN: Final = """
    INSERT INTO session (token, host, pid, process_start, pid_namespace, heartbeat_at, lease)
    VALUES ($1, $2, $3, $4, $5, clock_seconds(), $6)
    ON CONFLICT (token) DO UPDATE SET heartbeat_at = excluded.heartbeat_at RETURNING no"""
_SWEEP: Final = """
    DELETE FROM session
    WHERE heartbeat_at < clock_seconds() - 604800 AND NOT EXISTS (SELECT FROM run WHERE run.owner = session.no)"""
_TAKE_TRANSACTION_ID: Final = """
    UPDATE session SET transaction_id = $2, heartbeat = heartbeat + 1, heartbeat_at = clock_seconds()
    WHERE no = $1 AND transaction_id < $2
    RETURNING clock_seconds()"""
_HEARTBEAT: Final = (
    "UPDATE session SET heartbeat = heartbeat + 1, heartbeat_at = clock_seconds() WHERE no = $1"
)


class AlreadyCommitted(WavewrightError):
    """The transaction with this id was committed already, over a connection that broke."""


class PostgresSession:
    """The connection of one owner; used from one thread."""

    def __init__(
        self,
        url: str,
        *,
        owner: Owner,
        lease: float = LEASE_SECONDS,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        """Connect at the first call of anything here.

        Args:
            url: The database's address.
            owner: The session's owner.
            lease: Seconds for which an owner on another machine is believed without a heartbeat.
            patience: Seconds for which a database that was there and does not answer is waited for.
        """
        self.place = display_url(url)
        self.owner = owner
        self._url = url
        self._lease = lease
        self._patience = patience
        self._connection: Connection | None = None
        self._was_open = False
        self.no: int | None = None
        """The number of this owner's row, once it has something to write."""
        self._transaction_id = 0
        """The latest that was begun; never used again, whatever became of it."""

    async def read(self, ask: Callable[[Connection], Awaitable[_T]]) -> _T:
        """Return an answer of the database; asked again where the connection breaks.

        Raises:
            JournalError: the database cannot be reached.
        """
        return await self._retry(ask)

    async def commit_once(
        self,
        attempt: Callable[[Connection, int, int], Awaitable[_T]],
        recall: Callable[[Connection], Awaitable[_T]],
    ) -> _T:
        """Commit one transaction exactly once, also where the connection breaks meanwhile.

        Args:
            attempt: Makes it, given the connection, the session's number and the transaction id,
                which its first statement writes. Raises `AlreadyCommitted` if that id is taken.
            recall: Returns the result of an attempt that is known to be committed.

        Raises:
            JournalError: the database cannot be reached.
        """
        self._transaction_id += 1
        transaction_id = self._transaction_id
        was_tried = False

        async def try_once(connection: Connection) -> _T:
            nonlocal was_tried
            session_no = await self._registered(connection)
            if was_tried and await self._is_committed(connection, session_no, transaction_id):
                return await recall(connection)
            was_tried = True
            return await attempt(connection, session_no, transaction_id)

        while True:
            with suppress(AlreadyCommitted):
                return await self._retry(try_once)

    async def transact(self, work: Callable[[Connection, float], Awaitable[_T]]) -> _T:
        """Do the work in one transaction, exactly once; rolled back where it raises.

        Args:
            work: Given the connection and when the transaction began.

        Raises:
            JournalError: the database cannot be reached.
        """
        results = list[_T]()

        async def attempt(connection: Connection, session_no: int, transaction_id: int) -> _T:
            async with PostgresTransaction(connection):
                now = await connection.fetchval(_TAKE_TRANSACTION_ID, session_no, transaction_id)
                if now is None:
                    raise AlreadyCommitted
                results.append(await work(connection, now))
            return results[-1]

        async def recall(_: Connection) -> _T:
            return results[-1]

        return await self.commit_once(attempt, recall)

    async def number(self) -> int:
        """Return the number of the session's row."""
        return await self._retry(self._registered)

    async def heartbeat(self) -> None:
        """Renew the heartbeat. One that cannot be written is left out."""
        if self.no is None:
            return
        with suppress(*DRIVER_ERRORS, JournalError):
            connection = await self._connected()
            await connection.execute(_HEARTBEAT, self.no)

    async def close(self) -> None:
        """Release all runs and close; nothing is released where the database cannot be reached."""
        with suppress(*DRIVER_ERRORS):
            connection = self._connection
            if connection is not None and not connection.is_closed() and self.no is not None:
                async with PostgresTransaction(connection):
                    await connection.execute(
                        "UPDATE run SET owner = NULL WHERE owner = $1", self.no
                    )
                    await connection.execute("DELETE FROM session WHERE no = $1", self.no)
        self.no = None
        with suppress(*DRIVER_ERRORS):
            if self._connection is not None:
                await self._connection.close(timeout=2.0)
        self._drop()

    async def _retry(self, ask: Callable[[Connection], Awaitable[_T]]) -> _T:
        """Repeat over new connections while only the connection is at fault, for `patience` seconds
        at most.
        """
        deadline = anyio.current_time() + self._patience
        pause = 0.02
        while True:
            try:
                return await ask(await self._connected())
            except DRIVER_ERRORS as error:
                is_over = anyio.current_time() >= deadline
                if is_conflict(error) and not is_over:
                    continue
                if not self._is_broken(error):
                    raise
                self._drop()
                # Only a server that was reached before is waited for.
                if not self._was_open or is_over:
                    raise unreachable_error(error, self.place) from error
            await anyio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)

    def _is_broken(self, error: Exception) -> bool:
        return is_connection_lost(error) or (
            self._connection is not None and self._connection.is_closed()
        )

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._connect()
        return self._connection

    async def _connect(self) -> Connection:
        connection: Connection | None = None
        is_ready = False
        try:
            connection = await connect(
                self._url, seconds=_CONNECT_SECONDS, answer_seconds=_ANSWER_SECONDS
            )
            self._was_open = True
            # What is set for a session would be found by others there.
            if not is_pooled(connection):
                await connection.execute(_SETTINGS)
            await prepare_schema(connection, self.place)
            is_ready = True
            return connection
        except (*DRIVER_ERRORS, ValueError, JournalError) as error:
            if isinstance(error, DRIVER_ERRORS) and is_connection_lost(error):
                raise
            raise explain_opening(error, self.place) from error
        finally:
            if connection is not None and not is_ready:
                connection.terminate()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def _registered(self, connection: Connection) -> int:
        if self.no is None:
            await connection.execute(_SWEEP)
            self.no = int(await connection.fetchval(_OPEN, *astuple(self.owner), self._lease))
        return self.no

    async def _is_committed(
        self, connection: Connection, session_no: int, transaction_id: int
    ) -> bool:
        seen = await connection.fetchval(
            "SELECT transaction_id FROM session WHERE no = $1", session_no
        )
        if seen is None:
            raise self._session_lost()
        return int(seen) >= transaction_id

    def _session_lost(self) -> JournalNotWritten:
        return JournalNotWritten(
            "the database was replaced or restored while it was open",
            place=self.place,
            hint="resume the run; what the database has of it is read anew",
        )
