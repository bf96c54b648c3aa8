"""A share of calls that must fail for a gate to block is told where the gate is asked once, and a
path that no output has where a gate requires it.
"""

from __future__ import annotations

import pytest

from tests.planner.broken_plans import tools
from wavewright.planner.checks.checker import check
from wavewright.planner.language.goals import AvailableTool, Goal
from wavewright.planner.language.plan import Gate, Plan
from wavewright.planner.types import JsonObject


def warned(gate: JsonObject, *, is_for_each: bool = True, goal: Goal | None = None) -> list[str]:
    step: JsonObject = {"id": "prices", "tool": "fetch_prices", "params": {"code": "GNP"}}
    if is_for_each:
        step |= {"for_each": ["GNP", "IMP"], "params": {"code": "${item}"}}
    given = {"id": "half", "on": "prices", "blocks_from": 0.5, **gate}
    plan = Plan.model_validate({"steps": [step], "gates": [given]})
    found = check(plan, goal, tools())
    return [f"{each.pointer}: {each.message}" for each in found if each.code == "W814"]


@pytest.mark.parametrize(
    "asked",
    [
        {"check": "output.close > 0.0"},
        {"check": "item != ''"},
        {"required": ["close"]},
        {"judge": {"rubric": "It is a price."}},
        {"check": "steps.prices.size() > 1", "blocks_from": 0},
    ],
)
def test_a_share_of_calls_is_no_slip_where_each_of_them_is_asked_about(asked: JsonObject) -> None:
    assert warned(asked) == []


@pytest.mark.parametrize(
    ("gate", "is_for_each", "why"),
    [
        ({"required": ["close"]}, False, "its step makes one call"),
        ({"check": "output.close > 0.0"}, False, "its step makes one call"),
        ({"check": "steps.prices.size() > 1"}, True, "does not read `output`"),
        ({"required": ["close"], "severity": "warn"}, True, "the gate only warns"),
    ],
)
def test_a_share_of_calls_is_told_where_the_gate_is_asked_once(
    gate: JsonObject, why: str, *, is_for_each: bool
) -> None:
    (told,) = warned(gate, is_for_each=is_for_each)

    assert told.startswith("/gates/0/blocks_from: ")
    assert why in told


@pytest.mark.parametrize(
    ("path", "unknown"),
    [
        ("close", None),
        ("rows", None),
        ("rows.close", None),
        ("rows.0.close", None),
        ("clse", "clse"),
        ("rows.clse", "clse"),
        ("rows.1.clse", "clse"),
        ("[0].close", "[0]"),
        ("rows.[0].close", "[0]"),
        ("close.day", "day"),
    ],
)
def test_a_path_that_a_gate_requires_is_one_of_the_output(path: str, unknown: str | None) -> None:
    step: JsonObject = {"id": "prices", "tool": "fetch_prices", "params": {"code": "GNP"}}
    gate: JsonObject = {"id": "all", "on": "prices", "required": [path]}
    plan = Plan.model_validate({"steps": [step], "gates": [gate]})

    faults = [fault.message for fault in check(plan, None, tools()) if fault.code == "E303"]

    message = f"gate 'all' requires {path!r}, and the output of 'prices' has no field {unknown!r}"
    assert faults == ([] if unknown is None else [message])


def test_a_gate_of_the_goal_is_for_many_plans() -> None:
    gate: JsonObject = {"required": ["close"]}
    of_goal = Gate.model_validate({"id": "half", "on": "prices", "blocks_from": 0.5, **gate})
    tool = AvailableTool(name="fetch_prices")
    goal = Goal(name="g", job="g", text="x", inputs={}, tools=(tool,), gates=(of_goal,))

    assert warned(gate, is_for_each=False, goal=goal) == []
