"""An id that a program gives names one run: of one plan, with one set of inputs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from wavewright.engine import LoadedPlan, RunExists, Wavewright
from wavewright.engine.run.ports import ApprovalRequest
from wavewright.planner.planning.records import UserQuestion
from wavewright.tools import make_tool

pytestmark = pytest.mark.anyio


class Payments:
    """Pays, and keeps whom."""

    def __init__(self) -> None:
        self.paid: list[str] = []

    def pay(self, who: str) -> str:
        self.paid.append(who)
        return f"paid {who}"


def nobody(_: UserQuestion) -> None:
    return None


def agree(_: ApprovalRequest) -> bool:
    return True


def payment(ww: Wavewright, who: str) -> LoadedPlan:
    return (
        ww.new_plan("Pay", {"who": who})
        .step("a", "pay", {"who": "${inputs.who}"})
        .returns("${steps.a}")
    )


@pytest.fixture
def payments() -> Payments:
    return Payments()


@pytest.fixture
async def ww(tmp_path: Path, payments: Payments) -> AsyncGenerator[Wavewright]:
    tool = make_tool(payments.pay, name="pay", effects=["write"])
    async with Wavewright(tools=[tool], journal=tmp_path / "j.db", ask=nobody, approve=agree) as ww:
        yield ww


async def test_a_run_with_other_inputs_is_refused_and_the_input_named(
    ww: Wavewright, payments: Payments
) -> None:
    await ww.run(payment(ww, "ann"), run="t1")

    with pytest.raises(RunExists, match="run 't1' has other inputs: 'who' differs\\n"):
        await ww.run(payment(ww, "bob"), run="t1")

    assert payments.paid == ["ann"]


async def test_true_is_another_input_than_one(ww: Wavewright) -> None:
    def counted(number: bool | int) -> LoadedPlan:  # noqa: FBT001 - a value
        plan = ww.new_plan("Pay", {"who": "ann", "number": number})
        return plan.step("a", "pay", {"who": "${inputs.who}"}).returns("${steps.a}")

    await ww.run(counted(1), run="t1")

    with pytest.raises(RunExists, match="'number' differs"):
        await ww.run(counted(True), run="t1")


async def test_all_inputs_that_differ_are_named(ww: Wavewright) -> None:
    def sent(who: str, city: str) -> LoadedPlan:
        plan = ww.new_plan("Pay", {"who": who, "city": city})
        return plan.step("a", "pay", {"who": "${inputs.who}"}).returns("${steps.a}")

    await ww.run(sent("ann", "Bonn"), run="t1")

    with pytest.raises(RunExists, match="'city', 'who' differ\\n"):
        await ww.run(sent("bob", "Rome"), run="t1")


async def test_an_unknown_if_exists_is_refused(ww: Wavewright, payments: Payments) -> None:
    with pytest.raises(RunExists, match="`if_exists` is 'again'"):
        await ww.run(payment(ww, "ann"), run="t1", if_exists="again")  # type: ignore[call-overload]

    assert payments.paid == []


async def test_a_run_of_another_plan_is_refused(ww: Wavewright, payments: Payments) -> None:
    await ww.run(payment(ww, "ann"), run="t1")
    other = payment(ww, "ann").step("b", "pay", {"who": "eve"})

    with pytest.raises(RunExists, match="run 't1' is of another plan"):
        await ww.run(other, run="t1")

    assert payments.paid == ["ann"]


async def test_a_waiting_run_is_not_continued_by_another_plan(
    ww: Wavewright, payments: Payments
) -> None:
    def asking(who: str) -> LoadedPlan:
        asked = ww.new_plan("x").step("q", "ask_person", {"question": "Q?"})
        return asked.step("a", "pay", {"who": who}, depends_on=["q"]).returns("${steps.a}")

    waiting = await ww.run(asking("ann"), run="t2")

    with pytest.raises(RunExists, match="another plan"):
        await ww.run(asking("bob"), run="t2")

    assert (waiting.status, payments.paid) == ("interrupted", [])


async def test_a_stream_of_another_plan_is_refused_too(ww: Wavewright) -> None:
    await ww.run(payment(ww, "ann"), run="t1")

    with pytest.raises(RunExists):
        async for _ in ww.stream(payment(ww, "bob"), run="t1"):
            pass


async def test_the_same_plan_gives_the_old_result_and_calls_nothing(
    ww: Wavewright, payments: Payments
) -> None:
    first = await ww.run(payment(ww, "ann"), run="t1")
    again = await ww.run(payment(ww, "ann"), run="t1")

    assert (again.result, payments.paid) == (first.result, ["ann"])


async def test_a_run_that_is_there_fails_where_that_is_wanted(
    ww: Wavewright, payments: Payments
) -> None:
    first = await ww.run(payment(ww, "ann"), run="t1", if_exists="fail")

    with pytest.raises(RunExists, match="the journal has a run 't1'"):
        await ww.run(payment(ww, "ann"), run="t1", if_exists="fail")

    assert (first.status, payments.paid) == ("achieved", ["ann"])


async def test_a_waiting_run_is_returned_as_it_stands_where_that_is_wanted(
    ww: Wavewright,
) -> None:
    plan = ww.new_plan("x").step("q", "ask_person", {"question": "Q?"}).returns("${steps.q}")
    await ww.run(plan, run="t3")

    returned = await ww.run(plan, run="t3", if_exists="return")

    assert returned.status == "interrupted"
