"""A fleet for drawn runs: its worker is in this process, its queue in a database."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

import anyio
import anyio.lowlevel

from tests.model.facts import MadeCall
from wavewright.config.redaction import known_secrets_redactor
from wavewright.executor.fleet.caller import FleetCaller
from wavewright.executor.fleet.remote_calls import ToolHost, entrypoint_of
from wavewright.executor.fleet.tables import open_fleet_database
from wavewright.executor.fleet.worker import FleetWorker
from wavewright.executor.run.failures import ReportedFailure
from wavewright.executor.run.ports import Timer
from wavewright.planner.language.goals import Goal
from wavewright.planner.types import Json
from wavewright.tools.functions.tool import Tool, ToolCall

GOAL = Goal(job="model", name="model", text="Model", inputs={}, tools=())
_HEARTBEAT = 60.0
_SHORT = 5.0
"""Seconds; what takes less is over at once, and what takes longer when a tool waits for long."""


@dataclass(eq=False)
class _SteppedTimer:
    due: float
    callback: Callable[[], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


@dataclass
class SteppedClock:
    """Time that stands still but where a tool waits for long: calls in other processes are not seen
    by the event loop, so a clock that runs when nothing is left to do would be too fast.
    """

    now: float = 1_000_000.0
    _timers: list[_SteppedTimer] = field(default_factory=list[_SteppedTimer])

    def wall(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def jitter(self, upper: float) -> float:
        return 0.0

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        if seconds < _SHORT:
            return asyncio.get_running_loop().call_later(0, callback)
        timer = _SteppedTimer(self.now + seconds, callback)
        self._timers.append(timer)
        return timer

    async def sleep(self, seconds: float) -> None:
        """Wait; for long, until the call is cancelled."""
        await anyio.lowlevel.checkpoint()
        if seconds < _SHORT:
            return
        self.now += seconds
        due = [timer for timer in self._timers if timer.due <= self.now]
        self._timers = [timer for timer in self._timers if timer.due > self.now]
        for timer in due:
            if not timer.is_cancelled:
                timer.callback()
        await anyio.sleep_forever()


class _CallLog(Protocol):
    made: list[MadeCall]


@asynccontextmanager
async def on_fleet(
    url: str, tools: Mapping[str, Tool], log: _CallLog
) -> AsyncGenerator[Mapping[str, Tool]]:
    """Yield tools whose calls a worker makes while the block runs, one at a time."""
    async with open_fleet_database(url) as database, anyio.create_task_group() as group:
        name, loop = secrets.token_hex(8), asyncio.get_running_loop()
        host = ToolHost(name, lambda _goal, _run: tools, loop, known_secrets_redactor(None))
        worker = FleetWorker(
            database=database,
            name=name,
            slots=1,
            heartbeat=_HEARTBEAT,
            entrypoints=[entrypoint_of(tool) for tool in tools.values()],
            labels=[],
            host=host,
            on_call=lambda _tool, _ending, _seconds: None,
            on_heartbeat=lambda _: None,
        )
        group.start_soon(worker.run, anyio.sleep_forever)
        caller = FleetCaller(database, ["*"], _HEARTBEAT)
        group.start_soon(caller.run)
        before = len(log.made)
        yield {key: _routed(caller, tool, log, before) for key, tool in tools.items()}
        group.cancel_scope.cancel()


def _routed(caller: FleetCaller, tool: Tool, log: _CallLog, before: int) -> Tool:
    """Return a tool whose calls go to the fleet; what a worker had answered to a call that outlived
    its process is in the log as taken. Of the calls in the log, so many are of parts before.
    """
    routed = caller.routed(tool, GOAL)
    if routed is tool:
        return tool

    async def call(request: ToolCall) -> Json:
        try:
            output = await routed.call(request)
        except ReportedFailure as reported:
            if reported.failure.kind != "interrupted":
                _take(log.made, request, before)
            raise
        _take(log.made, request, before)
        return output

    return replace(routed, call=call)


def _take(made: list[MadeCall], request: ToolCall, before: int) -> None:
    """Log that an answer is taken, where the attempt that it answers was made in a part before.

    A call that was in the queue when its process died is made in this part, perhaps before the run
    comes to it.
    """
    asked: Sequence[Json] = [request.step, request.index, request.params["x"], request.attempt]
    place, answered = next(
        (place, one)
        for place, one in reversed([*enumerate(made)])
        if [one.step, one.item, one.x, one.attempt] == asked
    )
    if place < before:
        made.append(replace(answered, is_taken=True))
