"""Planner answers of every family that goes wrong, all the way: from a model's wire to a plan, or
to none.

The corpus lies beside the checkout and is not part of it; without it those tests are skipped, and a
few answers of the project's own take their place.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.planner.bad_plans import Case, cases, contract_tools, goal_of
from tests.support.served_models import models_over
from wavewright.engine.rehearsal.fake_model.replies import Reply
from wavewright.engine.rehearsal.fake_model.request import FakeToolCall
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.planning.planner import make_plan
from wavewright.planner.planning.records import PlanningRequest, PlanningResult
from wavewright.planner.ports.asking import Asking
from wavewright.planner.ports.fallback_ladder import read_ladders
from wavewright.planner.types import JsonObject
from wavewright.prompts import Prompts

CORPUS = Path(__file__).parents[4] / "shared" / "cases" / "bad_plans"
CASES = list(cases(CORPUS)) if CORPUS.is_dir() else []
PROMPTS = Prompts()
BY_A_MODEL = {"llm", "repaired", "guided", "suggested"}
ASKED_AT_MOST = 1 + 3 + 2
"""Once for a plan, three times for a repair, and twice for one step."""
SMALL_PIECE = 120
SAID_ON_THE_WIRE = {"truncated", "bad_unicode"}
"""Reasons that only a wire has: an answer longer than any answer may be, and half a character."""

pytestmark = pytest.mark.anyio


async def planned_over(
    server: FakeModelServer, folder: Path, allowed: Sequence[str], tools: dict[str, ToolSignature]
) -> PlanningResult:
    """Plan for a goal that allows some tools, with the server as the model."""
    async with models_over(server, folder, max_output_tokens=4_000) as asking:
        return await make_plan(
            PlanningRequest(goal_of([*allowed]), tools),
            Asking(models=asking.models, prompts=PROMPTS, ladder=read_ladders({})["planner"]),
        )


async def planned_from(
    case: Case, server: FakeModelServer, folder: Path, *, as_call: bool
) -> PlanningResult:
    """Plan with a model that gives one answer, whatever it is asked."""
    contract: JsonObject = json.loads((CORPUS / "contract.json").read_text())
    allowed = contract["allowed_tools"]
    assert isinstance(allowed, list)
    # What is no UTF-8 cannot be on this wire; lone surrogates can, and are as bad.
    text = case.content.decode(errors="surrogateescape")
    # Some are a million characters: an answer goes over the wire in a hundred pieces.
    piece = max(SMALL_PIECE, len(text) // 100)
    server.answer(
        (
            lambda request: Reply(
                calls=(FakeToolCall(request.output_tool or "plan", text),), piece=piece
            )
        )
        if as_call
        else Reply(text=text, piece=piece)
    )
    return await planned_over(
        server, folder, [str(name) for name in allowed], contract_tools(contract)
    )


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


def name_of(case: Case) -> str:
    return case.name


def of(*outcomes: str) -> list[Case]:
    # One expects that an unknown escape loses its backslash, and it is kept.
    return [
        case for case in CASES if case.outcome in outcomes and not case.name.endswith("bad_escape")
    ]


as_text_or_call = pytest.mark.parametrize("as_call", [False, True], ids=["text", "call"])


@pytest.mark.skipif(not CASES, reason="the corpus does not lie beside this checkout")
@as_text_or_call
@pytest.mark.parametrize("case", of("reject"), ids=name_of)
async def test_no_plan_comes_of_an_answer_that_must_be_refused(
    case: Case, *, as_call: bool, model_server: FakeModelServer, tmp_path: Path
) -> None:
    planned = await planned_from(case, model_server, tmp_path, as_call=as_call)

    found = {one.kind for attempt in planned.attempts for one in attempt.diagnostics}
    assert planned.rung not in BY_A_MODEL
    assert found & (case.kinds | SAID_ON_THE_WIRE) or "bad_answer" in planned.rungs[0].reason
    assert 1 <= len(model_server.requests) <= ASKED_AT_MOST


@pytest.mark.skipif(not CASES, reason="the corpus does not lie beside this checkout")
@as_text_or_call
@pytest.mark.parametrize("case", of("valid", "repairable"), ids=name_of)
async def test_an_answer_that_holds_a_plan_comes_out_as_that_plan_at_once(
    case: Case, *, as_call: bool, model_server: FakeModelServer, tmp_path: Path
) -> None:
    planned = await planned_from(case, model_server, tmp_path, as_call=as_call)

    assert planned.rung == "llm"
    assert planned.plan is not None
    assert steps_of(planned.plan) == case.steps
    assert len(model_server.requests) == 1


STEP = '{"id": "a", "tool": "look_up", "params": {"word": "wave"}}'
REFUSED = {
    "cut inside a step": '{"steps": [{"id": "a", "tool": "look_up", "params": {"word": "wa',
    "one key twice": f'{{"steps": [{STEP}], "steps": []}}',
    "two plans": f'{{"steps": [{STEP}]}}\n\nor\n\n{{"steps": [{STEP.replace("wave", "tide")}]}}',
    "a tool that is not": f'{{"steps": [{STEP.replace("look_up", "erase")}]}}',
    "a number that is none": f'{{"steps": [{STEP.replace(chr(34) + "wave" + chr(34), "NaN")}]}}',
    "itself": '{"steps": [{"id": "a", "tool": "look_up", "params": {"word": "${steps.a}"}}]}',
    "nothing": '{"steps": []}',
}
READ = {
    "plain": f'{{"steps": [{STEP}]}}',
    "fenced": f'Here it is:\n```json\n{{"steps": [{STEP},]}}\n```\nI hope that helps.',
    "called": f'{{"name": "plan", "arguments": {{"steps": [{STEP}]}}}}',
}
LOOK_UP = ToolSignature.model_validate(
    {
        "name": "look_up",
        "input_schema": {
            "type": "object",
            "properties": {"word": {"type": "string"}},
            "required": ["word"],
            "additionalProperties": False,
        },
        "output_schema": {"type": "string"},
    }
)


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
async def test_no_plan_comes_of_an_answer_of_ours_that_must_be_refused(
    text: str, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(text)

    planned = await planned_over(model_server, tmp_path, ["look_up"], {"look_up": LOOK_UP})

    assert planned.rung not in BY_A_MODEL
    assert all(attempt.diagnostics for attempt in planned.attempts)
    assert len(model_server.requests) == ASKED_AT_MOST


@pytest.mark.parametrize("text", READ.values(), ids=READ)
async def test_an_answer_of_ours_that_holds_a_plan_comes_out_as_that_plan(
    text: str, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(text)

    planned = await planned_over(model_server, tmp_path, ["look_up"], {"look_up": LOOK_UP})

    assert planned.rung == "llm"
    assert planned.plan is not None
    assert steps_of(planned.plan) == [
        {"id": "a", "tool": "look_up", "params": {"word": "wave"}, "depends_on": []}
    ]


async def test_a_plan_that_is_fixed_in_the_third_round_is_taken(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    refused = REFUSED["a tool that is not"]
    model_server.answer(refused, refused, REFUSED["nothing"], READ["plain"])

    planned = await planned_over(model_server, tmp_path, ["look_up"], {"look_up": LOOK_UP})

    assert planned.rung == "repaired"
    assert len(planned.attempts) == 4
    assert "'erase'" in model_server.requests[1].last
