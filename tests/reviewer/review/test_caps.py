from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tests.reviewer.scripted_runs import Fails, goal_for, plan_of, run_plan, signature
from wavewright.planner.types import Json, JsonObject, StepId
from wavewright.reviewer.package.builder import build_package
from wavewright.reviewer.records import CapRecord, Confidence, ReviewResult
from wavewright.reviewer.review.by_code import review_by_code
from wavewright.reviewer.review.caps import compute_confidences, stated_confidence
from wavewright.reviewer.review.results import StepEvidence, raw_overall


def confidence(review: ReviewResult, field: str = "overall") -> Confidence:
    return next(found for found in review.confidences if found.field == field)


def review(*steps: JsonObject, answers: dict[str, object], **plan: Json) -> ReviewResult:
    run = run_plan(plan_of(*steps, **plan), answers)
    return review_by_code(run.plan, run.goal, run.state, run.tools)


def test_everything_there_is_full_raw_confidence_and_code_review_caps_it() -> None:
    found = confidence(
        review({"id": "a"}, {"id": "b", "depends_on": ["a"]}, answers={"a": 1, "b": 2})
    )

    assert (found.raw, found.capped) == (1.0, 0.8)
    assert found.lowered_by[-1] == "at most 0.8: reviewed by code alone; no model read the result"


def test_an_optional_step_has_half_the_weight_of_a_mandatory_one() -> None:
    found = review({"id": "a"}, {"id": "b", "optional": True}, answers={"a": 1, "b": Fails()})

    assert confidence(found).raw == pytest.approx(1 / 1.5)


def test_a_skipped_step_does_not_count() -> None:
    found = review({"id": "a"}, {"id": "b", "when": "false"}, answers={"a": 1})

    assert confidence(found).raw == 1.0


def test_failed_items_cost_their_share() -> None:
    step: JsonObject = {"id": "a", "for_each": [1, 2, 3, 4], "min_ok": 1}
    found = review(step, answers={"a": [1, 2, 3, Fails()]})

    assert confidence(found).raw == 0.75


def test_an_empty_output_is_half_of_what_it_should_be() -> None:
    found = review({"id": "a"}, {"id": "b", "depends_on": ["a"]}, answers={"a": [], "b": 1})

    assert confidence(found).raw == 0.75


def test_an_empty_list_of_items_and_a_silent_writer_are_not_lacking() -> None:
    plan = plan_of({"id": "a", "for_each": []}, {"id": "send", "tool": "send", "depends_on": ["a"]})
    run = run_plan(plan, {"a": [], "send": None}, signature("send", effects={"write"}))

    assert confidence(review_by_code(run.plan, run.goal, run.state, run.tools)).raw == 1.0


def test_a_warning_lowers_the_raw_figure_by_the_share_of_calls_that_it_is_red_on() -> None:
    gate: JsonObject = {"id": "g", "on": "a", "check": "output > 1", "severity": "warn"}
    found = review({"id": "a", "for_each": [1, 2]}, answers={"a": [1, 2]}, gates=[gate])

    assert confidence(found).raw == pytest.approx(0.9)


def test_a_rung_below_a_planner_caps_every_field() -> None:
    run = run_plan(plan_of({"id": "a"}), {"a": {"confidence": {"trend": 0.99}}}, rung="template")
    found = review_by_code(run.plan, run.goal, run.state, run.tools)
    reasons = [cap.because for cap in found.caps if cap.applied]

    assert len(reasons) == 2
    assert "template" in reasons[0]
    assert confidence(found, "trend").capped == 0.8


