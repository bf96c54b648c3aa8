"""What comes out of a tool's call: a failure of its step, or an exception of the process that passes through."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast

import anyio
import pytest

from tests.executor.execution_harness import ExecutionHarness, echo, plan_of, statuses
from wavewright.executor.events.state import RunState
from wavewright.planner.types import Json
from wavewright.tools.functions.registry import make_tool
from wavewright.tools.functions.tool import ToolCall


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
    before = [(number, signal.signal(number, signal.SIG_IGN)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


@pytest.mark.parametrize("is_grouped", [False, True])
def test_ctrl_c_that_meets_a_tool_at_work_ends_the_process_and_not_the_step(*, is_grouped: bool) -> None:
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
            await ExecutionHarness().add(echo).add(answer, "wild").run(plan_of({"id": "a", "tool": "wild"}))
        )

    with handled_signals(), pytest.raises(KeyboardInterrupt):
        anyio.run(run)
