"""A question is answered while other steps of its run go on."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import anyio
import pytest

from wavewright.config.errors import WavewrightError
from wavewright.engine import Wavewright
from wavewright.engine.run.decisions.questions import AnsweredAlready, OpenQuestion
from wavewright.engine.service.answering import answer_question
from wavewright.engine.service.job_store.store import JobStore
from wavewright.engine.service.questions import find_question, list_questions
from wavewright.executor.events.state import RunState, fold
from wavewright.executor.run import scheduler
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.planner.types import RunId
from wavewright.tools import make_tool

pytestmark = pytest.mark.anyio
RUN = RunId("r")
_PATIENCE_SECONDS = 30.0
_T = TypeVar("_T")


async def first(look: Callable[[], Awaitable[_T | None]]) -> _T:
    """Return what is found as soon as there is something."""
    with anyio.fail_after(_PATIENCE_SECONDS):
        async for found in _looks(look):
            if found is not None:
                return found
    raise AssertionError


async def _looks(look: Callable[[], Awaitable[_T | None]]) -> AsyncIterator[_T | None]:
    while True:
        yield await look()
        await anyio.sleep(0.02)


class Person:
    """Reads and answers what a run asks, in another process as far as the journal knows."""

    def __init__(self, journal: SqliteJournal) -> None:
        self.journal = journal
        self.jobs = JobStore(journal)

    async def next_question(self, after: str | None = None) -> OpenQuestion:
        """Return what the run asks, as soon as that is another question than the one before."""

        async def look() -> OpenQuestion | None:
            with suppress(WavewrightError):
                found = await find_question(self.journal, self.jobs, RUN, time.time())
                return None if found.id == after else found
            return None

        return await first(look)

    async def answer(self, question: OpenQuestion, choice: str, by: str = "ada") -> None:
        """Answer a question."""
        await answer_question(self.journal, self.jobs, question, choice, by=by, now=time.time())

    async def ended(self, steps: set[str]) -> RunState:
        """Return the run once these steps have ended."""

        async def look() -> RunState | None:
            state = fold(await self.journal.load(RUN))
            return state if steps <= {*state.steps} else None

        return await first(look)


@pytest.mark.parametrize("choice", ["approve", "refuse"])
async def test_one_question_after_the_other_is_answered_while_another_step_runs(
    choice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "_LOOK_SECONDS", 0.02)
    paid = list[str]()
    may_end = anyio.Event()

    def pay(who: str) -> str:
        paid.append(who)
        return who

    async def slow() -> str:
        with anyio.fail_after(30):
            await may_end.wait()
        return "done"

    async def answer_both(person: Person) -> None:
        asked = await person.next_question()
        assert [one.id for one in await list_questions(person.journal, person.jobs, 0)] == [
            asked.id
        ]
        await person.answer(asked, choice)
        await person.answer(await person.next_question(after=asked.id), "approve")
        await person.ended({"p", "q"})
        may_end.set()

    tools = [make_tool(pay, effects=["write"], needs_approval=True), make_tool(slow)]
    file = tmp_path / "journal.db"
    async with (
        Wavewright(tools=tools, journal=file, approve=lambda _: None) as ww,
        SqliteJournal(file) as journal,
        anyio.create_task_group() as group,
    ):
        plan = (
            ww.new_plan("pay")
            .step("p", "pay", {"who": "ann"}, optional=True)
            .step("q", "pay", {"who": "bob"})
            .step("s", "slow")
            .returns("${steps.s}")
        )
        group.start_soon(answer_both, Person(journal))
        ended = await ww.run(plan, run=RUN)

        assert ended.result == "done"
        assert len(paid) == (2 if choice == "approve" else 1)


async def test_an_answer_that_comes_too_late_to_be_taken_counts_when_the_run_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "_LOOK_SECONDS", 60)
    paid = list[str]()
    may_end = anyio.Event()

    def pay(who: str) -> str:
        paid.append(who)
        return who

    async def slow() -> str:
        with anyio.fail_after(30):
            await may_end.wait()
        return "done"

    async def answer(person: Person) -> None:
        asked = await person.next_question()
        await person.answer(asked, "approve")
        with pytest.raises(AnsweredAlready, match="by 'ada'"):
            await person.answer(asked, "refuse", by="bob")
        may_end.set()

    tools = [make_tool(pay, effects=["write"], needs_approval=True), make_tool(slow)]
    file = tmp_path / "journal.db"
    async with (
        Wavewright(tools=tools, journal=file, approve=lambda _: None) as ww,
        SqliteJournal(file) as journal,
        anyio.create_task_group() as group,
    ):
        plan = ww.new_plan("pay").step("p", "pay", {"who": "ann"}).step("s", "slow")
        plan = plan.returns("${steps.p}")
        group.start_soon(answer, Person(journal))
        waiting = await ww.run(plan, run=RUN)
        assert (waiting.status, paid) == ("interrupted", [])

        ended = await ww.resume(RUN)

        assert (ended.result, paid) == ("ann", ["ann"])
