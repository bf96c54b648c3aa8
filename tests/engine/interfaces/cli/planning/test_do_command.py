"""`wavewright do`: a goal in words, from the plan to the package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from tests.engine.unplanned_project import PLAN, REVIEW
from wavewright.engine.interfaces.api.wavewright import Wavewright
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for

GOAL = "Rank the words of all notes"
SET = ("--set", "folder=notes", "--set", "top=5")


@pytest.fixture
def planning(
    project: Path, model_server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> FakeModelServer:
    """A model server that the project's commands ask, with a plan and a review."""
    del project
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    model_server.answer(PLAN, when=asked_for("plan"))
    model_server.answer(REVIEW, when=asked_for("review"))
    return model_server


def test_a_confirmed_goal_is_planned_and_run_to_its_package(
    wavewright: CommandLine, planning: FakeModelServer, project: Path
) -> None:
    answer = wavewright(
        "do", GOAL, *SET, "--yes", "--tools", "list_notes,read_note,rank_words", "--quiet"
    )

    assert answer.code == 0, answer.err
    (package,) = project.glob(".wavewright/runs/*/package.json")
    made = json.loads(package.read_text())
    assert made["status"] == "achieved"
    assert [step["tool"] for step in made["plan"]["steps"]] == [
        "list_notes",
        "read_note",
        "rank_words",
    ]
    assert sum(asked_for("plan")(request) for request in planning.requests) == 1


def test_a_dry_run_plans_and_runs_nothing(
    wavewright: CommandLine, planning: FakeModelServer, project: Path
) -> None:
    answer = wavewright("do", GOAL, *SET, "--dry-run")

    assert answer.code == 0
    assert "rank_words" in answer.out
    assert not list(project.glob(".wavewright/runs/*"))
    assert sum(asked_for("review")(request) for request in planning.requests) == 0


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("\n", 1)])
def test_the_dry_run_is_shown_and_confirmed_once(
    wavewright: CommandLine,
    planning: FakeModelServer,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    typed: str,
    code: int,
) -> None:
    asked = [typed]
    monkeypatch.setattr(
        "wavewright.engine.interfaces.cli.planning.plan_command.is_attended", lambda: True
    )
    monkeypatch.setattr("sys.stdin.readline", asked.pop)

    answer = wavewright("do", GOAL, *SET)

    assert answer.code == code, answer.err
    assert asked == []
    assert "rank_words" in answer.out
    assert len(list(project.glob(".wavewright/runs/*/package.json"))) == (1 if code == 0 else 0)
    assert sum(asked_for("plan")(request) for request in planning.requests) == 1


def test_without_a_terminal_no_model_is_asked_before_the_run_is_confirmed(
    wavewright: CommandLine, planning: FakeModelServer
) -> None:
    answer = wavewright("do", GOAL, *SET)

    assert answer.code == 2
    assert "--yes" in answer.err
    assert not planning.requests


@pytest.mark.usefixtures("project")
def test_without_a_model_it_says_how_to_get_one_and_names_templates(
    wavewright: CommandLine,
) -> None:
    answer = wavewright("do", "Find the words used most in the notes", "--yes")

    assert answer.code == 2
    assert "WAVEWRIGHT_MODEL" in answer.err
    assert "word_ranking: Find out which words the notes use most" in answer.err


@pytest.mark.usefixtures("planning")
def test_a_tool_that_does_not_exist_is_an_error_with_a_suggestion(wavewright: CommandLine) -> None:
    answer = wavewright("do", GOAL, "--yes", "--tools", "rank_word")

    assert answer.code == 2
    assert "rank_words" in answer.err


@pytest.mark.usefixtures("planning")
@pytest.mark.anyio
async def test_a_program_runs_a_goal_in_words() -> None:
    async with Wavewright.from_project() as ww:
        run = await ww.do(GOAL, {"folder": "notes", "top": 5})

    assert run.status == "achieved"
