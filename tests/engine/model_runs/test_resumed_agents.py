"""A run that is killed while its models work asks again only what was not answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from tests.engine.model_runs.model_run_project import PLAN, ModelRunProject, review
from tests.support.prepared_command import PipedCommand
from wavewright.engine.rehearsal.fake_model.replies import calling_tool, silence
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for

TOOLS = '''
from pathlib import Path


def look(place: str) -> str:
    """Look somewhere."""
    with Path(__file__).with_name("looked.txt").open("a") as looked:
        looked.write(place + "\\n")
    return f"seen at {place}"
'''
JOB = """\
name: search
goal_template: search.template.yaml
plan:
  steps: [{id: found, tool: agent, params: {task: Where is it?}}]
  result: ${steps.found}
"""
TEMPLATE = """\
name: search
goal: Find it
available_tools: [{name: look}, {name: agent}]
"""


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
    (tmp_path / "wavewright.yaml").write_text("tools: [desk.py]\n")
    (tmp_path / "search.template.yaml").write_text(TEMPLATE)
    (tmp_path / "search.job.yaml").write_text(JOB)
    return tmp_path


def run_until(
    folder: Path, server: FakeModelServer, requests: int, job: str = "search.job.yaml"
) -> None:
    """Start a run, and kill it as soon as the model was asked so often."""
    with PipedCommand("run", job, folder=folder):
        server.wait_for_requests(requests)


def test_an_agent_goes_on_where_it_was_killed(
    project: Path, wavewright: CommandLine, model_server: FakeModelServer
) -> None:
    model_server.answer(calling_tool("look", place="attic"), calling_tool("look", place="cellar"))
    model_server.answer(silence())
    run_until(project, model_server, 3)

    model_server.reset()
    model_server.answer(review(), when=asked_for("review"))
    model_server.answer("In the cellar.")
    run = wavewright("runs").out.splitlines()[1].split()[0]
    resumed = wavewright("resume", run)

    assert resumed.code == 0, resumed.err
    assert len(model_server.requests) == 2
    assert (project / "looked.txt").read_text().split() == ["attic", "cellar"]
    assert "In the cellar." in resumed.out


def test_a_planner_that_has_answered_is_not_asked_again(
    tmp_path: Path,
    wavewright: CommandLine,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    ModelRunProject(tmp_path, wavewright).write()
    model_server.answer(PLAN, when=asked_for("plan"))
    model_server.answer(silence(), when=asked_for("review"))
    run_until(tmp_path, model_server, 2, "quotes.job.yaml")

    model_server.reset()
    model_server.answer(review(), when=asked_for("review"))
    run = wavewright("runs").out.splitlines()[1].split()[0]
    resumed = wavewright("resume", run)

    assert resumed.code == 0, resumed.err
    assert [asked.schema_name for asked in model_server.requests] == ["review"]
