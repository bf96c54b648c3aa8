"""The store does not grow with every message that ever came or went, nor with every run where a time is set for them.

What the ids of messages are remembered for is telling repeats. A message that is older than the settings allow is
refused whatever its id is, so an id that is older still is needed by nobody and is forgotten.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import anyio

from wavewright.config.daemon_settings import DAY_SECONDS
from wavewright.config.settings import Settings
from wavewright.engine.operations.logs import StructuredLog
from wavewright.engine.run_files import remove_run_files
from wavewright.executor.job_store.port import JobStore
from wavewright.executor.job_store.records import RETENTION_START, RetentionCursor
from wavewright.executor.journal import Journal
from wavewright.executor.journal_errors import JournalError
from wavewright.executor.retention import remove_groups
from wavewright.executor.stores import removal_of

PRUNE_POLL_SECONDS: Final = 600.0
"""How often it is looked for what may be forgotten."""
BETWEEN_GROUPS_SECONDS: Final = 0.05
"""Between two parts of it, so that nobody waits for the store."""


@dataclass(frozen=True, slots=True)
class MessageIdRetention:
    """Forgets the ids of messages that are old enough."""

    jobs: JobStore
    seconds: float
    """For which an id is remembered."""
    clock: Callable[[], float]
    on_fault: Callable[[JournalError], None]

    async def run(self) -> None:
        """Look again and again, until this is cancelled."""
        await _repeat(self.prune, PRUNE_POLL_SECONDS, self.on_fault)

    async def prune(self) -> None:
        """Forget all that is old enough by now."""
        before = self.clock() - self.seconds
        walk: RetentionCursor | None = RETENTION_START
        while walk is not None:
            walk = await self.jobs.forget(before, walk)
            await anyio.sleep(BETWEEN_GROUPS_SECONDS)


@dataclass(frozen=True, slots=True)
class RunRetention:
    """Removes runs that ended longer ago than the settings keep them, with their files on this machine."""

    journal: Journal
    settings: Settings
    clock: Callable[[], float]
    log: StructuredLog
    on_fault: Callable[[JournalError], None]

    async def run(self) -> None:
        """Remove what is old enough, at once and each day, until this is cancelled; nothing where no time is set."""
        if self.settings.retention is not None:
            await _repeat(self.prune, DAY_SECONDS, self.on_fault)

    async def prune(self) -> None:
        """Remove all that is old enough by now, a group of runs at a time."""
        assert self.settings.retention is not None
        before = self.clock() - self.settings.retention
        runs, size = 0, 0
        try:
            async for removed in remove_groups(removal_of(self.journal), before):
                runs += len(removed.runs)
                size += removed.bytes
                size += await anyio.to_thread.run_sync(remove_run_files, self.settings, removed.runs)
        finally:
            if runs:
                self.log.write("runs_removed", runs=runs, bytes=size)


async def _repeat(
    work: Callable[[], Awaitable[None]], pause: float, on_fault: Callable[[JournalError], None]
) -> None:
    while True:
        try:
            await work()
        except JournalError as fault:
            on_fault(fault)
        await anyio.sleep(pause)
