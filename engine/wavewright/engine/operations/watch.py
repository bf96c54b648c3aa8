"""Everything that watches a daemon, in one place."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from wavewright.engine.operations.health import HealthStatus
from wavewright.engine.operations.logs import StructuredLog
from wavewright.engine.operations.metrics import Metrics
from wavewright.engine.operations.run_log import RunLog
from wavewright.engine.operations.store_watch import StoreMonitor
from wavewright.engine.operations.traces import RunTrace
from wavewright.executor.events import Event


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Log, metrics, health and traces of one daemon."""

    log: StructuredLog
    metrics: Metrics = field(default_factory=Metrics)
    health: HealthStatus = field(default_factory=HealthStatus)
    store: StoreMonitor = field(init=False)

    def __post_init__(self) -> None:
        """Watch the store by the same log, metrics and health."""
        object.__setattr__(self, "store", StoreMonitor(self.log, self.metrics, self.health))

    @contextmanager
    def observe_run(self, job: str, zone: str) -> Generator[Callable[[Event], None]]:
        """Give whatever is to be told of each event of a run, while this process works on it."""
        log, traces = RunLog(self.log, job, zone), RunTrace(job)

        def watch(event: Event) -> None:
            log(event)
            traces(event)
            self.metrics.count_event(event, log.tools)

        try:
            yield watch
        finally:
            traces.abandon(time.time())
