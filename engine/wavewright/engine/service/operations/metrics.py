"""Metrics in Prometheus' format, and listeners to phases that tell log, metrics and traces of them.

Names start with `wavewright_`; counters end in `_total`, durations are in seconds, costs in US
dollars. Labels have few values (a tool, a model, a status) and are never ids, so finished jobs
leave no series behind.

Listeners to phases are for `Pipeline.run`. The labels of a phase are those of its context
(`labels`), such as `game_id` and `agent_type`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, get_args

from opentelemetry import trace
from opentelemetry.trace import Tracer
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from wavewright.engine.run.pipeline.phase import Outcome, PhaseEvent, PhaseListener, PhaseRecord
from wavewright.engine.service.job_store.records import JobState, Receipt
from wavewright.engine.service.operations.tracing import TRACER, record_phase_span
from wavewright.executor import Event, ItemFinished, Noted, PlanAccepted, RunFinished, StepFinished
from wavewright.executor.events.types import TOOL_EVENT, ModelCalled, RungTaken
from wavewright.planner import JsonObject, StepId
from wavewright.reviewer import ReviewResult

if TYPE_CHECKING:
    from wavewright.engine.run.pipeline.twin import TwinReport
    from wavewright.engine.service.operations.logs import StructuredLog


class Metrics:
    """Metrics of one daemon; each has its own registry, so that two daemons in a process do not
    mix.
    """

    def __init__(self) -> None:
        """Create all metrics at zero."""
        self.registry = CollectorRegistry()
        self._jobs = self._gauge("jobs", "Jobs in the store", "state")
        self._up = self._gauge("up", "Whether a part works: broker, store", "part")
        self._received = self._counter("messages_received", "Messages received", "type", "action")
        self._sent = self._counter("messages_sent", "Messages that the broker confirmed", "type")
        self._dead_lettered = self._counter(
            "messages_dead_lettered", "Messages that were dead-lettered", "kind"
        )
        self._undeliverable = self._counter(
            "messages_undeliverable", "Messages that no queue is bound for"
        )
        self._begun_again = self._counter(
            "jobs_begun_again", "Jobs that were started before and did not finish"
        )
        self._slots = self._gauge("slots", "Slots for jobs", "state")
        self._paused = self._gauge("paused", "Whether the budget of the day is spent")
        self._circuits = self._gauge(
            "model_circuit", "State of a model's circuit: 0 closed, 1 half open, 2 open", "model"
        )
        self._lag = self._gauge(
            "loop_lag_seconds", "Maximum lag of the event loop in the last minute"
        )
        self._runs = self._counter("runs_finished", "Runs that ended", "status")
        self._plans = self._counter("plans_accepted", "Plans that runs accepted", "rung")
        self._kept_plans = self._counter(
            "kept_plans", "Kept plans that were found for a goal", "use"
        )
        self._kept_tokens = self._counter(
            "kept_plan_saved_tokens",
            "Tokens that planners took once for kept plans that were run without one",
        )
        self._steps = self._counter("steps_finished", "Steps that ended", "tool", "status")
        self._step_seconds = self._histogram(
            "step_seconds", "Duration of a step in seconds", "tool"
        )
        self._gates = self._counter(
            "gates_asked", "Gates that were evaluated", "verdict", "severity"
        )
        self._retries = self._counter(
            "step_retries", "Calls of tools that were repeated after an error", "tool"
        )
        self._caps = self._counter("caps_applied", "Caps that lowered a confidence", "origin")
        self._calls = self._counter("model_calls", "Calls of models", "role", "model", "outcome")
        self._requests = self._counter(
            "model_requests", "Requests to models, repeated ones included", "role", "name", "rung"
        )
        self._tokens = self._counter(
            "model_tokens", "Tokens of model calls", "role", "model", "direction"
        )
        self._usd = self._counter("model_usd", "Cost of model calls in US dollars", "role", "model")
        self._model_seconds = self._histogram(
            "model_seconds", "Duration of a model call in seconds", "role", "model"
        )
        self._phases = PhaseMetrics(self.registry)
        self._rungs = self._counter("rungs_taken", "Rungs of ladders", "ladder", "rung", "outcome")
        self._rung_seconds = self._histogram(
            "rung_seconds", "Duration of a rung in seconds", "ladder", "rung"
        )
        self._tool_events = self._counter(
            "tool_events", "Log events that tools define", "event", "tool"
        )
        self._tool_event_sums = self._counter(
            "tool_event_values",
            "Sums of the numbers in log events that tools define",
            "event",
            "field",
        )

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"wavewright_{name}", text, labels, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"wavewright_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, *labels: str) -> Histogram:
        return Histogram(
            f"wavewright_{name}", text, labels, buckets=BUCKETS, registry=self.registry
        )

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def set_job_counts(self, counts: Mapping[JobState, int]) -> None:
        """Set the number of jobs by state."""
        for state in get_args(JobState):
            self._jobs.labels(state).set(counts.get(state, 0))

    def set_part(self, name: str, *, works: bool) -> None:
        """Set whether a part works."""
        self._up.labels(name).set(works)

    def count_received(self, kind: str, receipt: Receipt) -> None:
        """Count a received message; all unknown types share one series."""
        self._received.labels(kind, receipt.action).inc()

    def count_sent(self, kind: str) -> None:
        """Count a message that the broker confirmed."""
        self._sent.labels(kind).inc()

    def count_dead_lettered(self, kind: str) -> None:
        """Count a message that was dead-lettered."""
        self._dead_lettered.labels(kind).inc()

    def count_undeliverable(self) -> None:
        """Count a message that no queue is bound for."""
        self._undeliverable.inc()

    def count_restarted(self) -> None:
        """Count a job that was started before, here or elsewhere, and did not finish."""
        self._begun_again.inc()

    def set_slots(self, *, busy: int, free: int) -> None:
        """Set the numbers of busy and free slots."""
        self._slots.labels("busy").set(busy)
        self._slots.labels("free").set(free)

    def set_loop_state(self, *, lag: float, is_paused: bool) -> None:
        """Set the lag of the event loop, and whether work waits for the next day's budget."""
        self._lag.set(lag)
        self._paused.set(is_paused)

    def set_model_circuit(self, model: str, state: Literal["closed", "half_open", "open"]) -> None:
        """Set whether a model is asked."""
        self._circuits.labels(model).set(("closed", "half_open", "open").index(state))

    def count_phase(self, event: PhaseEvent) -> None:
        """Count the end of a phase of the run's pipeline."""
        self._phases(event)

    def count_event(self, event: Event, tools: Mapping[StepId, str]) -> None:
        """Count an event of a run.

        Args:
            event: The event.
            tools: Tool by step id in the run's plan.
        """
        match event:
            case StepFinished():
                tool = tools.get(event.step, "unknown")
                self._steps.labels(tool, event.status).inc()
                if event.attempts:
                    self._step_seconds.labels(tool).observe(event.seconds)
                if event.items is None:
                    self._retries.labels(tool).inc(max(0, event.attempts - 1))
                for gate in event.gates:
                    self._gates.labels(gate.verdict, gate.severity).inc()
            case ItemFinished():
                self._retries.labels(tools.get(event.step, "unknown")).inc(
                    max(0, event.attempts - 1)
                )
            case ModelCalled(use=use):
                self._calls.labels(use.role, use.model, use.outcome).inc()
                self._requests.labels(use.role, use.name, use.rung).inc(use.attempts)
                self._tokens.labels(use.role, use.model, "input").inc(use.input_tokens)
                self._tokens.labels(use.role, use.model, "output").inc(use.output_tokens)
                self._usd.labels(use.role, use.model).inc(use.usd or 0.0)
                self._model_seconds.labels(use.role, use.model).observe(use.seconds)
            case RungTaken(rung=rung):
                self._rungs.labels(rung.ladder, rung.rung, rung.outcome).inc()
                self._rung_seconds.labels(rung.ladder, rung.rung).observe(rung.seconds)
            case PlanAccepted():
                self._plans.labels(event.rung).inc()
            case Noted():
                self._note(event, tools)
            case RunFinished():
                self._runs.labels(event.status).inc()
            case _:
                pass

    def _note(self, note: Noted, tools: Mapping[StepId, str]) -> None:
        match note.topic:
            case "review":
                for cap in ReviewResult.model_validate(note.body).applied_caps:
                    self._caps.labels(cap.origin).inc()
            case "kept_plan":
                self._kept_plans.labels(str(note.body["use"])).inc()
                self._kept_tokens.inc(int(str(note.body["tokens_saved"])))
            case topic if topic == TOOL_EVENT:
                self._tool_event(note.body, tools)
            case _:
                pass

    def _tool_event(self, body: JsonObject, tools: Mapping[StepId, str]) -> None:
        name, fields = str(body["event"]), body["fields"]
        self._tool_events.labels(name, tools.get(StepId(str(body["step"])), "unknown")).inc()
        for member, value in fields.items() if isinstance(fields, dict) else ():
            if isinstance(value, int | float) and value >= 0:
                self._tool_event_sums.labels(name, member).inc(value)


