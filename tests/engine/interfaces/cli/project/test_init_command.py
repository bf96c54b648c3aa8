"""`wavewright init`: a project that runs at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.engine.conftest import CommandLine
from tests.engine.normalized_output import worded
from wavewright.config.settings import load_settings
from wavewright.prompts import Prompts


def test_the_written_project_and_what_to_do_next(
    wavewright: CommandLine, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    answer = wavewright("init", "my project")
    written = sorted(
        str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()
    )

    assert answer.code == 0
    assert (worded(answer, tmp_path), written) == snapshot


def test_the_written_project_runs(wavewright: CommandLine, project: Path) -> None:
    assert project.is_dir()
    assert wavewright("check", "plans/words.job.yaml").code == 0
    assert wavewright("dry-run", "plans/words.job.yaml").code == 0
    assert wavewright("run", "plans/words.job.yaml").code == 0


def test_the_tests_of_the_written_project_pass(project: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert ran.returncode == 0, ran.stdout
    assert "4 passed" in ran.stdout


def test_the_settings_that_stand_in_comments_are_settings(project: Path) -> None:
    file = project / "wavewright.yaml"
    before, mark, after = file.read_text().partition("# model: ")
    uncommented = [line.removeprefix("# ") for line in f"{mark}{after}".splitlines()]
    file.write_text("\n".join([before, *uncommented, ""]))

    settings = load_settings(project, {})

    assert settings.model == "openai:gpt-5-mini"
    assert settings.models.roles["planner"] == "openai:gpt-5"
    assert settings.budgets.day.usd == 5


def test_the_written_prompt_adds_to_the_one_that_it_replaces(project: Path) -> None:
    values: dict[str, object] = {
        "may_ask": False,
        "calls_plans": False,
        "asks_models": False,
        "dispatched": (),
        "functions": {},
    }
    shipped = Prompts().render("planner/instructions", **values)

    own = Prompts([project / "prompts"]).render("planner/instructions", **values)

    assert own.startswith(shipped.rstrip())
    assert own.endswith("never with a step for each file.")


def test_an_empty_folder_is_written_into(
    wavewright: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")

    answer = wavewright("init", ".")

    assert answer.code == 0
    assert "cd " not in answer.out
    assert (tmp_path / "empty" / "wavewright.yaml").is_file()


def test_a_folder_that_holds_something_is_left_as_it_is(
    wavewright: CommandLine, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear\n")

    answer = wavewright("init", "full")

    assert answer.code == 2
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["letter.txt"]
    assert worded(answer, tmp_path) == snapshot


@pytest.mark.parametrize("folder", ["letter.txt", "letter.txt/project"])
def test_a_place_that_cannot_be_a_folder_is_told(
    wavewright: CommandLine, tmp_path: Path, snapshot: SnapshotAssertion, folder: str
) -> None:
    (tmp_path / "letter.txt").write_text("dear\n")

    answer = wavewright("init", folder)

    assert answer.code in (2, 3)
    assert (tmp_path / "letter.txt").read_text() == "dear\n"
    assert worded(answer, tmp_path) == snapshot


def test_a_project_is_written_beside_what_is_here(
    wavewright: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("letter.txt", "README.md", ".gitignore"):
        (tmp_path / name).write_text("mine\n")
    monkeypatch.chdir(tmp_path)

    answer = wavewright("init", "--here")
    ran = wavewright("run", "plans/words.job.yaml")

    assert answer.code == 0, answer.err
    assert answer.out.startswith("kept README.md and .gitignore\n")
    assert {
        (tmp_path / name).read_text() for name in ("letter.txt", "README.md", ".gitignore")
    } == {"mine\n"}
    assert ran.code == 0, ran.err


def test_a_project_that_would_replace_a_file_is_not_written(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "words.job.yaml").write_text("mine\n")

    answer = wavewright("init", "--here")

    assert answer.code == 2
    assert answer.err.startswith("error: plans/words.job.yaml exists already\n")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["plans", "words.job.yaml"]


@pytest.mark.parametrize("arguments", [(), ("folder", "--here")])
def test_one_place_is_named(
    wavewright: CommandLine, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    answer = wavewright("init", *arguments)

    assert answer.code == 2
    assert "help:" in answer.err
    assert list(tmp_path.iterdir()) == []
