"""`wavewright tools`: what plans can call here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.engine.conftest import REPOSITORY, CommandLine
from tests.engine.normalized_output import worded


def names(text: str) -> list[str]:
    return [str(tool["name"]) for tool in json.loads(text)]


def test_tools_are_listed_with_parameters_and_results(
    wavewright: CommandLine, project: Path, snapshot: SnapshotAssertion
) -> None:
    answer = wavewright("tools", "--job", "plans/words.job.yaml")

    assert project.is_dir()
    assert answer.code == 0
    assert answer.out == snapshot


def test_the_packs_tools_fit_a_terminal_of_80_columns(
    wavewright: CommandLine, snapshot: SnapshotAssertion
) -> None:
    answer = wavewright("tools")

    assert max(map(len, answer.out.splitlines())) <= 80
    assert answer.out == snapshot


def test_effects_and_approvals_are_marked(wavewright: CommandLine, project: Path) -> None:
    (project / "tools" / "post.py").write_text(
        'def post(text: str) -> str:\n    """Post a text."""\n    return text\n'
    )
    (project / "wavewright.yaml").write_text(
        "tools:\n  - path: tools/post.py\n"
        "    functions:\n      post: {effects: [egress, write], needs_approval: true, untrusted_output: true}\n"
    )

    listed = wavewright("tools").out

    assert "post(text: string) -> string\n" in listed
    assert "    Post a text.  [egress, write, untrusted output, needs approval]\n" in listed


def test_as_json_a_job_lists_its_tools_alone(wavewright: CommandLine, project: Path) -> None:
    assert project.is_dir()
    everything = names(wavewright("tools", "--format", "json").out)
    of_the_job = names(wavewright("tools", "--format", "json", "--job", "plans/words.job.yaml").out)

    assert of_the_job == ["list_notes", "rank_words", "read_note"]
    assert set(of_the_job) < set(everything)
    assert everything == sorted(everything)


def test_a_pack_is_listed_without_settings(wavewright: CommandLine) -> None:
    job = REPOSITORY / "plans" / "stocks.job.yaml"

    assert "analyze_summary" in names(wavewright("tools", "--format", "json", "--job", job).out)


@pytest.mark.parametrize("job", ["none.yaml", "plans"])
def test_a_job_that_cannot_be_read_is_told(
    wavewright: CommandLine, project: Path, snapshot: SnapshotAssertion, job: str
) -> None:
    answer = wavewright("tools", "--job", job)

    assert answer.code == 2
    assert worded(answer, project) == snapshot
