"""What a dry run expects: seconds and cost from history or marked as defaults, the budgets, and
egress.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.engine.conftest import CommandLine
from tests.engine.journaled_history import append, asked, begun, ended, item_ended
from tests.support.note_worker import NOTE_WORKER
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer
from wavewright.planner.types import JsonObject

WORDS = 20
WORKER = NOTE_WORKER + "expected_tokens: 1000\nexpected_seconds: 4\n"
TOOLS = '''
def post(text: object) -> str:
    """Send a text to the notice board."""
    return str(text)


def read_page(url: str) -> str:
    """Read a page of the web."""
    return url
'''
SETTINGS = """\
tools:
  - path: tools/board.py
    functions:
      post: {effects: [write, egress], expected_seconds: 2, version: "1", accepts_untrusted: [text]}
      read_page: {untrusted_output: true, expected_seconds: 1, version: "1"}
journal: journal.sqlite
"""
PLAN: JsonObject = {
    "goal": "Post a line about every word",
    "inputs": {"words": [f"word{number}" for number in range(WORDS)], "board": "town"},
    "steps": [
        {"id": "page", "tool": "read_page", "params": {"url": "of ${inputs.board}"}},
        {
            "id": "notes",
            "tool": "note",
            "for_each": "${inputs.words}",
            "params": {"word": "${item}"},
        },
        {"id": "said", "tool": "post", "params": {"text": ["${steps.notes}", "${inputs.board}"]}},
        {
            "id": "shown",
            "tool": "post",
            "params": {"text": "${steps.page}"},
            "depends_on": ["said"],
        },
    ],
}
PRICES = "models: {prices: {scripted: {input: 2, output: 6}}}\n"


@pytest.fixture
def board(tmp_path: Path, model_server: FakeModelServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a worker, a tool that sends and one that brings untrusted text."""
    files = {
        "prompts/workers/note.md.j2": "Write a line.\n{{ inputs.word }}\n",
        "config/workers/note.yaml": WORKER,
        "tools/board.py": TOOLS,
        "wavewright.yaml": SETTINGS,
        "board.plan.json": json.dumps(PLAN),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    return tmp_path


def record(wavewright: CommandLine, *arguments: str | Path, code: int = 0) -> JsonObject:
    answer = wavewright("dry-run", *(arguments or ("board.plan.json",)), "--format", "json")
    assert answer.code == code, answer.err
    return cast("JsonObject", json.loads(answer.out))


def steps_of(told: JsonObject) -> dict[str, JsonObject]:
    return {str(step["id"]): step for step in cast("list[JsonObject]", told["steps"])}


def add_settings(board: Path, more: str) -> None:
    (board / "wavewright.yaml").write_text(SETTINGS + more)


def add_past(board: Path, model: str) -> None:
    """Journal ten runs in which a call of `note` took 1 to 10 seconds and 100 to 1,000 tokens of
    the model.
    """
    for number in range(1, 11):
        run = f"r{number}"
        uses = asked("notes", 100 * number, 0.01 * number, model=model, index=0)
        past = [*begun(run, PLAN), uses, item_ended("notes", 0, float(number)), ended("said", 0.5)]
        append(board / "journal.sqlite", run, past)


@pytest.fixture
def model(model_server: FakeModelServer) -> str:
    return model_server.environment()["WAVEWRIGHT_MODEL"]


def test_without_history_every_figure_is_the_tool_s_own_and_says_so(
    wavewright: CommandLine, board: Path
) -> None:
    add_settings(board, PRICES)

    told = record(wavewright)

    notes = steps_of(told)["notes"]
    assert (notes["seconds_from"], notes["tokens_from"]) == ("default", "default")
    assert (notes["expected_seconds"], notes["p90_seconds"]) == (8.0, 16.0)  # 20 items, 16 at once
    assert notes["tokens"] == {"expected": 20_000, "p90": 40_000}
    assert notes["usd"] == {"expected": 0.06, "p90": 0.12}
    assert not (board / "journal.sqlite").exists()


def test_with_history_figures_are_those_of_past_calls_of_the_same_model(
    wavewright: CommandLine, board: Path, model: str
) -> None:
    add_past(board, model)

    told = record(wavewright)

    notes = steps_of(told)["notes"]
    assert (notes["seconds_from"], notes["tokens_from"]) == ("history", "history")
    assert (notes["calls_seen"], notes["spends_seen"]) == (10, 10)
    assert (notes["expected_seconds"], notes["p90_seconds"]) == (11.0, 18.0)
    assert notes["tokens"] == {"expected": 11_000, "p90": 18_000}
    assert notes["usd"] == {"expected": 1.1, "p90": 1.8}
    assert steps_of(told)["page"]["seconds_from"] == "default"


def test_what_another_model_took_is_no_history_of_this_one(
    wavewright: CommandLine, board: Path
) -> None:
    add_past(board, "openai:another")

    notes = steps_of(record(wavewright))["notes"]

    assert (notes["seconds_from"], notes["tokens_from"]) == ("history", "default")
    assert notes["usd"] is None


def test_what_the_model_of_the_worker_s_own_took_is_its_history(
    wavewright: CommandLine, board: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WAVEWRIGHT_MODEL")
    add_settings(board, "model: openai:usual\n")
    (board / "config/workers/note.yaml").write_text(WORKER + "model_preference: openai:another\n")
    add_past(board, "openai:another")

    assert steps_of(record(wavewright))["notes"]["tokens_from"] == "history"


@pytest.mark.parametrize(
    ("tokens", "verdict"), [(50_000, "fits"), (30_000, "tight"), (10_000, "over")], ids=str
)
def test_the_budget_verdict_holds_the_estimate_against_what_is_left(
    wavewright: CommandLine, board: Path, tokens: int, verdict: str
) -> None:
    add_settings(board, f"budgets: {{day: {{tokens: {tokens}}}}}\n")

    told = cast("JsonObject", record(wavewright, code=1 if verdict == "over" else 0)["budget"])

    assert told["verdict"] == verdict
    assert told["rows"] == [
        {
            "scope": "day",
            "step": None,
            "measure": "tokens",
            "left": tokens,
            "expected": 20_000,
            "p90": 40_000,
            "verdict": verdict,
        }
    ]


def test_a_budget_that_would_refuse_the_run_is_told_with_everything_else(
    wavewright: CommandLine, board: Path
) -> None:
    add_settings(board, "budgets: {run: {tokens: 10000}, recovery_share: 0}\n")

    forecast = wavewright("dry-run", "board.plan.json")
    ran = wavewright("run", "board.plan.json")

    assert forecast.code == ran.code == 1
    assert "E701 the plan is expected to take 20,000 tokens" in forecast.out
    assert "error[E701]: the plan is expected to take 20,000 tokens" in ran.err
    assert "wave 2" in forecast.out


def test_what_other_runs_have_spent_today_is_left_out_of_what_is_left(
    wavewright: CommandLine, board: Path, model_server: FakeModelServer
) -> None:
    add_settings(board, "budgets: {day: {calls: 100}}\n")
    small: JsonObject = {**PLAN, "inputs": {"words": ["one", "two"], "board": "town"}}
    (board / "small.plan.json").write_text(json.dumps(small))
    model_server.answer({"line": "a line"})
    wavewright("run", "small.plan.json", "--approve", "always")

    [row] = cast("list[JsonObject]", cast("JsonObject", record(wavewright)["budget"])["rows"])

    spent = len(model_server.requests)
    assert spent > 0
    assert row["left"] == 100 - spent


def test_a_budget_of_money_without_a_price_is_not_known_to_fit(
    wavewright: CommandLine, board: Path
) -> None:
    add_settings(board, "budgets: {day: {usd: 5}}\n")

    assert cast("JsonObject", record(wavewright)["budget"])["verdict"] == "unknown"


def test_everything_that_leaves_the_run_is_named_with_what_it_carries(
    wavewright: CommandLine, board: Path, model: str
) -> None:
    told = record(wavewright)

    egress = {str(one["step"]): one for one in cast("list[JsonObject]", told["egress"])}
    assert set(egress) == {"notes", "said", "shown"}
    assert egress["notes"]["to"] == f"model {model}"
    assert egress["notes"]["inputs"] == ["words"]
    assert egress["said"]["to"] == "outside"
    assert (egress["said"]["inputs"], egress["said"]["steps"]) == (["board"], ["notes"])
    assert [egress[step]["carries_untrusted"] for step in ("notes", "said", "shown")] == [
        False,
        False,
        True,
    ]


def test_text_from_outside_is_followed_along_what_is_read_and_not_along_what_is_only_waited_for(
    wavewright: CommandLine, board: Path
) -> None:
    told = record(wavewright)

    flows = {str(flow["step"]): flow for flow in cast("list[JsonObject]", told["untrusted"])}
    assert flows["page"]["reaches"] == ["shown"]
    assert flows.keys() == {"page"}  # a model that reads nothing from outside brings nothing in
    assert flows["page"]["acting"] == ["shown"]


def test_text_from_outside_is_followed_through_steps_that_pass_it_on(
    wavewright: CommandLine, board: Path
) -> None:
    chain: JsonObject = {
        "steps": [
            {"id": "page", "tool": "read_page", "params": {"url": "u"}},
            {"id": "again", "tool": "read_page", "params": {"url": "${steps.page}"}},
            {"id": "shown", "tool": "post", "params": {"text": "${steps.again}"}},
        ]
    }
    (board / "chain.plan.json").write_text(json.dumps(chain))

    told = record(wavewright, "chain.plan.json")

    page = cast("list[JsonObject]", told["untrusted"])[0]
    assert (page["read_by"], page["reaches"]) == (["again"], ["again", "shown"])


def test_what_a_page_only_decides_holds_no_text_of_it(wavewright: CommandLine, board: Path) -> None:
    steps: list[JsonObject] = [
        {"id": "page", "tool": "read_page", "params": {"url": "u"}},
        {"id": "size", "tool": "post", "params": {"text": "${steps.page.size()} letters"}},
        {
            "id": "long",
            "tool": "post",
            "params": {"text": "${steps.page.size() > 99 ? 'long' : 'short'}"},
        },
        {"id": "asked", "tool": "post", "params": {"text": "yes"}, "when": "steps.page == 'go'"},
        {
            "id": "told",
            "tool": "post",
            "params": {"text": "${steps.asked}"},
            "when": "has(steps.asked)",
        },
    ]
    (board / "size.plan.json").write_text(json.dumps({"steps": steps}))

    told = record(wavewright, "size.plan.json")

    [page] = cast("list[JsonObject]", told["untrusted"])
    # A number in a text can be an account; whether 'told' posts is decided by way of 'asked'.
    assert page["read_by"] == ["size", "asked"]
    assert page["reaches"] == page["acting"] == ["size", "asked", "told"]
    carrying = {
        one["step"]: one["carries_untrusted"] for one in cast("list[JsonObject]", told["egress"])
    }
    assert carrying == {"size": True, "long": False, "asked": False, "told": False}


def test_a_skipped_step_sends_nothing_and_costs_nothing(
    wavewright: CommandLine, board: Path
) -> None:
    steps = [{**step, "when": "false"} for step in cast("list[JsonObject]", PLAN["steps"])[:2]]
    (board / "skipped.plan.json").write_text(json.dumps({**PLAN, "steps": steps}))

    told = record(wavewright, "skipped.plan.json")

    assert (told["egress"], told["untrusted"]) == ([], [])
    assert cast("JsonObject", told["estimate"])["tokens"] == {"expected": 0, "p90": 0}


def test_a_run_time_limit_is_part_of_the_verdict(wavewright: CommandLine, board: Path) -> None:
    (board / "short.template.yaml").write_text(
        "name: short\ngoal: Be quick\navailable_tools: [{name: note}, {name: post}, {name: read_page}]\n"
        f"limits: {{run_timeout: 9}}\nplan: {json.dumps(PLAN)}\n"
    )
    (board / "short.job.yaml").write_text("name: short\ngoal_template: short.template.yaml\n")

    told = record(wavewright, "short.job.yaml")

    rows = cast("list[JsonObject]", cast("JsonObject", told["budget"])["rows"])
    assert [(row["measure"], row["expected"], row["verdict"]) for row in rows] == [
        ("time", 12.0, "over")
    ]


def test_the_whole_text_fits_a_narrow_terminal(
    wavewright: CommandLine, board: Path, model: str, snapshot: SnapshotAssertion
) -> None:
    add_settings(board, f"{PRICES}budgets: {{day: {{tokens: 15000}}}}\n")
    add_past(board, model)

    answer = wavewright("dry-run", "board.plan.json")

    assert max(map(len, answer.out.splitlines())) <= 80
    assert answer.out.replace(model, "MODEL") == snapshot


def test_names_too_long_for_the_table_have_lines_of_their_own(
    wavewright: CommandLine, board: Path, snapshot: SnapshotAssertion
) -> None:
    tool, step = "a_tool_whose_name_is_too_long_for_a_table_of_eighty_columns", "a_step_" * 8
    (board / "tools" / "board.py").write_text(
        f'{TOOLS}\n\ndef {tool}(text: str) -> str:\n    """Do it."""\n    return text\n'
    )
    (board / "wavewright.yaml").write_text("tools: [tools/board.py]\njournal: journal.sqlite\n")
    steps = [
        {"id": step, "tool": tool, "params": {"text": "a"}},
        {"id": "short", "tool": "post", "params": {"text": f"${{steps.{step}}}"}},
        {"id": f"{step}b", "tool": "post", "params": {"text": "b"}},
        {"id": "last", "tool": tool, "params": {"text": "c"}, "depends_on": ["short"]},
    ]
    (board / "long.plan.json").write_text(json.dumps({"steps": steps}))

    answer = wavewright("dry-run", "long.plan.json")

    table = answer.out[answer.out.index("wave 1") :]
    assert max(map(len, table.splitlines())) <= 80
    assert table == snapshot


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("fallback_plan", "a run would have the planner make one first"),
        ("plan", "which a run follows without asking the planner"),
    ],
)
def test_which_plan_a_run_would_follow_is_said_and_nobody_is_asked(
    wavewright: CommandLine, board: Path, model_server: FakeModelServer, field: str, said: str
) -> None:
    (board / "board.template.yaml").write_text(
        "name: board\ngoal: Post\navailable_tools: [{name: note}, {name: post}, {name: read_page}]\n"
        f"{field}: {json.dumps(PLAN)}\n"
    )
    (board / "board.job.yaml").write_text("name: board\ngoal_template: board.template.yaml\n")

    told = record(wavewright, "board.job.yaml")

    [note] = cast("list[str]", told["notes"])
    assert said in note
    assert "note: this is the goal template's" in wavewright("dry-run", "board.job.yaml").out
    assert model_server.requests == ()


