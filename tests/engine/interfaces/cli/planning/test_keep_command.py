"""`wavewright keep`, and the plans that `do` and jobs find again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.engine.conftest import CommandLine
from tests.engine.unplanned_project import REVIEW
from tests.support.prepared_command import PipedCommand
from wavewright.engine.interfaces.testing.project import PlanLoader, ProjectUnderTest
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.engine.run.jobs.goal_in_words import unbound_plan
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Plan
from wavewright.planner.types import JsonObject

GOAL = "Rank the words in notes"
LITERAL: JsonObject = {
    "steps": [
        {"id": "files", "tool": "list_notes", "params": {"folder": "notes"}},
        {
            "id": "notes",
            "tool": "read_note",
            "for_each": "${steps.files}",
            "params": {"path": "${item}"},
        },
        {"id": "ranking", "tool": "rank_words", "params": {"notes": "${steps.notes}", "top": 5}},
    ],
    "result": "${steps.ranking}",
}
"""A plan with literals where it could read inputs."""


@pytest.fixture
def kept(
    project: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
    wavewright: CommandLine,
) -> FakeModelServer:
    """A project in which the plan of an achieved run was kept, and its model server."""
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    model_server.answer(LITERAL, when=asked_for("plan"))
    model_server.answer(REVIEW, when=asked_for("review"))
    ran = wavewright("do", GOAL, "--set", "folder=notes", "--set", "top=5", "--yes", "--quiet")
    assert ran.code == 0, ran.err
    answer = wavewright("keep", "--as", "ranked", "--yes")
    assert answer.code == 0, answer.err
    assert '+    folder: "${inputs.folder}"' in answer.out
    (project / "notes").rename(project / "pages")
    return model_server


def plans_asked(server: FakeModelServer) -> int:
    return sum(asked_for("plan")(request) for request in server.requests)


def newest_package(project: Path) -> JsonObject:
    packages = project.glob(".wavewright/runs/*/package.json")
    newest = max(packages, key=lambda file: file.stat().st_mtime_ns)
    found: JsonObject = json.loads(newest.read_text())
    return found


@pytest.mark.parametrize(
    "command",
    [("check",), ("dry-run",), ("dry-run", "--simulate"), ("run",), ("diff", "again.job.yaml")],
)
def test_a_job_without_a_plan_that_a_run_finds_kept_is_no_fault(
    kept: FakeModelServer,
    project: Path,
    wavewright: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
) -> None:
    monkeypatch.delenv("WAVEWRIGHT_MODEL")
    job = project / "again.job.yaml"
    job.write_text("goal: Rank the words in pages\ninputs: {folder: pages, top: 7}\n")
    asked = len(kept.requests)

    answer = wavewright(*command, job)

    assert (answer.code, len(kept.requests)) == (0, asked), answer.out + answer.err


def test_a_dry_run_and_a_test_have_the_plan_that_was_kept_for_the_job(
    kept: FakeModelServer, project: Path, wavewright: CommandLine
) -> None:
    job = project / "again.job.yaml"
    job.write_text("goal: Rank the words in pages\ninputs: {folder: pages, top: 7}\nplan: auto\n")

    answer = wavewright("dry-run", job)

    assert kept.requests
    assert "this is the plan that was kept as 'ranked' for this goal" in answer.out
    assert "plan: auto" not in answer.out
    loaded = PlanLoader(ProjectUnderTest(project, project))(job)
    assert loaded.steps == ("files", "notes", "ranking")


def test_a_kept_plan_is_a_template_with_inputs_in_the_place_of_literals(
    kept: FakeModelServer, project: Path
) -> None:
    template = yaml.safe_load((project / "config" / "goals" / "ranked.yaml").read_text())

    assert kept.requests
    assert template["goal"] == "Rank the words in ${inputs.folder}"
    assert template["plan"]["steps"][0]["params"] == {"folder": "${inputs.folder}"}
    assert template["plan"]["steps"][2]["params"]["top"] == "${inputs.top}"
    assert template["kept"]["tools"].keys() == {"list_notes", "read_note", "rank_words"}
    assert template["kept"]["planning_tokens"] > 0


def test_a_template_is_kept_for_whoever_reads_no_more_of_the_difference(
    wavewright: CommandLine, project: Path
) -> None:
    # So long that what is printed does not wait in a buffer until the end.
    (project / "long.py").write_text("def shorten(text: str) -> int:\n    return len(text)\n")
    (project / "wavewright.yaml").write_text(
        "tools: [{path: long.py}]\ntemplates: [config/goals]\n"
    )
    long = "a long text " * 2_000
    steps: JsonObject = {"steps": [{"id": "a", "tool": "shorten", "params": {"text": long}}]}
    template: JsonObject = {
        "version": 1,
        "name": "short",
        "goal": "Shorten",
        "inputs_schema": {"type": "object", "properties": {"text": {"type": "string"}}},
        "available_tools": [{"name": "shorten"}],
        "plan": steps,
    }
    job: JsonObject = {
        "version": 1,
        "name": "long",
        "goal_template": "short",
        "inputs": {"text": long},
    }
    (project / "config" / "goals").mkdir(parents=True, exist_ok=True)
    (project / "config" / "goals" / "short.yaml").write_text(json.dumps(template))
    (project / "long.job.yaml").write_text(json.dumps(job))
    assert wavewright("run", "long.job.yaml", "--quiet").code == 0

    with PipedCommand("keep", "--as", "long", "--yes", folder=project) as keeping:
        keeping.stdout.close()
        keeping.wait()

    assert (project / "config" / "goals" / "long.yaml").exists()


@pytest.mark.parametrize("has_model", [True, False])
def test_the_same_goal_with_other_inputs_runs_without_a_planner(
    wavewright: CommandLine,
    kept: FakeModelServer,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    has_model: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    if not has_model:
        monkeypatch.delenv("WAVEWRIGHT_MODEL")

    answer = wavewright(
        "do",
        "Rank the words in pages",
        "--set",
        "folder=pages",
        "--set",
        "top=3",
        "--yes",
        "--quiet",
    )

    assert answer.code == 0, answer.err
    assert plans_asked(kept) == 1
    package = newest_package(project)
    use = package["kept_plan"]
    assert isinstance(use, dict)
    assert (use["template"], use["use"]) == ("ranked", "hit")
    assert isinstance(use["tokens_saved"], int)
    assert use["tokens_saved"] > 0


def test_a_similar_goal_shows_the_kept_plan_to_the_planner(
    wavewright: CommandLine, kept: FakeModelServer, project: Path
) -> None:
    wavewright(
        "do",
        "Rank words of all pages by use",
        "--set",
        "folder=pages",
        "--set",
        "top=3",
        "--yes",
        "--quiet",
    )

    assert plans_asked(kept) == 2
    assert "A plan for a similar goal" in kept.requests[-2].text
    use = newest_package(project)["kept_plan"]
    assert isinstance(use, dict)
    assert (use["use"], use["tokens_saved"]) == ("adapted", 0)


def test_a_kept_plan_takes_the_rung_suggested_where_the_planner_fails(
    wavewright: CommandLine, kept: FakeModelServer, project: Path
) -> None:
    kept.reset()
    kept.answer("I cannot help with that.", when=asked_for("plan"))
    kept.answer(REVIEW, when=asked_for("review"))

    wavewright(
        "do",
        "Rank words of all pages by use",
        "--set",
        "folder=pages",
        "--set",
        "top=3",
        "--yes",
        "--quiet",
    )

    package = newest_package(project)
    assert package["rung"] == "suggested"
    assert isinstance(package["kept_plan"], dict)
    assert package["kept_plan"]["use"] == "suggested"


def test_a_changed_tool_has_the_planner_asked_again(
    wavewright: CommandLine, kept: FakeModelServer, project: Path
) -> None:
    file = project / "config" / "goals" / "ranked.yaml"
    template = yaml.safe_load(file.read_text())
    template["kept"]["tools"]["rank_words"] = "sha256:0"
    file.write_text(yaml.safe_dump(template))

    wavewright(
        "do", "Rank the words in pages", "--set", "folder=pages", "--set", "top=3", "--yes", "-q"
    )

    assert plans_asked(kept) == 2


def test_a_name_that_is_taken_and_a_run_that_is_not_achieved_are_refused(
    wavewright: CommandLine, kept: FakeModelServer
) -> None:
    assert "already" in wavewright("keep", "--as", "ranked", "--yes").err
    kept.reset()
    kept.answer(LITERAL, when=asked_for("plan"))
    kept.answer({**REVIEW, "goal_achieved": False}, when=asked_for("review"))
    wavewright("do", GOAL, "--set", "folder=notes", "--set", "top=5", "--yes", "--quiet")

    refused = wavewright("keep", "--as", "other", "--yes")

    assert refused.code == 1
    assert "is not achieved" in refused.err


def test_a_number_that_an_entry_of_a_list_equals_by_chance_stays(
    wavewright: CommandLine, project: Path
) -> None:
    (project / "some.plan.yaml").write_text(
        """
