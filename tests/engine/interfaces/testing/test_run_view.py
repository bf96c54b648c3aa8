"""What the fixture `run_plan` gives a test: a real run with the test's stubs, and why an assertion
about it fails.
"""

from __future__ import annotations

import datetime as dt
import re
import time

import anyio.lowlevel
import pytest

from tests.engine.interfaces.testing.project_suite import Suite
from wavewright.engine.interfaces.testing import PackageView, PlanRunner, ReviewView

JOB = "plans/words.job.yaml"


def plan_twice(path: str) -> dict[str, str]:
    return {"name": path, "text": "plan plan"}


def by_name(name: str) -> dict[str, str]:
    return {"name": name, "text": "plan"}


def count_down(text: str) -> int:
    return -len(text)


def test_a_run_with_the_real_tools(run_plan: PlanRunner) -> None:
    run = run_plan(JOB)

    assert run.verdict == "achieved"
    assert run.statuses == {"files": "ok", "notes": "ok", "ranking": "ok"}
    assert run.outputs["files"] == ["notes/planning.md", "notes/running.md"]
    assert run.gate("has_text")
    assert run.confidence() == 0.8
    assert run.result == run.output("ranking")
    assert [call.params for call in run.calls("read_note")] == [
        {"path": "notes/planning.md"},
        {"path": "notes/running.md"},
    ]


def test_a_run_keeps_to_a_folder_of_its_own(run_plan: PlanRunner, suite: Suite) -> None:
    run = run_plan(JOB)

    assert sorted(path.name for path in run.folder.rglob("*.json")) == ["package.json"]
    assert not (suite.folder / ".wavewright").exists()


def test_review_and_package_are_those_of_the_latest_run(
    run_plan: PlanRunner, review: ReviewView, package: PackageView
) -> None:
    run_plan(JOB, stubs={"read_note": {"name": "empty.md", "text": ""}})
    assert review.verdict == "not_achieved"
    assert package.status == "not_achieved"

    run_plan(JOB)
    assert review.verdict == "achieved"
    assert review.confidence() == 0.8
    assert package.result == run_plan.latest().result
    assert repr(review) == "<review: achieved, confidence 0.8>"
    assert repr(package) == "<package of job 'words': achieved>"


def test_a_review_before_any_run_fails_the_test(review: ReviewView) -> None:
    with pytest.raises(
        pytest.fail.Exception, match="nothing has run in this test yet: call run_plan first"
    ):
        _ = review.verdict


@pytest.mark.parametrize(
    "stub",
    [
        pytest.param({"name": "a.md", "text": "plan plan"}, id="value"),
        pytest.param(plan_twice, id="function"),
    ],
)
@pytest.mark.parametrize("name", ["notes", "read_note"])
def test_a_stub_answers_by_step_or_by_tool(run_plan: PlanRunner, name: str, stub: object) -> None:
    run = run_plan(JOB, stubs={name: stub})

    assert run.result == {"notes": 2, "words": [{"word": "plan", "count": 4}]}
    assert [call.step for call in run.calls()] == ["files", "notes", "notes", "ranking"]


def test_an_async_function_is_a_stub(run_plan: PlanRunner) -> None:
    async def read_note(path: str) -> dict[str, str]:
        await anyio.lowlevel.checkpoint()
        return {"name": path, "text": "plan"}

    assert run_plan(JOB, stubs={"read_note": read_note}).verdict == "achieved"


def test_the_stub_of_a_step_goes_before_that_of_its_tool(run_plan: PlanRunner) -> None:
    run = run_plan(
        JOB, stubs={"list_notes": ["a.md"], "files": [], "read_note": {"name": "a", "text": "plan"}}
    )

    assert run.output("files") == []


def test_an_exception_is_a_stub_that_fails(run_plan: PlanRunner) -> None:
    run = run_plan(JOB, stubs={"list_notes": OSError("the disk is gone")})

    assert run.status("files") == "failed"
    assert "the disk is gone" in run.status("files").why
    assert run.statuses == {"files": "failed", "notes": "blocked", "ranking": "blocked"}
    assert [call.error for call in run.calls("files")][-1] == "OSError: the disk is gone"


