"""Traces of runs that no daemon executes: of a command, and of a program with a tracer provider of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.trace_collector import TraceCollector

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "TRACEPARENT"))
}
PROJECT = {
    "wavewright.yaml": "tools: [tools.py]\n",
    "tools.py": "def double(number: int) -> int:\n    return 2 * number\n",
    "job.yaml": "name: six\nplan: {steps: [{id: two, tool: double, params: {number: 3}}], result: '${steps.two}'}\n",
}
PROGRAM = """
import anyio
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from wavewright.engine import Wavewright

spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)


async def main() -> None:
    with trace.get_tracer("app").start_as_current_span("request"):
        async with Wavewright.from_project(".") as ww:
            await ww.run("job.yaml")


anyio.run(main)
found = {span.name: span for span in spans.get_finished_spans()}
assert found["run"].parent.span_id == found["request"].context.span_id, found
assert found["step two"].context.trace_id == found["request"].context.trace_id
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in PROJECT.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_command_sends_its_run_to_the_collector_as_part_of_the_callers_trace(folder: Path) -> None:
    with TraceCollector() as collector:
        environment = {
            **ENVIRONMENT,
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "TRACEPARENT": f"00-{TRACE}-{PARENT}-01",
        }
        subprocess.run(
            [sys.executable, "-m", "wavewright.engine.main", "run", "job.yaml", "--quiet"],
            cwd=folder,
            env=environment,
            check=True,
            timeout=60,
        )

    spans = {span.name: span for span in collector.spans}
    assert {span.trace_id.hex() for span in spans.values()} == {TRACE}
    assert spans["run"].parent_span_id.hex() == PARENT
    assert {"plan", "wave 0", "step two", "phase check_plan"} <= spans.keys()


def test_a_program_keeps_its_tracer_provider_and_a_run_is_within_its_span(folder: Path) -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], cwd=folder, env=ENVIRONMENT, check=True, timeout=60)
