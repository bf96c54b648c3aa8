"""The researcher of the pack `lore` as a daemon that needs a first zone only, over the small invented world."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import anyio
import pytest

from tests.engine.daemon.conftest import StartDaemon
from tests.engine.daemon.daemon_project import PATIENCE, BrokerClient, DaemonProcess, DaemonSite
from tests.repository.tree import ROOT

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
    site.environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    first = DaemonProcess(site, program=("tests.crash.dying_daemon", "document"))
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
