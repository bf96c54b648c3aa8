"""`wavewright replay`: what a recorded run comes to under another planner, other prompts or another
reviewer.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from syrupy.assertion import SnapshotAssertion

from tests.engine.conftest import Answer, CommandLine
from tests.engine.equities_project import served_prices
from tests.engine.model_runs.model_run_project import PLAN, TEMPLATE, UNPLANNED, review
from tests.engine.model_runs.test_equities_with_model import ask_for_help, job_without_recipes
from tests.engine.rehearsal.recordings.conftest import events_of
from tests.engine.rehearsal.recordings.normalized_journal import normalized_journal
from tests.engine.stale_quotes_project import take_calls, write_quotes_project
from tests.packs.equities.price_service import Answer as Served, serving
from wavewright.engine.rehearsal.fake_model.request import FakeModelRequest
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.executor.sqlite.journal import SqliteBudgetStore
from wavewright.planner.ports.budgets import BudgetScope, Spend
from wavewright.planner.types import JsonObject


def only_run(wavewright: CommandLine) -> str:
    [row] = json.loads(wavewright("runs", "--format", "json").out)
    return str(row["run"])


def replayed(wavewright: CommandLine, *options: str | Path, code: int = 0) -> dict[str, Any]:
    """Replay the only run, and return what it says as JSON."""
    answer: Answer = wavewright("replay", only_run(wavewright), *options, "--format", "json")
    assert answer.code == code, answer.err
    found: dict[str, Any] = json.loads(answer.out)
    return found


@pytest.fixture
def quotes_run(wavewright: CommandLine, tmp_path: Path) -> Path:
    """The desk project after one run, of which a recipe mended the stale quotes."""
    write_quotes_project(tmp_path)
    ran = wavewright("run", "quotes.job.yaml", "--output", "out")
    assert ran.code == 0, ran.err
    take_calls(tmp_path)
    return tmp_path


def test_without_options_a_replay_comes_to_the_same_verdict_and_calls_nothing(
    wavewright: CommandLine, quotes_run: Path
) -> None:
    found = replayed(wavewright)

    assert found["is_same_verdict"]
    assert found["before"] == found["after"]
    assert found["after"]["rounds"] == 1
    assert not any(
        found["changes"][name]
        for name in ("plan", "steps", "gates", "confidence", "review", "costs")
    )
    assert take_calls(quotes_run).total() == 0


def test_a_replay_leaves_the_run_and_the_project_as_they_are(
    wavewright: CommandLine, quotes_run: Path
) -> None:
    run = only_run(wavewright)
    before = normalized_journal(events_of(quotes_run, run)), sorted(quotes_run.rglob("*"))

    replayed(wavewright)

    assert only_run(wavewright) == run
    assert (normalized_journal(events_of(quotes_run, run)), sorted(quotes_run.rglob("*"))) == before


RUN = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
COST = re.compile(r"[\d,]+ tokens, \$[\d.]+ *(?=  |$)", re.MULTILINE)
OTHER = "openai-chat:other"
MODELS = (
    "models: {prices: {scripted: {input: 1.0, output: 2.0}, other: {input: 10.0, output: 20.0}}}\n"
)


def asked_of(model: str, schema: str) -> Any:
    """Match what a model is asked for."""

    def fits(request: FakeModelRequest) -> bool:
        return (request.model, request.schema_name) == (model, schema)

    return fits


@pytest.fixture
def model_run(
    wavewright: CommandLine,
    tmp_path: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """The desk project after one run that a model planned and reviewed."""
    write_quotes_project(tmp_path, template=TEMPLATE, job=UNPLANNED)
    with (tmp_path / "wavewright.yaml").open("a") as file:
        file.write(MODELS)
    for name, value in model_server.environment("chat").items():
        monkeypatch.setenv(name, value)
    model_server.answer(PLAN, when=asked_of("scripted", "plan"))
    model_server.answer(review(), when=asked_of("scripted", "review"))
    ran = wavewright("run", "quotes.job.yaml", "--output", "out", "--approve", "always")
    assert ran.code == 0, ran.err
    take_calls(tmp_path)
    return tmp_path


def spent_today(folder: Path) -> Spend:
    """Return what the purse of a project holds against the day."""

    async def look() -> Spend:
        async with SqliteBudgetStore(folder / ".wavewright" / "journal.sqlite") as budget_store:
            return (await budget_store.left(BudgetScope())).day.spent

    return anyio.run(look)


def test_without_options_no_model_is_asked_and_its_answers_count_as_before(
    wavewright: CommandLine, model_run: Path, model_server: FakeModelServer
) -> None:
    asked = len(model_server.requests)

    found = replayed(wavewright)

    assert found["before"] == found["after"]
    assert found["asked"] == []
    assert len(model_server.requests) == asked == 2
    [_, _, everything] = found["changes"]["costs"]
    assert everything["before"] == everything["after"]
    assert everything["before"]["calls"] == 2


def test_a_run_that_a_model_fixed_is_fixed_again_from_the_record(
    wavewright: CommandLine,
    tmp_path: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask_for_help(monkeypatch, model_server, "chat")
    with serving(Served(served_prices("2009-10")), Served(served_prices("2010-03"))) as prices:
        (tmp_path / "few.job.json").write_text(json.dumps(job_without_recipes(prices.url)))
        wavewright("run", "few.job.json", "--output", "out", "--approve", "always")
        asked = len(model_server.requests), len(prices.asked)

        found = replayed(wavewright)

        assert (len(model_server.requests), len(prices.asked)) == asked
    assert found["after"]["verdict"] == "achieved"
    assert found["before"] == found["after"]
    assert found["after"]["rounds"] == 1
    everything = found["changes"]["costs"][-1]
    assert everything["before"] == everything["after"]
    assert everything["before"]["calls"] == 5


def test_another_reviewer_may_come_to_another_verdict_and_is_paid_from_the_budget_store(
    wavewright: CommandLine, model_run: Path, model_server: FakeModelServer
) -> None:
    no = review(
        goal_achieved=False,
        summary="The sheet is too short.",
        confidence=0.3,
        missing_data=["more quotes"],
    )
    model_server.answer(no, when=asked_of("other", "review"))
    # What is missing is a demand, which a recovery is asked about.
    model_server.answer({"cannot_plan": "nothing has more"}, when=asked_for("patch"))
    before = spent_today(model_run)

    found = replayed(wavewright, "--reviewer", OTHER, code=1)

    use, *recovery = found["asked"]
    after = spent_today(model_run)
    assert {asked["role"] for asked in recovery} == {"recovery"}
    assert not found["is_same_verdict"]
    assert (use["role"], use["model"]) == ("reviewer", OTHER)
    assert after.tokens - before.tokens == sum(asked["tokens"] for asked in found["asked"]) > 0
    assert after.usd - before.usd == pytest.approx(sum(asked["usd"] for asked in found["asked"]))
    assert "verdict achieved → not achieved" in found["changes"]["review"]
    assert f"reviewed by openai-chat:scripted → {OTHER}" in found["changes"]["review"]
    assert "missing now: more quotes" in found["changes"]["review"]
    assert found["changes"]["plan"] == []
    assert take_calls(model_run).total() == 0


def test_a_reviewer_that_cannot_be_reached_is_no_verdict_of_its_own(
    wavewright: CommandLine, model_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAVEWRIGHT_BASE_URL", "http://127.0.0.1:9/v1")

    answer = wavewright("replay", only_run(wavewright), "--reviewer", OTHER)

    assert answer.code == 3
    assert answer.out.splitlines()[4:6] == [
        "Gave no answer",
        f"  reviewer: {OTHER} cannot be reached at http://127.0.0.1:9/v1",
    ]


def test_a_planner_that_may_cost_nothing_is_not_heard(
    wavewright: CommandLine, model_run: Path
) -> None:
    with (model_run / "wavewright.yaml").open("a") as file:
        file.write("budgets: {run: {tokens: 1}}\n")

    found = replayed(wavewright, "--planner", OTHER, code=1)

    assert [(use["role"], use["model"], use["outcome"]) for use in found["silent"]] == [
        ("planner", OTHER, "over_budget"),
    ]


def plan_with(**changes: Any) -> JsonObject:
    """Return the plan with another step `quotes`."""
    steps = PLAN["steps"]
    assert isinstance(steps, list)
    [quotes, rate, sheet] = steps
    assert isinstance(quotes, dict)
    return {**PLAN, "steps": [{**quotes, **changes}, rate, sheet]}


def renamed() -> JsonObject:
    """Return the plan with its step `quotes` called `prices`."""
    text = (
        json.dumps(PLAN)
        .replace("steps.quotes", "steps.prices")
        .replace('"id": "quotes"', '"id": "prices"')
    )
    plan: JsonObject = json.loads(text)
    return plan


def test_another_planner_is_told_by_what_its_plan_changes(
    wavewright: CommandLine, model_run: Path, model_server: FakeModelServer
) -> None:
    model_server.answer(renamed(), when=asked_of("other", "plan"))

    found = replayed(wavewright, "--planner", OTHER)

    assert found["changes"]["plan"] == [
        "step prices added: calls fetch",
        "step quotes removed",
        "step sheet: params.quotes ${steps.quotes} → ${steps.prices}",
        "edge prices → sheet added",
        "edge quotes → sheet removed",
    ]
    assert found["misses"] == []
    assert [(use["role"], use["model"]) for use in found["asked"]] == [
        ("planner", OTHER),
        ("reviewer", "openai-chat:scripted"),
    ]
    assert take_calls(model_run).total() == 0


def test_a_call_that_was_never_recorded_is_a_miss_with_the_nearest_one(
    wavewright: CommandLine, model_run: Path, model_server: FakeModelServer
) -> None:
    model_server.answer(
        plan_with(params={"code": "${item}", "force": True}), when=asked_of("other", "plan")
    )

    found = replayed(wavewright, "--planner", OTHER, code=1)

    assert [(miss["step"], miss["index"], miss["nearest"]) for miss in found["misses"]] == [
        ("quotes", 0, "quotes[0]"),
        ("quotes", 1, "quotes[1]"),
    ]
    assert found["misses"][0]["differences"] == ["force added: true"]
    assert found["live"] == []
    assert take_calls(model_run).total() == 0


def test_live_reads_what_was_never_recorded_and_still_writes_nothing(
    wavewright: CommandLine, model_run: Path, model_server: FakeModelServer
) -> None:
    model_server.answer(
        plan_with(params={"code": "${item}", "force": True}), when=asked_of("other", "plan")
    )

    found = replayed(wavewright, "--planner", OTHER, "--live", code=1)

    assert take_calls(model_run) == {"fetch GNP True": 1, "fetch SKS True": 1}
    assert [(call["step"], call["index"]) for call in found["live"]] == [
        ("quotes", 0),
        ("quotes", 1),
    ]
    [miss] = found["misses"]
    assert (miss["step"], miss["tool"]) == ("sheet", "write_down")
    assert miss["because"] == "'write_down' writes: it is never called in a replay"


def test_other_prompts_are_what_the_model_is_asked_with(
    wavewright: CommandLine, model_run: Path, model_server: FakeModelServer
) -> None:
    folder = model_run / "other" / "reviewer"
    folder.mkdir(parents=True)
    (folder / "instructions.md.j2").write_text(
        "Be strict, and speak of {{ kinds | length }} kinds."
    )
    asked = len(model_server.requests)

    found = replayed(wavewright, "--prompt-dir", "other")

    questions = model_server.requests[asked:]
    assert [question.schema_name for question in questions] == ["plan", "review"]
    assert "Be strict, and speak of 6 kinds." in questions[1].text
    assert found["before"] == found["after"]


def shown(answer: Answer) -> str:
    """Return what a command printed, without the run's id and what hangs on the length of the
    prompts.
    """
    return COST.sub("<tokens>, <usd>", RUN.sub("<run>", answer.out))


def test_the_text_tells_the_verdict_first_and_then_each_difference(
    wavewright: CommandLine,
    model_run: Path,
    model_server: FakeModelServer,
    snapshot: SnapshotAssertion,
) -> None:
    model_server.answer(
        plan_with(params={"code": "${item}", "force": True}), when=asked_of("other", "plan")
    )
    no = review(goal_achieved=False, summary="There is no sheet.", missing_data=["the sheet"])
    model_server.answer(no, when=asked_of("other", "review"))

    run = only_run(wavewright)
    texts = {
        "as it was": shown(wavewright("replay", run)),
        "another planner": shown(wavewright("replay", run, "--planner", OTHER)),
        "another planner, live": shown(wavewright("replay", run, "--planner", OTHER, "--live")),
        "another reviewer": shown(wavewright("replay", run, "--reviewer", OTHER)),
    }

    assert texts == snapshot


def broken(project: Path, what: str) -> None:
    """Spoil something of the project."""
    match what:
        case "tool gone":
            file = project / "wavewright.yaml"
            file.write_text(file.read_text().replace("      rate: {}\n", ""))
        case "journal damaged":
            journal = project / ".wavewright" / "journal.sqlite"
            journal.write_bytes(b"nothing of the kind" * 100)
        case "no journal":
            for file in (project / ".wavewright").glob("journal*"):
                file.unlink()
        case _:
            pass


@pytest.mark.parametrize(
    ("spoilt", "arguments", "code", "told"),
    [
        pytest.param("", ["nosuch"], 2, "no run starts with 'nosuch'", id="unknown run"),
        pytest.param("no journal", ["2"], 2, "there are no runs yet", id="no journal"),
        pytest.param("journal damaged", ["2"], 3, "journal.sqlite", id="damaged journal"),
        pytest.param(
            "tool gone",
            ["2"],
            2,
            "the run called the tool 'rate', which neither this project nor a pack brings any more",
            id="tool gone",
        ),
        pytest.param(
            "",
            ["2", "--planner", "wise"],
            2,
            "--planner: 'wise' is no model name: the provider is missing",
            id="no model name",
        ),
        pytest.param(
            "",
            ["2", "--planner", "auto"],
            2,
            "no model is configured\n  = help: name one as",
            id="no model",
        ),
        pytest.param(
            "",
            ["2", "--planner", "anthropic:claude-sonnet-4-5"],
            2,
            "there is no key for anthropic:claude-sonnet-4-5",
            id="no key",
        ),
        pytest.param(
            "", ["2", "--prompt-dir", "no"], 2, "--prompt-dir 'no' is no folder", id="no folder"
        ),
        pytest.param(
            "",
            ["2", "--prompt-dir", "out"],
            2,
            "--prompt-dir 'out' holds none of the prompts",
            id="no prompts",
        ),
    ],
)
def test_what_cannot_be_replayed_is_refused_with_the_mend(
    wavewright: CommandLine,
    quotes_run: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoilt: str,
    arguments: list[str],
    code: int,
    told: str,
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    broken(quotes_run, spoilt)

    answer = wavewright("replay", *arguments)

    assert answer.code == code
    assert told in answer.err
    assert "help:" in answer.err
    assert answer.out == ""


def test_other_prompts_for_a_run_that_asked_no_model_are_refused(
    wavewright: CommandLine,
    quotes_run: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in model_server.environment("chat").items():
        monkeypatch.setenv(name, value)
    (quotes_run / "other" / "planner").mkdir(parents=True)
    (quotes_run / "other" / "planner" / "repair.md.j2").write_text("Again.")

    answer = wavewright("replay", only_run(wavewright), "--prompt-dir", "other")

    assert answer.code == 2
    assert "so no prompt can make a difference" in answer.err


def test_a_run_that_has_no_verdict_is_refused(
    wavewright: CommandLine,
    tmp_path: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_quotes_project(tmp_path, template=TEMPLATE, job=UNPLANNED)
    for name, value in model_server.environment("chat").items():
        monkeypatch.setenv(name, value)
    model_server.answer(
        {"ask": {"question": "Which codes?", "options": []}}, when=asked_of("scripted", "plan")
    )
    wavewright("run", "quotes.job.yaml", "--output", "out")

    answer = wavewright("replay", only_run(wavewright))

    assert answer.code == 2
    assert "ended before a plan was accepted" in answer.err


def test_a_planner_that_makes_no_sound_plan_is_what_the_replay_came_to(
    wavewright: CommandLine, model_run: Path, model_server: FakeModelServer
) -> None:
    model_server.answer(plan_with(tool="fetsch"), when=asked_of("other", "plan"))

    found = replayed(wavewright, "--planner", OTHER, code=1)

    assert found["after"]["verdict"] != "achieved"
    assert {use["role"] for use in found["asked"]} >= {"planner"}


def test_a_tool_that_has_changed_since_is_told(wavewright: CommandLine, quotes_run: Path) -> None:
    file = quotes_run / "desk.py"
    file.write_text(
        file.read_text().replace("force: bool = False", "force: bool = False, slow: bool = False")
    )

    found = replayed(wavewright)

    assert found["warnings"] == [
        "tool 'fetch' has changed since the run; its recorded outputs are used"
    ]
    assert found["is_same_verdict"]
