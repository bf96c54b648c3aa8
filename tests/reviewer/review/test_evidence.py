"""What a verdict rests on: gates that were evaluated on all that they had failed on, and the figure
that follows from it.
"""

from __future__ import annotations

import pytest

from tests.reviewer.scripted_runs import Fails, ScriptedRun, goal_for, plan_of, run_plan, signature
from wavewright.planner.types import Json, JsonObject
from wavewright.reviewer.package.builder import build_package
from wavewright.reviewer.package.confidence_proof import (
    proof_of,
    reviewed_field,
    reviewed_fields,
)
from wavewright.reviewer.records import Confidence, ReviewResult
from wavewright.reviewer.review.by_code import review_by_code

FETCH = signature("fetch", tags=["data"])
ADD_UP = signature("add_up", tags=["analysis"])


def review(run: ScriptedRun) -> ReviewResult:
    return review_by_code(run.plan, run.goal, run.state, run.tools)


def overall(found: ReviewResult) -> Confidence:
    return next(each for each in found.confidences if each.field == "overall")


def fetched_again(
    second: Json, answers: list[Json], *, may_drop: tuple[str, ...] = (), gated: bool = True
) -> ReviewResult:
    """Return the review of a run in which the prices of three codes were fetched a second time."""
    plan = plan_of(
        {"id": "prices", "tool": "fetch", "for_each": ["A", "B", "C"]},
        {"id": "prices_2", "tool": "fetch", "for_each": second, "supersedes": "prices"},
        {"id": "sum", "tool": "add_up", "params": {"of": "${steps.prices_2}"}},
        gates=[
            {"id": "pos_before", "on": "prices", "check": "output > 0"},
            {"id": "pos", "on": "prices_2", "check": "output > 0"},
        ]
        if gated
        else [],
        result="${steps.sum}",
    )
    goal = goal_for(plan, may_drop=may_drop)
    first: list[Json] = [1, 0, 3] if gated else [1, 2, 3]
    scripted: dict[str, object] = {"prices": first, "prices_2": answers, "sum": 6}
    return review(run_plan(plan, scripted, FETCH, ADD_UP, goal=goal))


def test_items_that_are_all_there_again_lift_nothing_and_lower_nothing() -> None:
    found = fetched_again(["A", "B", "C"], [1, 2, 3], gated=False)

    assert found.goal_achieved
    assert overall(found).capped == 0.8


@pytest.mark.parametrize(
    ("second", "answers"), [(["A", "C"], [1, 3]), ([], []), (["A", "C", "A"], [1, 3, 1])]
)
def test_items_that_a_recovery_leaves_out_keep_the_goal_from_being_achieved(
    second: Json, answers: list[Json]
) -> None:
    found = fetched_again(second, answers, gated=False)

    assert not found.goal_achieved
    assert any("were left out" in line for line in found.missing_data)


@pytest.mark.parametrize(
    ("second", "is_achieved"),
    [([1, 2, 3], True), ([1, 0, 3], False), ([1, Fails("gone"), 3], False)],
)
def test_a_gate_is_lifted_only_by_an_item_that_it_was_evaluated_on(
    *, second: list[Json | Fails], is_achieved: bool
) -> None:
    codes: Json = ["A", "B", "C"]
    plan = plan_of(
        {"id": "prices", "tool": "fetch", "for_each": codes},
        {"id": "prices_2", "tool": "fetch", "for_each": codes, "supersedes": "prices", "min_ok": 0},
        gates=[
            {"id": "pos__prices", "on": "prices", "check": "output > 0"},
            {"id": "pos__prices_2", "on": "prices_2", "check": "output > 0"},
        ],
        result="${steps.prices_2}",
    )
    scripted: dict[str, object] = {"prices": [1, 0, 3], "prices_2": second}

    assert review(run_plan(plan, scripted, FETCH)).goal_achieved is is_achieved


def test_items_may_be_left_out_where_the_goal_says_so_and_the_confidence_falls() -> None:
    found = fetched_again(["A", "C"], [1, 3], gated=False, may_drop=("fetch",))

    assert found.goal_achieved
    assert overall(found).capped == pytest.approx(2 / 3, abs=1e-3)
    assert "1 of 3 items of 'prices' were left out: B" in " ".join(overall(found).lowered_by)


@pytest.mark.parametrize(
    ("kept", "may_drop", "is_achieved"),
    [
        (["A", "C"], ("pos",), True),
        (["A", "C"], ("pos__prices",), True),
        (["C"], ("pos",), False),
        (["A"], ("pos",), False),
        (["A"], ("small",), False),
        (["A"], ("pos", "small"), True),
        (["A"], ("fetch",), True),
    ],
)
def test_a_gate_that_may_be_dropped_lets_only_what_it_stopped_be_left_out(
    kept: list[str], may_drop: tuple[str, ...], *, is_achieved: bool
) -> None:
    checks = {"pos": "output > 0", "small": "output < 9"}
    plan = plan_of(
        {"id": "prices", "tool": "fetch", "for_each": ["A", "B", "C"]},
        {"id": "prices_2", "tool": "fetch", "for_each": [*kept], "supersedes": "prices"},
        gates=[
            {"id": f"{gate}__{step}", "on": step, "check": check}
            for gate, check in checks.items()
            for step in ("prices", "prices_2")
        ],
        result="${steps.prices_2}",
    )
    again = {"A": 1, "C": 8}
    scripted: dict[str, object] = {
        "prices": [1, 0, 30],
        "prices_2": [again[code] for code in kept],
    }
    goal = goal_for(plan, may_drop=may_drop)

    assert review(run_plan(plan, scripted, FETCH, goal=goal)).goal_achieved is is_achieved


