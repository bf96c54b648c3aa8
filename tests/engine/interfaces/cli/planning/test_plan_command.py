"""`wavewright plan`: a plan, how it came to be, and what it cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.engine.conftest import CommandLine
from tests.engine.normalized_output import worded
from tests.engine.unplanned_project import JOB, PLAN, misspelt, write_job
from wavewright.engine.rehearsal.fake_model.replies import overloaded
from wavewright.engine.rehearsal.fake_model.server import API_KEY, FakeModelServer, asked_for
from wavewright.planner.reading.reader import read_plan
from wavewright.planner.types import JsonObject

ASK: JsonObject = {"ask": {"question": "Which notes?", "options": ["all of them", "the newest"]}}


@pytest.fixture
def planning(
    project: Path, model_server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> FakeModelServer:
    """A model server that the project's commands ask, and a job that brings no plan."""
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    write_job(project)
    return model_server


def planned(wavewright: CommandLine, *options: str) -> tuple[int, JsonObject]:
    answer = wavewright("plan", "plans/ranking.job.yaml", "--format", "json", *options)
    return answer.code, cast("JsonObject", json.loads(answer.out))


def test_the_plan_of_a_model_is_printed_with_its_rung_and_its_cost(
    wavewright: CommandLine, planning: FakeModelServer, project: Path, snapshot: SnapshotAssertion
) -> None:
    planning.answer(PLAN, when=asked_for("plan"))

    answer = wavewright("plan", "plans/ranking.job.yaml")

    assert answer.code == 0
    assert worded(answer, project) == snapshot


def test_what_is_printed_is_a_plan_file(wavewright: CommandLine, planning: FakeModelServer) -> None:
    planning.answer(PLAN, when=asked_for("plan"))

    printed = wavewright("plan", "plans/ranking.job.yaml").out
    found = read_plan(printed, "printed.yaml")

    assert found.plan is not None
    assert [step.id for step in found.plan.steps] == ["files", "notes", "ranking"]


def test_a_plan_that_was_repaired_says_so_and_why(
    wavewright: CommandLine, planning: FakeModelServer
) -> None:
    planning.answer(misspelt(), PLAN, when=asked_for("plan"))

    code, report = planned(wavewright)

    assert code == 0
    assert report["rung"] == "repaired"
    assert report["attempts"] == report["calls"] == 2
    assert [
        (rung["rung"], rung["outcome"]) for rung in cast("list[JsonObject]", report["rungs"])
    ] == [
        ("llm", "fallen"),
        ("repaired", "reached"),
    ]
    faults = cast("list[JsonObject]", cast("list[JsonObject]", report["answers"])[0]["diagnostics"])
    assert [fault["code"] for fault in faults] == ["E201"]
    assert report["diagnostics"] == []


def test_the_figures_are_those_of_the_wire(
    wavewright: CommandLine, planning: FakeModelServer
) -> None:
    planning.answer(PLAN, when=asked_for("plan"))

    report = planned(wavewright)[1]
    tokens = cast("JsonObject", report["tokens"])

    assert report["model"] == "openai-chat:scripted"
    assert tokens["total"] == cast("int", tokens["input"]) + cast("int", tokens["output"]) > 0
    assert report["usd"] is None
    assert report["question"] is None
    assert report["cannot_plan"] is None
    assert str(report["plan_hash"]).startswith("sha256:")


def test_a_price_of_the_settings_gives_the_money(
    wavewright: CommandLine, planning: FakeModelServer, project: Path
) -> None:
    with (project / "wavewright.yaml").open("a") as settings:
        settings.write("models: {prices: {scripted: {input: 1.0, output: 2.0}}}\n")
    planning.answer(PLAN, when=asked_for("plan"))

    report = planned(wavewright)[1]
    tokens = cast("dict[str, int]", report["tokens"])

    assert report["usd"] == pytest.approx((tokens["input"] + 2 * tokens["output"]) / 1_000_000)


