"""The researcher of the pack `lore` as a daemon over the small invented world: by itself, and asked
for zones.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest

from tests.engine.service.daemon.conftest import StartDaemon
from tests.engine.service.daemon.daemon_project import (
    PATIENCE,
    BrokerClient,
    DaemonProcess,
    DaemonSite,
)
from tests.repository.tree import ROOT
from tests.support.prepared_command import new_process

pytestmark = pytest.mark.anyio

WORLD: Path = ROOT / "plans" / "lore" / "world"


async def test_it_goes_from_zone_to_zone_and_a_killed_one_is_followed(
    site: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    search = {"provider": "local", "folder": str(WORLD), "base_url": "https://world.example"}
    site.write(
        functions="say: {}",
        more=f"packs: {json.dumps({'lore': {'web': {'search': search}}})}",
        daemon="pack: lore\n  standing: {start: Harrow Fen, inputs: {game: Lanternmere},"
        " forks: all, depth: 1, pause: 0}",
    )
    site.environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
    )
    first = DaemonProcess(
        site, "document", spawn=partial(new_process, module="tests.crash.dying_daemon")
    )
    first_exit = await first.ended()
    first.close()
    second = start()
    with anyio.fail_after(PATIENCE):
        while not any(one["status"] == "JOB_COMPLETED" for one in client.seen):
            await client.read()
            await anyio.sleep(0.05)
    await client.read()
    second.signal(signal.SIGTERM)

    assert first_exit == -signal.SIGKILL, first.text
    assert await second.ended() == 0
    packages = [json.loads(message.body) for message in client.packages]
    zones = [package["payload"]["zone_name"] for package in packages]
    assert {package["message_type"] for package in packages} == {"research_package"}
    assert zones[0] == "Harrow Fen"
    assert "Saltwind Coast" in zones
    assert len({*zones}) == len(zones) > 1
    assert packages[0]["payload"]["npcs"]
    assert packages[0]["payload"]["sources"]
    assert second.has_said("checkpoint_loaded")


def request(zone: str) -> bytes:
    """Return the message that asks for the research of a zone alone."""
    payload = {
        "job_id": str(uuid4()),
        "goal": "Research a zone",
        "zone_name": zone,
        "depth": 0,
        "budget_tokens": 1_000_000,
    }
    envelope = {
        "message_id": str(uuid4()),
        "source_agent": "guest",
        "target_agent": "world_lore_researcher",
        "message_type": "job_request",
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "correlation_id": str(uuid4()),
        "payload": payload,
    }
    return json.dumps(envelope).encode()


async def packages_of(client: BrokerClient, zones: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Ask for zones at once; return by zone what their packages say, without the times of reading."""
    before = len(client.packages)
    for zone in zones:
        await client.send_raw(request(zone))
    with anyio.fail_after(PATIENCE):
        while len(client.packages) < before + len(zones):
            await client.read()
            await anyio.sleep(0.02)
    said = [json.loads(message.body)["payload"] for message in client.packages[before:]]
    parts = ("npcs", "factions", "lore", "narrative_items")
    return {
        one["zone_name"]: {
            part: [
                (record["name" if part != "lore" else "title"], record["evidence"])
                for record in one[part]
            ]
            for part in parts
        }
        | {
            "zone": one["zone_data"]["name"],
            "sources": [source["url"] for source in one["sources"]],
            "confidence": one["confidence"],
        }
        for one in said
    }


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_two_zones_at_once_become_the_packages_that_each_becomes_alone(
    site: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    search = {"provider": "local", "folder": str(WORLD), "base_url": "https://world.example"}
    site.write(
        functions="say: {}",
        more=f"packs: {json.dumps({'lore': {'web': {'search': search}}})}",
        daemon="pack: lore\n  slots: 2",
    )
    zones = ("Harrow Fen", "Saltwind Coast")
    daemon = start()
    together = await packages_of(client, zones)
    events = [(line["event"], line.get("zone_name")) for line in daemon.lines]
    alone = await packages_of(client, zones[:1]) | await packages_of(client, zones[1:])

    begun = {
        zone
        for event, zone in events[: [event for event, _ in events].index("package_sent")]
        if event == "pipeline_step_started"
    }
    assert begun == {*zones}
    assert together == alone
    assert {zone: one["zone"] for zone, one in alone.items()} == dict(
        zip(zones, zones, strict=True)
    )
    assert alone["Harrow Fen"]["npcs"]
    assert alone["Saltwind Coast"]["sources"]
