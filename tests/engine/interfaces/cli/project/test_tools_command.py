"""`wavewright tools`: what plans can call here."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.engine.conftest import REPOSITORY, CommandLine
from tests.engine.normalized_output import worded
from wavewright.planner.diagnostics.rendering import display_width


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
    answer = wavewright("tools", "--all")

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


def test_what_a_tool_says_fits_the_terminal_and_every_character_prints(
    wavewright: CommandLine, project: Path
) -> None:
    said = "終値を返します。" * 20 + " \x1b[2J"
    (project / "tools" / "wide.py").write_text(
        f'def wide(text: str) -> str:\n    """{said}"""\n    return text\n', encoding="utf-8"
    )
    (project / "wavewright.yaml").write_text("tools: [tools/wide.py]\n")

    listed = wavewright("tools").out

    assert max(map(display_width, listed.splitlines())) <= 80
    assert "\\x1b[2J" in listed


def test_as_json_a_job_lists_its_tools_alone(wavewright: CommandLine, project: Path) -> None:
    assert project.is_dir()
    everything = names(wavewright("tools", "--format", "json").out)
    of_the_job = names(wavewright("tools", "--format", "json", "--job", "plans/words.job.yaml").out)

    assert of_the_job == ["list_notes", "rank_words", "read_note"]
    assert set(of_the_job) < set(everything)
    assert everything == sorted(everything)


@pytest.mark.parametrize(
    ("document", "tool", "is_listed"),
    [
        ("", "roll", False),
        ("steps: [{id: a, tool: tabletop.roll, params: {text: give}}]", "tabletop.roll", True),
        ('{"steps": [{"id": "a", "tool": "fetch_stock_data"}]}', "fetch_stock_data", True),
        ("goal_template: stock_analysis", "fetch_stock_data", True),
        ("params: {text: tabletop, why: fetch_stock_data}", "fetch_stock_data", False),
    ],
)
def test_packs_are_listed_that_a_document_of_the_project_names(
    wavewright: CommandLine, project: Path, document: str, tool: str, *, is_listed: bool
) -> None:
    (project / "plans" / "own.plan.yaml").write_text(document)

    listed = wavewright("tools").out

    assert (f"\n{tool}(" in listed) is is_listed
    assert "Not listed, as this project does not use them: the packs " in listed
    assert "\nrank_words(" in listed


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


def test_what_tools_should_say_of_untrusted_text_is_a_patch_that_applies(
    wavewright: CommandLine, project: Path
) -> None:
    (project / "tools" / "mail.py").write_text(
        'def send(to: str, body: str) -> str:\n    """Send a mail."""\n    return body\n\n\n'
        'def look_up(word: str) -> str:\n    """Look a word up."""\n    return word\n\n\n'
        'def post(text: str, count: int) -> str:\n    """Post a text."""\n    return text\n\n\n'
        'def file(text: str, title: str, note: str) -> str:\n    """File it."""\n    return text\n\n\n'
        'def pin(text: str, title: str) -> str:\n    """Pin it."""\n    return text\n'
    )
    settings = project / "wavewright.yaml"
    settings.write_text(
        "tools:\n  - path: tools/mail.py\n    functions:\n"
        "      send: {effects: [write, egress]}  # a comment\n"
        "      look_up: {effects: [read, egress]}\n"
        "      file: {effects: [write], accepts_untrusted: [title], timeout: 9}\n"
        "      pin:\n        accepts_untrusted:\n        - title  # shown\n        effects: [write]\n"
        "      post:\n        effects: [write]\n"
    )

    listed = wavewright("tools", "--untrusted").out

    assert "send refuses untrusted text without an approval in: to, body\n" in listed
    assert "look_up asks outside, and its output is taken to be trusted\n" in listed
    (project / "untrusted.patch").write_text(listed)
    subprocess.run(["git", "apply", "untrusted.patch"], cwd=project, check=True)
    assert "send: {effects: [write, egress], accepts_untrusted: [body]}  # a comment" in (
        settings.read_text()
    )
    assert "accepts_untrusted: [title, text, note], timeout: 9}\n" in settings.read_text()
    assert "untrusted:\n        - text\n        - title  # shown\n" in settings.read_text()
    assert settings.read_text().endswith(
        "      post:\n        effects: [write]\n        accepts_untrusted: [text]\n"
    )
    again = wavewright("tools", "--untrusted").out
    assert "send refuses untrusted text without an approval in: to\n" in again
    assert "look_up asks outside" not in again
    assert "+++" not in again
