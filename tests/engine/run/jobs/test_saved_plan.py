"""Saved plans: run exactly as they were looked at, or refused with what differs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import cast

import anyio
import pytest
from hypothesis import given, strategies as st
from syrupy.assertion import SnapshotAssertion

from tests.engine.conftest import CommandLine
from tests.engine.normalized_output import worded
from tests.engine.run_in_process import run_request
from tests.engine.stale_quotes_project import write_quotes_project
from wavewright.config.documents import read_document
from wavewright.config.settings import load_settings
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.engine.run.cancellation import CancellationToken
from wavewright.engine.run.context import RunRequest
from wavewright.engine.run.jobs.documents import is_saved_plan
from wavewright.engine.run.jobs.saved_plan import SavedPlanError, read_saved_plan, save_plan
from wavewright.executor.events.types import Event, StepFinished
from wavewright.executor.store.journal import MemoryJournal
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.hashing import content_hash
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import Json, JsonObject
from wavewright.reviewer.package.builder import read_package
from wavewright.reviewer.records import Package

JOB = "plans/words.job.yaml"


@pytest.fixture
def saved(wavewright: CommandLine, project: Path) -> Path:
    """The starter project's job, saved."""
    answer = wavewright("dry-run", JOB, "--out", "words.saved.json")
    assert answer.code == 0, answer.err
    return project / "words.saved.json"


def content(file: Path) -> JsonObject:
    return cast("JsonObject", json.loads(file.read_text()))


def packages(project: Path) -> list[Package]:
    return [
        read_package(file.read_bytes())
        for file in sorted(project.glob(".wavewright/runs/*/package.json"))
    ]


def change_tools(project: Path, old: str, new: str) -> None:
    [file] = [file for file in (project / "tools").glob("*.py") if old in file.read_text()]
    file.write_text(file.read_text().replace(old, new))


def test_run_executes_the_very_plan_that_was_saved(
    wavewright: CommandLine, project: Path, saved: Path
) -> None:
    answer = wavewright("run", saved)

    assert answer.code == 0, answer.err
    [package] = packages(project)
    assert package.plan_hash == content(saved)["plan_hash"]
    assert package.rung == "given"


def test_where_the_jobs_own_files_changed_the_saved_goal_counts(
    wavewright: CommandLine, project: Path, saved: Path
) -> None:
    job, plan = project / JOB, project / "plans" / "words.plan.yaml"
    job.write_text(job.read_text().replace("top: 5", "top: 2"))
    plan.write_text("steps: [{id: only, tool: list_notes, params: {folder: notes}}]\n")

    answer = wavewright("run", saved)

    assert answer.code == 0, answer.err
    [package] = packages(project)
    assert package.plan_hash == content(saved)["plan_hash"]
    assert package.plan["inputs"] == {"folder": "notes", "top": 5}


def test_saving_twice_gives_the_same_file(wavewright: CommandLine, saved: Path) -> None:
    wavewright("dry-run", JOB, "--out", "again.json")

    assert (saved.parent / "again.json").read_bytes() == saved.read_bytes()


def test_a_saved_plan_that_is_looked_at_and_saved_again_stays_as_it_is(
    wavewright: CommandLine, saved: Path
) -> None:
    before = content(saved)

    answer = wavewright("dry-run", saved, "--out", "again.json")

    assert answer.code == 0, answer.err
    assert content(saved.parent / "again.json") == before


def test_only_a_saved_plan_is_replaced_by_one(
    wavewright: CommandLine, project: Path, saved: Path
) -> None:
    saved.write_text(saved.read_text().replace("${", "$ {"))
    (project / "empty.json").touch()
    plan = project / "plans" / "words.plan.yaml"
    before = plan.read_text()

    for file in (saved, "empty.json"):
        assert wavewright("dry-run", JOB, "--out", file).code == 0
        assert wavewright("check", file).code == 0
    for file in (plan, "notes/planning.md"):
        answer = wavewright("dry-run", JOB, "--out", file)
        assert (answer.code, answer.out) == (2, "")
        assert f"{str(file)!r} exists and is no saved plan" in answer.err
    assert plan.read_text() == before


def test_check_and_diff_read_a_saved_plan(wavewright: CommandLine, saved: Path) -> None:
    assert "valid: 3 steps" in wavewright("check", saved).out
    assert wavewright("diff", saved, saved).code == 0


@pytest.mark.parametrize("command", ["run", "dry-run", "check"])
def test_every_tool_that_has_changed_is_named_with_what_changed_in_it(
    wavewright: CommandLine, project: Path, saved: Path, command: str, snapshot: SnapshotAssertion
) -> None:
    settings = project / "wavewright.yaml"
    settings.write_text(
        settings.read_text().replace(
            "rank_words: {", "rank_words: {effects: [write], timeout: 30, "
        )
    )
    change_tools(project, "def list_notes(", "def list_all_notes(")
    settings.write_text(settings.read_text().replace("list_notes:", "list_all_notes:"))

    answer = wavewright(command, saved)

    assert answer.code == 1
    assert worded(answer, project) == snapshot(name="refusal")
    assert packages(project) == []


