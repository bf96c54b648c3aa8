"""The graph as files that others read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from tests.tools.calling import call, call_for_document
from tests.tools.knowledge.graph_records import as_params, keep, port, tools_of
from wavewright.tools.functions.tool import ToolError


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
