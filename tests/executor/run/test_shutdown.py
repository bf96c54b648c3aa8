"""A program that ends at once, as at the second Ctrl-C, while a run goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import pytest

from tests.executor.execution_harness import RUN, ExecutionHarness, plan_of
from wavewright.executor.events.types import Event, ItemFinished
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.tools.functions.tool import ToolCall


def test_a_run_under_which_the_event_loop_ends_fails_nothing_and_says_nothing(tmp_path: Path) -> None:
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
