"""`wavewright decisions` and `wavewright answer` for runs that no daemon works on, over a file and
over PostgreSQL.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from tests.engine.unplanned_project import PLAN, REVIEW, write_job
from tests.support.postgres import PostgresServer
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.planner.types import JsonObject

ASK: JsonObject = {"ask": {"question": "Which notes?", "options": ["all of them", "the newest"]}}


@pytest.fixture
def posting(project: Path) -> Path:
    """A project with a tool that may be called only with approval."""
    (project / "tools" / "post.py").write_text(
        "from pathlib import Path\n\n\n"
        'def post(text: str) -> str:\n    """Post a text."""\n'
        '    Path("posted.txt").write_text(text)\n    return text\n'
    )
    (project / "wavewright.yaml").write_text(
        "tools: [{path: tools/post.py, functions: {post: {effects: [write], needs_approval: true}}}]\n"
    )
    (project / "post.yaml").write_text("steps: [{id: post, tool: post, params: {text: hello}}]\n")
    return project


def asked(wavewright: CommandLine) -> list[JsonObject]:
    """Return what waits for an answer."""
    found: list[JsonObject] = json.loads(wavewright("decisions", "--format", "json").out)
    return found


def test_where_nothing_waits_that_is_said(wavewright: CommandLine, project: Path) -> None:
    assert wavewright("decisions").out == "nothing waits for an answer\n"
    assert wavewright("decisions", "--format", "json").out == "[]\n"
    assert wavewright("answer", "x", "yes").code == 2
    assert not (project / ".wavewright" / "journal.sqlite").exists()


@pytest.mark.parametrize(
    ("place", "choice", "code"),
    [
        ("sqlite", "approve", 0),
        ("sqlite", "1", 0),
        ("sqlite", "refuse", 1),
        ("postgres", "approve", 0),
    ],
)
def test_a_run_waits_for_a_word_and_goes_on_with_it(
    wavewright: CommandLine,
    posting: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    choice: str,
    code: int,
) -> None:
    if place == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        monkeypatch.setenv("WAVEWRIGHT_PG_URL", server.database())
    first = wavewright("run", "post.yaml", "--approve", "wait")
    [question] = asked(wavewright)
    run = str(question["run"])
    still = wavewright("resume", run, "--approve", "wait")
    [listed] = json.loads(wavewright("runs", "--format", "json").out)
    table = wavewright("runs").out
    shown = wavewright("decisions", run)
    answered = wavewright("answer", run, choice)
    left = asked(wavewright)
    [relisted] = json.loads(wavewright("runs", "--format", "json").out)
    last = wavewright("resume", run)

    assert (first.code, still.code) == (130, 130)
    assert (listed["status"], listed["ok"], listed["steps"]) == ("waiting_for_approval", 0, 1)
    assert "waiting for approval" in table
    assert relisted["status"] == "interrupted"
    assert f"wavewright answer {question['id']} approve" in first.err
    assert (question["subject"], question["options"]) == ("step", ["approve", "refuse"])
    assert 'text: "hello"' in str(question["context"])
    assert 'text: "hello"' in shown.out
    assert answered.code == 0
    assert f"wavewright resume {run}" in answered.out
    assert left == []
    assert last.code == code
    assert (posting / "posted.txt").exists() == (code == 0)


def test_the_list_shows_what_an_approval_lets_a_step_do_and_says_where_there_is_more(
    wavewright: CommandLine, posting: Path
) -> None:
    (posting / "many.yaml").write_text(
        "steps: [{id: post, tool: post, for_each: '${[1, 2, 3, 4, 5, 6, 7]}', params: {text: 'no. ${item}'}}]\n"
    )
    wavewright("run", "post.yaml", "--approve", "wait")
    one = wavewright("decisions").out
    wavewright("answer", str(asked(wavewright)[0]["run"]), "refuse")
    wavewright("run", "many.yaml", "--approve", "wait")
    many = wavewright("decisions").out

    assert '\n      text: "hello"\n' in one
    assert "whole context" not in one
    assert 'text: "no. 5"' in many
    assert 'text: "no. 7"' not in many
    assert f"wavewright decisions {asked(wavewright)[0]['run']}" in many


@pytest.mark.parametrize(
    ("option", "argument"),
    [("later", "later"), ("not today", "'not today'"), ("-1", "-- -1"), ("$HOME", "'$HOME'")],
)
def test_an_option_is_printed_as_a_shell_takes_it(
    wavewright: CommandLine, project: Path, option: str, argument: str
) -> None:
    params = json.dumps({"question": "When?", "options": [option, "never"]})
    (project / "ask.yaml").write_text(f"steps: [{{id: day, tool: ask_person, params: {params}}}]\n")
    wavewright("run", "ask.yaml", "--approve", "wait")

    [question] = asked(wavewright)
    command = f"wavewright answer {question['id']} {argument}"

    assert wavewright("decisions").out.endswith(f"\n  answer with: {command}\n")
    assert wavewright(*shlex.split(command)[1:]).code == 0


def test_the_first_answer_stands_and_none_is_taken_that_was_not_offered(
    wavewright: CommandLine, posting: Path
) -> None:
    wavewright("run", "post.yaml", "--approve", "wait")
    [question] = asked(wavewright)
    run = str(question["run"])
    offered = wavewright("answer", run, "perhaps")
    wavewright("answer", run, "refuse")
    again = wavewright("answer", run, "approve")

    assert (offered.code, again.code) == (1, 1)
    assert "answer with one of: approve, refuse" in offered.err
    assert "answered already by" in again.err
    assert ": 'refuse'" in again.err
    assert wavewright("resume", run).code == 1
    assert not (posting / "posted.txt").exists()


def test_a_planners_question_is_answered_before_the_run_is_resumed(
    wavewright: CommandLine,
    project: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    write_job(project)
    model_server.answer(ASK, PLAN, when=asked_for("plan"))
    model_server.answer(REVIEW, when=asked_for("review"))
    first = wavewright("run", "plans/ranking.job.yaml")
    [question] = asked(wavewright)
    text = wavewright("decisions").out
    [listed] = json.loads(wavewright("runs", "--format", "json").out)
    answered = wavewright("answer", str(question["run"]), "2")
    last = wavewright("resume", str(question["run"]))

    assert first.code == 130
    assert listed["status"] == "waiting_for_answer"
    assert question["question"] == "Which notes?"
    assert "2. the newest" in text
    assert "answered 'the newest'" in answered.out
    assert last.code == 0
    assert "the newest" in model_server.requests[1].text


def test_a_target_that_waits_goes_on_with_the_job(wavewright: CommandLine, posting: Path) -> None:
    (posting / "post.job.yaml").write_text(
        "name: post\ntargets: {first: [A, B]}\n"
        "plan: {steps: [{id: post, tool: post, params: {text: '${inputs.target}'}}], result: '${steps.post}'}\n"
    )
    wavewright("run", "post.job.yaml", "--approve", "wait")
    rows: list[JsonObject] = json.loads(wavewright("runs", "--format", "json").out)
    [root] = [str(row["run"]) for row in rows if row["job"] == "post"]
    waiting = asked(wavewright)
    counts = {str(row["job"]): (row["status"], row["steps"]) for row in rows}
    answers = [
        wavewright("answer", str(one["run"]), choice)
        for one, choice in zip(waiting, "12", strict=True)
    ]
    last = wavewright("resume", root)

    assert sorted(str(one["job"]) for one in waiting) == ["post: A", "post: B"]
    assert set(counts.values()) == {("waiting_for_approval", 0), ("waiting_for_approval", 1)}
    assert all(f"continue with: wavewright resume {root}" in one.out for one in answers)
    assert last.code == 1
    assert "1 of 2 targets achieved; failed: " in last.err
    assert (posting / "posted.txt").exists()