inputs: {paths: [notes/planning.md], weights: [1, 2, 3]}
let: {known: "${steps.notes.filter(n, n != null)}"}
stop: {when: known.size() == 0, result: "${inputs.weights}"}
steps:
  - {id: notes, tool: read_note, for_each: [notes/planning.md], params: {path: "${item}"}}
  - {id: ranking, tool: rank_words, params: {notes: "${known}", top: 3}}
result: {words: "${steps.ranking}", weights: "${inputs.weights}"}
"""
    )
    assert wavewright("run", "some.plan.yaml", "--quiet").code == 0

    assert wavewright("keep", "--as", "some", "--yes").code == 0

    kept = yaml.safe_load((project / "config" / "goals" / "some.yaml").read_text())
    notes, ranking = kept["plan"]["steps"]
    assert notes["for_each"] == "${inputs.paths}"
    assert ranking["params"]["top"] == 3
    # A change of the name changes what reads it, and one of `stop` when it stops.
    assert ranking["params"]["notes"] == "${known}"
    assert kept["plan"]["stop"]["when"] == "known.size() == 0"
    assert "when" not in ranking
    # The plan has values of its inputs, and so it may be run without any.
    assert kept["inputs_schema"]["required"] == []
    assert kept["inputs_schema"]["properties"]["weights"]["default"] == [1, 2, 3]


def test_a_kept_plan_runs_without_the_optional_inputs_that_it_reads(
    wavewright: CommandLine, project: Path
) -> None:
    goals = project / "config" / "goals"
    (goals / "listing.yaml").write_text(
        """
