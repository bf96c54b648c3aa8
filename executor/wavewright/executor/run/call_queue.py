"""The queue of ready calls, the most urgent first, with the concurrency limits of the run and of its tools.

A call whose tool is at its limit waits in a queue of that tool, so it does not block other calls. A limit may change
while calls run, as with workers on other machines that come and go.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from wavewright.executor.run.ports import Clock, DrainSignal, Timer
from wavewright.executor.run.scheduled_calls import ScheduledCall

_Entry = tuple[float, int, int, ScheduledCall]
_LOOK_SECONDS: Final = 1.0
"""How often limits that may change are read while calls wait because of them."""


class CallQueue:
    """Calls of one run that wait for a worker."""

    def __init__(
        self,
        concurrency: int,
        tool_limits: Mapping[str, int],
        changing_limits: Mapping[str, Callable[[], int]],
        clock: Clock,
        drain_signal: DrainSignal,
    ) -> None:
        self.running = 0
        """Calls that were taken and not released."""
        self.is_closed = False
        self._concurrency = concurrency
        self._tool_limits = tool_limits
        self._changing_limits = changing_limits
        self._limited = tool_limits.keys() | changing_limits.keys()
        self._clock = clock
        self._drain_signal = drain_signal
        self._ready: list[_Entry] = []
        self._waiting_for_tool: dict[str, list[_Entry]] = {}
        self._busy = Counter[str]()
        self._timers: dict[int, Timer] = {}
        self._next_look: Timer | None = None
        self._change: asyncio.Future[None] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no call runs, and none is ready or waits for its tool or its time."""
        return not (self.running or self._ready or self._timers or any(self._waiting_for_tool.values()))

    @property
    def startable(self) -> int:
        """Number of calls that could start now by the run's limit."""
        return min(len(self._ready), self._concurrency - self.running)

    def push(self, call: ScheduledCall, after: float = 0.0) -> None:
        """Add a call, which may start after so many seconds, once a worker and its tool are free."""
        if after > 0:
            self._timers[id(call)] = self._clock.call_later(after, lambda: self._push_delayed(call))
            return
        heapq.heappush(self._ready, (call.urgency, call.order, call.index, call))
        self.notify()

    def _push_delayed(self, call: ScheduledCall) -> None:
        del self._timers[id(call)]
        self.push(call)

    def take(self) -> ScheduledCall | None:
        """Return the most urgent call that may run now, and count it as running; None where there is none."""
        if self.running >= self._concurrency or self._drain_signal.is_draining:
            return None
        while self._ready:
            entry = heapq.heappop(self._ready)
            call = entry[3]
            tool = call.step.tool
            if tool in self._limited:
                if self._busy[tool] >= self._limit(tool):
                    heapq.heappush(self._waiting_for_tool.setdefault(tool, []), entry)
                    self._plan_look(tool)
                    continue
                self._busy[tool] += 1
            self.running += 1
            return call
        return None

    def _limit(self, tool: str) -> int:
        fixed, changing = self._tool_limits.get(tool), self._changing_limits.get(tool)
        return min(limit for limit in (fixed, None if changing is None else changing()) if limit is not None)

    def _plan_look(self, tool: str) -> None:
        if self._next_look is None and tool in self._changing_limits:
            self._next_look = self._clock.call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Let calls start for which a limit that has grown leaves room."""
        self._next_look = None
        for tool in self._changing_limits:
            waiting = self._waiting_for_tool.get(tool, [])
            for _ in range(min(self._limit(tool) - self._busy[tool], len(waiting))):
                heapq.heappush(self._ready, heapq.heappop(waiting))
            if waiting:
                self._plan_look(tool)
        self.notify()

    def release(self, call: ScheduledCall) -> None:
        """Count a call that was taken as ended."""
        self.running -= 1
        tool = call.step.tool
        if tool in self._limited:
            self._busy[tool] -= 1
            if waiting := self._waiting_for_tool.get(tool):
                heapq.heappush(self._ready, heapq.heappop(waiting))

    def close(self) -> None:
        """Make the workers return once their calls have ended."""
        self.is_closed = True
        self.notify()

    def next_change(self) -> asyncio.Future[None]:
        """Return a future that is done when a call was pushed or the queue was closed."""
        self._change = asyncio.get_running_loop().create_future()
        return self._change

    def notify(self) -> None:
        """Complete the future of `next_change`.

        The waiting task continues in the next turn of the loop. By then a worker that never waits has taken the calls
        that it pushed, and waking other workers for each would cost more than the calls.
        """
        if self._change is not None and not self._change.done():
            self._change.set_result(None)

    def cancel_timers(self) -> None:
        """Drop the calls that wait for their time."""
        self._change = None
        for timer in self._timers.values():
            timer.cancel()
        if self._next_look is not None:
            self._next_look.cancel()
