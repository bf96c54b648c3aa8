"""The plugin as a project's own suite meets it, in a process of its own; no test asks a model by
accident.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.engine.interfaces.testing.project_suite import Suite
from wavewright.engine.interfaces.testing import PlanRunner
from wavewright.engine.interfaces.testing.project import ProjectUnderTest
from wavewright.engine.rehearsal.fake_model.server import API_KEY, FakeModelServer, asked_for
from wavewright.planner.types import JsonObject

PASSING = """
    def test_the_plan(plan):
        assert plan("plans/words.job.yaml").depends("ranking", on="files")

    def test_the_run(run_plan, review, package):
        run = run_plan("plans/words.job.yaml")
        assert run.verdict == review.verdict == package.status == "achieved"
"""


def test_the_plugin_imports_nothing_but_pytest() -> None:
    program = (
        "import sys, pytest; before = set(sys.modules); import wavewright.engine.interfaces.testing.plugin\n"
        "print(*sorted(name for name in set(sys.modules) - before if not name.startswith('wavewright')))\n"
        "print(*sorted(name for name in set(sys.modules) - before if name.startswith('wavewright')))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    assert shown.stdout.splitlines() == [
        "lazy_loader",
        (
            "wavewright wavewright.engine wavewright.engine.interfaces"
            " wavewright.engine.interfaces.testing"
            " wavewright.engine.interfaces.testing.model_requests"
            " wavewright.engine.interfaces.testing.plugin"
        ),
    ]


def test_a_suite_that_does_not_use_it_loads_nothing_of_it(suite: Suite) -> None:
    suite.write(
        "tests/test_own.py",
        """
        import sys

        def test_nothing_is_loaded():
            loaded = {name for name in sys.modules if name.startswith("wavewright.engine.interfaces.testing.")}
            own = ("plugin", "model_requests")
            assert loaded <= {f"wavewright.engine.interfaces.testing.{name}" for name in own}
            assert not {"pydantic", "wavewright.planner", "wavewright.config"} & set(sys.modules)
        """,
    )

    assert suite.run(has_imports=False).last_line.startswith("1 passed")


def test_failing_assertions_say_why(suite: Suite, snapshot: SnapshotAssertion) -> None:
    suite.write(
        "tests/test_shape.py",
        """
        JOB = "plans/words.job.yaml"
        EMPTY = {"name": "a.md", "text": ""}

        def test_depends(plan):
            assert plan(JOB).depends("ranking", on="files", directly=True)

        def test_width(plan):
            assert plan(JOB).width == 3

        def test_unknown_step(plan):
            assert plan(JOB).depends("ranking", on="file")

        def test_status(run_plan):
            run = run_plan(JOB, stubs={"list_notes": OSError("the disk is gone")})
            assert run.status("files") == "ok"

        def test_verdict(run_plan):
            assert run_plan(JOB, stubs={"read_note": EMPTY}).verdict == "achieved"

        def test_gate(run_plan):
            assert run_plan(JOB, stubs={"read_note": EMPTY}).gate("has_text")

        def test_confidence(run_plan):
            assert run_plan(JOB, stubs={"read_note": EMPTY}).confidence() >= 0.9

        def test_unsound(plan):
            plan("plans/unsound.plan.yaml")
        """,
    )
    suite.write("plans/unsound.plan.yaml", "version: 1\nsteps:\n  - {id: a, tool: list_note}\n")

    ended = suite.run()

    assert ended.code == 1
    assert ended.out == snapshot


def test_a_project_may_have_a_tools_package_of_its_own(suite: Suite) -> None:
    suite.write("tools/__init__.py", "OWN = 'of the project'\n")
    suite.write("planner/__init__.py", "OWN = 'of the project'\n")
    suite.replace("wavewright.yaml", "path: tools/notes.py", "module: tools.notes")
    suite.write("conftest.py", "")
    suite.write(
        "tests/test_own.py",
        "import planner\nimport tools\n\ndef test_own():\n    assert tools.OWN == planner.OWN\n",
    )
    suite.write("tests/test_plan.py", PASSING)

    assert suite.run().last_line.startswith("3 passed")


def test_a_test_does_the_same_from_whichever_folder_pytest_is_started(suite: Suite) -> None:
    suite.write("tests/test_plan.py", PASSING)

    assert suite.run("suite/tests", start=suite.folder.parent).last_line.startswith("2 passed")
    assert suite.run("--rootdir=/", start=suite.folder / "tests").last_line.startswith("2 passed")


def test_fixtures_of_the_projects_own_take_the_place_of_the_plugins_and_async_tests_run_plans(
    suite: Suite,
) -> None:
    suite.write(
        "tests/test_own.py",
        """
        import pytest

        @pytest.fixture
        def plan():
            return "my own"

        def test_own(plan):
            assert plan == "my own"
        """,
    )
    suite.write(
        "tests/test_async.py",
        """
        import pytest

        @pytest.mark.anyio
        @pytest.mark.parametrize("anyio_backend", ["asyncio"])
        async def test_the_run(run_plan, anyio_backend):
            assert run_plan("plans/words.job.yaml").verdict == "achieved"
        """,
    )

    assert suite.run("--strict-markers").last_line.startswith("2 passed")


def test_a_suite_has_the_objects_that_a_program_has(suite: Suite) -> None:
    suite.write(
        "tests/test_program.py",
        """
        from pathlib import Path

        from wavewright.engine import LoadedPlan, PlanRun, Wavewright

        def numbers(count: int) -> int:
            return count

        def test_a_plan_is_loaded_forecast_and_run(ww, plan, dry_run):
            words = ww.load("plans/words.job.yaml")
            assert isinstance(ww, Wavewright) and isinstance(words, LoadedPlan)
            assert plan(words).waves == plan("plans/words.job.yaml").waves
            assert words.dry_run().waves == dry_run(words).waves
            run = ww.run_sync(words)
            assert isinstance(run, PlanRun) and run.status == "achieved"
            assert not Path(".wavewright").exists()

        async def started(ww):
            async with ww:
                return (await ww.run("plans/words.job.yaml")).status

        def test_an_async_program_runs_it(ww):
            import anyio
            assert anyio.run(started, ww) == "achieved"

        def test_a_built_plan_runs_with_stubs(ww, run_plan):
            built = ww.new_plan().step("a", "read_note", {"path": "x"}).returns("${steps.a.text}")
            view = run_plan(built, stubs={"read_note": {"name": "x", "text": "stub"}})
            assert isinstance(view.run, PlanRun)
            assert view.run.result == view.result == "stub"
            assert view.run.steps["a"].status == view.status("a") == "ok"

        def test_tools_of_a_program_are_called(run_plan):
            built = Wavewright(tools=[numbers]).new_plan().step("n", numbers, {"count": 3}).returns("${steps.n}")
            assert run_plan(built).run.result == 3
        """,
    )

    assert suite.run().last_line.startswith("4 passed")


JOB = "plans/words.job.yaml"
KIND_REVIEW: JsonObject = {
    "summary": "The words are ranked.",
    "goal_achieved": True,
    "confidence": 0.9,
    "missing_data": [],
    "recovery_actions": [],
}


def with_model(suite: Suite, url: str = "http://127.0.0.1:9/v1") -> None:
    file = suite.folder / "wavewright.yaml"
    file.write_text(
        f"{file.read_text()}\nmodel: openai-chat:gpt-test\nmodels: {{base_url: '{url}'}}\n"
    )


def test_a_configured_model_fails_every_run_that_is_not_allowed_to_ask_it(
    suite: Suite, snapshot: SnapshotAssertion
) -> None:
    with_model(suite)
    suite.write(
        "tests/test_model.py",
        """
        import subprocess
        import sys

        from wavewright.engine.main import main

        def test_run(run_plan):
            run_plan("plans/words.job.yaml")

        def test_without_model(run_plan):
            assert run_plan("plans/words.job.yaml", without_model=True).verdict == "achieved"

        def test_command(capsys):
            assert main(["run", "plans/words.job.yaml"]) == 2
            assert "wavewright_live" in capsys.readouterr().err

        def test_command_of_its_own():
            command = [sys.executable, "-m", "wavewright.engine.main", "run", "plans/words.job.yaml"]
            ran = subprocess.run(command, capture_output=True, text=True)
            assert ran.returncode == 2 and "wavewright_live" in ran.stderr
        """,
    )

    # Also where several projects are tested at once, from a folder above them.
    ended = suite.run("--rootdir=..")

    assert ended.last_line.startswith("1 failed, 3 passed")
    assert ended.out == snapshot


def test_no_module_asks_a_model_while_tests_are_collected(suite: Suite) -> None:
    with_model(suite)
    suite.write(
        "tests/test_import.py",
        """
        import os

        from wavewright.engine.main import main

        CODE = main(["run", "plans/words.job.yaml"])
        REQUESTS = os.environ.get("WAVEWRIGHT_MODEL_REQUESTS")

        def test_off():
            assert (CODE, REQUESTS) == (2, "off")
        """,
    )

    assert suite.run().last_line.startswith("1 passed")


def test_the_library_that_asks_models_is_switched_off_only_where_it_is_loaded(suite: Suite) -> None:
    suite.write(
        "tests/test_library.py",
        """
        import sys

        import pytest

        def test_not_loaded(plan):
            plan("plans/words.job.yaml")
            assert "pydantic_ai" not in sys.modules

        def test_loads_it():
            import pydantic_ai.models

        def test_off():
            assert not sys.modules["pydantic_ai.models"].ALLOW_MODEL_REQUESTS

        @pytest.mark.wavewright_live
        def test_on():
            assert sys.modules["pydantic_ai.models"].ALLOW_MODEL_REQUESTS
        """,
    )

    assert suite.run("--strict-markers", has_imports=False).last_line.startswith("4 passed")


@pytest.fixture
def as_live(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> PlanRunner:
    """Runs plans as a test that is marked as live does, with a key in the environment."""
    monkeypatch.setenv("WAVEWRIGHT_API_KEY", API_KEY)
    project = ProjectUnderTest(suite.folder, suite.folder / "tests", is_live=True)
    return PlanRunner(project, lambda: new_folder(suite))


def new_folder(suite: Suite) -> Path:
    folder = suite.folder.parent / f"state{len(list(suite.folder.parent.iterdir()))}"
    folder.mkdir()
    return folder


def test_a_live_test_asks_the_model_and_another_test_replays_its_answers(
    suite: Suite,
    model_server: FakeModelServer,
    as_live: PlanRunner,
    run_plan: PlanRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_model(suite, model_server.openai_url)
    model_server.answer(KIND_REVIEW, when=asked_for("review"))
    monkeypatch.setenv("WAVEWRIGHT_CASSETTE_MODE", "record")
    live = as_live(JOB, cassette="tests/words.cassette.json", as_of="2026-01-01")
    asked = len(model_server.requests)
    monkeypatch.delenv("WAVEWRIGHT_API_KEY")

    replayed = run_plan(JOB, cassette="tests/words.cassette.json", as_of="2026-01-01")

    assert asked > 0
    assert len(model_server.requests) == asked
    assert replayed.review.record.reviewer == live.review.record.reviewer == "model"
    assert replayed.confidence() == live.confidence()


def test_what_the_testers_environment_says_of_models_does_not_count(
    run_plan: PlanRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAVEWRIGHT_MODEL", "openai:gpt-test")

    assert run_plan(JOB).verdict == "achieved"


def message_of(run_plan: PlanRunner, **given: str) -> str:
    """Return the message of a test that runs the job and fails."""
    with pytest.raises(pytest.fail.Exception) as caught:
        run_plan(JOB, cassette="tests/words.cassette.json", as_of=given.get("as_of", "2026-01-01"))
    return str(caught.value)


def test_a_cassette_that_nobody_would_look_into_fails_the_test(
    run_plan: PlanRunner, as_live: PlanRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_it_is, live = message_of(run_plan), message_of(as_live)
    monkeypatch.setenv("WAVEWRIGHT_MODEL", "openai:gpt-test")

    # What the environment names would have been asked by a live test alone.
    assert message_of(run_plan) == as_it_is
    assert as_it_is.splitlines() == [
        "error: no model is configured, so nothing is asked of the cassette 'tests/words.cassette.json'",
        "  = help: name the model whose answers it holds with 'model:' in wavewright.yaml;",
        "          what the environment names counts for live tests only",
    ]
    assert live.endswith("with 'model:' in wavewright.yaml or WAVEWRIGHT_MODEL")


def test_an_absent_cassette_is_fixed_by_a_live_test(suite: Suite, run_plan: PlanRunner) -> None:
    with_model(suite)

    told = message_of(run_plan)

    assert "there is no cassette " in told
    assert (
        "= help: record it: mark a test that makes this run with @pytest.mark.wavewright_live"
        in told
    )


def test_a_day_that_is_none_is_told_as_the_test_wrote_it(
    run_plan: PlanRunner, suite: Suite
) -> None:
    with_model(suite)

    assert message_of(run_plan, as_of="yesterday").startswith("error: as_of 'yesterday' is no date")