version: 1
name: listing
goal: List words
inputs_schema:
  type: object
  properties: {folder: {type: string}, top: {type: integer}}
  required: [folder]
available_tools: [{name: list_notes}, {name: read_note}, {name: rank_words}]
plan:
  steps:
    - {id: files, tool: list_notes, params: {folder: "${inputs.folder}"}}
    - {id: notes, tool: read_note, for_each: "${steps.files}", params: {path: "${item}"}}
    - {id: ranking, tool: rank_words, params: {notes: "${steps.notes}", top: 3}}
  result: ${steps.ranking}
"""
    )
    job = {"version": 1, "name": "list", "goal_template": "listing"}
    (project / "list.job.yaml").write_text(
        yaml.safe_dump({**job, "inputs": {"folder": "notes", "top": 3}})
    )
    assert wavewright("run", "list.job.yaml", "--quiet").code == 0
    kept = wavewright("keep", "--as", "ranked", "--yes")
    assert '+    top: "${inputs.top}"' in kept.out, kept.err
    job = {**job, "goal_template": "ranked", "inputs": {"folder": "notes"}}
    (project / "kept.job.yaml").write_text(yaml.safe_dump(job))

    answer = wavewright("run", "kept.job.yaml", "--quiet")

    assert answer.code == 0, answer.err
    template = yaml.safe_load((goals / "ranked.yaml").read_text())
    assert template["inputs_schema"]["properties"]["top"]["default"] == 3


def test_a_step_of_a_patch_is_kept_as_one_of_the_plan() -> None:
    again: JsonObject = {"supersedes": "a", "only": "failed"}
    step: JsonObject = {"tool": "read_note", "for_each": ["x"], "params": {"path": "${item}"}}
    plan = Plan.model_validate({"steps": [{"id": "a", **step}, {"id": "a_2", **step, **again}]})

    kept = unbound_plan(
        plan, Goal(job="notes", name="notes", text="Read notes", inputs={}, tools=())
    )

    assert kept == Plan.model_validate({"steps": [{"id": "a_2", **step}]})
