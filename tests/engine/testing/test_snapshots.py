"""Snapshots as a project's own suite meets them: written, read in a diff, and failing with what changed first."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.engine.testing.project_suite import Suite

TESTS = """
    JOB = "plans/words.job.yaml"

    def test_words(plan, plan_snapshot):
        assert plan(JOB) == plan_snapshot
    """
FOLDER = "tests/__snapshots__/test_pins"
LONGER = """
    version: 1
    goal: Find out which words the notes use most
    inputs: {folder: notes, top: 5}
    steps:
      - {id: files, tool: list_notes, params: {folder: "${inputs.folder}"}}
      - {id: others, tool: list_notes, params: {folder: more}}
      - {id: notes, tool: read_note, for_each: "${steps.files}", params: {path: "${item}"}}
      - {id: ranking, tool: rank_words, params: {notes: "${steps.notes}"}, depends_on: [others]}
    result: ${steps.ranking}
    """


@pytest.fixture(scope="module")
def pinned_once(new_suite: Suite, tmp_path_factory: pytest.TempPathFactory) -> Suite:
    suite = new_suite.copy(tmp_path_factory.mktemp("pinned"))
    suite.write("tests/test_pins.py", TESTS)
    assert suite.run("--snapshot-update").code == 0
    return suite


@pytest.fixture
def pinned(pinned_once: Suite, tmp_path: Path) -> Suite:
    """A project whose plan is pinned."""
    return pinned_once.copy(tmp_path)


def test_a_snapshot_is_one_readable_file(pinned: Suite, snapshot: SnapshotAssertion) -> None:
    [file] = (pinned.folder / FOLDER).iterdir()

    assert file.name == "test_words.plan.snapshot.yaml"
    assert file.read_text() == snapshot


def test_a_failure_tells_what_changed_and_then_shows_the_text(
    pinned: Suite, snapshot: SnapshotAssertion
) -> None:
    pinned.write("plans/words.plan.yaml", LONGER)
    pinned.replace("config/goals/word_ranking.yaml", "severity: block", "severity: warn")
    pinned.replace("config/goals/word_ranking.yaml", "max: 0.5", "max: 0.2")

    failed = pinned.run("-o", "verbosity_assertions=2")

    assert failed.code == 1
    assert failed.out == snapshot


def test_what_changed_is_told_also_where_pytest_cuts_the_rest(pinned: Suite) -> None:
    pinned.write("plans/words.plan.yaml", LONGER)

    failed = pinned.run()

    assert "step others added (calls list_notes)" in failed.out
    assert "edge others → ranking" in failed.out
    assert "width 1 → 2" in failed.out


def test_an_update_takes_the_change(pinned: Suite) -> None:
    pinned.write("plans/words.plan.yaml", LONGER)

    updated = pinned.run("--snapshot-update")
    [file] = (pinned.folder / FOLDER).iterdir()

    assert "1 snapshot updated" in updated.out
    assert "others" in file.read_text()


def test_every_form_has_a_file_of_its_own_and_the_next_run_is_equal(suite: Suite) -> None:
    suite.write(
        "tests/test_pins.py",
        """
        JOB = "plans/words.job.yaml"

        def test_run(run_plan, plan_snapshot, dag_snapshot, events_snapshot, review_snapshot, package_snapshot):
            run = run_plan(JOB)
            assert run == plan_snapshot
            assert run == dag_snapshot
            assert run == events_snapshot
            assert run.review == review_snapshot
            assert run.package == package_snapshot

        def test_named(plan, dag_snapshot):
            assert plan(JOB) == dag_snapshot(name="words")
        """,
    )

    assert suite.run("--snapshot-update").code == 0
    assert suite.run().last_line.startswith("2 passed")
    assert sorted(file.name for file in (suite.folder / FOLDER).iterdir()) == [
        "test_named[words].dag.snapshot.yaml",
        "test_run.dag.snapshot.yaml",
        "test_run.events.snapshot.yaml",
        "test_run.package.snapshot.yaml",
        "test_run.plan.snapshot.yaml",
        "test_run.review.snapshot.yaml",
    ]
    pinned = "".join(file.read_text() for file in (suite.folder / FOLDER).iterdir())
    assert str(suite.folder) not in pinned
    assert "/pytest-of-" not in pinned


def test_a_project_adds_rules_of_its_own(suite: Suite) -> None:
    suite.write(
        "tests/conftest.py",
        """
        import pytest
        from wavewright.engine.testing import Redaction

        @pytest.fixture
        def wavewright_redactions():
            return [Redaction("<how often>", frozenset({"count"}), in_data=True)]
        """,
    )
    suite.write(
        "tests/test_pins.py",
        """
        def test_run(run_plan, package_snapshot):
            assert run_plan("plans/words.job.yaml") == package_snapshot
        """,
    )

    assert suite.run("--snapshot-update").code == 0
    assert "count: <how often>" in (suite.folder / FOLDER / "test_run.package.snapshot.yaml").read_text()


def test_a_value_that_has_no_such_form_fails_with_what_has_one(suite: Suite) -> None:
    suite.write("tests/test_pins.py", "def test_pin(review_snapshot):\n    assert 42 == review_snapshot\n")

    assert "review_snapshot pins a run or its review, and 42 is none" in suite.run().out


def test_without_syrupy_a_snapshot_says_how_to_get_it(suite: Suite) -> None:
    suite.write("tests/test_pins.py", TESTS)

    failed = suite.run("-p", "no:syrupy")

    assert "plan_snapshot needs syrupy: pip install 'wavewright[testing]'" in failed.out
    assert "During handling" not in failed.out


def test_a_change_of_a_sub_plan_is_one_of_the_plan_that_calls_it(new_suite: Suite, tmp_path: Path) -> None:
    suite = new_suite.copy(tmp_path)
    suite.write(
        "plans/two.plan.yaml",
        """
        version: 1
        goal: Words of two folders
        steps:
          - {id: first, plan: words.plan.yaml, params: {folder: notes}}
        result: ${steps.first}
        """,
    )
    suite.write(
        "tests/test_pins.py",
        """
        def test_two(plan, run_plan, plan_snapshot):
            run = run_plan("plans/two.plan.yaml", stubs={"first.files": []})

            assert run.status("first.notes") == "empty"
            assert plan("plans/two.plan.yaml") == plan_snapshot
        """,
    )
    made = suite.run("--snapshot-update")
    assert made.code == 0, made.out

    suite.replace("plans/words.plan.yaml", "top: 5", "top: 6")
    ended = suite.run()

    assert ended.code == 1
    assert "first.ranking" in ended.out