def test_a_changed_parameter_is_named(wavewright: CommandLine, project: Path, saved: Path) -> None:
    change_tools(project, "top: int = 5)", "top: int = 5, least: int = 1)")

    answer = wavewright("run", saved)

    assert answer.code == 1
    assert "rank_words: " in answer.err
    assert "input_schema.properties.least added: " in answer.err


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"${inputs.folder}"', '"${inputs.folder}/more"', "the plan"),
        ("Count the words", "Count words", "tool 'rank_words'"),
        ('"top": 5', '"top": 50', "the plan"),
        ('"job": "words"', '"job": "wards"', "a part without a checksum of its own"),
    ],
)
def test_what_was_changed_by_hand_is_refused_and_said(
    wavewright: CommandLine, project: Path, saved: Path, old: str, new: str, told: str
) -> None:
    text = saved.read_text()
    assert old in text
    saved.write_text(text.replace(old, new))

    answer = wavewright("run", saved)

    assert answer.code == 1
    assert (
        f"error: the file was changed after it was saved: {told}\n  --> words.saved.json"
        in answer.err.replace(f"{project}/", "")
    )
    assert packages(project) == []


def test_a_saved_plan_of_another_version_is_refused(wavewright: CommandLine, saved: Path) -> None:
    saved.write_text(saved.read_text().replace("saved-plan/1", "saved-plan/2"))

    assert "it is a saved plan of another version" in wavewright("run", saved).err


def test_another_plan_cannot_be_put_into_it(wavewright: CommandLine, saved: Path) -> None:
    answer = wavewright("run", saved, "--plan", "plans/words.plan.yaml")

    assert answer.code == 1
    assert "a saved plan runs as it is" in answer.err


def test_it_is_no_plan_for_another_job(wavewright: CommandLine, saved: Path) -> None:
    answer = wavewright("run", JOB, "--plan", saved)

    assert answer.code == 1
    assert "a saved plan brings its own goal" in answer.err


def test_as_of_and_concurrency_are_those_of_the_run(
    wavewright: CommandLine, project: Path, saved: Path
) -> None:
    answer = wavewright("run", saved, "--as-of", "2010-03-01", "--concurrency", "1", "--json")

    assert answer.code == 0, answer.err
    started = json.loads(answer.out.splitlines()[0])
    assert started["goal"]["limits"]["concurrency"] == 1
    [package] = packages(project)
    assert package.plan_hash == content(saved)["plan_hash"]
    assert started["now"] == 1267401600.0


