"""What a program's functions may answer: only `True`, or an approval that says so, approves."""

from __future__ import annotations

import asyncio
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from wavewright.engine import Approval, Wavewright
from wavewright.engine.run.ports import AnswerUnusable
from wavewright.tools import make_tool

pytestmark = pytest.mark.anyio


class Word(Enum):
    YES = "yes"


class Truthy:
    def __bool__(self) -> bool:
        return True


async def pay(answer: object, folder: Path) -> tuple[list[str], str]:
    """Return who was paid where the request is answered so, and why the step failed."""
    paid: list[str] = []

    def pay(who: str) -> str:
        paid.append(who)
        return who

    tool = make_tool(pay, effects=["write"], needs_approval=True)

    def approve(request: object) -> bool:
        return answer  # type: ignore[return-value]

    async with Wavewright(tools=[tool], journal=folder / "j.db", approve=approve) as ww:
        plan = ww.new_plan("x").step("a", "pay", {"who": "ann"}).returns("${steps.a}")
        run = await ww.run(plan)
    error = run.steps["a"].error
    return paid, "" if error is None else error.message


@pytest.mark.parametrize("answer", [True, Approval(approved=True)])
async def test_true_and_an_approval_approve(answer: object, tmp_path: Path) -> None:
    assert await pay(answer, tmp_path) == (["ann"], "")


@pytest.mark.parametrize("name", ["approve", "ask"])
def test_what_is_no_function_is_refused_before_anything_runs(name: str) -> None:
    answers: dict[str, Any] = {name: True}

    with pytest.raises(TypeError, match=f"`{name}` is a function of the request, and not 'bool'"):
        Wavewright(**answers)


@pytest.mark.parametrize(
    "answer",
    [
        "no",
        "n",
        "yes",
        "true",
        "",
        0,
        1,
        1.0,
        {"approved": False},
        {"approved": True},
        [True],
        Word.YES,
        Truthy(),
    ],
)
async def test_what_is_merely_true_approves_nothing_and_the_step_says_so(
    answer: object, tmp_path: Path
) -> None:
    paid, reason = await pay(answer, tmp_path)

    assert paid == []
    assert "only True or Approval(True) approves" in reason


async def test_an_approval_that_says_another_thing_than_true_refuses(tmp_path: Path) -> None:
    paid, _ = await pay(Approval(approved="no"), tmp_path)  # type: ignore[arg-type]

    assert paid == []


async def test_the_reason_of_a_refusal_is_that_of_the_step(tmp_path: Path) -> None:
    paid, reason = await pay(Approval(approved=False, reason="over the limit"), tmp_path)

    assert (paid, reason) == ([], "over the limit")


@pytest.mark.parametrize("answer", [0, False, 3, ["x"], {"answer": "x"}])
async def test_what_is_no_text_answers_no_question(answer: object, tmp_path: Path) -> None:
    def ask(question: object) -> str:
        return answer  # type: ignore[return-value]

    async with Wavewright(journal=tmp_path / "j.db", ask=ask) as ww:
        plan = ww.new_plan("x").step("q", "ask_person", {"question": "Q?"}).returns("${steps.q}")
        with pytest.raises(AnswerUnusable, match="which is no text"):
            await ww.run(plan)


async def test_a_function_whose_own_waiting_is_cancelled_leaves_the_run_waiting(
    tmp_path: Path,
) -> None:
    def one() -> int:
        return 1

    async def approve(request: object) -> bool:
        raise asyncio.CancelledError

    tool = make_tool(one, effects=["write"], needs_approval=True)
    async with Wavewright(tools=[tool], journal=tmp_path / "j.db", approve=approve) as ww:
        plan = ww.new_plan("x").step("a", "one", {}).returns("${steps.a}")
        waiting = await ww.run(plan, run="r")
    async with Wavewright(tools=[tool], journal=tmp_path / "j.db", approve=lambda _: True) as ww:
        resumed = await ww.run(plan, run="r")

    assert (waiting.status, resumed.status, resumed.result) == ("interrupted", "achieved", 1)
