"""What a person who is asked for approval is shown of the calls to come."""

from __future__ import annotations

import json
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


def test_values_are_shown_as_they_are_sent_without_the_projects_own_keys(
    wavewright: CommandLine, saving: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXAMPLE_API_KEY", "correct-horse-battery-staple")
    lines = shown(
        wavewright,
        saving,
        "inputs: {word: correct-horse-battery-staple}\n"
        "steps: [{id: keep, tool: save, params: {path: 'to ${inputs.word}', "
        "text: 'token=mallory@evil.example'}}]\n",
    )

    assert '      path: "to [redacted]"' in lines
    assert '      text: "token=mallory@evil.example"' in lines


def test_nothing_of_a_long_value_or_a_long_list_is_cut(
    wavewright: CommandLine, saving: Path
) -> None:
    names = [f"{number}@example.org" for number in range(600)]
    lines = shown(
        wavewright,
        saving,
        f"inputs: {{long: {'x' * 9000}EVIL, names: {json.dumps([*names, 'evil@evil.example'])}}}\n"
        "steps: [{id: keep, tool: save, for_each: '${inputs.names}', "
        "params: {path: '${item}', text: '${inputs.long}'}}]\n",
    )

    assert f'      text: "{"x" * 9000}EVIL"' in lines
    assert '      path: "evil@evil.example"' in lines


def test_the_list_of_decisions_folds_long_values_and_counts_them(
    wavewright: CommandLine, saving: Path
) -> None:
    shown(
        wavewright,
        saving,
        f"steps: [{{id: keep, tool: save, params: {{path: a.md, text: {'x' * 9000}}}}}]\n",
    )

    listed = wavewright("decisions").out

    assert "[…" in listed
    assert "characters more…]" in listed
    assert "all of each line: wavewright decisions" in listed
    assert "x" * 9000 not in listed


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
