"""Every log event of the table that users of zone researchers know, from a standing job with the
pack `lore`.
"""

from __future__ import annotations

import json
import signal
import time
from typing import cast
from uuid import uuid4

import anyio
import pytest

from tests.engine.service.daemon.conftest import InProcess, StartDaemon
from tests.engine.service.daemon.daemon_project import PATIENCE, BrokerClient, DaemonSite
from tests.repository.tree import ROOT
from wavewright.engine.rehearsal.fake_model.replies import calling_tool
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.engine.service.messages.models import UserDecisionResponse
from wavewright.planner.types import JsonObject

pytestmark = pytest.mark.anyio

WORLD = ROOT / "plans" / "lore" / "world"

TOOLS = '''
from dataclasses import dataclass

from wavewright.tools.functions.injected import Emit, LogEvent


@dataclass(frozen=True)
class SearchExecuted(LogEvent):
    query: str
    results: int


@dataclass(frozen=True)
class CrawlExecuted(LogEvent):
    url: str
    characters: int


@dataclass(frozen=True)
class ConflictDetected(LogEvent):
    data_point: str
    source_a: str
    source_b: str


def study(place: str, feedback: list[str] = [], *, emit: Emit) -> dict:
    """Find out about a place."""
    _note(f"study {place}")
    if place == "Nowhere":
        raise LookupError("no map shows Nowhere")
    emit(SearchExecuted(query=place, results=2))
    emit(CrawlExecuted(url="https://a.example/", characters=120))
    emit(ConflictDetected(data_point="era", source_a="https://a.example/", source_b="https://b.example/"))
    near = ["Nowhere", "Duskwood"] if place == "Westfall" else []
    return {"zone": {"name": place}, "npcs": [{"name": "Gryan"}], "near": near}
'''
TEMPLATE = """\
name: zones
goal: Study ${inputs.target}
available_tools: [{name: study}, {name: say}, {name: agent}]
inputs_schema:
  type: object
  properties: {target: {type: string}, depth: {type: integer}}
targets: {expand: "${steps.seen.near}"}
plan:
  steps:
    - {id: seen, tool: study, params: {place: "${inputs.target}"}}
    - {id: found, tool: agent, params: {task: "Look for it", tools: [say]}, depends_on: [seen]}
    - {id: again, tool: agent, params: {task: "Look for it again", tools: [say]}, depends_on: [found]}
  result: {zone_data: "${steps.seen.zone}", npcs: "${steps.seen.npcs}"}
"""
REVIEW: JsonObject = {
    "goal_achieved": True,
    "confidence": 0.9,
    "summary": "It was found.",
    "missing_data": [],
    "recovery_actions": [],
}
TABLE = {
    "daemon_started": ("info", "slots"),
    "checkpoint_loaded": ("info", "zone", "step", "queue_size"),
    "research_cycle_started": ("info", "zone_name"),
    "pipeline_step_started": ("info", "zone_name", "step_number", "step_name"),
    "pipeline_step_completed": ("info", "zone_name", "step_number", "duration_ms", "tokens_used"),
    "search_executed": ("debug", "query", "result_count"),
    "crawl_executed": ("debug", "url", "content_length"),
    "conflict_detected": ("warning", "zone_name", "data_point", "source_a", "source_b"),
    "package_sent": ("info", "zone_name", "data_point_count", "total_sources"),
    "validation_received": ("info", "zone_name", "accepted", "iteration"),
    "validation_rejected": ("warning", "zone_name", "feedback_summary", "iteration"),
    "fork_detected": ("info", "zone_name", "options"),
    "user_decision_requested": ("info", "decision_id", "options"),
    "user_decision_received": ("info", "decision_id", "choice"),
    "budget_warning": ("warning", "budget_type", "used", "remaining"),
    "budget_exhausted": ("warning", "budget_type", "action"),
    "error": ("error", "error_type", "message", "retry_count"),
    "daemon_shutdown": ("info", "reason"),
    "zone_tokens": ("info", "zone_name", "total_tokens", "orchestrator_tokens", "worker_tokens"),
    "zone_failed": ("error", "zone", "message"),
}
"""Event → level and fields."""


