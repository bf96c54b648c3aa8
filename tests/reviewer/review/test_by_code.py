from __future__ import annotations

import pytest

from tests.reviewer.scripted_runs import Fails, ScriptedRun, goal_for, plan_of, run_plan, signature
from wavewright.executor.events.state import fold
from wavewright.executor.events.types import GateRecord, StepFinished
from wavewright.planner.types import GateId, Json, JsonObject, StepId
from wavewright.reviewer.records import ReviewResult
from wavewright.reviewer.review.by_code import review_by_code

A: JsonObject = {"id": "a"}
B: JsonObject = {"id": "b", "params": {"of": "${steps.a}"}}


def review(run: ScriptedRun) -> ReviewResult:
    return review_by_code(run.plan, run.goal, run.state, run.tools)


def test_a_run_with_green_gates_and_all_outputs_is_achieved() -> None:
    gate: JsonObject = {"id": "g", "on": "a", "check": "output > 0"}
    found = review(run_plan(plan_of(A, B, gates=[gate]), {"a": 1, "b": 2}))

    assert found.goal_achieved
    assert found.missing_data == ()
    assert found.summary == (
        "Goal achieved: every mandatory gate passed and everything that the result needs is there. "
        "Confidence 0.80, lowered by caps from 1.00. "
        "Reviewed by code from the gates and the steps' ends; no model read the result."
    )


def test_a_red_block_gate_is_told_with_the_items_by_their_key_and_what_would_mend_it() -> None:
    stocks: JsonObject = {"stocks": [{"code": "GNP"}, {"code": "SKS"}, {"code": "XRO"}]}
    plan = plan_of(
        {"id": "prices", "tool": "fetch", "for_each": "${inputs.stocks}"},
        {"id": "summary", "params": {"of": "${steps.prices}"}},
        inputs=stocks,
    )
    gate: JsonObject = {
        "id": "fresh",
        "on_tool": "fetch",
        "fresh_within": "24h",
        "hint": "fetch again with force=true",
    }
    goal = goal_for(plan, inputs=stocks, gates=[gate], targets={"key": "code"})
    old, new = {"as_of": "2009-01-01"}, {"as_of": "2010-03-01"}
    found = review(
        run_plan(
            plan,
            {"prices": [old, new, old], "summary": 1},
            signature("fetch", freshness_field="as_of"),
            goal=goal,
        )
    )

    assert not found.goal_achieved
    assert found.missing_data == (
        "prices[GNP, XRO]: as_of is 423 days old, and at most 24 h is allowed (gate 'fresh__prices')",
        "summary: blocked",
    )
    assert [action.hint for action in found.recovery_actions] == ["fetch again with force=true"]
    assert "Gate 'fresh__prices' stopped prices[GNP, XRO]" in found.summary
    assert "Steps that depend on it did not run: summary." in found.summary
    assert "What would fix it: fetch again with force=true." in found.summary


def test_a_sentence_ends_with_one_full_stop_whoever_wrote_its_end() -> None:
    found = review(run_plan(plan_of(A), {"a": Fails("There is no file.", hint="Put one there!")}))

    assert "Step 'a' failed (tool): There is no file. Lacking: a: failed. " in found.summary
    assert "What would fix it: Put one there! Confidence" in found.summary


def test_a_warning_does_not_fail_the_run_and_is_told() -> None:
    gate: JsonObject = {
        "id": "g",
        "on": "a",
        "check": "output > 1",
        "severity": "warn",
        "hint": "look again",
    }
    found = review(run_plan(plan_of(A, B, gates=[gate]), {"a": 1, "b": 2}))

    assert found.goal_achieved
    assert "1 gate left a warning." in found.summary
    assert found.missing_data == ("a: output > 1 is false (output = 1) (gate 'g')",)
    assert [action.hint for action in found.recovery_actions] == ["look again"]


def test_a_judge_gate_nobody_could_ask_does_not_fail_the_run_and_asks_for_a_model() -> None:
    gate: JsonObject = {"id": "style", "on": "b", "judge": {"rubric": "Is it clear?"}}
    found = review(run_plan(plan_of(A, B, gates=[gate]), {"a": 1, "b": 2}))

    assert found.goal_achieved
    assert [action.action for action in found.recovery_actions] == ["configure"]


def test_a_mandatory_gate_that_was_never_asked_is_not_green() -> None:
    run = run_plan(plan_of(A), {"a": 1})
    gated = run.plan.model_copy(
        update={"gates": plan_of(A, gates=[{"id": "g", "on": "a", "check": "true"}]).gates}
    )
    found = review_by_code(gated, run.goal, run.state, run.tools)

    assert not found.goal_achieved
    assert found.missing_data == ("a: was not evaluated (gate 'g')",)


