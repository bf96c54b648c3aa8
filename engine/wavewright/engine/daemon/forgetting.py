"""The store does not grow with every message that ever came or went.

What the ids of messages are remembered for is telling repeats. A message that is older than the settings allow is
refused whatever its id is, so an id that is older still is needed by nobody and is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import anyio

from wavewright.executor.job_store.port import JobStore
from wavewright.executor.job_store.records import FROM_THE_FIRST, Walk
from wavewright.executor.journal_errors import JournalError

LOOK_SECONDS: Final = 600.0
"""How often it is looked for what may be forgotten."""
BREATH_SECONDS: Final = 0.05
"""Between two parts of it, so that nobody waits for the store."""


@dataclass(frozen=True, slots=True)
class Forgetting:
    """Forgets the ids of messages that are old enough."""

    jobs: JobStore
    seconds: float
    """For which an id is remembered."""
    clock: Callable[[], float]
    on_fault: Callable[[JournalError], None]

    async def run(self) -> None:
        """Look again and again, until this is cancelled."""
        while True:
            try:
                await self.forget()
            except JournalError as fault:
                self.on_fault(fault)
            await anyio.sleep(LOOK_SECONDS)

    async def forget(self) -> None:
        """Forget all that is old enough by now."""
        before = self.clock() - self.seconds
        walk: Walk | None = FROM_THE_FIRST
        while walk is not None:
            walk = await self.jobs.forget(before, walk)
            await anyio.sleep(BREATH_SECONDS)