def test_one_call_does_not_stand_for_the_items_of_a_step() -> None:
    plan = plan_of(
        {"id": "prices", "tool": "fetch", "for_each": ["A", "B", "C"]},
        {"id": "prices_2", "tool": "fetch", "supersedes": "prices"},
        result="${steps.prices_2}",
    )

    assert not review(run_plan(plan, {"prices": [1, 2, 3], "prices_2": 1}, FETCH)).goal_achieved


def test_without_a_result_the_confidence_in_the_goal_is_low_whatever_the_data_is_worth() -> None:
    plan = plan_of(
        {"id": "a"},
        {"id": "b", "params": {"of": "${steps.a}"}, "when": "steps.a > 5"},
        result="${steps.b}",
    )
    found = review(run_plan(plan, {"a": 1, "b": 2}))

    assert overall(found).capped <= 0.2
    assert found.data is not None
    assert found.data.capped == 1.0


def test_the_confidence_is_at_most_the_share_of_the_mandatory_gates_that_pass() -> None:
    plan = plan_of(
        {"id": "a"},
        {"id": "b"},
        gates=[
            {"id": "good", "on": "a", "check": "output > 0"},
            {"id": "bad", "on": "b", "check": "output > 5"},
            {"id": "also", "on": "a", "check": "output < 5"},
        ],
        result="${steps.a}",
    )
    found = review(run_plan(plan, {"a": 1, "b": 2}))

    assert found.mandatory_gates == (2, 3)
    assert overall(found).capped <= 2 / 3
    assert not found.goal_achieved


def test_a_failure_that_leaves_the_data_nearly_whole_is_not_a_high_confidence() -> None:
    steps: list[JsonObject] = [{"id": f"s{number}"} for number in range(9)]
    plan = plan_of(*steps, {"id": "last"}, result="${steps.s1}")
    answers: dict[str, object] = {f"s{number}": 1 for number in range(9)}
    found = review(run_plan(plan, {**answers, "last": Fails()}))

    assert not found.goal_achieved
    assert overall(found).capped <= 0.6
    assert found.data is not None
    assert found.data.capped == pytest.approx(0.9)


WRITTEN: JsonObject = {"title": "Prices of 2010", "sum": "${steps.sum}"}
SUMMED: tuple[JsonObject, ...] = (
    {"id": "prices", "tool": "fetch"},
    {"id": "sum", "tool": "add_up", "params": {"of": "${steps.prices}"}},
)


def written(rung: str, *allowed: str, result: Json = WRITTEN) -> ReviewResult:
    plan = plan_of(*SUMMED, result=result)
    goal = goal_for(plan, allow_literals=allowed)
    return review(run_plan(plan, {"prices": 1, "sum": 6}, FETCH, ADD_UP, goal=goal, rung=rung))


def capped(found: ReviewResult) -> dict[str, float]:
    return {each.field: each.capped for each in found.confidences}


def test_a_field_that_the_planner_may_write_is_capped_and_the_others_are_not() -> None:
    found = written("llm", "title")

    assert capped(found) == {"overall": 0.8, "title": 0.3}
    assert found.provenance[0].is_by_planner
    assert found.provenance[1].data == ("prices",)


def test_a_field_that_the_planner_may_not_write_caps_all() -> None:
    assert capped(written("llm"))["overall"] == 0.3


def test_a_result_of_nothing_but_what_the_planner_may_write_caps_all() -> None:
    assert capped(written("llm", "title", result={"title": "Prices"}))["overall"] == 0.3


def test_what_people_write_into_a_plan_is_shown_and_not_capped() -> None:
    found = written("given")

    assert capped(found) == {"overall": 0.8}
    assert found.provenance[0].literals == ("Prices of 2010",)


@pytest.mark.parametrize("field", ["n", "total"])
def test_the_fields_of_a_result_that_is_one_output_are_explained(field: str) -> None:
    plan = plan_of(*SUMMED, result="${steps.sum}")
    run = run_plan(plan, {"prices": 1, "sum": {"n": 1, "total": 6}}, FETCH, ADD_UP)
    package = build_package(run.plan, run.goal, run.state, review(run), run.tools)
    assert package.review is not None

    assert field in reviewed_fields(package, package.review)
    lines = list(proof_of(package, package.review, field).lines())
    assert lines[0] == f"{field} 0.80"
    assert lines[1] == "  from result: data of prices"


def test_a_cap_on_a_field_of_list_items_lowers_what_they_state_and_nothing_else() -> None:
    item: JsonObject = {"confidence": {"volatility": 0.9, "price": 0.9}}
    plan = plan_of(
        {"id": "a", "tool": "fetch"},
        result={"returns": "${steps.a}"},
        caps=[
            {"field": "returns[*].volatility", "max": 0.4, "because": "few days"},
            {"field": "returns[1].price", "max": 0.2, "because": "one source"},
        ],
    )
    run = run_plan(plan, {"a": [item, item]}, FETCH)
    package = build_package(run.plan, run.goal, run.state, review(run), run.tools)

    assert package.result == {
        "returns": [
            {"confidence": {"volatility": 0.4, "price": 0.8}},
            {"confidence": {"volatility": 0.4, "price": 0.2}},
        ]
    }
    assert package.review is not None
    of_paths = {
        "returns[0].confidence.volatility": "returns",
        "returns[1]": "returns",
        "returns[*].volatility": "returns[*].volatility",
        "returns[2]": None,
        "other": None,
    }
    for path, field in of_paths.items():
        assert reviewed_field(package, package.review, path) == field
