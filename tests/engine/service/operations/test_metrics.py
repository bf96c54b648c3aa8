"""What log, metrics and traces hold of a pipeline's phases."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from prometheus_client import CollectorRegistry

from wavewright.engine import (
    PhaseLog,
    PhaseMetrics,
    PhaseResult,
    PhaseTrace,
    Pipeline,
    branch,
    halt,
    proceed,
)
from wavewright.engine.service.operations.logs import StructuredLog

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Turn:
    agent: str = ""
    again: bool = True

    @property
    def labels(self) -> Mapping[str, str]:
        return {"game_id": "g7", "agent_type": self.agent}


class SelectAgent:
    name = "select_agent"

    async def run(self, context: Turn) -> PhaseResult[Turn]:
        return proceed(replace(context, agent="npc"))


class Repeat:
    name = "repeat"

    async def run(self, context: Turn) -> PhaseResult[Turn]:
        if context.again:
            return branch(replace(context, again=False), "select_agent", "once more")
        return halt(context, "HALT_AFTER_NPC_DIALOGUE")


class Fail:
    name = "fail"

    async def run(self, context: Turn) -> PhaseResult[Turn]:
        raise LookupError(context.agent)


async def test_a_phase_is_logged_counted_and_traced_with_its_labels() -> None:
    lines, registry, spans, provider = (
        io.StringIO(),
        CollectorRegistry(),
        InMemorySpanExporter(),
        TracerProvider(),
    )
    provider.add_span_processor(SimpleSpanProcessor(spans))
    tracer = provider.get_tracer("test")
    listeners = (
        PhaseLog(StructuredLog(agent="a", domain="d", level="debug", stream=lines)),
        PhaseMetrics(registry, labels=["agent_type"]),
        PhaseTrace(tracer),
    )

    with tracer.start_as_current_span("request") as request:
        await (
            Pipeline.builder("turn")
            .phase(SelectAgent())
            .phase(Repeat())
            .build()
            .run(Turn(), *listeners)
        )
        with pytest.raises(LookupError):
            await Pipeline.builder("turn").phase(Fail()).build().run(Turn("npc"), *listeners)

    logged = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [
        (line["level"], line["phase"], line["outcome"], line.get("reason"), line.get("branch"))
        for line in logged
    ] == [
        ("debug", "select_agent", "continue", None, None),
        ("debug", "repeat", "branch", "once more", "select_agent"),
        ("debug", "select_agent", "continue", None, None),
        ("debug", "repeat", "halt", "HALT_AFTER_NPC_DIALOGUE", None),
        ("warning", "fail", "failed", "LookupError", None),
    ]
    assert {
        (line["event"], line["pipeline"], line["game_id"], line["agent_type"]) for line in logged
    } == {("phase_finished", "turn", "g7", "npc")}

    def count(phase: str, outcome: str, reason: str = "", target: str = "") -> float | None:
        labels = {"pipeline": "turn", "phase": phase, "outcome": outcome, "agent_type": "npc"}
        return registry.get_sample_value(
            "wavewright_phases_total", {**labels, "reason": reason, "branch": target}
        )

    assert count("select_agent", "continue") == 2
    assert count("repeat", "branch", target="select_agent") == 1
    assert count("repeat", "halt", "HALT_AFTER_NPC_DIALOGUE") == 1
    assert count("fail", "failed", "LookupError") == 1
    timed = {"pipeline": "turn", "phase": "select_agent", "agent_type": "npc"}
    assert registry.get_sample_value("wavewright_phase_seconds_count", timed) == 2

    *phases, _ = spans.get_finished_spans()
    assert [span.name for span in phases] == [f"phase {line['phase']}" for line in logged]
    assert {span.parent.span_id for span in phases if span.parent} == {
        request.get_span_context().span_id
    }
    assert dict(phases[1].attributes or {}) == {
        "wavewright.game_id": "g7",
        "wavewright.agent_type": "npc",
        "wavewright.pipeline": "turn",
        "wavewright.outcome": "branch",
        "wavewright.reason": "once more",
        "wavewright.branch": "select_agent",
    }
    assert phases[-1].status.status_code is StatusCode.ERROR
