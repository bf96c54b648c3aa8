"""What a retry says that it will do, of runs whose events are given."""

from __future__ import annotations

from dataclasses import replace

from tests.executor.event_examples import run_started, step_finished
from wavewright.engine.run.context import RetryRequest
from wavewright.engine.run.retry import retry_outlook
from wavewright.executor.events.state import RunState, fold
from wavewright.executor.events.types import Event, PlanAccepted, RetryOf, StepStarted
from wavewright.planner.language.goals import Goal
from wavewright.planner.types import JsonObject, PlanHash, RunId, StepId, StepKey
from wavewright.tools import Tool, make_tool

FIRST, SECOND = RunId("run-1"), RunId("run-2")
STEPS: list[JsonObject] = [{"id": "paid", "tool": "pay"}, {"id": "told", "tool": "tell"}]
PLAN: JsonObject = {"version": 1, "steps": [*STEPS]}


def pay() -> str:
    """Pay."""
    return "paid"


def tell() -> str:
    """Tell."""
    return "told"


TOOLS: dict[str, Tool] = {
    "pay": make_tool(pay, effects=["write"]),
    "tell": make_tool(tell),
}


def run(name: RunId, *events: Event, retry: RetryOf | None = None) -> RunState:
    goal = Goal(name="shop", job="shop", text="Pay", inputs={}, tools=())
    started = replace(run_started(name), goal=goal.model_dump(mode="json"), retry=retry)
    return fold([started, PlanAccepted(2.0, PLAN, PlanHash("h"), "given"), *events])


def fates(request: RetryRequest, *donors: RunState) -> dict[str, str]:
    return {step.step: step.fate for step in retry_outlook(request, donors, TOOLS)}


def begun(step: str) -> StepStarted:
    return StepStarted(3.0, StepId(step), StepKey(f"{step}-key"))


def test_a_write_whose_outcome_is_unknown_is_left() -> None:
    assert fates(RetryRequest(FIRST), run(FIRST, begun("paid"))) == {
        "paid": "left",
        "told": "called",
    }


def test_an_unclear_write_that_is_named_is_called() -> None:
    request = RetryRequest(FIRST, again=(StepId("paid"),))

    assert fates(request, run(FIRST, begun("paid")))["paid"] == "called"


def test_a_write_that_is_named_and_has_succeeded_is_reused() -> None:
    request = RetryRequest(FIRST, again=(StepId("paid"), StepId("told")))

    ended = run(FIRST, step_finished("paid"), step_finished("told"))

    assert fates(request, ended) == {"paid": "reused", "told": "called"}


def test_a_write_that_succeeded_in_any_run_of_the_chain_is_reused() -> None:
    first = run(FIRST, step_finished("paid"))
    second = run(SECOND, step_finished("paid", status="failed"), retry=RetryOf(FIRST, FIRST))

    assert fates(RetryRequest(SECOND), second, first) == {"paid": "reused", "told": "called"}


def test_a_read_whose_code_has_changed_is_called_and_a_write_is_not() -> None:
    ended = run(FIRST, step_finished("paid"), step_finished("told"))
    assert ended.started is not None
    code = {"pay": "other", "tell": "other"}
    before = replace(ended, started=replace(ended.started, tool_code=code))

    assert fates(RetryRequest(FIRST), before) == {"paid": "reused", "told": "called"}


def test_what_a_step_of_a_patch_made_counts_for_the_step_that_it_superseded() -> None:
    again: JsonObject = {"id": "paid_2", "tool": "pay", "supersedes": "paid"}
    patched = PlanAccepted(4.0, {"steps": [*STEPS, again]}, PlanHash("h2"), "patch")
    failed = replace(step_finished("paid"), status="failed", output=None)

    donor = run(FIRST, failed, patched, step_finished("paid_2"))

    assert fates(RetryRequest(FIRST), donor) == {"paid": "reused", "told": "called"}


def test_a_write_of_a_patch_that_is_named_is_said_to_be_called() -> None:
    again: JsonObject = {"id": "paid_2", "tool": "pay", "supersedes": "paid"}
    patched = PlanAccepted(4.0, {"steps": [*STEPS, again]}, PlanHash("h2"), "patch")

    donor = run(FIRST, step_finished("paid"), patched, step_finished("paid_2"))

    assert fates(RetryRequest(FIRST, StepId("paid_2")), donor)["paid"] == "called"
    assert fates(RetryRequest(FIRST, StepId("paid")), donor)["paid"] == "called"


def test_a_run_whose_plan_was_refused_is_shown_by_the_plan_that_it_repeats() -> None:
    first = run(FIRST, step_finished("paid", at=3.0))
    goal = Goal(name="shop", job="shop", text="Pay", inputs={}, tools=())
    refused = fold([replace(run_started(SECOND), goal=goal.model_dump(mode="json"))])

    assert fates(RetryRequest(SECOND), refused, first) == {"paid": "reused", "told": "called"}
    assert fates(RetryRequest(SECOND), refused) == {}
