"""A run that was recorded once happens again, offline and to the letter."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from tests.engine.equities_project import served_prices
from tests.engine.model_runs.test_equities_with_model import (
    PRICE_KEY,
    SETTINGS,
    ask_for_help,
    job_without_recipes,
)
from tests.engine.rehearsal.recordings.conftest import JobRecorder, ProjectMaker, events_of
from tests.engine.rehearsal.recordings.normalized_journal import normalized_journal
from tests.engine.stale_quotes_project import JOB, take_calls, write_quotes_project
from tests.packs.equities.price_service import Answer as Served, serving
from wavewright.config.redaction import Redactor
from wavewright.engine.rehearsal.fake_model.server import API_KEY, FakeModelServer
from wavewright.engine.rehearsal.recordings.job_recording import (
    RecordingError,
    recording_of_run,
    write_recording,
)
from wavewright.planner.types import StepId


def test_the_journal_of_a_replay_is_that_of_the_recorded_run_byte_for_byte(
    quotes_project: ProjectMaker,
) -> None:
    recorder = quotes_project()
    recorded, _ = recorder.record()
    made = take_calls(recorder.folder)

    replayed = recorder.replay()

    assert made.total() == 6
    assert recorded.package.status == "achieved"
    assert len(recorded.package.patches) == 1
    assert normalized_journal(replayed.events) == normalized_journal(recorded.events)
    assert replayed.misses == ()


def test_a_replay_calls_no_tool_and_writes_nothing(quotes_project: ProjectMaker) -> None:
    recorder = quotes_project()
    recorder.record()
    take_calls(recorder.folder)
    before = sorted(recorder.folder.rglob("*"))

    recorder.replay()

    assert take_calls(recorder.folder).total() == 0
    assert sorted(recorder.folder.rglob("*")) == before


LEAK = "sk-proj-0123456789abcdefghijklmnopqrstuv"
FLAKY = '''
from pathlib import Path

LEAK = "sk-proj-0123456789abcdefghijklmnopqrstuv"


def _times(name: str) -> int:
    file = Path(__file__).with_name(f"{name}.txt")
    file.write_text(f"{file.read_text() if file.exists() else ''}x")
    return len(file.read_text())


def shaky(name: str) -> dict[str, str]:
    """Answer at the second attempt, with a key in the answer."""
    if _times(name) < 2:
        raise OSError("the line is down")
    return {"name": name, "key": LEAK}


def broken(name: str) -> str:
    """Never answer."""
    raise ValueError(f"no {name} today, with {LEAK}")


def down() -> str:
    """Never answer, for a reason that may pass."""
    raise OSError("the line is down")


def wrong(name: str) -> int:
    """Answer something else than is promised."""
    return name


def echo(text: str) -> str:
    """Say it again."""
    _times("echo")
    return text
'''
FLAKY_SETTINGS = """\
tools:
  - path: flaky.py
    functions: {shaky: {}, broken: {}, down: {}, wrong: {}, echo: {cache_for: 1h, deterministic: true}}
"""
FLAKY_PLAN = """\
goal: See what fails
steps:
  - id: names
    tool: shaky
    for_each: [a, b]
    params: {name: "${item}"}
    retry: {attempts: 3, on: [transient], wait_initial: 10ms}
  - {id: lost, tool: broken, optional: true, params: {name: "${steps.names[0].name}"}}
  - id: away
    tool: down
    optional: true
    retry: {attempts: 3, on: [transient], wait_initial: 10ms, wait_jitter: 0}
  - {id: odd, tool: wrong, optional: true, params: {name: b}}
  - {id: said, tool: echo, params: {text: "${steps.names[1].name} ${steps.names[0].key}"}}
  - {id: again, tool: echo, params: {text: "${steps.names[1].name} ${steps.names[0].key}"}, depends_on: [said]}