@pytest.mark.parametrize(
    ("stubs", "message"),
    [
        pytest.param(
            {"list_notes": {"not": "a list"}},
            "the stub of 'list_notes' gives no output of 'list_notes': the output is an object",
            id="whole",
        ),
        pytest.param(
            {"notes": {"name": "a.md", "text": 7}},
            "the stub of 'notes' gives no output of 'read_note': /text is",
            id="field",
        ),
    ],
)
def test_a_stub_that_gives_what_its_tool_cannot_fails_the_test(
    run_plan: PlanRunner, stubs: dict[str, object], message: str
) -> None:
    with pytest.raises(pytest.fail.Exception, match=re.escape(message)):
        run_plan(JOB, stubs=stubs)


def test_a_stub_that_takes_other_parameters_fails_the_test(run_plan: PlanRunner) -> None:
    with pytest.raises(
        pytest.fail.Exception, match=r"the stub of 'notes' does not take .* \(path\): missing a req"
    ):
        run_plan(JOB, stubs={"notes": by_name})


def test_a_stub_that_gives_no_json_fails_the_test(run_plan: PlanRunner) -> None:
    with pytest.raises(pytest.fail.Exception, match="the stub of 'files' gives no JSON"):
        run_plan(JOB, stubs={"files": object()})


def test_a_stub_for_nothing_fails_the_test_with_the_nearest_name(run_plan: PlanRunner) -> None:
    with pytest.raises(
        pytest.fail.Exception, match=r"no step or tool 'read_notes'; did you mean 'read_note'\?"
    ):
        run_plan(JOB, stubs={"read_notes": None})


def test_a_stub_that_asserts_fails_the_test(run_plan: PlanRunner) -> None:
    def read_note(path: str) -> None:
        assert path == "notes/other.md", f"{path} was read"

    with pytest.raises(
        pytest.fail.Exception,
        match=r"stub of 'notes' asserts otherwise: notes/planning\.md was read",
    ):
        run_plan(JOB, stubs={"notes": read_note})


def test_a_step_that_recovery_adds_has_a_stub_of_its_own(
    run_plan: PlanRunner, suite: Suite
) -> None:
    file = suite.folder / "config/goals/word_ranking.yaml"
    file.write_text(
        f"{file.read_text()}\nrecipes: [{{gate: has_text, set_params: {{path: other.md}}, reason: read another}}]\n"
    )
    stubs = {"notes": {"name": "a.md", "text": ""}, "notes_2": {"name": "a.md", "text": "plan"}}

    run = run_plan(JOB, stubs=stubs)

    assert run.status("notes_2") == "ok"
    assert run.plan.depends("ranking", on="notes_2")
    assert run.verdict == "achieved"


def test_a_red_gate_says_what_it_looked_at(run_plan: PlanRunner) -> None:
    run = run_plan(JOB, stubs={"read_note": {"name": "a.md", "text": ""}})

    gate = run.gate("has_text")
    assert not gate
    assert repr(gate).startswith("gate 'has_text' failed on notes[0] (blocks): missing: text")


def test_a_gate_that_was_never_asked_does_not_hold(run_plan: PlanRunner) -> None:
    run = run_plan(JOB, stubs={"list_notes": OSError("gone")})

    assert not run.gate("has_text__notes")
    assert "never evaluated" in repr(run.gate("has_text__notes"))


def test_an_output_that_readers_do_not_see_fails_the_test_with_the_reason(
    run_plan: PlanRunner,
) -> None:
    run = run_plan(JOB, stubs={"read_note": {"name": "a.md", "text": ""}})

    with pytest.raises(
        pytest.fail.Exception, match="step 'notes' has no output: gate 'has_text__notes' blocks it"
    ):
        run.output("notes")


@pytest.mark.parametrize("kind", ["status", "gate", "confidence", "calls"])
def test_a_name_that_is_not_there_fails_the_test(run_plan: PlanRunner, kind: str) -> None:
    run = run_plan(JOB)

    with pytest.raises(pytest.fail.Exception, match=r"has no .* 'nobody'"):
        getattr(run, kind)("nobody")


LETTERS = """\
steps:
  - id: sent
    dispatch: [{tool: count, params: {text: ab}}, {tool: count, params: {text: cde}}]
    tools: [count]
  - {id: one, tool: count, params: {text: a}}
  - {id: same, tool: count, params: {text: a}}
"""


@pytest.fixture
def letters(suite: Suite) -> str:
    """A plan that dispatches calls, and makes two that are equal."""
    (suite.folder / "tools" / "notes.py").write_text(
        "def count(text: str) -> int: return len(text)"
    )
    suite.write(
        "wavewright.yaml",
        "tools: [{path: tools/notes.py, functions: {count: {deterministic: true}}}]",
    )
    (suite.folder / "plans" / "letters.yaml").write_text(LETTERS)
    return "plans/letters.yaml"


