"""What the shell offers after the tab key."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from wavewright.engine.interfaces.cli.commands.options import run_ids, template_names

# Typer itself imports pydantic where it completes.
HEAVY = (
    "wavewright.planner",
    "wavewright.executor",
    "networkx",
    "anyio",
    "jinja2",
    "re2",
    "yaml",
)


def completed(folder: Path, line: str, *, code: str = "") -> subprocess.CompletedProcess[str]:
    """Ask as bash does."""
    words = line.split(" ")
    script = f"import sys\nfrom wavewright.engine.main import main\ntry:\n    main()\nfinally:\n    {code or 'pass'}\n"
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env={
            **os.environ,
            "_WAVEWRIGHT_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_commands_are_completed(tmp_path: Path) -> None:
    assert completed(tmp_path, "wavewright d").stdout.split() == [
        "do",
        "doctor",
        "dry-run",
        "diff",
        "decisions",
        "daemon",
    ]


def test_runs_are_completed_without_importing_the_engine(
    wavewright: CommandLine, project: Path
) -> None:
    wavewright("run", "plans/words.job.yaml")
    run = wavewright("runs").out.splitlines()[1].split()[0]

    asked = completed(
        project, f"wavewright show {run[:8]}", code="print(*sorted(sys.modules), file=sys.stderr)"
    )

    assert asked.stdout.split() == [run]
    assert set(asked.stderr.split()) & set(HEAVY) == set()


def test_templates_are_completed_for_a_goal(project: Path) -> None:
    assert completed(project, "wavewright check --goal w").stdout.split() == ["word_ranking"]


def test_newest_runs_come_first(wavewright: CommandLine, project: Path) -> None:
    for _ in range(2):
        wavewright("run", "plans/words.job.yaml")
    listed = [line.split()[0] for line in wavewright("runs").out.splitlines()[1:]]

    assert project.is_dir()
    assert sorted(run_ids("20")) == sorted(listed)
    assert run_ids("nobody") == []


@pytest.mark.parametrize("content", [None, b"", b"no database at all" * 100])
def test_nothing_to_offer_is_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WAVEWRIGHT_JOURNAL", str(tmp_path / "journal.sqlite"))
    if content is not None:
        (tmp_path / "journal.sqlite").write_bytes(content)

    assert run_ids("2") == []
    assert template_names("stock") == ["stock_analysis"]


@pytest.mark.parametrize(
    ("shell", "first"),
    [
        ("bash", "_wavewright_completion() {"),
        ("zsh", "#compdef wavewright"),
        ("fish", "complete --command wavewright"),
    ],
)
def test_each_shell_is_shown_its_script(
    wavewright: CommandLine, monkeypatch: pytest.MonkeyPatch, shell: str, first: str
) -> None:
    monkeypatch.setattr("shellingham.detect_shell", lambda: (shell, f"/bin/{shell}"))

    answer = wavewright("--show-completion")

    assert answer.code == 0
    assert answer.out.startswith(first)
    assert "_WAVEWRIGHT_COMPLETE" in answer.out
