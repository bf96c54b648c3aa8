"""Runs that a program repeats, continues and cancels, and those of programs on the command line."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.engine.conftest import CommandLine
from wavewright.engine import (
    ApprovalRequest,
    FunctionsMissing,
    LoadedPlan,
    NoResult,
    PlanRun,
    RetryRefused,
    Wavewright,
)
from wavewright.executor.store.errors import RunNotFound
from wavewright.planner.types import Json, as_list
from wavewright.tools import Tool, ToolError, make_tool

pytestmark = pytest.mark.anyio


def is_repaired() -> bool:
    return Path("repaired").exists()


def mend() -> None:
    """Mend what the tools need, and change no code of theirs."""
    Path("repaired").touch()


class Readings:
    """Reads items; one of them fails until it is mended."""

    def __init__(self) -> None:
        self.calls = list[int]()
        self.is_reached = anyio.Event()

    async def read(self, number: int) -> int:
        """Read an item."""
        self.calls.append(number)
        if number == 3 and not is_repaired():
            raise ValueError("the third cannot be read")
        return 10 * number

    async def wait(self) -> str:
        """Wait for ever."""
        self.is_reached.set()
        await anyio.sleep_forever()
        return "never"


@pytest.fixture
def readings() -> Readings:
    return Readings()


@pytest.fixture
def journal(wavewright: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The journal of a program, which the commands use, too."""
    monkeypatch.setenv("WAVEWRIGHT_JOURNAL", str(tmp_path / "runs.db"))
    return tmp_path / "runs.db"


@pytest.fixture
async def ww(journal: Path, readings: Readings) -> AsyncGenerator[Wavewright]:
    async with Wavewright(tools=[readings.read, readings.wait], journal=journal) as ww:
        yield ww


def reading(ww: Wavewright) -> LoadedPlan:
    return (
        ww.new_plan("Read", {"numbers": [1, 2, 3, 4]})
        .step("items", "read", {"number": "${item}"}, for_each="${inputs.numbers}")
        .returns("${steps.items}")
    )


async def test_a_retry_makes_only_the_calls_that_have_not_succeeded(
    ww: Wavewright, readings: Readings
) -> None:
    failed = await ww.run(reading(ww))
    mend()
    readings.calls.clear()

    again = await ww.retry(failed.id)

    assert (failed.status, again.status, again.result) == (
        "not_achieved",
        "achieved",
        [10, 20, 30, 40],
    )
    assert readings.calls == [3]


async def test_a_retry_whose_answers_are_all_there_needs_no_person(journal: Path) -> None:
    paid = list[str]()

    def pay(who: str) -> str:
        """Pay."""
        paid.append(who)
        return who

    def approve(_: object) -> bool:
        return True

    tool = make_tool(pay, effects=["write"], needs_approval=True)
    async with Wavewright(tools=[tool], journal=journal, approve=approve) as asked:
        plan = asked.new_plan().step("p", "pay", {"who": "ann"}).returns("${steps.p}")
        first = await asked.run(plan)
    async with Wavewright(tools=[tool], journal=journal) as alone:
        again = await alone.retry(first.id)

    assert (again.result, paid) == ("ann", ["ann"])


class Cashier:
    """Charges, which fails for some: without an effect, or nobody knows."""

    def __init__(self) -> None:
        self.charged = list[str]()
        self.error: Exception | None = None

    def charge(self, who: str) -> str:
        """Charge somebody."""
        if self.error is not None and who == "b":
            raise self.error
        self.charged.append(who)
        return who


@pytest.mark.parametrize("options", [{}, {"failed": True}, {"set": {"who": ["b", "a"]}}])
async def test_two_retries_of_one_run_charge_once(journal: Path, options: dict[str, Any]) -> None:
    cashier = Cashier()
    cashier.error = ToolError("refused")
    async with Wavewright(
        tools=[make_tool(cashier.charge, effects=["write"])], journal=journal
    ) as ww:
        plan = ww.new_plan("Charge", {"who": ["a", "b"]})
        plan = plan.step("c", "charge", {"who": "${item}"}, for_each="${inputs.who}")
        first = await ww.run(plan.returns("${steps.c}"))
        cashier.error = None

        retries = [await ww.retry(first.id, **options) for _ in range(2)]

    assert [sorted(map(str, as_list(retry.result))) for retry in retries] == 2 * [["a", "b"]]
    assert sorted(cashier.charged) == ["a", "b"]


