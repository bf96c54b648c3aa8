"""What is ready: the scheduler of a compiled plan, in waves or by dataflow.

A step becomes ready when the endings that it waits for are committed: in `dataflow` those of its
own dependencies, in `waves` those of every step of the waves before. Schedule and limits do not
change how a step ends.

A *worker* takes the most urgent ready call that the limits allow, runs it (`calls.py`), applies its
outcome and takes the next. There are at most as many workers as concurrent calls, and each starts
when it is needed.

Below the scheduler are `StepReadiness`, which says what a step that ends sets free, and
`CallQueue`, in which ready calls wait for a worker.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, Literal, TypeAlias

import anyio
from anyio.abc import TaskGroup

from wavewright.executor.events.state import SUCCESSES, RunState, blocking_gate, step_ids
from wavewright.executor.events.types import (
    Event,
    GateRecord,
    StepError,
    StepFinished,
    StepStatus,
    WaveFinished,
    WaveStarted,
)
from wavewright.executor.run.calls import CallRunner
from wavewright.executor.run.ports import AskPerson, Clock, DrainSignal, PersonReply, Timer
from wavewright.executor.run.program import NO_WAVE, CompiledPlan
from wavewright.executor.run.recording import EventRecorder
from wavewright.executor.run.rules import CallRules
from wavewright.executor.run.scheduled_calls import (
    CallOutcome,
    PendingGates,
    PendingQuestion,
    ScheduledCall,
)
from wavewright.planner import Json, Limits, StepId
from wavewright.planner.types import Schedule
from wavewright.tools.functions.injected import values_digest

UnrunnableStatus: TypeAlias = Literal["blocked", "cancelled"]

_LOOK_SECONDS: Final = 1.0
"""How often limits that may change are read while calls wait because of them."""
_STATUS_PHRASES = {"failed": "failed", "blocked": "was blocked", "cancelled": "was cancelled"}
_CALLS_BETWEEN_YIELDS = 64
"""After so many calls a worker whose calls never wait lets the event loop run timers, signals and
other runs.
"""
_UNCERTAIN_WRITE = StepError(
    "cancelled",
    "the call was in progress and may have taken effect",
    hint="check whether it did; it is not repeated unless the tool is idempotent",
)


class Scheduler:
    """One execution of one compiled plan."""

    def __init__(
        self,
        program: CompiledPlan,
        calls: CallRunner,
        rules: CallRules,
        recorder: EventRecorder,
        *,
        schedule: Schedule,
        limits: Limits,
        clock: Clock,
        drain_signal: DrainSignal,
        ask: AskPerson | None,
    ) -> None:
        self._program = program
        self._calls = calls
        self._rules = rules
        self._recorder = recorder
        self._in_waves = schedule == "waves"
        self._round = recorder.state.round
        self._clock = clock
        self._drain_signal = drain_signal
        self._ask = ask
        self._readiness = StepReadiness(program, limits.max_waves, recorder.state)
        self._settled_early: set[StepId] = set()
        self._freed: deque[StepId] = deque()
        self._is_admitting = False
        self._is_stopped = False
        tool_limits = {
            name: tool.limit for name, tool in program.tools.items() if tool.limit is not None
        }
        rooms = {name: tool.room for name, tool in program.tools.items() if tool.room is not None}
        self._queue = CallQueue(limits.concurrency, tool_limits, rooms, clock, drain_signal)
        self._awaiting_gates = 0
        """Steps whose gates are being evaluated, which count against no limit."""
        self._awaiting_replies = 0
        """Questions that a person is asked now, which count against no limit."""
        self._unsettled = 0
        """Steps that were admitted and have not settled."""
        self._waiting = Counter[StepId]()
        """Steps that wait for a person who has not answered, and how many of their calls do; they
        do not end in this execution.
        """
        self._looking: set[anyio.CancelScope] = set()
        """What looks for answers that come while other steps run."""
        self._waking = 0
        """Workers that were woken and have not read the queue yet."""
        self._idle: list[asyncio.Future[None]] = []
        drain_signal.attach(lambda: self._queue.running + self._awaiting_gates > 0)
        recorder.on_commit = self.apply

    async def run(self) -> None:
        """Run every step that can run; return when all have ended, or the rest waits for a person."""
        for step_id in self._readiness.unordered:
            self._finish_without_call(step_id, "cancelled", "its dependencies form a cycle")
        if self._in_waves:
            self._start_wave(0, self._readiness.wave_after(-1))
        else:
            self._freed.extend(self._readiness.roots)
            self._admit_freed()
        self._recorder.commit_now()
        if not self._readiness.remaining:
            return
        try:
            async with anyio.create_task_group() as group:
                # Workers are started here, since a callback of the loop cannot start tasks of this
                # group.
                while not self._queue.is_closed:
                    changed = self._queue.next_change()
                    self._wake_workers(group)
                    await changed
                for worker in self._idle:
                    _set_done(worker)
                for looking in self._looking:
                    looking.cancel()
        finally:
            self._queue.cancel_timers()

    async def _work(self, group: TaskGroup) -> None:
        """Take calls and run them until the queue is closed: the life of a worker."""
        self._waking -= 1
        calls = 0
        while not self._queue.is_closed:
            call = self._queue.take()
            if call is None:
                await self._wait()
                continue
            try:
                if call.compiled is None:
                    self._set_what_is_visible(call)
                outcome = await self._calls.advance(call)
                self._apply_outcome(outcome, group)
            finally:
                self._queue.release(call)
            self._close_if_waiting()
            calls += 1
            if calls % _CALLS_BETWEEN_YIELDS == 0:
                await anyio.lowlevel.checkpoint()
            self._recorder.commit_now()
            self._drain_signal.notify_if_drained()

    def _set_what_is_visible(self, call: ScheduledCall) -> None:
        """Set what a step may read: outputs and run data of the steps that it depends on."""
        readable = self._readiness.readable(call.step.id)
        call.visible = self._program.visible(call.step.id, readable)
        if call.step.tool in self._program.data_readers:
            call.data = self._program.visible_data(call.step, self._recorder.state)
            call.data_digest = values_digest(call.data)

    async def _wait(self) -> None:
        worker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(worker)
        await worker
        self._waking -= 1

    def _wake_workers(self, group: TaskGroup) -> None:
        """Wake or start a worker for each call that could start now."""
        if self._drain_signal.is_draining:
            return
        for _ in range(self._queue.startable - self._waking):
            self._waking += 1
            if self._idle:
                _set_done(self._idle.pop())
            else:
                group.start_soon(self._work, group)

    def _apply_outcome(self, outcome: CallOutcome, group: TaskGroup) -> None:
        for ending in outcome.endings:
            self._recorder.record(ending)
            if isinstance(ending, StepFinished):
                self._note_finished(ending)
        for pending in outcome.pending_gates:
            self._awaiting_gates += 1
            group.start_soon(self._await_gates, pending)
        for question in outcome.questions:
            self._awaiting_replies += 1
            group.start_soon(self._await_reply, question, group)
        for call, seconds in outcome.calls:
            self._queue.push(call, seconds)
        if outcome.kept is not None:
            # It is in the journal already.
            self._note_finished(outcome.kept)
            self._settle(outcome.kept)
            self._admit_freed()
            self._close_if_waiting()

    async def _await_gates(self, pending: PendingGates) -> None:
        try:
            ending = await self._calls.await_gates(pending)
        finally:
            self._awaiting_gates -= 1
        self._recorder.record(ending)
        self._note_finished(ending)
        self._recorder.commit_now()
        self._drain_signal.notify_if_drained()

    async def _await_reply(self, question: PendingQuestion, group: TaskGroup) -> None:
        assert self._ask is not None
        try:
            reply = await self._ask(question.ready)
            await self._journal_note(reply)
        finally:
            self._awaiting_replies -= 1
        if reply.answer is not None:
            self._apply_reply(question, reply, group)
            return
        # Nobody has answered: the step waits, and does not end in this execution unless an answer
        # comes while other steps run.
        self._waiting[question.call.step.id] += 1
        self._close_if_waiting()
        if reply.look_again is not None and not self._queue.is_closed:
            await self._look_for_reply(question, reply, group)

    async def _look_for_reply(
        self, question: PendingQuestion, reply: PersonReply, group: TaskGroup
    ) -> None:
        """Ask again and again, until there is an answer or everything else has ended."""
        step_id = question.call.step.id
        with anyio.CancelScope() as scope:
            self._looking.add(scope)
            look_again = reply.look_again
            while look_again is not None:
                await anyio.sleep(_LOOK_SECONDS)
                later = await look_again()
                if later is None:
                    continue
                with anyio.CancelScope(shield=True):
                    await self._journal_note(later)
                if later.answer is not None:
                    self._looking.discard(scope)
                    self._waiting -= Counter([step_id])
                    self._apply_reply(question, later, group)
                    return
                look_again = later.look_again

    async def _journal_note(self, reply: PersonReply) -> None:
        if reply.note is not None:
            self._recorder.record(reply.note)
            self._recorder.commit_now()
            await self._recorder.committed()

    def _apply_reply(self, question: PendingQuestion, reply: PersonReply, group: TaskGroup) -> None:
        self._apply_outcome(self._calls.apply_reply(question, reply), group)
        self._recorder.commit_now()
        self._close_if_waiting()

    def _close_if_waiting(self) -> None:
        """Let `run` return where everything that has not ended waits for a person."""
        if not self._waiting:
            return
        is_busy = (
            self._awaiting_replies or self._awaiting_gates or self._unsettled != len(self._waiting)
        )
        if not is_busy and self._queue.is_empty:
            self._queue.close()

    def apply(self, events: Iterable[Event]) -> None:
        """Apply committed events: outputs become visible, dependants and waves start."""
        if self._is_stopped:
            return
        for event in events:
            if isinstance(event, StepFinished):
                if event.step in self._settled_early:
                    self._settled_early.discard(event.step)
                else:
                    self._settle(event)
            elif isinstance(event, WaveStarted):
                self._freed.extend(event.steps)
        self._admit_freed()
        self._close_if_waiting()

    def cancel_rest(self, reason: str) -> None:
        """End every step that has not ended as cancelled; nothing starts after that.

        Steps that ended in an earlier part of the run keep their ending, also where they were not
        reached again.
        """
        self._is_stopped = True
        written = {step_id for step_id, _ in self._recorder.state.begun if self._writes(step_id)}
        under_way = self._recorder.state.under_way
        for step_id in self._program.graph.steps:
            if self._readiness.is_finished(step_id):
                continue
            if step_id in written or not self._rules.has_ended_before(step_id):
                error = _UNCERTAIN_WRITE if step_id in written else None
                now = self._clock.wall()
                ending = StepFinished(
                    at=now, step=step_id, status="cancelled", error=error, reason=reason
                )
                began = under_way.get(step_id)
                if began is not None:
                    seconds = max(0.0, now - began.at)
                    ending = replace(ending, started=began.at, seconds=seconds)
                self._recorder.record(ending)
            self._readiness.mark_finished(step_id, "cancelled")

    def _writes(self, step_id: StepId) -> bool:
        step = self._program.graph.steps.get(step_id)
        tool = None if step is None else self._program.tools.get(step.tool)
        return tool is not None and tool.signature.writes

    def _settle(self, ending: StepFinished) -> None:
        self._unsettled -= 1
        freed = self._readiness.release_dependents(ending)
        if not self._in_waves:
            self._freed.extend(freed)
        if not self._readiness.remaining:
            self._queue.close()

    def _admit_freed(self) -> None:
        """Push or finish each freed step; a loop and not a recursion, since finishing one frees
        others.
        """
        if self._is_admitting:
            return
        self._is_admitting = True
        while self._freed:
            self._admit(self._freed.popleft())
        self._is_admitting = False

    def _admit(self, step_id: StepId) -> None:
        if self._readiness.is_finished(step_id):
            return
        if (unrunnable := self._readiness.unrunnable(step_id)) is not None:
            self._finish_without_call(step_id, *unrunnable)
            return
        step = self._program.graph.steps[step_id]
        place = self._program.place[step_id]
        self._unsettled += 1
        self._queue.push(ScheduledCall(step, -self._program.priority[place], place))

    def _start_wave(self, wave: int, steps: Iterable[StepId]) -> None:
        if steps:
            self._recorder.record(WaveStarted(self._clock.wall(), wave, tuple(steps), self._round))
        else:
            self._freed.extend(self._readiness.beyond_limit())
            self._admit_freed()

    def _note_finished(self, ending: StepFinished) -> None:
        """Note that a step has ended; after the last one of a wave the next wave starts."""
        finished_wave = self._readiness.mark_finished(ending.step, ending.status)
        if finished_wave is not None and self._in_waves:
            self._recorder.record(WaveFinished(self._clock.wall(), finished_wave, self._round))
            self._start_wave(finished_wave + 1, self._readiness.wave_after(finished_wave))

    def _finish_without_call(self, step_id: StepId, status: UnrunnableStatus, reason: str) -> None:
        self._unsettled += 1
        ending = StepFinished(at=self._clock.wall(), step=step_id, status=status, reason=reason)
        # There is no output to read, so dependants do not wait for the commit.
        self._settled_early.add(step_id)
        self._recorder.record(ending)
        self._note_finished(ending)
        self._settle(ending)


def _stopped_before(state: RunState) -> dict[StepId, frozenset[StepId]]:
    """Return for each step that a patch has added the steps that a gate had stopped before it."""
    stopped = {
        name: ending.at
        for name, ending in state.steps.items()
        if ending.status in SUCCESSES and blocking_gate(ending.gates) is not None
    }
    before = dict[StepId, frozenset[StepId]]()
    if not stopped:
        return before
    for earlier, patched in pairwise(state.plans):
        known = frozenset(step_ids(earlier.plan))
        # By the plan as well as by the clock: what a patch adds has not ended before it, whatever
        # the clock said.
        names = frozenset(
            name for name, at in stopped.items() if at <= patched.at and name in known
        )
        added = [StepId(name) for name in step_ids(patched.plan) if name not in known]
        before.update(dict.fromkeys(added, names))
    return before


class StepReadiness:
    """Endings and outputs so far, and the steps that they free.

    A step is *present* when other steps can read its output: it succeeded and no failed gate blocks
    it. A step is *blocked* when a dependency of its own is neither present, nor optional, nor
    skipped.
    """

    def __init__(self, program: CompiledPlan, max_waves: int, state: RunState) -> None:
        self.outputs: dict[StepId, Json] = {}
        """Of the steps that are present."""
        self._stopped_before = _stopped_before(state)
        self._stopped: dict[StepId, Json] = {}
        """Outputs of the steps that a gate has stopped; only new steps of a patch read them."""
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
                self._stopped[ending.step] = ending.output
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

    def readable(self, step_id: StepId) -> Mapping[StepId, Json]:
        """Return the outputs that a step may read, if it depends on them.

        A step that a patch has added may read what a gate had stopped before: it is there to
        correct it.
        """
        stopped_before = self._stopped_before.get(step_id)
        if not stopped_before:
            return self.outputs
        # "Unreadable": what ended as failed since, because other code cannot read its output, has
        # none; so only the outputs of this execution's endings are read.
        stopped = {name: self._stopped[name] for name in stopped_before & self._stopped.keys()}
        return {**stopped, **self.outputs}

    def unrunnable(self, step_id: StepId) -> tuple[UnrunnableStatus, str] | None:
        """Return how and why a step whose dependencies have ended does not run; None where it does."""
        wave = self._wave_of[self._place[step_id]]
        if wave >= self._max_waves:
            reason = f"it is in wave {wave + 1}, and a run has at most {self._max_waves} waves (max_waves)"
            return "cancelled", reason
        outputs = self.readable(step_id)
        for name in self._graph.dependencies[step_id]:
            if name not in outputs:
                return self._blocked(step_id)
        return None

    def _blocked(self, step_id: StepId) -> tuple[UnrunnableStatus, str] | None:
        steps = self._graph.steps
        for name in self._program.own_dependencies(steps[step_id]):
            status = self._ended[self._place[name]]
            # A skipped dependency blocks nobody: its condition decided that it is not needed.
            is_there = name in self.readable(step_id)
            if is_there or steps[name].optional or status == "skipped":
                continue
            failed = self._failed_gates.get(name)
            if failed is not None:
                return "blocked", f"gate {failed.gate!r} on {name!r} failed"
            return "blocked", f"{name!r} {_STATUS_PHRASES[status or 'cancelled']}"
        return None


_Entry: TypeAlias = tuple[tuple[float, int, int], int, ScheduledCall]
"""A call's rank, a number that is never equal, and the call."""


class CallQueue:
    """Calls of one run that wait for a worker.

    The most urgent of the ready calls starts first, within the concurrency limits of the run and of
    its tools. A call whose tool is at its limit waits in a queue of that tool, so it does not block
    other calls. A limit may change while calls run, as with workers on other machines that come and
    go.
    """

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
        heapq.heappush(self._ready, (call.rank, id(call), call))
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
            call = entry[2]
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
        limits = list[int]()
        if tool in self._tool_limits:
            limits.append(self._tool_limits[tool])
        if tool in self._changing_limits:
            limits.append(self._changing_limits[tool]())
        return min(limits)

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
        """Complete the future of `next_change`."""
        if self._change is not None and not self._change.done():
            self._change.set_result(None)

    def cancel_timers(self) -> None:
        """Drop the calls that wait for their time."""
        self._change = None
        for timer in self._timers.values():
            timer.cancel()
        if self._next_look is not None:
            self._next_look.cancel()


def _set_done(future: asyncio.Future[None]) -> None:
    """Set a future's result, unless the waiting task was cancelled in this turn of the event loop."""
    if not future.done():
        future.set_result(None)
