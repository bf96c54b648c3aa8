"""What keeps a command from asking a model: a message with its mend, an exit code, and never a key."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.engine.conftest import CommandLine
from tests.engine.normalized_output import worded
from tests.engine.unplanned_project import PLAN, REVIEW, write_job
from wavewright.engine.interfaces.cli.common.output import report_failures
from wavewright.engine.rehearsal.fake_model.server import API_KEY, FakeModelServer, asked_for
from wavewright.planner.ports.budgets import BudgetExceeded
from wavewright.planner.ports.model_port import ModelError, ModelErrorKind


@pytest.fixture
def planning(
    project: Path, model_server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> FakeModelServer:
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    write_job(project)
    model_server.answer(PLAN, when=asked_for("plan"))
    model_server.answer(REVIEW, when=asked_for("review"))
    return model_server


def code_after(error: Exception) -> int:
    """Return the exit code of a command that ends with an error."""

    def command() -> None:
        raise error

    with report_failures() as outcome:
        command()
    return outcome.code


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        pytest.param("model: gpt-5\n", "the provider is missing", id="no provider"),
        pytest.param("model: openai:gpt-5\n", "there is no key", id="no key"),
        pytest.param(
            "model: ollama:a\nmodels: {roles: {planner: prow}}\n", "prow", id="unknown preference"
        ),
        pytest.param(
            "model: ollama:a\nladders: {planner: [{name: lmm}]}\n", "lmm", id="unknown rung"
        ),
    ],
)
def test_faulty_settings_are_misuse_before_anything_is_journaled(
    wavewright: CommandLine,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    settings: str,
    words: str,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    write_job(project)
    with (project / "wavewright.yaml").open("a") as file:
        file.write(settings)

    answer = wavewright(command, "plans/ranking.job.yaml")

    assert answer.code == 2
    assert words in answer.err
    assert "= help: " in answer.err
    assert "Traceback" not in answer.err
    assert json.loads(wavewright("runs", "--format", "json").out) == []


@pytest.mark.parametrize(
    ("calibration", "words"),
    [
        pytest.param(None, "there is no file", id="absent"),
        pytest.param("gates: 7\n", "'gates' should be a list", id="faulty"),
    ],
)
def test_a_calibration_that_cannot_be_read_is_told_before_a_plan_is_paid_for(
    wavewright: CommandLine,
    planning: FakeModelServer,
    project: Path,
    calibration: str | None,
    words: str,
) -> None:
    with (project / "wavewright.yaml").open("a") as file:
        file.write("models: {calibration: judges.yaml}\n")
    if calibration is not None:
        (project / "judges.yaml").write_text(calibration)

    answer = wavewright("run", "plans/ranking.job.yaml")

    assert answer.code == 1
    assert words in answer.err
    assert "judges.yaml" in answer.err
    assert not planning.requests
    assert json.loads(wavewright("runs", "--format", "json").out) == []


def test_a_faulty_worker_file_is_misuse_with_its_line(
    wavewright: CommandLine, planning: FakeModelServer, project: Path, snapshot: SnapshotAssertion
) -> None:
    (project / "config" / "workers").mkdir()
    (project / "config" / "workers" / "sort.yaml").write_text(
        "name: sort\ndescription: Sort.\npromt: x\n"
    )

    answer = wavewright("run", "plans/ranking.job.yaml")

    assert answer.code == 2
    assert planning.requests == ()
    assert worded(answer, project) == snapshot


def test_a_question_that_a_cassette_lacks_is_misuse_with_the_nearest_one(
    wavewright: CommandLine,
    planning: FakeModelServer,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WAVEWRIGHT_CASSETTE", "answers.json")
    monkeypatch.setenv("WAVEWRIGHT_CASSETTE_MODE", "record")
    assert wavewright("plan", "plans/ranking.job.yaml").code == 0
    monkeypatch.delenv("WAVEWRIGHT_CASSETTE_MODE")
    replayed = wavewright("plan", "plans/ranking.job.yaml")
    job = project / "plans" / "ranking.job.yaml"
    job.write_text(job.read_text().replace("top: 5", "top: 7"))

    missed = wavewright("plan", "plans/ranking.job.yaml")

    assert replayed.code == 0
    assert missed.code == 2
    assert re.search(r'^\+.*top.*: 7"', missed.err, re.MULTILINE)
    assert "WAVEWRIGHT_CASSETTE_MODE=record" in missed.err
    assert "Traceback" not in missed.err
    assert API_KEY not in missed.err + (project / "answers.json").read_text()
    assert len(planning.requests) == 1


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_question_that_a_cassette_lacks_is_one_message_and_no_call(
    wavewright: CommandLine,
    planning: FakeModelServer,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    monkeypatch.setenv("WAVEWRIGHT_CASSETTE", "answers.json")
    monkeypatch.setenv("WAVEWRIGHT_CASSETTE_MODE", "record")
    assert wavewright("plan", "plans/ranking.job.yaml").code == 0
    monkeypatch.delenv("WAVEWRIGHT_CASSETTE_MODE")
    job = project / "plans" / "ranking.job.yaml"
    job.write_text(job.read_text().replace("top: 5", "top: 7"))

    missed = wavewright(command, "plans/ranking.job.yaml")

    said = [line for line in missed.err.splitlines() if not line.startswith("run ")]
    assert missed.code == 2
    assert said[0].startswith("error: the cassette ")
    assert "gave no answer" not in missed.err
    assert len(planning.requests) == 1


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("denied", 2),
        ("over_budget", 1),
        ("unreachable", 3),
        ("overloaded", 3),
        ("timeout", 3),
        ("refused", 3),
    ],
)
def test_an_error_of_a_model_ends_with_the_documented_code(
    capsys: pytest.CaptureFixture[str], kind: ModelErrorKind, code: int
) -> None:
    ended = code_after(ModelError(kind, "no answer from openai:gpt-5", hint="ask somebody else"))

    assert ended == code
    assert (
        capsys.readouterr().err
        == "error: no answer from openai:gpt-5\n  = help: ask somebody else\n"
    )


def test_a_budget_that_is_used_up_is_a_no(capsys: pytest.CaptureFixture[str]) -> None:
    error = BudgetExceeded(
        "the day's budget has nothing left", scope="day", hint="wait for midnight UTC"
    )

    assert code_after(error) == 1
    assert "= help: wait for midnight UTC" in capsys.readouterr().err


def test_a_fault_of_our_own_shows_no_key(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAVEWRIGHT_API_KEY", API_KEY)

    assert code_after(RuntimeError(f"cannot send {API_KEY}")) == 70
    assert API_KEY not in capsys.readouterr().err
