"""`wavewright run` where a model plans and reviews: what is shown, asked and kept."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import cast

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.engine.conftest import CommandLine
from tests.engine.normalized_output import worded
from tests.engine.unplanned_project import PLAN, REVIEW, misspelt, write_job
from tests.support.prepared_command import PipedCommand, run_prepared
from wavewright.engine.rehearsal.fake_model.replies import silence
from wavewright.engine.rehearsal.fake_model.server import API_KEY, FakeModelServer, asked_for
from wavewright.planner.types import JsonObject

ASK: JsonObject = {"ask": {"question": "Which notes?", "options": ["all of them", "the newest"]}}


PATCH: JsonObject = {
    "reason": "read the notes that hold a text",
    "ops": [
        {
            "op": "add",
            "step": {
                "why": "one note is empty",
                "id": "notes_2",
                "tool": "read_note",
                "supersedes": "notes",
                "for_each": "${steps.files.filter(file, !file.endsWith('empty.md'))}",
                "params": {"path": "${item}"},
            },
        }
    ],
    "expect": ["has_text__notes"],
}


@pytest.fixture
def planning(
    project: Path, model_server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> FakeModelServer:
    """A model server that the project's commands ask, and a job that brings no plan."""
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    write_job(project)
    model_server.answer(REVIEW, when=asked_for("review"))
    return model_server


def only_run(wavewright: CommandLine) -> JsonObject:
    [row] = json.loads(wavewright("runs", "--format", "json").out)
    return cast("JsonObject", row)


def test_each_call_and_each_rung_that_gave_nothing_is_a_line(
    wavewright: CommandLine, planning: FakeModelServer, project: Path, snapshot: SnapshotAssertion
) -> None:
    planning.answer(misspelt(), PLAN, when=asked_for("plan"))

    answer = wavewright("run", "plans/ranking.job.yaml")
    lines = worded(answer, project).partition("--- err")[2]

    assert answer.code == 0
    assert lines == snapshot


NOTES = ["notes/planning.md", "notes/running.md"]


@pytest.mark.parametrize(
    ("written", "result", "last_step"),
    [
        # In the order in which models write: what is named and what stops comes last.
        (
            {
                "let": {"running": "${steps.files.filter(file, file.contains('running'))}"},
                "result": {"read": "${running}", "joined": "${joined(steps.notes).map(n, n.item)}"},
            },
            {"read": NOTES[1:], "joined": NOTES},
            "ok",
        ),
        (
            {
                "stop": {"when": "is_known", "result": {"files": "${steps.files}"}},
                "let": {"is_known": "${steps.files.size() == 2}"},
            },
            {"files": NOTES},
            "skipped",
        ),
    ],
    ids=["names", "stop"],
)
def test_names_and_a_stop_of_a_models_plan_mean_what_they_mean_in_a_file(
    wavewright: CommandLine,
    planning: FakeModelServer,
    written: JsonObject,
    result: JsonObject,
    last_step: str,
) -> None:
    planning.answer({**PLAN, **written}, when=asked_for("plan"))

    wavewright("run", "plans/ranking.job.yaml")
    package = json.loads(wavewright("show", "--format", "json").out)

    assert package["result"] == result
    assert [step["status"] for step in package["execution_log"]][-1] == last_step


def test_answers_that_could_not_be_used_are_kept_and_shown_with_all_their_faults(
    wavewright: CommandLine, planning: FakeModelServer
) -> None:
    unread: JsonObject = {"steps": [{"id": "x", "tool": "nothing"}, {"id": "y", "tool": "none"}]}
    planning.answer(unread, PLAN, when=asked_for("plan"))
    assert wavewright("run", "plans/ranking.job.yaml").code == 0

    [refused] = json.loads(wavewright("show", "--answers", "--format", "json").out)
    shown = wavewright("show", "--answers").out

    assert (refused["role"], refused["rung"]) == ("planner", "llm")
    assert [fault.partition(":")[0] for fault in refused["faults"]] == ["E201", "E201"]
    assert json.loads(refused["text"]) == unread
    assert all(fault in shown for fault in refused["faults"])


def test_a_run_whose_answers_could_all_be_used_shows_none(
    wavewright: CommandLine, planning: FakeModelServer
) -> None:
    planning.answer(PLAN, when=asked_for("plan"))
    assert wavewright("run", "plans/ranking.job.yaml").code == 0

    assert wavewright("show", "--answers").out == "every answer could be used\n"


