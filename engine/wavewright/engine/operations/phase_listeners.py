"""What a pipeline's phases tell log, metrics and traces: listeners for `Pipeline.run`.

The labels of a phase are those of its context (`labels`), such as `game_id` and `agent_type`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from wavewright.engine.operations.tracing import record_phase_span
from wavewright.engine.pipeline.phase import Outcome, PhaseEvent, PhaseListener, PhaseRecord

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from wavewright.engine.operations.logs import StructuredLog
    from wavewright.engine.pipeline.twin import TwinReport
    from wavewright.planner.types import JsonObject

BUCKETS: Final = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600)
"""Upper bounds in seconds of the buckets of every histogram."""
MAX_PLACES: Final = 50
"""Places of differences on a line of the log."""
_REASON_CODE = re.compile(r"[A-Z][A-Z0-9_]{1,63}")


@dataclass(frozen=True, slots=True)
class PhaseLog:
    """Writes `phase_finished` at the end of each phase, with the labels of its context."""

    log: StructuredLog
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further fields of each line."""

    def __call__(self, event: PhaseEvent) -> None:
        """Write the line of a phase that has ended."""
        if not isinstance(event, PhaseRecord):
            return
        fields: JsonObject = {
            **event.labels,
            **self.fields,
            "pipeline": event.pipeline,
            "phase": event.phase,
            "outcome": event.outcome.value,
            "seconds": round(event.seconds, 6),
        }
        if event.reason is not None:
            fields["reason"] = event.reason
        if event.target is not None:
            fields["branch"] = event.target
        self.log.write("phase_finished", "warning" if event.outcome is Outcome.FAILED else "debug", **fields)


@dataclass(frozen=True, slots=True)
class TwinLog:
    """Writes `twin_compared` for each report of a twin run; values of contexts are not written."""

    log: StructuredLog

    def __call__(self, report: TwinReport) -> None:
        """Write the line of a report."""
        places = [f"{one.phase}.{change.dotted_path}" for one in report.differences for change in one.changes]
        fields: JsonObject = {
            "first": report.first,
            "second": report.second,
            "places": [*places[:MAX_PLACES]],
            "phases_only_first": [one.phase for one in report.differences if one.kind == "only_first"],
            "phases_only_second": [one.phase for one in report.differences if one.kind == "only_second"],
            "effects_only_first": len(report.effects_only_first),
            "effects_only_second": len(report.effects_only_second),
            "first_seconds": round(report.first_seconds, 6),
            "second_seconds": round(report.second_seconds, 6),
        }
        if report.failure:
            fields["reason"] = report.failure
        self.log.write("twin_compared", "info" if report.agrees else "warning", **fields)


class TwinMetrics:
    """Counts reports of twin runs by outcome, in a registry of Prometheus."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._reports = Counter(
            "wavewright_twin_runs",
            "Runs of a second pipeline beside a first",
            ("first", "second", "outcome"),
            registry=registry,
        )

    def __call__(self, report: TwinReport) -> None:
        """Count a report as `equal`, `differs` or `failed`."""
        outcome = "failed" if report.failure else "equal" if report.agrees else "differs"
        self._reports.labels(report.first, report.second, outcome).inc()


class PhaseMetrics:
    """Counts phases by outcome and measures their time, in a registry of Prometheus.

    The counter's `reason` is the type of an exception, or that of a halt where it is a code, as
    `HALT_AFTER_DIALOGUE`; a sentence counts as `text`, so that reasons make no series without end.
    """

    def __init__(self, registry: CollectorRegistry, labels: Sequence[str] = ()) -> None:
        """Create the metrics.

        Args:
            registry: Where they are registered.
            labels: Labels of the context that become labels here; they should have few values, and be no ids.
        """
        self._labels = tuple(labels)
        self._ended = Counter(
            "wavewright_phases",
            "Phases that ended",
            ("pipeline", "phase", "outcome", "reason", "branch", *self._labels),
            registry=registry,
        )
        self._seconds = Histogram(
            "wavewright_phase_seconds",
            "Duration of a phase in seconds",
            ("pipeline", "phase", *self._labels),
            buckets=BUCKETS,
            registry=registry,
        )

    def __call__(self, event: PhaseEvent) -> None:
        """Count a phase that has ended."""
        if not isinstance(event, PhaseRecord):
            return
        own = [event.labels.get(label, "") for label in self._labels]
        match event.outcome:
            case Outcome.HALT:
                reason = event.reason if _REASON_CODE.fullmatch(event.reason or "") else "text"
            case Outcome.FAILED:
                reason = event.reason
            case _:
                reason = ""
        self._ended.labels(
            event.pipeline, event.phase, event.outcome.value, reason or "", event.target or "", *own
        ).inc()
        self._seconds.labels(event.pipeline, event.phase, *own).observe(event.seconds)


def _default_tracer() -> Tracer:
    from opentelemetry import trace

    return trace.get_tracer("wavewright")


@dataclass(frozen=True, slots=True)
class PhaseTrace:
    """Makes a span of each phase, within the span that is current where the pipeline runs."""

    tracer: Tracer = field(default_factory=_default_tracer)

    def __call__(self, event: PhaseEvent) -> None:
        """Make the span of a phase that has ended."""
        if isinstance(event, PhaseRecord):
            record_phase_span(self.tracer, event)


class PipelineMonitor:
    """Log, metrics and traces of the pipelines of a program, made together."""

    def __init__(self, log: StructuredLog, labels: Sequence[str] = ()) -> None:
        """Create the listeners.

        Args:
            log: Where their lines are written.
            labels: Labels of contexts that become labels of the metrics, as in `PhaseMetrics`.
        """
        self.registry = CollectorRegistry()
        self.listeners: tuple[PhaseListener, ...] = (
            PhaseLog(log),
            PhaseMetrics(self.registry, labels),
            PhaseTrace(),
        )
        """For `Pipeline.run`."""
        self._reports = (TwinLog(log), TwinMetrics(self.registry))

    def report(self, report: TwinReport) -> None:
        """Log and count a report of a twin run; for `open_twin`."""
        for listener in self._reports:
            listener(report)

    def text(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return generate_latest(self.registry)
