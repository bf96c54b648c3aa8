"""`check`, `plan`, `dry-run` and `run` hold a plan to the same budgets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from tests.support.note_worker import NOTE_WORKER
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer

WORKER = NOTE_WORKER + "expected_tokens: 1000\n"
SETTINGS = "journal: journal.sqlite\nmodels: {prices: {scripted: {input: 2, output: 6}}}\n"


def write_plan(folder: Path, name: str, words: int) -> Path:
    step = {
        "id": "notes",
        "tool": "note",
        "for_each": "${inputs.words}",
        "params": {"word": "${item}"},
    }
    plan = {
        "goal": "Write lines",
        "inputs": {"words": [f"w{n}" for n in range(words)]},
        "steps": [step],
    }
    file = folder / f"{name}.plan.json"
    file.write_text(json.dumps(plan))
    return file


@pytest.fixture
def quotes_project(
    tmp_path: Path, model_server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A project with a worker, and a plan that calls it for twenty words, 1,000 tokens each."""
    for name, text in {
        "prompts/workers/note.md.j2": "Write a line.\n{{ inputs.word }}\n",
        "config/workers/note.yaml": WORKER,
        "wavewright.yaml": SETTINGS,
        "desk.job.yaml": "version: 1\nname: desk\nplan: desk.plan.json\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    model_server.answer({"line": "a line"})
    write_plan(tmp_path, "desk", 20)
    return tmp_path


def set_budgets(quotes_project: Path, budgets: str) -> None:
    (quotes_project / "wavewright.yaml").write_text(f"{SETTINGS}budgets: {budgets}\n")


@pytest.mark.parametrize("file", ["desk.plan.json", "desk.job.yaml"])
@pytest.mark.parametrize(
    ("budgets", "code"),
    [
        pytest.param("{run: {tokens: 24998}}", "E701", id="run, of which a fifth is held back"),
        pytest.param("{job: {tokens: 19999}}", "E702", id="job"),
        pytest.param("{day: {calls: 19}}", "E703", id="day"),
        pytest.param("{day: {usd: 0.01}}", "E703", id="money"),
    ],
)
def test_a_plan_over_a_budget_of_the_settings_is_refused_by_every_command(
    wavewright: CommandLine,
    quotes_project: Path,
    model_server: FakeModelServer,
    file: str,
    budgets: str,
    code: str,
) -> None:
    set_budgets(quotes_project, budgets)

    answers = [wavewright(command, file) for command in ("check", "plan", "dry-run", "run")]

    assert [answer.code for answer in answers] == [1] * 4
    assert [code in answer.out + answer.err for answer in answers] == [True] * 4
    assert answers[0].out.startswith(f"error[{code}]: the plan is expected to take")
    assert model_server.requests == ()


def test_a_plan_within_the_budgets_is_refused_by_none(
    wavewright: CommandLine, quotes_project: Path
) -> None:
    set_budgets(quotes_project, "{run: {tokens: 25000}, job: {tokens: 20000}, day: {calls: 20}}")

    assert [
        wavewright(command, "desk.job.yaml").code for command in ("check", "plan", "dry-run")
    ] == [
        0,
        0,
        0,
    ]


def test_what_other_runs_have_spent_today_is_not_there_for_a_plan_that_is_checked(
    wavewright: CommandLine, quotes_project: Path
) -> None:
    set_budgets(quotes_project, "{day: {calls: 21}}")
    small = write_plan(quotes_project, "small", 2)

    before = wavewright("check", "desk.plan.json")
    wavewright("run", small)
    after = wavewright("check", "desk.plan.json")

    assert (before.code, after.code) == (0, 1)
    assert "error[E703]" in after.out


def test_without_a_model_nothing_is_spent_and_no_budget_is_passed(
    wavewright: CommandLine, quotes_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_budgets(quotes_project, "{day: {tokens: 1}}")
    monkeypatch.delenv("WAVEWRIGHT_MODEL")

    assert [wavewright(command, "desk.job.yaml").code for command in ("check", "dry-run")] == [0, 0]


def test_a_plan_that_is_checked_against_a_file_of_tools_is_of_no_project(
    wavewright: CommandLine, quotes_project: Path
) -> None:
    set_budgets(quotes_project, "{day: {tokens: 1}}")
    (quotes_project / "tools.json").write_text('[{"name": "note", "expected_tokens": 1000}]')

    assert wavewright("check", "desk.plan.json", "--tools", "tools.json").code == 0


def test_looking_at_a_plan_makes_no_journal(wavewright: CommandLine, quotes_project: Path) -> None:
    set_budgets(quotes_project, "{day: {tokens: 1}}")

    wavewright("check", "desk.plan.json")

    assert not (quotes_project / "journal.sqlite").exists()


@pytest.mark.parametrize(
    ("limits", "settings"),
    [("limits: {budget: {tokens: 1000}}\n", ""), ("", "budgets: {run: {tokens: 1000}}\n")],
)
def test_a_budget_is_shown_where_no_model_is_configured(
    wavewright: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limits: str,
    settings: str,
) -> None:
    monkeypatch.delenv("WAVEWRIGHT_MODEL", raising=False)
    (tmp_path / "wavewright.yaml").write_text("tools: [{path: tl.py}]\n" + settings)
    (tmp_path / "tl.py").write_text('def one(n: int) -> int:\n    """One."""\n    return n\n')
    (tmp_path / "one.yaml").write_text(
        "name: one\ngoal: x\navailable_tools: [{name: one}]\n"
        f"{limits}plan: {{steps: [{{id: a, tool: one, params: {{n: 1}}}}]}}\n"
    )

    shown = json.loads(wavewright("dry-run", "one.yaml", "--format", "json").out)["budget"]

    assert shown["verdict"] == "fits"
    # A fifth is held back for review and recovery.
    assert [(row["measure"], row["left"]) for row in shown["rows"]][:1] == [("tokens", 800.0)]
