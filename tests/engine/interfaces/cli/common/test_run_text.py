"""What models did and cost, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wavewright.engine.interfaces.cli.common.run_text import (
    cost_words,
    one_line,
    rung_line,
    use_line,
)
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.ports.model_port import ModelOutcome, ModelUse
from wavewright.planner.types import StepId
from wavewright.reviewer.package.call_reports import calls_text, money_text, sum_costs

USE = ModelUse(
    role="planner",
    name="planner",
    model="openai:gpt-5",
    outcome="answered",
    input_tokens=2_900,
    output_tokens=314,
    usd=0.0123,
    seconds=4.1,
)


def test_a_use_is_told_on_one_line() -> None:
    assert use_line(USE) == "planner: openai:gpt-5 answered (3,214 tokens, 0.0123 USD, 4.10 s)"


def test_a_use_of_a_step_names_worker_step_item_and_attempts() -> None:
    use = replace(USE, role="worker", name="summarize", step=StepId("news"), index=3, attempts=2)

    assert use_line(use).startswith("worker summarize for news[3]: openai:gpt-5 answered (")
    assert use_line(use).endswith(", 2 attempts)")


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("refused", "refused"),
        ("truncated", "was cut off"),
        ("failed", "gave no answer"),
        ("timeout", "took too long"),
        ("over_budget", "was not asked: over budget"),
    ],
)
def test_an_outcome_that_is_no_answer_says_so_with_its_reason(
    outcome: ModelOutcome, words: str
) -> None:
    use = replace(USE, outcome=outcome, message="because\nof this")

    assert f"openai:gpt-5 {words}: because of this (" in use_line(use)


def test_a_provider_that_writes_escapes_steers_no_terminal() -> None:
    use = replace(USE, outcome="failed", message="\x1b[2Jgone", model="openai:\x1b[31m")

    assert use_line(use).isprintable()


def test_a_sum_says_what_it_lacks() -> None:
    unpriced = replace(USE, usd=None)
    estimated = replace(USE, is_estimated=True)

    assert cost_words(sum_costs([USE, USE])) == "2 calls, 6,428 tokens, 0.0246 USD, 8.20 s"
    assert money_text(sum_costs([unpriced])) == "price unknown"
    assert money_text(sum_costs([USE, unpriced])) == "at least 0.0123 USD"
    assert "about 6,428 tokens" in cost_words(sum_costs([USE, estimated]))


def test_a_call_that_spent_nothing_has_no_unknown_price() -> None:
    never_asked = replace(
        USE,
        outcome="over_budget",
        input_tokens=0,
        output_tokens=0,
        usd=None,
        attempts=0,
        seconds=0.0,
    )

    assert "price" not in cost_words(sum_costs([never_asked]))


def test_a_sum_tells_calls_without_an_answer_from_those_that_a_budget_refused() -> None:
    failed = replace(USE, outcome="failed")
    refused = replace(USE, outcome="over_budget", attempts=0)
    not_repeated = replace(USE, outcome="over_budget", attempts=1)

    assert calls_text(sum_costs([USE, failed])) == "2 calls (1 without an answer)"
    assert calls_text(sum_costs([USE, refused])) == "1 call (1 over budget and never made)"
    assert calls_text(sum_costs([failed, refused, refused])) == (
        "1 call (1 without an answer, 2 over budget and never made)"
    )
    assert calls_text(sum_costs([refused])) == "no call (1 over budget and never made)"
    assert calls_text(sum_costs([not_repeated])) == "1 call (1 without an answer)"


def test_an_amount_too_small_to_write_is_not_nothing() -> None:
    assert money_text(sum_costs([replace(USE, usd=0.000004)])) == "under 0.0001 USD"


def test_a_rung_says_why_it_gave_nothing_or_what_it_costs_the_confidence() -> None:
    failure = RungRecord("planner", "llm", "fallen", "the plan has 2 faults")
    capped = RungRecord(
        "planner", "suggested", "reached", ceiling=0.7, because="calls that a model suggested"
    )

    assert rung_line(failure) == "planner: rung llm gave nothing: the plan has 2 faults"
    assert rung_line(capped) == (
        "planner: rung suggested reached, confidence at most 0.7: calls that a model suggested"
    )
    assert rung_line(RungRecord("planner", "llm", "reached")) == "planner: rung llm reached"


def test_a_long_reason_is_cut() -> None:
    assert len(one_line("word " * 100)) <= 160
