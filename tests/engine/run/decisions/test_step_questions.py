"""Approvals of ready steps and questions of `ask_person`, at the command line: one at a time, each
used once.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import anyio
import pytest

from tests.engine.conftest import CommandLine
from tests.engine.terminal_session import Conversation
from wavewright.config.settings import load_settings
from wavewright.engine.interfaces.cli.runs.runs_command import load_listed_run
from wavewright.planner.types import JsonObject

TOOLS = '''
from pathlib import Path


def read(text: str) -> str:
    """Return a text."""
    with Path("calls.txt").open("a") as calls:
        calls.write(f"read {text}\\n")
    return text


def post(text: str) -> str:
    """Post a text."""
    with Path("calls.txt").open("a") as calls:
        calls.write(f"post {text}\\n")
    return text
'''
SETTINGS = "tools: [{path: tools/post.py, functions: {read: {}, post: {effects: [write], needs_approval: true}}}]\n"
TWO_POSTS = """\
steps:
  - {id: page, tool: read, params: {text: page}}
  - {id: one, tool: post, params: {text: "1 ${steps.page}"}}
  - {id: two, tool: post, params: {text: "2 ${steps.page}"}}
"""
ASK = """\
steps:
  - {id: which, tool: ask_person, params: {question: Which zone?, options: [Westfall, Duskwood], default: Westfall}}
  - {id: page, tool: read, params: {text: "${steps.which}"}}
"""


@pytest.fixture
def posting(project: Path) -> Path:
    (project / "tools" / "post.py").write_text(TOOLS)
    (project / "wavewright.yaml").write_text(SETTINGS)
    (project / "two.yaml").write_text(TWO_POSTS)
    (project / "ask.yaml").write_text(ASK)
    return project


def calls(folder: Path) -> list[str]:
    file = folder / "calls.txt"
    return file.read_text().splitlines() if file.exists() else []


def questions(wavewright: CommandLine) -> list[JsonObject]:
    found: list[JsonObject] = json.loads(wavewright("decisions", "--format", "json").out)
    return found


def test_steps_before_run_and_each_step_asks_with_its_own_values(
    wavewright: CommandLine, posting: Path
) -> None:
    first = wavewright("run", "two.yaml", "--approve", "wait")
    before = calls(posting)
    [one] = questions(wavewright)
    run = str(one["run"])
    wavewright("answer", run, "approve")
    second = wavewright("resume", run)
    between = calls(posting)
    [two] = questions(wavewright)
    wavewright("answer", str(two["id"]), "refuse")
    last = wavewright("resume", run)

    assert (first.code, second.code, last.code) == (130, 130, 1)
    assert before == ["read page"]
    assert [re.findall('text: "(.*)"', str(asked["context"])) for asked in (one, two)] in (
        [["1 page"], ["2 page"]],
        [["2 page"], ["1 page"]],
    )
    assert len(between) == 2
    assert calls(posting) == between
    assert "a person did not approve the call" in last.out + last.err


def test_a_run_killed_at_its_question_asks_again_and_calls_nothing_twice(
    wavewright: CommandLine, posting: Path
) -> None:
    talk = Conversation(posting, "run", "two.yaml")
    try:
        talk.read_until("[y/N]")
    finally:
        talk.end()  # with SIGKILL
    [row] = json.loads(wavewright("runs", "--format", "json").out)
    last = wavewright("resume", str(row["run"]), "--approve", "always")

    assert last.code == 0, last.err
    assert sorted(calls(posting)) == ["post 1 page", "post 2 page", "read page"]


@pytest.mark.parametrize(
    ("options", "zone"),
    [
        (["--answer", "Duskwood"], "Duskwood"),
        (["--answer", "2"], "Duskwood"),
        (["--answer", "2", "--approve", "never"], "Duskwood"),
        (["--approve", "never"], "Westfall"),
    ],
)
def test_the_answer_to_a_question_is_data_for_later_steps(
    wavewright: CommandLine, posting: Path, options: list[str], zone: str
) -> None:
    ran = wavewright("run", "ask.yaml", *options)

    assert ran.code == 0, ran.err
    assert calls(posting) == [f"read {zone}"]


def test_a_question_waits_for_its_answer_and_takes_no_other(
    wavewright: CommandLine, posting: Path
) -> None:
    first = wavewright("run", "ask.yaml", "--approve", "wait")
    [question] = questions(wavewright)
    [listed] = json.loads(wavewright("runs", "--format", "json").out)
    run = str(question["run"])
    wrong = wavewright("answer", run, "Elwynn")
    answers = [wavewright("answer", run, choice).code for choice in ("2", "1")]
    last = wavewright("resume", run)

    assert (first.code, wrong.code, last.code) == (130, 1, 0)
    assert (question["subject"], question["options"]) == ("question", ["Westfall", "Duskwood"])
    assert listed["status"] == "waiting_for_answer"
    assert "waits for the answer to a step's question" in first.err
    assert answers == [0, 1]
    assert calls(posting) == ["read Duskwood"]


def test_an_answer_finds_the_targets_of_the_next_wave(
    wavewright: CommandLine, posting: Path
) -> None:
    (posting / "zones.job.yaml").write_text(
        "name: zones\ntargets: {first: [Elwynn], expand: '${[steps.which]}', depth: 1}\n"
        "plan:\n  steps:\n"
        "    - {id: which, tool: ask_person, params: {question: 'Next to ${inputs.target}?'}}\n"
        "    - {id: page, tool: read, params: {text: '${inputs.target}'}}\n"
    )

    ran = wavewright(
        "run", "zones.job.yaml", "--answer", "which=Westfall", "--answer", "which=Duskwood"
    )

    assert ran.code == 0, ran.err
    assert sorted(calls(posting)) == ["read Elwynn", "read Westfall"]


def test_a_job_waits_where_a_target_does_also_where_its_run_is_listed_alone(
    wavewright: CommandLine, posting: Path
) -> None:
    (posting / "zones.job.yaml").write_text(
        "name: zones\ntargets: {first: [Elwynn]}\n"
        "plan:\n  steps:\n    - {id: which, tool: ask_person, params: {question: 'Which?'}}\n"
    )
    wavewright("run", "zones.job.yaml", "--approve", "wait")
    rows = json.loads(wavewright("runs", "--format", "json").out)
    [root] = [str(row["run"]) for row in rows if row["job"] == "zones"]

    async def status_alone() -> str:
        row, _ = await load_listed_run(load_settings(posting), root)
        return row.status

    assert [row["status"] for row in rows] == ["waiting_for_answer"] * 2
    assert anyio.run(status_alone) == "waiting_for_answer"


PAYEES = """\
steps:
  - {id: payee, tool: ask_person, params: {question: 'Who is paid?'}}
  - {id: auditor, tool: ask_person, params: {question: 'Who looks at it?'}}
