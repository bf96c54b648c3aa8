"""Metrics of a worker of the fleet, in Prometheus' format."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

from wavewright.engine.operations.phase_listeners import BUCKETS


class WorkerMetrics:
    """Calls that a worker has made, by tool."""

    def __init__(self, slots: int) -> None:
        """Create all metrics at zero."""
        self.registry = CollectorRegistry()
        self._calls = Counter(
            "wavewright_fleet_calls", "Calls that ended", ("tool", "ending"), registry=self.registry
        )
        self._seconds = Histogram(
            "wavewright_fleet_call_seconds",
            "Duration of a call in seconds",
            ("tool",),
            registry=self.registry,
            buckets=BUCKETS,
        )
        Gauge("wavewright_fleet_slots", "Maximum of concurrent calls", registry=self.registry).set(slots)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def note_call(self, tool: str, ending: str, seconds: float) -> None:
        """Count a call that has ended."""
        self._calls.labels(tool, ending).inc()
        self._seconds.labels(tool).observe(seconds)
