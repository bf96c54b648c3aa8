"""`wavewright retry`: a run that has ended, again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from tests.engine.conftest import CommandLine
from wavewright.planner.types import JsonObject

_TOOL = '''

def rate(words: list[WordCount], factor: int = 1) -> int:
    """Rate.

    Args:
        words: What to rate.
        factor: How much.
    """
    if not Path("key").exists():
        raise ValueError("no key")
    return factor * len(words)
'''
_PLAN = """
inputs: {top: 5}
steps:
  - {id: note, tool: read_note, params: {path: notes/planning.md}}
  - {id: ranking, tool: rank_words, params: {notes: ["${steps.note}"], top: "${inputs.top}"}}
  - {id: rated, tool: rate, params: {words: "${steps.ranking.words}"}}
result: ${steps.rated}
"""


@pytest.fixture
def failed(wavewright: CommandLine, project: Path) -> str:
    """The id of a run that failed for want of a file."""
    file = project / "tools" / "notes.py"
    file.write_text(file.read_text(encoding="utf-8") + _TOOL, encoding="utf-8")
    (project / "wavewright.yaml").write_text("tools: [tools/notes.py]\n", encoding="utf-8")
    (project / "plan.yaml").write_text(_PLAN, encoding="utf-8")
    assert wavewright("run", "plan.yaml").code == 1
    return newest(wavewright)


def newest(wavewright: CommandLine) -> str:
    rows = cast("list[JsonObject]", json.loads(wavewright("runs", "--format", "json").out))
    return str(rows[0]["run"])


def statuses(wavewright: CommandLine) -> dict[str, str]:
    package = json.loads(wavewright("show", "--format", "json").out)
    return {entry["id"]: entry["status"] for entry in package["execution_log"]}


def test_resume_of_a_failed_run_names_retry(wavewright: CommandLine, failed: str) -> None:
    answer = wavewright("resume", failed)

    assert answer.code == 2
    assert f"`wavewright retry {failed}`" in answer.err


def test_a_retry_is_a_new_run_that_calls_only_what_failed(
    wavewright: CommandLine, project: Path, failed: str
) -> None:
    (project / "key").touch()

    answer = wavewright("retry")

    assert answer.code == 0
    assert newest(wavewright) != failed
    assert f"retry of run {failed}" in answer.out
    assert statuses(wavewright) == {"note": "reused", "ranking": "reused", "rated": "ok"}


def test_from_a_step_on_everything_is_called_anew(
    wavewright: CommandLine, project: Path, failed: str
) -> None:
    (project / "key").touch()

    assert wavewright("retry", failed, "--from", "ranking").code == 0

    assert statuses(wavewright) == {"note": "reused", "ranking": "ok", "rated": "ok"}


def test_another_input_calls_what_reads_it(
    wavewright: CommandLine, project: Path, failed: str
) -> None:
    (project / "key").touch()

    assert wavewright("retry", failed, "--set", "top=1").code == 0

    assert statuses(wavewright) == {"note": "reused", "ranking": "ok", "rated": "ok"}
    assert json.loads(wavewright("show", "--format", "json").out)["result"] == 1


def test_a_tool_whose_code_has_changed_is_called_again(
    wavewright: CommandLine, project: Path, failed: str
) -> None:
    (project / "key").touch()
    file = project / "tools" / "notes.py"
    # Of another length: Python takes a file of the same size and second for the one that it has
    # compiled.
    text = file.read_text(encoding="utf-8").replace("[a-z]{4,}", "[a-z]{10,}")
    file.write_text(text, encoding="utf-8")

    assert wavewright("retry", failed).code == 0

    assert statuses(wavewright) == {"note": "reused", "ranking": "ok", "rated": "ok"}


def test_a_retry_of_a_retry_takes_over_what_the_first_run_did(
    wavewright: CommandLine, project: Path, failed: str
) -> None:
    assert wavewright("retry", failed).code == 1
    (project / "key").touch()

    assert wavewright("retry").code == 0

    assert statuses(wavewright) == {"note": "reused", "ranking": "reused", "rated": "ok"}


def test_an_unknown_step_or_a_faulty_input_is_refused(wavewright: CommandLine, failed: str) -> None:
    step = wavewright("retry", failed, "--from", "rate")
    value = wavewright("retry", failed, "--set", "top")

    assert (step.code, value.code) == (2, 2)
    assert "did you mean 'rated'?" in step.err
    assert "'top' sets no input" in value.err
    assert newest(wavewright) == failed
