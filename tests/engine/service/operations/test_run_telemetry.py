"""What is logged, counted and traced of a run, from the events of real runs."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from tests.engine.conftest import CommandLine
from tests.engine.stale_quotes_project import write_quotes_project
from wavewright.engine.run.pipeline.phase import Outcome, PhaseRecord
from wavewright.engine.service.operations.job_logs import RunLog
from wavewright.engine.service.operations.logs import StructuredLog
from wavewright.engine.service.operations.metrics import Metrics
from wavewright.engine.service.operations.trace_export import export_traces
from wavewright.engine.service.operations.tracing import RunTrace
from wavewright.executor.events.codec import from_json
from wavewright.executor.events.types import (
    Event,
    ItemFinished,
    ModelCalled,
    Noted,
    RunFinished,
    RungTaken,
    RunStarted,
    StepFinished,
    WaveStarted,
)
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.ports.model_port import ModelUse
from wavewright.planner.types import JsonObject, RunId, StepId


@pytest.fixture
def events(tmp_path: Path, wavewright: CommandLine) -> list[Event]:
    """A run whose quotes are stale at first, and are fetched anew by a recipe."""
    write_quotes_project(tmp_path)
    *lines, _ = wavewright("run", "quotes.job.yaml", "--json").out.splitlines()
    return [from_json(json.loads(line)) for line in lines]


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


def logged(events: list[Event]) -> list[JsonObject]:
    stream = io.StringIO()
    log = RunLog(StructuredLog(agent="a", domain="d", stream=stream), "job-1", "Westfall")
    for event in events:
        log(event)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def traced(events: list[Event], spans: InMemorySpanExporter) -> list[ReadableSpan]:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace = RunTrace("job-1", provider.get_tracer("test"))
    for event in events:
        trace(event)
    trace.abandon(events[-1].at)
    return list(spans.get_finished_spans())


def test_phases_are_spans_within_their_run_also_before_it_begins_and_after_its_end(
    events: list[Event], spans: InMemorySpanExporter
) -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace = RunTrace("job-1", provider.get_tracer("test"))

    trace(PhaseRecord("read_job", Outcome.CONTINUE, 0.5, started=1.0))
    for event in events:
        trace(event)
    trace(PhaseRecord("publish_package", Outcome.HALT, 0.5, "no room", started=2.0))
    trace.abandon(events[-1].at)

    found = {span.name: span for span in spans.get_finished_spans()}
    run = found["run"].get_span_context()
    phases = [found["phase read_job"], found["phase publish_package"]]
    assert run is not None
    assert [span.parent and span.parent.span_id for span in phases] == [run.span_id] * 2
    assert (phases[0].end_time or 0) - (phases[0].start_time or 0) == 500_000_000
    assert (phases[1].attributes or {})["wavewright.reason"] == "no room"


def test_the_log_follows_the_run_from_its_cycle_to_its_tokens(events: list[Event]) -> None:
    lines = logged(events)

    names = [line["event"] for line in lines]
    assert names[0] == "run_started"
    assert names[-2:] == ["run_tokens", "run_finished"]
    assert all(line["target"] == "Westfall" for line in lines)
    started = [line for line in lines if line["event"] == "pipeline_step_started"]
    completed = [line for line in lines if line["event"] == "pipeline_step_completed"]
    assert {str(line["step_name"]) for line in started} == {
        str(line["step_name"]) for line in completed
    }
    assert all(isinstance(line["duration_ms"], int) and "tokens_used" in line for line in completed)


def test_a_resumed_run_has_the_numbers_of_its_steps_and_all_of_its_tokens() -> None:
    body: JsonObject = {
        "tools": {"pages": "fetch", "text": "write"},
        "step": 1,
        "queue_size": 1,
        "orchestrator_tokens": 40,
        "worker_tokens": 2,
    }
    use = ModelUse("worker", "w", "m", "answered", 30, 3, step=StepId("text"))

    lines = logged(
        [
            Noted(1.0, "resumed", body),
            WaveStarted(1.0, 0, (StepId("text"),), 0),
            ModelCalled(1.0, use),
            RunFinished(2.0, "achieved"),
        ]
    )

    loaded, step, tokens, _ = lines
    assert (loaded["event"], loaded["step"], loaded["queue_size"]) == ("checkpoint_loaded", 1, 1)
    assert (step["step_number"], step["step_name"], step["tool"]) == (2, "text", "write")
    assert (tokens["orchestrator_tokens"], tokens["worker_tokens"], tokens["total_tokens"]) == (
        40,
        35,
        75,
    )


def test_a_run_that_stops_before_its_end_has_no_tokens_to_tell_yet() -> None:
    assert [line["event"] for line in logged([RunFinished(2.0, "interrupted")])] == ["run_finished"]


def test_a_job_with_targets_starts_and_ends_by_other_names_than_the_run_of_each() -> None:
    started = RunStarted(run=RunId("r"), at=1.0, job="j", goal={}, now=1.0, versions={})
    wanted = Noted(1.0, "targets", {})

    lines = logged([started, wanted, RunFinished(2.0, "achieved")])

    assert [line["event"] for line in lines] == ["job_started", "job_finished"]


def test_a_red_gate_and_the_recovery_are_told(events: list[Event]) -> None:
    lines = logged(events)

    failed = [line for line in lines if line["event"] == "gate_failed"]
    assert [(line["level"], line["step_name"], line["gate"]) for line in failed] == [
        ("warning", "quotes", "fresh__quotes")
    ] * 2
    assert [line["reason"] for line in lines if line["event"] == "recovery_planned"] == [
        "the quotes are stale"
    ]


def test_tokens_of_workers_and_of_the_orchestrator_are_told_apart() -> None:
    uses = [
        ModelUse("planner", "planner", "m", "answered", 100, 10),
        ModelUse("worker", "w", "m", "answered", 30, 3, step=StepId("a")),
    ]

    lines = logged([*(ModelCalled(1.0, use) for use in uses), RunFinished(2.0, "achieved")])

    assert {key: value for key, value in lines[0].items() if key.endswith("tokens")} == {
        "total_tokens": 143,
        "orchestrator_tokens": 110,
        "worker_tokens": 33,
    }


def test_a_count_of_tokens_beyond_belief_is_an_alarm() -> None:
    use = ModelUse("worker", "w", "m", "answered", 10, 10**12, is_implausible=True)

    (line,) = logged([ModelCalled(1.0, use)])

    assert (line["event"], line["level"], line["model"]) == (
        "model_usage_implausible",
        "warning",
        "m",
    )
    assert line["total_tokens"] == 10**12 + 10


def test_a_call_that_a_budget_refuses_is_told() -> None:
    refused = ModelUse("worker", "w", "m", "over_budget", message="the day's tokens are spent")

    (line,) = logged([ModelCalled(1.0, refused)])

    assert (line["event"], line["level"]) == ("budget_exhausted", "warning")


def test_an_event_of_a_tool_is_a_line_of_its_own_and_counted() -> None:
    fields: JsonObject = {
        "place": "docs",
        "pages": 3,
        "is_whole": True,
        "change": -2.5,
        "note": None,
    }
    body: JsonObject = {"event": "page_read", "step": "a", "index": None, "fields": fields}
    events: list[Event] = [Noted(1.0, "tool_event", body)] * 2
    metrics = Metrics()
    for event in events:
        metrics.count_event(event, {StepId("a"): "read"})

    line = logged(events)[0]

    assert {name: line[name] for name in ("event", "level", "step_name", *fields)} == {
        "event": "page_read",
        "level": "info",
        "step_name": "a",
        **fields,
    }
    text = metrics.text().decode()
    assert 'wavewright_tool_events_total{event="page_read",tool="read"} 2.0' in text
    assert 'wavewright_tool_event_values_total{event="page_read",field="pages"} 6.0' in text
    assert 'field="change"' not in text


def test_metrics_count_steps_by_tool_and_runs_by_status(events: list[Event]) -> None:
    log, metrics = (
        RunLog(StructuredLog(agent="a", domain="d", stream=io.StringIO()), "j", "z"),
        Metrics(),
    )
    for event in events:
        log(event)
        metrics.count_event(event, log.tools)

    text = metrics.text().decode()
    assert 'wavewright_steps_finished_total{status="ok",tool="fetch"} 2.0' in text
    assert 'wavewright_runs_finished_total{status="achieved"} 1.0' in text
    assert 'wavewright_gates_asked_total{severity="block",verdict="fail"}' in text


def test_rungs_caps_and_retries_are_spans_and_counted(spans: InMemorySpanExporter) -> None:
    cap: JsonObject = {
        "field": "overall",
        "max": 0.8,
        "because": "stale",
        "applied": True,
        "origin": "goal",
    }
    other: JsonObject = {**cap, "field": "price", "applied": False}
    review: JsonObject = {
        "goal_achieved": True,
        "reviewer": "code",
        "confidence": 0.8,
        "summary": "s",
        "caps": [cap, other],
    }
    told: list[Event] = [
        RunStarted(run=RunId("r"), at=1.0, job="j", goal={}, now=1.0, versions={}),
        RungTaken(3.0, RungRecord("planner", "model", "fallen", "no answer", seconds=1.5)),
        ItemFinished(4.0, StepId("each"), 0, None, "ok", attempts=3),
        StepFinished(4.0, StepId("each"), "ok", attempts=3, items=(1, 1)),
        StepFinished(4.0, StepId("one"), "ok", attempts=2),
        Noted(5.0, "review", review),
        RunFinished(6.0, "achieved"),
    ]
    metrics = Metrics()
    for event in told:
        metrics.count_event(event, {StepId("each"): "fetch", StepId("one"): "write"})

    found = {span.name: span for span in traced(told, spans)}

    rung, lowered = found["rung model"], found["cap overall"]
    assert (rung.start_time, rung.end_time) == (1_500_000_000, 3_000_000_000)
    assert rung.attributes == {
        "rung.ladder": "planner",
        "rung.outcome": "fallen",
        "rung.ceiling": 1.0,
    }
    assert lowered.attributes == {"cap.max": 0.8, "cap.origin": "goal"}
    assert "cap price" not in found
    text = metrics.text().decode()
    assert 'wavewright_caps_applied_total{origin="goal"} 1.0' in text
    assert 'wavewright_step_retries_total{tool="fetch"} 2.0' in text
    assert 'wavewright_step_retries_total{tool="write"} 1.0' in text
    assert (
        'wavewright_rungs_taken_total{ladder="planner",outcome="fallen",rung="model"} 1.0' in text
    )


def test_spans_nest_as_run_wave_step_and_gate_and_bear_the_events_times(
    events: list[Event], spans: InMemorySpanExporter
) -> None:
    found = traced(events, spans)

    by_id = {span.context.span_id: span for span in found if span.context is not None}
    run = next(span for span in found if span.name == "run")
    step = next(span for span in found if span.name == "step sheet")
    gate = next(span for span in found if span.name.startswith("gate fresh"))
    assert run.parent is None
    assert step.parent is not None
    assert by_id[step.parent.span_id].name.startswith("wave ")
    assert gate.parent is not None
    assert by_id[gate.parent.span_id].name.startswith("step quotes")
    assert "plan" in {span.name for span in found}
    assert run.start_time == int(events[0].at * 1e9)
    assert run.end_time == int(events[-1].at * 1e9)
    assert run.attributes is not None
    assert run.attributes["run.status"] == "achieved"


def test_a_blocked_step_is_an_error_in_the_trace_and_its_output_is_not_in_it(
    events: list[Event], spans: InMemorySpanExporter
) -> None:
    found = traced(events, spans)

    blocked = [
        span
        for span in found
        if span.name == "step sheet" and span.status.status_code is StatusCode.ERROR
    ]
    assert blocked
    assert "quotes at" not in "".join(span.to_json() for span in found)


def test_a_run_that_is_resumed_elsewhere_ends_its_spans_here(
    events: list[Event], spans: InMemorySpanExporter
) -> None:
    half = events[: len(events) // 2]

    found = traced(half, spans)

    assert all(span.end_time is not None for span in found)
    assert sum(span.name == "run" for span in found) == 1


def test_no_collector_means_no_export() -> None:
    with export_traces({}) as exports:
        assert not exports


def test_what_a_plan_hands_over_under_a_secrets_name_is_in_no_line(
    tmp_path: Path, wavewright: CommandLine
) -> None:
    (tmp_path / "wavewright.yaml").write_text("tools: [ask.py]\n")
    (tmp_path / "ask.py").write_text(
        "def ask(api_key: str) -> str:\n    raise ValueError('no: ' + api_key)\n"
    )
    (tmp_path / "job.yaml").write_text(
        "name: x\nplan: {steps: [{id: s, tool: ask, params: {api_key: of-the-sender}}], result: '${steps.s}'}\n"
    )
    *lines, _ = wavewright("run", "job.yaml", "--json").out.splitlines()

    said = json.dumps(logged([from_json(json.loads(line)) for line in lines]))

    assert "no: [redacted]" in said
    assert "of-the-sender" not in said


def test_a_pause_logs_nothing_of_steps_that_had_not_begun(events: list[Event]) -> None:
    begun = next(place for place, event in enumerate(events) if isinstance(event, WaveStarted))
    ended = [event.step for event in events if isinstance(event, StepFinished)]
    paused = [
        StepFinished(at=2.0, step=step, status="cancelled", reason="stopped") for step in ended
    ]

    lines = logged([*events[:begun], *paused, RunFinished(3.0, "interrupted", "stopped")])

    assert paused
    assert [line["event"] for line in lines if line["level"] != "info"] == []
    assert "pipeline_step_completed" not in [line["event"] for line in lines]