BUCKETS: Final = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600)
"""Upper bounds in seconds of the buckets of every histogram."""
MAX_PLACES: Final = 50
"""Places of differences on a line of the log."""
_REASON_CODE = re.compile(r"[A-Z][A-Z0-9_]{1,63}")


@dataclass(frozen=True, slots=True)
class PhaseLog:
    """Writes `phase_finished` at the end of each phase, with the labels of its context.

    The example goes on from that of `Pipeline`.

    >>> import io
    >>> from wavewright.engine import PhaseLog, StructuredLog
    >>> stream = io.StringIO()
    >>> log = StructuredLog(agent="narrator", domain="tabletop", level="debug", stream=stream)
    >>> _ = anyio.run(Pipeline.builder().phase(Double()).build().run, 21, PhaseLog(log))
    >>> "phase_finished" in stream.getvalue()
    True
    """

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
        self.log.write(
            "phase_finished", "warning" if event.outcome is Outcome.FAILED else "debug", **fields
        )


@dataclass(frozen=True, slots=True)
class TwinLog:
    """Writes `twin_compared` for each report of a twin run; values of contexts are not written.

    >>> import io
    >>> from wavewright.engine import StructuredLog, TwinLog, TwinReport
    >>> stream = io.StringIO()
    >>> log = TwinLog(StructuredLog(agent="narrator", domain="tabletop", stream=stream))
    >>> log(TwinReport("old", "new", (), (), ()))
    >>> "twin_compared" in stream.getvalue()
    True
    """

    log: StructuredLog

    def __call__(self, report: TwinReport) -> None:
        """Write the line of a report."""
        places = [
            f"{difference.phase}.{change.dotted_path}"
            for difference in report.differences
            for change in difference.changes
        ]
        fields: JsonObject = {
            "first": report.first,
            "second": report.second,
            "places": [*places[:MAX_PLACES]],
            "phases_only_first": [
                difference.phase
                for difference in report.differences
                if difference.kind == "only_first"
            ],
            "phases_only_second": [
                difference.phase
                for difference in report.differences
                if difference.kind == "only_second"
            ],
            "effects_only_first": len(report.effects_only_first),
            "effects_only_second": len(report.effects_only_second),
            "first_seconds": round(report.first_seconds, 6),
            "second_seconds": round(report.second_seconds, 6),
        }
        if report.failure:
            fields["reason"] = report.failure
        self.log.write("twin_compared", "info" if report.agrees else "warning", **fields)


