"""The fixture `recorded_run`: a whole run in a test, for real once and from its recording ever
after.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.interfaces.testing.project_suite import Suite
from tests.engine.model_runs.model_run_project import PLAN, TEMPLATE, UNPLANNED, review
from tests.engine.rehearsal.recordings.normalized_journal import normalized_journal
from tests.engine.stale_quotes_project import take_calls, write_quotes_project
from wavewright.engine.interfaces.testing.plan_runner import RecordedRuns
from wavewright.engine.interfaces.testing.project import ProjectUnderTest
from wavewright.engine.rehearsal.fake_model.server import API_KEY, FakeModelServer, asked_for

TEST = """
def test_sheet(recorded_run):
    run = recorded_run("quotes.job.yaml")

    assert run.verdict == "achieved"
    assert run.output("sheet") == "2 quotes at 1.25"
    assert [call.params["code"] for call in run.calls("fetch")] == ["GNP", "SKS"]
    assert run.context.state.uses[0].model == "openai-chat:scripted"
"""


@pytest.fixture
def quotes_suite(tmp_path: Path) -> Suite:
    """The desk project, whose job is planned and reviewed by a model, with a test of it."""
    folder = tmp_path / "suite"
    folder.mkdir()
    write_quotes_project(folder, template=TEMPLATE, job=UNPLANNED)
    suite = Suite(folder)
    suite.write("tests/test_desk.py", TEST)
    return suite


@pytest.fixture
def model(
    quotes_suite: Suite, model_server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> FakeModelServer:
    """Make the server the project's model; its key is in a variable that a suite is left with."""
    model_server.answer(PLAN, when=asked_for("plan"))
    model_server.answer(review(), when=asked_for("review"))
    with (quotes_suite.folder / "wavewright.yaml").open("a") as file:
        file.write(
            f"model: openai-chat:scripted\nmodels: {{base_url: '{model_server.openai_url}'}}\n"
        )
    monkeypatch.setenv("OPENAI_API_KEY", API_KEY)
    return model_server


def runs_of(suite: Suite, *, is_recording: bool = False) -> RecordedRuns:
    """Return what the fixture gives a test of the suite."""
    tests = suite.folder / "tests"
    return RecordedRuns(
        ProjectUnderTest(suite.folder, tests),
        tests / "recordings",
        "sheet",
        is_recording=is_recording,
    )


def failure_of(runs: RecordedRuns) -> str:
    """Return the message of a test that runs the job and fails."""
    with pytest.raises(pytest.fail.Exception) as caught:
        runs("quotes.job.yaml")
    return str(caught.value)


def test_a_run_is_recorded_once_and_replayed_ever_after_and_tests_of_one_name_have_a_recording_each(
    quotes_suite: Suite, model: FakeModelServer
) -> None:
    body = "    def test_sheet(self, recorded_run):\n        recorded_run('quotes.job.yaml')\n"
    quotes_suite.write("tests/test_classes.py", f"class TestOne:\n{body}\nclass TestTwo:\n{body}")
    recorded = quotes_suite.run("--wavewright-record")
    made, asked = take_calls(quotes_suite.folder), len(model.requests)

    replayed = quotes_suite.run()

    assert recorded.last_line.startswith("3 passed"), recorded.out
    assert (made.total(), asked) == (3 * 4, 3 * 2)
    assert replayed.last_line.startswith("3 passed"), replayed.out
    assert take_calls(quotes_suite.folder).total() == 0
    assert len(model.requests) == asked
    recordings = quotes_suite.folder / "tests" / "recordings"
    kept = sorted((quotes_suite.folder / "tests").rglob("*.json"))
    assert [str(file.relative_to(recordings)) for file in kept] == [
        "test_classes/TestOne.test_sheet.json",
        "test_classes/TestTwo.test_sheet.json",
        "test_desk/test_sheet.json",
    ]
    assert [len(json.loads(file.read_text())["answers"]["entries"]) for file in kept] == [2] * 3


