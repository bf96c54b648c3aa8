"""Planning: what a model answers becomes a valid plan, or goes back to it, or down the ladder."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.planner.planning_case import (
    GOOD,
    GOOD_TEXT,
    TOOLS,
    ScriptedModels,
    faulty,
    goal_of,
    planned,
    said,
    template_plan,
)
from wavewright.planner.checks.checker import check
from wavewright.planner.language.plan import Plan
from wavewright.planner.planning.records import AnsweredQuestion, PlanningResult, UserQuestion
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.ports.budgets import Allowance, RemainingBudget
from wavewright.planner.ports.fallback_ladder import Ladder, Rung, RungRecord
from wavewright.planner.ports.model_port import ModelError, ModelUse
from wavewright.planner.types import Json, JsonObject, RunId, StepId

pytestmark = pytest.mark.anyio


def outcomes(done: PlanningResult) -> list[tuple[str, str]]:
    return [(record.rung, record.outcome) for record in done.rungs]


def reason(done: PlanningResult, rung: str) -> str:
    return next(record.reason for record in done.rungs if record.rung == rung)


async def test_a_sound_plan_is_taken_as_it_was_written() -> None:
    models = ScriptedModels([GOOD_TEXT])

    done = await planned(models)

    assert (done.rung, done.plan) == ("llm", Plan.model_validate_json(GOOD_TEXT))
    assert outcomes(done) == [("llm", "reached")]
    assert done.document is not None
    assert done.document.value == GOOD
    assert [(one.rung, one.answer, one.diagnostics) for one in done.attempts] == [
        ("llm", GOOD_TEXT, ())
    ]


async def test_the_model_is_asked_as_the_goal_wants_it() -> None:
    models = ScriptedModels([GOOD_TEXT])
    goal = goal_of({"model_preference": "sonnet", "thinking_level": "high"})

    await planned(models, goal=goal, run=RunId("r1"))
    (call,) = models.asked

    assert (call.role, call.rung, call.preference, call.thinking) == (
        "planner",
        "llm",
        "sonnet",
        "high",
    )
    assert (call.run, call.job) == ("r1", "wind today")
    assert call.schema is not None
    assert call.turns == ()


async def test_every_fault_goes_back_and_the_repaired_plan_is_taken() -> None:
    models = ScriptedModels(
        [faulty(retry={"attempts": 5}), f"Sorry! Here it is:\n```json\n{GOOD_TEXT}\n```"]
    )

    done = await planned(models)
    (turn,) = models.asked[1].turns

    assert done.rung == "repaired"
    assert outcomes(done) == [("llm", "fallen"), ("repaired", "reached")]
    assert done.rungs[-1].ceiling == 0.95
    assert turn.answer == faulty(retry={"attempts": 5})
    assert "E104" in turn.reply
    assert "'retry' is no field that a planner may write" in turn.reply
    assert "E301" in turn.reply
    assert "did you mean 'wind'?" in turn.reply
    assert {repair.kind for repair in done.attempts[-1].repairs} == {"code_fence", "prose"}


async def test_repair_ends_after_three_rounds_and_each_sees_what_was_said_before() -> None:
    models = ScriptedModels([faulty()])

    done = await planned(models, "llm", "repaired")

    assert done.plan is None
    assert [len(call.turns) for call in models.asked] == [0, 1, 2, 3]
    assert reason(done, "repaired") == "repair round 3: 1 fault: E301"
    assert [one.code for one in done.diagnostics] == ["E301"]
    assert len(done.attempts) == 4


@pytest.mark.parametrize(
    "policy",
    [
        {"retry": {"attempts": 9}},
        {"timeout": 5},
        {"max_items": 9},
        {"concurrency": 3},
        {"min_ok": 1},
        {"budget": {"tokens": 1}},
        {"supersedes": "wind"},
    ],
    ids=lambda policy: next(iter(policy)),
)
async def test_policy_in_a_step_is_refused(policy: dict[str, object]) -> None:
    plan = json.loads(GOOD_TEXT)
    plan["steps"][0] |= policy

    done = await planned(ScriptedModels([json.dumps(plan)]), "llm")

    assert done.plan is None
    assert [one.code for one in done.diagnostics] == ["E104"]


@pytest.mark.parametrize("field", ["caps", "inputs", "limits"])
async def test_policy_in_a_plan_is_refused(field: str) -> None:
    done = await planned(ScriptedModels([json.dumps({**GOOD, field: []})]), "llm")

    assert done.plan is None
    assert [one.code for one in done.diagnostics] == ["E104"]


async def test_a_planner_may_add_gates_of_its_own() -> None:
    gate = {
        "id": "windy",
        "on": "wind",
        "check": "output.wind >= 0.0",
        "severity": "warn",
        "hint": "look again",
    }
    judge = {"id": "fair", "on": "report", "judge": {"rubric": "The report names every station."}}

    done = await planned(ScriptedModels([json.dumps({**GOOD, "gates": [gate, judge]})]), "llm")

    assert done.plan is not None
    assert [one.id for one in done.plan.gates] == ["windy", "fair"]


@pytest.mark.parametrize("name", ["fresh", "fresh__wind"])
async def test_a_planner_cannot_weaken_a_gate_of_the_goal(name: str) -> None:
    gate = {"id": name, "on": "wind", "fresh_within": "1000d", "severity": "warn"}

    done = await planned(ScriptedModels([json.dumps({**GOOD, "gates": [gate]})]), "llm")

    assert done.plan is None
    assert "E502" in [one.code for one in done.diagnostics]


async def test_a_cut_answer_is_no_plan_even_if_what_is_left_is_one() -> None:
    models = ScriptedModels([said(GOOD_TEXT, is_truncated=True), GOOD_TEXT])

    done = await planned(models)

    assert done.rung == "repaired"
    assert [one.code for one in done.attempts[0].diagnostics] == ["E102"]
    assert "cut off" in models.asked[1].turns[0].reply


async def test_an_answer_that_is_cut_every_time_suggests_nothing_either() -> None:
    call = json.dumps({"tool": "read_sensor", "params": {"station": "ZRH"}})

    done = await planned(
        ScriptedModels([said(call, is_truncated=True)]), "llm", "repaired", "suggested"
    )

    assert done.plan is None
    assert (
        reason(done, "suggested") == "the last answer was cut off: what it suggests may not be all"
    )


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(ModelError("refused", "the provider's filter"), id="content filter"),
        pytest.param("I'm sorry, but I can't help with that.", id="words"),
        pytest.param(
            "As an AI, I won\u2019t do this. I cannot.", id="words with a curly apostrophe"
        ),
    ],
)
async def test_a_refusal_is_recorded_and_not_asked_again(line: str | ModelError) -> None:
    models = ScriptedModels([line])

    done = await planned(models, template_plan=template_plan())

    assert len(models.asked) == 1
    assert reason(done, "llm").startswith("refused: ")
    assert reason(done, "repaired") == "nothing was asked again: the model refused"
    assert done.rung == "template"


async def test_words_alone_do_not_end_planning_while_a_round_is_left() -> None:
    models = ScriptedModels(["First I would look at the stations, then write."])

    done = await planned(models, "llm", "repaired")

    assert len(models.asked) == 4
    assert done.plan is None
    assert [one.code for one in done.diagnostics] == ["E114"]


async def test_a_model_that_talks_to_the_end_is_followed_by_the_next_one() -> None:
    talk = "First I would look at the stations, then write."
    models = ScriptedModels([talk] * 4 + [GOOD_TEXT], fallbacks=("scripted:two",))

    done = await planned(models, "llm", "repaired")

    assert done.plan is not None
    assert [call.preference for call in models.asked[3:]] == ["auto", "scripted:two"]
    assert models.asked[4].turns == ()


async def test_a_plan_that_apologises_is_a_plan() -> None:
    done = await planned(
        ScriptedModels([f"I'm sorry it took so long, I can't be faster.\n{GOOD_TEXT}"])
    )

    assert done.rung == "llm"


@pytest.mark.parametrize("kind", ["unreachable", "denied", "timeout", "over_budget"])
async def test_without_an_answer_the_reason_is_on_record_and_the_ladder_goes_on(kind: str) -> None:
    models = ScriptedModels([ModelError(kind, "no luck")])  # type: ignore[arg-type]

    done = await planned(models, template_plan=template_plan())

    assert len(models.asked) == 1
    assert reason(done, "llm") == f"{kind}: no luck"
    assert reason(done, "repaired") == "nothing was asked again: there was no answer"
    assert (done.rung, done.plan) == ("template", template_plan())


async def test_a_repair_without_an_answer_ends_the_rounds() -> None:
    models = ScriptedModels([faulty(), ModelError("over_budget", "the run's tokens are spent")])

    done = await planned(models, "llm", "repaired")

    assert len(models.asked) == 2
    assert reason(done, "repaired") == "repair round 1: over_budget: the run's tokens are spent"


async def test_cannot_plan_beside_a_plan_is_asked_about_once() -> None:
    both = json.dumps({**GOOD, "cannot_plan": "there is no tool for rain"})
    models = ScriptedModels([both, GOOD_TEXT])

    done = await planned(models, "llm", "repaired")

    assert done.document is not None
    assert done.document.value == GOOD
    assert "leave out 'cannot_plan' if the steps are the plan" in models.asked[1].turns[0].reply

    insisting = ScriptedModels([both, both, GOOD_TEXT])
    done = await planned(insisting, "llm", "repaired")

    assert done.cannot_plan == "there is no tool for rain"
    assert len(insisting.asked) == 2


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"cannot_plan": True, "reason": "no tool for rain"}, "no tool for rain"),
        ({"cannot_plan": {"reason": "no tool for rain", "missing": ["rain"]}}, "no tool for rain"),
        ({"cannot_plan": ["no tool for rain", "no zone"]}, "no tool for rain; no zone"),
        ({"error": {"code": 3, "message": "no tool for rain"}}, "no tool for rain"),
        ({"reasoning": "Rain is not read.", "cannot_plan": True}, "Rain is not read."),
        ({"cannot_plan": True}, "it gave no reason"),
    ],
)
async def test_why_there_is_no_plan_is_found_in_the_answer_or_beside_it(
    answer: JsonObject, why: str
) -> None:
    done = await planned(ScriptedModels([json.dumps(answer)]), "llm")

    assert done.cannot_plan == why


async def test_cannot_plan_is_kept_and_the_template_still_tried() -> None:
    models = ScriptedModels(['{"cannot_plan": "there is no tool for rain"}'])

    done = await planned(models, template_plan=template_plan())

    assert len(models.asked) == 1
    assert done.cannot_plan == "there is no tool for rain"
    assert reason(done, "llm") == "cannot_plan: there is no tool for rain"
    assert done.rung == "template"


async def test_a_question_stops_the_ladder_until_the_user_has_answered() -> None:
    question = {"ask": {"question": "Which hours?", "options": ["day", "night", "day"]}}
    models = ScriptedModels([json.dumps(question), GOOD_TEXT])

    asked = await planned(models, template_plan=template_plan())
    done = await planned(models, answers=[AnsweredQuestion("Which hours?", "night")])

    assert asked.plan is None
    assert asked.question == UserQuestion("Which hours?", ("day", "night"))
    assert outcomes(asked) == [("llm", "fallen")]
    assert reason(asked, "llm") == "asks the user: Which hours?"
    assert done.rung == "llm"
    assert '"answer": "night"' in models.asked[1].prompt


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"may_ask": False}, id="nobody is there"),
        pytest.param(
            {"answers": [AnsweredQuestion("a?", "b")] * 3}, id="the user was asked often enough"
        ),
    ],
)
async def test_a_rung_whose_question_has_no_answer_fails(more: dict[str, Any]) -> None:
    models = ScriptedModels(['{"ask": {"question": "Which hours?"}}'])

    done = await planned(models, template_plan=template_plan(), **more)

    assert done.question is None
    assert reason(done, "llm") == "asked a question that nobody can answer here: Which hours?"
    assert done.rung == "template"
    assert '"ask"' not in models.asked[0].instructions


async def test_a_question_without_words_is_sent_back() -> None:
    models = ScriptedModels(['{"ask": {"options": ["day"]}}', GOOD_TEXT])

    done = await planned(models)

    assert (done.rung, done.question) == ("repaired", None)


@pytest.mark.parametrize("empty", ["", False, None, [], {}])
async def test_empty_alternatives_beside_a_plan_do_no_harm(empty: Json) -> None:
    plan: JsonObject = {**GOOD, "cannot_plan": empty, "ask": {"question": "", "options": []}}

    done = await planned(ScriptedModels([json.dumps(plan)]))

    assert done.rung == "llm"


async def test_without_a_model_only_the_templates_plan_is_tried() -> None:
    done = await planned(None, template_plan=template_plan())
    nothing = await planned(None)

    assert (done.rung, outcomes(done)) == ("template", [("template", "reached")])
    assert (nothing.plan, nothing.rungs) == (None, ())


async def test_a_faulty_template_plan_is_not_taken() -> None:
    plan = Plan.model_validate_json(faulty())

    done = await planned(None, template_plan=plan)

    assert done.plan is None
    assert reason(done, "template") == "1 fault: E301"
    assert [one.code for one in done.diagnostics] == ["E301"]


async def test_a_plan_over_the_budget_is_not_taken() -> None:
    dear = {
        **TOOLS,
        "write_report": TOOLS["write_report"].model_copy(update={"expected_tokens": 5000}),
    }
    models = ScriptedModels([GOOD_TEXT])
    allowance = Allowance(run=RemainingBudget(tokens=1000))

    done = await planned(models, "llm", allowance=allowance)
    over = await planned(models, "llm", allowance=allowance, tools=dear)

    assert done.rung == "llm"
    assert over.plan is None
    assert [one.code[:2] for one in over.diagnostics] == ["E7"]


async def test_every_use_and_every_rung_is_told_as_it_happens() -> None:
    uses: list[ModelUse] = []
    rungs: list[RungRecord] = []

    done = await planned(
        ScriptedModels([faulty(), GOOD_TEXT]), on_use=uses.append, on_rung=rungs.append
    )

    assert [use.tokens for use in uses] == [15, 15]
    assert tuple(rungs) == done.rungs


async def test_a_transient_failure_is_asked_again_where_the_ladder_says_so() -> None:
    models = ScriptedModels([ModelError("timeout", "too slow"), GOOD_TEXT])
    twice = Ladder(name="planner", rungs=(Rung(name="llm", tries=2),))

    done = await planned(models, ladder=twice)

    assert done.rung == "llm"
    assert [call.timeout for call in models.asked] == [None, None]


class PastCalls:
    """Calls of the scripted model took this long."""

    def __init__(self, *seconds: float) -> None:
        self.seconds = seconds

    async def past_seconds(self, model: str, role: str) -> tuple[float, ...]:
        assert (model, role) == ("scripted:one", "planner")
        return self.seconds


async def test_the_clock_grows_with_what_is_asked_and_with_what_calls_took_before() -> None:
    models = ScriptedModels([faulty(), GOOD_TEXT])
    slow = ScriptedModels([GOOD_TEXT])

    await planned(models)
    await planned(slow, history=PastCalls(90.0, 80.0))
    first, second = (call.timeout for call in models.asked)

    assert first is not None
    assert second is not None
    assert 60 < first < second
    assert slow.asked[0].timeout == pytest.approx(270.0, abs=0.5)


async def test_no_plan_comes_out_that_has_an_error() -> None:
    done = await planned(ScriptedModels(["nothing"]))

    assert done.rung == "minimal"
    assert done.plan is not None
    goal = goal_of()
    assert [
        one for one in check(bind_plan(done.plan, goal), goal, TOOLS) if one.severity == "error"
    ] == []


async def test_a_plan_whose_values_depend_on_how_its_text_is_read_is_a_repaired_one() -> None:
    models = ScriptedModels([GOOD_TEXT.replace('"Wind today"', r'"Wind \d"')])

    done = await planned(models, "llm", "repaired")

    assert done.rung == "repaired"
    assert done.plan is not None
    assert done.plan.step(StepId("report")).params["title"] == r"Wind \d"
    assert len(models.asked) == 1
    assert "1 unknown escape(s)" in done.rungs[0].reason


async def test_where_the_ladder_repairs_nothing_such_a_plan_is_taken_as_it_is() -> None:
    models = ScriptedModels([GOOD_TEXT.replace('"Wind today"', r'"Wind \d"')])

    done = await planned(models, "llm")

    assert done.rung == "llm"
