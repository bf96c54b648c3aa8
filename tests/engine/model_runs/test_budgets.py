"""Budgets over a real wire: never overshot by more than the calls under way, whatever is killed
when.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import anyio
import pytest

from tests.engine.conftest import CommandLine
from tests.engine.model_runs.model_run_project import (
    ITS_PLAN,
    PLAN,
    TEMPLATE,
    ModelRunProject,
    review,
)
from tests.engine.stale_quotes_project import take_calls
from tests.support.note_worker import NOTE_WORKER
from tests.support.prepared_command import PipedCommand, run_prepared_python
from tests.support.served_models import RUN, models_over, question
from wavewright.config.sections import BudgetsSection
from wavewright.engine.rehearsal.fake_model.replies import (
    ClaimedUsage,
    Reply,
    delayed,
    silence,
    with_usage,
)
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.executor.sqlite.journal import SqliteBudgetStore
from wavewright.planner.ports.budgets import BudgetScope
from wavewright.planner.ports.model_port import ModelError
from wavewright.planner.types import JsonObject
from wavewright.reviewer.package.builder import read_package

MANY = 60


@pytest.mark.anyio
@pytest.mark.parametrize("claimed", [60, 400], ids=["as-reserved", "more-than-reserved"])
async def test_calls_at_once_overshoot_a_budget_by_no_more_than_those_under_way(
    claimed: int, model_server: FakeModelServer, tmp_path: Path
) -> None:
    budget = 4_000
    model_server.answer(with_usage(delayed("an answer", 0.02), ClaimedUsage(10, claimed)))
    budgets = BudgetsSection.model_validate({"run": {"tokens": budget}, "recovery_share": 0.0})
    ends: list[str] = []

    async with models_over(
        model_server,
        tmp_path,
        budgets=budgets,
        max_output_tokens=100,
        providers={"openai-chat": {"concurrency": 8}},
    ) as asking:

        async def ask() -> None:
            try:
                await asking.models.ask(question())
                ends.append("answered")
            except ModelError as error:
                ends.append(error.kind)

        async with anyio.create_task_group() as group:
            for _ in range(MANY):
                group.start_soon(ask)
        spent = await asking.spent()

    under_way = model_server.max_in_flight
    assert 1 < under_way <= 8
    assert ends.count("over_budget") > 0
    assert ends.count("answered") == len(model_server.requests) < MANY
    assert spent.tokens == len(model_server.requests) * (10 + claimed)
    assert spent.tokens <= budget + under_way * max(0, 10 + claimed - 100)


@pytest.mark.anyio
@pytest.mark.parametrize("scope", ["run", "job", "day"])
async def test_a_budget_of_calls_is_never_overshot(
    scope: str, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(Reply("an answer", delay=0.02))
    budgets = BudgetsSection.model_validate({scope: {"calls": 7}, "recovery_share": 0.0})
    refused: list[ModelError] = []

    async with models_over(model_server, tmp_path, budgets=budgets) as asking:

        async def ask() -> None:
            try:
                await asking.models.ask(question(job="daily"))
            except ModelError as error:
                refused.append(error)

        async with anyio.create_task_group() as group:
            for _ in range(MANY):
                group.start_soon(ask)

    assert len(model_server.requests) == 7
    assert len(refused) == MANY - 7
    assert {error.kind for error in refused} == {"over_budget"}
    assert all(scope in str(error) and error.hint for error in refused)


@pytest.mark.anyio
async def test_money_is_counted_before_a_call_is_made(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(with_usage("an answer", ClaimedUsage(1_000, 500)))
    budgets = BudgetsSection.model_validate({"run": {"usd": 0.01}, "recovery_share": 0.0})

    async with models_over(
        model_server, tmp_path, budgets=budgets, max_output_tokens=1_000
    ) as asking:

        async def ask_on_and_on() -> None:
            for _ in range(50):
                await asking.models.ask(question())

        with pytest.raises(ModelError) as caught:
            await ask_on_and_on()
        spent = await asking.spent()

    assert caught.value.kind == "over_budget"
    assert spent.usd == pytest.approx(len(model_server.requests) * 0.002)
    assert 0.006 <= spent.usd <= 0.01


@pytest.mark.anyio
async def test_a_model_of_unknown_price_is_not_asked_under_a_budget_of_money(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    budgets = BudgetsSection.model_validate({"run": {"usd": 1.0}})
    async with models_over(model_server, tmp_path, budgets=budgets, prices={}) as asking:
        with pytest.raises(ModelError) as caught:
            await asking.models.ask(question())

    assert caught.value.kind == "over_budget"
    assert "prices" in (caught.value.hint or "")
    assert model_server.requests == ()


WORKER = NOTE_WORKER + "token_share: 0.02\n"
NOTES_TEMPLATE = """\
name: notes
goal: Write a line about every word
available_tools: [{name: note}]
inputs_schema: {type: object, properties: {codes: {type: array, items: {type: string}}}}
limits: {rounds: 0}
plan:
  steps:
    - {id: notes, tool: note, for_each: "${inputs.codes}", params: {word: "${item}"}}
  result: ${steps.notes}
