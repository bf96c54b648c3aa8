"""A real model of 135 million parameters, asked in every way: what must hold for any model.

How good its answers are is printed and not asserted. `make test` runs a slice, `make model-test`
all of it.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from tests.local_model.conftest import LocalModel
from tests.local_model.goals import FILES, GOALS
from tests.reviewer.recovery.test_replanning import no_recipe
from tests.reviewer.scripted_models import recovery_ladder
from wavewright.engine import NoResult, PlanRun, Wavewright
from wavewright.executor.run.ports import GateView
from wavewright.planner.checks.checker import errors_in
from wavewright.planner.diagnostics.diagnostic import PlanError
from wavewright.planner.language.plan import Gate
from wavewright.planner.ports.asking import Asking
from wavewright.planner.ports.model_port import (
    LoopLimits,
    LoopTool,
    ModelCall,
    ModelError,
    ModelUse,
)
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import Json, JsonObject, JsonSchema, StepId
from wavewright.prompts import Prompts
from wavewright.reviewer import ModelJudge, replan, review_by_code
from wavewright.reviewer.gates.quotes import QuoteSource
from wavewright.reviewer.review.results import ReviewedRun
from wavewright.tools.models.messages import OutputMode

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(1_200)]

IS_WHOLE = bool(os.environ.get("WAVEWRIGHT_MODEL_TESTS"))
whole = pytest.mark.skipif(not IS_WHOLE, reason="a slice: `make model-test` runs all")
NEVER_LONGER = 900.0
"""Seconds after which a test takes what it waits for to be hung, on a busy machine."""

TOWN: JsonSchema = {
    "type": "object",
    "properties": {
        "town": {"type": "string", "maxLength": 20},
        "inhabitants": {"type": "integer"},
        "is_capital": {"type": "boolean"},
    },
    "required": ["town", "inhabitants", "is_capital"],
    "additionalProperties": False,
}


def question(prompt: str, schema: JsonSchema | None = None) -> ModelCall:
    return ModelCall("worker", "test", "Be brief.", prompt, schema=schema, max_tokens=60)


async def test_an_answer_in_words_costs_what_the_server_counts(
    local_model: LocalModel, tmp_path: Path
) -> None:
    before = len(local_model.counted())
    with anyio.fail_after(NEVER_LONGER):
        async with local_model.opened(tmp_path) as models:
            answer = await models.ask(question("Name a colour."))

    assert answer.text.strip()
    assert not answer.use.is_estimated
    # An answer that met its ceiling is asked for once more.
    counted = local_model.counted()[before:]
    assert answer.use.tokens == counted[-1]


async def test_a_typed_answer_fits_its_schema(local_model: LocalModel, tmp_path: Path) -> None:
    with anyio.fail_after(NEVER_LONGER):
        async with local_model.opened(tmp_path) as models:
            answer = await models.ask(question("Bern has 134000 inhabitants.", TOWN))

    print(f"a typed answer: {answer.text}")
    assert validator_of(TOWN).accepts(json.loads(answer.text))


SETTINGS = """\
version: 1
ladders:
  planner: [{name: guided, tries: 3, clock: {base: 60s}}]
  reviewer: [{name: code, ceiling: 0.8}]
"""


@dataclass(frozen=True, slots=True)
class Way:
    """A way to ask for a plan."""

    rung: str
    output_mode: OutputMode
    """How the server is asked for a form."""

    def write_to(self, folder: Path, model: LocalModel) -> None:
        """Set it as the only way, for a project in a folder."""
        settings = SETTINGS.replace("name: guided, tries: 3", self.rung)
        (folder / "wavewright.yaml").write_text(settings)
        known = {f"{model.url} local": {"mode": self.output_mode, "at": time.time()}}
        kept = Path(os.environ["XDG_CACHE_HOME"]) / "wavewright" / "model-servers.json"
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(known))


WAYS = {
    "step by step": Way("name: guided, tries: 3", "native"),
    "whole, by the goal's schema": Way("name: llm", "native"),
    "whole, by a tool": Way("name: llm", "tool"),
    "whole, in words": Way("name: llm", "prompted"),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one goal."""

    is_valid: bool
    """Whether the checker accepted a plan."""
    is_achieved: bool = False
    """Whether the run met the goal's rules and gates."""
    is_right: bool = False
    """Whether its result is what the goal asks for."""


@pytest.fixture(scope="module")
def outcomes() -> Iterator[dict[str, list[Outcome]]]:
    """Print how many plans were good, by way of asking: that is told and not asserted."""
    by_way: dict[str, list[Outcome]] = {}
    yield by_way
    print("\n| asked for | goals | valid | achieved | right |\n|---|---|---|---|---|")
    for way, found in by_way.items():
        valid, achieved = sum(one.is_valid for one in found), sum(one.is_achieved for one in found)
        right = sum(one.is_right for one in found)
        print(f"| {way} | {len(found)} | {valid} | {achieved} | {right} |")


