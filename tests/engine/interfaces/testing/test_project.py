"""What the fixture `plan` gives a test: the shape of a valid plan, and why an assertion about it
fails.
"""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.engine.interfaces.testing.project_suite import Suite
from wavewright.engine.interfaces.testing import DryRunLoader, PlanLoader

JOB = "plans/words.job.yaml"


def test_a_plan_has_the_shape_that_its_references_give_it(plan: PlanLoader) -> None:
    words = plan(JOB)

    assert words.name == "words"
    assert words.steps == ("files", "notes", "ranking")
    assert words.waves == (("files",), ("notes",), ("ranking",))
    assert words.edges == (("files", "notes"), ("notes", "ranking"))
    assert words.width == 1
    assert words.tools == {"list_notes", "read_note", "rank_words"}
    assert words.gates == ("has_text__notes",)
    assert words.step("notes").for_each == "${steps.files}"
    assert repr(words) == "<plan 'words': files | notes | ranking>"


def test_a_plan_file_may_stand_in_the_place_of_the_job(plan: PlanLoader) -> None:
    assert plan("plans/words.plan.yaml").gates == ()


def test_another_plan_may_take_the_place_of_the_jobs_own(plan: PlanLoader, suite: Suite) -> None:
    suite.write(
        "plans/short.plan.yaml",
        """
        version: 1
        steps:
          - {id: files, tool: list_notes, params: {folder: notes}}
          - {id: ranking, tool: rank_words, params: {notes: []}, depends_on: [files]}
        """,
    )

    assert plan(JOB, plan="plans/short.plan.yaml").steps == ("files", "ranking")


@pytest.mark.parametrize(
    ("step", "on", "directly", "holds", "why"),
    [
        pytest.param(
            "notes", "files", False, True, "'notes' depends on 'files': files → notes", id="direct"
        ),
        pytest.param(
            "notes", "files", True, True, "'notes' depends on 'files': files → notes", id="directly"
        ),
        pytest.param(
            "ranking",
            "files",
            False,
            True,
            "'ranking' depends on 'files': files → notes → ranking",
            id="far",
        ),
        pytest.param(
            "ranking",
            "files",
            True,
            False,
            "'ranking' depends on 'files' only through others: files → notes → ranking",
            id="not-directly",
        ),
        pytest.param(
            "notes",
            "ranking",
            False,
            False,
            "'notes' does not depend on 'ranking': it waits for 'files'",
            id="none",
        ),
        pytest.param(
            "files",
            "files",
            False,
            False,
            "'files' does not depend on 'files': it waits for no step",
            id="itself",
        ),
    ],
)
def test_a_dependency_is_a_claim_that_says_why(
    plan: PlanLoader, step: str, on: str, *, directly: bool, holds: bool, why: str
) -> None:
    claim = plan(JOB).depends(step, on=on, directly=directly)

    assert bool(claim) is holds
    assert repr(claim) == why


def test_a_step_that_is_not_there_fails_the_test_with_the_nearest_one(plan: PlanLoader) -> None:
    with pytest.raises(
        pytest.fail.Exception, match=r"plan 'words' has no step 'file'; did you mean 'files'\?"
    ):
        plan(JOB).depends("ranking", on="file")


def test_a_file_that_is_not_there_fails_the_test(plan: PlanLoader) -> None:
    with pytest.raises(
        pytest.fail.Exception, match=r"there is no file 'plans/nothing\.yaml' in the project"
    ):
        plan("plans/nothing.yaml")


def test_an_unsound_plan_fails_the_test_with_its_diagnostics(
    plan: PlanLoader, suite: Suite, snapshot: SnapshotAssertion
) -> None:
    suite.replace("plans/words.plan.yaml", "tool: rank_words", "tool: rank_word")
    suite.replace("plans/words.plan.yaml", 'folder: "${inputs.folder}"', "folders: notes")

    with pytest.raises(pytest.fail.Exception) as failed:
        plan(JOB)

    assert failed.value.pytrace is False
    assert failed.value.msg == snapshot


def test_faulty_settings_fail_the_test_at_their_line(plan: PlanLoader, suite: Suite) -> None:
    suite.replace("wavewright.yaml", "templates:", "template:")

    with pytest.raises(pytest.fail.Exception, match=r"unknown field 'template'|'template'"):
        plan(JOB)


def test_a_dry_run_is_the_engines_own_record(dry_run: DryRunLoader) -> None:
    forecast = dry_run(JOB)

    assert forecast.job == "words"
    assert forecast.max_parallelism == 1
    assert forecast.critical_path == ("files", "notes", "ranking")


def test_a_dry_run_of_an_unsound_plan_fails_the_test(dry_run: DryRunLoader, suite: Suite) -> None:
    suite.replace("plans/words.plan.yaml", "tool: rank_words", "tool: rank_word")

    with pytest.raises(pytest.fail.Exception, match="E201"):
        dry_run(JOB)
