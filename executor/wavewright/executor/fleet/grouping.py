"""Writes to the database of the fleet: they wait for one that is away, and what comes meanwhile is grouped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Generic, TypeVar

import anyio

from wavewright.executor.postgres.driver import DRIVER_ERRORS, is_conflict, is_connection_lost

T = TypeVar("T")
R = TypeVar("R")
MAX_GROUP: Final = 150
"""Rows of one statement: so many ids of calls fit into a notice of PostgreSQL, which has 8,000 bytes."""
_PATIENCE_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.5


async def patiently(work: Callable[[], Awaitable[R]]) -> R:
    """Return the result of a transaction; one that can be repeated waits 60 s for a database that is away.

    Raises:
        Exception: what the driver raised at last.
    """
    deadline = anyio.current_time() + _PATIENCE_SECONDS
    while True:
        try:
            return await work()
        except DRIVER_ERRORS as error:
            may_pass = is_conflict(error) or is_connection_lost(error)
            if not may_pass or anyio.current_time() > deadline:
                raise
            await anyio.sleep(_PAUSE_SECONDS)


class GroupedWrites(Generic[T, R]):
    """Writes rows in groups, `patiently`: what comes while one transaction is under way goes into the next."""

    def __init__(self, write: Callable[[Sequence[T]], Awaitable[Sequence[R]]]) -> None:
        """Take the function that writes some rows in one transaction, all or none, and returns a result for each."""
        self._write = write
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._wanted = anyio.Event()

    def add(self, row: T) -> asyncio.Future[R]:
        """Write a row; return what becomes its result once it is durable, or the database's error."""
        written: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((row, written))
        self._wanted.set()
        return written

    async def run(self) -> None:
        """Write what is added, until this is cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted = anyio.Event()
            # Whatever else is added in this turn of the event loop comes along.
            await anyio.lowlevel.checkpoint()
            while self._waiting:
                group, self._waiting = self._waiting[:MAX_GROUP], self._waiting[MAX_GROUP:]
                await self._commit(group)

    async def _commit(self, group: list[tuple[T, asyncio.Future[R]]]) -> None:
        try:
            results = await patiently(partial(self._write, [row for row, _ in group]))
        except DRIVER_ERRORS as error:
            for _, written in group:
                if not written.done():
                    written.set_exception(error)
            return
        for (_, written), result in zip(group, results, strict=True):
            if not written.done():
                written.set_result(result)
