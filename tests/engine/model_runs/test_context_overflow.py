"""Questions that are larger than the model's context: each is put once more with less, then its
ladder goes on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from tests.engine.model_runs.model_run_project import (
    ITS_PLAN,
    PLAN,
    TEMPLATE,
    ModelRunProject,
    review,
)
from tests.planner.planning_case import GOOD, TOOLS, faulty, goal_of, ladder
from tests.reviewer.recovery.test_replanning import again, no_recipe
from tests.reviewer.scripted_models import recovery_ladder
from tests.reviewer.scripted_runs import NOW, goal_for, plan_of
from tests.support.served_models import models_over
from wavewright.engine.rehearsal.fake_model.replies import over_context
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.executor.events.types import GateRecord
from wavewright.executor.run.ports import GateView
from wavewright.planner.language.goals import Job
from wavewright.planner.planning.planner import make_plan
from wavewright.planner.planning.records import PlanningRequest, PlanningResult
from wavewright.planner.ports.asking import Asking
from wavewright.planner.types import Json, JsonObject, StepId
from wavewright.prompts import Prompts
from wavewright.reviewer import ModelJudge, ReplanResult, make_verifier, replan, review_by_code
from wavewright.reviewer.review.results import ReviewedRun

LONG = "word " * 200
JOB = Job(
    name="wind today", variables=[{"code": f"S{n}", "note": LONG} for n in range(60)], benchmarks=[]
)


def sizes(server: FakeModelServer) -> list[int]:
    return [len(request.text) for request in server.requests]


async def planned_over(server: FakeModelServer, folder: Path, *, job: Job = JOB) -> PlanningResult:
    async with models_over(server, folder) as asking:
        return await make_plan(
            PlanningRequest(goal_of(job=job), TOOLS),
            Asking(
                models=asking.models,
                prompts=Prompts(),
                ladder=ladder("llm", "repaired", "minimal"),
            ),
        )


@pytest.mark.anyio
async def test_a_planner_is_shown_less_of_inputs_and_tools(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(over_context(), GOOD)

    done = await planned_over(model_server, tmp_path)

    whole, brief = model_server.requests
    assert done.rung == "llm"
    assert len(brief.text) < len(whole.text) / 2
    assert "station: Code of the station" in whole.text
    assert "station: Code of the station" not in brief.text
    assert all(f"{name}(" in brief.text for name in TOOLS)
    assert re.search(r'"…left out": "[0-9]+ entries"', brief.text)


@pytest.mark.anyio
async def test_a_repair_that_is_too_large_is_asked_for_with_a_brief_request(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(faulty(), over_context(), GOOD)

    done = await planned_over(model_server, tmp_path)

    first, whole, brief = model_server.requests
    assert done.rung == "repaired"
    assert len(brief.text) < len(first.text) < len(whole.text)
    assert "did you mean 'wind'?" in brief.text


@pytest.mark.anyio
async def test_a_planner_that_never_has_room_is_asked_twice_and_leaves_it_to_the_next_rung(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(over_context())

    done = await planned_over(model_server, tmp_path)

    assert [(one.rung, one.outcome) for one in done.rungs] == [
        ("llm", "fallen"),
        ("repaired", "fallen"),
        ("minimal", "reached"),
    ]
    assert done.rungs[0].reason.startswith("over_context: ")
    assert len(model_server.requests) == 2


def test_a_run_whose_planner_has_too_little_room_is_planned_by_the_smaller_question(
    tmp_path: Path,
    wavewright: CommandLine,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    model_project = ModelRunProject(tmp_path, wavewright)
    model_project.write(template=f"{TEMPLATE}fallback_{ITS_PLAN}")
    model_server.answer(over_context(), PLAN, when=asked_for("plan"))
    model_server.answer(review(), when=asked_for("review"))

    ran, package = model_project.run()

    assert ran.code == 0, ran.err
    assert package is not None
    assert package.rung == "llm"
    planner = next(one.cost for one in package.model_uses.roles if one.name == "planner")
    assert (planner.calls, planner.unanswered) == (2, 1)


async def replanned_over(server: FakeModelServer, folder: Path) -> ReplanResult:
    run = no_recipe()
    async with models_over(server, folder) as asking:
        return await replan(
            ReviewedRun(run.plan, run.goal, run.state, run.tools),
            review_by_code(run.plan, run.goal, run.state, run.tools),
            Asking(models=asking.models, prompts=Prompts(), ladder=recovery_ladder(tries=2)),
        )


@pytest.mark.anyio
async def test_a_recovery_planner_is_shown_less_of_the_plan(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(over_context(), again())

    found = await replanned_over(model_server, tmp_path)

    whole, brief = model_server.requests
    assert found.rung == "model"
    assert found.patch is not None
    assert len(brief.text) < len(whole.text)
    assert "left out" in brief.text
    assert "left out" not in whole.text


@pytest.mark.anyio
async def test_a_recovery_that_never_has_room_is_asked_for_twice_and_given_up(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(over_context())

    found = await replanned_over(model_server, tmp_path)

    assert found.patch is None
    assert "takes less text at once" in found.reasons[-1]
    assert len(model_server.requests) == 2


async def judged_over(server: FakeModelServer, folder: Path, output: Json) -> GateRecord:
    gate: JsonObject = {"id": "reasons", "on": "report", "judge": {"rubric": "Names a reason."}}
    plan = plan_of({"id": "report"}, gates=[gate])
    async with models_over(server, folder) as asking:
        judge = ModelJudge(asking.models, Prompts())
        records = make_verifier(plan, {}, goal_for(plan), NOW, judge)(
            StepId("report"), output, GateView()
        )
        assert isinstance(records, Awaitable)
        (record,) = await records
    return record


@pytest.mark.anyio
async def test_a_judge_is_shown_half_of_the_output(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    output: JsonObject = {"text": "It rose, because orders doubled. " + LONG}
    verdict: JsonObject = {
        "reason": "It does.",
        "quotes": ["because orders doubled"],
        "verdict": "pass",
    }
    model_server.answer(over_context(), verdict)

    record = await judged_over(model_server, tmp_path, output)

    whole, half = sizes(model_server)
    assert record.verdict == "pass"
    assert whole - half > len(json.dumps(output)) / 3
    assert "a part of" in model_server.requests[1].text


@pytest.mark.anyio
async def test_a_judge_that_never_has_room_is_asked_twice_and_its_gate_is_red(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(over_context())

    record = await judged_over(model_server, tmp_path, {"text": LONG})

    assert record.verdict == "error"
    assert "takes less text at once" in record.message
    assert len(model_server.requests) == 2