def test_a_cap_of_the_plan_holds_while_its_condition_does() -> None:
    steps: list[JsonObject] = [{"id": "index", "optional": True}, {"id": "a"}]
    cap: JsonObject = {
        "field": "trend",
        "when": "!has(steps.index)",
        "max": 0.4,
        "because": "no benchmark",
    }
    without = review(
        *steps, answers={"index": Fails(), "a": {"confidence": {"trend": 0.7}}}, caps=[cap]
    )
    with_it = review(*steps, answers={"index": 1, "a": {"confidence": {"trend": 0.7}}}, caps=[cap])

    assert (confidence(without, "trend").raw, confidence(without, "trend").capped) == (0.7, 0.4)
    assert "at most 0.4: no benchmark" in confidence(without, "trend").lowered_by
    assert confidence(with_it, "trend").capped == 0.7


def test_a_cap_that_cannot_be_evaluated_applies_and_says_so() -> None:
    cap: JsonObject = {
        "field": "overall",
        "when": "steps.gone.rows > 3",
        "max": 0.2,
        "because": "few rows",
    }
    found = review({"id": "a"}, answers={"a": 1}, caps=[cap])

    assert confidence(found).capped == 0.2
    assert found.caps[0].applied
    assert found.caps[0].fault is not None
    assert any("could not be evaluated" in line for line in confidence(found).lowered_by)


def test_a_cap_on_a_field_that_nothing_names_still_leaves_a_record() -> None:
    cap: JsonObject = {"field": "lore", "max": 0.3, "because": "nobody looked"}
    found = review({"id": "a"}, answers={"a": 1}, caps=[cap])

    assert (confidence(found, "lore").raw, confidence(found, "lore").capped) == (1.0, 0.3)


def test_a_cap_of_the_goal_is_told_apart_from_one_of_the_plan() -> None:
    plan = plan_of({"id": "a"}, caps=[{"field": "x", "max": 0.5, "because": "mine"}])
    goal = goal_for(plan, caps=[{"field": "y", "max": 0.5, "because": "yours"}])
    run = run_plan(plan, {"a": 1}, goal=goal)
    found = review_by_code(run.plan, run.goal, run.state, run.tools)

    assert [(cap.field, cap.origin) for cap in found.caps] == [
        ("x", "plan"),
        ("y", "goal"),
        ("*", "engine"),
    ]


def test_a_stated_overall_figure_can_lower_the_computed_one_and_not_raise_it() -> None:
    assert confidence(review({"id": "a"}, answers={"a": {"confidence": 0.3}})).raw == 0.3
    low = review(
        {"id": "a"}, {"id": "b", "optional": True}, answers={"a": {"confidence": 1.0}, "b": Fails()}
    )
    assert confidence(low).raw == pytest.approx(2 / 3)


def test_stated_figures_are_read_from_lists_and_clamped_and_the_lowest_counts() -> None:
    outputs: list[tuple[str, Json]] = [
        ("one", [{"confidence": {"a": 7}}, {"confidence": {"a": 0.5, "b": True, "c": "high"}}]),
        ("two", {"confidence": {"a": -1}}),
        ("three", "text"),
    ]

    assert stated_confidence(outputs) == {"a": {"one[0]": 1.0, "one[1]": 0.5, "two": 0.0}}


def capped_result(
    *steps: JsonObject, answers: dict[str, object], caps: list[Json], **plan: Json
) -> Json:
    """Return the result of the package of a run under these caps."""
    run = run_plan(plan_of(*steps, caps=caps, **plan), answers)
    verdict = review_by_code(run.plan, run.goal, run.state, run.tools)
    return build_package(run.plan, run.goal, run.state, verdict, run.tools).result


LOW: JsonObject = {"field": "npcs", "max": 0.2, "because": "one source"}


