"""The connection over which a worker uses the queue; one that breaks is replaced by a new one.

PgQueuer would end with its connection. The calls under way would go on without heartbeats, so others would take them
for lost and make them a second time.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver, Relay

from wavewright.executor.fleet.tables import connect
from wavewright.executor.postgres.driver import DRIVER_ERRORS, is_conflict, is_connection_lost

if TYPE_CHECKING:
    from pgqueuer.ports.driver import NotifyCallback

    from wavewright.executor.postgres.driver import Connection

_T = TypeVar("_T")
_RECONNECT_SECONDS: Final = 1.0


class QueueDriver(AsyncpgDriver):
    """Executes the queue's statements, each one again where its connection broke.

    After an outage in which heartbeats were missed, no calls are taken for as long as a heartbeat is waited for: the
    other workers' heartbeats are late as well, and their calls are not lost.
    """

    def __init__(self, connection: Connection, url: str, heartbeat: float) -> None:
        super().__init__(connection)
        self._url = url
        self._heartbeat = heartbeat
        self._listeners: list[tuple[str, NotifyCallback]] = []
        self._takes_from = 0.0
        """When calls may be taken, on the event loop's clock."""

    async def fetch(self, query: str, *args: object) -> list[dict[str, object]]:
        """Return the rows of a statement; those that take calls come by this way."""
        await anyio.sleep_until(self._takes_from)
        return [dict(row) for row in await self._execute(lambda connection: connection.fetch(query, *args))]

    async def execute(self, query: str, *args: object) -> str:
        """Execute a statement, among them heartbeats and the ends of calls."""
        return await self._execute(lambda connection: connection.execute(query, *args))

    async def notify(self, channel: str, payload: str) -> None:
        """Send a notice."""
        await self.execute("SELECT pg_notify($1, $2)", channel, payload)

    async def add_listener(self, channel: str, callback: NotifyCallback) -> None:
        """Listen to a channel, over each later connection too."""
        await self._execute(lambda connection: connection.add_listener(channel, Relay(callback)))
        self._listeners.append((channel, callback))

    def terminate(self) -> None:
        """Close the connection at once."""
        self._connection.terminate()

    async def _execute(self, work: Callable[[Connection], Awaitable[_T]]) -> _T:
        async with self._lock:
            while True:
                try:
                    return await work(self._connection)
                except DRIVER_ERRORS as error:
                    if self._connection.is_closed() or is_connection_lost(error):
                        await self._reconnect()
                    elif not is_conflict(error):
                        raise

    async def _reconnect(self) -> None:
        broke = anyio.current_time()
        self._connection.terminate()
        while self._connection.is_closed():
            with suppress(*DRIVER_ERRORS):
                connection = await connect(self._url)
                for channel, callback in self._listeners:
                    await connection.add_listener(channel, Relay(callback))
                self._connection = connection
                break
            await anyio.sleep(_RECONNECT_SECONDS)
        back = anyio.current_time()
        # PgQueuer's heartbeats are up to seven eighths of the limit apart.
        if back - broke > self._heartbeat / 8:
            self._takes_from = back + self._heartbeat


@asynccontextmanager
async def open_queue_driver(url: str, heartbeat: float) -> AsyncGenerator[QueueDriver]:
    """Connect to the queue of a fleet, for a worker that is dead after `heartbeat` seconds without one.

    Raises:
        OSError | asyncpg.PostgresError: the database cannot be reached now.
    """
    driver = QueueDriver(await connect(url), url, heartbeat)
    try:
        yield driver
    finally:
        driver.terminate()
