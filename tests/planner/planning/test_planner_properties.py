"""Laws of planning: whatever a model answers, there is a valid plan or a reason, and never an
exception.
"""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from tests.crash.run_size import volume
from tests.planner.bad_plans import Case, cases, contract_tools, goal_of
from tests.planner.planning_case import (
    GOOD,
    GOOD_TEXT,
    TOOLS,
    ScriptedModels,
    goal_of as weather_goal,
    ladder,
    planned,
    said,
    template_plan,
)
from wavewright.planner.checks.checker import check
from wavewright.planner.planning.planner import make_plan
from wavewright.planner.planning.records import PlanningRequest, PlanningResult
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.ports.asking import Asking
from wavewright.planner.ports.model_port import ModelAnswer, ModelError, NamedCall
from wavewright.planner.types import Json
from wavewright.prompts.templates import Prompts

names = st.sampled_from(
    ["wind", "report", "steps", "read_sensor", "write_report", "send_alarm", "delete_all", "", "1"]
)
values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | names | st.sampled_from(["${steps.wind}", "${inputs.stations}", "${"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["steps", "id", "tool", "params", "name", "arguments", "ask", "question", "cannot_plan", "on"]),
        inner,
        max_size=4,
    ),
    max_leaves=8,
)  # fmt: skip


@st.composite
def bent_plans(draw: st.DrawFn) -> str:
    """Return the good plan with a part of it put in place of another."""
    plan = json.loads(GOOD_TEXT)
    for _ in range(draw(st.integers(1, 3))):
        where = draw(st.sampled_from([plan, *plan["steps"]]))
        where[
            draw(
                st.sampled_from([*GOOD, *plan["steps"][0], "gates", "retry", "depends_on", "when"])
            )
        ] = draw(values)
        steps: Json = plan.get("steps")
        if (
            not isinstance(steps, list)
            or not steps
            or not all(isinstance(one, dict) for one in steps)
        ):
            break
    return json.dumps(plan)


texts = st.one_of(
    st.text(max_size=60),
    st.text('{}[]":,steptool$ ', max_size=60),
    values.map(json.dumps),
    bent_plans(),
    st.integers(1, len(GOOD_TEXT)).map(lambda end: GOOD_TEXT[:end]),
    st.just(GOOD_TEXT),
)
calls = st.builds(NamedCall, names, values.map(json.dumps) | st.text(max_size=10))
errors = st.sampled_from(["unreachable", "refused", "timeout", "over_budget", "bad_answer"]).map(
    lambda kind: ModelError(kind, "no")  # type: ignore[arg-type]
)


def an_answer(text: str, made: list[NamedCall], *, cut: bool) -> ModelAnswer:
    return said(text, calls=made, is_truncated=cut)


lines: st.SearchStrategy[ModelAnswer | ModelError] = errors | st.builds(
    an_answer, texts, st.lists(calls, max_size=3), cut=st.booleans()
)


@settings(max_examples=volume(37, 150))
@given(said_=st.lists(lines, min_size=1, max_size=4), has_template=st.booleans())
def test_whatever_is_answered_there_is_a_sound_plan_or_a_reason(
    *, said_: list[ModelAnswer | ModelError], has_template: bool
) -> None:
    async def plan() -> PlanningResult:
        return await planned(
            ScriptedModels(said_), template_plan=template_plan() if has_template else None
        )

    done = anyio.run(plan)
    goal = weather_goal()

    if done.plan is not None:
        found = check(bind_plan(done.plan, goal), goal, TOOLS)
        assert [one.code for one in found if one.severity == "error"] == []
        assert done.rung == done.rungs[-1].rung
        assert done.question is None
    else:
        assert done.question is not None or all(record.reason for record in done.rungs)
    assert [record.outcome for record in done.rungs].count("reached") == (done.plan is not None)


def is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


CORPUS = Path(__file__).parents[4] / "shared" / "cases" / "bad_plans"
CASES = [one for one in cases(CORPUS) if is_text(one.content)] if CORPUS.is_dir() else []
"""What comes through a provider's library is text: cases of broken encodings are the reader's
alone.
"""


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus does not lie beside this checkout")
@pytest.mark.parametrize(
    "case",
    [
        # It expects that an unknown escape loses its backslash, and it is kept.
        pytest.param(one, id=one.name)
        for one in CASES
        if not one.name.endswith("bad_escape")
    ],
)
@pytest.mark.anyio
async def test_bad_plans_come_out_of_planning_as_the_corpus_says(case: Case) -> None:
    contract = json.loads((CORPUS / "contract.json").read_text())
    models = ScriptedModels([said(case.content.decode())])

    done = await make_plan(
        PlanningRequest(goal_of(contract["allowed_tools"]), contract_tools(contract)),
        Asking(models=models, prompts=Prompts(), ladder=ladder("llm", "repaired", "suggested")),
    )

    if case.outcome == "reject":
        assert (done.plan, len(done.attempts)) == (None, len(models.asked))
        assert {found.kind for found in done.attempts[0].diagnostics} & case.kinds
    else:
        assert done.rung == "llm"
        assert done.plan is not None
        assert [step.id for step in done.plan.steps] == [
            step["id"] for step in case.steps if isinstance(step, dict)
        ]