def test_a_model_that_cannot_be_asked_is_not_taken_for_free(
    wavewright: CommandLine, board: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert board.is_dir()
    for name in ("WAVEWRIGHT_BASE_URL", "WAVEWRIGHT_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WAVEWRIGHT_MODEL", "anthropic:a-model")

    told = record(wavewright)

    assert cast("list[str]", told["notes"])[0].startswith(
        "a run would stop: there is no key for anthropic:a-model"
    )
    assert steps_of(told)["notes"]["tokens"] == {"expected": 20_000, "p90": 40_000}
    assert cast("JsonObject", told["estimate"])["usd"] is None


def test_asking_about_a_plan_asks_no_model(
    wavewright: CommandLine, board: Path, model_server: FakeModelServer
) -> None:
    assert board.is_dir()
    record(wavewright)

    assert model_server.requests == ()


@pytest.mark.parametrize(("share", "shown"), [("0.125", "12.5 %"), ("0.07", "7 %"), ("1", "100 %")])
def test_a_gate_says_from_which_share_of_the_calls_on_it_blocks(
    wavewright: CommandLine, project: Path, share: str, shown: str
) -> None:
    template = project / "config" / "goals" / "word_ranking.yaml"
    gate = f"severity: block\n    blocks_from: {share}"
    template.write_text(template.read_text().replace("severity: block", gate))

    forecast = " ".join(wavewright("dry-run", "plans/words.job.yaml").out.split())

    assert f"required, blocks from {shown} of the calls on, warns below" in forecast
