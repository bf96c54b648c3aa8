"""A graph that code has made is read again by a model, and asked by a plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from tests.engine.model_runs.knowledge_project import READING, REVIEW, Notes
from tests.tools.mcp.installed_servers import PROGRAMS, require_installed_servers
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.planner.types import Json, JsonObject

pytest.importorskip("selectolax")

NOTE = "# Petrel\n\nPetrel is a boat of the Skerry Line. Mira Fenn mends the nets of Petrel every winter.\n"
QUOTE = "Mira Fenn mends the nets of Petrel every winter."
ANSWER: JsonObject = {
    "observations": [
        {"entity": "Mira Fenn", "text": "Mira Fenn mends nets in winter.", "quotes": [QUOTE]}
    ],
    "entities": [
        {"name": "Mira Fenn", "type": "person", "quotes": [QUOTE]},
        {"name": "Petrel", "type": "boat", "quotes": ["Petrel is a boat"]},
    ],
    "relations": [
        {
            "source": "Mira Fenn",
            "relation": "mends the nets of",
            "target": "Petrel",
            "quotes": [QUOTE],
        }
    ],
}
ASKING: JsonObject = {
    "steps": [
        {"id": "found", "tool": "knowledge.search_graph", "params": {"query": "nets in winter"}},
        {
            "id": "near",
            "tool": "knowledge.neighbours",
            "params": {"entity": "${steps.found.entities[0].name}"},
        },
    ],
    "result": "${steps.near.neighbours.map(one, one.relation + ' ' + one.name)}",
}


def test_a_job_sends_the_graph_to_the_memory_server(
    tmp_path: Path, wavewright: CommandLine
) -> None:
    require_installed_servers()
    notes, memory = Notes(tmp_path, wavewright, {"petrel.md": NOTE}), tmp_path / "memory.jsonl"
    server = {
        "command": str(PROGRAMS / "mcp-server-memory"),
        "env": {"MEMORY_FILE_PATH": str(memory)},
    }
    settings = json.loads((tmp_path / "wavewright.yaml").read_text())
    settings["packs"]["knowledge"]["graph"]["mcp"] = server
    (tmp_path / "wavewright.yaml").write_text(json.dumps(settings))

    package = notes.run("knowledge_graph", inputs={"folder": ".", "sink": "mcp"})

    sent = [json.loads(line)["type"] for line in memory.read_text().splitlines()]
    counts = package["result"]["counts"]
    assert (sent.count("entity"), sent.count("relation")) == (
        counts["entities"],
        counts["relations"],
    )


def questions(model_server: FakeModelServer) -> int:
    return sum(READING in str(request.messages) for request in model_server.requests)


def test_a_model_reads_again_what_code_has_read_and_a_plan_asks_the_graph(
    tmp_path: Path,
    wavewright: CommandLine,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notes = Notes(tmp_path, wavewright, {"petrel.md": NOTE})
    notes.run("knowledge_graph")
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    model_server.answer(REVIEW, when=asked_for("review"))
    model_server.answer("I cannot read this.", when=READING)

    in_vain = notes.run("knowledge_revisit", code=1)
    model_server.reset()
    model_server.answer(REVIEW, when=asked_for("review"))
    model_server.answer(ANSWER, when=READING)
    won = notes.run("knowledge_revisit")
    asked = questions(model_server)
    no_more = notes.run("knowledge_revisit")

    assert in_vain["review"]["goal_achieved"] is False
    assert in_vain["result"]["changed_count"] == in_vain["result"]["added_count"] == 0
    assert {"fact": "Petrel (boat)", "before": "generated", "after": "agent"} in won["result"][
        "changed"
    ]
    assert "Mira Fenn — mends the nets of — Petrel" in won["result"]["added"]
    [document] = [one for one in won["documents"] if one["title"] == "Graph"]
    assert "| added | Mira Fenn — mends the nets of — Petrel |" in document["markdown"]
    # The chunk is a model's now: it is not asked for again.
    assert no_more["result"]["changed_count"] == no_more["result"]["added_count"] == 0
    assert questions(model_server) == asked == 1
    tools: list[Json] = [{"name": "knowledge.search_graph"}, {"name": "knowledge.neighbours"}]
    template: JsonObject = {
        "name": "asking",
        "goal": "Know who mends what",
        "available_tools": tools,
    }
    (tmp_path / "asking.yaml").write_text(json.dumps(template))
    answer = notes.run("asking.yaml", plan=ASKING, inputs={})
    assert "mends the nets of Petrel" in answer["result"]
