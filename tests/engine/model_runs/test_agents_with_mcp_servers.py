"""Agents and workers over tools of real MCP servers, with a model behind the wire."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from tests.tools.mcp.installed_servers import PROGRAMS, require_installed_servers
from wavewright.engine.rehearsal.fake_model.replies import calling_tool
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.planner.types import Json, JsonObject

REVIEW: JsonObject = {
    "goal_achieved": True,
    "confidence": 0.9,
    "summary": "It was found.",
    "missing_data": [],
    "recovery_actions": [],
}
TIME: JsonObject = {
    "command": sys.executable,
    "args": ["-m", "mcp_server_time", "--local-timezone=UTC"],
}
WORKER = """\
version: 1
name: describe_weather
description: Describe the weather in words.
prompt: workers/describe_weather
input_schema:
  type: object
  required: [weather]
  properties: {weather: {type: object}}
output_schema:
  type: object
  required: [words]
  additionalProperties: false
  properties: {words: {type: string}}
"""


class McpProject:
    """A project with MCP servers, a job for an agent, and what came of its run."""

    def __init__(self, folder: Path, wavewright: CommandLine) -> None:
        self.folder = folder
        self.wavewright = wavewright

    def lock(self, **servers: JsonObject) -> None:
        # Agents are offered what reads, and only a trusted server is believed about that.
        servers = {name: {**server, "trusted": True} for name, server in servers.items()}
        (self.folder / "wavewright.yaml").write_text(
            json.dumps({"workers": ["workers"], "mcp": {"servers": servers}})
        )
        locked = self.wavewright("tools", "--lock")
        assert locked.code == 0, locked.err

    def run(self, tools: list[str], steps: list[Json], result: str) -> Json:
        """Run a plan of these steps; return its result."""
        template = {
            "name": "task",
            "goal": "Know it",
            "available_tools": [{"name": tool} for tool in tools],
        }
        job = {
            "name": "task",
            "goal_template": "task.template.yaml",
            "plan": {"steps": steps, "result": result},
        }
        (self.folder / "task.template.yaml").write_text(json.dumps(template))
        (self.folder / "task.job.yaml").write_text(json.dumps(job))
        ran = self.wavewright("run", "task.job.yaml", "--output", "out")
        assert ran.code == 0, ran.out + ran.err
        [package] = (self.folder / "out").glob("*/package.json")
        made: dict[str, Json] = json.loads(package.read_text())
        return made["result"]

    def agent_calls(self) -> list[tuple[str, str]]:
        """Return the tools that the agent called, from the journal, and what became of each call."""
        run = self.wavewright("runs").out.splitlines()[1].split()[0]
        lines = self.wavewright("show", run, "--format", "events").out.splitlines()
        events = [json.loads(line) for line in lines]
        calls = [event["call"] for event in events if event["kind"] == "loop_tool_called"]
        return [(call["tool"], call["status"]) for call in calls]


@pytest.fixture
def mcp_project(
    tmp_path: Path,
    wavewright: CommandLine,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> McpProject:
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    model_server.answer(REVIEW, when=asked_for("review"))
    return McpProject(tmp_path, wavewright)


def test_an_agent_calls_a_tool_of_a_server_and_its_calls_are_in_the_journal(
    mcp_project: McpProject, model_server: FakeModelServer
) -> None:
    mcp_project.lock(time=TIME)
    model_server.answer(
        calling_tool(
            "time__convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo"
        ),
        calling_tool("time__get_current_time", timezone="Atlantis"),
        "It is 21:00.",
        when="What is noon UTC",
    )

    output = mcp_project.run(
        ["time.convert_time", "time.get_current_time", "agent"],
        [{"id": "noon", "tool": "agent", "params": {"task": "What is noon UTC in Tokyo?"}}],
        "${steps.noon}",
    )

    assert isinstance(output, dict)
    assert output["answer"] == "It is 21:00."
    assert "T21:00" in json.dumps(output["collected"])
    assert mcp_project.agent_calls() == [
        ("time.convert_time", "ok"),
        ("time.get_current_time", "failed"),
    ]


def test_an_agent_reads_with_servers_of_others_and_is_offered_nothing_that_writes(
    mcp_project: McpProject, model_server: FakeModelServer, tmp_path: Path
) -> None:
    require_installed_servers()
    memory: JsonObject = {
        "command": str(PROGRAMS / "mcp-server-memory"),
        "env": {"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")},
    }
    mcp_project.lock(memory=memory, everything={"command": str(PROGRAMS / "mcp-server-everything")})
    model_server.answer(
        calling_tool("memory__search_nodes", query="light"),
        calling_tool("everything__get-structured-content", location="Chicago"),
        calling_tool("memory__create_entities", entities=[]),
        "Ada keeps the light.",
        when="Who keeps the light?",
    )
    entity: JsonObject = {
        "name": "Ada",
        "entityType": "person",
        "observations": ["keeps the light"],
    }

    output = mcp_project.run(
        [
            "memory.create_entities",
            "memory.search_nodes",
            "everything.get-structured-content",
            "agent",
        ],
        [
            {"id": "known", "tool": "memory.create_entities", "params": {"entities": [entity]}},
            {
                "id": "keeper",
                "tool": "agent",
                "params": {"task": "Who keeps the light?"},
                "depends_on": ["known"],
            },
        ],
        "${steps.keeper}",
    )

    asked = [request for request in model_server.requests if request.tool_names]
    assert set(asked[0].tool_names) == {
        "memory__search_nodes",
        "everything__get-structured-content",
    }
    assert isinstance(output, dict)
    assert output["answer"] == "Ada keeps the light."
    assert "keeps the light" in json.dumps(output["collected"])
    assert (tmp_path / "memory.jsonl").read_text().count("Ada") == 1


def test_a_worker_reads_what_a_server_gave(
    mcp_project: McpProject, model_server: FakeModelServer, tmp_path: Path
) -> None:
    require_installed_servers()
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers" / "describe_weather.yaml").write_text(WORKER)
    (tmp_path / "prompts" / "workers").mkdir(parents=True)
    (tmp_path / "prompts" / "workers" / "describe_weather.md.j2").write_text(
        "Describe {{ inputs.weather }}"
    )
    mcp_project.lock(everything={"command": str(PROGRAMS / "mcp-server-everything")})
    model_server.answer({"words": "It snows."}, when="Describe")

    output = mcp_project.run(
        ["everything.get-structured-content", "describe_weather"],
        [
            {
                "id": "weather",
                "tool": "everything.get-structured-content",
                "params": {"location": "Chicago"},
            },
            {"id": "words", "tool": "describe_weather", "params": {"weather": "${steps.weather}"}},
        ],
        "${steps.words.words}",
    )

    assert output == "It snows."
    [asked] = [request for request in model_server.requests if "Describe" in request.prompt]
    assert "humidity" in asked.prompt
