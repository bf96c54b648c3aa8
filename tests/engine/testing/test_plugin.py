"""The plugin as a project's own suite meets it: pytest in a process of its own."""

from __future__ import annotations

import subprocess
import sys

from syrupy.assertion import SnapshotAssertion

from tests.engine.testing.project_suite import Suite

PASSING = """
    def test_the_plan(plan):
        assert plan("plans/words.job.yaml").depends("ranking", on="files")

    def test_the_run(run_plan, review, package):
        run = run_plan("plans/words.job.yaml")
        assert run.verdict == review.verdict == package.status == "achieved"
"""


def test_the_plugin_imports_nothing_but_pytest() -> None:
    program = (
        "import sys, pytest; before = set(sys.modules); import wavewright.engine.testing.plugin\n"
        "print(*sorted(name for name in set(sys.modules) - before if not name.startswith('wavewright')))\n"
        "print(*sorted(name for name in set(sys.modules) - before if name.startswith('wavewright')))"
    )
    shown = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert shown.stdout.splitlines() == [
        "lazy_loader",
        "wavewright wavewright.engine wavewright.engine.testing wavewright.engine.testing.plugin",
    ]


def test_a_suite_that_does_not_use_it_loads_nothing_of_it(suite: Suite) -> None:
    suite.write(
        "tests/test_own.py",
        """
        import sys

        def test_nothing_is_loaded():
            loaded = {name for name in sys.modules if name.startswith("wavewright.engine.testing.")}
            assert loaded <= {f"wavewright.engine.testing.{name}" for name in ("model_guard", "plugin")}
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
