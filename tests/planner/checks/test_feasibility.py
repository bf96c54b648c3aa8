"""An estimate of what models may take, held against what is left."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, strategies as st

from wavewright.planner.checks.checker import check
from wavewright.planner.diagnostics.diagnostic import Diagnostic
from wavewright.planner.language.plan import Budget, Limits, Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.estimates import estimate_plan_tokens
from wavewright.planner.ports.budgets import Allowance, RemainingBudget
from wavewright.planner.types import StepId

TOOLS = {
    "fetch": ToolSignature(name="fetch", output_schema={"type": "array"}),
    "ask": ToolSignature(name="ask", expected_tokens=1_000, output_schema={"type": "string"}),
    "look": ToolSignature(name="look"),
    "judge": ToolSignature(name="judge", expected_tokens=50, output_schema={"type": "string"}),
}


def plan_of(*steps: Mapping[str, object], **fields: object) -> Plan:
    return Plan.model_validate({"steps": steps, **fields})


def found(
    plan: Plan, allowance: Allowance | None = None, *, limits: Limits | None = None
) -> list[Diagnostic]:
    return [
        one
        for one in check(plan, None, TOOLS, allowance=allowance, limits=limits)
        if one.code.startswith("E7")
    ]


def codes(found: list[Diagnostic]) -> list[str]:
    return [one.code for one in found]


@pytest.mark.parametrize(
    ("for_each", "tokens", "is_least"),
    [
        pytest.param(None, 1_000, False, id="no list"),
        pytest.param(["a", "b"], 2_000, False, id="a literal list"),
        pytest.param("${inputs.stocks}", 3_000, False, id="an input"),
        pytest.param(
            "${inputs.stocks.filter(s, s != 'b')}", 2_000, False, id="made of inputs alone"
        ),
        pytest.param([], 0, False, id="an empty list"),
        pytest.param("${steps.rows}", 1_000, True, id="an output"),
    ],
)
def test_items_are_counted_where_they_are_known(
    for_each: object, tokens: int, *, is_least: bool
) -> None:
    step = {"id": "asked", "tool": "ask", "for_each": for_each}
    plan = plan_of({"id": "rows", "tool": "fetch"}, step, inputs={"stocks": ["a", "b", "c"]})

    estimate = estimate_plan_tokens(plan, TOOLS)

    assert (estimate.tokens, estimate.is_lower_bound) == (tokens, is_least)
    assert [step.step for step in estimate.steps] == ["asked"]


def test_an_unknown_tool_and_one_that_asks_no_model_count_as_nothing() -> None:
    plan = plan_of({"id": "a", "tool": "fetch"}, {"id": "b", "tool": "nobody_has_it"})

    assert estimate_plan_tokens(plan, TOOLS).steps == ()


def test_what_has_run_or_is_superseded_counts_no_more() -> None:
    plan = plan_of(
        {"id": "a", "tool": "ask"},
        {"id": "b", "tool": "ask"},
        {"id": "b_2", "tool": "judge", "supersedes": "b"},
    )

    assert estimate_plan_tokens(plan, TOOLS).tokens == 1_050
    assert estimate_plan_tokens(plan, TOOLS, finished={StepId("a")}).tokens == 50


def test_a_plan_that_takes_exactly_what_is_left_is_sound() -> None:
    plan = plan_of({"id": "a", "tool": "ask"}, {"id": "b", "tool": "ask"})
    left = RemainingBudget(tokens=2_000, calls=2)

    assert found(plan, Allowance(run=left, job=left, day=left)) == []


@pytest.mark.parametrize(
    ("allowance", "code", "words"),
    [
        pytest.param(
            Allowance(run=RemainingBudget(tokens=1_999)), "E701", "the run has 1,999 left", id="run"
        ),
        pytest.param(
            Allowance(job=RemainingBudget(tokens=0)), "E702", "the job has 0 left", id="job"
        ),
        pytest.param(
            Allowance(day=RemainingBudget(tokens=1)), "E703", "the day has 1 left", id="day"
        ),
        pytest.param(
            Allowance(run=RemainingBudget(calls=1)),
            "E701",
            "2 calls of models, and the run has 1",
            id="calls",
        ),
    ],
)
def test_an_estimate_over_what_is_left_names_the_budget(
    allowance: Allowance, code: str, words: str
) -> None:
    plan = plan_of({"id": "a", "tool": "ask"}, {"id": "b", "tool": "ask"})

    (diagnostic,) = found(plan, allowance)

    assert diagnostic.code == code
    assert words in diagnostic.message


def test_the_most_expensive_steps_are_named_first_and_pointed_at() -> None:
    plan = plan_of(
        {"id": "small", "tool": "judge"},
        {"id": "large", "tool": "ask", "for_each": [1, 2, 3]},
        {"id": "middle", "tool": "ask"},
        {"id": "rest", "tool": "judge"},
    )

    (diagnostic,) = found(plan, Allowance(run=RemainingBudget(tokens=10)))

    assert diagnostic.pointer == "/steps/1"
    assert diagnostic.message == (
        "the plan is expected to take 4,100 tokens, and the run has 10 left:"
        " 'large' 3,000 (3 items), 'middle' 1,000, 'small' 50, and 1 more"
    )


def test_without_an_allowance_the_limits_own_budget_counts() -> None:
    plan = plan_of({"id": "a", "tool": "ask"})

    assert codes(found(plan, limits=Limits(budget=Budget(tokens=999)))) == ["E701"]
    assert found(plan, limits=Limits(budget=Budget(tokens=1_000))) == []


def test_what_is_left_takes_the_place_of_the_whole_budget() -> None:
    plan = plan_of({"id": "a", "tool": "ask"})

    assert found(plan, Allowance(), limits=Limits(budget=Budget(tokens=1))) == []


def test_a_budget_of_a_step_that_asks_no_model_is_refused() -> None:
    plan = plan_of(
        {"id": "a", "tool": "look", "budget": {"seconds": 5}},
        {"id": "b", "tool": "look"},
        {"id": "c", "tool": "ask", "budget": {"tokens": 1_000}},
    )

    assert [(one.code, one.pointer) for one in found(plan)] == [("E705", "/steps/0/budget")]


def test_a_step_is_held_to_its_own_budget() -> None:
    plan = plan_of(
        {"id": "a", "tool": "ask", "budget": {"tokens": 999}},
        {"id": "b", "tool": "judge", "for_each": [1, 2], "budget": {"calls": 1}},
        {"id": "c", "tool": "ask", "budget": {"tokens": 1_000, "calls": 1}},
    )

    assert [(one.code, one.pointer) for one in found(plan)] == [
        ("E704", "/steps/0/budget/tokens"),
        ("E704", "/steps/1/budget/calls"),
    ]


def test_steps_that_have_run_take_nothing_of_what_is_left() -> None:
    plan = plan_of({"id": "a", "tool": "ask"}, {"id": "b", "tool": "judge"})
    left = Allowance(run=RemainingBudget(tokens=60))

    assert codes(check(plan, None, TOOLS, allowance=left)) == ["E701"]
    assert check(plan, None, TOOLS, allowance=left, finished={StepId("a")}) == []


@given(st.lists(st.integers(0, 5), max_size=6), st.integers(0, 12_000))
def test_a_plan_is_refused_exactly_where_its_estimate_is_more_than_what_is_left(
    items: list[int], left: int
) -> None:
    plan = plan_of(
        {"id": "start", "tool": "judge"},
        *(
            {"id": f"s{place}", "tool": "ask", "for_each": list(range(count))}
            for place, count in enumerate(items)
        ),
    )

    is_over = 50 + 1_000 * sum(items) > left

    assert codes(found(plan, Allowance(day=RemainingBudget(tokens=left)))) == (
        ["E703"] if is_over else []
    )


def test_money_is_expected_at_the_price_of_the_allowance() -> None:
    plan = plan_of({"id": "a", "tool": "ask", "for_each": [1, 2, 3]}, {"id": "b", "tool": "ask"})

    (diagnostic,) = found(
        plan, Allowance(day=RemainingBudget(usd=0.0079), usd_per_1000_tokens=0.002)
    )

    assert diagnostic.code == "E703"
    assert diagnostic.message == (
        "the plan is expected to take $0.0080, and the day has $0.0079 left:"
        " 'a' $0.0060 (3 items), 'b' $0.0020"
    )


@pytest.mark.parametrize(
    ("usd", "price"),
    [
        pytest.param(0.3, 0.1, id="exactly what is left, whatever floats make of it"),
        pytest.param(0.01, None, id="a price that nobody knows"),
    ],
)
def test_money_that_is_left_or_cannot_be_counted_is_no_fault(
    usd: float, price: float | None
) -> None:
    plan = plan_of({"id": "a", "tool": "ask", "for_each": [1, 2, 3]})

    assert found(plan, Allowance(run=RemainingBudget(usd=usd), usd_per_1000_tokens=price)) == []


def test_a_step_is_held_to_its_own_money() -> None:
    plan = plan_of({"id": "a", "tool": "ask", "for_each": [1, 2], "budget": {"usd": 0.003}})

    (diagnostic,) = found(plan, Allowance(usd_per_1000_tokens=0.002))

    assert (diagnostic.code, diagnostic.pointer) == ("E704", "/steps/0/budget/usd")
    assert "to take $0.0040 (2 items), and its budget is $0.0030" in diagnostic.message


def test_items_that_have_run_are_expected_to_take_nothing_any_more() -> None:
    plan = plan_of({"id": "a", "tool": "ask", "for_each": [1, 2, 3]})
    left = Allowance(run=RemainingBudget(tokens=1_000))

    resumed = check(plan, None, TOOLS, allowance=left, items_done={StepId("a"): 2})

    assert codes(found(plan, left)) == ["E701"]
    assert [one.code for one in resumed if one.severity == "error"] == []


def test_a_run_that_spans_days_may_take_more_than_one_has() -> None:
    plan = plan_of(
        {"id": "a", "tool": "ask"},
        {"id": "b", "tool": "ask", "for_each": "${inputs.stocks}"},
        inputs={"stocks": ["a", "b", "c"]},
    )
    day = RemainingBudget(tokens=1_000, calls=1)

    assert codes(found(plan, Allowance(day=day))) == ["E703"]
    assert found(plan, Allowance(day=day, spans_days=True)) == []


def test_a_call_that_no_day_could_pay_for_is_refused_by_the_name_of_its_step() -> None:
    plan = plan_of({"id": "cheap", "tool": "judge"}, {"id": "dear", "tool": "ask"})
    day = RemainingBudget(tokens=999)

    [fault] = found(plan, Allowance(day=day, spans_days=True))

    assert (fault.code, fault.pointer) == ("E703", "/steps/1")
    assert "one call of step 'dear' is expected to take 1,000 tokens, and a whole day has 999" in (
        fault.message
    )
