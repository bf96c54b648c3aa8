"""The goal template and the jobs that come with it: sound, and strict where they must be."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from tests.tools.calling import call_for_document
from wavewright.config.documents import read_document_file
from wavewright.planner.checks.checker import check
from wavewright.planner.language.goals import Goal, GoalTemplate, Job
from wavewright.planner.language.plan import Gate, Plan
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.expressions import evaluate
from wavewright.planner.plans.goal_resolution import resolve_goal
from wavewright.planner.reading.reader import read_model
from wavewright.planner.types import Json, JsonObject
from wavewright.tools import Registry, load_pack, pack_templates

PLANS = Path(__file__).parents[3] / "plans"
JOBS = ("stocks.job.yaml", "stocks_stale.job.yaml", "synthetic.job.yaml")
TEMPLATE = read_model(read_document_file(pack_templates()["stock_analysis"]), GoalTemplate)


def read_job(name: str) -> tuple[Job, Goal, Registry]:
    job = read_model(read_document_file(PLANS / name), Job)
    settings = job.tools["equities"]
    assert isinstance(settings, dict)
    return job, resolve_goal(job, TEMPLATE), Registry(load_pack("equities", settings, PLANS).tools)


def plan_of(job: Job) -> Plan:
    if isinstance(job.plan, str):
        return read_model(read_document_file(PLANS / job.plan), Plan)
    assert TEMPLATE.fallback_plan is not None
    return TEMPLATE.fallback_plan


def codes_of_faults(steps: list[dict[str, Any]]) -> set[str]:
    """Return the codes of what the checker says of a plan under the template."""
    _, goal, tools = read_job("stocks.job.yaml")
    plan = bind_plan(Plan.model_validate({"steps": steps}), goal)
    return {
        found.code for found in check(plan, goal, tools.signatures) if found.severity == "error"
    }


PRICES: dict[str, Any] = {
    "id": "prices",
    "tool": "fetch_stock_data",
    "for_each": "${inputs.stocks}",
    "params": {"code": "${item.code}"},
}
INDEX: dict[str, Any] = {
    "id": "index",
    "tool": "fetch_index_data",
    "params": {"code": "${inputs.benchmarks[0]}"},
}


def summary(**params: Json) -> dict[str, Any]:
    return {
        "id": "summary",
        "tool": "analyze_summary",
        "params": {"documents": "${steps.prices}", "title": "Outlook", **params},
    }


@pytest.mark.parametrize("name", JOBS)
def test_each_job_has_a_sound_plan(name: str) -> None:
    job, goal, tools = read_job(name)

    plan = bind_plan(plan_of(job), goal)

    assert check(plan, goal, tools.signatures) == []


def test_a_planners_own_plan_passes_the_same_rules() -> None:
    assert codes_of_faults([PRICES, INDEX, summary(benchmark="${steps.index}")]) == set()


@pytest.mark.parametrize(("given", "bound"), [({}, 1), ({"min_ok": 3}, 3)])
def test_one_stock_without_prices_is_not_the_loss_of_the_others_whoever_wrote_the_plan(
    given: dict[str, Any], bound: int
) -> None:
    _, goal, _ = read_job("stocks.job.yaml")
    plan = Plan.model_validate({"steps": [{**PRICES, **given}, summary()]})

    once = bind_plan(plan, goal)

    assert once.step("prices").min_ok == bound
    assert bind_plan(once, goal) == once


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        pytest.param(
            [PRICES, summary(filter_tags=["stock-data", "announcements"])],
            "E501",
            id="tags that exclude each other",
        ),
        pytest.param(
            [PRICES, summary(documents=[])],
            "E503",
            id="analysis without data",
        ),
        pytest.param(
            [
                {**PRICES, "for_each": None, "params": {"code": "EQUAL_WEIGHT"}},
                summary(documents=["${steps.prices}"]),
            ],
            "E504",
            id="benchmark as a target",
        ),
        pytest.param([PRICES, summary(required_tickers=[])], "E206", id="what the engine sets"),
        pytest.param([PRICES], "E506", id="no analysis"),
        pytest.param(
            [PRICES, summary(), {**INDEX, "tool": "send_order"}], "E201", id="unknown tool"
        ),
        pytest.param(
            [PRICES, summary(documents="${steps.prices.map(p, p.price)}")],
            "E303",
            id="misspelt field",
        ),
        pytest.param(
            [PRICES, summary(benchmark="${steps.prices[0].prices}")], "E304", id="wrong type"
        ),
    ],
)
def test_a_plan_against_the_rules_is_refused(steps: list[dict[str, Any]], code: str) -> None:
    assert code in codes_of_faults(steps)


def test_terminal_analysis_is_told_what_it_must_contain() -> None:
    job, goal, _ = read_job("stocks.job.yaml")

    bound = bind_plan(plan_of(job), goal).step("summary")

    assert bound.params["required_tickers"] == ["AAPL", "AMZN", "IBM", "MSFT", "GOOG"]
    assert bound.params["benchmark_codes"] == ["EQUAL_WEIGHT"]
    assert bound.params["output_tags"] == ["stock-analysis"]
    assert bound.params["output_schema"] == goal.output_schema


def gate(name: str) -> Gate:
    return next(found for found in TEMPLATE.gates if found.id == name)


def daily(as_of: str, sessions_behind: int) -> JsonObject:
    return {"frequency": "daily", "as_of": as_of, "sessions_behind": sessions_behind}


@pytest.mark.parametrize(
    ("output", "inputs", "verdict"),
    [
        pytest.param(daily("2024-02-29", 0), {}, True, id="of the last session"),
        pytest.param(daily("2024-02-28", 1), {}, False, id="a session behind"),
        pytest.param(
            daily("2024-02-28", 1), {"max_age": "96h"}, True, id="within what the job allows"
        ),
        pytest.param(
            {"frequency": "monthly", "as_of": "2024-02-01", "sessions_behind": 20},
            {},
            True,
            id="monthly",
        ),
    ],
)
def test_daily_prices_are_held_to_the_last_session_unless_the_job_says_otherwise(
    output: JsonObject,
    inputs: JsonObject,
    verdict: bool,  # noqa: FBT001
) -> None:
    check_expression = gate("fresh_daily").check
    assert check_expression is not None

    found = evaluate(
        check_expression,
        {"output": output, "inputs": inputs, "steps": {}},
        dt.datetime(2024, 3, 1, 12, tzinfo=dt.UTC),
    )

    assert found is verdict


def test_the_freshness_gate_is_mandatory_and_has_a_recipe() -> None:
    fresh = gate("fresh")

    assert fresh.severity == "block"
    assert fresh.fresh_within == 45 * 86400
    assert {recipe.gate for recipe in TEMPLATE.recipes} == {"fresh", "fresh_daily"}
    assert all(recipe.set_params == {"force": True} for recipe in TEMPLATE.recipes)


def test_the_synthetic_prices_are_what_the_job_says() -> None:
    job, _, tools = read_job("synthetic.job.yaml")
    assert job.as_of is not None

    document = call_for_document(tools["fetch_stock_data"], code="ALFA", now=job.as_of)

    assert document["frequency"] == "daily"
    assert document["as_of"] == "2024-12-02"
    assert document["warnings"] == []


@pytest.mark.parametrize(("codes", "passes"), [(["AAA"], False), (["AAA", "BBB"], True)])
def test_doubtful_prices_stop_the_analysis_of_one_stock_and_not_of_several(
    codes: list[str],
    passes: bool,  # noqa: FBT001
) -> None:
    values: JsonObject = {
        "output": {"doubts": ["2026-01-23 value"]},
        "inputs": {"stocks": [{"code": code} for code in codes], "benchmarks": []},
    }

    check_expression = gate("plausible").check
    assert check_expression is not None

    assert evaluate(check_expression, {**values, "steps": {}}, dt.datetime.now(dt.UTC)) is passes
