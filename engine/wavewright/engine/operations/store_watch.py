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

from wavewright.engine.operations.health import HealthStatus
from wavewright.engine.operations.logs import StructuredLog
from wavewright.engine.operations.metrics import Metrics
from wavewright.executor.job_store.records import JobState
from wavewright.executor.journal_errors import JournalError, JournalNotWritten, JournalUnreachable

STORE_POLL_SECONDS: Final = 2.0
"""How often the store is asked how many jobs there are."""
STORE_TIMEOUT_SECONDS: Final = 4.0
"""After which a store that has not answered is said not to."""
WRITE_FAULT_SECONDS: Final = 35.0
"""How long a fault of writing stands without another try; whoever holds a message tries every half minute."""
REPORT_SECONDS: Final = 60.0


@dataclass(slots=True)
class StoreMonitor:
    """What is known of one store."""

    log: StructuredLog
    metrics: Metrics
    health: HealthStatus
    clock: Callable[[], float] = time.monotonic
    _write_failed_at: float | None = None
    """When it could last not be written."""
    _last_reported: dict[str, float] = field(default_factory=dict[str, float])
    _query_started: float | None = None

    def mark_failed(self, fault: JournalError) -> None:
        """Note that the store could not be used."""
        now = self.clock()
        if isinstance(fault, JournalNotWritten) and not isinstance(fault, JournalUnreachable):
            self._write_failed_at = now
        self.metrics.set_part("store", works=False)
        self.health.mark_failing("store", fault.message)
        if now - self._last_reported.get(fault.message, -REPORT_SECONDS) >= REPORT_SECONDS:
            self._last_reported[fault.message] = now
            self.log.write("error", "error", error=fault)

    def mark_worked(self, *, wrote: bool = False) -> None:
        """Note that the store has answered, and whether something was written."""
        if (
            not wrote
            and self._write_failed_at is not None
            and self.clock() - self._write_failed_at < WRITE_FAULT_SECONDS
        ):
            return
        self._write_failed_at = None
        self._last_reported.clear()
        self.metrics.set_part("store", works=True)
        self.health.mark_working("store")

    async def run(self, count: Callable[[], Awaitable[Mapping[JobState, int]]]) -> None:
        """Ask for the numbers of jobs again and again, until this is cancelled."""
        async with anyio.create_task_group() as both:
            both.start_soon(self._watch_timeouts)
            while True:
                self._query_started = self.clock()
                try:
                    counts = await count()
                except JournalError as fault:
                    self.mark_failed(fault)
                else:
                    self.mark_worked()
                    self.metrics.set_job_counts(counts)
                self._query_started = None
                await anyio.sleep(STORE_POLL_SECONDS)

    async def _watch_timeouts(self) -> None:
        """Say so where an answer is late: those who ask wait with patience, and nobody else would know."""
        while True:
            await anyio.sleep(STORE_TIMEOUT_SECONDS / 4)
            if (
                self._query_started is not None
                and self.clock() - self._query_started >= STORE_TIMEOUT_SECONDS
            ):
                self.mark_failed(
                    JournalError(f"the store has not answered for {STORE_TIMEOUT_SECONDS:g} s and more")
                )