result: ${steps.again}
"""


def flaky(folder: Path) -> JobRecorder:
    for name, text in {
        "flaky.py": FLAKY,
        "wavewright.yaml": FLAKY_SETTINGS,
        "flaky.plan.yaml": FLAKY_PLAN,
    }.items():
        (folder / name).write_text(text)
    return JobRecorder(folder, "flaky.plan.yaml")


def test_failures_happen_again_with_their_kind_and_without_another_attempt(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    recorder = flaky(tmp_path)
    recorded, _ = recorder.record()

    replayed = recorder.replay()

    errors = {
        step: ended.error for step, ended in replayed.context.state.steps.items() if ended.error
    }
    assert {step: error.kind for step, error in errors.items()} == {
        "lost": "tool",
        "away": "transient",
        "odd": "output",
    }
    assert recorded.context.state.steps[StepId("away")].attempts == 3
    assert replayed.context.state.steps[StepId("away")].attempts == 1
    assert replayed.context.state.status(StepId("again")) == "reused"
    assert replayed.misses == ()
    assert normalized_journal(replayed.events).count("[redacted]") > 0
    assert normalized_journal(replayed.events) == normalized_journal(recorded.events).replace(
        LEAK, "[redacted]"
    )


def test_what_another_run_gave_to_the_recorded_one_is_given_again(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    recorder = flaky(tmp_path)
    (tmp_path / "flaky.py").write_text(FLAKY.replace(LEAK, "no secret"))
    # The instant is pinned: outputs of other runs are found by the stretch of time that they belong
    # to.
    for _ in range(2):
        wavewright("run", "flaky.plan.yaml", "--as-of", "2010-03-01")
    [row, _] = json.loads(wavewright("runs", "--format", "json").out)
    recorded = events_of(tmp_path, row["run"])
    write_recording(recorder.file, recording_of_run(recorded, redactor=Redactor()))

    replayed = recorder.replay(as_of=dt.datetime(2010, 3, 1, tzinfo=dt.UTC))

    assert "made the same call" in normalized_journal(recorded)
    assert normalized_journal(replayed.events) == normalized_journal(recorded)


def test_models_answer_again_without_the_model_the_key_and_the_network(
    wavewright: CommandLine,
    tmp_path: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "wavewright.yaml").write_text(SETTINGS)
    ask_for_help(monkeypatch, model_server, "chat")
    recorder = JobRecorder(tmp_path, "few.job.json")
    with serving(Served(served_prices("2009-10")), Served(served_prices("2010-03"))) as prices:
        (tmp_path / "few.job.json").write_text(json.dumps(job_without_recipes(prices.url)))
        recorded, recording = recorder.record()
        asked = len(model_server.requests), len(prices.asked)
        for name in model_server.environment("chat"):
            monkeypatch.delenv(name)

        replayed = recorder.replay()

        assert (len(model_server.requests), len(prices.asked)) == asked
    assert recorded.package.status == "achieved"
    assert [call.tool for call in recording.calls] == ["fetch_stock_data"] * 2 + ["analyze_summary"]
    assert recorded.package.model_uses.total.calls == asked[0] == 5
    assert normalized_journal(replayed.events) == normalized_journal(recorded.events)
    written = recorder.file.read_text()
    assert API_KEY not in written
    assert PRICE_KEY not in written


def test_a_question_to_a_model_that_was_not_recorded_is_told_with_the_difference(
    wavewright: CommandLine,
    tmp_path: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "wavewright.yaml").write_text(SETTINGS)
    ask_for_help(monkeypatch, model_server, "chat")
    recorder = JobRecorder(tmp_path, "few.job.json")
    with serving(Served(served_prices("2009-10")), Served(served_prices("2010-03"))) as prices:
        (tmp_path / "few.job.json").write_text(json.dumps(job_without_recipes(prices.url)))
        recorder.record()
    (tmp_path / "wavewright.yaml").write_text(
        SETTINGS.replace("{prices", "{max_output_tokens: 999, prices")
    )

    with pytest.raises(RecordingError) as caught:
        recorder.replay()

    assert f"the recording {recorder.file} has no answer to this request" in caught.value.message
    assert '+  "max_tokens": 999' in caught.value.message
    assert "record the run anew" in str(caught.value.hint)


def test_a_call_that_was_never_recorded_is_told_with_the_nearest_one(
    quotes_project: ProjectMaker,
) -> None:
    recorder = quotes_project()
    recorder.record()
    write_quotes_project(recorder.folder, job=JOB.replace("SKS", "SKY"))

    replayed = recorder.replay()

    assert replayed.package.status != "achieved"
    assert str(replayed.misses[0]) == (
        'quotes[1] calls \'fetch\' with {"code": "SKY"}, which was never recorded\n'
        '  nearest: the call of quotes[1]; code "SKS" → "SKY"'
    )
