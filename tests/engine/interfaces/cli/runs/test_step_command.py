"""`wavewright show RUN STEP` and `wavewright logs RUN`, and what a failing tool shows of itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from wavewright.executor.store import run_queries
from wavewright.reviewer.package.builder import read_package

_TOOL = '''
import sys
def _pick(row: dict[str, int]) -> int:
    return row["b"]


def failing(name: str) -> int:
    """Fail.

    Args:
        name: Whose.
    """
    print("working for", name)
    print("nearly there", file=sys.stderr)
    return _pick({})
'''
_PLAN = """
steps:
  - {id: names, tool: list_notes, params: {folder: notes}}
  - {id: pick, tool: failing, params: {name: "${steps.names[0]}"}}
"""
_RAISED = 'tools/notes.py:{line} in _pick: return row["b"]'


@pytest.fixture
def raised(project: Path) -> str:
    """The place in a tool of the project that raises, as it is shown."""
    file = project / "tools" / "notes.py"
    file.write_text(file.read_text(encoding="utf-8") + _TOOL, encoding="utf-8")
    settings = project / "wavewright.yaml"
    text = settings.read_text(encoding="utf-8").replace(
        "      list_notes:", "      failing: {}\n      list_notes:"
    )
    settings.write_text(text, encoding="utf-8")
    (project / "plan.yaml").write_text(_PLAN, encoding="utf-8")
    lines = file.read_text(encoding="utf-8").splitlines()
    return _RAISED.format(line=1 + lines.index('    return row["b"]'))


def test_a_failed_step_says_at_once_where_the_users_code_raised(
    wavewright: CommandLine, raised: str
) -> None:
    answer = wavewright("run", "plan.yaml")

    assert answer.code == 1
    assert f"    at {raised}\n" in answer.err
    assert f"    {raised}\n" in answer.out


def test_one_step_is_shown_with_parameters_traceback_and_output(
    wavewright: CommandLine, project: Path, raised: str
) -> None:
    wavewright("run", "plan.yaml")
    [run] = [row["run"] for row in json.loads(wavewright("runs", "--format", "json").out)]

    shown = wavewright("show", run, "pick")
    before = wavewright("show", run, "names")

    assert shown.code == 0
    assert raised in shown.out
    assert '"name": "notes/planning.md"' in shown.out
    assert "KeyError: 'b'" in shown.out
    assert "    working for notes/planning.md\n" in shown.out
    assert "    nearly there\n" in shown.out
    assert '    "notes/planning.md",\n' in before.out
    body = json.loads(wavewright("show", run, "pick", "--format", "json").out)
    assert body["attempts"][0]["traceback"].startswith("Traceback (most recent call last):\n")
    assert body["calls"][0]["params"] == {"name": "notes/planning.md"}
    assert project.is_dir()


def test_items_that_failed_stand_before_the_others(wavewright: CommandLine, project: Path) -> None:
    tool = "\n\ndef halve(n: int) -> int:\n    print('halves', n)\n    return n // (n - 40)\n"
    (project / "tools" / "halves.py").write_text(f'"""Halves."""{tool}', encoding="utf-8")
    (project / "wavewright.yaml").write_text("tools: [tools/halves.py]\n", encoding="utf-8")
    numbers = ", ".join(map(str, range(60)))
    (project / "plan.yaml").write_text(
        f"steps:\n  - {{id: half, tool: halve, for_each: [{numbers}], params: {{n: '${{item}}'}}}}\n",
        encoding="utf-8",
    )
    wavewright("run", "plan.yaml")

    lines = wavewright("show", "20", "half").out.splitlines()

    assert [line for line in lines if line.startswith("Parameters")][:2] == [
        "Parameters of item 40 (failed)",
        "Parameters of item 0 (ok)",
    ]
    assert "… and 40 items more; `--format json` has them" in lines
    printed = [line for line in lines if line.startswith("    halves")]
    assert printed[:2] == ["    halves 40", "    halves 0"]
    assert len(printed) == 20


def test_the_logs_of_a_run_are_those_of_its_attempts(wavewright: CommandLine, raised: str) -> None:
    wavewright("run", "plan.yaml")

    logs = wavewright("logs")
    none = wavewright("logs", "--step", "names")

    assert logs.code == 0
    assert logs.out.startswith("pick, attempt 1\n  traceback\n")
    assert "    working for notes/planning.md\n" in logs.out
    assert none.out.startswith("no call of step 'names' of run ")
    assert raised


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--follow",), ["info    working for notes/planning.md", "error   KeyError: 'b'"]),
        (("--level", "error"), ["error   KeyError: 'b'"]),
        (("--search", "WORKING"), ["info    working for notes/planning.md"]),
        (("--step", "pick", "--search", "working"), ["info    working for notes/planning.md"]),
        (("--item", "0"), []),
    ],
)
def test_the_lines_of_a_log_are_those_that_are_asked_for(
    wavewright: CommandLine, raised: str, options: tuple[str, ...], told: list[str]
) -> None:
    assert raised
    wavewright("run", "plan.yaml")

    logs = wavewright("logs", *options)

    lines = [line for line in logs.out.splitlines() if " pick " in line]
    known = ("info    working for notes/planning.md", "error   KeyError: 'b'")
    assert logs.code == 0
    assert [text for text in known if any(text in line for line in lines)] == told


def test_a_log_that_is_followed_ends_where_its_run_is_removed(
    wavewright: CommandLine, raised: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert raised
    wavewright("run", "plan.yaml")

    async def removed(*_: object, **__: object) -> None:
        """There is no such row any more."""

    monkeypatch.setattr(run_queries, "find_row", removed)
    logs = wavewright("logs", "--follow")

    assert logs.code == 0
    assert "working for notes/planning.md" in logs.out


def test_a_log_is_lines_of_json_for_programs(wavewright: CommandLine, raised: str) -> None:
    assert raised
    wavewright("run", "plan.yaml")

    logs = wavewright("logs", "--level", "error", "--format", "json")

    lines = [json.loads(line) for line in logs.out.splitlines()]
    assert {line["level"] for line in lines} == {"error"}
    assert {line["stream"] for line in lines} == {"traceback"}
    assert lines[-1]["text"] == "KeyError: 'b'"


@pytest.mark.parametrize("command", [("show", "{run}", "picks"), ("logs", "--step", "picks")])
def test_an_unknown_step_is_told_with_the_nearest(
    wavewright: CommandLine, raised: str, command: tuple[str, ...]
) -> None:
    wavewright("run", "plan.yaml")
    [run] = [row["run"] for row in json.loads(wavewright("runs", "--format", "json").out)]

    answer = wavewright(*(part.format(run=run) for part in command))

    assert answer.code == 2
    assert "has no step 'picks'" in answer.err
    assert "did you mean 'pick'?" in answer.err
    assert raised


def test_package_and_report_hold_the_failure(
    wavewright: CommandLine, project: Path, raised: str
) -> None:
    wavewright("run", "plan.yaml")

    [folder] = (project / ".wavewright" / "runs").iterdir()
    package = read_package((folder / "package.json").read_bytes())
    page = (folder / "report.html").read_text(encoding="utf-8")

    [attempt] = package.failed_attempts
    assert (attempt.step, attempt.stdout) == ("pick", "working for notes/planning.md\n")
    assert attempt.traceback.endswith("KeyError: 'b'")
    assert '<section id="failures">' in page
    assert raised.split(":", maxsplit=1)[0] in page
    assert "working for notes/planning.md" in page
