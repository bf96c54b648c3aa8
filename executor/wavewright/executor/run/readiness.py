"""What of a run may start: the steps whose dependencies have ended, and the queue of their calls.

A step is *present* when other steps can read its output: it succeeded and no failed gate blocks it.
A step is *blocked* when a dependency of its own is neither present, nor optional, nor skipped.

The most urgent of the ready calls starts first, within the concurrency limits of the run and of its
tools. A call whose tool is at its limit waits in a queue of that tool, so it does not block other
calls. A limit may change while calls run, as with workers on other machines that come and go.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from wavewright.executor.events.state import SUCCESSES, blocking_gate
from wavewright.executor.events.types import GateRecord, StepFinished, StepStatus
from wavewright.executor.run.ports import Clock, DrainSignal, Timer
from wavewright.executor.run.program import NO_WAVE, CompiledPlan
from wavewright.executor.run.scheduled_calls import ScheduledCall
from wavewright.planner.types import Json, StepId

UnrunnableStatus: TypeAlias = Literal["blocked", "cancelled"]


class StepReadiness:
    """Endings and outputs so far, and the steps that they free."""

    def __init__(self, program: CompiledPlan, max_waves: int) -> None:
        self.outputs: dict[StepId, Json] = {}
        """Of the steps that are present."""
        self.remaining = len(program.graph.steps)
        """Number of steps that have not settled."""
        self._program = program
        self._graph = program.graph
        self._max_waves = max_waves + program.graph.free_waves
        self._place = program.place
        self._wave_of = program.wave_of
        self._missing = [len(program.graph.dependencies[step_id]) for step_id in program.place]
        self._ended: list[StepStatus | None] = [None] * len(program.place)
        self._failed_gates: dict[StepId, GateRecord] = {}
        self._unended_in_wave = [len(wave) for wave in program.graph.waves]

    @property
    def roots(self) -> list[StepId]:
        """The steps without dependencies."""
        return [step_id for step_id, place in self._place.items() if self._missing[place] == 0]

    @property
    def unordered(self) -> list[StepId]:
        """The steps in no wave, because they depend on a cycle."""
        if self._graph.cycles:
            return [
                step_id for step_id, place in self._place.items() if self._wave_of[place] == NO_WAVE
            ]
        return []

    def release_dependents(self, ending: StepFinished) -> Iterable[StepId]:
        """Settle a step; return the steps whose last missing dependency it was."""
        self.remaining -= 1
        if ending.status in SUCCESSES:
            failed = blocking_gate(ending.gates) if ending.gates else None
            if failed is None:
                self.outputs[ending.step] = ending.output
            else:
                self._failed_gates[ending.step] = failed
        missing, places = self._missing, self._place
        freed: list[StepId] = []
        for waiting in self._graph.dependants[ending.step]:
            place = places[waiting]
            missing[place] -= 1
            if missing[place] == 0:
                freed.append(waiting)
        return freed

    def is_finished(self, step_id: StepId) -> bool:
        """Whether the step has ended."""
        return self._ended[self._place[step_id]] is not None

    def mark_finished(self, step_id: StepId, status: StepStatus) -> int | None:
        """Set how a step ended; return the number of its wave where it was the last of its wave."""
        place = self._place[step_id]
        self._ended[place] = status
        wave = self._wave_of[place]
        if wave == NO_WAVE or wave >= self._max_waves:
            return None
        self._unended_in_wave[wave] -= 1
        return None if self._unended_in_wave[wave] else wave

    def wave_after(self, wave: int) -> Sequence[StepId]:
        """Return the steps of the next wave; empty after the last one or at the limit."""
        waves = self._graph.waves[: self._max_waves]
        return waves[wave + 1] if wave + 1 < len(waves) else ()

    def beyond_limit(self) -> Iterable[StepId]:
        """Yield the steps of the waves beyond the limit."""
        for wave in self._graph.waves[self._max_waves :]:
            yield from wave

    def unrunnable(self, step_id: StepId) -> tuple[UnrunnableStatus, str] | None:
        """Return how and why a step whose dependencies have ended does not run; None where it does."""
        wave = self._wave_of[self._place[step_id]]
        if wave >= self._max_waves:
            reason = f"it is in wave {wave + 1}, and a run has at most {self._max_waves} waves (max_waves)"
            return "cancelled", reason
        outputs = self.outputs
        for name in self._graph.dependencies[step_id]:
            if name not in outputs:
                return self._blocked(step_id)
        return None

    def _blocked(self, step_id: StepId) -> tuple[UnrunnableStatus, str] | None:
        steps = self._graph.steps
        for name in self._program.own_dependencies(steps[step_id]):
            status = self._ended[self._place[name]]
            if name in self.outputs or steps[name].optional or status == "skipped":
                continue
            failed = self._failed_gates.get(name)
            if failed is not None:
                return "blocked", f"gate {failed.gate!r} on {name!r} failed"
            return "blocked", f"{name!r} {_STATUS_PHRASES[status or 'cancelled']}"
        return None


_STATUS_PHRASES = {"failed": "failed", "blocked": "was blocked", "cancelled": "was cancelled"}


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
        return not (
            self.running or self._ready or self._timers or any(self._waiting_for_tool.values())
        )

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
        """Return the most urgent call that may run now, and count it as running; None where there
        is none.
        """
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
        return min(
            limit
            for limit in (fixed, None if changing is None else changing())
            if limit is not None
        )

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

        The waiting task continues in the next turn of the loop. By then a worker that never waits
        has taken the calls that it pushed, and waking other workers for each would cost more than
        the calls.
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
