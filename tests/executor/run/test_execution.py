"""How an execution ends: with its program, with the loss of its run, or with an exception; and how
it is retried.
"""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, cast

import anyio
import asyncpg
import pytest

from tests.engine.service.job_store.open_stores import journal_at
from tests.executor.execution_harness import RUN, ExecutionHarness, echo, plan_of, statuses
from tests.support.postgres import PostgresServer
from wavewright.config.value_types import is_url
from wavewright.executor.events.state import RunState
from wavewright.executor.events.types import Event, ItemFinished
from wavewright.executor.run.ports import LoopClock, Timer
from wavewright.executor.run.rules import ReuseSource, RunSoFar
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.executor.store.errors import RunLost
from wavewright.executor.store.leases import LEASE_SECONDS
from wavewright.planner.language.plan import Limits, Plan
from wavewright.planner.types import Json, RunId, StepId
from wavewright.tools.functions.registry import make_tool
from wavewright.tools.functions.tool import ToolCall

pytestmark = pytest.mark.anyio


def test_a_run_under_which_the_event_loop_ends_fails_nothing_and_says_nothing(
    tmp_path: Path,
) -> None:
    faults: list[str] = []
    begun: list[int | None] = []

    def interrupt() -> None:
        raise KeyboardInterrupt

    async def wait_for_ever(call: ToolCall) -> None:
        begun.append(call.index)
        if len(begun) == 3:
            asyncio.get_running_loop().call_soon(interrupt)
        await anyio.sleep_forever()

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(str(fault)))
        async with SqliteJournal(tmp_path / "j.sqlite") as journal:
            await journal.open_run(RUN)
            plan = plan_of({"id": "fan", "for_each": [1, 2, 3], "params": {"by": "${item}"}})
            await ExecutionHarness().add(wait_for_ever).run(plan, journal=journal)

    async def journaled() -> list[Event]:
        async with SqliteJournal(tmp_path / "j.sqlite") as journal:
            return await journal.load(RUN)

    with pytest.raises(KeyboardInterrupt):
        anyio.run(run)

    assert faults == []
    assert not any(isinstance(event, ItemFinished) for event in anyio.run(journaled))


PLAN = plan_of({"id": "first"}, {"id": "second"})
ONE_AT_A_TIME = Limits(concurrency=1)
REPLACE = "UPDATE run SET fence = fence + 1"


class SleepyClock:
    """The machine's clock, while it was not looked at for some seconds."""

    def __init__(self) -> None:
        self.slept = 0.0
        self._clock = LoopClock()

    def wall(self) -> float:
        return time.time() + self.slept

    def monotonic(self) -> float:
        return time.monotonic() + self.slept

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return self._clock.call_later(seconds, callback)

    def jitter(self, upper: float) -> float:
        return self._clock.jitter(upper)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the journal is."""
    if request.param == "sqlite":
        return str(tmp_path / "j.sqlite")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.database()


async def replace_owner(place: str) -> None:
    """Do what somebody does who takes a run over."""
    if not is_url(place):
        with closing(sqlite3.connect(place, timeout=10)) as file, file:
            file.execute(REPLACE)
        return
    connection = await asyncpg.connect(place, server_settings={"search_path": "wavewright"})
    await connection.execute(REPLACE)
    await connection.close()


async def test_a_reading_call_that_waited_for_its_turn_is_not_begun_by_an_owner_that_was_replaced(
    place: str,
) -> None:
    """Nothing is written before a reading call begins, so that no refusal would tell."""
    clock, bench = SleepyClock(), ExecutionHarness()

    async def sleep_and_lose(_call: ToolCall) -> str:
        await replace_owner(place)
        clock.slept += LEASE_SECONDS + 1
        return "late"

    bench.add(sleep_and_lose)
    async with journal_at(place) as journal:
        await journal.open_run(RUN)
        with pytest.raises(RunLost):
            await bench.run(PLAN, journal=journal, clock=clock, limits=ONE_AT_A_TIME)

    assert bench.called == ["first"]


async def test_an_owner_that_slept_and_was_not_replaced_goes_on(place: str) -> None:
    clock, bench = SleepyClock(), ExecutionHarness()

    def sleep(_call: ToolCall) -> str:
        clock.slept += LEASE_SECONDS + 1
        return "late"

    bench.add(sleep)
    async with journal_at(place) as journal:
        await journal.open_run(RUN)
        await bench.run(PLAN, journal=journal, clock=clock, limits=ONE_AT_A_TIME)

    assert bench.called == ["first", "second"]


CHAIN = plan_of(
    {"id": "a"},
    {"id": "b", "params": {"by": "${steps.a}"}},
    {"id": "c", "params": {"by": "${steps.b}"}},
)


class Failing:
    """A bench on which steps fail as long as they are named."""

    def __init__(self, *steps: str, **signature: Any) -> None:
        self.failing = set(steps)
        self.bench = ExecutionHarness().add(self.answer, **signature)

    def answer(self, call: ToolCall) -> Json:
        name = call.step if call.index is None else f"{call.step}[{call.index}]"
        if name in self.failing:
            raise ValueError(name)
        return echo(call)

    async def retry(self, donor: RunState, *anew: str, plan: Plan = CHAIN) -> RunState:
        """Retry once nothing fails any more."""
        self.failing.clear()
        self.bench.calls.clear()
        steps = frozenset(map(StepId, anew))
        return await self.bench.run(
            plan, donor=ReuseSource((RunSoFar(RunId("run_0"), donor),), steps)
        )

    async def fail(self, plan: Plan = CHAIN) -> RunState:
        """Run as `run_0`, whose id is part of the keys, and end with a failure."""
        empty = ReuseSource((RunSoFar(RunId("run_0"), RunState()),))
        return await self.bench.run(plan, donor=empty)


async def test_what_ended_well_is_not_called_again() -> None:
    bench = Failing("b")

    state = await bench.retry(await bench.fail())

    assert bench.bench.called == ["b", "c"]
    assert statuses(state) == {"a": "reused", "b": "ok", "c": "ok"}


async def test_a_write_that_took_effect_is_not_repeated_by_a_retry() -> None:
    bench = Failing("b", effects=frozenset({"write"}))

    state = await bench.retry(await bench.fail())

    assert bench.bench.called == ["b", "c"]
    assert statuses(state)["a"] == "reused"


async def test_a_repeated_write_has_the_key_that_it_had() -> None:
    bench = Failing("b", effects=frozenset({"write"}))
    donor = await bench.fail()
    before = next(call.key for call in bench.bench.calls if call.step == "b")

    await bench.retry(donor)

    assert next(call.key for call in bench.bench.calls if call.step == "b") == before


async def test_a_step_that_is_done_anew_has_another_key_and_is_called() -> None:
    bench = Failing("c", effects=frozenset({"write"}))
    donor = await bench.fail()
    before = next(call.key for call in bench.bench.calls if call.step == "b")

    state = await bench.retry(donor, "b", "c")

    assert bench.bench.called == ["b", "c"]
    assert statuses(state)["a"] == "reused"
    assert next(call.key for call in bench.bench.calls if call.step == "b") != before


async def test_a_step_with_other_parameters_is_called() -> None:
    bench = Failing("c")
    donor = await bench.fail()
    changed = plan_of({"id": "a", "params": {"by": "another"}}, {"id": "b"})

    state = await bench.retry(donor, plan=changed)

    assert bench.bench.called == ["a", "b"]
    assert statuses(state) == {"a": "ok", "b": "ok"}


async def test_of_items_only_those_that_failed_are_called() -> None:
    plan = plan_of({"id": "a", "for_each": [1, 2, 3], "params": {"by": "${item}"}})
    bench = Failing("a[1]")

    state = await bench.retry(await bench.fail(plan), plan=plan)

    assert [call.index for call in bench.bench.calls] == [1]
    assert statuses(state) == {"a": "ok"}
    assert RUN != "run_0"


class OwnEnd(BaseException):
    """What a tool's author has made no `Exception`."""


