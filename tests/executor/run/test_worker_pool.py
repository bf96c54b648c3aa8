"""Workers are started wherever the engine runs, not only where anyio started the loop."""

from __future__ import annotations

import asyncio

import anyio

from tests.executor.execution_harness import ExecutionHarness, plan_of, statuses
from wavewright.executor.events.state import RunState
from wavewright.planner.types import Json
from wavewright.tools.functions.tool import ToolCall


def test_calls_run_at_once_on_a_plain_loop_of_asyncio() -> None:
    # Where sniffio is installed, anyio finds the loop from inside a task only, unless it started the loop itself.
    async def run() -> RunState:
        arrived = 0
        everybody = anyio.Event()

        async def meet(call: ToolCall) -> Json:
            nonlocal arrived
            arrived += 1
            if arrived == 5:
                everybody.set()
            await everybody.wait()
            return call.step

        plan = plan_of(*({"id": f"s{number}", "timeout": 20} for number in range(5)))
        return await ExecutionHarness().add(meet).run(plan)

    state = asyncio.run(run())

    assert set(statuses(state).values()) == {"ok"}
