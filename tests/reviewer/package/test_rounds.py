"""The best round is packaged, whatever the last one came to."""

from __future__ import annotations

import dataclasses
import json

import pytest

from tests.reviewer.scripted_runs import Fails, ScriptedRun, plan_of, play, run_plan
from wavewright.executor.events.types import Noted, PlanAccepted
from wavewright.planner.language.hashing import plan_hash
from wavewright.planner.types import JsonObject
from wavewright.reviewer.package.builder import build_package, package_bytes, read_package
from wavewright.reviewer.records import Package
from wavewright.reviewer.review.by_code import review_by_code

FIRST: tuple[JsonObject, ...] = (
    {"id": "a"},
    {"id": "b", "params": {"of": "${steps.a}"}},
)
AGAIN: JsonObject = {"id": "b_2", "params": {"of": "${steps.a}"}, "supersedes": "b"}


def reviewed(run: ScriptedRun, **changes: object) -> ScriptedRun:
    """Return the run with a review of its round."""
    found = review_by_code(run.plan, run.goal, run.state, run.tools)
    body = {**found.model_dump(mode="json"), **changes}
    noted = Noted(run.events[-1].at + 1, "review", json.loads(json.dumps(body)))
    return dataclasses.replace(run, events=(*run.events, noted))


def two_rounds(
    second: object, first: dict[str, object], last: dict[str, object], gate: str = "output > 0"
) -> Package:
    """Return the package of a run whose step `b` was called again, with the reviews of both rounds."""
    gates: list[JsonObject] = [{"id": "g", "on": "b", "check": gate}]
    run = run_plan(plan_of(*FIRST, gates=[*gates], result={"b": "${steps.b}"}), {"a": 1, "b": 9})
    run = reviewed(run, **first)
    gates = [{"id": "g", "on": "b_2", "check": gate}]
    plan = plan_of(*FIRST, AGAIN, gates=[*gates], result={"b": "${steps.b_2}"})
    at, body = run.events[-1].at + 1, plan.model_dump(mode="json", by_alias=True)
    events = [*run.events, PlanAccepted(at, body, plan_hash(plan), "patch", 1, (), {"reason": "x"})]
    play(events, plan, run.goal, run.tools, {"b_2": second})
    run = reviewed(dataclasses.replace(run, plan=plan, events=tuple(events)), **last)
    note = run.state.notes[-1]
    review = review_by_code(run.plan, run.goal, run.state, run.tools)
    final = type(review).model_validate_json(json.dumps(note.body))
    return build_package(run.plan, run.goal, run.state, final, run.tools)


NOT: dict[str, object] = {"goal_achieved": False, "confidence": 0.5}


def test_a_round_that_lost_the_result_does_not_replace_one_that_had_it() -> None:
    package = two_rounds(Fails(), NOT, {"goal_achieved": False, "confidence": 0.1})

    assert (package.round, package.result) == (0, {"b": 9})
    assert [each.is_packaged for each in package.rounds] == [True, False]
    assert package.review is not None
    assert package.review.round == 0
    assert [each.round for each in package.earlier_reviews] == [1]


def test_a_round_that_breaks_a_gate_does_not_replace_one_that_passed_it() -> None:
    package = two_rounds(-1, NOT, {**NOT, "confidence": 0.6})

    assert (package.round, package.result) == (0, {"b": 9})


@pytest.mark.parametrize("confidence", [0.5, 0.6])
def test_of_rounds_that_are_as_good_the_later_is_packaged(confidence: float) -> None:
    package = two_rounds(11, NOT, {**NOT, "confidence": confidence})

    assert (package.round, package.result) == (1, {"b": 11})


def test_a_round_that_achieves_the_goal_goes_before_any_other() -> None:
    package = two_rounds(11, {**NOT, "confidence": 0.6}, {"goal_achieved": True, "confidence": 0.5})

    assert (package.round, package.status) == (1, "achieved")


def test_a_package_with_rounds_is_equal_when_read_back() -> None:
    package = two_rounds(Fails(), NOT, NOT)

    assert read_package(package_bytes(package)) == package
