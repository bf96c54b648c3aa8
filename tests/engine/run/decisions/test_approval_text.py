"""What a person who is asked for approval is shown of the calls to come."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine

SAVE = '''
from pathlib import Path


def save(path: str, text: str) -> str:
    """Write a file."""
    Path(path).write_text(text)
    return path


def draft() -> str:
    """Return a text."""
    return "a draft"


def title() -> str:
    """Return a title."""
    return "short"
'''
SETTINGS = """
tools:
  - path: tools/save.py
    functions: {draft: {}, title: {}, save: {effects: [write], needs_approval: true}}
"""


@pytest.fixture
def saving(project: Path) -> Path:
    """A project with a tool that writes files and needs approval."""
    (project / "tools" / "save.py").write_text(SAVE)
    (project / "wavewright.yaml").write_text(SETTINGS)
    return project


def shown(wavewright: CommandLine, folder: Path, plan: str) -> list[str]:
    """Return what `decisions` shows of a run that waits for an approval of the plan."""
    (folder / "save.plan.yaml").write_text(plan)
    waiting = wavewright("run", "save.plan.yaml", "--approve", "wait")
    assert waiting.code == 130, waiting.err
    [run] = {line.split()[1] for line in waiting.err.splitlines() if line.startswith("run ")} - {
        "waits"
    }
    answer = wavewright("decisions", run)
    assert answer.code == 0, answer.err
    return answer.out.splitlines()


def test_inputs_and_literals_are_shown_as_what_will_be_written(
    wavewright: CommandLine, saving: Path
) -> None:
    lines = shown(
        wavewright,
        saving,
        "inputs: {report: out/summary.md, names: [ada, bo]}\n"
        "steps: [{id: keep, tool: save, params: {path: '${inputs.report}', "
        "text: 'for ${inputs.names[0]}, ${inputs.names.size()} in all'}}]\n",
    )

    assert "  keep calls save with" in lines
    assert '      path: "out/summary.md"' in lines
    assert '      text: "for ada, 2 in all"' in lines


def test_outputs_of_the_steps_before_are_shown_as_what_will_be_written(
    wavewright: CommandLine, saving: Path
) -> None:
    lines = shown(
        wavewright,
        saving,
        "inputs: {folder: out}\n"
        "steps:\n"
        "  - {id: made, tool: draft}\n"
        "  - {id: keep, tool: save, params: {path: '${inputs.folder}/${steps.made}.md', text: x}}\n",
    )

    assert "  keep calls save with" in lines
    assert '      path: "out/a draft.md"' in lines
    assert '      text: "x"' in lines


def test_each_call_of_a_list_is_shown(wavewright: CommandLine, saving: Path) -> None:
    lines = shown(
        wavewright,
        saving,
        "steps:\n"
        "  - {id: made, tool: draft}\n"
        "  - {id: keep, tool: save, for_each: '${[steps.made, \"b\"]}', "
        "params: {path: '${item}.md', text: 'number ${index}'}}\n",
    )

    assert lines[lines.index("  keep calls save 2 times") :][:7] == [
        "  keep calls save 2 times",
        "    1. with",
        '      path: "a draft.md"',
        '      text: "number 0"',
        "    2. with",
        '      path: "b.md"',
        '      text: "number 1"',
    ]


def test_secrets_are_redacted_and_long_values_are_cut(
    wavewright: CommandLine, saving: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXAMPLE_API_KEY", "correct-horse-battery-staple")
    lines = shown(
        wavewright,
        saving,
        f"inputs: {{word: correct-horse-battery-staple, long: {'x' * 9000}}}\n"
        "steps: [{id: keep, tool: save, params: {path: 'to ${inputs.word}', text: '${inputs.long}'}}]\n",
    )

    assert not any("correct-horse" in line for line in lines)
    assert any(line.startswith('      path: "to ') for line in lines)
    [text] = [line for line in lines if line.startswith("      text: ")]
    assert text.endswith("xxx… (9,002 characters in all)")
    assert len(text) < 4100


def test_a_patch_shows_the_values_that_finished_steps_have_given(
    wavewright: CommandLine, saving: Path
) -> None:
    (saving / "config" / "goals" / "keeping.yaml").write_text(
        "version: 1\nname: keeping\ngoal: Keep a draft\n"
        "available_tools: [{name: draft}, {name: title}, {name: save}]\n"
        "gates: [{id: long, on_tool: title, check: output.size() > 100}]\n"
        "recipes: [{gate: long, reason: keep it for later, add: "
        "[{id: kept, tool: save, params: {path: kept.md, text: '${steps.made}'}}]}]\n"
    )
    (saving / "keep.job.yaml").write_text(
        "version: 1\nname: keep\ngoal_template: keeping\nplan: d.plan.yaml\n"
    )
    (saving / "d.plan.yaml").write_text(
        "steps: [{id: made, tool: draft}, {id: head, tool: title}]\n"
    )

    waiting = wavewright("run", "keep.job.yaml", "--approve", "wait")
    asked = wavewright("decisions", "--format", "json")

    assert waiting.code == 130, waiting.err
    assert 'kept calls save with\\n    path: \\"kept.md\\"\\n    text: \\"a draft\\"' in asked.out