"""


def write_notes(folder: Path, *, settings: str, worker: str = WORKER) -> None:
    """Write a project whose job has a worker write a line about each of 40 words."""
    files = {
        "prompts/workers/note.md.j2": "Write a line.\n{{ inputs.word }}\n",
        "config/workers/note.yaml": worker,
        "notes.template.yaml": NOTES_TEMPLATE,
        "wavewright.yaml": settings,
        "notes.job.yaml": "name: notes\ngoal_template: notes.template.yaml\n"
        f"inputs: {{codes: {json.dumps([f'word{number}' for number in range(40)])}}}\n"
        f"{NOTES_TEMPLATE[NOTES_TEMPLATE.index('plan:') :]}",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_parallel_workers_of_a_run_stop_at_its_budget_and_leave_the_review_its_share(
    wavewright: CommandLine,
    tmp_path: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    settings = (
        "models: {max_output_tokens: 1000}\nbudgets: {run: {tokens: 30000}, recovery_share: 0.6}\n"
    )
    write_notes(tmp_path, settings=settings, worker=f"{WORKER}expected_tokens: 10\n")
    model_server.answer(
        with_usage({"line": "a line"}, ClaimedUsage(500, 500)), when=asked_for("note")
    )
    model_server.answer(review(), when=asked_for("review"))

    ran = wavewright("run", "notes.job.yaml", "--output", "out")
    [file] = (tmp_path / "out").glob("*/package.json")
    package = read_package(file.read_bytes())
    asked = [request.schema_name for request in model_server.requests]

    assert ran.code == 1
    assert 5 <= asked.count("note") <= 12
    assert asked.count("review") == 1, ran.err
    assert package.worker_tokens == 1_000 * asked.count("note") <= 12_000
    assert "budget" in ran.err


def test_workers_that_are_expected_to_go_over_the_budget_are_not_begun(
    wavewright: CommandLine,
    tmp_path: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    write_notes(tmp_path, settings="budgets: {run: {calls: 12}, recovery_share: 0.25}\n")

    ran = wavewright("run", "notes.job.yaml")

    assert ran.code == 1
    assert "E701" in ran.err
    assert model_server.requests == ()


DIES_BEFORE_SETTLING = """
import asyncio, os, signal, sys
from pathlib import Path
from wavewright.config.settings import load_settings
from wavewright.executor.sqlite.journal import SqliteBudgetStore
from wavewright.planner.ports.model_port import ModelCall
from wavewright.tools.models import open_models

class Purse(SqliteBudgetStore):
    async def settle(self, reservation, spent, use):
        print("answered", use.outcome, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    settings = load_settings(Path(sys.argv[1]))
    async with Purse(settings.journal, settings.budgets) as purse, open_models(settings, purse) as models:
        await models.ask(ModelCall("planner", "planner", "Be short.", "Why?", run="run_wire", job="daily"))

asyncio.run(main())
"""


@pytest.mark.anyio
async def test_a_kill_between_answer_and_settlement_leaves_the_reservation_charged(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    (tmp_path / "wavewright.yaml").write_text(
        "models: {max_output_tokens: 700}\nbudgets: {day: {tokens: 1000}, job: {calls: 3}}\njournal: j.sqlite\n"
    )
    model_server.answer("because")

    environment = os.environ | model_server.environment()
    died = run_prepared_python("-c", DIES_BEFORE_SETTLING, str(tmp_path), environment=environment)
    budgets = BudgetsSection.model_validate({"day": {"tokens": 1000}, "job": {"calls": 3}})
    async with SqliteBudgetStore(tmp_path / "j.sqlite", budgets) as budget_store:
        left = await budget_store.left(BudgetScope(run=RUN, job="daily", role="planner"))

    assert died.returncode == -signal.SIGKILL, died.stderr
    assert died.stdout.split() == ["answered", "answered"]
    assert len(model_server.requests) == 1
    assert 700 < left.run.spent.tokens < 800
    assert left.day.tokens == 1000 - left.run.spent.tokens
    assert left.job.calls == 2


def test_a_run_killed_while_it_waits_has_spent_what_it_may_have(
    wavewright: CommandLine,
    tmp_path: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    model_project = ModelRunProject(tmp_path, wavewright)
    model_project.write(
        template=f"{TEMPLATE}fallback_{ITS_PLAN}", settings="budgets: {day: {calls: 1}}\n"
    )
    model_server.answer(silence(), when=asked_for("plan"))
    with PipedCommand("run", "quotes.job.yaml", folder=tmp_path):
        model_server.wait_for_requests(1)

    model_server.reset()
    model_server.answer(PLAN)
    ran, package = model_project.run()

    assert ran.code == 0, ran.err
    assert model_server.requests == ()
    assert package is not None
    assert package.rung == "template"
    assert "budget" in ran.err
    assert take_calls(tmp_path)["write_down"] == 1


def test_a_day_that_is_used_up_says_when_it_ends(
    wavewright: CommandLine,
    tmp_path: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    model_project = ModelRunProject(tmp_path, wavewright)
    model_project.write(settings="budgets: {day: {calls: 2}}\n")
    model_server.answer(PLAN, when=asked_for("plan"))
    model_server.answer(review(), when=asked_for("review"))
    first, _ = model_project.run()

    planned = model_project.wavewright("plan", "quotes.job.yaml")
    told: JsonObject = {"out": planned.out, "err": planned.err}

    assert first.code == 0, first.err
    assert len(model_server.requests) == 2
    assert planned.code == 1
    assert "midnight UTC" in json.dumps(told) or "the day's budget" in json.dumps(told)
