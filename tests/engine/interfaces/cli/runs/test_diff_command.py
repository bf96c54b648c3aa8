"""`wavewright diff`: plans, jobs, runs and patches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.engine.conftest import CommandLine
from tests.engine.normalized_output import worded
from tests.engine.stale_quotes_project import TEMPLATE, write_quotes_project


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
    (project / "same.yaml").write_text(
        plan.read_text().replace("why: every note counts", "why: because")
    )

    assert wavewright("diff", plan, "same.yaml").code == 0


def test_a_job_is_taken_for_its_plan(wavewright: CommandLine, project: Path) -> None:
    assert project.is_dir()
    assert wavewright("diff", "plans/words.job.yaml", "plans/words.plan.yaml").code == 0


def test_two_jobs_of_one_plan_differ_in_what_they_ask_for(
    wavewright: CommandLine, project: Path
) -> None:
    job = (project / "plans" / "words.job.yaml").read_text()
    (project / "plans" / "other.job.yaml").write_text(
        job.replace("top: 5", "top: 3")
        + "overrides: {limits: {max_steps: 9}, caps: [{field: overall, max: 0.4, because: few}], goal: Rank them}\n"
    )

    same = wavewright("diff", "plans/words.job.yaml", "plans/words.job.yaml")
    text = wavewright("diff", "plans/words.job.yaml", "plans/other.job.yaml")
    told = json.loads(
        wavewright("diff", "plans/words.job.yaml", "plans/other.job.yaml", "-f", "json").out
    )

    assert same.code == 0
    assert text.code == 1
    assert "~ inputs.top: 5 -> 3" in text.out
    assert "~ goal.limits.max_steps: 50 -> 9" in text.out
    assert "~ goal.text: Find out which words the notes use most -> Rank them" in text.out
    assert {one["path"] for one in told["elsewhere"]} == {
        "inputs.top",
        "caps",
        "goal.limits.max_steps",
        "goal.text",
    }
    assert told["old"]["hash"] != told["new"]["hash"]


def test_two_jobs_that_differ_in_their_limits_alone_are_not_the_same(
    wavewright: CommandLine, project: Path
) -> None:
    job = (project / "plans" / "words.job.yaml").read_text()
    (project / "plans" / "other.job.yaml").write_text(
        f"{job}overrides: {{limits: {{max_steps: 9}}}}\n"
    )

    answer = wavewright("diff", "plans/words.job.yaml", "plans/other.job.yaml")

    assert answer.code == 1
    assert "~ goal.limits.max_steps: 50 -> 9" in answer.out
    assert "the plans do the same" not in answer.out


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
    patch = {
        "base": f"sha256:{'0' * 64}",
        "reason": "x",
        "ops": [{"op": "remove", "id": "ranking"}],
    }
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


# --- a run's plan against its patched one
# -----------------------------------------------------------------------------


@pytest.fixture
def twice_patched(wavewright: CommandLine, tmp_path: Path) -> str:
    """A run whose quotes were stale in its first round, and whose sheet was plain in its second."""
    write_quotes_project(
        tmp_path,
        template=TEMPLATE.replace(
            "recipes:\n",
            "  - {id: neat, on_tool: write_down, check: \"output.startsWith('neat')\"}\nrecipes:\n",
        )
        + "  - {gate: neat, set_params: {neat: true}, reason: the sheet is plain}\n",
    )
    tools = tmp_path / "desk.py"
    plain = tools.read_text()
    neat = plain.replace("rate: float) -> str", "rate: float, neat: bool = False) -> str")
    tools.write_text(neat.replace('return f"', 'return ("neat " if neat else "") + f"'))
    assert wavewright("run", "quotes.job.yaml", "--approve", "always").code == 0
    return only_run(wavewright)


def test_a_run_alone_shows_what_each_round_of_recovery_changed_and_why(
    wavewright: CommandLine, twice_patched: str, snapshot: SnapshotAssertion
) -> None:
    shown = wavewright("diff", twice_patched[:-2])

    assert shown.code == 1
    assert shown.err == ""
    assert shown.out == snapshot


def test_a_run_alone_gives_its_rounds_to_programs(
    wavewright: CommandLine, twice_patched: str
) -> None:
    told = json.loads(wavewright("diff", twice_patched, "--format", "json").out)
    first, second = told["rounds"]

    assert told["run"] == twice_patched
    assert [one["round"] for one in (first, second)] == [1, 2]
    assert [one["reason"] for one in (first, second)] == [
        "the quotes are stale",
        "the sheet is plain",
    ]
    assert [[step["id"] for step in one["added"]] for one in (first, second)] == [
        ["quotes_2"],
        ["sheet_2"],
    ]
    assert first["new"]["hash"] == second["old"]["hash"]
    assert told["whole"]["old"]["hash"] == first["old"]["hash"]
    assert told["whole"]["new"]["hash"] == second["new"]["hash"]
    assert [step["id"] for step in told["whole"]["added"]] == ["quotes_2", "sheet_2"]


def test_a_run_without_a_patch_follows_its_first_plan(
    wavewright: CommandLine, project: Path
) -> None:
    assert project.is_dir()
    wavewright("run", "plans/words.job.yaml")
    run = only_run(wavewright)

    shown = wavewright("diff", run)

    assert shown.code == 0
    assert shown.out == f"run {run} follows its first plan; no patch was applied\n"


def test_a_plan_alone_has_nothing_to_be_compared_with(
    wavewright: CommandLine, project: Path, snapshot: SnapshotAssertion
) -> None:
    answer = wavewright("diff", "plans/words.plan.yaml")

    assert answer.code == 2
    assert worded(answer, project) == snapshot
