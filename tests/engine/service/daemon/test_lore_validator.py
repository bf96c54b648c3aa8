"""The pack lore as two daemons with a store: the researcher's packages, the validator's verdicts,
what is stored.
"""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import anyio
import anyio.to_thread
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.engine.service.daemon.conftest import StartDaemon
from tests.engine.service.daemon.daemon_project import (
    PATIENCE,
    BrokerClient,
    DaemonProcess,
    DaemonSite,
)
from tests.support.prepared_command import PipedCommand, run_prepared
from wavewright.engine.service.bus.bus import BusSettings, open_bus
from wavewright.engine.service.bus.topology import Topology
from wavewright.planner.types import JsonObject

pytestmark = pytest.mark.anyio

TOKEN = "the validator's token"  # noqa: S105
RESEARCHER_TOKEN = "the researcher's token"  # noqa: S105
TOOLS = '''

PAGE = "https://tidefall.fandom.com/wiki/Ash_Vale"


def research(zone: str, feedback: list[str] = []) -> dict:
    """Research a zone: first without evidence, then with a source that is called official, then as it should be."""
    _note(f"research {feedback}")
    told = [{"quote": f"{zone} lies below the lanterns.", "url": PAGE}]
    tier = "secondary" if not feedback or "tier" in feedback[0] else "official"
    source = {"url": PAGE, "domain": "tidefall.fandom.com", "tier": tier, "accessed_at": "2026-04-14T09:00:00Z"}
    arc = "Corsairs burn the orchards, and the wardens answer with fire. " * 4
    return {
        "zone_data": {"name": zone, "narrative_arc": arc, "evidence": told if feedback else [], "confidence": 0.6},
        "sources": [source],
        "confidence": {"zone": 0.6},
    }
'''
RESEARCH = """\
name: research
goal: Research a zone
available_tools: [{name: research}]
plan:
  steps: [{id: found, tool: research, params: {zone: "${inputs.variables[0]}"}}]
  result: ${steps.found}
"""
TOUR = """\
name: tour
goal: Research ${inputs.target}
inputs_schema: {type: object, properties: {target: {type: string, maxLength: 10}}}
available_tools: [{name: research}]
targets: {expand: "${inputs.target == 'Ash Vale' ? ['Gull Isle', 'Burnt Hollow'] : []}"}
plan:
  steps: [{id: found, tool: research, params: {zone: "${inputs.target}"}}]
  result: ${steps.found}
"""


@dataclass(frozen=True)
class ServedStore:
    """A store that is served over HTTP."""

    url: str
    process: PipedCommand


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedStore]:
    """Serve an empty store."""
    folder = tmp_path_factory.mktemp("store")
    (folder / "wavewright.yaml").write_text("version: 1\n")
    environment = {
        "WAVEWRIGHT_MCP_TOKEN_VALIDATOR": TOKEN,
        "WAVEWRIGHT_MCP_TOKEN_RESEARCHER": RESEARCHER_TOKEN,
    }
    arguments = ("mcp", "lore-store", "--http", "127.0.0.1:0")
    with PipedCommand(*arguments, folder=folder, environment=environment) as server:
        address = re.search(r"http://\S+", server.stdout.readline())
        assert address is not None
        yield ServedStore(address.group(), server)


@pytest.fixture
async def validator(site: DaemonSite, store: ServedStore) -> DaemonSite:
    """The validator's project beside that of the researcher."""
    (site.folder / "yard.py").write_text((site.folder / "yard.py").read_text() + TOOLS)
    (site.folder / "research.yaml").write_text(RESEARCH)
    validation = "validation: {target_agent: world_lore_validator, iterations: 3}"
    site.write(
        functions="research: {}",
        daemon=f"pack: lore\n  goal_template: research.yaml\n  {validation}",
    )
    (site.folder / "validator").mkdir()
    other = DaemonSite(site.folder / "validator", site.url)
    ours = site.topology
    other.topology = Topology(
        exchange=ours.exchange,
        intake=site.packages,
        outlets=(ours.intake, other.decisions, other.status),
        dead_exchange=ours.dead_exchange,
        dead_queue=ours.dead_queue,
    )
    other.packages = ours.intake
    header = '{Authorization: "Bearer ${env:STORE_TOKEN}"}'
    servers = f"mcp: {{servers: {{lore-store: {{url: '{store.url}', headers: {header}}}}}}}"
    other.write(daemon="pack: lore\n  role: validator", more=servers)
    other.environment["STORE_TOKEN"] = TOKEN
    async with open_bus(BusSettings(other.url, other.topology)):
        pass
    await lock_tools(other)
    return other


async def lock_tools(site: DaemonSite) -> None:
    lock = partial(run_prepared, folder=site.folder, environment=site.whole_environment())
    locked = await anyio.to_thread.run_sync(lock, "tools", "--lock")
    assert locked.returncode == 0, locked.stderr


def request(zone: str) -> bytes:
    envelope: JsonObject = {
        "message_id": str(uuid4()),
        "source_agent": "guest",
        "target_agent": "world_lore_researcher",
        "message_type": "job_request",
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "correlation_id": str(uuid4()),
        "payload": {
            "job_id": str(uuid4()),
            "goal": "Research a zone",
            "zone_name": zone,
            "depth": 0,
            "budget_tokens": 1000,
        },
    }
    return json.dumps(envelope).encode()


