"""Whatever a question costs is put aside before it is asked, and replaced by what it came to, once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from httpx2 import AsyncClient
from pydantic_ai.models import Model

from tests.support.served_models import RUN, models_over, question, settings_for
from wavewright.config.sections import BudgetsSection
from wavewright.engine.rehearsal.fake_model.replies import (
    Answer,
    ClaimedUsage,
    delayed,
    denied,
    failing,
    filtered,
    no_choices,
    overloaded,
    silence,
    structured,
    with_usage,
)
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer
from wavewright.executor.budgets.memory import MemoryBudgetStore
from wavewright.planner.language.plan import Budget
from wavewright.planner.ports.budgets import BudgetScope, Spend
from wavewright.planner.ports.model_port import LoopLimits, ModelError, ModelUse
from wavewright.planner.types import JsonSchema, StepId
from wavewright.tools.models import open_models
from wavewright.tools.models.clients import build_model
from wavewright.tools.models.endpoints import Endpoint

pytestmark = pytest.mark.anyio

ASKED = len("Be short.\nHow much is it?") / 4
"""Tokens of the question, estimated."""


def budgets(**run: float) -> BudgetsSection:
    return BudgetsSection.model_validate({"run": run, "recovery_share": 0})


async def test_an_answer_is_charged_as_its_provider_counts(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(with_usage("short", ClaimedUsage(read=100, written=20)))
    async with models_over(
        model_server, tmp_path, prices={"scripted": {"input": 10, "output": 100}}
    ) as asking:
        answer = await asking.models.ask(question(), on_use=asking.uses.append)
        spent = await asking.spent()

    assert (answer.use.input_tokens, answer.use.output_tokens, answer.use.is_estimated) == (
        100,
        20,
        False,
    )
    assert answer.use.usd == pytest.approx(0.003)
    assert (spent.calls, spent.tokens) == (1, 120)
    assert spent.usd == pytest.approx(0.003)
    assert spent.seconds == pytest.approx(answer.use.seconds, abs=0.5)


@pytest.mark.parametrize("way", ["whole", "streamed", "loop"])
async def test_the_clock_of_a_question_starts_after_all_of_its_models_are_made(
    way: str, model_server: FakeModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    pieces: list[str] = []

    def make_slowly(endpoint: Endpoint, http: AsyncClient) -> Model:
        made.append(endpoint.name)
        return build_model(endpoint, http)

    monkeypatch.setattr("wavewright.tools.models.clients.build_model", make_slowly)
    # A clock that stands still, but while a model is made and its library loaded.
    monkeypatch.setattr(anyio, "current_time", lambda: 100.0 * len(made))
    model_server.answer("short")

    async with models_over(
        model_server, tmp_path, "responses", is_forced=False, fallbacks=["openai:spare"]
    ) as asking:
        if way == "loop":
            await asking.models.work(question(), [], LoopLimits(), on_use=asking.uses.append)
        else:
            on_text = pieces.append if way == "streamed" else None
            await asking.models.ask(question(), on_use=asking.uses.append, on_text=on_text)

    assert len(made) == 2
    assert [use.seconds for use in asking.uses] == [0.0]


@pytest.mark.parametrize(
    "tokens",
    [
        pytest.param(ClaimedUsage(read=0, written=0), id="zero"),
        pytest.param(ClaimedUsage(read=-3, written=-4, total=-7), id="negative"),
        pytest.param("missing", id="missing"),
    ],
)
async def test_a_count_that_cannot_be_is_replaced_by_an_estimate(
    tokens: ClaimedUsage, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(with_usage("an answer of words", tokens))
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.ask(question())
        spent = await asking.spent()

    assert answer.use.is_estimated
    assert ASKED <= answer.use.input_tokens <= ASKED + 1
    assert 4 <= answer.use.output_tokens <= 5
    assert spent.tokens == answer.use.tokens


@pytest.mark.parametrize(
    "tokens",
    [
        pytest.param(ClaimedUsage(read=10**12, written=1), id="read"),
        pytest.param(ClaimedUsage(read=1, written=10**12), id="written"),
        pytest.param(ClaimedUsage(read=10, written=10, total=10**12), id="in all"),
        pytest.param(
            ClaimedUsage(read=10, written=10, total=10**30), id="beyond what a budget can hold"
        ),
    ],
)
async def test_a_count_beyond_belief_is_charged_all_the_same_and_said_to_be_one(
    tokens: ClaimedUsage, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(with_usage("an answer of words", tokens))
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.ask(question())
        spent = await asking.spent()

    assert answer.use.is_implausible
    assert 10**12 <= answer.use.tokens <= 10**12 + 10
    assert spent.tokens == answer.use.tokens


@pytest.mark.parametrize("model", ["openai-chat:scripted", "ollama:scripted"])
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
async def test_a_total_beyond_belief_is_charged_however_the_answer_comes(
    model: str, model_server: FakeModelServer, tmp_path: Path, *, is_streamed: bool
) -> None:
    model_server.answer(
        with_usage("an answer of words", ClaimedUsage(read=10, written=10, total=10**12))
    )
    pieces = list[str]()
    settings = replace(settings_for(model_server, tmp_path), model=model)
    async with (
        MemoryBudgetStore(settings.budgets) as budget_store,
        open_models(settings, budget_store, environment=model_server.environment()) as models,
    ):
        answer = await models.ask(question(), on_text=pieces.append if is_streamed else None)

    assert answer.use.model == model
    assert (answer.use.is_implausible, answer.use.tokens) == (True, 10**12)


async def test_a_total_that_counts_thoughts_too_is_charged_and_no_alarm(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(
        with_usage("an answer of words", ClaimedUsage(read=10, written=10, total=500))
    )
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.ask(question())

    assert (answer.use.tokens, answer.use.is_implausible) == (500, False)


async def test_what_is_asked_for_is_put_aside_while_it_is_asked(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(silence())
    aside = Spend()
    async with models_over(model_server, tmp_path) as asking, anyio.create_task_group() as group:
        group.start_soon(asking.models.ask, question(max_tokens=500))
        await anyio.to_thread.run_sync(model_server.wait_for_requests, 1)
        aside = await asking.spent()
        group.cancel_scope.cancel()

    assert aside.calls == 1
    assert 500 + ASKED <= aside.tokens <= 501 + ASKED
    assert aside.usd == pytest.approx((ASKED * 1 + 500 * 2) / 1e6, rel=0.01)


async def test_a_question_that_was_given_up_counts_as_all_that_was_put_aside(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(silence())
    async with models_over(model_server, tmp_path, "responses") as asking:
        async with anyio.create_task_group() as group:
            group.start_soon(
                lambda: asking.models.ask(question(max_tokens=500), on_use=asking.uses.append)
            )
            await anyio.to_thread.run_sync(model_server.wait_for_requests, 1)
            group.cancel_scope.cancel()
        spent = await asking.spent()

    [use] = asking.uses
    assert (use.outcome, use.is_estimated) == ("failed", True)
    assert spent.tokens == use.tokens > 500


async def test_a_clock_that_ends_a_question_charges_it_in_full(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(silence())
    async with models_over(model_server, tmp_path, "responses") as asking:
        with pytest.raises(ModelError) as caught:
            await asking.models.ask(
                question(max_tokens=500, timeout=0.2), on_use=asking.uses.append
            )
        spent = await asking.spent()

    assert caught.value.use == asking.uses[0]
    assert (asking.uses[0].outcome, spent.tokens) == ("timeout", asking.uses[0].tokens)
    assert spent.tokens > 500


@pytest.mark.parametrize(
    "fault", [overloaded(0), failing(500), denied()], ids=["429", "500", "403"]
)
async def test_an_error_of_a_provider_costs_a_call_and_no_tokens(
    fault: Answer, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(fault)
    async with models_over(model_server, tmp_path, attempts=1) as asking:
        with pytest.raises(ModelError):
            await asking.models.ask(question(), on_use=asking.uses.append)
        spent = await asking.spent()

    assert (spent.calls, spent.tokens, spent.usd) == (1, 0, 0.0)
    assert (asking.uses[0].tokens, asking.uses[0].usd, asking.uses[0].is_estimated) == (
        0,
        0.0,
        False,
    )


async def test_every_attempt_is_a_call_and_only_what_was_used_is_paid(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(
        overloaded(0), no_choices(), with_usage("now", ClaimedUsage(read=50, written=5))
    )
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.ask(question(), on_use=asking.uses.append)
        spent = await asking.spent()

    assert [use.attempts for use in asking.uses] == [3]
    assert spent.calls == 3
    # The second answer held nothing, and no count.
    assert 55 + ASKED <= answer.use.tokens == spent.tokens <= 56 + ASKED


async def test_an_attempt_that_would_go_over_the_budget_is_not_made(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(overloaded(0))
    async with models_over(model_server, tmp_path, budgets=budgets(calls=2), attempts=5) as asking:
        with pytest.raises(ModelError) as caught:
            await asking.models.ask(question(), on_use=asking.uses.append)

    assert caught.value.kind == "over_budget"
    assert len(model_server.requests) == 2
    assert [(use.outcome, use.attempts) for use in asking.uses] == [("over_budget", 2)]


@pytest.mark.parametrize(
    ("run", "said"),
    [
        # The least that an answer is worth asking for: 500 tokens beside the question.
        ({"tokens": 100}, "the call may take 5"),
        ({"usd": 0.0001}, "the call may take $0.00"),
        ({"calls": 1}, "call"),
    ],
    ids=["tokens", "usd", "calls"],
)
async def test_what_may_cost_more_than_is_left_is_not_asked(
    run: dict[str, float], said: str, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer("never")
    async with models_over(model_server, tmp_path, budgets=budgets(**run)) as asking:
        if "calls" in run:
            await asking.models.ask(question(max_tokens=5))
        with pytest.raises(ModelError) as caught:
            await asking.models.ask(question(max_tokens=16_000), on_use=asking.uses.append)

    assert caught.value.kind == "over_budget"
    assert said in str(caught.value)
    assert "budgets.run" in (caught.value.hint or "")
    assert len(model_server.requests) == run.get("calls", 0)
    assert [(use.outcome, use.attempts, use.tokens) for use in asking.uses] == [
        ("over_budget", 0, 0)
    ]


async def test_a_budget_of_time_that_is_used_up_ends_it(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(delayed("late", 0.15))
    async with models_over(model_server, tmp_path, budgets=budgets(seconds=0.1)) as asking:
        await asking.models.ask(question())
        with pytest.raises(ModelError) as caught:
            await asking.models.ask(question())

    assert caught.value.kind == "over_budget"
    assert len(model_server.requests) == 1


async def test_a_steps_own_budget_holds_too(model_server: FakeModelServer, tmp_path: Path) -> None:
    model_server.answer("never")
    async with models_over(model_server, tmp_path) as asking:
        with pytest.raises(ModelError) as caught:
            await asking.models.ask(
                question(step=StepId("s1"), budget=Budget(tokens=50), max_tokens=60)
            )

    assert caught.value.kind == "over_budget"
    assert model_server.requests == ()


async def test_the_ceiling_is_clamped_to_the_least_that_any_budget_has_left(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer("short")
    prices = {"scripted": {"input": 0, "output": 1_000}}
    async with models_over(
        model_server, tmp_path, prices=prices, budgets=budgets(tokens=4_000, usd=0.8)
    ) as asking:
        await asking.models.ask(
            question(step=StepId("s1"), budget=Budget(tokens=6_000), max_tokens=16_000)
        )

    # 0.8 dollars buy 800 tokens, fewer than the run and the step have room for.
    assert model_server.requests[0].max_tokens == 800


async def test_a_model_without_a_price_is_not_asked_under_a_budget_of_money(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer("free?")
    async with models_over(model_server, tmp_path, prices={}) as asking:
        answer = await asking.models.ask(question())
    async with models_over(model_server, tmp_path, prices={}, budgets=budgets(usd=100)) as asking:
        with pytest.raises(ModelError) as caught:
            await asking.models.ask(question())

    assert answer.use.usd is None
    assert caught.value.kind == "over_budget"
    assert "models.prices" in (caught.value.hint or "")
    assert len(model_server.requests) == 1


async def test_questions_at_once_share_what_is_left(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(with_usage(delayed("one", 0.05), ClaimedUsage(read=10, written=10)))
    uses: list[ModelUse] = []
    refused: list[str] = []
    async with models_over(model_server, tmp_path, budgets=budgets(tokens=1000)) as asking:

        async def ask() -> None:
            try:
                await asking.models.ask(question(max_tokens=200), on_use=uses.append)
            except ModelError as error:
                refused.append(error.kind)

        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(ask)
        spent = await asking.spent()

    assert len(model_server.requests) + len(refused) == len(uses) == 10
    assert set(refused) == {"over_budget"}
    assert model_server.max_in_flight == len(model_server.requests) == 4
    assert spent.tokens == 4 * 20


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("well", "answered"),
        (filtered(), "refused"),
        (denied(), "failed"),
        (failing(500), "failed"),
        (no_choices(), "failed"),
    ],
    ids=["answered", "filtered", "denied", "failing", "empty"],
)
async def test_every_question_is_told_once_and_as_it_ended(
    answer: Answer | str, outcome: str, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(answer)
    async with models_over(model_server, tmp_path, attempts=1) as asking:
        told: ModelUse | None
        try:
            told = (await asking.models.ask(question(), on_use=asking.uses.append)).use
        except ModelError as error:
            told = error.use

    [use] = asking.uses
    assert use.outcome == outcome
    assert told is not None
    assert told.tokens == use.tokens
    assert use.name == "asker"


@pytest.mark.usefixtures("waits_between_requests")
async def test_past_seconds_are_those_of_answered_requests_alone(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(overloaded(0.3), delayed("one", 0.05))
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.ask(question())
        past = await asking.budget_store.past_seconds("openai-chat:scripted", "worker")

    assert len(past) == 1
    # The wait for another attempt is not how long an answer takes.
    assert 0.05 <= past[0] < answer.use.seconds - 0.25


async def test_the_account_is_the_runs_the_jobs_and_the_roles(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(with_usage("well", ClaimedUsage(read=7, written=3)))
    async with models_over(model_server, tmp_path) as asking:
        await asking.models.ask(question(job="daily", step=StepId("s1")))
        left = await asking.budget_store.left(BudgetScope(run=RUN, job="daily", step=StepId("s1")))

    assert [one.spent.tokens for one in (left.run, left.job, left.day, left.step)] == [
        10,
        10,
        10,
        10,
    ]
    assert left.run.spent - left.job.spent == Spend()


async def test_a_budget_without_room_for_the_types_of_a_goal_is_asked_without_them(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(structured({"unit": "mm"}))
    plain: JsonSchema = {"type": "object", "properties": {"unit": {"type": "string"}}}
    typed: JsonSchema = {
        "type": "object",
        "properties": {"unit": {"enum": ["mm", "very " * 2_000]}},
        "required": ["unit"],
        "additionalProperties": False,
    }
    call = question(schema=plain, goal_schema=typed, max_tokens=800)
    async with models_over(model_server, tmp_path, budgets=budgets(tokens=1_000)) as asking:
        await asking.models.ask(call, on_use=asking.uses.append)
    async with models_over(model_server, tmp_path, budgets=budgets(tokens=9_000)) as asking:
        await asking.models.ask(call)

    assert ["very" in str(request.body) for request in model_server.requests] == [False, True]
