"""Whether the store can be used, as it is told: in the log, over HTTP, in the metrics.

A store that can be read may still not be written, as on a full disk: what kept it from being written stands until
something was written, or nothing has failed for a while. A store that gives no answer at all is told of before those
who wait for it give up. Each fault is told once in the log, and again after a minute.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import anyio

from wavewright.engine.operations.health import Health
from wavewright.engine.operations.logs import Log
from wavewright.engine.operations.metrics import Metrics
from wavewright.executor.job_store.records import JobState
from wavewright.executor.journal_errors import JournalError, JournalNotWritten, JournalUnreachable

LOOK_SECONDS: Final = 2.0
"""How often the store is asked how many jobs there are."""
SILENT_SECONDS: Final = 4.0
"""After which a store that has not answered is said not to."""
KEPT_SECONDS: Final = 35.0
"""How long a fault of writing stands without another try; whoever holds a message tries every half minute."""
TOLD_SECONDS: Final = 60.0


@dataclass(slots=True)
class StoreWatch:
    """What is known of one store."""

    log: Log
    metrics: Metrics
    health: Health
    clock: Callable[[], float] = time.monotonic
    _unwritten: float | None = None
    """When it could last not be written."""
    _told: dict[str, float] = field(default_factory=dict[str, float])
    _asked: float | None = None

    def failed(self, fault: JournalError) -> None:
        """Note that the store could not be used."""
        now = self.clock()
        if isinstance(fault, JournalNotWritten) and not isinstance(fault, JournalUnreachable):
            self._unwritten = now
        self.metrics.part("store", works=False)
        self.health.bad("store", fault.message)
        if now - self._told.get(fault.message, -TOLD_SECONDS) >= TOLD_SECONDS:
            self._told[fault.message] = now
            self.log.say("error", "error", error=fault)

    def worked(self, *, wrote: bool = False) -> None:
        """Note that the store has answered, and whether something was written."""
        if not wrote and self._unwritten is not None and self.clock() - self._unwritten < KEPT_SECONDS:
            return
        self._unwritten = None
        self._told.clear()
        self.metrics.part("store", works=True)
        self.health.good("store")

    async def run(self, count: Callable[[], Awaitable[Mapping[JobState, int]]]) -> None:
        """Ask for the numbers of jobs again and again, until this is cancelled."""
        async with anyio.create_task_group() as both:
            both.start_soon(self._look_at_answers)
            while True:
                self._asked = self.clock()
                try:
                    counts = await count()
                except JournalError as fault:
                    self.failed(fault)
                else:
                    self.worked()
                    self.metrics.states(counts)
                self._asked = None
                await anyio.sleep(LOOK_SECONDS)

    async def _look_at_answers(self) -> None:
        """Say so where an answer is late: those who ask wait with patience, and nobody else would know."""
        while True:
            await anyio.sleep(SILENT_SECONDS / 4)
            if self._asked is not None and self.clock() - self._asked >= SILENT_SECONDS:
                self.failed(JournalError(f"the store has not answered for {SILENT_SECONDS:g} s and more"))
