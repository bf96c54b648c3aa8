"""`wavewright doctor` tries a project's prompts, and reads the calibration of its judges."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from tests.support.note_worker import NOTE_WORKER

MEASURED = """\
version: 1
gates:
  - {gate: says_why, rubric: It says why., model: "openai:gpt-5", agreement: 0.94, cases: 50, date: 2026-11-01}
"""


def write_prompt(project: Path, name: str, text: str) -> Path:
    file = project / "prompts" / f"{name}.md.j2"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def findings(wavewright: CommandLine, subject: str) -> list[dict[str, str]]:
    told = json.loads(wavewright("doctor", "--offline", "--format", "json").out)
    return [found for found in told if found["subject"] == subject]


@pytest.mark.parametrize(
    ("name", "text", "line", "message", "hint"),
    [
        pytest.param(
            "planner/instructions",
            "Plan.\n{{ may_aks }}",
            2,
            "'may_aks' is undefined",
            "given: asks_models, calls_plans",
            id="name",
        ),
        pytest.param(
            "planner/request", "{{ goal.title }}", 1, "'dict object' has no attribute 'title'", "goal,", id="field"
        ),
        pytest.param(
            "planner/repair",
            "{% if is_truncated %}\n{{ lenght }}\n{% endif %}",
            2,
            "'lenght' is undefined",
            "diagnostics, is_truncated, more",
            id="in one form alone",
        ),
        pytest.param(
            "reviewer/request",
            "{% for output in outputs %}\n{{ output.nmae }}{% endfor %}",
            2,
            "has no attribute 'nmae'",
            "outputs",
            id="in a list",
        ),
        pytest.param(
            "judge/request", "{% include 'judge/rekuest.md.j2' %}", 1, "no template", "judge/request", id="include"
        ),
        pytest.param("recovery/request", "{{ goal | nosuch }}", 1, "No filter named 'nosuch'", "syntax", id="filter"),
        pytest.param(
            "text/summarize_content", "{{ input.content }}", 1, "'input' is undefined", "draft, inputs", id="pack"
        ),
    ],
)  # fmt: skip
def test_a_value_that_a_prompt_is_never_given_is_found_at_its_line_with_those_that_are(
    wavewright: CommandLine, project: Path, name: str, text: str, line: int, message: str, hint: str
) -> None:
    file = write_prompt(project, name, text)

    faults = [found for found in findings(wavewright, "prompts") if found["state"] == "fault"]

    assert len(faults) == 1
    assert faults[0]["detail"].startswith(f"{file}:{line}: ")
    assert message in faults[0]["detail"]
    assert hint in faults[0]["hint"]
    assert wavewright("doctor", "--offline").code == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param(
            "planner/request",
            "{{ other_values.folder | upper }} {{ primary.shown[0].code }}",
            id="inputs",
        ),
        pytest.param(
            "planner/request",
            "{% if house is defined %}{{ house }}{% endif %}",
            id="asked for first",
        ),
        pytest.param(
            "planner/request",
            "{{ other_values.codes | first | join(', ') }}",
            id="a list of the job's",
        ),
        pytest.param(
            "reviewer/request",
            "{% for step in steps %}{{ step.error.kind }}{% endfor %}",
            id="records",
        ),
        pytest.param("reviewer/request", "{{ inputs.top + 1 }}", id="a number of the job's"),
        pytest.param(
            "recovery/request",
            "{% for k, v in inputs.items() %}{{ k }}: {{ v }}{% endfor %}",
            id="items",
        ),
        pytest.param(
            "judge/request",
            "{{ output.rows | length }} {{ output | data('output') }}",
            id="an output",
        ),
        pytest.param(
            "planner/instructions",
            '{% include "shipped/planner/instructions.md.j2" %} More.',
            id="include",
        ),
    ],
)
def test_what_a_job_a_plan_or_a_tool_decides_is_taken_as_given(
    wavewright: CommandLine, project: Path, name: str, text: str
) -> None:
    write_prompt(project, name, text)

    states = [found["state"] for found in findings(wavewright, "prompts")]

    assert states == ["ok"]


@pytest.mark.parametrize(
    ("text", "state"), [("{{ inputs.word }}", "ok"), ("{{ inputs.wrod }}", "fault")]
)
def test_the_prompt_of_a_worker_is_given_the_inputs_that_it_declares(
    wavewright: CommandLine, project: Path, text: str, state: str
) -> None:
    (project / "config" / "workers").mkdir()
    (project / "config" / "workers" / "note.yaml").write_text(NOTE_WORKER)
    write_prompt(project, "workers/note", text)

    assert findings(wavewright, "prompts")[0]["state"] == state


def test_a_fault_of_a_template_that_others_include_is_told_once(
    wavewright: CommandLine, project: Path
) -> None:
    write_prompt(project, "planner/house", "{{ nobody }}")
    for name in ("reviewer/instructions", "recovery/instructions"):
        write_prompt(project, name, '{% include "planner/house.md.j2" %}')

    faults = [
        found["detail"] for found in findings(wavewright, "prompts") if found["state"] == "fault"
    ]

    assert all(fault.endswith("house.md.j2:1: 'nobody' is undefined") for fault in faults)
    assert len(faults) == 2  # one a prompt, for each is given something else


# --- the calibration
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        pytest.param(None, "judges.yaml: ", "", id="absent"),
        pytest.param(
            MEASURED.replace("agreement", "agrement"), "judges.yaml:3: ", "agreement", id="misspelt"
        ),
        pytest.param(MEASURED.replace("0.94", "94"), "judges.yaml:3: ", "", id="out of bounds"),
        pytest.param("version: [", "judges.yaml:", "", id="no document"),
    ],
)
def test_a_calibration_that_is_absent_or_faulty_is_found_with_place_and_fix(
    wavewright: CommandLine, project: Path, text: str | None, place: str, hint: str
) -> None:
    with (project / "wavewright.yaml").open("a") as settings:
        settings.write("models: {calibration: judges.yaml}\n")
    if text is not None:
        (project / "judges.yaml").write_text(text)

    [found] = findings(wavewright, "calibration")

    assert found["state"] == "fault"
    assert str(project / place) in found["detail"]
    assert found["hint"]
    assert hint in found["hint"]


def test_a_sound_calibration_is_named_with_its_measurements(
    wavewright: CommandLine, project: Path
) -> None:
    with (project / "wavewright.yaml").open("a") as settings:
        settings.write("models: {calibration: judges.yaml}\n")
    (project / "judges.yaml").write_text(MEASURED)

    [found] = findings(wavewright, "calibration")

    assert (found["state"], found["detail"]) == ("ok", f"{project / 'judges.yaml'} (1 measurement)")


def test_without_a_calibration_there_is_no_word_of_one(
    wavewright: CommandLine, project: Path
) -> None:
    assert project.is_dir()
    assert findings(wavewright, "calibration") == []


def test_templates_beside_the_code_of_a_package_are_not_the_projects(
    wavewright: CommandLine, project: Path
) -> None:
    code = project / "prompts" / "own" / "package"
    code.mkdir(parents=True)
    (code / "__init__.py").touch()
    (code / "text.md.j2").write_text("Hello")

    answer = wavewright("doctor")

    assert "replaces no shipped prompt" not in answer.out
