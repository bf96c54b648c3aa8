"""`wavewright diff`: plans, jobs, runs and patches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.engine.conftest import CommandLine
from tests.engine.wording import worded


@pytest.fixture
def changed(project: Path) -> Path:
    """The starter's plan with another parameter, another step and no `for_each`."""
    plan = project / "changed.yaml"
    plan.write_text(
        "goal: Find out which words the notes use most\n"
        "inputs: {folder: notes, top: 5}\n"
        "steps:\n"
        "  - {id: files, why: every note counts, tool: list_notes, params: {folder: drafts}}\n"
        "  - {id: first, tool: read_note, params: {path: notes/planning.md}}\n"
        "  - {id: ranking, tool: rank_words, params: {notes: ['${steps.first}'], top: 5}}\n"
        "result: ${steps.ranking}\n"
    )
    return plan


def only_run(wavewright: CommandLine) -> str:
    [row] = json.loads(wavewright("runs", "--format", "json").out)
    return str(row["run"])


def test_a_plan_does_not_differ_from_itself(wavewright: CommandLine, project: Path) -> None:
    plan = project / "plans" / "words.plan.yaml"

    answer = wavewright("diff", plan, plan)

    assert answer.code == 0
    assert answer.err == ""


@pytest.mark.parametrize("output_format", ["text", "json"])
def test_two_plans_differ_in_steps_edges_and_waves(
    wavewright: CommandLine, changed: Path, snapshot: SnapshotAssertion, output_format: str
) -> None:
    answer = wavewright("diff", "plans/words.plan.yaml", changed.name, "--format", output_format)

    assert answer.code == 1
    assert answer.out == snapshot


def test_prose_and_layout_make_no_difference(wavewright: CommandLine, project: Path) -> None:
    plan = project / "plans" / "words.plan.yaml"
    (project / "same.yaml").write_text(plan.read_text().replace("why: every note counts", "why: because"))

    assert wavewright("diff", plan, "same.yaml").code == 0


def test_a_job_is_taken_for_its_plan(wavewright: CommandLine, project: Path) -> None:
    assert project.is_dir()
    assert wavewright("diff", "plans/words.job.yaml", "plans/words.plan.yaml").code == 0


def test_a_run_follows_the_jobs_plan_with_the_goals_gates(
    wavewright: CommandLine, project: Path, snapshot: SnapshotAssertion
) -> None:
    wavewright("run", "plans/words.job.yaml")

    answer = wavewright("diff", "plans/words.job.yaml", only_run(wavewright))

    assert answer.code == 1
    assert worded(answer, project) == snapshot


def test_a_run_does_not_differ_from_itself(wavewright: CommandLine, project: Path) -> None:
    wavewright("run", "plans/words.job.yaml")
    run = only_run(wavewright)

    assert project.is_dir()
    assert wavewright("diff", run, run[-6:]).code == 0


def test_a_patch_is_shown_as_what_it_makes_of_the_plan(
    wavewright: CommandLine, project: Path, snapshot: SnapshotAssertion
) -> None:
    described = json.loads(wavewright("dry-run", "plans/words.plan.yaml", "--format", "json").out)
    patch = {
        "base": described["plan_hash"],
        "reason": "look at fewer words",
        "ops": [
            {
                "op": "replace",
                "step": {
                    "id": "ranking",
                    "tool": "rank_words",
                    "params": {"notes": "${steps.notes}", "top": 3},
                },
            }
        ],
    }
    (project / "patch.json").write_text(json.dumps(patch))

    answer = wavewright("diff", "plans/words.plan.yaml", "patch.json")

    assert answer.code == 1, answer.err
    assert answer.out == snapshot


def test_a_patch_of_another_plan_is_refused(
    wavewright: CommandLine, project: Path, snapshot: SnapshotAssertion
) -> None:
    patch = {"base": f"sha256:{'0' * 64}", "reason": "x", "ops": [{"op": "remove", "id": "ranking"}]}
    (project / "patch.json").write_text(json.dumps(patch))

    answer = wavewright("diff", "plans/words.plan.yaml", "patch.json")

    assert answer.code == 2
    assert worded(answer, project) == snapshot


@pytest.mark.parametrize("name", ["nothing", "nothing.yaml", "plans"])
def test_what_is_neither_a_file_nor_a_run_is_told(
    wavewright: CommandLine, project: Path, snapshot: SnapshotAssertion, name: str
) -> None:
    answer = wavewright("diff", "plans/words.plan.yaml", name)

    assert answer.code == 2
    assert worded(answer, project) == snapshot