@pytest.fixture
def zones(site: DaemonSite, model_server: FakeModelServer) -> DaemonSite:
    """A daemon that researches zones from Westfall on, with a model and a validator."""
    with (site.folder / "yard.py").open("a") as file:
        file.write(TOOLS)
    (site.folder / "zones.yaml").write_text(TEMPLATE)
    said = (calling_tool("say", text="one"), calling_tool("say", text="two"), "Found.")
    model_server.answer(
        lambda asked: said[sum(one.role == "tool" for one in asked.messages)], when="Look for it"
    )
    model_server.answer(REVIEW, when=asked_for("review"))
    site.environment |= model_server.environment()
    site.write(
        functions="study: {}, say: {effects: [read]}",
        more="ladders: {planner: [{name: template}]}\nbudgets: {run: {calls: 15}}",
        daemon="pack: lore\n  goal_template: zones.yaml\n  log_level: debug\n  validation: {iterations: 2}\n"
        "  standing: {start: Westfall, depth: 1, pause: 0, tokens_per_cycle: 17000}",
    )
    return site


async def judge(client: BrokerClient, number: int, *, accepted: bool) -> None:
    """Give a verdict, without ids, on the package that came so many-th."""
    with anyio.fail_after(PATIENCE):
        while len(client.packages) < number:
            await client.read()
            await anyio.sleep(0.02)
    package = json.loads(client.packages[number - 1].body)
    assert package["message_type"] == "research_package"
    feedback: JsonObject = {
        "field": "npcs",
        "reason": "one is missing",
        "suggestion": "ask in the inn",
    }
    payload: JsonObject = {
        "zone_name": package["payload"]["zone_name"],
        "accepted": accepted,
        "feedback": [] if accepted else [feedback],
        "iteration": package["payload"]["iteration"],
    }
    verdict: JsonObject = {
        "message_id": str(uuid4()),
        "source_agent": "world_lore_validator",
        "target_agent": "world_lore_researcher",
        "message_type": "validation_result",
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "correlation_id": package["correlation_id"],
        "payload": payload,
    }
    await client.send_raw(json.dumps(verdict).encode())


OF_ZONES = (
    "research_cycle_started",
    "pipeline_step_started",
    "pipeline_step_completed",
    "search_executed",
    "crawl_executed",
    "conflict_detected",
    "package_sent",
    "validation_received",
    "validation_rejected",
    "fork_detected",
    "zone_tokens",
)
"""Events that are about one zone."""


