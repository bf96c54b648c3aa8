"""The graph written into files and to servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import anyio
import networkx as nx
import pytest

from tests.packs.knowledge.graph_records import as_params, keep, port, tools_of
from tests.support.surreal_server import PASSWORD, USER, served_surreal
from tests.tools.calling import call, call_for_document
from tests.tools.mcp.installed_servers import PROGRAMS, require_installed_servers
from wavewright.config.mcp_servers import McpServerSection
from wavewright.packs.knowledge.settings import GraphDatabaseSettings, GraphSettings
from wavewright.packs.surreal import SurrealConnection
from wavewright.planner.types import Json
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.tool import Tool


def test_both_files_hold_what_the_graph_holds(tmp_path: Path) -> None:
    tools = tools_of(tmp_path)
    call(tools["write_graph"], {"records": as_params(keep(), port())})
    merged = call_for_document(tools["merge_entities"])

    for form, path in (("json-ld", "out/graph.jsonld"), ("graphml", "out/graph.graphml")):
        assert call(tools["export_graph"], {"format": form, "path": path}) == {
            "path": path,
            "counts": merged["counts"],
        }

    document: dict[str, Any] = json.loads((tmp_path / "out" / "graph.jsonld").read_text())
    nodes = {one["@id"]: one for one in document["@graph"] if "@id" in one}
    relations = [one for one in document["@graph"] if one["@type"] == "graph:Relation"]
    drawn: Any = nx.read_graphml(tmp_path / "out" / "graph.graphml")
    assert merged["counts"] == {
        "entities": len(nodes),
        "observations": sum(len(one["observations"]) for one in nodes.values()),
        "relations": len(relations),
    }
    assert (drawn.number_of_nodes(), drawn.number_of_edges()) == (len(nodes), len(relations))
    assert {one["source"] for one in relations} <= nodes.keys()
    aldo = nodes["urn:knowledge:baron%20aldo"]
    assert (aldo["name"], aldo["alternateName"], aldo["origin"]) == (
        "Baron Aldo",
        ["The Baron", "Aldo"],
        "agent",
    )
    assert drawn.nodes["baron aldo"]["aliases"] == "The Baron\nAldo"
    assert "keep.md [0:25] Baron Aldo rules Fenmoor." in drawn.nodes["baron aldo"]["evidence"]


@pytest.mark.parametrize("path", ["../graph.graphml", "/tmp/graph.graphml"])  # noqa: S108 - is refused
def test_a_file_outside_of_the_project_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(ToolError, match="is refused"):
        call(tools_of(tmp_path)["export_graph"], {"format": "graphml", "path": path})


def built(root: Path, settings: GraphSettings) -> tuple[dict[str, Tool], Json]:
    """Return the tools over a graph of two documents, and its counts."""
    tools = tools_of(root, settings)
    call(tools["write_graph"], {"records": as_params(keep(), port())})
    call(tools["retry_relations"])
    return tools, call_for_document(tools["merge_entities"])["counts"]


def test_the_memory_server_holds_the_graph_once_however_often_it_is_sent(tmp_path: Path) -> None:
    require_installed_servers()
    memory = tmp_path / "memory.jsonl"
    section = McpServerSection(
        command=str(PROGRAMS / "mcp-server-memory"), env={"MEMORY_FILE_PATH": str(memory)}
    )
    tools, counts = built(tmp_path, GraphSettings(mcp=section))

    for _ in range(2):
        assert call(tools["send_graph"], {"sink": "mcp"}) == {"sink": "mcp", "counts": counts}

    lines = [json.loads(line) for line in memory.read_text().splitlines()]
    entities = [one for one in lines if one["type"] == "entity"]
    relations = [one for one in lines if one["type"] == "relation"]
    assert counts == {
        "entities": len(entities),
        "observations": sum(len(one["observations"]) for one in entities),
        "relations": len(relations),
    }
    assert {
        "type": "relation",
        "from": "Fenmoor",
        "to": "Tidegate",
        "relationType": "lies north of",
    } in lines


@pytest.mark.parametrize("place", ["embedded", "server"])
def test_surrealdb_follows_the_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    if place == "embedded":
        _follow(tmp_path, GraphDatabaseSettings())
        return
    monkeypatch.setenv("SURREALDB_PASSWORD", PASSWORD)
    with served_surreal() as port_number:
        _follow(tmp_path, GraphDatabaseSettings(url=f"ws://127.0.0.1:{port_number}", user=USER))


def _follow(root: Path, database: GraphDatabaseSettings) -> None:
    """Send a graph, take a merge back, and send it again: the database holds what the graph holds,
    both times.
    """

    async def asked() -> list[Json]:
        async with SurrealConnection(database, root) as connection:
            found: list[Json] = await connection.run(
                "SELECT VALUE ->relation->entity.name FROM ONLY entity:fenmoor;"
                "SELECT VALUE <-relation<-entity.name FROM ONLY entity:lamp;"
            )
            return found

    tools, counts = built(root, GraphSettings(surrealdb=database))
    first = call_for_document(tools["send_graph"], {"sink": "surrealdb"})
    merged = anyio.run(asked)
    merges = cast("list[dict[str, str]]", call_for_document(tools["merge_entities"])["merges"])
    [wardens] = [one["id"] for one in merges if one["merged"] == "Warden"]
    call(tools["undo_merge"], {"merge": wardens})
    second = call_for_document(tools["send_graph"], {"sink": "surrealdb"})
    apart = anyio.run(asked)

    assert first["counts"] == counts
    assert second["counts"] == call_for_document(tools["merge_entities"])["counts"] != counts
    assert merged == [["Tidegate"], ["Wardens"]]
    assert [apart[0], sorted(cast("list[str]", apart[1]))] == [["Tidegate"], ["Warden", "Wardens"]]


def test_a_server_that_no_setting_names_is_an_error_that_says_where_to_name_it(
    tmp_path: Path,
) -> None:
    tools, _ = built(tmp_path, GraphSettings())

    with pytest.raises(ToolError, match="no graph server 'mcp'") as refused:
        call(tools["send_graph"], {"sink": "mcp"})

    assert "packs.knowledge.graph.mcp" in (refused.value.hint or "")
