"""A connection of the driver's, and what is all or nothing on it.

A *transaction* here ends with the fault that undid it: where the connection itself broke, that is what is told.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TypeAlias

import asyncpg

from wavewright.executor.postgres.faults import DRIVER_ERRORS

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


class PostgresTransaction:
    """All or nothing: committed at the end of an `async with` block, rolled back where that raises."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def __aenter__(self) -> None:
        await self._connection.execute("BEGIN")

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self._connection.execute("COMMIT")
        elif not self._connection.is_closed():
            # What was wrong before is what is told.
            with suppress(*DRIVER_ERRORS):
                await self._connection.execute("ROLLBACK")
