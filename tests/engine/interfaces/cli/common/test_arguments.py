"""Which project a command works in, where its tools run, and where a run is kept that has no
project.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
from typing_extensions import override

from tests.engine.conftest import CommandLine
from wavewright.engine.run.find_run import root_run_of
from wavewright.executor.events.types import Event, RunFinished, RunStarted
from wavewright.executor.store.journal import MemoryJournal
from wavewright.planner.types import JsonObject, RunId

WHERE = '''
import os


def where() -> dict[str, str]:
    """Return the folder that the tool runs in."""
    return {"folder": os.getcwd()}
'''


@pytest.fixture
def place(project: Path) -> Path:
    """A project with a plan that says where its tool runs; the working directory is its root."""
    (project / "tools" / "where.py").write_text(WHERE)
    (project / "wavewright.yaml").write_text("tools:\n  - path: tools/where.py\n")
    (project / "plans" / "where.plan.yaml").write_text(
        "steps: [{id: a, tool: where}]\nresult: ${steps.a.folder}\n"
    )
    return project


def result_of(package: Path) -> object:
    [file] = package.glob("*/package.json")
    return cast("JsonObject", json.loads(file.read_text()))["result"]


@pytest.mark.parametrize("below", [".", "plans", "tools"])
def test_tools_run_in_the_root_wherever_the_command_is_given(
    wavewright: CommandLine, place: Path, monkeypatch: pytest.MonkeyPatch, below: str
) -> None:
    monkeypatch.chdir(place / below)
    job = {".": Path("plans"), "plans": Path(), "tools": Path("../plans")}[
        below
    ] / "where.plan.yaml"

    ran = wavewright("run", job, "--output", "out")

    assert ran.code == 0, ran.err
    assert result_of(place / below / "out") == str(place)
    assert Path.cwd() == place / below


def test_the_folder_of_the_option_takes_the_place_of_the_working_directory(
    wavewright: CommandLine, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    ran = wavewright("-C", "project", "-C", "plans", "run", "where.plan.yaml", "--output", "out")

    assert ran.code == 0, ran.err
    assert result_of(place / "plans" / "out") == str(place)
    assert Path.cwd() == tmp_path
    assert "project" not in ran.err


def test_a_folder_of_the_option_that_is_not_there_is_named(wavewright: CommandLine) -> None:
    answer = wavewright("-C", "nowhere", "runs")

    assert answer.code == 2
    assert answer.err == "error: -C: 'nowhere' cannot be entered: No such file or directory\n"


def test_outside_any_project_the_one_of_the_job_is_used_and_named(
    wavewright: CommandLine, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    ran = wavewright("run", "project/plans/where.plan.yaml")

    assert ran.code == 0, ran.err
    assert result_of(place / ".wavewright" / "runs") == str(place)
    assert f"project {place}, found from the job: {tmp_path} lies in no project\n" in ran.err
    assert not (tmp_path / ".wavewright").exists()


@pytest.mark.parametrize("command", [("run",), ("check",), ("dry-run",), ("dry-run", "--simulate")])
def test_a_job_of_another_project_is_told_with_how_to_use_its_own(
    wavewright: CommandLine, place: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    other = tmp_path / "other"
    assert wavewright("init", other).code == 0

    answer = wavewright(*command, other / "plans" / "words.job.yaml")

    job = str(other / "plans" / "words.job.yaml")
    assert (
        f"warning: {job!r} lies in the project {other}, but settings and tools are of {place}"
        in answer.err
    )
    assert f"`wavewright -C {other} ...` uses those of the job" in answer.err


def test_a_run_without_a_project_says_so_and_leaves_nothing_in_its_folder(
    wavewright: CommandLine, tmp_path: Path, state_home: Path
) -> None:
    plan = "steps: [{id: a, tool: summarize_content, params: {content: x}}]\n"
    (tmp_path / "p.plan.yaml").write_text(plan)

    ran = wavewright("run", "p.plan.yaml")
    listed = wavewright("runs")

    assert (
        f"no project: no wavewright.yaml in {tmp_path} or above; tools run there, "
        f"and runs are kept in {state_home / 'wavewright'}\n"
    ) in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["p.plan.yaml"]
    assert (state_home / "wavewright" / "journal.sqlite").exists()
    assert "p " in listed.out


pytestmark = pytest.mark.anyio


class ReadJournal(MemoryJournal):
    """A journal that notes which runs are read."""

    def __init__(self) -> None:
        super().__init__()
        self.read = list[RunId]()

    @override
    async def load(self, run: RunId) -> list[Event]:
        self.read.append(run)
        return await super().load(run)


async def test_for_a_run_without_events_no_run_that_has_ended_is_read() -> None:
    journal, begun = ReadJournal(), RunId("20261127-080000-aaaaaa")
    for number in range(3):
        run = RunId(f"20261127-070000-00000{number}")
        await journal.append(
            run, [RunStarted(run, 1.0, "job", {}, 1.0), RunFinished(2.0, "achieved")]
        )
        await journal.close_run(run)
    await journal.open_run(begun)

    assert await root_run_of(journal, begun) == begun
    assert journal.read == []