result: {payee: "${steps.payee}", auditor: "${steps.auditor}"}
"""


@pytest.mark.parametrize("order", [("payee=ann", "auditor=bob"), ("auditor=bob", "payee=ann")])
def test_an_answer_is_for_the_step_that_it_names_in_whatever_order(
    wavewright: CommandLine, posting: Path, order: tuple[str, str]
) -> None:
    (posting / "pay.yaml").write_text(PAYEES)

    ran = wavewright(
        "run", "pay.yaml", "--answer", order[0], "--answer", order[1], "--output", "out"
    )

    assert ran.code == 0, ran.err
    [package] = (posting / "out").glob("*/package.json")
    assert json.loads(package.read_text())["result"] == {"payee": "ann", "auditor": "bob"}


def test_several_answers_without_names_answer_no_steps(
    wavewright: CommandLine, posting: Path
) -> None:
    (posting / "pay.yaml").write_text(PAYEES)

    ran = wavewright("run", "pay.yaml", "--answer", "ann", "--answer", "bob", "--approve", "wait")

    assert ran.code == 130
    assert "--answer" in ran.err


def test_an_answer_to_what_is_asked_no_more_is_refused_with_what_is_asked_now(
    wavewright: CommandLine, posting: Path
) -> None:
    wavewright("run", "two.yaml", "--approve", "wait")
    [read] = questions(wavewright)
    run = str(read["run"])
    wavewright("answer", str(read["id"]), "approve")
    wavewright("resume", run)
    before = calls(posting)
    [now] = questions(wavewright)

    late = [wavewright("answer", name, "approve") for name in (str(read["id"]), run)]
    wavewright("resume", run)

    assert [answered.code for answered in late] == [1, 1]
    for answered in late:
        assert f"wavewright answer {now['id']} approve" in answered.err
        assert re.findall('text: "(.*)"', str(now["context"]))[0] in answered.err
    assert calls(posting) == before


def test_the_id_of_a_question_says_run_step_number_and_what_is_asked(
    wavewright: CommandLine, posting: Path
) -> None:
    wavewright("run", "two.yaml", "--approve", "wait")
    [asked] = questions(wavewright)

    assert re.fullmatch(f"{asked['run']}:[a-z_]+:1:[0-9a-f]{{8}}", str(asked["id"]))
