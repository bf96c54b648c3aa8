"""A copy of the graph on an MCP server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.packs.knowledge.graph_records import as_params, keep, port, tools_of
from tests.tools.calling import call, call_for_document
from tests.tools.mcp.installed_servers import PROGRAMS, require_installed_servers
from wavewright.config.mcp_servers import McpServerSection
from wavewright.packs.knowledge.settings import GraphSettings
from wavewright.planner.types import Json
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.tool import Tool


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


def test_a_server_that_no_setting_names_is_an_error_that_says_where_to_name_it(
    tmp_path: Path,
) -> None:
    tools, _ = built(tmp_path, GraphSettings())

    with pytest.raises(ToolError, match="no graph server 'mcp'") as refused:
        call(tools["send_graph"], {"sink": "mcp"})

    assert "packs.knowledge.graph.mcp" in (refused.value.hint or "")
