"""The calls of a run, as the package lists them."""

from __future__ import annotations

import json

from tests.reviewer.scripted_runs import Fails, ScriptedRun, goal_for, plan_of, run_plan, signature
from wavewright.planner.language.goals import AvailableTool
from wavewright.planner.types import JsonObject, StepId
from wavewright.reviewer.package.builder import build_package
from wavewright.reviewer.package.call_reports import list_calls
from wavewright.reviewer.records import CallReport
from wavewright.reviewer.review.results import ReviewedRun


def calls_of(run: ScriptedRun) -> tuple[CallReport, ...]:
    return list_calls(ReviewedRun(run.plan, run.goal, run.state, run.tools))


PRICES: JsonObject = {
    "id": "prices",
    "tool": "fetch",
    "for_each": "${inputs.stocks}",
    "params": {"code": "${item.code}", "place": "${index}", "force": False},
}
STOCKS: JsonObject = {"stocks": [{"code": "GNP"}, {"code": "SKS"}]}


def run_of_two_stocks() -> ScriptedRun:
    plan = plan_of(PRICES, inputs=STOCKS)
    worker = AvailableTool(name="fetch", worker_type="asx_stock_collector", config={"years": 3})
    goal = goal_for(plan, tools=(worker,), inputs=STOCKS)
    return run_plan(plan, {"prices": [1, Fails("gone", "timeout")]}, signature("fetch"), goal=goal)


def test_each_item_is_a_call_with_all_that_its_tool_was_handed() -> None:
    run = run_of_two_stocks()
    first, second = calls_of(run)

    assert (first.id, second.id) == (f"{run.state.run}/prices/0", f"{run.state.run}/prices/1")
    assert (first.step, first.index, first.tool) == (StepId("prices"), 0, "fetch")
    assert (first.worker_type, first.config) == ("asx_stock_collector", {"years": 3})
    assert first.params == {"code": "GNP", "place": 0, "force": False}
    assert second.params == {"code": "SKS", "place": 1, "force": False}
    assert (second.status, second.error_kind) == ("failed", "timeout")


def test_a_call_may_take_ten_minutes_unless_its_tool_or_its_step_says_otherwise() -> None:
    run = run_plan(
        plan_of({"id": "a"}, {"id": "b", "timeout": "30s"}, {"id": "c", "tool": "quick"}),
        {"a": 1, "b": 1, "c": 1},
        signature("quick", timeout="2s"),
    )

    assert [call.timeout for call in calls_of(run)] == [600, 30, 2]


def test_parameters_are_made_from_the_outputs_and_large_ones_are_shapes() -> None:
    text = "word " * 100
    run = run_plan(
        plan_of(
            {"id": "a"},
            {
                "id": "b",
                "params": {"all": "${steps.a}", "n": "${steps.a.n}", "text": "${steps.a.text}"},
            },
        ),
        {"a": {"n": 3, "text": text}, "b": 1},
    )
    _, second = calls_of(run)

    assert second.params is not None
    assert (second.params["all"], second.params["n"]) == ("{n, text}", 3)
    assert len(str(second.params["text"])) <= 200


def test_steps_that_called_nothing_have_no_calls() -> None:
    run = run_plan(
        plan_of(
            {"id": "a"},
            {"id": "b", "params": {"of": "${steps.a}"}},
            {"id": "c", "when": "1 > 2"},
        ),
        {"a": Fails()},
    )

    assert [(call.step, call.status) for call in calls_of(run)] == [("a", "failed")]


def test_the_package_holds_the_calls_and_names_the_goal() -> None:
    run = run_of_two_stocks()
    package = build_package(run.plan, run.goal, run.state, None, run.tools)

    assert package.calls == calls_of(run)
    assert package.goal_name == "test"
    assert json.loads(package.model_dump_json())["calls"][0]["params"]["code"] == "GNP"
