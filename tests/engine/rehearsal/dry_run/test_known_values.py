"""What a dry run knows of steps before they are called: their calls, approvals and conditions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reviewer.scripted_runs import Fails, plan_of, run_plan
from wavewright.engine import Wavewright
from wavewright.engine.rehearsal.dry_run.forecast import DryRun
from wavewright.engine.rehearsal.dry_run.kept_results import rerun_statuses
from wavewright.engine.run.ports import ApprovalRequest
from wavewright.planner.types import JsonObject, StepId
from wavewright.tools import Tool, make_tool

HEAD = """\
goal: Pay
inputs: {ns: [1, 2, 3, 4], none: [], go: false}
let:
  quiet: ${!inputs.go && inputs.ns.size() > 0}
steps:
  - {id: first, tool: double, params: {n: 1}}
"""
STEP = "  - {id: step, tool: pay, params: {n: 1}, %s}\n"


def double(n: int) -> int:
    """Double a number."""
    return 2 * n


def pay(n: int) -> int:
    """Pay."""
    return n


def approve(request: ApprovalRequest) -> bool:
    raise AssertionError(request)


def forecast(tmp_path: Path, text: str) -> DryRun:
    file = tmp_path / "pay.plan.yaml"
    file.write_text(text)
    tools: list[Tool] = [make_tool(double), make_tool(pay, effects=["write"], needs_approval=True)]
    ww = Wavewright(tools=tools, journal=tmp_path / "runs.db", approve=approve)
    return ww.load(file).dry_run()


@pytest.mark.parametrize(
    ("fields", "calls"),
    [
        pytest.param("for_each: '${inputs.ns}'", 4, id="list"),
        pytest.param("for_each: '${inputs.ns}', when: item > 2", 2, id="items left out"),
        pytest.param("for_each: '${inputs.ns}', when: index == 0", 1, id="by index"),
        pytest.param("for_each: '${inputs.ns}', when: item > 20", 0, id="no item left"),
        pytest.param("for_each: '${inputs.none}'", 0, id="empty list"),
        pytest.param("for_each: '${inputs.ns}', when: item > steps.first", 4, id="not known yet"),
        pytest.param("for_each: ['${steps.first}', 2]", 2, id="list of outputs"),
        pytest.param("for_each: '${[steps.first]}'", None, id="unknown list"),
        pytest.param("when: inputs.go", 0, id="false"),
        pytest.param("when: steps.first > 1", 1, id="unknown condition"),
    ],
)
def test_calls_effects_and_approvals_are_of_the_calls_that_will_be_made(
    tmp_path: Path, fields: str, calls: int | None
) -> None:
    told = forecast(tmp_path, HEAD + STEP % fields)

    assert told.steps[1].calls == calls
    assert bool(told.approvals) is (calls != 0)
    assert ("side effects:" in str(told)) is (calls != 0)


def test_a_step_that_waits_for_a_skipped_one_is_known_to_be_skipped(tmp_path: Path) -> None:
    # The reader stands before what it reads: the order of the file is not that of the graph.
    reader = "  - {id: told, tool: pay, when: has(steps.step), params: {n: 3}}\n"
    told = forecast(tmp_path, HEAD + reader + STEP % "when: inputs.go")

    assert [step.id for step in told.steps if step.is_skipped] == ["told", "step"]
    assert told.approvals == ()


def test_conditions_stand_as_their_author_wrote_them(tmp_path: Path) -> None:
    text = HEAD + STEP % "when: quiet"
    text += "caps: [{field: overall, when: quiet, max: 0.5, because: of it}]\n"
    text += "stop: {when: quiet, result: nothing}\n"

    told = forecast(tmp_path, text)

    assert told.steps[1].when == "!(quiet) && (quiet)"
    assert told.caps == ("overall at most 0.5 when quiet: of it",)
    assert told.stop == "when quiet"


def test_a_step_that_calls_only_failed_items_again_has_the_others_kept() -> None:
    before: JsonObject = {"id": "prices", "for_each": ["A", "B", "C"]}
    again: JsonObject = {**before, "id": "prices_2", "supersedes": "prices", "only": "failed"}
    run = run_plan(plan_of(before), {"prices": [1, Fails(), 3]})

    statuses = rerun_statuses(plan_of(before, again), run.state)

    assert statuses[StepId("prices_2")].items_kept == {0, 2}
    assert statuses[StepId("prices")].reason == "prices_2 stands for it from now on"