class TwinMetrics:
    """Counts reports of twin runs by outcome, in a registry of Prometheus.

    >>> from prometheus_client import CollectorRegistry
    >>> from wavewright.engine import TwinMetrics, TwinReport
    >>> TwinMetrics(CollectorRegistry())(TwinReport("old", "new", (), (), ()))
    """

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

    The example goes on from that of `Pipeline`.

    >>> from prometheus_client import CollectorRegistry, generate_latest
    >>> from wavewright.engine import PhaseMetrics
    >>> registry = CollectorRegistry()
    >>> _ = anyio.run(Pipeline.builder().phase(Double()).build().run, 21, PhaseMetrics(registry))
    >>> b'phase="double"' in generate_latest(registry)
    True
    """

    def __init__(self, registry: CollectorRegistry, labels: Sequence[str] = ()) -> None:
        """Create the metrics.

        Args:
            registry: Where they are registered.
            labels: Labels of the context that become labels here; they should have few values, and
                be no ids.
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


@dataclass(frozen=True, slots=True)
class PhaseTrace:
    """Makes a span of each phase, within the span that is current where the pipeline runs.

    The example goes on from that of `Pipeline`.

    >>> from wavewright.engine import PhaseTrace
    >>> anyio.run(Pipeline.builder().phase(Double()).build().run, 21, PhaseTrace()).context
    42
    """

    tracer: Tracer = field(default_factory=lambda: trace.get_tracer(TRACER))

    def __call__(self, event: PhaseEvent) -> None:
        """Make the span of a phase that has ended."""
        if isinstance(event, PhaseRecord):
            record_phase_span(self.tracer, event)


class PipelineMonitor:
    """Log, metrics and traces of the pipelines of a program, made together.

    The example goes on from that of `Pipeline`.

    >>> import io
    >>> from wavewright.engine import PipelineMonitor, StructuredLog
    >>> log = StructuredLog(agent="narrator", domain="tabletop", stream=io.StringIO())
    >>> monitor = PipelineMonitor(log)
    >>> anyio.run(Pipeline.builder().phase(Double()).build().run, 21, *monitor.listeners).context
    42
    """

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
