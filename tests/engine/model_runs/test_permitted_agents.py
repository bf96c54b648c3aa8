"""A run keeps to its permits also in the calls that agents make within their steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import CommandLine
from tests.engine.model_runs.model_run_project import review
from wavewright.engine.rehearsal.fake_model.replies import calling_tool
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for

TOOLS = '''
from pathlib import Path


def load(path: str) -> str:
    """Read a note."""
    with Path(__file__).with_name("loaded.txt").open("a") as loaded:
        loaded.write(path + "\\n")
    return f"text of {path}"
'''
TEMPLATE = """\
name: search
goal: Find it
available_tools: [{name: load}, {name: agent}]
"""
AGENT = """\
version: 1
name: scout
description: Look for something.
prompt: agents/scout
tools: [load]
"""
STEPS = {
    "agent": "{id: found, tool: agent, params: {task: Where is it?}}",
    "agent for items": (
        "{id: found, tool: agent, for_each: [a, b], params: {task: 'Where is ${item}?'}}"
    ),
    "named agent": "{id: found, tool: agent, params: {agent: scout, task: Where is it?}}",
}


@pytest.fixture
def project(
    tmp_path: Path,
    wavewright: CommandLine,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    del wavewright  # it clears the environment first
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    (tmp_path / "desk.py").write_text(TOOLS)
    (tmp_path / "wavewright.yaml").write_text("tools: [desk.py]\nagents: [agents]\n")
    (tmp_path / "search.template.yaml").write_text(TEMPLATE)
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "scout.yaml").write_text(AGENT)
    (tmp_path / "prompts" / "agents").mkdir(parents=True)
    (tmp_path / "prompts" / "agents" / "scout.md.j2").write_text("{{ inputs.task }}")
    return tmp_path


def write_job(project: Path, steps: str) -> Path:
    """Write a job with its permits, in which an agent may read notes and nothing else."""
    job = "name: search\ngoal_template: search.template.yaml\n"
    job += f"plan:\n  steps: [{steps}]\n  result: ${{steps.found}}\n"
    (project / "search.job.yaml").write_text(job)
    return project / "search.permits.json"


def narrow(file: Path, **changes: object) -> dict[str, Any]:
    permits: dict[str, Any] = json.loads(file.read_bytes())
    file.write_text(json.dumps({**permits, **changes}))
    return permits


@pytest.mark.parametrize("kind", STEPS)
def test_an_agent_is_refused_a_value_that_is_not_permitted(
    kind: str, project: Path, wavewright: CommandLine, model_server: FakeModelServer
) -> None:
    file = write_job(project, STEPS[kind])
    checked = wavewright("check", "--permits", "search.job.yaml")
    assert checked.code == 0, checked.err
    assert set(narrow(file, paths={"notes/": []})["tools"]) == {"agent", "load"}
    model_server.answer(review(), when=asked_for("review"))
    for _ in range(2 if "items" in kind else 1):
        model_server.answer(
            calling_tool("load", path="/etc/passwd"),
            calling_tool("load", path="notes/../desk.py"),
            calling_tool("load", path="notes/a.md"),
            "In the notes.",
        )

    ran = wavewright("run", "search.job.yaml")

    assert ran.code == 0, ran.err + ran.out
    assert set((project / "loaded.txt").read_text().split()) == {"notes/a.md"}
    events = wavewright("show", "--format", "events").out
    assert "not permitted: path '/etc/passwd'" in events