def test_a_failed_step_fails_the_run_though_other_branches_are_whole() -> None:
    found = review(
        run_plan(
            plan_of(A, {"id": "c"}, B),
            {"a": Fails("no such code", hint="name a listed code"), "c": 1},
        )
    )

    assert not found.goal_achieved
    assert found.missing_data[0] == "a: failed (tool): no such code"
    assert [(action.action, action.step, action.hint) for action in found.recovery_actions] == [
        ("provide_input", "a", "name a listed code")
    ]


def test_an_optional_step_that_fails_is_absent_and_does_not_fail_the_run() -> None:
    plan = plan_of(
        {"id": "index", "optional": True},
        {"id": "b", "params": {"of": "${has(steps.index) ? 1 : 2}"}},
    )
    found = review(run_plan(plan, {"index": Fails("HTTP 503", "transient"), "b": 1}))

    assert found.goal_achieved
    assert "Absent, but optional: index." in found.summary
    assert found.missing_data == ("index: failed (transient): HTTP 503",)


def test_an_optional_step_that_a_gate_stopped_is_absent_too() -> None:
    plan = plan_of(
        {"id": "index", "optional": True},
        {"id": "b", "params": {"of": "${has(steps.index) ? 1 : 2}"}},
        gates=[{"id": "g", "on": "index", "check": "output > 1"}],
    )
    found = review(run_plan(plan, {"index": 1, "b": 1}))

    assert found.goal_achieved
    assert "index" in found.summary


def test_items_that_failed_while_enough_did_not_are_listed() -> None:
    plan = plan_of({"id": "a", "for_each": [{"name": "x"}, {"name": "y"}], "min_ok": 1})
    found = review(run_plan(plan, {"a": [1, Fails("gone")]}))

    assert found.goal_achieved
    assert found.missing_data == ("a[y]: these items failed (tool): gone",)


@pytest.mark.parametrize(
    ("items", "label"),
    [
        pytest.param([3, 0], "value 0", id="integers"),
        pytest.param([0.5, 1.5], "value 1.5", id="numbers"),
        pytest.param([{"id": 7}, {"id": 0}], "id 0", id="numbers of objects"),
        pytest.param([True, False], "item 1", id="booleans"),
        pytest.param([["x"], ["y"]], "item 1", id="lists"),
        pytest.param(["x", ""], "item 1", id="an empty text"),
    ],
)
def test_the_number_of_an_item_is_not_taken_for_its_position(items: list[Json], label: str) -> None:
    plan = plan_of({"id": "a", "for_each": items, "min_ok": 1})
    found = review(run_plan(plan, {"a": [1, Fails("gone")]}))

    assert found.missing_data == (f"a[{label}]: these items failed (tool): gone",)


def test_no_reason_of_one_item_stands_for_another() -> None:
    plan = plan_of({"id": "a", "for_each": [*"uvwxyz"], "min_ok": 1})
    fails = [Fails("gone"), Fails("moved"), Fails("gone"), Fails("shut"), Fails("lost")]
    found = review(run_plan(plan, {"a": [1, *fails]}))

    assert found.missing_data == (
        "a[v, w, x, y, z]: these items failed (tool): gone; moved; shut; and 1 other reason",
    )


def test_no_reason_of_one_item_stands_for_another_where_all_failed() -> None:
    plan = plan_of({"id": "a", "for_each": [*"wxyz"]})
    fails = [Fails("gone"), Fails("moved"), Fails("gone"), Fails("shut")]
    found = review(run_plan(plan, {"a": fails}))

    assert found.missing_data == ("a[w, x, y, z]: failed (tool): gone; moved; shut",)


def test_an_empty_terminal_output_is_missing() -> None:
    nothing: list[Json] = [None, "", [], {}]
    for empty in nothing:
        found = review(run_plan(plan_of(A), {"a": empty}))

        assert not found.goal_achieved
        assert found.missing_data == ("a: its output is empty",)


def test_a_terminal_step_over_no_items_or_of_a_writing_tool_may_be_empty() -> None:
    assert review(run_plan(plan_of({"id": "a", "for_each": []}), {"a": []})).goal_achieved
    send = plan_of({"id": "send", "tool": "send"})
    assert review(
        run_plan(send, {"send": None}, signature("send", effects={"write"}))
    ).goal_achieved


