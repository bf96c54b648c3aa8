"""Spans of OpenTelemetry: one for each run, plan, patch, phase, wave, step, gate, rung, cap and
call of a model.

Spans are made from events and have the events' times, so that a run looks the same whenever it is
traced. Without a tracer provider they cost next to nothing. No span holds an output, a prompt or a
parameter. Calls of models have the attributes of OpenTelemetry's semantic conventions for
generative AI.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from wavewright.engine.run.pipeline.phase import Outcome, PhaseEvent, PhaseRecord, PhaseStarted
from wavewright.engine.run.ports import Ports
from wavewright.engine.service.messages.decoding import TRACE_KEY
from wavewright.executor import (
    Event,
    Noted,
    PlanAccepted,
    RunFinished,
    RunStarted,
    StepFinished,
    WaveFinished,
    WaveStarted,
)
from wavewright.executor.events.types import ModelCalled, RungTaken
from wavewright.reviewer import ReviewResult

if TYPE_CHECKING:
    from opentelemetry.util.types import Attributes


_FAILED_STATUSES = ("failed", "blocked", "cancelled")
TRACER: Final = "wavewright"


@dataclass(slots=True)
class RunTrace:
    """Makes the spans of one run; a run that is resumed elsewhere is another span with the same
    `run.id`.
    """

    job: str
    tracer: Tracer = field(default_factory=lambda: trace.get_tracer(TRACER))
    parent: str | None = None
    """The span that the run belongs to, as the header `traceparent`; the current span where there
    is none.
    """
    _run: Span | None = None
    _wave: Span | None = None
    _first: float | None = None
    _last_run: Span | None = None
    """Of the run, also once it has ended: its last phase ends after it."""

    def __call__(self, event: Event | PhaseEvent) -> None:
        """Start or end the spans of an event; a phase is within the run, also before and after its
        events.
        """
        if isinstance(event, PhaseRecord):
            record_phase_span(self.tracer, event, self._last_run or self.open(event.started))
        elif not isinstance(event, PhaseStarted):
            self._trace_event(event)

    def _trace_event(self, event: Event) -> None:
        if self._first is None:
            self._first = event.at
        match event:
            case RunStarted():
                self.open(event.at).set_attributes({"run.id": event.run, "job.name": event.job})
            case PlanAccepted():
                started = self._first if event.round == 0 else event.at
                name = "plan" if event.round == 0 else "patch"
                self._done(
                    name, started, event.at, {"plan.hash": event.plan_hash, "plan.rung": event.rung}
                )
            case WaveStarted():
                self._end_wave(event.at)
                self._wave = self._start(
                    f"wave {event.wave}",
                    event.at,
                    {"wave.number": event.wave, "wave.steps": [*event.steps]},
                )
            case WaveFinished():
                self._end_wave(event.at)
            case StepFinished():
                self._step(event)
            case ModelCalled(use=use):
                attributes: Attributes = {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.request.model": use.model,
                    "gen_ai.usage.input_tokens": use.input_tokens,
                    "gen_ai.usage.output_tokens": use.output_tokens,
                    "wavewright.role": use.role,
                    "wavewright.outcome": use.outcome,
                }
                self._done(
                    f"chat {use.model}",
                    event.at - use.seconds,
                    event.at,
                    attributes,
                    kind=SpanKind.CLIENT,
                )
            case RungTaken(rung=rung):
                taken: Attributes = {
                    "rung.ladder": rung.ladder,
                    "rung.outcome": rung.outcome,
                    "rung.ceiling": rung.ceiling,
                }
                self._done(f"rung {rung.rung}", event.at - rung.seconds, event.at, taken)
            case Noted():
                self._note(event)
            case RunFinished():
                self._close(event)
            case _:
                pass

    def _note(self, note: Noted) -> None:
        if note.topic != "review":
            self._current.add_event(note.topic, timestamp=_ns(note.at))
            return
        for cap in ReviewResult.model_validate(note.body).applied_caps:
            lowered: Attributes = {"cap.max": cap.max, "cap.origin": cap.origin}
            self._done(f"cap {cap.field}", note.at, note.at, lowered)

    def abandon(self, at: float) -> None:
        """End the spans of a run that continues elsewhere or later."""
        self._end_wave(at)
        if self._run is not None:
            self._run.end(_ns(at))
            self._run = None

    @property
    def _current(self) -> Span:
        """The innermost open span; that of the run if no other is open."""
        assert self._first is not None
        return self._wave or self.open(self._first)

    def open(self, at: float) -> Span:
        """Return the span of the run, which starts now if it has not started."""
        if self._run is None:
            context = None
            if self.parent is not None:
                context = TraceContextTextMapPropagator().extract({TRACE_KEY: self.parent})
            self._run = self.tracer.start_span("run", context, start_time=_ns(at))
            self._run.set_attribute("job.id", self.job)
            self._last_run = self._run
        return self._run

    def _start(
        self,
        name: str,
        at: float,
        attributes: Attributes,
        parent: Span | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        if parent is None:
            _ = self._current
            assert self._run is not None
            parent = self._run
        context = trace.set_span_in_context(parent)
        return self.tracer.start_span(
            name, context, kind, start_time=_ns(at), attributes=attributes
        )

    def _done(
        self,
        name: str,
        started: float,
        ended: float,
        attributes: Attributes,
        parent: Span | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        span = self._start(name, started, attributes, parent or self._current, kind)
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
        span = self._start(
            f"step {event.step}", event.started or event.at, attributes, self._current
        )
        if event.status in _FAILED_STATUSES:
            kind = event.error.kind if event.error is not None else event.status
            span.set_status(Status(StatusCode.ERROR, kind))
        for gate in event.gates:
            verdict: Attributes = {"gate.verdict": gate.verdict, "gate.severity": gate.severity}
            self._done(f"gate {gate.gate}", event.at, event.at, verdict, span)
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


@contextmanager
def trace_run(job: str, parent: str | None = None) -> Generator[RunTrace]:
    """Yield the listener that makes the spans of a run; those that are open end with the block.

    The run's span is the current one meanwhile, so that calls over MCP and in the fleet belong to
    it.
    """
    spans = RunTrace(job, parent=parent)
    try:
        with trace.use_span(
            spans.open(time.time()), record_exception=False, set_status_on_exception=False
        ):
            yield spans
    finally:
        spans.abandon(time.time())


def record_phase_span(tracer: Tracer, event: PhaseRecord, parent: Span | None = None) -> None:
    """Make the span of a phase that has ended; the parent is the current span unless one is given."""
    attributes = {f"wavewright.{label}": value for label, value in event.labels.items()}
    attributes |= {"wavewright.pipeline": event.pipeline, "wavewright.outcome": event.outcome.value}
    if event.reason is not None:
        attributes["wavewright.reason"] = event.reason
    if event.target is not None:
        attributes["wavewright.branch"] = event.target
    span = tracer.start_span(
        f"phase {event.phase}",
        None if parent is None else trace.set_span_in_context(parent),
        start_time=_ns(event.started),
        attributes=attributes,
    )
    if event.outcome is Outcome.FAILED:
        span.set_status(Status(StatusCode.ERROR, event.reason))
    span.end(_ns(event.started + event.seconds))


@contextmanager
def traced_ports(ports: Ports, environment: Mapping[str, str]) -> Generator[Ports]:
    """Yield ports whose runs are traced; see `trace_export.traced`."""
    is_within = trace.get_current_span().get_span_context().is_valid
    parent = None if is_within else environment.get(TRACE_KEY.upper())
    with trace_run("", parent) as traces:

        def on_event(event: Event) -> None:
            traces(event)
            ports.attempt.on_event(event)

        def on_phase(event: PhaseEvent) -> None:
            traces(event)
            ports.on_phase(event)

        @contextmanager
        def observe_target(target: str) -> Generator[Callable[[Event | PhaseEvent], None]]:
            with ports.targets.observe(target) as listen, trace_run(target) as of_target:

                def on_target_event(event: Event | PhaseEvent) -> None:
                    of_target(event)
                    listen(event)

                yield on_target_event

        yield replace(
            ports,
            attempt=replace(ports.attempt, on_event=on_event),
            on_phase=on_phase,
            targets=replace(ports.targets, observe=observe_target),
        )