async def test_two_retries_at_the_same_moment_charge_once(journal: Path) -> None:
    calls = list[str]()
    is_refused = True

    async def charge(who: str) -> str:
        """Charge somebody, which takes its time."""
        if is_refused:
            raise ToolError("refused")
        calls.append(who)
        await anyio.sleep(0.3)
        return who

    ended = list[PlanRun[Json]]()
    tool = make_tool(charge, effects=["write"])
    async with Wavewright(tools=[tool], journal=journal) as ww:
        plan = ww.new_plan().step("c", "charge", {"who": "b"}).returns("${steps.c}")
        first = await ww.run(plan)
        is_refused = False

        async def retry() -> None:
            ended.append(await ww.retry(first.id))

        async with anyio.create_task_group() as group:
            group.start_soon(retry)
            group.start_soon(retry)

    assert ([run.result for run in ended], calls) == (["b", "b"], ["b"])
    notes = [note.body for run in ended for note in run.state.notes if note.topic == "warning"]
    message = f"its calls begin when another retry of run {first.id} has made its own"
    assert notes == [{"message": message}]


async def test_a_retry_that_goes_on_after_a_later_one_charges_nothing_again(journal: Path) -> None:
    cashier = Cashier()
    cashier.error = ToolError("refused")
    may_go_on = False

    def approve(request: ApprovalRequest) -> bool | None:
        return True if may_go_on else None

    async with Wavewright(
        tools=[make_tool(cashier.charge, effects=["write"], needs_approval=True)],
        journal=journal,
        approve=approve,
    ) as ww:
        plan = ww.new_plan().step("c", "charge", {"who": "b"}).returns("${steps.c}")
        may_go_on = True
        first = await ww.run(plan)
        may_go_on, cashier.error = False, None
        waiting = await ww.retry(first.id)
        may_go_on = True
        later = await ww.retry(first.id)

        resumed = await ww.resume(waiting.id)

    assert (waiting.status, later.result, resumed.result) == ("interrupted", "b", "b")
    assert cashier.charged == ["b"]


async def test_what_another_retry_may_have_charged_is_left(journal: Path) -> None:
    cashier = Cashier()
    cashier.error = ToolError("refused")
    async with Wavewright(
        tools=[make_tool(cashier.charge, effects=["write"])], journal=journal
    ) as ww:
        plan = ww.new_plan().step("c", "charge", {"who": "b"}).returns("${steps.c}")
        first = await ww.run(plan)
        cashier.error = ToolError("the line broke", is_unclear=True)
        await ww.retry(first.id)
        cashier.error = None

        left = await ww.retry(first.id)
        again = await ww.retry(first.id, again=["c"])

    assert (left.status, again.result, cashier.charged) == ("not_achieved", "b", ["b"])


async def test_a_retry_may_begin_at_a_step_with_other_inputs(
    ww: Wavewright, readings: Readings
) -> None:
    mend()
    first = await ww.run(reading(ww))

    again = await ww.retry(first.id, from_="items", set={"numbers": [1, 5]})

    assert again.result == [10, 50]
    assert readings.calls == [1, 2, 3, 4, 1, 5]


async def test_a_retry_calls_functions_that_only_its_plan_has(ww: Wavewright) -> None:
    def fail(number: int) -> int:
        if not is_repaired():
            raise ValueError("not yet")
        return number

    plan = ww.new_plan().step("a", fail, {"number": 1}).returns("${steps.a}")
    failed = await ww.run(plan)
    mend()

    assert (await ww.retry(failed.id, plan=plan)).result == 1


async def test_a_run_of_one_tool_over_a_list_is_retried_with_the_function_as_it_is_now(
    ww: Wavewright,
) -> None:
    calls: list[str] = []

    def parse(text: str) -> int:
        calls.append(text)
        return int(text)

    failed = await ww.map(parse, ["1", "two", "3"])

    def parse_words(text: str) -> int:
        calls.append(text)
        return 2 if text == "two" else int(text)

    parse_words.__name__ = "parse"
    with pytest.raises(FunctionsMissing, match=r"(?s)calls parse,.*tools=\[parse\]"):
        await ww.retry(failed.id, failed=True)
    again = await ww.retry(failed.id, failed=True, tools=[parse_words])

    assert again.result == [1, 2, 3]
    # The first three are made at once.
    assert (sorted(calls[:3]), calls[3:]) == (["1", "3", "two"], ["two"])


async def test_a_retry_asks_for_functions_of_which_data_chooses(tmp_path: Path) -> None:
    def pay(amount: int) -> int:
        raise ValueError(f"no money for {amount}")

    calls = [{"tool": "pay", "params": {"amount": 3}}]
    step = {"id": "act", "dispatch": "${inputs.calls}", "tools": ["pay"]}
    async with Wavewright(tools=[pay], journal=tmp_path / "runs.db") as first:
        failed = await first.run({"inputs": {"calls": calls}, "steps": [step]})

    async with Wavewright(journal=tmp_path / "runs.db") as other:
        with pytest.raises(FunctionsMissing, match=r"tools=\[pay\]"):
            await other.retry(failed.id)


