"""The scheduler of a compiled plan, in waves or by dataflow.

A step becomes ready when the endings that it waits for are committed: in `dataflow` those of its
own dependencies, in `waves` those of every step of the waves before. Schedule and limits do not
change how a step ends. Calls that ended in an earlier part of the run are not made again.

A *worker* takes the most urgent call that the limits allow, executes it, applies its outcome and
takes the next. There are at most as many workers as concurrent calls, and each starts when it is
needed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

import anyio
from anyio.abc import TaskGroup

from wavewright.executor.events.types import (
    Event,
    StepError,
    StepFinished,
    WaveFinished,
    WaveStarted,
)
from wavewright.executor.run.call_executor import CallExecutor
from wavewright.executor.run.ports import AskPerson, Clock, DrainSignal
from wavewright.executor.run.program import CompiledPlan, CompiledStep
from wavewright.executor.run.readiness import CallQueue, StepReadiness, UnrunnableStatus
from wavewright.executor.run.recording import EventRecorder
from wavewright.executor.run.scheduled_calls import (
    CallOutcome,
    PendingGates,
    PendingQuestion,
    ScheduledCall,
)
from wavewright.executor.run.step_runner import StepRunner
from wavewright.planner.language.plan import Limits
from wavewright.planner.types import Schedule, StepId
from wavewright.tools.functions.injected import values_digest

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
        runner: StepRunner,
        calls: CallExecutor,
        recorder: EventRecorder,
        *,
        schedule: Schedule,
        limits: Limits,
        clock: Clock,
        drain_signal: DrainSignal,
        ask: AskPerson | None,
    ) -> None:
        self._program = program
        self._runner = runner
        self._calls = calls
        self._recorder = recorder
        self._in_waves = schedule == "waves"
        self._round = recorder.state.round
        self._clock = clock
        self._drain_signal = drain_signal
        self._ask = ask
        self._readiness = StepReadiness(program, limits.max_waves)
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
        self._waiting: set[StepId] = set()
        """Steps that wait for a person who has not answered; they do not end in this execution."""
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
                    if self._are_all_awake(group):
                        await changed
                    else:
                        await anyio.lowlevel.checkpoint()
                for worker in self._idle:
                    _set_done(worker)
        finally:
            self._queue.cancel_timers()

    async def _work(self, group: TaskGroup) -> None:
        self._waking -= 1
        calls = 0
        while not self._queue.is_closed:
            call = self._queue.take()
            if call is None:
                await self._wait()
                continue
            try:
                if call.compiled is None:
                    call.visible = self._program.visible(call.step.id, self._readiness.outputs)
                    if call.step.tool in self._program.data_readers:
                        call.data = self._program.visible_data(call.step, self._recorder.state)
                        call.data_digest = values_digest(call.data)
                outcome = await self._calls.prepare(call)
                if isinstance(outcome, CompiledStep):
                    output = await self._runner.attempt(call, outcome)
                    outcome = self._calls.conclude(call, outcome, output)
                self._apply_outcome(outcome, group)
            finally:
                self._queue.release(call)
            self._close_if_waiting()
            calls += 1
            if calls % _CALLS_BETWEEN_YIELDS == 0:
                await anyio.lowlevel.checkpoint()
            self._recorder.commit_now()
            self._drain_signal.notify_if_drained()

    async def _wait(self) -> None:
        worker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(worker)
        await worker
        self._waking -= 1

    def _are_all_awake(self, group: TaskGroup) -> bool:
        """Wake or start workers for the ready calls; return whether no more are needed.

        One at first, then in each turn of the loop as many as have calls in progress, which doubles
        them. Where calls wait, all workers run after a few turns; where they never do, one worker
        makes all calls.
        """
        if self._drain_signal.is_draining:
            return True
        wanted = self._queue.startable - self._waking
        now = min(wanted, max(1, self._queue.running))
        for _ in range(now):
            self._waking += 1
            if self._idle:
                _set_done(self._idle.pop())
            else:
                group.start_soon(self._work, group)
        return now >= wanted

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
        if outcome.replayed is not None:
            # It is in the journal already.
            self._note_finished(outcome.replayed)
            self._settle(outcome.replayed)
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
            if reply.note is not None:
                self._recorder.record(reply.note)
                self._recorder.commit_now()
                await self._recorder.committed()
        finally:
            self._awaiting_replies -= 1
        if reply.answer is None:
            self._waiting.add(question.call.step.id)
        else:
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
        for step_id in self._program.graph.steps:
            if self._readiness.is_finished(step_id):
                continue
            if step_id in written or not self._calls.is_finished_earlier(step_id):
                error = _UNCERTAIN_WRITE if step_id in written else None
                ending = StepFinished(
                    at=self._clock.wall(),
                    step=step_id,
                    status="cancelled",
                    error=error,
                    reason=reason,
                )
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


def _set_done(future: asyncio.Future[None]) -> None:
    """Set a future's result, unless the waiting task was cancelled in this turn of the event loop."""
    if not future.done():
        future.set_result(None)
