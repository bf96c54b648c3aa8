"""Traces: a span for each run, plan, wave, step and gate, by OpenTelemetry.

Spans are made of the events and bear the events' times, so that a run looks the same however late it is traced.
Without the extra `otel` and a configured exporter they cost next to nothing and go nowhere. No span holds an output,
a prompt or a parameter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from opentelemetry import trace
from opentelemetry.trace import Span, Status, StatusCode, Tracer

from wavewright.executor.events import (
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

    def __call__(self, event: Event) -> None:
        """Begin or end what the event begins or ends."""
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

    def abandon(self, at: float) -> None:
        """End the spans of a run that goes on elsewhere, or later."""
        self._end_wave(at)
        if self._run is not None:
            self._run.end(_ns(at))
            self._run = None

    @property
    def _current(self) -> Span:
        """The span that whatever happens now belongs to; the run's, also where its start was long ago."""
        if self._run is None:
            self._open({})
        assert self._run is not None
        return self._wave or self._run

    def _open(self, attributes: Attributes) -> None:
        assert self._first is not None
        self._run = self.tracer.start_span("run", start_time=_ns(self._first), attributes=attributes)
        self._run.set_attribute("job.id", self.job)

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