def verdicts(researcher: DaemonProcess) -> list[tuple[object, object]]:
    """Return whether the package was accepted, and its number, of each verdict so far."""
    told = [line for line in researcher.lines if line["event"] == "validation_received"]
    return [(line["accepted"], line["iteration"]) for line in told]


async def test_a_package_is_rejected_twice_then_accepted_and_stored(
    site: DaemonSite,
    validator: DaemonSite,
    store: ServedStore,
    client: BrokerClient,
    start: StartDaemon,
) -> None:
    researcher, other = start(), DaemonProcess(validator)
    try:
        await researcher.started()
        await other.started()
        await client.send_raw(request("Ash Vale"))
        # Not by the client, which would read the packages that are the validator's.
        await site.until(lambda: len(verdicts(researcher)) == 3)
    finally:
        other.close()

    assert verdicts(researcher) == [(False, 1), (False, 2), (True, 3)]
    asked = [*site.calls()]
    assert asked[0] == "research []"
    assert "no passage of a page names it" in asked[1]
    assert "the list of sources has the page as secondary, the package as official" in asked[2]
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False) as http,
        Client(streamable_http_client(store.url, http_client=http)) as reader,
    ):
        stored = (
            await reader.call_tool("world_lore_zone", {"name": "Ash Vale"})
        ).structured_content
        everything = (
            await reader.call_tool("world_lore_search", {"query": "orchards"})
        ).structured_content
    assert stored is not None
    assert stored["zone"]["evidence"][0]["quote"] == "Ash Vale lies below the lanterns."
    assert stored["zone"]["confidence"] == 0.6
    assert everything is not None
    assert len(everything["records"]) == 1


async def test_a_package_that_cannot_be_stored_is_rejected_with_the_reason(
    site: DaemonSite,
    validator: DaemonSite,
    store: ServedStore,
    client: BrokerClient,
    start: StartDaemon,
) -> None:
    store.process.send_signal(signal.SIGTERM)
    store.process.wait()
    researcher, other = start(), DaemonProcess(validator)
    try:
        await researcher.started()
        await other.started()
        await client.send_raw(request("Ash Vale"))
        await site.until(lambda: researcher.has_said("zone_failed"))
    finally:
        other.close()

    assert verdicts(researcher) == [(False, 1), (False, 2), (False, 3)]
    *_, rejected = [line for line in researcher.lines if line["event"] == "validation_rejected"]
    assert "the validation failed: " in str(rejected["feedback_summary"])
    [failed] = [line for line in researcher.lines if line["event"] == "zone_failed"]
    assert failed["message"] == "3 of 3 packages were rejected"


async def checkpoints_of(store: ServedStore) -> dict[str, Any]:
    """Return the checkpoints that the store has, by name."""
    headers = {"Authorization": f"Bearer {RESEARCHER_TOKEN}"}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False) as http,
        Client(streamable_http_client(store.url, http_client=http)) as reader,
    ):
        listed = (await reader.call_tool("checkpoint_list", {})).structured_content
        assert listed is not None
        names = [one["name"] for one in listed["checkpoints"]]
        answers = [await reader.call_tool("checkpoint_load", {"name": name}) for name in names]
    return {
        name: (one.structured_content or {})["checkpoint"]
        for name, one in zip(names, answers, strict=True)
    }


async def test_progress_is_copied_into_the_store_after_each_step_and_a_lost_store_stops_nothing(
    site: DaemonSite, store: ServedStore, client: BrokerClient, start: StartDaemon
) -> None:
    (site.folder / "yard.py").write_text((site.folder / "yard.py").read_text() + TOOLS)
    (site.folder / "tour.yaml").write_text(TOUR)
    header = '{Authorization: "Bearer ${env:STORE_TOKEN}"}'
    servers = f"mcp: {{servers: {{lore-store: {{url: '{store.url}', headers: {header}}}}}}}"
    daemon = "pack: lore\n  goal_template: tour.yaml\n  standing: {start: Ash Vale, forks: all, depth: 1, pause: 0}"
    site.write(functions="research: {}", more=servers, daemon=daemon)
    site.environment["STORE_TOKEN"] = RESEARCHER_TOKEN
    await lock_tools(site)
    researcher = start()
    with anyio.fail_after(PATIENCE):
        while not any(one["status"] == "JOB_PARTIALLY_COMPLETED" for one in client.seen):
            await client.read()
        kept = await checkpoints_of(store)
        while not any(one["failed_zones"] for one in kept.values()):
            await client.read()
            kept = await checkpoints_of(store)
        store.process.send_signal(signal.SIGTERM)
        store.process.wait()
        await client.send_raw(request("Ash Vale"))
        await site.until(lambda: researcher.has_said("checkpoint_not_saved"))
        done = len(client.packages)
        while len(client.packages) == done:
            await client.read()

    assert kept.keys() == {"zone.ash_vale", "zone.gull_isle", "zone.burnt_hollow"}
    assert {name: one["current_step"] for name, one in kept.items()} == dict.fromkeys(kept, 10)
    found = kept["zone.burnt_hollow"]
    assert (found["zone_name"], found["current_step"]) == ("Burnt Hollow", 10)
    assert found["completed_zones"] == ["Ash Vale", "Gull Isle"]
    assert [one["zone_name"] for one in found["failed_zones"]] == ["Burnt Hollow"]
    assert (found["progression_queue"], found["priority_queue"], found["daily_tokens_used"]) == (
        [],
        [],
        0,
    )