@whole
@pytest.mark.parametrize("name", [*GOALS])
@pytest.mark.parametrize("way", [*WAYS])
async def test_a_plan_is_valid_and_run_to_its_end_or_refused_with_a_reason(
    way: str,
    name: str,
    outcomes: dict[str, list[Outcome]],
    local_model: LocalModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    goal = GOALS[name]
    WAYS[way].write_to(tmp_path, local_model)
    for file, text in FILES.items():
        (tmp_path / file).write_text(text)
    monkeypatch.chdir(tmp_path)
    for variable, value in local_model.environment.items():
        monkeypatch.setenv(variable, value)

    tools = [tool.__name__ for tool in goal.tools]
    found = outcomes.setdefault(way, [])
    with anyio.fail_after(NEVER_LONGER):
        async with Wavewright.from_project(tmp_path, tools=goal.tools) as ww:
            run: PlanRun[Json] | None = None
            reason = ""
            try:
                run = await ww.do(goal.text, goal.inputs, tools=tools)
                package = run.package
            except (PlanError, NoResult) as refusal:
                package, reason = None, str(refusal)

    if run is None or package is None:
        found.append(Outcome(is_valid=False))
        print(f"{name}, {way}: {reason}")
        # Step by step no model can write what the checker refuses; it may come to no end.
        assert way != "step by step" or re.search(r"\bE[0-9]", reason) is None
        return
    called = [(step.step, step.status) for step in run.steps.values()]
    found.append(Outcome(True, run.status == "achieved", package.result == goal.right()))
    print(f"{name}, {way}: {run.status}, {called}, right: {found[-1].is_right}")
    assert run.status in {"achieved", "not_achieved"}
    assert called
    assert package.plan


ASKED = """\
version: 1
steps:
  - {id: notes, tool: read_text, params: {file: notes.txt}}
  - {id: said, ask: {of: "${steps.notes}", for: {word: text}, question: Name a word of it.}}
result: {word: "${steps.said.word}", notes: "${steps.notes}"}
"""


@whole
async def test_what_a_model_says_is_marked_and_its_review_raises_nothing(
    local_model: LocalModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wavewright.yaml").write_text(
        SETTINGS.replace("name: code, ceiling: 0.8", "name: model, clock: {base: 60s}")
    )
    (tmp_path / "asked.plan.yaml").write_text(ASKED)
    (tmp_path / "notes.txt").write_text(FILES["notes.txt"])
    monkeypatch.chdir(tmp_path)
    for variable, value in local_model.environment.items():
        monkeypatch.setenv(variable, value)

    with anyio.fail_after(NEVER_LONGER):
        async with Wavewright.from_project(tmp_path, tools=GOALS["words"].tools) as ww:
            run = await ww.run(tmp_path / "asked.plan.yaml")

    review = run.package.review
    assert review is not None
    print(f"reviewed: {run.package.result}, {review.opinion or review.unread_because}")
    assert review.reviewer == "model"
    assert not review.goal_achieved or review.opinion is not None
    models = {field.field: field.models for field in review.provenance}
    assert models == {"word": ("said",), "notes": ()}


@whole
async def test_an_agent_comes_to_an_end_within_its_limits(
    local_model: LocalModel, tmp_path: Path
) -> None:
    calls: list[JsonObject] = []
    uses: list[ModelUse] = []

    async def measure(arguments: JsonObject) -> Json:
        calls.append(arguments)
        return 21.5

    place: JsonSchema = {
        "type": "object",
        "properties": {"place": {"type": "string", "maxLength": 20}},
        "required": ["place"],
    }
    tool = LoopTool("measure", "Measure the temperature of a place.", place, measure)
    with anyio.fail_after(NEVER_LONGER):
        async with local_model.opened(tmp_path) as models:
            try:
                answer = await models.work(
                    question("How warm is it in Bern?", TOWN),
                    [tool],
                    LoopLimits(requests=3, tool_calls=2),
                    on_use=uses.append,
                )
                print(f"an agent: {answer.text!r} after {len(calls)} call(s)")
            except ModelError as error:
                print(f"an agent: {error}")

    assert len(calls) <= 2
    assert 1 <= len(uses) <= 3


@whole
async def test_a_verdict_has_quotes_that_stand_in_the_output_or_does_not_count(
    local_model: LocalModel, tmp_path: Path
) -> None:
    rubric = {"rubric": "It names a reason for every forecast."}
    gate = Gate.model_validate({"id": "reasons", "on": "report", "judge": rubric})
    output: Json = {"text": "GNP will rise, because its orders doubled in March.", "trend": 0.7}
    uses: list[ModelUse] = []
    with anyio.fail_after(NEVER_LONGER):
        async with local_model.opened(tmp_path) as models:
            judge = ModelJudge(models, Prompts(), on_use=uses.append)
            record = await judge.judge(gate, StepId("report"), output, GateView(), index=None)

    print(f"a judge: {record.verdict}, {record.inspected} {record.message}")
    assert record.severity == "warn"
    assert record.verdict in {"pass", "fail", "error"}
    assert 1 <= len(uses) <= 4
    if record.verdict == "error":
        assert record.message.startswith(("no verdict that counts: ", "the judge could not"))
        return
    assert "openai-chat:local" in record.inspected
    quoted = record.inspected.partition("quoting ")[2].split("“")[1:]
    assert not QuoteSource(output).missing([quote.partition("”")[0] for quote in quoted])
    assert quoted or record.verdict == "fail"


@whole
async def test_a_patch_makes_a_plan_without_errors_or_is_refused_with_a_reason(
    local_model: LocalModel, tmp_path: Path
) -> None:
    run = no_recipe()
    reviewed = ReviewedRun(run.plan, run.goal, run.state, run.tools)
    review = review_by_code(run.plan, run.goal, run.state, run.tools)
    with anyio.fail_after(NEVER_LONGER):
        async with local_model.opened(tmp_path) as models:
            asking = Asking(models=models, prompts=Prompts(), ladder=recovery_ladder(tries=2))
            result = await replan(reviewed, review, asking)

    print(f"recovery: {result.patch or result.reasons}")
    if result.patch is None:
        assert result.reasons
        return
    assert result.checked is not None
    assert result.checked.plan is not None
    assert not [*errors_in(result.checked.plan, run.goal, run.tools)]
