"""What a program has open between `async with` and its end: the journal, models and streams.

A task of its own opens and closes them, since cancel scopes belong to the task that opens them:
those who enter and leave may be two tasks, as in fixtures of pytest and in web servers, and several
at once. The first to enter opens, the last to leave closes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from wavewright.config import Settings
from wavewright.engine.run.services import open_services
from wavewright.engine.run.task_groups import open_task_group
from wavewright.engine.service.operations.trace_export import export_traces
from wavewright.executor import JournalReplayCache
from wavewright.executor.store.stored_journal import StoredJournal
from wavewright.executor.stores import journal_of
from wavewright.tools import Services

if TYPE_CHECKING:
    from anyio.abc import TaskGroup


@dataclass(frozen=True, slots=True)
class Opened:
    """The journal and the models of a program, and the group that its streams run in."""

    journal: StoredJournal
    services: Services
    group: TaskGroup


@asynccontextmanager
async def open_program(settings: Settings) -> AsyncGenerator[Opened]:
    """Open journal and models; in the end streams that are open are cancelled.

    Raises:
        JournalError: the journal cannot be used.
        ModelConfigError: the model's name, its key or an address is wrong or missing.
    """
    with export_traces():
        async with (
            journal_of(settings) as journal,
            open_services(
                settings, memory=JournalReplayCache(journal), uses_runtime=True
            ) as services,
            open_task_group() as group,
        ):
            yield Opened(journal, services, group)
            group.cancel_scope.cancel()


class Opening:
    """Something that is open in one event loop for as long as somebody is inside."""

    def __init__(self, opens: Callable[[], AbstractAsyncContextManager[Opened]]) -> None:
        """Open nothing yet."""
        self._opens = opens
        self._inside = 0
        self._ready: asyncio.Future[Opened] = asyncio.get_running_loop().create_future()
        self._left = anyio.Event()
        self._holder: asyncio.Task[None] | None = None

    @property
    def is_left(self) -> bool:
        """Whether nobody is inside any more."""
        return self._left.is_set()

    @property
    def opened(self) -> Opened:
        """What is open.

        Raises:
            BaseException: what has closed it, where that was not the last who left.
        """
        self._raise_if_closed()
        return self._ready.result()

    def _raise_if_closed(self) -> None:
        assert self._holder is not None
        if self._holder.done():
            self._holder.result()

    async def enter(self) -> None:
        """Come inside; the first opens.

        Raises:
            Exception: what opening raises, to all who wait for it.
        """
        self._inside += 1
        if self._holder is None:
            # Whoever leaves last waits for it, and gets what it raises.
            self._holder = asyncio.create_task(self._hold())  # noqa: TID251 - it outlives who enters
        try:
            await asyncio.wait((self._ready, self._holder), return_when=asyncio.FIRST_COMPLETED)
            self._raise_if_closed()
        except BaseException:
            await self.leave()
            raise

    async def leave(self) -> None:
        """Go outside; the last closes, and waits until all is closed.

        Raises:
            Exception: what closing raises.
        """
        self._inside -= 1
        if self._inside == 0:
            self._left.set()
            assert self._holder is not None
            with anyio.CancelScope(shield=True):
                await asyncio.shield(self._holder)

    async def _hold(self) -> None:
        async with self._opens() as opened:
            self._ready.set_result(opened)
            await self._left.wait()
