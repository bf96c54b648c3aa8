"""What the executor's tests share: plans from short dicts, tools from plain functions, and a clock
of their own.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import heapq
import itertools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from wavewright.executor.events.state import RunState
from wavewright.executor.run.execution import Execution, execute
from wavewright.executor.run.ports import Timer
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import Json, JsonObject, RunId, StepId
from wavewright.tools.functions.tool import Tool, ToolCall

NOW = dt.datetime(2010, 3, 1, tzinfo=dt.UTC)
RUN = RunId("run_1")

Answer = Callable[[ToolCall], Awaitable[Json]] | Callable[[ToolCall], Json]


def plan_of(*steps: Mapping[str, object], **fields: object) -> Plan:
    """Return a plan; a step calls `work` with its own id where it says nothing else, so that no two
    calls are equal.
    """
    return Plan.model_validate(
        {
            "steps": [{"tool": "work", "params": {"by": step["id"]}, **step} for step in steps],
            **fields,
        }
    )


@dataclass
class ExecutionHarness:
    """Tools that note how they are called."""

    tools: dict[str, Tool] = field(default_factory=dict[str, Tool])
    calls: list[ToolCall] = field(default_factory=list[ToolCall])

    def add(self, answer: Answer, name: str = "work", **signature: Any) -> ExecutionHarness:
        """Add a tool that answers as the function does; `signature` as in `ToolSignature`."""

        async def call(request: ToolCall) -> Json:
            self.calls.append(request)
            result = answer(request)
            return await result if isinstance(result, Awaitable) else result

        self.tools[name] = Tool(ToolSignature.model_validate({"name": name, **signature}), call)
        return self

    @property
    def called(self) -> list[str]:
        """Ids of the called steps, in the order of the calls."""
        return [call.step for call in self.calls]

    async def run(self, plan: Plan, **options: Any) -> RunState:
        """Execute a plan over these tools."""
        return await execute(Execution(plan, self.tools, run=RUN, now=NOW, **options))


def echo(call: ToolCall) -> Json:
    """Answer with the parameters, or with a word where there are none."""
    return dict(call.params) or "done"


def answering(answer: object) -> Answer:
    """Return a tool's function that always answers so."""

    def call(request: ToolCall) -> Json:
        return cast("Json", answer)

    return call


def statuses(state: RunState) -> dict[str, str]:
    """Return the status of each step."""
    return {step_id: record.status for step_id, record in state.steps.items()}


def output_of(state: RunState, step: str) -> Json:
    """Return a step's output."""
    return state.steps[StepId(step)].output


def outputs(state: RunState) -> JsonObject:
    """Return the output of each step."""
    return {step_id: record.output for step_id, record in state.steps.items()}


@dataclass(eq=False)
class _VirtualTimer:
    callback: Callable[[], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


class VirtualClock:
    """Time that jumps to the next timer as soon as nothing else can happen."""

    def __init__(self, *, jitter: float = 0.0) -> None:
        self.now = 1_000_000.0
        self._part = jitter
        self._timers: list[tuple[float, int, _VirtualTimer]] = []
        self._number = itertools.count()
        self._is_spinning = False

    def wall(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def jitter(self, upper: float) -> float:
        return self._part * upper

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        timer = _VirtualTimer(callback)
        heapq.heappush(self._timers, (self.now + seconds, next(self._number), timer))
        self._spin_soon()
        return timer

    async def sleep(self, seconds: float) -> None:
        """Wait in virtual time."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not done.done():
                done.set_result(None)

        timer = self.call_later(seconds, wake)
        try:
            await done
        finally:
            timer.cancel()

    def _spin_soon(self) -> None:
        if not self._is_spinning:
            self._is_spinning = True
            asyncio.get_running_loop().call_soon(self._spin)

    def _spin(self) -> None:
        self._is_spinning = False
        while self._timers and self._timers[0][2].is_cancelled:
            heapq.heappop(self._timers)
        if not self._timers:
            return
        # Whoever is ready goes first; only a loop with nothing left to do may see time pass.
        if not getattr(asyncio.get_running_loop(), "_ready", None):
            when, _, timer = heapq.heappop(self._timers)
            self.now = max(self.now, when)
            timer.callback()
        self._spin_soon()
