"""Plans that models make, held against what is left: in money, after a stop, and where there is
none in the end.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from tests.engine.unplanned_project import REVIEW
from tests.support.note_worker import NOTE_WORKER
from tests.support.prepared_command import PipedCommand
from wavewright.engine.rehearsal.fake_model.replies import ClaimedUsage, silence, with_usage
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.planner.types import JsonObject

WORDS = 20
WORKER = NOTE_WORKER + "token_share: 0.02\nexpected_tokens: 1000\n"
TEMPLATE = """\
name: notes
goal: Write a line about every word
available_tools: [{name: note}]
inputs_schema: {type: object, properties: {words: {type: array, items: {type: string}}}}
limits: {rounds: 0}
"""
PLAN: JsonObject = {
    "steps": [
        {
            "why": "each word gets a line",
            "id": "notes",
            "tool": "note",
            "for_each": "${inputs.words}",
            "params": {"word": "${item}"},
        }
    ],
    "result": "${steps.notes}",
}
LINE = with_usage({"line": "a line"}, ClaimedUsage(500, 500))


@pytest.fixture
def notes(tmp_path: Path, model_server: FakeModelServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose job has a worker write a line about each of 20 words, at 1,000 tokens each."""
    words = json.dumps([f"word{number}" for number in range(WORDS)])
    job = f"name: notes\ngoal_template: notes.template.yaml\ninputs: {{words: {words}}}\n"
    files = {
        "prompts/workers/note.md.j2": "Write a line.\n{{ inputs.word }}\n",
        "config/workers/note.yaml": WORKER,
        "notes.template.yaml": TEMPLATE,
        "unplanned.job.yaml": job,
        "notes.job.yaml": f"{job}plan: {json.dumps(PLAN)}\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    return tmp_path


def test_a_plan_that_costs_more_money_than_is_left_is_not_begun(
    wavewright: CommandLine, notes: Path, model_server: FakeModelServer
) -> None:
    # Three quarters of the tokens at 2, one at 6 dollars a million: 20,000 tokens are 6 cents.
    (notes / "wavewright.yaml").write_text(
        "models: {prices: {scripted: {input: 2, output: 6}}}\nbudgets: {day: {usd: 0.05}}\n"
    )

    ran = wavewright("run", "notes.job.yaml")

    assert ran.code == 1
    assert (
        "error[E703]: the plan is expected to take $0.0600, and the day has $0.0500 left" in ran.err
    )
    assert model_server.requests == ()


def test_a_resumed_run_is_not_held_to_the_items_that_it_has_paid_for(
    wavewright: CommandLine, notes: Path, model_server: FakeModelServer
) -> None:
    (notes / "wavewright.yaml").write_text("budgets: {run: {tokens: 24000}, recovery_share: 0}\n")
    model_server.answer(*[LINE] * 10, silence(), when=asked_for("note"))
    with PipedCommand("run", "notes.job.yaml", "--concurrency", "1", folder=notes) as running:
        model_server.wait_for_requests(11)
        running.send_signal(signal.SIGINT)
        running.communicate()
    [run] = json.loads(wavewright("runs", "--format", "json").out)
    model_server.reset()
    model_server.answer(LINE, when=asked_for("note"))
    model_server.answer(REVIEW, when=asked_for("review"))

    resumed = wavewright("resume", run["run"], "--concurrency", "1")

    assert "E701" not in resumed.err
    assert resumed.code == 0, resumed.err
    assert [asked.schema_name for asked in model_server.requests].count("note") == WORDS - 10


def test_a_plan_that_is_only_made_is_held_to_the_budget_of_a_run(
    wavewright: CommandLine, notes: Path, model_server: FakeModelServer
) -> None:
    (notes / "wavewright.yaml").write_text("budgets: {run: {calls: 10}}\n")
    model_server.answer(PLAN, {"cannot_plan": "too many words"}, when=asked_for("plan"))

    made = wavewright("plan", "unplanned.job.yaml")

    assert made.code == 1
    assert "1 fault: E701" in made.err


def test_a_run_without_a_plan_points_into_the_model_s_own_last_answer(
    wavewright: CommandLine, notes: Path, model_server: FakeModelServer
) -> None:
    # The least plan is over the budget, and that is no fault of the answer's text.
    rules = "rules: {required_tools: [note], primary_params: {note: word}}\ntargets: {variables: words}\n"
    (notes / "notes.template.yaml").write_text(TEMPLATE + rules)
    (notes / "wavewright.yaml").write_text("budgets: {run: {calls: 10}}\n")
    model_server.answer(
        {"steps": [{"id": "a", "tool": "nota", "params": {}}]}, when=asked_for("plan")
    )

    ran = wavewright("run", "unplanned.job.yaml")

    assert ran.code == 1
    assert "rung minimal gave nothing: 1 fault: E701" in ran.err
    assert "error[E201]: step 'a' calls 'nota', and there is no such tool" in ran.err
    assert "error[E701]" not in ran.err


def test_a_ladder_that_cannot_make_a_plan_is_named(
    wavewright: CommandLine, notes: Path, model_server: FakeModelServer
) -> None:
    (notes / "wavewright.yaml").write_text("ladders: {planner: [{name: template}]}\n")

    ran = wavewright("run", "unplanned.job.yaml")

    assert ran.code == 1
    assert "no rung of `ladders.planner` (template) can make one for this job; add 'llm'" in ran.err
    assert model_server.requests == ()
