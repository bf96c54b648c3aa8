"""A person judges the packages of the researcher of the pack `lore` at the command line, beside a
real daemon.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from tests.engine.conftest import CommandLine
from tests.engine.service.daemon.conftest import StartDaemon
from tests.engine.service.daemon.daemon_project import BrokerClient, DaemonSite
from tests.repository.tree import ROOT

pytestmark = pytest.mark.anyio

WORLD: Path = ROOT / "plans" / "lore" / "world"


async def test_a_package_is_listed_rejected_with_remarks_made_again_and_accepted(
    site: DaemonSite,
    client: BrokerClient,
    start: StartDaemon,
    wavewright: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    search = {"provider": "local", "folder": str(WORLD), "base_url": "https://world.example"}
    site.write(
        functions="say: {}",
        more=f"packs: {json.dumps({'lore': {'web': {'search': search}}})}",
        daemon="pack: lore\n  standing: {start: Harrow Fen, inputs: {game: Lanternmere},"
        " forks: all, depth: 0, pause: 0}\n  validation: {iterations: 3}",
    )
    monkeypatch.chdir(site.folder)
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)

    async def command(*arguments: str) -> Any:
        return await anyio.to_thread.run_sync(wavewright, *arguments)

    daemon = start()

    async def waiting(iteration: int) -> str:
        """Return the id of the package with this number once it waits for its verdict."""
        while True:
            listed = json.loads((await command("decisions", "--format", "json")).out)
            if [one["iteration"] for one in listed] == [iteration]:
                assert (listed[0]["subject"], listed[0]["about"]) == ("package", "Harrow Fen")
                return str(listed[0]["id"])
            await anyio.sleep(0.1)

    with anyio.fail_after(60):
        first = await waiting(1)
        shown = (await command("decisions")).out
        neither = await command("verdict", first)
        rejected = await command(
            "verdict", first[:8], "--reject", "npcs=Old Nettle is missing", "--reject", "thin"
        )
        second = await waiting(2)
        again = await command("verdict", first, "--accept")
        accepted = await command("verdict", second, "--accept")
        await client.read()
        await client.until_told(str(client.seen[0]["job_id"]), "JOB_COMPLETED")

    assert f"judge with: wavewright verdict {first[:8]} --accept" in shown
    assert (neither.code, again.code) == (2, 1)
    assert f"package {first} was rejected, and the first verdict stands" in again.err
    assert (rejected.code, accepted.code) == (0, 0)
    assert accepted.out.startswith("accepted package 2 about Harrow Fen; ")
    packages = [json.loads(message.body)["payload"] for message in client.packages]
    assert [one["iteration"] for one in packages] == [1, 2]
    before, after = ({npc["name"] for npc in one["npcs"]} for one in packages)
    assert before == after != set()
    told = [one["status"] for one in client.seen]
    assert told.count("VALIDATION_RECEIVED") == 2
    ended = [line["step_name"] for line in daemon.lines if line.get("status") == "ok"]
    assert len(ended) == len({*ended})
    assert told[-1] == "JOB_COMPLETED"
    judged = [line for line in daemon.lines if str(line["event"]).startswith("validation_")]
    assert [(line["event"], line["zone_name"], line["iteration"]) for line in judged] == [
        ("validation_received", "Harrow Fen", 1),
        ("validation_rejected", "Harrow Fen", 1),
        ("validation_received", "Harrow Fen", 2),
    ]
    assert judged[1]["feedback_summary"] == "npcs: Old Nettle is missing; thin"