@pytest.mark.parametrize("options", [{}, {"from_": "first"}, {"set": {"n": 2}}])
async def test_a_retry_of_a_run_that_succeeded_asks_for_its_functions_too(
    options: Any, tmp_path: Path
) -> None:
    def double(n: int) -> int:
        return 2 * n

    step = {"id": "first", "tool": "double", "params": {"n": "${inputs.n}"}}
    async with Wavewright(tools=[double], journal=tmp_path / "runs.db") as first:
        run = await first.run({"inputs": {"n": 1}, "steps": [step]})

    async with Wavewright(journal=tmp_path / "runs.db") as other:
        with pytest.raises(FunctionsMissing, match=r"tools=\[double\]"):
            await other.retry(run.id, **options)


async def test_what_cannot_be_retried_says_why_and_what_else(ww: Wavewright) -> None:
    failed = await ww.run(reading(ww))

    with pytest.raises(RetryRefused, match="did you mean 'items'"):
        await ww.retry(failed.id, from_="item")
    with pytest.raises(RetryRefused, match="did you mean 'numbers'"):
        await ww.retry(failed.id, set={"number": [1]})
    with pytest.raises(RetryRefused, match="its inputs: numbers"):
        await ww.retry(failed.id, set={"unlike": 1})
    with pytest.raises(TypeError, match=r"`again` are a list of names, .*: write \['numbers'\]"):
        await ww.retry(failed.id, again="numbers")
    with pytest.raises(RunNotFound, match=r"`WAVEWRIGHT_JOURNAL=\S+ wavewright runs` lists them"):
        await ww.retry("absent")


async def test_a_run_that_another_task_executes_is_cancelled(
    ww: Wavewright, readings: Readings
) -> None:
    ended = list[PlanRun[Json]]()

    async def execute() -> None:
        ended.append(await ww.run(ww.new_plan().step("w", "wait", {}), run="r1"))

    async with anyio.create_task_group() as group:
        group.start_soon(execute)
        await readings.is_reached.wait()
        ended.append(await ww.cancel("r1", by="ann"))

    assert [run.status for run in ended] == ["cancelled", "cancelled"]
    assert {run.state.finished and run.state.finished.reason for run in ended} == {
        "cancelled by ann"
    }
    for run in (*ended, await ww.resume("r1")):
        with pytest.raises(NoResult, match="run r1 has no result: cancelled by ann"):
            _ = run.result


def test_a_retry_on_the_command_line_names_the_program_that_has_the_tools(
    wavewright: CommandLine, journal: Path, readings: Readings
) -> None:
    program = Wavewright(tools=[readings.read], journal=journal)
    program.run_sync(reading(program), run="r1")

    answer = wavewright("retry", "r1")

    assert answer.code == 2
    assert "r1' calls read of" in answer.err
    assert "await ww.retry('r1')" in answer.err


def test_a_resumption_on_the_command_line_names_the_program_that_has_the_tools(
    wavewright: CommandLine, journal: Path, readings: Readings
) -> None:
    async def leave_unfinished() -> None:
        async with (
            Wavewright(tools=[readings.wait], journal=journal) as ww,
            anyio.create_task_group() as group,
        ):
            plan = ww.new_plan().step("w", "wait", {})
            group.start_soon(lambda: ww.run(plan, run="r1"))
            await readings.is_reached.wait()
            group.cancel_scope.cancel()

    anyio.run(leave_unfinished)

    answer = wavewright("resume", "r1")

    assert answer.code == 2
    assert "await ww.resume('r1')" in answer.err


def charge(who: str) -> str:
    return f"charged {who}"


def charge_by_name(name: str, note: str) -> str:
    raise AssertionError("the card is charged twice", name, note)


@pytest.mark.parametrize(
    "tools",
    [
        pytest.param([make_tool(charge_by_name, name="charge", effects=["write"])], id="changed"),
        pytest.param([], id="removed"),
    ],
)
async def test_a_run_is_resumed_although_a_finished_step_could_not_be_called_any_more(
    journal: Path, tools: list[Tool]
) -> None:
    old = make_tool(charge, effects=["write"])
    async with Wavewright(tools=[old], journal=journal, ask=lambda _: None) as ww:
        plan = (
            ww.new_plan()
            .step("all", "charge", {"who": "${item}"}, for_each=["ann", "bob"])
            .step("asked", "ask_person", {"question": "Send it?"}, depends_on=["all"])
            .returns("${steps.all}")
        )
        waiting = await ww.run(plan)

    async with Wavewright(tools=tools, journal=journal, ask=lambda _: "yes") as ww:
        ended = await ww.resume(waiting.id)

    assert ended.result == ["charged ann", "charged bob"]
