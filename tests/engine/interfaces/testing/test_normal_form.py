"""Normal forms, and snapshots of them as a project's own suite meets them: written, read in a diff,
and failing.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from syrupy.assertion import SnapshotAssertion

from tests.engine.interfaces.testing.project_suite import Suite
from wavewright.engine.interfaces.testing import PlanLoader, PlanRunner, Redaction
from wavewright.engine.interfaces.testing.normal_form import (
    FormKind,
    normal_form,
    normal_form_yaml,
    read_normal_form,
)
from wavewright.engine.interfaces.testing.redactions import RedactionPass, folder_redactions
from wavewright.executor.events.types import Event, WaveFinished, WaveStarted
from wavewright.planner.types import Json, JsonObject

JOB = "plans/words.job.yaml"
WIDE = """
    version: 1
    steps:
      - {id: one, tool: list_notes, params: {folder: notes}}
      - {id: two, tool: list_notes, params: {folder: .}}
      - {id: three, tool: list_notes, params: {folder: plans}}
      - {id: notes, tool: read_note, for_each: "${steps.one}", params: {path: "${item}"}}
    """

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
values: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(texts, values, max_size=4))
def test_the_text_of_a_form_reads_back_as_the_form(form: JsonObject) -> None:
    assert read_normal_form(normal_form_yaml(form)) == form


@pytest.mark.parametrize("text", ["<<<<<<< ours\nform: plan\n=======\n", "- a list\n", "plain", ""])
def test_a_text_that_is_no_form_reads_as_none(text: str) -> None:
    assert read_normal_form(text) is None


@pytest.mark.parametrize("form", ["plan", "dag", "events", "review", "package"])
def test_two_runs_of_one_plan_have_one_form(run_plan: PlanRunner, form: FormKind) -> None:
    first, second = run_plan(JOB), run_plan(JOB)

    assert normal_form(form, first) == normal_form(form, second)


def test_a_view_has_the_form_of_what_it_shows(run_plan: PlanRunner, plan: PlanLoader) -> None:
    run = run_plan(JOB)

    assert normal_form("review", run.review) == normal_form("review", run)
    assert normal_form("package", run.package) == normal_form("package", run)
    assert normal_form("plan", plan(JOB)) == normal_form("plan", run)


@pytest.mark.parametrize("form", ["plan", "dag", "events", "review", "package"])
def test_what_has_no_such_form_is_refused_by_name(form: FormKind) -> None:
    with pytest.raises(TypeError, match=f"{form}_snapshot pins .*, and 42 is none"):
        normal_form(form, 42)


def test_the_order_of_parallel_steps_is_no_part_of_the_form(
    run_plan: PlanRunner, suite: Suite
) -> None:
    suite.write("plans/wide.plan.yaml", WIDE)
    run = run_plan("plans/wide.plan.yaml")
    wanted = normal_form("events", list(run.events))

    for seed in range(20):
        assert normal_form("events", shuffled(run.events, seed)) == wanted


def shuffled(events: tuple[Event, ...], seed: int) -> list[Event]:
    """Return the events as they might have come: within a wave its steps and items in any order."""
    order = random.Random(seed)  # noqa: S311 - an order, not a secret
    found: list[Event] = []
    wave: list[Event] | None = None
    for event in events:
        if isinstance(event, WaveFinished) and wave is not None:
            order.shuffle(wave)
            found += wave
            wave = None
        if wave is None:
            found.append(event)
        else:
            wave.append(event)
        if isinstance(event, WaveStarted):
            wave = []
    return found


def test_times_and_costs_of_a_run_are_left_out_and_those_of_its_data_stay() -> None:
    form: JsonObject = {
        "at": 12.5,
        "usd": 0.01,
        "output": {"at": 12.5, "run": "the marathon"},
        "versions": {},
    }
    from wavewright.engine.interfaces.testing.redactions import DEFAULT_REDACTIONS

    assert RedactionPass(DEFAULT_REDACTIONS).redact(form) == {
        "at": "<time>",
        "usd": "<cost>",
        "output": {"at": 12.5, "run": "the marathon"},
    }


def test_what_tells_things_apart_is_numbered_anew() -> None:
    rules = (Redaction("<key {n}>", frozenset({"key"})),)
    form: list[Json] = [{"key": "5f"}, {"key": "0a"}, {"key": "5f"}, {"key": None}]

    assert RedactionPass(rules).redact(form) == [
        {"key": "<key 1>"},
        {"key": "<key 2>"},
        {"key": "<key 1>"},
        {"key": None},
    ]


def test_a_projects_own_rule_reaches_into_its_data_and_goes_first(run_plan: PlanRunner) -> None:
    own = (
        Redaction("<count>", frozenset({"count"}), in_data=True),
        Redaction("<note {n}>", pattern=r"notes/\w+\.md"),
    )

    form: Any = normal_form("package", run_plan(JOB), own)

    assert form["result"]["words"][0] == {"word": "plan", "count": "<count>"}
    assert [call["params"]["path"] for call in form["calls"][1:3]] == ["<note 1>", "<note 2>"]


def test_folders_of_this_machine_are_left_out_and_what_stands_below_stays() -> None:
    rules = folder_redactions([Path("/srv/desk"), Path("/srv/desk/drawer"), Path("/")])

    assert RedactionPass(rules).redact(
        ["/srv/desk/drawer/a.md", "/srv/desk/b", "/srv/desks/c", "in /srv/desk."]
    ) == [
        "<path>/a.md",
        "<path>/b",
        "/srv/desks/c",
        "in /srv/desk.",
    ]


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

    assert "plan.steps.others added: " in failed.out
    assert "plan.steps.ranking.depends_on" in failed.out
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
        from wavewright.engine.interfaces.testing import Redaction

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
    assert (
        "count: <how often>"
        in (suite.folder / FOLDER / "test_run.package.snapshot.yaml").read_text()
    )


def test_a_value_that_has_no_such_form_fails_with_what_has_one(suite: Suite) -> None:
    suite.write(
        "tests/test_pins.py", "def test_pin(review_snapshot):\n    assert 42 == review_snapshot\n"
    )

    assert "review_snapshot pins a run or its review, and 42 is none" in suite.run().out


def test_without_syrupy_a_snapshot_says_how_to_get_it(suite: Suite) -> None:
    suite.write("tests/test_pins.py", TESTS)

    failed = suite.run("-p", "no:syrupy")

    assert "plan_snapshot needs syrupy: pip install 'wavewright[testing]'" in failed.out
    assert "During handling" not in failed.out


def test_a_change_of_a_sub_plan_is_one_of_the_plan_that_calls_it(
    new_suite: Suite, tmp_path: Path
) -> None:
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
