"""`wavewright runs prune`: old runs are removed, with their events and files, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from tests.engine.conftest import CommandLine
from tests.support.postgres import PostgresServer
from wavewright.planner.types import JsonObject


def runs_of(wavewright: CommandLine) -> list[str]:
    """Return the runs that are listed, the newest first."""
    rows = cast("list[JsonObject]", json.loads(wavewright("runs", "--format", "json").out))
    return [str(row["run"]) for row in rows]


def folders(project: Path) -> set[str]:
    return {path.name for path in (project / ".wavewright" / "runs").iterdir()}


@pytest.fixture(params=["file", "database"])
def three(
    wavewright: CommandLine,
    project: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> list[str]:
    """Three runs, the newest first."""
    if request.param == "database":
        server: PostgresServer = request.getfixturevalue("postgres")
        monkeypatch.setenv("WAVEWRIGHT_PG_URL", server.database())
    assert project.is_dir()
    for _ in range(3):
        assert wavewright("run", "plans/words.job.yaml").code == 0
    return runs_of(wavewright)


def test_all_but_the_newest_runs_are_removed_with_their_folders(
    wavewright: CommandLine, project: Path, three: list[str]
) -> None:
    answer = wavewright("runs", "prune", "--keep", "1")

    assert answer.code == 0, answer.err
    assert answer.out.startswith("removed 2 runs, ")
    assert int(answer.out.split()[3].replace(",", "")) > 20_000
    assert runs_of(wavewright) == three[:1]
    assert folders(project) == {three[0]}
    assert wavewright("show", three[1]).code == 2
    assert wavewright("show", three[0]).code == 0


def test_a_dry_run_lists_what_would_be_removed_and_removes_nothing(
    wavewright: CommandLine, project: Path, three: list[str]
) -> None:
    answer = wavewright("runs", "prune", "--keep", "1", "--dry-run")

    assert [line.split()[0] for line in answer.out.splitlines()[1:-1]] == three[1:]
    assert answer.out.splitlines()[-1] == "would remove 2 runs"
    assert runs_of(wavewright) == three
    assert folders(project) == set(three)


@pytest.mark.parametrize("three", ["file"], indirect=True)
def test_runs_within_the_age_are_kept_and_older_ones_are_not(
    wavewright: CommandLine, three: list[str]
) -> None:
    kept = wavewright("runs", "prune", "--keep", "30d")
    removed = wavewright("runs", "prune", "--keep", "1ms")

    assert (kept.code, kept.out) == (0, "removed 0 runs, 0 bytes\n")
    assert removed.out.startswith(f"removed {len(three)} runs, ")
    assert runs_of(wavewright) == []


@pytest.mark.parametrize("named_by", ["option", "setting"])
def test_a_folder_outside_the_state_folder_is_left(
    wavewright: CommandLine, project: Path, tmp_path: Path, named_by: str
) -> None:
    out = tmp_path / "mine"
    if named_by == "setting":
        with (project / "wavewright.yaml").open("a") as file:
            file.write(f"\noutput_dir: {out}\n")
    options = ["--output", str(out)] if named_by == "option" else []
    wavewright("run", "plans/words.job.yaml", *options)
    [run] = runs_of(wavewright)

    assert wavewright("runs", "prune", "--keep", "0").out.startswith("removed 1 run, ")
    assert (out / run / "package.json").is_file()


def test_a_run_and_its_retry_are_removed_together(wavewright: CommandLine, project: Path) -> None:
    wavewright("run", "plans/words.job.yaml")
    wavewright("run", "plans/words.job.yaml")
    other, first = runs_of(wavewright)
    assert wavewright("retry", first).code == 0
    retry = runs_of(wavewright)[0]

    wavewright("runs", "prune", "--keep", "1")

    assert project.is_dir()
    assert set(runs_of(wavewright)) == {retry, first}
    assert wavewright("runs", "prune", "--keep", "0").out.startswith("removed 2 runs, ")
    assert other not in runs_of(wavewright)


def test_where_nothing_ran_nothing_is_removed_and_no_journal_is_made(
    wavewright: CommandLine, project: Path
) -> None:
    answer = wavewright("runs", "prune", "--keep", "30d")

    assert (answer.code, answer.out) == (0, "no runs yet\n")
    assert not (project / ".wavewright").exists()


@pytest.mark.parametrize("keep", ["soon", "-1", "30 days", ""])
def test_what_is_neither_a_time_nor_a_number_is_refused(
    wavewright: CommandLine, project: Path, keep: str
) -> None:
    answer = wavewright("runs", "prune", "--keep", keep)

    assert project.is_dir()
    assert answer.code == 2
    assert answer.err == (
        f"error: --keep {keep!r} is neither a time nor a number of runs\n"
        "  = help: write it as 30d, 12h or 100\n"
    )