@pytest.mark.parametrize("command", ["run", "plan"])
def test_no_model_is_asked_to_mend_an_error_of_the_goal_template(
    wavewright: CommandLine, planning: FakeModelServer, project: Path, command: str
) -> None:
    template = project / "config" / "goals" / "word_ranking.yaml"
    gate = "gates:\n  - {id: x, on_tool: read_note, check: output.tex == ''}\n"
    template.write_text(template.read_text().replace("gates:\n", gate))
    planning.answer(PLAN, when=asked_for("plan"))

    answer = wavewright(command, "plans/ranking.job.yaml")

    assert answer.code == 1
    assert not planning.requests
    said = answer.out + answer.err
    assert "'output' has no field 'tex'" in said
    assert "goal template 'word_ranking' (at /gates/0/check)" in said
    if command == "run":
        assert only_run(wavewright)["status"] == "failed"


def test_the_lines_of_json_hold_every_call(
    wavewright: CommandLine, planning: FakeModelServer
) -> None:
    planning.answer(PLAN, when=asked_for("plan"))

    events = [
        json.loads(line)
        for line in wavewright("run", "plans/ranking.job.yaml", "--json").out.splitlines()
    ]
    roles = [event["use"]["role"] for event in events if event["kind"] == "model_called"]
    rungs = [event["rung"]["rung"] for event in events if event["kind"] == "rung_taken"]

    assert roles == ["planner", "reviewer"]
    assert rungs == ["llm", "model"]


def test_an_answer_of_the_command_line_goes_to_the_planner_of_a_run(
    wavewright: CommandLine, planning: FakeModelServer
) -> None:
    planning.answer(ASK, PLAN, when=asked_for("plan"))

    answer = wavewright("run", "plans/ranking.job.yaml", "--answer", "2")

    assert answer.code == 0
    assert "the planner asks: Which notes? (--answer 'the newest')" in answer.err
    assert "the newest" in planning.requests[1].text


def test_a_question_that_nobody_answers_keeps_the_run_until_somebody_does(
    wavewright: CommandLine, planning: FakeModelServer, project: Path, snapshot: SnapshotAssertion
) -> None:
    planning.answer(ASK, PLAN, when=asked_for("plan"))

    asked = wavewright("run", "plans/ranking.job.yaml")
    run = str(only_run(wavewright)["run"])
    answered = wavewright("resume", run, "--answer", "all of them")

    assert asked.code == 130
    assert worded(asked, project) == snapshot
    assert answered.code == 0
    assert only_run(wavewright)["status"] == "achieved"


def test_a_goal_that_no_rung_can_plan_ends_with_the_reason(
    wavewright: CommandLine, planning: FakeModelServer, project: Path
) -> None:
    with (project / "wavewright.yaml").open("a") as settings:
        settings.write("ladders: {planner: [{name: llm}]}\n")
    planning.answer({"cannot_plan": "there is no tool that counts"}, when=asked_for("plan"))

    answer = wavewright("run", "plans/ranking.job.yaml")

    assert answer.code == 1
    assert "there is no tool that counts" in answer.err


def test_a_run_over_its_budget_says_so_and_goes_on_without_the_model(
    wavewright: CommandLine, planning: FakeModelServer, project: Path
) -> None:
    with (project / "wavewright.yaml").open("a") as settings:
        settings.write("budgets: {run: {tokens: 100}}\n")

    answer = wavewright("run", "plans/ranking.job.yaml")

    assert "was not asked: over budget" in answer.err
    assert "rung minimal reached" in answer.err
    assert planning.requests == ()


def test_calls_that_a_budget_refused_are_told_as_never_made(
    wavewright: CommandLine, planning: FakeModelServer, project: Path
) -> None:
    with (project / "wavewright.yaml").open("a") as settings:
        settings.write("budgets: {run: {tokens: 100}}\n")

    answer = wavewright("run", "plans/ranking.job.yaml")
    shown = wavewright("show", str(only_run(wavewright)["run"])).out

    assert "models  no call (2 over budget and never made) of openai-chat:scripted, " in answer.out
    assert "without an answer" not in answer.out
    assert (
        "rung planner llm              no call (1 over budget and never made), 0 tokens, " in shown
    )


