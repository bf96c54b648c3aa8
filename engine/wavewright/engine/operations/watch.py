"""Everything that watches a daemon, in one place."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from wavewright.engine.operations.health import Health
from wavewright.engine.operations.logs import Log
from wavewright.engine.operations.metrics import Metrics
from wavewright.engine.operations.run_log import RunLog
from wavewright.engine.operations.store_watch import StoreWatch
from wavewright.engine.operations.traces import RunTrace
from wavewright.executor.events import Event


@dataclass(frozen=True, slots=True)
class Watch:
    """Log, metrics, health and traces of one daemon."""

    log: Log
    metrics: Metrics = field(default_factory=Metrics)
    health: Health = field(default_factory=Health)
    store: StoreWatch = field(init=False)

    def __post_init__(self) -> None:
        """Watch the store by the same log, metrics and health."""
        object.__setattr__(self, "store", StoreWatch(self.log, self.metrics, self.health))

    @contextmanager
    def run(self, job: str, zone: str) -> Generator[Callable[[Event], None]]:
        """Give whatever is to be told of each event of a run, while this process works on it."""
        log, traces = RunLog(self.log, job, zone), RunTrace(job)

        def watch(event: Event) -> None:
            log(event)
            traces(event)
            self.metrics.count(event, log.tools)

        try:
            yield watch
        finally:
            traces.abandon(time.time())
