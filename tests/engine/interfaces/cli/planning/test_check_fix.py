"""`wavewright check --fix` and `--diff`: what is written, what is only shown, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.engine.conftest import CommandLine
from tests.engine.normalized_output import worded
from wavewright.engine.interfaces.cli.planning.text_edits import FileChanged, replace_text

PLAN = """\
version: 1
inputs: {folder: notes, top: 5}
steps:
  # the notes
  - {id: all, tool: list_notes, params: {folder: "${inputs.folder}"}}
  - {id: again, tool: list_notes, params: {folder: "${inputs.folder}"}}
  - id: notes
    tool: read_note
    for_each: ${steps.again}
    params: {path: "${item}"}
    depends_on: [all]   # all of them
  - id: words
    tool: rank_words
    params: {notes: "${steps.notes}", top: "${inputs.top}"}
result: ${steps.words}
"""
FIXED = """\
version: 1
inputs: {folder: notes, top: 5}
steps:
  # the notes
  - {id: all, tool: list_notes, params: {folder: "${inputs.folder}"}}
  - id: notes
    tool: read_note
    for_each: ${steps.all}
    params: {path: "${item}"}
  - id: words
    tool: rank_words
    params: {notes: "${steps.notes}", top: "${inputs.top}"}
result: ${steps.words}
"""


@pytest.fixture
def project(project: Path) -> Path:
    """The project as it is made, where listing the notes gives the same throughout a run."""
    settings = project / "wavewright.yaml"
    before = "list_notes: {tags: [data],"
    text = settings.read_text()
    assert before in text
    settings.write_text(text.replace(before, "list_notes: {deterministic: true, tags: [data],"))
    return project


@pytest.fixture
def plan(project: Path) -> Path:
    path = project / "plans" / "twice.plan.yaml"
    path.write_text(PLAN)
    return path


def indented(text: str, by: int = 2) -> str:
    return "".join(" " * by + line for line in text.splitlines(keepends=True))


def test_the_file_is_fixed_and_the_difference_shown(
    wavewright: CommandLine, plan: Path, snapshot: SnapshotAssertion
) -> None:
    answer = wavewright("check", "plans/twice.plan.yaml", "--fix")

    assert answer.code == 0
    assert plan.read_text() == FIXED
    assert worded(answer, plan.parent) == snapshot


def test_a_fixed_file_has_nothing_to_fix(wavewright: CommandLine, plan: Path) -> None:
    wavewright("check", plan, "--fix")
    before = plan.stat()
    again = wavewright("check", plan, "--fix")

    assert plan.stat().st_mtime_ns == before.st_mtime_ns
    assert again.out == f"{plan}: valid: 3 steps in 3 waves, max parallelism 1\n"


@pytest.mark.parametrize("flags", [("--diff",), ("--fix", "--diff")])
def test_a_difference_is_only_shown_where_that_is_asked_for(
    wavewright: CommandLine, plan: Path, flags: tuple[str, ...]
) -> None:
    shown = wavewright("check", plan, *flags)

    assert shown.code == 1
    assert "-  - {id: again," in shown.out
    assert plan.read_text() == PLAN


def test_programs_are_told_what_was_fixed(wavewright: CommandLine, plan: Path) -> None:
    told = json.loads(wavewright("check", plan, "--diff", "--format", "json").out)

    assert [fix["code"] for fix in told["fixed"]["fixes"]] == ["W802", "W803"]
    assert told["fixed"]["is_written"] is False
    assert told["fixed"]["difference"].startswith("--- ")
    assert told["diagnostics"] == []


def test_a_plan_with_faults_stays_as_it_is(wavewright: CommandLine, plan: Path) -> None:
    plan.write_text(PLAN.replace("top: 5", "tip: 5"))
    answer = wavewright("check", plan, "--fix")

    assert answer.code == 1
    assert plan.read_text() == PLAN.replace("top: 5", "tip: 5")
    assert "fixed" not in answer.out


def test_the_plan_that_a_job_names_is_fixed(wavewright: CommandLine, plan: Path) -> None:
    (plan.parent / "twice.job.yaml").write_text("version: 1\nname: twice\nplan: twice.plan.yaml\n")
    answer = wavewright("check", "plans/twice.job.yaml", "--fix")

    assert answer.code == 0, answer.err
    assert plan.read_text() == FIXED


def test_the_plan_in_a_job_is_fixed_in_the_job(wavewright: CommandLine, project: Path) -> None:
    job = project / "job.yaml"
    job.write_text(f"name: twice # the job\nplan:\n{indented(PLAN)}")
    answer = wavewright("check", job, "--fix")

    assert answer.code == 0, answer.err
    assert job.read_text() == f"name: twice # the job\nplan:\n{indented(FIXED)}"


def test_a_job_of_a_template_whose_plan_needs_no_mending_is_checked_as_it_is(
    wavewright: CommandLine, project: Path
) -> None:
    template = project / "config" / "goals" / "word_ranking.yaml"
    template.write_text(f"{template.read_text()}plan:\n{indented(FIXED)}")
    (project / "job.yaml").write_text(
        "name: j\ngoal_template: word_ranking\ninputs: {folder: notes}\n"
    )

    checked = wavewright("check", "job.yaml", "--fix")

    assert (checked.code, checked.err) == (0, "")
    assert "valid" in checked.out


def test_the_plan_of_a_goal_template_is_fixed_in_the_template_alone(
    wavewright: CommandLine, project: Path
) -> None:
    template = project / "config" / "goals" / "word_ranking.yaml"
    head = template.read_text()
    template.write_text(f"{head}plan:\n{indented(PLAN)}")
    (project / "job.yaml").write_text(
        "name: j\ngoal_template: word_ranking\ninputs: {folder: notes}\n"
    )

    by_job = wavewright("check", "job.yaml", "--fix")
    kept = template.read_text()
    itself = wavewright("check", template, "--fix")

    assert by_job.code == 2
    assert "which other jobs may use" in by_job.err
    assert kept == f"{head}plan:\n{indented(PLAN)}"
    assert itself.code == 0, itself.err + itself.out
    assert template.read_text() == f"{head}plan:\n{indented(FIXED)}"


def test_a_file_keeps_its_rights_its_mark_and_the_link_to_it(
    wavewright: CommandLine, plan: Path
) -> None:
    plan.write_bytes(b"\xef\xbb\xbf" + PLAN.encode())
    plan.chmod(0o640)
    link = plan.with_name("link.yaml")
    link.symlink_to(plan.name)

    answer = wavewright("check", link, "--fix")

    assert answer.code == 0
    assert link.is_symlink()
    assert plan.read_bytes() == b"\xef\xbb\xbf" + FIXED.encode()
    assert plan.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in plan.parent.iterdir() if path.name.startswith(".")) == []


@pytest.mark.parametrize(
    ("name", "told"), [("plan.toml", "is TOML"), ("-", "only a file can be fixed")]
)
def test_what_cannot_be_fixed_is_refused(
    wavewright: CommandLine, project: Path, name: str, told: str
) -> None:
    (project / "plan.toml").write_text(
        '[[steps]]\nid = "a"\ntool = "list_notes"\nparams = {folder = "notes"}\n'
    )
    answer = wavewright("check", name, "--fix")

    assert answer.code == 2
    assert told in answer.err


def test_a_file_that_has_changed_meanwhile_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("of somebody else")

    with pytest.raises(FileChanged):
        replace_text(path, before="what was read", after="fixed")

    assert path.read_text() == "of somebody else"
    assert [each.name for each in tmp_path.iterdir()] == ["plan.yaml"]


def test_several_files_are_checked_at_once(wavewright: CommandLine, plan: Path) -> None:
    files = ("plans/words.job.yaml", str(plan), "config/goals/word_ranking.yaml")
    text = wavewright("check", *files)
    told = json.loads(wavewright("check", *files, "--format", "json").out)
    log = json.loads(wavewright("check", *files, "--format", "sarif").out)

    assert text.code == 0
    assert text.out.count("valid: ") == 3
    assert [each["file"] for each in told["files"]] == list(files)
    assert [len(each["diagnostics"]) for each in told["files"]] == [0, 1, 0]
    assert [result["ruleId"] for result in log["runs"][0]["results"]] == ["W802"]


def test_one_faulty_file_of_several_is_a_no(wavewright: CommandLine, plan: Path) -> None:
    (plan.parent / "bad.plan.yaml").write_text("steps: [{id: a, tool: nothing}]\n")

    answer = wavewright("check", "plans/bad.plan.yaml", plan)

    assert answer.code == 1
    assert "E201" in answer.out
    assert f"{plan}: valid" in answer.out