@pytest.mark.parametrize("name", ["kept.yaml", "kept.json"])
def test_a_kept_plan_is_checked_and_run_as_it_is(
    wavewright: CommandLine, planning: FakeModelServer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    planning.answer(PLAN, when=asked_for("plan"))
    code, report = planned(wavewright, "--out", name)
    for variable in planning.environment():
        monkeypatch.delenv(variable)

    checked = wavewright("check", name, "--goal", "plans/ranking.job.yaml")
    ran = wavewright("run", "plans/ranking.job.yaml", "--plan", name)

    assert (code, checked.code, ran.code) == (0, 0, 0)
    assert str(report["plan_hash"])[:19] in ran.err
    assert len(planning.requests) == 1


def test_only_a_plan_is_replaced_by_a_plan(
    wavewright: CommandLine, planning: FakeModelServer, project: Path, snapshot: SnapshotAssertion
) -> None:
    planning.answer(PLAN, when=asked_for("plan"))

    refused = wavewright("plan", "plans/ranking.job.yaml", "--out", "plans/ranking.job.yaml")
    kept = wavewright("plan", "plans/ranking.job.yaml", "--out", "plans/words.plan.yaml")

    assert refused.code == 2
    assert worded(refused, project) == snapshot
    assert (project / "plans" / "ranking.job.yaml").read_text() == JOB
    assert kept.code == 0
    assert len(planning.requests) == 1


def test_a_suffix_that_is_no_document_is_refused_before_anybody_is_asked(
    wavewright: CommandLine, planning: FakeModelServer
) -> None:
    answer = wavewright("plan", "plans/ranking.job.yaml", "--out", "plan.txt")

    assert answer.code == 2
    assert ".yaml" in answer.err
    assert planning.requests == ()


def test_a_question_that_nobody_answers_is_printed_with_the_way_to_answer_it(
    wavewright: CommandLine, planning: FakeModelServer, project: Path, snapshot: SnapshotAssertion
) -> None:
    planning.answer(ASK, when=asked_for("plan"))

    answer = wavewright("plan", "plans/ranking.job.yaml")
    report = planned(wavewright)[1]

    assert answer.code == 1
    assert worded(answer, project) == snapshot
    assert report["plan"] is None
    assert report["rung"] is None
    assert report["question"] == {
        "question": "Which notes?",
        "options": ["all of them", "the newest"],
    }


@pytest.mark.parametrize(
    ("given", "told"), [("the newest", "the newest"), ("2", "the newest"), ("9", "9")]
)
def test_an_answer_of_the_command_line_goes_to_the_planner(
    wavewright: CommandLine, planning: FakeModelServer, given: str, told: str
) -> None:
    planning.answer(ASK, PLAN, when=asked_for("plan"))

    code, report = planned(wavewright, "--answer", given)

    assert (code, report["rung"]) == (0, "llm")
    assert "Which notes?" in planning.requests[1].text
    assert told in planning.requests[1].text


@pytest.mark.parametrize(
    ("options", "day"),
    [
        pytest.param([], "2026-05-06", id="of the job"),
        pytest.param(["--as-of", "2010-03-01"], "2010-03-01", id="of the command line"),
        pytest.param(["--as-of", "2010-02-28T23:30:00-05:00"], "2010-03-01", id="in UTC"),
    ],
)
def test_the_planner_is_told_the_day_that_a_run_takes_for_now(
    wavewright: CommandLine, planning: FakeModelServer, project: Path, options: list[str], day: str
) -> None:
    with (project / "plans/ranking.job.yaml").open("a") as job:
        job.write("as_of: 2026-05-06\n")
    planning.answer(PLAN, when=asked_for("plan"))

    code, _ = planned(wavewright, *options)

    assert code == 0
    assert f"Today is {day};" in planning.requests[0].text


def test_answers_are_taken_in_their_order(
    wavewright: CommandLine, planning: FakeModelServer
) -> None:
    second: JsonObject = {"ask": {"question": "How many words?"}}
    planning.answer(ASK, second, PLAN, when=asked_for("plan"))

    code, _ = planned(wavewright, "--answer", "the newest", "--answer", "seven of them")
    last = planning.requests[-1].text

    assert code == 0
    assert last.index("the newest") < last.index("seven of them")


def test_a_goal_that_cannot_be_planned_names_the_reason(
    wavewright: CommandLine, planning: FakeModelServer
) -> None:
    planning.answer({"cannot_plan": "there is no tool that counts"}, when=asked_for("plan"))

    report = planned(wavewright)[1]

    assert report["cannot_plan"] == "there is no tool that counts"
    assert report["rung"] in ("minimal", None)


def test_without_any_rung_the_last_answer_is_shown_with_carets_and_the_command_says_no(
    wavewright: CommandLine, planning: FakeModelServer, project: Path, snapshot: SnapshotAssertion
) -> None:
    with (project / "wavewright.yaml").open("a") as settings:
        settings.write("ladders: {planner: [{name: llm}, {name: repaired, tries: 1}]}\n")
    planning.answer(misspelt(), when=asked_for("plan"))

    answer = wavewright("plan", "plans/ranking.job.yaml")
    code, report = planned(wavewright)

    assert answer.code == code == 1
    assert worded(answer, project) == snapshot
    assert report["plan"] is None
    assert [fault["code"] for fault in cast("list[JsonObject]", report["diagnostics"])] == ["E201"]


def test_a_model_that_is_away_leaves_the_plan_to_the_rungs_of_code(
    wavewright: CommandLine, planning: FakeModelServer, project: Path
) -> None:
    with (project / "wavewright.yaml").open("a") as settings:
        settings.write("models: {attempts: 1}\n")
    planning.answer(overloaded(), when=asked_for("plan"))

    code, report = planned(wavewright)

    assert code == 0
    assert report["rung"] == "minimal"


def test_a_job_with_a_plan_asks_nobody(wavewright: CommandLine, planning: FakeModelServer) -> None:
    answer = wavewright("plan", "plans/words.job.yaml", "--format", "json")

    assert json.loads(answer.out)["rung"] == "given"
    assert json.loads(answer.out)["usd"] == 0
    assert planning.requests == ()


def test_a_jobs_own_plan_with_faults_is_shown_with_them(
    wavewright: CommandLine, project: Path, snapshot: SnapshotAssertion
) -> None:
    file = project / "plans" / "words.plan.yaml"
    file.write_text(file.read_text().replace("tool: rank_words", "tool: rank_word"))

    answer = wavewright("plan", "plans/words.job.yaml")

    assert answer.code == 1
    assert worded(answer, project) == snapshot


def test_without_a_model_a_job_without_a_plan_has_none(
    wavewright: CommandLine, project: Path, snapshot: SnapshotAssertion
) -> None:
    write_job(project)

    answer = wavewright("plan", "plans/ranking.job.yaml")

    assert answer.code == 1
    assert worded(answer, project) == snapshot


def test_the_key_is_in_no_output(wavewright: CommandLine, planning: FakeModelServer) -> None:
    planning.answer({"cannot_plan": f"the key is {API_KEY}"}, when=asked_for("plan"))

    for output_format in ("text", "json"):
        answer = wavewright("plan", "plans/ranking.job.yaml", "--format", output_format)
        assert API_KEY not in answer.out + answer.err


def test_a_missing_key_is_misuse_with_its_mend(
    wavewright: CommandLine,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    snapshot: SnapshotAssertion,
) -> None:
    write_job(project)
    monkeypatch.setenv("WAVEWRIGHT_MODEL", "openai:gpt-5")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    answer = wavewright("plan", "plans/ranking.job.yaml")

    assert answer.code == 2
    assert worded(answer, project) == snapshot


def test_a_faulty_prompt_is_misuse_at_its_line(
    wavewright: CommandLine, planning: FakeModelServer, project: Path, snapshot: SnapshotAssertion
) -> None:
    (project / "prompts" / "planner" / "instructions.md.j2").write_text(
        "Plan.\n{{ nobody.knows }}\n"
    )

    answer = wavewright("plan", "plans/ranking.job.yaml")

    assert answer.code == 2
    assert planning.requests == ()
    assert worded(answer, project) == snapshot