@pytest.mark.timeout(180)
async def test_the_shipped_template_names_the_zone_in_each_event_with_its_fields(
    site: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    search = {"provider": "local", "folder": str(WORLD), "base_url": "https://world.example"}
    # Titles, tables and links carry what the events tell: no model has to be loaded for prose.
    lore = {"web": {"search": search}, "extraction": {"model": "none"}}
    site.write(
        functions="say: {}",
        more=f"packs: {json.dumps({'lore': lore})}",
        daemon="pack: lore\n  log_level: debug\n  validation: {iterations: 2}\n"
        "  standing: {start: Harrow Fen, inputs: {game: Lanternmere}, depth: 1, pause: 0}",
    )
    daemon = start()
    await judge(client, 1, accepted=False)
    await judge(client, 2, accepted=True)
    [asked] = await client.until_asked(1)
    options = cast("list[str]", asked["options"])
    await client.send(
        UserDecisionResponse(decision_id=str(asked["decision_id"]), choice=options[0])
    )
    await judge(client, 3, accepted=True)
    await site.until(lambda: daemon.count("validation_received") == 3)
    daemon.signal(signal.SIGTERM)
    await daemon.ended()

    told = {event: [one for one in daemon.lines if one["event"] == event] for event in OF_ZONES}
    assert [event for event in OF_ZONES if not told[event]] == []
    for event in OF_ZONES:
        level, *names = TABLE[event]
        for line in told[event]:
            assert line["level"] == level
            assert {*names} <= {*line}
            assert line["zone_name"] in {"Harrow Fen", *options}, line
    [fork] = told["fork_detected"]
    assert (fork["zone_name"], fork["options"]) == ("Harrow Fen", options)
    assert [
        (one["zone_name"], one["iteration"], one["accepted"]) for one in told["validation_received"]
    ] == [("Harrow Fen", 1, False), ("Harrow Fen", 2, True), (options[0], 1, True)]
    points = {one["data_point"]: one["zone_name"] for one in told["conflict_detected"]}
    assert points["Harrow Fen: level_range"] == "Harrow Fen"
    assert all(one["source_a"] != one["source_b"] for one in told["conflict_detected"])


async def test_all_messages_of_a_zone_request_have_its_correlation_and_name_the_zone(
    site: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    job, correlation = str(uuid4()), str(uuid4())
    search = {"provider": "local", "folder": str(WORLD), "base_url": "https://world.example"}
    lore = {"web": {"search": search}, "extraction": {"model": "none"}}
    site.write(
        functions="say: {}", more=f"packs: {json.dumps({'lore': lore})}", daemon="pack: lore"
    )
    request: JsonObject = {
        "message_id": str(uuid4()),
        "source_agent": "ui",
        "target_agent": "world_lore_researcher",
        "message_type": "job_request",
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "correlation_id": correlation,
        "payload": {
            "job_id": job,
            "goal": "Research the fen",
            "depth": 0,
            "budget_tokens": 100_000,
            "zone_name": "Harrow Fen",
        },
    }
    async with in_process():
        await client.send_raw(json.dumps(request).encode())
        await judge(client, 1, accepted=True)
        done = await client.until_told(job, "JOB_COMPLETED")

    packages = [json.loads(message.body) for message in client.packages]
    told = [str(one["correlation_id"]) for one in (*client.status_envelopes, *packages)]
    assert set(told) == {correlation}
    assert [one["payload"]["zone_name"] for one in packages] == ["Harrow Fen"]
    zones = [(one["status"], one["zone_name"]) for one in client.seen if "zone_name" in one]
    of_ends = [(status, zone) for status, zone in zones if str(status).startswith("ZONE_")]
    assert of_ends == [("ZONE_STARTED", "Harrow Fen"), ("ZONE_COMPLETED", "Harrow Fen")]
    assert (done["zones_completed"], done["zones_total"]) == (1, 1)
    assert not [one for one in client.seen if str(one["status"]).startswith("TARGET_")]


async def test_every_event_of_the_table_is_logged_with_its_level_and_fields(
    zones: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    first = start()
    await judge(client, 1, accepted=False)
    await judge(client, 2, accepted=True)
    [asked] = await client.until_asked(1)
    first.signal(signal.SIGTERM)
    await first.ended()
    second = start()
    await second.started()
    await client.send(UserDecisionResponse(decision_id=str(asked["decision_id"]), choice="Nowhere"))
    await judge(client, 3, accepted=True)
    await zones.until(lambda: second.has_said("job_finished") and second.has_said("zone_failed"))
    second.signal(signal.SIGTERM)
    await second.ended()

    lines = [*first.lines, *second.lines]
    missing = set(TABLE) - {str(line["event"]) for line in lines}
    assert missing == set()
    for event, (level, *names) in TABLE.items():
        told = [line for line in lines if line["event"] == event and line["level"] == level]
        assert any(all(name in line for name in names) for line in told), (event, told)
    assert {line["domain"] for line in lines} == {"world_lore"}
    cycles = [line["zone_name"] for line in lines if line["event"] == "research_cycle_started"]
    assert cycles == ["Westfall", "Nowhere", "Duskwood"]
    rejected = next(line for line in lines if line["event"] == "validation_rejected")
    assert rejected["feedback_summary"] == "npcs: one is missing; ask in the inn"
    for line in lines:
        if line["event"] == "zone_tokens":
            own = (line["orchestrator_tokens"], line["worker_tokens"])
            assert line["total_tokens"] == sum(int(str(tokens)) for tokens in own)