def test_it_runs_in_another_checkout_of_the_project(
    wavewright: CommandLine, project: Path, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = project.parent / "elsewhere"
    shutil.copytree(project, other, ignore=shutil.ignore_patterns(".wavewright"))
    shutil.rmtree(project)
    monkeypatch.chdir(other)

    answer = wavewright("run", saved.name)

    assert answer.code == 0, answer.err
    assert str(project) not in (other / saved.name).read_text()


def test_a_packs_paths_are_those_of_the_project_that_runs_it(
    wavewright: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "prices").mkdir(parents=True)
    (here / "wavewright.yaml").write_text("output_dir: runs\n")
    (here / "prices" / "ALFA.csv").write_text(
        "date,close\n2024-11-27,10\n2024-11-28,11\n2024-11-29,12\n"
    )
    (here / "stocks.job.yaml").write_text(
        "version: 1\nname: stocks\ngoal_template: stock_analysis\nas_of: 2024-12-02\n"
        "variables: [{code: ALFA}]\ntools: {equities: {prices: prices}}\n"
    )
    monkeypatch.chdir(here)
    assert wavewright("dry-run", "stocks.job.yaml", "--out", "saved.json").code == 0
    shutil.copytree(here, there)
    shutil.rmtree(here)
    monkeypatch.chdir(there)

    answer = wavewright("run", "saved.json")

    assert "ALFA" in answer.out
    assert str(here) not in (there / "saved.json").read_text()


def test_no_planner_is_asked_for_another_plan(
    wavewright: CommandLine,
    project: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The plan of a goal template is only a rung to a planner, but not once it is saved."""
    template = project / "config" / "goals" / "word_ranking.yaml"
    plan = (project / "plans" / "words.plan.yaml").read_text()
    steps = plan[plan.index("steps:") :]
    template.write_text(template.read_text() + "\nplan:\n  " + steps.replace("\n", "\n  ") + "\n")
    job = project / JOB
    job.write_text(
        "\n".join(line for line in job.read_text().splitlines() if not line.startswith("plan:"))
    )
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    told = wavewright("dry-run", JOB, "--out", "saved.json")
    assert told.code == 0, told.err
    model_server.answer({"cannot_plan": "no"}, when=asked_for("plan"))

    wavewright("run", "saved.json")

    assert content(project / "saved.json")["rung"] == "template"
    assert "plan" not in {asked.schema_name for asked in model_server.requests}
    assert [package.rung for package in packages(project)] == ["template"]


def test_a_run_of_it_is_resumed_like_any_other(tmp_path: Path, wavewright: CommandLine) -> None:
    write_quotes_project(tmp_path)
    assert wavewright("dry-run", "quotes.job.yaml", "--out", "saved.json").code == 0
    anyio.run(_stop_and_resume, tmp_path)


class Agreeing:
    """Approves of everything."""

    async def approve(self, request: object) -> bool:
        del request
        return True


async def _stop_and_resume(folder: Path) -> None:
    settings, journal, token = load_settings(folder), MemoryJournal(), CancellationToken()

    def stop_early(event: Event) -> None:
        if isinstance(event, StepFinished):
            token.cancel()

    request = RunRequest(job_file=folder / "saved.json", output_dir=folder / "out")
    stopped = await run_request(
        request,
        settings=settings,
        journal=journal,
        approver=Agreeing(),
        on_event=stop_early,
        cancellation=token,
    )
    assert stopped.context.state.is_interrupted
    await journal.aclose()

    again = RunRequest(run=stopped.context.run, output_dir=folder / "out")
    resumed = await run_request(again, settings=settings, journal=journal, approver=Agreeing())

    assert resumed.context.package is not None
    assert resumed.context.package.status == "achieved"
    assert resumed.context.state.plans[0].plan_hash == content(folder / "saved.json")["plan_hash"]


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"checksum": "sha256:0"},
        {"goal": 1, "plan": {"steps": []}, "plan_hash": None, "tools": [], "checksum": None},
        {"plan": [], "tools": {"t": 1}},
        {"plan": {"steps": []}, "tools": {"t": {"contract": {"name": 3}}}, "estimate": None},
    ],
)
@pytest.mark.parametrize("checksum", ["as it is", "by hand"])
def test_a_file_that_only_calls_itself_a_saved_plan_is_refused(
    wavewright: CommandLine, tmp_path: Path, content: JsonObject, checksum: str
) -> None:
    made: JsonObject = {"format": "wavewright/saved-plan/1", **content}
    if checksum == "by hand":
        made = {name: part for name, part in made.items() if name != "checksum"}
        made["checksum"] = content_hash(made)
    (tmp_path / "made.json").write_text(json.dumps(made))

    answers = [wavewright(command, "made.json") for command in ("run", "dry-run", "check")]

    assert {answer.code for answer in answers} == {1}
    assert all("--> made.json" in answer.err for answer in answers)
    assert all(
        "Traceback" not in answer.err and "fault of wavewright" not in answer.err
        for answer in answers
    )


# A law: whatever single value of the file is changed, the checksum does not match.

PLAN = Plan.model_validate(
    {
        "inputs": {"a": 1, "b": [True, None, "x"]},
        "steps": [{"id": "s", "tool": "t", "params": {"p": 1.5}}],
    }
)
GOAL = Goal(name="g", job="j", text="Do it", inputs={"a": 1}, tools=())
SAVED = save_plan(
    PLAN, GOAL, [ToolSignature(name="t")], rung="given", estimate={"calls": 1}, root=Path("/")
)


def leaves(value: Json, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict) and value:
        for name, member in value.items():
            yield from leaves(member, (*path, name))
    elif isinstance(value, list) and value:
        for index, member in enumerate(value):
            yield from leaves(member, (*path, index))
    else:
        yield path


@given(st.sampled_from(list(leaves(SAVED))), st.sampled_from([0, 7, "other", None, [], {"x": 1}]))
def test_no_value_of_the_file_can_be_changed(path: tuple[str | int, ...], other: Json) -> None:
    changed = deepcopy(SAVED)
    node: Json = changed
    for part in path[:-1]:
        node = node[part]  # type: ignore[index]
    unchanged = json.dumps(node[path[-1]]) == json.dumps(other)  # type: ignore[index]
    node[path[-1]] = other  # type: ignore[index]
    document = read_document(json.dumps(changed), "saved.json")

    if unchanged or not is_saved_plan(document):
        return
    with pytest.raises(SavedPlanError):
        read_saved_plan(document, Path("/"))


def test_what_is_read_is_what_was_saved() -> None:
    read = read_saved_plan(read_document(json.dumps(SAVED), "saved.json"), Path("/"))

    assert (read.plan, read.goal, read.rung) == (PLAN, GOAL, "given")
    assert dict(read.tools) == {"t": ToolSignature(name="t")}