def test_what_models_cost_is_shown_with_the_run(
    wavewright: CommandLine, planning: FakeModelServer, project: Path
) -> None:
    with (project / "wavewright.yaml").open("a") as settings:
        settings.write("models: {prices: {scripted: {input: 1.0, output: 2.0}}}\n")
    planning.answer(PLAN, when=asked_for("plan"))
    wavewright("run", "plans/ranking.job.yaml")
    run = str(only_run(wavewright)["run"])

    events = [
        json.loads(line) for line in wavewright("show", run, "--format", "events").out.splitlines()
    ]
    uses = [event["use"] for event in events if event["kind"] == "model_called"]
    shown = wavewright("show", run).out

    head, row = wavewright("runs").out.splitlines()

    assert all(use["usd"] > 0 for use in uses)
    assert head.split()[-1] == "tokens"
    assert row.split()[-1] == f"{sum(use['input_tokens'] + use['output_tokens'] for use in uses):,}"
    assert row.index(row.split()[-2]) < head.index("tokens")
    assert "planner" in shown
    assert "reviewer" in shown
    assert {use["rung"] for use in uses} == {"llm", "model"}
    for use in uses:
        [line] = [
            line for line in shown.splitlines() if f"  rung {use['role']} {use['rung']} " in line
        ]
        assert (
            f" 1 call, {use['input_tokens'] + use['output_tokens']:,} tokens, {use['usd']:.4f} USD"
            in line
        )
    assert f"{sum(use['input_tokens'] + use['output_tokens'] for use in uses):,}" in shown


def test_the_patch_of_a_model_is_shown_like_any_other(
    wavewright: CommandLine, planning: FakeModelServer, project: Path, snapshot: SnapshotAssertion
) -> None:
    (project / "notes" / "empty.md").write_text("")
    goal = project / "config" / "goals" / "word_ranking.yaml"
    goal.write_text(goal.read_text() + "may_drop: [has_text]\n")
    planning.answer(PLAN, when=asked_for("plan"))
    planning.answer(PATCH, when=asked_for("patch"))

    kept = wavewright("plan", "plans/ranking.job.yaml", "--out", "first.yaml")
    ran = wavewright("run", "plans/ranking.job.yaml")
    run = str(only_run(wavewright)["run"])
    differing = wavewright("diff", "first.yaml", run)
    rounds = wavewright("diff", run)

    assert (kept.code, ran.code, differing.code) == (0, 0, 1)
    assert "recovery: read the notes that hold a text" in ran.err
    assert differing.out == snapshot
    assert rounds.out.splitlines()[:2] == [
        "round 1: read the notes that hold a text (by the rung model)",
        "  + notes_2: read_note, instead of notes",
    ]


def test_the_key_is_in_nothing_that_a_run_leaves(
    wavewright: CommandLine, planning: FakeModelServer, project: Path
) -> None:
    planning.answer(PLAN, when=asked_for("plan"))

    answer = wavewright("run", "plans/ranking.job.yaml")
    run = str(only_run(wavewright)["run"])
    page = wavewright("show", run, "--format", "html").out
    written = b"".join(
        path.read_bytes() for path in (project / ".wavewright").rglob("*") if path.is_file()
    )

    assert API_KEY not in answer.out + answer.err + page
    assert API_KEY.encode() not in written


@pytest.mark.parametrize(
    "command", [("plan", "plans/ranking.job.yaml"), ("run", "plans/ranking.job.yaml"), ("doctor",)]
)
def test_ctrl_c_ends_a_command_that_waits_for_a_model(
    project: Path, planning: FakeModelServer, command: tuple[str, ...]
) -> None:
    planning.answer(silence())
    with PipedCommand(*command, folder=project) as running:
        planning.wait_for_requests(1)

        running.send_signal(signal.SIGINT)
        _, err = running.communicate()

    assert running.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err


def test_a_run_in_a_pipe_shows_no_streamed_text(project: Path, planning: FakeModelServer) -> None:
    planning.answer(PLAN, when=asked_for("plan"))

    ran = run_prepared("run", "plans/ranking.job.yaml", folder=project)

    assert ran.returncode == 0, ran.stderr
    assert "Every note is read" not in ran.stderr