def test_whoever_records_looks_at_the_replay_so_what_is_pinned_then_holds_ever_after(
    tmp_path: Path,
) -> None:
    suite = Suite(tmp_path / "suite")
    suite.write("wavewright.yaml", "tools: [{path: flaky.py, functions: {shaky: {}}}]\n")
    suite.write(
        "flaky.py",
        """
        calls = list[str]()

        def shaky(name: str) -> str:
            calls.append(name)
            if len(calls) < 2:
                raise OSError("the line is down")
            return name
        """,
    )
    suite.write(
        "shaky.plan.yaml",
        """
        goal: Ask twice
        steps:
          - {id: said, tool: shaky, params: {name: a}, retry: {attempts: 3, on: [transient], wait_initial: 10ms}}
        result: ${steps.said}
        """,
    )
    suite.write(
        "tests/test_shaky.py",
        """
        def test_pins(recorded_run, events_snapshot, package_snapshot):
            run = recorded_run("shaky.plan.yaml")
            assert run == events_snapshot
            assert run == package_snapshot
        """,
    )
    recorded = suite.run("--wavewright-record", "--snapshot-update")

    replayed = suite.run()

    assert recorded.last_line.startswith("1 passed"), recorded.out
    assert replayed.last_line.startswith("1 passed"), replayed.out


def test_a_run_that_would_not_replay_is_not_kept(
    quotes_suite: Suite, model: FakeModelServer
) -> None:
    runs_of(quotes_suite, is_recording=True)("quotes.job.yaml")
    kept = quotes_suite.folder / "tests" / "recordings" / "sheet.json"
    before = kept.read_bytes()
    quotes_suite.replace("wavewright.yaml", model.openai_url, "http://127.0.0.1:9/v1")

    told = failure_of(runs_of(quotes_suite, is_recording=True))

    assert "has no answer to this request" in told
    assert "= help: nothing was kept, for it would not replay" in told
    assert kept.read_bytes() == before


def test_the_journal_of_a_replay_is_that_of_the_recorded_run(
    quotes_suite: Suite, model: FakeModelServer
) -> None:
    recorded = runs_of(quotes_suite, is_recording=True)("quotes.job.yaml")

    replayed = runs_of(quotes_suite)("quotes.job.yaml")

    assert normalized_journal(replayed.events) == normalized_journal(recorded.events)
    assert replayed.calls() == recorded.calls()
    assert [call.step for call in replayed.calls()] == ["quotes", "quotes", "rate", "sheet"]


def test_each_run_of_a_test_has_a_recording_of_its_own(
    quotes_suite: Suite, model: FakeModelServer
) -> None:
    runs = runs_of(quotes_suite, is_recording=True)
    for name in (None, None, "named"):
        runs("quotes.job.yaml", name=name)

    kept = sorted(file.name for file in (quotes_suite.folder / "tests" / "recordings").iterdir())

    assert kept == ["named.json", "sheet-2.json", "sheet.json"]


def test_without_a_recording_a_test_says_how_to_make_one(quotes_suite: Suite) -> None:
    told = failure_of(runs_of(quotes_suite))

    assert told.startswith("there is no recording ")
    assert told.endswith("sheet.json: run this test once with `pytest --wavewright-record`")


def test_a_call_that_was_never_recorded_fails_the_test_with_the_nearest(
    quotes_suite: Suite, model: FakeModelServer
) -> None:
    runs_of(quotes_suite, is_recording=True)("quotes.job.yaml")
    take_calls(quotes_suite.folder)
    kept = quotes_suite.folder / "tests" / "recordings" / "sheet.json"
    kept.write_text(kept.read_text().replace('"code": "SKS"', '"code": "SKY"', 1))

    told = failure_of(runs_of(quotes_suite))

    assert "sheet.json lacks calls of this run" in told
    assert 'quotes[1] calls \'fetch\' with {"code": "SKS"}, which was never recorded' in told
    assert 'nearest: the call of quotes[1]; code "SKY" → "SKS"' in told
    assert "`pytest --wavewright-record`" in told
    assert take_calls(quotes_suite.folder).total() == 0


def test_a_question_that_was_never_recorded_fails_the_test_with_the_difference(
    quotes_suite: Suite, model: FakeModelServer
) -> None:
    runs_of(quotes_suite, is_recording=True)("quotes.job.yaml")
    quotes_suite.replace("quotes.template.yaml", "Write down the quotes", "Write down all quotes")

    told = failure_of(runs_of(quotes_suite))

    assert "sheet.json has no answer to this request" in told
    assert "Write down all quotes" in told
