"""Gates on steps without items, as a user meets them: on the terminal, in the package and in the
report.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from tests.engine.conftest import CommandLine
from wavewright.planner.types import JsonObject

NAME = "has_text__notes"


@pytest.fixture
def empty(project: Path) -> Path:
    """The starter's project without a note."""
    for note in (project / "notes").iterdir():
        note.unlink()
    return project


def say(project: Path, on_empty: str) -> None:
    """Set what comes of the template's gate where there is no note."""
    template = project / "config" / "goals" / "word_ranking.yaml"
    text = template.read_text().replace(
        "severity: block", f"severity: block\n    on_empty: {on_empty}"
    )
    template.write_text(text)


def package(project: Path) -> JsonObject:
    [file] = (project / ".wavewright" / "runs").glob("*/package.json")
    return cast("JsonObject", json.loads(file.read_text()))


def test_it_is_told_with_a_warning_and_a_cap(wavewright: CommandLine, empty: Path) -> None:
    ran = wavewright("run", "plans/words.job.yaml")
    shown = wavewright("show")
    page = wavewright("show", "--format", "html").out
    gates = cast("list[JsonObject]", package(empty)["gates"])

    assert ran.code == 0, ran.err
    assert f"gate {NAME} warns: not evaluated: step 'notes' had no items" in ran.err
    assert [(gate["gate"], gate["verdict"], gate["severity"]) for gate in gates] == [
        (NAME, "not_evaluated", "warn")
    ]
    for text in (ran.out, shown.out):
        assert f"gate '{NAME}' on step 'notes': not evaluated: step 'notes' had no items" in text
        assert f"at most 0.5: gate '{NAME}' was not evaluated: step 'notes' had no items" in text
        assert "Confidence 0.50, lowered by caps" in text
    assert "Goal achieved: every mandatory gate that was evaluated passed" in " ".join(
        ran.out.split()
    )
    assert '<span class="verdict">not evaluated</span>' in page


def test_a_template_can_have_it_block(wavewright: CommandLine, empty: Path) -> None:
    say(empty, "block")

    ran = wavewright("run", "plans/words.job.yaml")

    assert ran.code == 1
    assert f"gate {NAME} blocks: not evaluated: step 'notes' had no items" in ran.err
    assert package(empty)["status"] == "not_achieved"


def test_a_template_can_let_it_pass(wavewright: CommandLine, empty: Path) -> None:
    say(empty, "pass")

    ran = wavewright("run", "plans/words.job.yaml")

    assert ran.code == 0, ran.err
    assert "not evaluated" not in ran.out + ran.err
    assert "Confidence 0.80" in " ".join(ran.out.split())
