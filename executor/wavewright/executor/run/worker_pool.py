"""A pool of workers, fed by a heap of ready calls.

A *worker* takes the most urgent call that the limits allow, performs it, and takes the next; there are never more
of them than calls may run at once, and none is started before it is needed. A call whose tool is at its own limit
waits aside, so it never keeps a worker from something else.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Mapping

import anyio
from anyio.abc import TaskGroup

from wavewright.executor.run.ports import Clock, DrainSignal, Timer
from wavewright.executor.run.scheduled_calls import ScheduledCall

_Entry = tuple[float, int, int, ScheduledCall]

_CALLS_BETWEEN_YIELDS = 64
"""A worker whose calls never wait still lets the event loop run: timers, signals and other runs live there."""


class WorkerPool:
    """The workers of one run."""

    def __init__(
        self,
        perform: Callable[[ScheduledCall], Awaitable[None]],
        after_call: Callable[[], None],
        *,
        concurrency: int,
        tool_limits: Mapping[str, int],
        clock: Clock,
        brake: DrainSignal,
    ) -> None:
        self._execute = perform
        self._after_call = after_call
        self._concurrency = concurrency
        self._tool_limits = tool_limits
        self._clock = clock
        self._drain_signal = brake
        brake.attach(lambda: self._running + self._background_tasks > 0)
        self._ready: list[_Entry] = []
        self._waiting_for_tool: dict[str, list[_Entry]] = {}
        self._busy = dict.fromkeys(tool_limits, 0)
        self._running = 0
        self._background_tasks = 0
        """What runs beside the calls."""
        self._waking = 0
        """Workers that were woken and have not looked at the heap yet."""
        self._idle: list[asyncio.Future[None]] = []
        self._timers: dict[int, Timer] = {}
        self._wake: asyncio.Future[None] | None = None
        """What `run` waits for: its own task starts the workers, since a bare callback is no place to start tasks."""
        self._group: TaskGroup | None = None
        self._closed = False

    def push(self, call: ScheduledCall) -> None:
        """Let a call start as soon as a worker and its tool are free."""
        heapq.heappush(self._ready, (call.urgency, call.order, call.index, call))
        # Workers are woken in the next turn of the loop. One that never waits has taken what it pushed by then, and
        # waking the others for it would cost more than the calls.
        self._wake_next_turn()

    def push_later(self, call: ScheduledCall, seconds: float) -> None:
        """Let a call start after some seconds; until then it takes nobody's place."""

        def push() -> None:
            del self._timers[id(call)]
            self.push(call)

        self._timers[id(call)] = self._clock.call_later(seconds, push)

    def start_background(self, work: Callable[[], Awaitable[None]]) -> None:
        """Let something run beside the calls, which no limit holds back; `run` waits for its end."""
        assert self._group is not None
        self._background_tasks += 1
        self._group.start_soon(self._run_background, work)

    async def _run_background(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        finally:
            self._background_tasks -= 1
        self._after_call()
        self._drain_signal.notify_if_drained()

    async def run(self) -> None:
        """Perform what is pushed until `close` is called."""
        loop = asyncio.get_running_loop()
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                while not self._closed:
                    self._wake = loop.create_future()
                    if self._are_all_awake(group):
                        await self._wake
                    else:
                        await anyio.lowlevel.checkpoint()
                for worker in self._idle:
                    _set_done(worker)
        finally:
            self._wake = self._group = None
            for timer in self._timers.values():
                timer.cancel()

    def close(self) -> None:
        """Let the workers go home once their calls have ended."""
        self._closed = True
        self._wake_next_turn()

    async def _work(self) -> None:
        self._waking -= 1
        calls = 0
        while not self._closed:
            call = self._take()
            if call is None:
                await self._wait()
                continue
            try:
                await self._execute(call)
            finally:
                self._release(call)
            calls += 1
            if calls % _CALLS_BETWEEN_YIELDS == 0:
                await anyio.lowlevel.checkpoint()
            self._after_call()
            self._drain_signal.notify_if_drained()

    async def _wait(self) -> None:
        worker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(worker)
        await worker
        self._waking -= 1

    def _take(self) -> ScheduledCall | None:
        """Return the most urgent call that may run now, counted as running."""
        if self._running >= self._concurrency or self._drain_signal.is_draining:
            return None
        while self._ready:
            entry = heapq.heappop(self._ready)
            call = entry[3]
            limit = self._tool_limits.get(call.step.tool)
            if limit is not None:
                if self._busy[call.step.tool] >= limit:
                    heapq.heappush(self._waiting_for_tool.setdefault(call.step.tool, []), entry)
                    continue
                self._busy[call.step.tool] += 1
            self._running += 1
            return call
        return None

    def _release(self, call: ScheduledCall) -> None:
        self._running -= 1
        tool = call.step.tool
        if tool in self._busy:
            self._busy[tool] -= 1
            if waiting := self._waiting_for_tool.get(tool):
                heapq.heappush(self._ready, heapq.heappop(waiting))

    def _are_all_awake(self, group: TaskGroup) -> bool:
        """Wake or start workers for the ready calls; answer whether that is all that the limit allows.

        One at first, then each turn of the loop as many as have calls under way, which doubles them: where calls
        really wait all are at work a few turns later, and where they never do one worker performs them all.
        """
        if self._drain_signal.is_draining:
            return True
        wanted = min(len(self._ready), self._concurrency - self._running) - self._waking
        now = min(wanted, max(1, self._running))
        for _ in range(now):
            self._waking += 1
            if self._idle:
                _set_done(self._idle.pop())
            else:
                group.start_soon(self._work)
        return now >= wanted

    def _wake_next_turn(self) -> None:
        if self._wake is not None:
            _set_done(self._wake)


def _set_done(future: asyncio.Future[None]) -> None:
    """Wake whoever waits for a future, unless its task was cancelled in this turn of the event loop."""
    if not future.done():
        future.set_result(None)