def test_of_two_endings_one_may_be_skipped_and_not_both() -> None:
    steps: list[JsonObject] = [
        A,
        {"id": "b", "when": "steps.a > 1"},
        {"id": "c", "when": "steps.a <= 1"},
    ]
    assert review(run_plan(plan_of(*steps), {"a": 1, "c": 5})).goal_achieved

    neither: list[JsonObject] = [A, {"id": "b", "when": "steps.a > 1"}]
    found = review(run_plan(plan_of(*neither), {"a": 1}))
    assert not found.goal_achieved
    assert found.missing_data == ("b: skipped",)


def test_the_result_that_a_plan_names_must_be_there() -> None:
    plan = plan_of(A, result="${steps.a.figures}")

    assert review(run_plan(plan, {"a": {"figures": 3}})).goal_achieved
    found = review(run_plan(plan, {"a": {"other": 3}}))
    assert not found.goal_achieved
    assert found.missing_data == (
        "result: step 'a' has no field 'figures'; it has: other: an integer, in ${steps.a.figures}",
    )


def test_a_part_of_the_result_that_only_an_optional_step_would_bring_may_be_null() -> None:
    plan = plan_of(
        A,
        {"id": "news", "optional": True},
        result={"main": "${steps.a}", "news": "${steps.news}", "none": []},
    )
    found = review(run_plan(plan, {"a": 1, "news": Fails()}))

    assert found.goal_achieved
    assert "result.news: ${steps.news} is missing" in found.missing_data


def test_a_part_of_the_result_that_cannot_be_computed_says_why() -> None:
    plan = plan_of(A, result={"rates": ["${steps.a.known[0]}", "${steps.a.none[0]}"]})

    found = review(run_plan(plan, {"a": {"known": [1], "none": []}}))

    assert found.missing_data == (
        "result.rates[1]: 'steps.a.none' has 0 elements, so there is no [0], in ${steps.a.none[0]}",
    )


def test_a_result_that_breaks_the_goals_schema_is_not_the_goal() -> None:
    plan = plan_of(A, result="${steps.a}")
    goal = goal_for(plan, output_schema={"type": "object", "required": ["title"]})

    assert review(run_plan(plan, {"a": {"title": "T"}}, goal=goal)).goal_achieved
    found = review(run_plan(plan, {"a": {"text": "T"}}, goal=goal))
    assert not found.goal_achieved
    assert found.missing_data == ("result: the top lacks 'title'",)


def test_a_list_of_results_fits_the_goals_schema_entry_by_entry() -> None:
    plan = plan_of({"id": "a", "for_each": [1, 2]})
    goal = goal_for(plan, output_schema={"type": "object", "required": ["title"]})

    assert review(run_plan(plan, {"a": [{"title": "T"}, {"title": "U"}]}, goal=goal)).goal_achieved
    found = review(run_plan(plan, {"a": [{"title": "T"}, {}]}, goal=goal))
    assert found.missing_data[0].startswith("a: [1] lacks 'title'")


def test_a_superseded_step_counts_no_longer_once_its_successor_passed_the_same_gate() -> None:
    plan = plan_of(
        A,
        {"id": "a_2", "supersedes": "a"},
        {"id": "b", "params": {"of": "${steps.a_2}"}},
        gates=[{"id": "g", "on": "a_2", "check": "output > 1"}],
    )
    run = run_plan(plan, {"a": 1, "a_2": 2, "b": 3})
    red = GateRecord(GateId("g"), StepId("a"), "check", "block", "fail", "output > 1", "is false")
    events = [
        _with_gate(event, red) if isinstance(event, StepFinished) and event.step == "a" else event
        for event in run.events
    ]

    assert review_by_code(run.plan, run.goal, fold(events), run.tools).goal_achieved


def test_superseding_a_step_cannot_shake_off_a_gate_that_the_successor_was_not_asked() -> None:
    plan = plan_of(A, {"id": "a_2", "supersedes": "a"})
    run = run_plan(plan, {"a": 1, "a_2": 2})
    red = GateRecord(GateId("g"), StepId("a"), "check", "block", "fail", "output > 1", "is false")
    events = [
        _with_gate(event, red) if isinstance(event, StepFinished) and event.step == "a" else event
        for event in run.events
    ]

    assert not review_by_code(run.plan, run.goal, fold(events), run.tools).goal_achieved


def _with_gate(event: StepFinished, record: GateRecord) -> StepFinished:
    return StepFinished(
        event.at,
        event.step,
        event.status,
        output=event.output,
        gates=(record,),
        started=event.started,
    )
