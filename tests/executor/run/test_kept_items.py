"""What a step that calls only failed items again takes over from the one before."""

from __future__ import annotations

from tests.reviewer.scripted_runs import Fails, plan_of, run_plan
from wavewright.executor.run.rules import kept_items
from wavewright.planner.language.plan import Plan
from wavewright.planner.types import JsonObject

BEFORE: JsonObject = {"id": "prices", "for_each": ["A", "B", "C"], "min_ok": 1}
AGAIN: JsonObject = {
    "id": "prices_2",
    "for_each": ["A", "B", "C"],
    "supersedes": "prices",
    "only": "failed",
}


def kept(answers: list[object], **more: JsonObject) -> list[tuple[str, int, object]]:
    """Return the step, place and output of each item that is taken over."""
    gate: JsonObject = {"id": "g", "on": "prices", "check": "output > 0"}
    run = run_plan(plan_of(BEFORE, gates=[gate]), {"prices": answers})
    patched: Plan = plan_of(BEFORE, {**AGAIN, **more})
    return [(item.step, item.index, item.output) for item in kept_items(patched, run.state, 5.0)]


def test_items_that_succeeded_and_failed_no_gate_keep_their_places() -> None:
    assert kept([1, Fails(), 3]) == [("prices_2", 0, 1), ("prices_2", 2, 3)]
    assert kept([1, 0, 3]) == [("prices_2", 0, 1), ("prices_2", 2, 3)]


def test_a_step_that_calls_all_again_takes_nothing_over() -> None:
    run = run_plan(plan_of(BEFORE), {"prices": [1, 2, 3]})
    whole = {name: value for name, value in AGAIN.items() if name != "only"}

    assert list(kept_items(plan_of(BEFORE, whole), run.state, 5.0)) == []
