"""What tools bring, print and raise steers no terminal, wherever it is shown."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from wavewright.engine.interfaces.cli.common.progress import gate_lines
from wavewright.executor.events.types import GateRecord
from wavewright.planner.types import GateId, StepId

ODD = "a\\x1b[2Jb\\u202ec\\u200bd\\x07e\\x9bf\\ufeffg\\U000e0041h"
TOOLS = f'''
"""Tools that bring odd text."""


def bring() -> dict[str, str]:
    """Bring it, under its own name."""
    return {{"{ODD}": "{ODD}"}}


def texts() -> list[str]:
    """Bring some."""
    return ["{ODD}", "{ODD}2"]


def echo(text: str) -> str:
    """Echo.

    Args:
        text: A text.
    """
    return text


def fail() -> str:
    """Print it and fail with it."""
    print("{ODD}")
    raise ValueError("{ODD}")
'''
JOB = """\
version: 1
name: odd
goal: Show odd text
plan:
  steps:
    - {id: brought, tool: bring}
    - {id: texts, tool: texts}
    - {id: each, tool: echo, for_each: "${steps.texts}", params: {text: "${item}"}}
    - {id: failed, tool: fail, optional: true}
  gates:
    - {id: empty, on: each, check: "size(output) == 0", severity: warn}
  result: {brought: "${steps.brought}", each: "${steps.each}"}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "odd.py").write_text(TOOLS)
    (tmp_path / "wavewright.yaml").write_text(
        "tools: [{path: odd.py, functions: {bring: {}, texts: {}, echo: {}, fail: {}}}]\n"
    )
    (tmp_path / "odd.job.yaml").write_text(JOB)
    return tmp_path


def steering(text: str) -> set[str]:
    """Return the characters of a text that a terminal does not just print."""
    return {
        char
        for char in text
        if char not in "\n\t" and unicodedata.category(char) in {"Cc", "Cf", "Cs"}
    }


def test_no_command_prints_a_character_of_a_tool_that_steers_a_terminal(
    wavewright: CommandLine, project: Path
) -> None:
    ran = wavewright("run", "odd.job.yaml", "--output", "out")
    [folder] = (project / "out").iterdir()
    run = folder.name
    printed = [
        ran,
        wavewright("run", "odd.job.yaml", "--output", "again", "--json"),
        *(wavewright("show", run, "--format", form) for form in ("text", "json", "events")),
        *(wavewright("show", run, step) for step in ("brought", "texts", "each", "failed")),
        wavewright("show", run, "failed", "--format", "json"),
        wavewright("logs", run),
        wavewright("logs", run, "--format", "json"),
        wavewright("dry-run", "odd.job.yaml", "--run", run),
    ]

    assert [steering(answer.out + answer.err) for answer in printed] == [set()] * len(printed)
    assert r"ValueError: a\x1b[2Jb\u202ec\u200bd" in ran.err
    assert r"    gate empty" in ran.err


def test_the_lines_of_gates_below_the_live_view_are_printable() -> None:
    inspected = "output = a\u202eb\x1b[2J"
    record = GateRecord(
        GateId("g"), StepId("s"), "check", "warn", "fail", inspected, hint="mend\u200b"
    )

    assert gate_lines([record]) == [
        r"gate g warns: output = a\u202eb\x1b[2J",
        r"  = help: mend\u200b",
    ]
