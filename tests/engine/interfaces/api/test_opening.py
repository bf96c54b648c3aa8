"""One `Wavewright` in many hands: tasks that enter and leave, threads, and readers of a stream."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest

from wavewright.config.errors import WavewrightError
from wavewright.engine import LoadedPlan, NotOpen, Wavewright
from wavewright.executor import Event, RunFinished
from wavewright.executor.store.errors import JournalError
from wavewright.planner import Json

pytestmark = pytest.mark.anyio


class Gate:
    """A tool that waits until it is opened."""

    def __init__(self) -> None:
        self.is_reached = anyio.Event()
        self.opens = anyio.Event()

    async def wait(self) -> str:
        """Wait."""
        self.is_reached.set()
        await self.opens.wait()
        return "open"


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def ww(tmp_path: Path, gate: Gate) -> Wavewright:
    return Wavewright(tools=[double, gate.wait], journal=tmp_path / "runs.db")


def doubled(ww: Wavewright) -> LoadedPlan:
    return ww.new_plan().step("t", double, {"number": 21}).returns("${steps.t}")


def waiting(ww: Wavewright) -> LoadedPlan:
    return ww.new_plan().step("t", "wait", {}).returns("${steps.t}")


async def test_one_task_may_enter_and_another_leave(ww: Wavewright) -> None:
    await asyncio.get_running_loop().create_task(ww.__aenter__())
    run = await ww.run(doubled(ww))
    await asyncio.get_running_loop().create_task(ww.__aexit__(None, None, None))

    assert run.result == 42
    with pytest.raises(WavewrightError, match="not open"):
        await ww.run(doubled(ww))


async def test_who_leaves_first_takes_nothing_from_those_who_stay(
    ww: Wavewright, gate: Gate
) -> None:
    async def short() -> None:
        async with ww:
            await gate.is_reached.wait()
        gate.opens.set()

    async def long() -> None:
        async with ww:
            results.append((await ww.run(waiting(ww))).result)

    results = list[Json]()
    async with anyio.create_task_group() as group:
        group.start_soon(short)
        group.start_soon(long)

    assert results == ["open"]


CALLS_OF_PLAIN_PROGRAMS: list[tuple[Callable[[Wavewright], object], str]] = [
    (lambda ww: ww.run_sync(doubled(ww)), "run"),
    (lambda ww: ww.map_sync("double", [1]), "map"),
    (lambda ww: ww.plan_sync("double 1"), "plan"),
]


@pytest.mark.parametrize(("call", "instead"), CALLS_OF_PLAIN_PROGRAMS)
async def test_calls_of_plain_programs_are_refused_inside(
    ww: Wavewright, call: Callable[[Wavewright], object], instead: str
) -> None:
    async with ww:
        with pytest.raises(NotOpen, match="plain programs") as refused:
            call(ww)

    assert refused.value.hint == f"write `await ww.{instead}(…)`"


async def test_who_enters_while_the_last_one_leaves_opens_anew(ww: Wavewright) -> None:
    await ww.__aenter__()
    leaving = asyncio.get_running_loop().create_task(ww.__aexit__(None, None, None))
    await anyio.lowlevel.checkpoint()
    async with ww:
        run = await ww.run(doubled(ww))
    await leaving

    assert run.result == 42


async def test_everybody_who_waits_for_an_opening_hears_why_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ww = Wavewright(tools=[double], journal=tmp_path / "file" / "runs.db")
    refusals = list[JournalError]()

    async def enter() -> None:
        with pytest.raises(JournalError) as refused:
            await ww.__aenter__()
        refusals.append(refused.value)

    async with anyio.create_task_group() as group:
        group.start_soon(enter)
        group.start_soon(enter)

    assert len(refusals) == 2


def test_threads_run_plans_of_one_object_at_the_same_time(ww: Wavewright) -> None:
    plan = doubled(ww)

    with ThreadPoolExecutor(4) as threads:
        runs = [threads.submit(ww.run_sync, plan) for _ in range(4)]

    assert [run.result().result for run in runs] == [42] * 4


async def test_two_readers_of_a_stream_get_all_events_each(ww: Wavewright) -> None:
    read = list[list[Event]]()

    async with ww:
        stream = ww.stream(doubled(ww))

        async def follow() -> None:
            read.append([event async for event in stream])

        async with anyio.create_task_group() as group:
            group.start_soon(follow)
            group.start_soon(follow)
        again = [event async for event in stream]

    assert read[0] == read[1] == again
    assert isinstance(again[-1], RunFinished)


async def test_what_is_not_open_any_more_says_so(ww: Wavewright) -> None:
    async with ww:
        stream = ww.stream(doubled(ww))

    with pytest.raises(WavewrightError, match="not open"):
        [event async for event in stream]
    with pytest.raises(WavewrightError, match="not entered"):
        await ww.__aexit__(None, None, None)


async def test_a_reader_that_leaves_ends_no_run_that_another_one_reads(
    ww: Wavewright, gate: Gate
) -> None:
    async with ww:
        stream = ww.stream(waiting(ww))
        async with aclosing(stream.__aiter__()) as events:
            await anext(events)
            async with aclosing(stream.__aiter__()) as leaving:
                await anext(leaving)
            gate.opens.set()
            rest = [event async for event in events]

    assert isinstance(rest[-1], RunFinished)
    assert rest[-1].status == "achieved"


INTERRUPTED = """
import asyncio, json, os, signal, threading, time
from wavewright.engine import Wavewright

calls = []

async def main():
    loop = asyncio.get_running_loop()

    def wait(number: int) -> int:
        calls.append(number)
        if number == 1:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        return number

    ww = Wavewright(tools=[wait], journal="runs.db")
    plan = ww.new_plan().step(
        "s", wait, {"number": "${item}"}, for_each=list(range(200)), concurrency=1
    )
    try:
        ww.run_sync(plan.returns("${steps.s}"), run="r1")
    except KeyboardInterrupt:
        print(json.dumps(calls))

# As in a notebook: the signal is Python's, and a loop runs around the call.
loop = asyncio.new_event_loop()
loop.run_until_complete(main())
"""


def test_an_interrupt_ends_a_run_where_an_event_loop_runs_around_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        check=True,
    )
    made = json.loads(done.stdout)

    resumed = Wavewright(tools=[_counted := _Counted()], journal=tmp_path / "runs.db")

    async def resume() -> str:
        async with resumed as ww:
            return (await ww.resume("r1")).status

    assert anyio.run(resume) == "achieved"
    assert len(made) < 10
    assert len(_counted.numbers) > 180


class _Counted:
    """The tool of the interrupted program, which waits no more."""

    __name__ = "wait"

    def __init__(self) -> None:
        self.numbers = list[int]()

    def __call__(self, number: int) -> int:
        self.numbers.append(number)
        return number
