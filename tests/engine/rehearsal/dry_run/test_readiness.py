"""What keeps a plan's workers from working is found before a run: their prompts, and the model that
they ask.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.conftest import Answer, CommandLine
from tests.support.note_worker import NOTE_WORKER

PLAN = "steps:\n  - {id: files, tool: list_notes, params: {folder: notes}}\n"
STEP = "  - {id: line, tool: note, params: {word: rain}}\n"


@pytest.fixture
def noting(project: Path) -> Path:
    """A project with a worker, its prompt and a plan that calls it."""
    (project / "config" / "workers").mkdir()
    (project / "config" / "workers" / "note.yaml").write_text(NOTE_WORKER)
    write_prompt(project, "Write about {{ inputs.word }}.\n")
    (project / "plan.yaml").write_text(PLAN + STEP)
    return project


def write_prompt(project: Path, text: str) -> None:
    file = project / "prompts" / "workers" / "note.md.j2"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)


def told(answer: Answer) -> str:
    return answer.out + answer.err


def has_run(wavewright: CommandLine) -> bool:
    """Whether any run has steps that ended."""
    return any(run["steps"] for run in json.loads(wavewright("runs", "--format", "json").out))


@pytest.mark.parametrize("command", [("check",), ("dry-run",), ("dry-run", "--simulate"), ("run",)])
@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("Write.\n{{ inputs.wrod }}\n", "note.md.j2:2: 'dict object' has no attribute 'wrod'"),
        ("Write about {{ inputs.word.\n", "note.md.j2:1: "),
        ("{% include 'workers/tone.md.j2' %}\n", "note.md.j2:1: "),
    ],
)
def test_a_prompt_that_cannot_be_rendered_is_found_before_anything_runs(
    wavewright: CommandLine, noting: Path, command: tuple[str, ...], prompt: str, message: str
) -> None:
    write_prompt(noting, prompt)

    answer = wavewright(*command, "plan.yaml")

    assert answer.code == 1
    assert "error[E207]: step 'line' calls 'note'" in told(answer)
    assert message in told(answer)
    assert "plan.yaml:3:" in told(answer)
    assert command != ("run",) or not has_run(wavewright)


def test_a_prompt_that_asks_for_what_it_is_given_is_no_fault(
    wavewright: CommandLine, noting: Path
) -> None:
    assert "E207" not in told(wavewright("check", "plan.yaml"))


def test_a_broken_prompt_of_a_worker_that_the_plan_does_not_call_is_none_of_its_faults(
    wavewright: CommandLine, noting: Path
) -> None:
    write_prompt(noting, "{{ inputs.wrod }}")
    (noting / "plan.yaml").write_text(PLAN)

    assert wavewright("check", "plan.yaml").code == 0


@pytest.mark.parametrize("command", ["check", "dry-run"])
def test_a_missing_model_is_a_warning_where_a_plan_is_only_looked_at(
    wavewright: CommandLine, noting: Path, command: str
) -> None:
    answer = wavewright(command, "plan.yaml")

    assert noting.is_dir()
    assert answer.code == 0
    assert "W806" in answer.out
    assert "'note': it needs a model, and none is configured" in answer.out


def test_a_run_that_needs_a_model_and_has_none_ends_before_anything_is_called(
    wavewright: CommandLine, noting: Path
) -> None:
    answer = wavewright("run", "plan.yaml")

    assert noting.is_dir()
    assert answer.code == 1
    assert "error[E208]: step 'line' calls 'note'" in answer.err
    assert not has_run(wavewright)


def test_a_run_whose_optional_step_needs_a_model_goes_on_without_it(
    wavewright: CommandLine, noting: Path
) -> None:
    (noting / "plan.yaml").write_text(
        PLAN + STEP.replace("tool: note", "tool: note, optional: true")
    )

    answer = wavewright("run", "plan.yaml")

    assert answer.code == 0, told(answer)
    assert "E208" not in told(answer)
    assert has_run(wavewright)


def test_a_key_that_is_missing_where_a_plan_is_checked_is_a_warning(
    wavewright: CommandLine, noting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("WAVEWRIGHT_MODEL", "openai:gpt-5-mini")

    checked = wavewright("check", "plan.yaml")
    run = wavewright("run", "plan.yaml")

    assert noting.is_dir()
    assert checked.code == 0
    assert (
        "warning[W806]: a run here cannot begin: the configured model cannot be asked"
        in checked.out
    )
    assert "OPENAI_API_KEY" in checked.out
    assert run.code != 0