@pytest.mark.parametrize(
    ("stubs", "counts"),
    [
        pytest.param({}, [2, 3], id="none"),
        pytest.param({"count": count_down}, [-2, -3], id="tool"),
        pytest.param({"sent": 9}, [9, 9], id="step"),
    ],
)
def test_each_dispatched_call_is_one_of_its_tool(
    run_plan: PlanRunner, letters: str, stubs: dict[str, object], counts: list[int]
) -> None:
    run = run_plan(letters, stubs=stubs)

    assert [call.output for call in run.calls("sent")] == counts
    assert [call.params for call in run.calls("sent")] == [{"text": "ab"}, {"text": "cde"}]
    assert run.output("sent") == [{"tool": "count", "output": count} for count in counts]


def test_a_stub_that_an_equal_call_stands_for_fails_the_test(
    run_plan: PlanRunner, letters: str
) -> None:
    assert run_plan(letters, stubs={"one": 7}).output("same") == 7
    with pytest.raises(
        pytest.fail.Exception, match=r"stub of 'same' was not asked, since .* made by 'one'"
    ):
        run_plan(letters, stubs={"same": 7})


def test_a_tool_with_an_effect_is_never_called_without_a_word(
    run_plan: PlanRunner, suite: Suite
) -> None:
    suite.replace(
        "wavewright.yaml", "rank_words: {tags", "rank_words: {effects: [read, egress], tags"
    )

    with pytest.raises(
        pytest.fail.Exception, match=r"'rank_words' sends out of the run, and this test has no stub"
    ):
        run_plan(JOB)
    assert run_plan(JOB, real=["rank_words"]).verdict == "achieved"
    assert run_plan(JOB, stubs={"ranking": {"notes": 0, "words": []}}).status("ranking") == "ok"


@pytest.mark.parametrize(("approves", "verdict"), [(True, "achieved"), (False, "not_achieved")])
def test_what_needs_approval_is_on_record(
    run_plan: PlanRunner, suite: Suite, *, approves: bool, verdict: str
) -> None:
    suite.replace("wavewright.yaml", "rank_words: {tags", "rank_words: {needs_approval: true, tags")

    run = run_plan(JOB, approve=approves)

    assert run.verdict == verdict
    assert run.approvals[0].needs == ("step 'ranking' calls 'rank_words', which needs approval",)


def test_a_run_without_a_package_says_why(run_plan: PlanRunner, suite: Suite) -> None:
    (suite.folder / "plans" / "ask.yaml").write_text(
        "steps: [{id: which, tool: ask_person, params: {question: Which notes?}}]\n"
    )
    run = run_plan("plans/ask.yaml")

    with pytest.raises(pytest.fail.Exception, match="has no package: a person must answer"):
        _ = run.result


def test_an_unsound_plan_fails_the_test_before_anything_is_called(
    run_plan: PlanRunner, suite: Suite
) -> None:
    suite.replace("plans/words.plan.yaml", "tool: rank_words", "tool: rank_word")

    with pytest.raises(pytest.fail.Exception, match="E201"):
        run_plan(JOB)


@pytest.mark.parametrize("as_of", ["2020-02-02", dt.date(2020, 2, 2), dt.datetime(2020, 2, 2)])  # noqa: DTZ001 - without a zone
def test_the_instant_of_a_run_can_be_given(
    run_plan: PlanRunner, monkeypatch: pytest.MonkeyPatch, as_of: dt.date | str
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        run = run_plan(JOB, as_of=as_of)
    finally:
        monkeypatch.undo()
        time.tzset()

    assert run.package.record.now.startswith("2020-02-02T00:00:00")


def test_a_stub_of_a_step_answers_in_the_place_of_a_person(
    run_plan: PlanRunner, suite: Suite
) -> None:
    (suite.folder / "plans" / "ask.yaml").write_text(
        "steps: [{id: which, tool: ask_person, params: {question: Which notes?}},\n"
        "{id: why, tool: ask_person, params: {question: Why?}}]\n"
        "result: {which: '${steps.which}', why: '${steps.why}'}\n"
    )

    run = run_plan("plans/ask.yaml", stubs={"which": "the old ones"}, answers=["to learn"])

    assert run.result == {"which": "the old ones", "why": "to learn"}


@pytest.mark.anyio
async def test_a_run_is_made_from_within_an_async_test(run_plan: PlanRunner) -> None:
    assert run_plan(JOB).verdict == "achieved"
