"""Task groups whose use is not seen in what they raise."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from wavewright.config.errors import single_exception

if TYPE_CHECKING:
    from anyio.abc import TaskGroup


@asynccontextmanager
async def open_task_group() -> AsyncGenerator[TaskGroup]:
    """Open a task group that raises the first exception in it alone."""
    try:
        async with anyio.create_task_group() as group:
            yield group
    except BaseExceptionGroup as failures:
        raise single_exception(failures) from None
