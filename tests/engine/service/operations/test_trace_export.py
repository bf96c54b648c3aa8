"""Traces of runs that no daemon executes: of a command, and of a program with a tracer provider of
its own.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import cast

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp_types import RequestParamsMeta

from tests.support.prepared_command import run_prepared, run_prepared_python
from tests.support.trace_collector import TraceCollector

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("OTEL_", "TRACEPARENT"))
}
PROJECT = {
    "wavewright.yaml": "tools: [tools.py]\n",
    "tools.py": "def double(number: int) -> int:\n    return 2 * number\n",
    "job.yaml": "name: six\nplan: {steps: [{id: two, tool: double, params: {number: 3}}], result: '${steps.two}'}\n",
}
PROGRAM = """
import sys

sys.modules["prometheus_client"] = None  # of another extra
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


def test_a_command_sends_its_run_to_the_collector_as_part_of_the_callers_trace(
    folder: Path,
) -> None:
    with TraceCollector() as collector:
        environment = {
            **ENVIRONMENT,
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "TRACEPARENT": f"00-{TRACE}-{PARENT}-01",
        }
        ran = run_prepared("run", "job.yaml", "--quiet", folder=folder, environment=environment)
        assert ran.returncode == 0, ran.stderr

    spans = {span.name: span for span in collector.spans}
    assert {span.trace_id.hex() for span in spans.values()} == {TRACE}
    assert spans["run"].parent_span_id.hex() == PARENT
    assert {"plan", "wave 0", "step two", "phase check_plan"} <= spans.keys()


MCP_SERVER = """
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("clock")


@server.tool()
async def traceparent(context: Context) -> str:
    return context.request_context.meta["traceparent"]


server.run()
"""


def test_the_trace_goes_on_in_calls_of_mcp_servers(folder: Path) -> None:
    (folder / "server.py").write_text(MCP_SERVER)
    (folder / "wavewright.yaml").write_text(
        f"mcp: {{servers: {{clock: {{command: {sys.executable}, args: [server.py]}}}}}}\n"
    )
    (folder / "job.yaml").write_text(
        "name: ask\nplan: {steps: [{id: seen, tool: clock.traceparent, params: {}}], result: '${steps.seen}'}\n"
    )
    with TraceCollector() as collector:
        environment = {
            **ENVIRONMENT,
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "TRACEPARENT": f"00-{TRACE}-{PARENT}-01",
        }
        printed = ""
        for command in (("tools", "--lock"), ("run", "job.yaml", "--json")):
            ran = run_prepared(*command, folder=folder, environment=environment)
            printed = ran.stdout
            assert ran.returncode == 0, printed + ran.stderr

    spans = {span.name: span for span in collector.spans}
    [called] = [span for span in spans.values() if span.name.startswith("MCP send tools/call")]
    assert f"00-{TRACE}-{called.span_id.hex()}-01" in printed
    assert called.parent_span_id == spans["run"].span_id
    assert spans["run"].parent_span_id.hex() == PARENT


@pytest.mark.anyio
async def test_a_run_that_an_mcp_client_asks_for_is_part_of_the_clients_trace(folder: Path) -> None:
    with TraceCollector() as collector:
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "wavewright.engine.main", "mcp", "--allow-runs"],
            cwd=folder,
            env={**ENVIRONMENT, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url},
        )
        meta = cast("RequestParamsMeta", {"traceparent": f"00-{TRACE}-{PARENT}-01"})
        with anyio.fail_after(50):
            async with Client(stdio_client(server)) as client:
                ran = await client.call_tool("run_plan", {"file": "job.yaml"}, meta=meta)

    assert not ran.is_error, ran
    spans = {span.span_id: span for span in collector.spans}
    [run] = [span for span in spans.values() if span.name == "run"]
    assert run.trace_id.hex() == TRACE
    assert spans[run.parent_span_id].parent_span_id.hex() == PARENT


def test_a_program_keeps_its_tracer_provider_and_a_run_is_within_its_span(folder: Path) -> None:
    ran = run_prepared_python("-c", PROGRAM, folder=folder, environment=ENVIRONMENT)
    assert ran.returncode == 0, ran.stderr