@pytest.mark.parametrize(
    ("claimed", "told"),
    [
        pytest.param(
            {"confidence": {"npcs": 0.9}}, {"confidence": {"npcs": 0.2}}, id="a capped field"
        ),
        pytest.param(
            {"confidence": {"npcs": 0.1}}, {"confidence": {"npcs": 0.1}}, id="a lower claim"
        ),
        pytest.param({"confidence": 0.9}, {"confidence": 0.8}, id="the whole, reviewed by code"),
        pytest.param([{"confidence": 0.9}], [{"confidence": 0.8}], id="an entry of a list"),
        pytest.param(
            {"zone": {"confidence": {"npcs": 0.9, "lore": 1}}},
            {"zone": {"confidence": {"npcs": 0.2, "lore": 0.8}}},
            id="an object further in",
        ),
        pytest.param(
            {"npcs": [{"name": "Gryan", "confidence": 0.9}]},
            {"npcs": [{"name": "Gryan", "confidence": 0.2}]},
            id="a record of a capped field",
        ),
        pytest.param(
            {"confidence": {"npcs": "high", "lore": True}},
            {"confidence": {"npcs": "high", "lore": True}},
            id="no figures",
        ),
    ],
)
def test_a_result_states_no_more_than_its_caps_let_it(claimed: Json, told: Json) -> None:
    assert (
        capped_result({"id": "a"}, answers={"a": claimed}, caps=[LOW], result="${steps.a}") == told
    )


def test_each_of_several_outputs_is_under_the_cap_of_the_whole() -> None:
    cap: JsonObject = {"field": "overall", "max": 0.3, "because": "few sources"}
    found = capped_result(
        {"id": "a"}, {"id": "b"}, answers={"a": {"confidence": 0.9}, "b": 1}, caps=[cap]
    )

    assert found == {"a": {"confidence": 0.3}, "b": 1}


def test_two_outputs_that_state_a_field_keep_their_own_figures_and_the_result_has_the_lowest() -> (
    None
):
    steps: list[JsonObject] = [{"id": "a"}, {"id": "b"}]
    answers: dict[str, object] = {
        "a": {"confidence": {"lore": 0.7}},
        "b": {"confidence": {"lore": 0.4}},
    }
    apart = capped_result(*steps, answers=answers, caps=[LOW])
    first = capped_result(*steps, answers=answers, caps=[LOW], result="${steps.a}")

    assert apart == {"a": {"confidence": {"lore": 0.7}}, "b": {"confidence": {"lore": 0.4}}}
    assert first == {"confidence": {"lore": 0.4}}


def test_a_document_states_no_more_than_its_caps_let_it() -> None:
    claimed: JsonObject = {"document": {"title": "Npcs", "content": {"confidence": {"npcs": 0.9}}}}
    run = run_plan(plan_of({"id": "a"}, caps=[LOW]), {"a": claimed})
    verdict = review_by_code(run.plan, run.goal, run.state, run.tools)
    [document] = build_package(run.plan, run.goal, run.state, verdict, run.tools).documents

    assert document.content == {"confidence": {"npcs": 0.2}}


FIGURES = st.floats(0, 1)


@given(
    shares=st.lists(st.tuples(st.sampled_from([0.5, 1.0]), FIGURES), max_size=8),
    stated=st.dictionaries(st.sampled_from(["overall", "a", "b"]), FIGURES),
    caps=st.lists(
        st.tuples(st.sampled_from(["overall", "a", "*", "z"]), FIGURES, st.booleans()), max_size=6
    ),
)
def test_no_cap_raises_a_figure_and_every_cap_that_holds_is_kept(
    shares: list[tuple[float, float]], stated: dict[str, float], caps: list[tuple[str, float, bool]]
) -> None:
    evidence = tuple(
        StepEvidence(StepId(f"s{n}"), weight, share) for n, (weight, share) in enumerate(shares)
    )
    records = tuple(
        CapRecord(field=name, max=most, because="why", applied=holds) for name, most, holds in caps
    )
    found = compute_confidences(
        evidence, {name: {"x": figure} for name, figure in stated.items()}, records
    )

    assert {*stated, "overall"} <= {each.field for each in found}
    assert 0 <= raw_overall(evidence) <= 1
    for each in found:
        ceilings = [cap.max for cap in records if cap.applied and cap.field in {each.field, "*"}]
        assert each.capped == min([each.raw, *ceilings])