class Unreadable(Exception):
    """One whose attributes nobody can read."""

    def __getattribute__(self, name: str) -> Any:
        raise ValueError(name)


def _nested(depth: int) -> BaseException:
    error: BaseException = ValueError("innermost")
    for _ in range(depth):
        error = cast("BaseException", BaseExceptionGroup("g", [error]))
    return error


WHATEVER = [
    ValueError("no"),
    SystemExit(3),
    RecursionError(),
    OwnEnd("enough"),
    GeneratorExit("done"),
    KeyboardInterrupt(),
    ExceptionGroup("g", [OSError()]),
    BaseExceptionGroup("g", [SystemExit(3), KeyboardInterrupt()]),
    StopIteration(5),
    pytest.param(Unreadable(), id="unreadable"),
    pytest.param(_nested(2000), id="nested without end"),
]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("error", WHATEVER, ids=repr)
@pytest.mark.anyio
async def test_whatever_a_tool_raises_is_a_failure_and_not_a_crash(
    error: BaseException, *, is_async: bool
) -> None:
    async def answer(call: ToolCall) -> Json:
        await anyio.lowlevel.checkpoint()
        raise error

    def answer_in_thread() -> str:
        raise error

    tools = ExecutionHarness().add(echo).add(answer, "wild")
    if not is_async:
        tools.tools["wild"] = make_tool(answer_in_thread, name="wild")
    with handled_signals():
        state = await tools.run(plan_of({"id": "a", "tool": "wild", "params": {}}, {"id": "b"}))

    assert statuses(state) == {"a": "failed", "b": "ok"}


@contextmanager
def handled_signals() -> Generator[None]:
    """Handle signals as the daemon does: none of them raises."""
    before = [
        (number, signal.signal(number, signal.SIG_IGN))
        for number in (signal.SIGINT, signal.SIGTERM)
    ]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


@pytest.mark.parametrize("is_grouped", [False, True])
def test_ctrl_c_that_meets_a_tool_at_work_ends_the_process_and_not_the_step(
    *, is_grouped: bool
) -> None:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    async def answer(call: ToolCall) -> Json:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as error:
            if is_grouped:
                raise BaseExceptionGroup("of the tool's task group", [error]) from None
            raise
        return "not interrupted"

    async def run() -> RunState:
        signal.signal(signal.SIGINT, interrupt)
        return (
            await ExecutionHarness()
            .add(echo)
            .add(answer, "wild")
            .run(plan_of({"id": "a", "tool": "wild"}))
        )

    with handled_signals(), pytest.raises(KeyboardInterrupt):
        anyio.run(run)
