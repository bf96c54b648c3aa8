"""Traces with OpenTelemetry: a span for each run, plan, wave, step and gate, sent to a collector by OTLP over HTTP.

Spans are made from events and have the events' times, so that a run looks the same whenever it is traced. Without the
extra `otel` and a configured exporter they cost next to nothing. No span holds an output, a prompt or a parameter.

The variables are OpenTelemetry's own: `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` for the
address, `OTEL_EXPORTER_OTLP_HEADERS` for a login, `OTEL_SERVICE_NAME` for the name.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.trace import Span, Status, StatusCode, Tracer

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError
from wavewright.config.installation import install_hint, is_installed
from wavewright.engine.operations.phase_listeners import record_phase_span
from wavewright.engine.pipeline.phase import PhaseEvent, PhaseRecord
from wavewright.executor.events.types import (
    Event,
    ModelCalled,
    Noted,
    PlanAccepted,
    RunFinished,
    RunStarted,
    StepFinished,
    WaveFinished,
    WaveStarted,
)

if TYPE_CHECKING:
    from opentelemetry.util.types import Attributes


_FAILED_STATUSES = ("failed", "blocked", "cancelled")
_TRACER: Final = "wavewright"


@dataclass(slots=True)
class RunTrace:
    """Makes the spans of one run; a run that is resumed elsewhere is another span with the same `run.id`."""

    job: str
    tracer: Tracer = field(default_factory=lambda: trace.get_tracer(_TRACER))
    _run: Span | None = None
    _wave: Span | None = None
    _first: float | None = None
    _last_run: Span | None = None
    """Of the run, also once it has ended: its last phase ends after it."""
    _early_phases: list[PhaseRecord] = field(default_factory=list[PhaseRecord])
    """Phases that ended before the run began."""

    def __call__(self, event: Event) -> None:
        """Start or end the spans of an event."""
        if self._first is None:
            self._first = event.at
        match event:
            case RunStarted():
                self._open({"run.id": event.run, "job.name": event.job})
            case PlanAccepted():
                started = self._first if event.round == 0 else event.at
                self._done("plan", started, event.at, {"plan.hash": event.plan_hash, "plan.rung": event.rung})
            case WaveStarted():
                self._end_wave(event.at)
                self._wave = self._start(
                    f"wave {event.wave}", event.at, {"wave.number": event.wave, "wave.steps": [*event.steps]}
                )
            case WaveFinished():
                self._end_wave(event.at)
            case StepFinished():
                self._step(event)
            case ModelCalled(use=use):
                attributes: Attributes = {
                    "gen_ai.request.model": use.model,
                    "gen_ai.usage.input_tokens": use.input_tokens,
                    "gen_ai.usage.output_tokens": use.output_tokens,
                    "wavewright.role": use.role,
                    "wavewright.outcome": use.outcome,
                }
                self._done(f"model {use.role}", event.at - use.seconds, event.at, attributes)
            case Noted(topic=topic):
                self._current.add_event(topic, timestamp=_ns(event.at))
            case RunFinished():
                self._close(event)
            case _:
                pass

    def record_phase(self, event: PhaseEvent) -> None:
        """Make the span of a phase that has ended, within that of the run."""
        if not isinstance(event, PhaseRecord):
            return
        if self._last_run is None:
            self._early_phases.append(event)
        else:
            record_phase_span(self.tracer, event, self._last_run)

    def abandon(self, at: float) -> None:
        """End the spans of a run that continues elsewhere or later."""
        for phase in self._early_phases:
            record_phase_span(self.tracer, phase)
        self._early_phases.clear()
        self._end_wave(at)
        if self._run is not None:
            self._run.end(_ns(at))
            self._run = None

    @property
    def _current(self) -> Span:
        """The innermost open span; that of the run if no other is open."""
        if self._run is None:
            self._open({})
        assert self._run is not None
        return self._wave or self._run

    def _open(self, attributes: Attributes) -> None:
        assert self._first is not None
        self._run = self.tracer.start_span("run", start_time=_ns(self._first), attributes=attributes)
        self._run.set_attribute("job.id", self.job)
        self._last_run = self._run
        for phase in self._early_phases:
            record_phase_span(self.tracer, phase, self._run)
        self._early_phases.clear()

    def _start(self, name: str, at: float, attributes: Attributes, parent: Span | None = None) -> Span:
        if parent is None:
            _ = self._current
            assert self._run is not None
            parent = self._run
        context = trace.set_span_in_context(parent)
        return self.tracer.start_span(name, context, start_time=_ns(at), attributes=attributes)

    def _done(
        self, name: str, started: float, ended: float, attributes: Attributes, parent: Span | None = None
    ) -> Span:
        span = self._start(name, started, attributes, parent or self._current)
        span.end(_ns(ended))
        return span

    def _end_wave(self, at: float) -> None:
        if self._wave is not None:
            self._wave.end(_ns(at))
            self._wave = None

    def _step(self, event: StepFinished) -> None:
        attributes: Attributes = {
            "step.id": event.step,
            "step.status": event.status,
            "step.attempts": event.attempts,
        }
        span = self._start(f"step {event.step}", event.started or event.at, attributes, self._current)
        if event.status in _FAILED_STATUSES:
            kind = event.error.kind if event.error is not None else event.status
            span.set_status(Status(StatusCode.ERROR, kind))
        for gate in event.gates:
            told: Attributes = {"gate.verdict": gate.verdict, "gate.severity": gate.severity}
            self._done(f"gate {gate.gate}", event.at, event.at, told, span)
        span.end(_ns(event.at))

    def _close(self, event: RunFinished) -> None:
        self._end_wave(event.at)
        run = self._current
        run.set_attribute("run.status", event.status)
        if event.status == "failed":
            run.set_status(Status(StatusCode.ERROR, "failed"))
        self.abandon(event.at)


def _ns(seconds: float) -> int:
    return int(seconds * 1_000_000_000)


FLUSH_SECONDS: Final = 2.0
"""Timeout in seconds for sending the last spans."""

_ADDRESS_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class TracingError(WavewrightError):
    """A collector is configured, and nothing can be sent to it."""

    exit_code = exit_codes.MISUSE


def check_tracing(environment: Mapping[str, str] = os.environ) -> None:
    """Check that traces can be sent, if a collector is configured.

    Raises:
        TracingError: the extra `otel` is not installed, or the collector's address is invalid.
    """
    named = _collector_variable(environment)
    if named is None:
        return
    if not is_installed("otel"):
        raise TracingError(
            f"{named} names a collector, and the extra 'otel' is not installed",
            f"{install_hint('otel')}, or unset {named}",
        )
    try:
        parts = urlsplit(environment[named].strip())
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise TracingError(
            f"{named} is not an address of a collector", "write it as http://HOST:4318, or unset it"
        )


def _collector_variable(environment: Mapping[str, str]) -> str | None:
    return next((name for name in _ADDRESS_VARIABLES if environment.get(name, "").strip()), None)


@contextmanager
def export_traces(environment: Mapping[str, str] = os.environ) -> Generator[bool]:
    """Send traces during the block if the environment names a collector; yields whether it does.

    Raises:
        TracingError: as `check_tracing`.
    """
    check_tracing(environment)
    if _collector_variable(environment) is None:
        yield False
        return
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    service = environment.get("OTEL_SERVICE_NAME", "").strip() or "wavewright"
    provider = TracerProvider(resource=Resource.create({"service.name": service}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    try:
        yield True
    finally:
        # A collector that accepts connections and never answers must not block the program's end.
        last = threading.Thread(target=provider.shutdown, daemon=True)
        last.start()
        last.join(FLUSH_SECONDS)
