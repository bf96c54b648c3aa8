"""Telemetry of a daemon: the state of the store, and the observers of runs.

A store that can be read may still not be writable, as with a full disk. So a write error stands
until something was written, or until nothing has failed for `WRITE_FAULT_SECONDS`. A store that
does not answer is reported after `STORE_TIMEOUT_SECONDS`. Each error is logged once, and again
after a minute.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import anyio

from wavewright.engine.run.pipeline.phase import PhaseEvent, PhaseRecord, PhaseStarted
from wavewright.engine.service.job_store.records import JobState, OutgoingMessage
from wavewright.engine.service.operations.health import HealthStatus
from wavewright.engine.service.operations.job_logs import RunLog, log_sent
from wavewright.engine.service.operations.logs import StructuredLog
from wavewright.engine.service.operations.metrics import Metrics, PhaseLog
from wavewright.engine.service.operations.tracing import trace_run
from wavewright.executor import Event, JournalError
from wavewright.executor.store.errors import JournalNotWritten, JournalUnreachable

STORE_POLL_SECONDS: Final = 2.0
"""How often the jobs in the store are counted."""
STORE_TIMEOUT_SECONDS: Final = 4.0
"""After so long without an answer the store is reported as failing."""
WRITE_FAULT_SECONDS: Final = 35.0
"""How long a write error stands without another attempt; the message handler tries every half
minute.
"""
REPORT_SECONDS: Final = 60.0


@dataclass(slots=True)
class StoreMonitor:
    """The state of a store, reported in log, metrics and health."""

    log: StructuredLog
    metrics: Metrics
    health: HealthStatus
    clock: Callable[[], float] = time.monotonic
    _write_failed_at: float | None = None
    """When a write last failed."""
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
        """Note that the store has answered, and whether it was written to."""
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
        """Update the numbers of jobs every `STORE_POLL_SECONDS`, until this is cancelled."""
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
        """Report a late answer, since the store's own timeout is longer."""
        while True:
            await anyio.sleep(STORE_TIMEOUT_SECONDS / 4)
            if (
                self._query_started is not None
                and self.clock() - self._query_started >= STORE_TIMEOUT_SECONDS
            ):
                self.mark_failed(
                    JournalError(
                        f"the store has not answered for more than {STORE_TIMEOUT_SECONDS:g} s"
                    )
                )


@dataclass(frozen=True)
class Telemetry:
    """Log, metrics, health and traces of one daemon."""

    log: StructuredLog
    metrics: Metrics = field(default_factory=Metrics)
    health: HealthStatus = field(default_factory=HealthStatus)

    @cached_property
    def store(self) -> StoreMonitor:
        """The monitor of the store, with the same log, metrics and health."""
        return StoreMonitor(self.log, self.metrics, self.health)

    def note_sent(self, sent: OutgoingMessage) -> None:
        """Count and log a message that the broker has confirmed."""
        self.metrics.count_sent(sent.kind)
        log_sent(self.log, sent)

    @contextmanager
    def observe_run(
        self, job: str, target: str, trace: str | None = None
    ) -> Generator[Callable[[Event | PhaseEvent], None]]:
        """Yield a listener that logs, traces and counts the events and the phases of a run, for the
        block.

        `trace` is the header `traceparent` of the message that asked for the job.
        """
        log = RunLog(self.log, job, target)
        log_phase = PhaseLog(self.log, {"job_id": job, "target": target})
        with trace_run(job, trace) as traces:

            def on_event(event: Event | PhaseEvent) -> None:
                traces(event)
                if isinstance(event, PhaseStarted | PhaseRecord):
                    log_phase(event)
                    self.metrics.count_phase(event)
                    return
                log(event)
                self.metrics.count_event(event, log.tools)

            yield on_event
