"""`wavewright mcp lore-store`, as clients of both roles use it, and its checkpoints."""

from __future__ import annotations

import datetime as dt
import re
import signal
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from tests.packs.lore.store.stores import ash_vale, opened, port_merrow
from tests.support.prepared_command import PipedCommand, run_prepared
from wavewright.packs.lore.models import FailedZone, ResearchCheckpoint
from wavewright.packs.lore.settings import StoreSettings
from wavewright.packs.lore.store.server import ResearcherTools

CHECKPOINT = {"zone_name": "Ash Vale", "current_step": 3, "step_data": {"seen": [None, 1]}}


def content(result: CallToolResult) -> Any:
    assert not result.is_error, result.content
    return result.structured_content


def refusal(result: CallToolResult) -> str:
    assert result.is_error
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Serve a store over HTTP; return its address and the tokens of the roles."""
    folder = tmp_path_factory.mktemp("store")
    (folder / "wavewright.yaml").write_text("version: 1\n", encoding="utf-8")
    with PipedCommand("mcp", "lore-store", "--http", "127.0.0.1:0", folder=folder) as server:
        address = re.search(r"http://\S+", server.stdout.readline())
        assert address is not None
        tokens = [
            server.stdout.readline().removeprefix("token of ").strip().split(": ") for _ in range(2)
        ]
        yield {"address": address.group(), "folder": str(folder), **dict(tokens)}
        server.send_signal(signal.SIGTERM)
        server.communicate()


@asynccontextmanager
async def connected(served: dict[str, str], role: str) -> AsyncGenerator[Client]:
    headers = {"Authorization": f"Bearer {served[role]}"}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False) as http,
        Client(streamable_http_client(served["address"], http_client=http)) as client,
    ):
        yield client


@pytest.mark.anyio
async def test_each_role_is_offered_its_own_tools_with_schemas(served: dict[str, str]) -> None:
    offered: dict[str, set[str]] = {}
    for role in ("researcher", "validator"):
        async with connected(served, role) as client:
            tools = (await client.list_tools()).tools
            offered[role] = {tool.name for tool in tools}
            assert all(tool.description and tool.output_schema for tool in tools)

    assert offered == {
        "researcher": {
            "checkpoint_save",
            "checkpoint_load",
            "checkpoint_list",
            "checkpoint_delete",
        },
        "validator": {
            "world_lore_put_package",
            "world_lore_zone",
            "world_lore_neighbours",
            "world_lore_way",
            "world_lore_search",
        },
    }


@pytest.mark.anyio
async def test_a_researcher_cannot_write_lore_and_a_validator_no_checkpoint(
    served: dict[str, str],
) -> None:
    package = ash_vale().model_dump(mode="json")
    async with connected(served, "researcher") as client:
        put = await client.call_tool("world_lore_put_package", {"package": package})
        read = await client.call_tool("world_lore_zone", {"name": "Ash Vale"})
    async with connected(served, "validator") as client:
        saved = await client.call_tool("checkpoint_save", {"checkpoint": CHECKPOINT})
        zone = await client.call_tool("world_lore_zone", {"name": "Refused Vale"})

    assert (
        refusal(put)
        == "world_lore_put_package is for the role validator; this connection is researcher"
    )
    assert (
        refusal(read) == "world_lore_zone is for the role validator; this connection is researcher"
    )
    assert (
        refusal(saved) == "checkpoint_save is for the role researcher; this connection is validator"
    )
    assert "the store has no zone 'Refused Vale'" in refusal(zone)
    assert "world_lore_search" in refusal(zone)


@pytest.mark.anyio
async def test_a_validator_writes_packages_and_reads_them_back(served: dict[str, str]) -> None:
    async with connected(served, "validator") as client:
        first = {"package": ash_vale().model_dump(mode="json")}
        second = {"package": port_merrow().model_dump(mode="json")}
        await client.call_tool("world_lore_put_package", first)
        put = await client.call_tool("world_lore_put_package", second)
        zone = await client.call_tool("world_lore_zone", {"name": "ash vale"})
        near = await client.call_tool("world_lore_neighbours", {"name": "port_merrow"})
        way = await client.call_tool("world_lore_way", {"start": "Port Merrow", "end": "Ash Vale"})
        found = await client.call_tool("world_lore_search", {"query": "orchards"})
        faulty = await client.call_tool(
            "world_lore_put_package", {"package": {"zone_name": "Ash Vale"}}
        )

    assert content(put)["waiting"] == 0
    assert [npc["name"] for npc in content(zone)["npcs"]] == ["Mira Fenn"]
    assert content(near)["neighbours"] == [{"id": "ash_vale", "name": "Ash Vale"}]
    assert [one["id"] for one in content(way)["zones"]] == ["port_merrow", "ash_vale"]
    assert {one["id"] for one in content(found)["records"]} == {
        "ash_vale",
        "mira_fenn",
        "orchard_wardens",
    }
    assert "zone_data" in refusal(faulty)


@pytest.mark.anyio
async def test_a_researcher_keeps_its_checkpoint(served: dict[str, str]) -> None:
    async with connected(served, "researcher") as client:
        await client.call_tool("checkpoint_save", {"checkpoint": CHECKPOINT})
        loaded = await client.call_tool("checkpoint_load", {})
        listed = await client.call_tool("checkpoint_list", {})
        deleted = await client.call_tool("checkpoint_delete", {"name": "world_lore_researcher"})
        faulty = await client.call_tool(
            "checkpoint_save", {"checkpoint": {**CHECKPOINT, "current_step": 11}}
        )

    assert content(loaded)["checkpoint"].items() >= CHECKPOINT.items()
    assert [one["current_step"] for one in content(listed)["checkpoints"]] == [3]
    assert content(deleted)["deleted"]
    assert "current_step" in refusal(faulty)


def test_only_health_is_told_without_a_token(served: dict[str, str]) -> None:
    place = served["address"].removesuffix("/mcp")
    with httpx.Client(trust_env=False) as client:
        assert client.get(f"{place}/health").text == "ok"
        for header in ({}, {"Authorization": "Bearer wrong"}):
            assert client.post(served["address"], json={}, headers=header).status_code == 401


@pytest.mark.anyio
async def test_a_role_is_served_over_standard_input(tmp_path: Path) -> None:
    (tmp_path / "wavewright.yaml").write_text("version: 1\n", encoding="utf-8")
    arguments = ["-m", "wavewright.engine.main", "mcp", "lore-store", "--role", "researcher"]
    program = StdioServerParameters(command=sys.executable, args=arguments, cwd=tmp_path)
    async with Client(stdio_client(program)) as client:
        await client.call_tool("checkpoint_save", {"checkpoint": CHECKPOINT})
        put = await client.call_tool("world_lore_put_package", {"package": {}})
    async with Client(stdio_client(program)) as client:
        loaded = await client.call_tool("checkpoint_load", {})

    assert "for the role validator" in refusal(put)
    assert content(loaded)["checkpoint"]["current_step"] == 3


def test_a_second_server_of_one_folder_is_refused(served: dict[str, str]) -> None:
    second = run_prepared("mcp", "lore-store", "--role", "validator", folder=Path(served["folder"]))
    assert (second.returncode, second.stdout) == (3, "")
    assert "another process has the lore store" in second.stderr
    assert "Traceback" not in second.stderr


WHOLE_CHECKPOINT = ResearchCheckpoint(
    zone_name="Ash Vale",
    current_step=4,
    step_data={"found": [None, 1, 2.5, True, {"empty": None}], "text": "nul \0 byte"},
    progression_queue=["port_merrow"],
    priority_queue=["gull_isle"],
    completed_zones=["lantern_fen"],
    failed_zones=[FailedZone(zone_name="deep", error="rejected", iterations=3)],
    daily_tokens_used=12_345,
    last_reset_date=dt.date(2026, 4, 14),
)


@pytest.mark.anyio
async def test_a_checkpoint_is_loaded_as_it_was_saved(place: StoreSettings, tmp_path: Path) -> None:
    async with opened(place, tmp_path) as (_, connection):
        checkpoints = ResearcherTools(connection)
        await checkpoints.checkpoint_save(ResearchCheckpoint(zone_name="Lantern Fen"), "researcher")
        await checkpoints.checkpoint_save(ResearchCheckpoint(zone_name="Gull Isle"), "another")
        saved = await checkpoints.checkpoint_save(WHOLE_CHECKPOINT, "researcher")

        assert await checkpoints.checkpoint_load("researcher") == saved
        assert saved.checkpoint == WHOLE_CHECKPOINT
        listed = (await checkpoints.checkpoint_list()).checkpoints
        assert [(one.name, one.zone_name, one.current_step) for one in listed] == [
            ("researcher", "Ash Vale", 4),
            ("another", "Gull Isle", 0),
        ]
        assert (await checkpoints.checkpoint_delete("researcher")).deleted
        assert not (await checkpoints.checkpoint_delete("researcher")).deleted
        assert (await checkpoints.checkpoint_load("researcher")).checkpoint is None
