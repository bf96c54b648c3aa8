"""What models are asked for four goals, word for word: a change of a prompt is a diff here.

`python -m tests.prompts.test_prompts_of_goals` prints them all; `make prompts` does that.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from syrupy.assertion import SnapshotAssertion

from tests.reviewer.recovery.test_replanning import mend
from tests.reviewer.review.test_by_model import review
from tests.reviewer.scripted_models import ScriptedModels
from tests.reviewer.scripted_runs import (
    NOW,
    Fails,
    ScriptedRun,
    goal_for,
    plan_of,
    run_plan,
    signature,
)
from wavewright.config.errors import WavewrightError
from wavewright.engine.interfaces.cli.common.arguments import project_settings
from wavewright.engine.rehearsal.simulation.plan_reads import vocabulary_of
from wavewright.engine.rehearsal.simulation.values import ValueGenerator
from wavewright.engine.run.jobs.resolving import resolve_job_file
from wavewright.engine.run.project.tools import tools_of_goal
from wavewright.executor.run.ports import GateView
from wavewright.planner.language.plan import Gate
from wavewright.planner.planning.prompt import planner_prompt
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.ports.model_port import ModelCall
from wavewright.planner.types import JsonObject
from wavewright.prompts import Prompts
from wavewright.reviewer.gates.judge import ModelJudge
from wavewright.tools.pack_folders import project_prompts

pytestmark = pytest.mark.anyio

NOT_YET: JsonObject = {
    "summary": "Not all of it is there.",
    "goal_achieved": False,
    "confidence": 0.2,
    "missing_data": ["what was asked for"],
    "recovery_actions": [],
}


FAIR = Gate.model_validate({"id": "fair", "on": "x", "judge": {"rubric": "It is fair."}})


@dataclass(frozen=True)
class AskedGoal:
    """A goal, and a run for it that has not reached it."""

    run: ScriptedRun
    asks_for: JsonObject
    """The action that the reviewer requests."""


def shop() -> AskedGoal:
    """A total of prices, of which one is missing."""
    price: JsonObject = {"type": "object", "properties": {"price": {"type": "number"}}}
    fetch = signature(
        "read_item",
        description="Read one item of the shop.",
        tags=["data"],
        input_schema={
            "type": "object",
            "properties": {"id": {"type": "integer"}, "source": {"type": "string"}},
        },
        output_schema=price,
    )
    plan = plan_of(
        {
            "id": "items",
            "tool": "read_item",
            "for_each": "${inputs.ids}",
            "params": {"id": "${item}"},
        },
        {"id": "total", "tool": "sum_up", "params": {"items": "${steps.items}"}},
        gates=[{"id": "priced", "on": "items", "check": "output.price > 0.0"}],
        result={"total": "${steps.total.total}", "title": "Prices"},
        inputs={"ids": [1, 2, 3]},
    )
    goal = goal_for(
        plan,
        text="The total price of all items.",
        inputs={"ids": [1, 2, 3]},
        allow_literals=["title"],
    )
    answers: dict[str, object] = {"items": [{"price": 1.0}, {"price": 0.0}, {"price": 3.0}]}
    run = run_plan(
        plan, answers, fetch, signature("sum_up", tags=["analysis"]), goal=goal, rung="llm"
    )
    return AskedGoal(
        run, {"kind": "incomplete", "step": "items", "fields": ["price"], "hint": "live"}
    )


def report() -> AskedGoal:
    """A report on stocks, for whose prices there is a benchmark, from old prices."""
    inputs: JsonObject = {"variables": [{"code": "GNP"}], "benchmarks": [{"code": "SKS"}]}
    plan = plan_of(
        {
            "id": "prices",
            "tool": "fetch_prices",
            "params": {"code": "GNP"},
            "why": "it is about them",
        },
        {"id": "report", "tool": "write_report", "params": {"of": "${steps.prices}"}},
        result="${steps.report}",
    )
    goal = goal_for(
        plan,
        text="A report on today's price of each stock.",
        inputs=inputs,
        gates=[{"id": "fresh", "on_tool": "fetch_prices", "fresh_within": "24h"}],
        targets={"key": "code"},
    )
    prices = signature(
        "fetch_prices",
        tags=["data"],
        freshness_field="as_of",
        description="Fetch prices of a stock.",
    )
    old: JsonObject = {"as_of": "2010-01-01", "close": 3.5}
    report = signature("write_report", tags=["analysis"], expected_tokens=500)
    run = run_plan(plan, {"prices": old, "report": {"text": "3.5"}}, prices, report, goal=goal)
    return AskedGoal(run, {"kind": "stale", "step": "prices", "fields": ["as_of"], "hint": "force"})


def alarm() -> AskedGoal:
    """A message, whose sending has failed; there are no inputs and no gates."""
    plan = plan_of({"id": "wake", "tool": "send_alarm", "params": {"text": "Wake up"}})
    send = signature("send_alarm", effects=["write"], description="Send an alarm.")
    run = run_plan(
        plan,
        {"wake": Fails("no line", "transient")},
        send,
        goal=goal_for(plan, text="Wake them up."),
    )
    return AskedGoal(run, {"kind": "failed", "step": "wake", "hint": "again"})


def mail() -> AskedGoal:
    """Messages that ask for bookings: a model reads them, and what it answers chooses the calls."""
    plan = plan_of(
        {"id": "mail", "tool": "read_mail"},
        {
            "id": "wish",
            "tool": "ask_model",
            "params": {"of": "${steps.mail.text}", "for": {"day": "date", "room": ["a", "b"]}},
        },
        {"id": "booking", "tool": "book_room", "params": {"day": "${steps.wish.day}"}},
        result="${steps.booking}",
    )
    read = signature("read_mail", tags=["data"], untrusted_output=True, description="Read a mail.")
    ask = signature("ask_model", expected_tokens=500, description="Ask a model about a text.")
    book = signature("book_room", effects=["write"], description="Book a room for a day.")
    answers: dict[str, object] = {
        "mail": {"text": "On the 2nd, please."},
        "wish": {"day": "2010-03-02", "room": "a"},
        "booking": Fails("no room", "transient"),
    }
    previous: JsonObject = {"result": {"day": "2010-02-02"}, "started": "2010-02-01T00:00:00Z"}
    goal = goal_for(plan, text="Book what the mail asks for.", previous=previous)
    run = run_plan(plan, answers, read, ask, book, goal=goal)
    return AskedGoal(run, {"kind": "failed", "step": "booking", "hint": "the other room"})


GOALS = {"shop": shop, "report": report, "alarm": alarm, "mail": mail}


async def questions(asked: AskedGoal, prompts: Prompts | None = None) -> dict[str, ModelCall | str]:
    """Return what is asked about a goal, by whom it is answered."""
    run, prompts = asked.run, prompts or Prompts()
    planner = planner_prompt(run.goal, run.tools, prompts)
    said: JsonObject = {**NOT_YET, "recovery_actions": [asked.asks_for]}
    found, reviewer, _ = await review(run, said, prompts=prompts)
    _, recovery = await mend(run, {"cannot_plan": "nothing"}, review=found, prompts=prompts)
    verdict: JsonObject = {"reason": "so", "quotes": [], "verdict": "fail"}
    judge = ScriptedModels([verdict] * 3)
    gate = next((gate for gate in run.plan.gates if gate.judge is not None), FAIR)
    step = run.plan.steps[0].id
    output = run.state.outputs().get(step, {"text": "A fair price."})
    await ModelJudge(judge, prompts, goal=run.goal.text).judge(
        gate, step, output, GateView({}, {}), index=None
    )
    return {
        "planner": f"{planner.instructions}\n=====\n{planner.request}",
        "reviewer": reviewer.asked[0],
        "recovery": recovery.asked[0],
        "judge": judge.asked[0],
    }


def text_of(question: ModelCall | str) -> str:
    """Return the whole of a question."""
    if isinstance(question, str):
        return question
    return f"{question.instructions}\n=====\n{question.prompt}"


@pytest.mark.parametrize("name", GOALS)
async def test_what_models_are_asked_for_a_goal(name: str, snapshot: SnapshotAssertion) -> None:
    for role, question in (await questions(GOALS[name]())).items():
        assert text_of(question) == snapshot(name=role)


async def test_a_goal_without_inputs_and_gates_is_asked_about_neither() -> None:
    asked = await questions(alarm())
    told = text_of(asked["reviewer"])

    assert "primary targets" not in told
    assert "gate" not in told.casefold()


async def test_no_output_and_no_message_of_a_tool_is_in_the_question_about_a_patch() -> None:
    asked = await questions(alarm())

    assert "no line" not in text_of(asked["recovery"])


def of_job(file: Path) -> tuple[AskedGoal, Prompts]:
    """Return the goal of a job, and a run for it that has not reached it: of the plan that the job
    holds, or else of one that calls each tool once, with made-up outputs.
    """
    settings = project_settings(file)
    job = resolve_job_file(file, None, settings)
    goal = job.goal.model_copy(update={"recipes": ()})  # which would be tried before a model
    tools = tools_of_goal(goal, settings).signatures
    steps: list[JsonObject] = [{"id": f"step_{n}", "tool": name} for n, name in enumerate(tools)]
    plan = plan_of(*steps) if job.draft is None else job.draft.plan
    values = ValueGenerator(str(file), vocabulary_of(bind_plan(plan, goal), NOW))

    def call(name: str, _params: JsonObject) -> object:
        tool = tools[name]
        return values.make(tool.output_schema, "full", time_field=tool.freshness_field)

    rung = "llm" if job.draft is None else job.draft.rung
    run = run_plan(plan, {}, *tools.values(), goal=goal, rung=rung, call=call)
    demand: JsonObject = {"kind": "incomplete", "step": plan.steps[-1].id, "hint": "all of it"}
    return AskedGoal(run, demand), project_prompts(settings.prompts)


async def main() -> None:
    """Print every question, for the job of a file or for every goal."""
    jobs = [Path(job) for job in sys.argv[1:]]
    asked = {job.name: of_job(job) for job in jobs}
    asked = asked or {name: (make(), Prompts()) for name, make in GOALS.items()}
    for name, (goal, prompts) in asked.items():
        for role, question in (await questions(goal, prompts)).items():
            sys.stdout.write(f"\n######## {name}: {role}\n\n{text_of(question)}\n")


if __name__ == "__main__":
    try:
        anyio.run(main)
    except WavewrightError as error:
        sys.exit(f"error: {error}")
