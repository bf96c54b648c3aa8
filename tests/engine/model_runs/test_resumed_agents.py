"""A run that is killed while its models work asks again only what was not answered."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from tests.engine.model_runs.model_run_project import PLAN, ModelRunProject, review
from tests.support.prepared_command import PipedCommand
from wavewright.engine.rehearsal.fake_model.replies import calling_tool, silence
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.planner.types import JsonObject, as_object
from wavewright.reviewer.package.builder import read_package

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
    cut = cut_call(wavewright, run)
    assert (cut["role"], cut["step"]) == ("agent", "found")
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
    assert cut_call(wavewright, run)["role"] == "reviewer"


def test_a_call_that_a_kill_cut_is_in_the_sums_of_the_package_and_of_the_budgets_once(
    tmp_path: Path,
    wavewright: CommandLine,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    ModelRunProject(tmp_path, wavewright).write()
    model_server.answer(silence(), when=asked_for("plan"))
    run_until(tmp_path, model_server, 1, "quotes.job.yaml")

    model_server.reset()
    model_server.answer(PLAN, when=asked_for("plan"))
    model_server.answer(review(), when=asked_for("review"))
    run = wavewright("runs").out.splitlines()[1].split()[0]
    resumed = wavewright("resume", run, "--output", "out")

    assert resumed.code == 0, resumed.err
    total = read_package((tmp_path / "out" / run / "package.json").read_bytes()).model_uses.total
    assert (total.calls, total.unanswered) == (3, 1)
    assert total.estimated >= 1
    assert "1 without an answer" in resumed.out
    assert total.tokens == spent_tokens(tmp_path, run)
    assert cut_call(wavewright, run)["model"] == "openai-chat:scripted"


def cut_call(wavewright: CommandLine, run: str) -> JsonObject:
    """Return the only call that the journal has as one that a kill cut."""
    lines = wavewright("show", run, "--format", "events").out.splitlines()
    events: list[JsonObject] = [json.loads(line) for line in lines]
    uses = [as_object(event["use"]) for event in events if event["kind"] == "model_called"]
    [cut] = [use for use in uses if "cut off" in str(use.get("message"))]
    assert cut["is_estimated"]
    assert cut["input_tokens"]
    return cut


def spent_tokens(folder: Path, run: str) -> int:
    """Return what the budgets have counted for a run; nothing of it is still reserved."""
    with closing(sqlite3.connect(next(folder.rglob("*.sqlite")))) as connection:
        rows = connection.execute(
            "SELECT tokens, settled FROM model_call WHERE run = ?", (run,)
        ).fetchall()
    assert all(settled for _, settled in rows)
    return sum(tokens for tokens, _ in rows)
