"""A run that goes on asks no model what it was told before, over the scripted server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.served_models import RUN, Asking, question, settings_for
from wavewright.engine.rehearsal.fake_model.replies import calling_tool
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer
from wavewright.executor.budgets.memory import MemoryBudgetStore
from wavewright.executor.events.types import AnswerKept
from wavewright.executor.run.kept_answers import JournalReplayCache
from wavewright.executor.store.journal import MemoryJournal
from wavewright.planner.ports.model_port import LoopLimits, LoopTool
from wavewright.planner.types import Json, JsonObject, StepId
from wavewright.tools.models import open_models

pytestmark = pytest.mark.anyio


TOKEN = "ghp_" + "0123456789abcdefABCDEF0123456789abcd"


class Crash(BaseException):
    """The process ends."""


@asynccontextmanager
async def life(
    server: FakeModelServer, folder: Path, journal: MemoryJournal
) -> AsyncGenerator[Asking]:
    """Open the models in another process of the same run."""
    settings, memory = settings_for(server, folder), JournalReplayCache(journal)
    await memory.load(RUN)
    async with (
        MemoryBudgetStore(settings.budgets) as budget_store,
        open_models(
            settings, budget_store, environment=server.environment("chat"), memory=memory
        ) as opened,
    ):
        yield Asking(opened, budget_store)


async def test_a_question_is_answered_again_without_asking_and_costs_nothing(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer("Three.")
    journal = MemoryJournal()
    async with life(model_server, tmp_path, journal) as asking:
        first = await asking.models.ask(question())
    async with life(model_server, tmp_path, journal) as asking:
        uses = asking.uses
        second = await asking.models.ask(question(), on_use=uses.append)
        spent = await asking.spent()

    assert second == first
    assert len(model_server.ledger) == 1
    assert (uses, spent.calls) == ([], 0)


async def test_what_was_asked_is_kept_beside_the_answer(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer("Three.")
    journal = MemoryJournal()
    async with life(model_server, tmp_path, journal) as asking:
        await asking.models.ask(question())

    [kept] = await journal.load(RUN)
    assert isinstance(kept, AnswerKept)
    assert kept.question is not None
    assert question().prompt in kept.question.text
    assert (kept.question.role, kept.question.step) == (question().role, question().step)


@pytest.mark.parametrize("is_loop", [False, True], ids=["question", "loop"])
async def test_no_kept_question_holds_what_looks_like_a_secret(
    model_server: FakeModelServer, tmp_path: Path, *, is_loop: bool
) -> None:
    model_server.answer(*[calling_tool("look", place=1)] * is_loop, "Three.")
    journal = MemoryJournal()
    asked = question(f"The token is {TOKEN}.", instructions=f"Use {TOKEN}.")

    async def look(params: JsonObject) -> Json:
        return f"{params['place']}: {TOKEN}"

    async with life(model_server, tmp_path, journal) as asking:
        if is_loop:
            await asking.models.work(asked, [tool(look)], LoopLimits())
        else:
            await asking.models.ask(asked)
    texts = [
        event.question.text
        for event in await journal.load(RUN)
        if isinstance(event, AnswerKept) and event.question is not None
    ]

    assert any("The token is" in text for text in texts)
    assert [text for text in texts if TOKEN in text] == []


async def test_the_same_question_asked_twice_is_answered_in_the_order_of_the_first_life(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer("one", "two", "three")
    journal = MemoryJournal()
    async with life(model_server, tmp_path, journal) as asking:
        before = [(await asking.models.ask(question())).text for _ in range(2)]
    async with life(model_server, tmp_path, journal) as asking:
        after = [(await asking.models.ask(question())).text for _ in range(3)]

    assert (before, after) == (["one", "two"], ["one", "two", "three"])


@pytest.mark.parametrize(
    "changed", [{"prompt": "How many?"}, {"step": StepId("other")}, {"index": 1}, {"name": "b"}]
)
async def test_another_question_is_asked(
    model_server: FakeModelServer, tmp_path: Path, changed: dict[str, str]
) -> None:
    model_server.answer("Three.")
    journal = MemoryJournal()
    async with life(model_server, tmp_path, journal) as asking:
        await asking.models.ask(question(step=StepId("a")))
    async with life(model_server, tmp_path, journal) as asking:
        await asking.models.ask(question(**{"step": StepId("a"), **changed}))

    assert len(model_server.ledger) == 2


async def test_what_has_no_run_is_never_remembered(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer("Three.")
    journal = MemoryJournal()
    async with life(model_server, tmp_path, journal) as asking:
        for _ in range(2):
            await asking.models.ask(question(run=None))

    assert (len(model_server.ledger), await journal.load(RUN)) == (2, [])


async def test_an_agent_that_is_killed_in_its_third_question_asks_only_that_one_again(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(calling_tool("look", place=1), calling_tool("look", place=2), "Found it.")
    journal = MemoryJournal()

    async def look(params: JsonObject) -> Json:
        return f"seen {params['place']}"

    async def look_and_die(params: JsonObject) -> Json:
        if params["place"] == 2:
            raise Crash
        return await look(params)

    async with life(model_server, tmp_path, journal) as asking:
        with pytest.raises(Crash):
            await asking.models.work(question(), [tool(look_and_die)], LoopLimits())
    asked_before = len(model_server.ledger)
    async with life(model_server, tmp_path, journal) as asking:
        answer = await asking.models.work(question(), [tool(look)], LoopLimits())

    assert asked_before == 2
    assert answer.text == "Found it."
    assert len(model_server.ledger) == 3


async def test_the_last_question_of_a_resumed_loop_is_the_last_of_all(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(calling_tool("look", place=1), "Enough.")
    journal = MemoryJournal()
    calls: list[Json] = []

    async def look(params: JsonObject) -> Json:
        calls.append(params)
        return "seen"

    limits = LoopLimits(requests=2)
    async with life(model_server, tmp_path, journal) as asking:
        first = await asking.models.work(question(), [tool(look)], limits)
    async with life(model_server, tmp_path, journal) as asking:
        second = await asking.models.work(question(), [tool(look)], limits)

    assert (first.text, second.text) == ("Enough.", "Enough.")
    assert len(model_server.ledger) == 2


def tool(call: object) -> LoopTool:
    schema: JsonObject = {"type": "object", "properties": {"place": {"type": "integer"}}}
    return LoopTool("look", "Look.", schema, call)  # type: ignore[arg-type]
