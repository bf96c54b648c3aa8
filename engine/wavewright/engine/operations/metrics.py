"""Metrics in Prometheus' format.

Names start with `wavewright_`; counters end in `_total`, durations are in seconds, costs in US dollars. Labels have few
values (a tool, a model, a status) and are never ids, so finished jobs leave no series behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

from wavewright.engine.operations.phase_listeners import BUCKETS, PhaseMetrics
from wavewright.engine.pipeline.phase import PhaseEvent
from wavewright.executor.events.types import (
    TOOL_EVENT,
    Event,
    ItemFinished,
    ModelCalled,
    Noted,
    PlanAccepted,
    RunFinished,
    RungTaken,
    StepFinished,
)
from wavewright.executor.store.job_records import JobState, Receipt
from wavewright.planner.types import JsonObject, StepId
from wavewright.reviewer.records import ReviewResult


class Metrics:
    """Metrics of one daemon; each has its own registry, so that two daemons in a process do not mix."""

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
        self._undeliverable = self._counter("messages_undeliverable", "Messages that no queue is bound for")
        self._begun_again = self._counter(
            "jobs_begun_again", "Jobs that were started before and did not finish"
        )
        self._slots = self._gauge("slots", "Slots for jobs", "state")
        self._paused = self._gauge("paused", "Whether the budget of the day is spent")
        self._circuits = self._gauge(
            "model_circuit", "State of a model's circuit: 0 closed, 1 half open, 2 open", "model"
        )
        self._lag = self._gauge("loop_lag_seconds", "Maximum lag of the event loop in the last minute")
        self._runs = self._counter("runs_finished", "Runs that ended", "status")
        self._plans = self._counter("plans_accepted", "Plans that runs accepted", "rung")
        self._kept_plans = self._counter("kept_plans", "Kept plans that were found for a goal", "use")
        self._kept_tokens = self._counter(
            "kept_plan_saved_tokens",
            "Tokens that planners took once for kept plans that were run without one",
        )
        self._steps = self._counter("steps_finished", "Steps that ended", "tool", "status")
        self._step_seconds = self._histogram("step_seconds", "Duration of a step in seconds", "tool")
        self._gates = self._counter("gates_asked", "Gates that were evaluated", "verdict", "severity")
        self._retries = self._counter(
            "step_retries", "Calls of tools that were repeated after an error", "tool"
        )
        self._caps = self._counter("caps_applied", "Caps that lowered a confidence", "origin")
        self._calls = self._counter("model_calls", "Calls of models", "role", "model", "outcome")
        self._requests = self._counter(
            "model_requests", "Requests to models, repeated ones included", "role", "name", "rung"
        )
        self._tokens = self._counter("model_tokens", "Tokens of model calls", "role", "model", "direction")
        self._usd = self._counter("model_usd", "Cost of model calls in US dollars", "role", "model")
        self._model_seconds = self._histogram(
            "model_seconds", "Duration of a model call in seconds", "role", "model"
        )
        self._phases = PhaseMetrics(self.registry)
        self._rungs = self._counter("rungs_taken", "Rungs of ladders", "ladder", "rung", "outcome")
        self._rung_seconds = self._histogram(
            "rung_seconds", "Duration of a rung in seconds", "ladder", "rung"
        )
        self._tool_events = self._counter("tool_events", "Log events that tools define", "event", "tool")
        self._tool_event_sums = self._counter(
            "tool_event_values", "Sums of the numbers in log events that tools define", "event", "field"
        )

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"wavewright_{name}", text, labels, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"wavewright_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, *labels: str) -> Histogram:
        return Histogram(f"wavewright_{name}", text, labels, buckets=BUCKETS, registry=self.registry)

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
                self._retries.labels(tools.get(event.step, "unknown")).inc(max(0, event.attempts - 1))
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
        for field, value in fields.items() if isinstance(fields, dict) else ():
            if isinstance(value, int | float) and value >= 0:
                self._tool_event_sums.labels(name, field).inc(value)


class WorkerMetrics:
    """Calls that a worker has made, by tool."""

    def __init__(self, slots: int) -> None:
        """Create all metrics at zero."""
        self.registry = CollectorRegistry()
        calls = Counter(
            "wavewright_fleet_calls", "Calls that ended", ("tool", "ending"), registry=self.registry
        )
        seconds = Histogram(
            "wavewright_fleet_call_seconds",
            "Duration of a call in seconds",
            ("tool",),
            registry=self.registry,
            buckets=BUCKETS,
        )
        # Finding the metric of some labels costs more than counting.
        self._calls, self._seconds = cache(calls.labels), cache(seconds.labels)
        Gauge("wavewright_fleet_slots", "Maximum of concurrent calls", registry=self.registry).set(slots)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def note_call(self, tool: str, ending: str, seconds: float) -> None:
        """Count a call that has ended."""
        self._calls(tool, ending).inc()
        self._seconds(tool).observe(seconds)
