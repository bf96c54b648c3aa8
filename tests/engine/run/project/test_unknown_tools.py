"""What a plan that misspells a tool is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine


@pytest.mark.parametrize("command", ["check", "run", "dry-run"])
def test_a_plan_without_a_template_is_told_the_tool_of_the_project_that_was_meant(
    wavewright: CommandLine, project: Path, command: str
) -> None:
    (project / "plan.yaml").write_text(
        "steps: [{id: files, tool: list_note, params: {folder: notes}}]\n"
    )

    answer = wavewright(command, "plan.yaml")

    assert answer.code == 1
    assert "step 'files' calls 'list_note', and there is no such tool" in answer.err + answer.out
    assert "= help: did you mean 'list_notes'?" in answer.err + answer.out
