"""`wavewright doctor`: what works here and what would mend the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine


def findings(wavewright: CommandLine) -> tuple[int, dict[str, dict[str, str]]]:
    answer = wavewright("doctor", "--format", "json")
    return answer.code, {finding["subject"]: finding for finding in json.loads(answer.out)}


def test_a_new_project_is_well(wavewright: CommandLine, project: Path) -> None:
    code, found = findings(wavewright)

    assert code == 0
    assert found["settings"]["detail"] == str(project / "wavewright.yaml")
    assert found["journal"]["detail"].endswith("(none yet; the first run makes it)")
    assert "list_notes" in found["tools"]["detail"]
    assert found["templates"]["detail"] == "stock_analysis, word_ranking"
    assert found["model"]["state"] == "note"
    assert not (project / ".wavewright").exists()


def test_an_empty_folder_is_well(wavewright: CommandLine, tmp_path: Path) -> None:
    code, found = findings(wavewright)

    assert code == 0
    assert found["settings"]["detail"].startswith("defaults")
    assert not list(tmp_path.iterdir())


def test_runs_are_counted(wavewright: CommandLine, project: Path) -> None:
    wavewright("run", "plans/words.job.yaml")

    assert project.is_dir()
    assert findings(wavewright)[1]["journal"]["detail"].endswith("(1 run)")


@pytest.mark.parametrize(
    ("path", "content", "subject"),
    [
        ("wavewright.yaml", "tool: []\n", "settings"),
        ("wavewright.yaml", "packs: {equitis: {}}\n", "tools"),
        ("wavewright.yaml", "packs: {equities: {prizes: here}}\n", "tools"),
        ("tools/notes.py", "raise RuntimeError('no database')\n", "tools"),
        (".wavewright", "a file\n", "journal"),
    ],
)
def test_a_fault_exits_1_and_names_the_mend(
    wavewright: CommandLine, project: Path, path: str, content: str, subject: str
) -> None:
    (project / path).write_text(content)

    code, found = findings(wavewright)

    assert code == 1
    assert found[subject]["state"] == "fault"
    assert found[subject]["mend"]


def test_a_misspelt_setting_is_told_with_its_line_and_the_word_that_was_meant(
    wavewright: CommandLine, project: Path
) -> None:
    (project / "wavewright.yaml").write_text("version: 1\nconcurency: 3\n")

    settings = findings(wavewright)[1]["settings"]

    assert settings["detail"].startswith(f"{project / 'wavewright.yaml'}:2: 'concurency' is no field")
    assert settings["mend"] == "did you mean 'concurrency'?"


@pytest.mark.parametrize("content", ["name: [\n", "version: 1\nname: torn\n"], ids=["no_yaml", "half"])
def test_a_faulty_template_leaves_the_sound_ones_on_the_list(
    wavewright: CommandLine, project: Path, content: str
) -> None:
    (project / "config" / "goals" / "torn.yaml").write_text(content)

    answer = wavewright("doctor")

    assert answer.code == 1
    assert any(
        line.startswith("fault templates") and "torn.yaml:" in line for line in answer.out.splitlines()
    )
    assert "ok    templates   stock_analysis, word_ranking\n" in answer.out


def test_the_text_is_a_line_a_finding(wavewright: CommandLine, project: Path) -> None:
    (project / "tools" / "notes.py").write_text("import no_such_module\n")

    answer = wavewright("doctor")
    lines = answer.out.splitlines()

    assert answer.code == 1
    assert lines[0].startswith("ok    version     wavewright ")
    assert any(line.startswith("fault tools       ") for line in lines)
    assert any(line.strip().startswith("= help: ") for line in lines)
