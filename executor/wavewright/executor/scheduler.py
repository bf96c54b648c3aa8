"""From a program to a journaled run: one scheduler for waves and for dataflow.

A step becomes ready when what it waits for is committed: in `dataflow` its own dependencies, in `waves` every step of
the waves before. Either way each step ends the same, whatever the schedule and the limits; what was finished
before, by this run or in part, is not called again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Literal

from wavewright.executor.brake import DrainSignal
from wavewright.executor.calls import ScheduledCall
from wavewright.executor.clock import Clock
from wavewright.executor.events import Event, StepError, StepFinished, WaveFinished, WaveStarted
from wavewright.executor.journal import Journal
from wavewright.executor.journaled import WithheldCheck
from wavewright.executor.ledger import EventRecorder
from wavewright.executor.performer import CallExecutor
from wavewright.executor.pool import WorkerPool
from wavewright.executor.program import CompiledPlan
from wavewright.executor.readiness import StepReadiness
from wavewright.executor.reuse import ReuseSource
from wavewright.executor.runner import StepRunner
from wavewright.executor.state import RunState
from wavewright.planner.goals import Limits
from wavewright.planner.types import JsonObject, Schedule, StepId

_UNCERTAIN_WRITE = StepError(
    "cancelled",
    "the call was under way and may have taken effect",
    hint="look whether it did; it is not repeated unless the tool is idempotent",
)


class Scheduler:
    """One execution of one program."""

    def __init__(  # noqa: PLR0913 - the parts of an execution and its policy
        self,
        program: CompiledPlan,
        runner: StepRunner,
        ledger: EventRecorder,
        journal: Journal | None,
        *,
        lacks: WithheldCheck,
        schedule: Schedule,
        limits: Limits,
        prior: RunState,
        retry_failed: bool,
        announces: bool,
        donor: ReuseSource | None,
        clock: Clock,
        brake: DrainSignal,
    ) -> None:
        self._program = program
        self._ledger = ledger
        self._in_waves = schedule == "waves"
        self._round = prior.round
        self._clock = clock
        self._readiness = StepReadiness(program, limits.max_waves)
        self._settled_early: set[StepId] = set()
        self._freed: deque[StepId] = deque()
        self._is_admitting = False
        self._is_stopped = False
        self._performer = CallExecutor(
            self,
            runner,
            ledger,
            journal,
            lacks=lacks,
            prior=prior,
            retry_failed=retry_failed,
            announces=announces,
            donor=donor,
            clock=clock,
        )
        self._pool = WorkerPool(
            self._performer.execute,
            self.commit_now,
            concurrency=limits.concurrency,
            tool_limits={name: tool.limit for name, tool in program.tools.items() if tool.limit is not None},
            clock=clock,
            brake=brake,
        )

    async def run(self) -> None:
        """Run every step that can be run; return when all have ended."""
        for step_id in self._readiness.unordered:
            self._finish_without_call(
                step_id, "cancelled", "it waits for itself: its dependencies form a cycle"
            )
        if self._in_waves:
            self._start_wave(0, self._readiness.wave_after(-1))
        else:
            self._freed.extend(self._readiness.roots)
            self._admit_freed()
        self.commit_now()
        if self._readiness.remaining:
            await self._pool.run()

    def apply(self, events: Iterable[Event]) -> None:
        """Let committed events have their effect: outputs are seen, dependants and waves start."""
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

    def commit_now(self) -> None:
        """Commit what is pending here and now, where the journal never waits."""
        if self._ledger.is_instant:
            self._ledger.commit_now(self.apply)

    def cancel_rest(self, reason: str) -> None:
        """End every step that has not ended as cancelled; nothing starts after that.

        What ended in an earlier part of the run stays as it was, although nobody has come to it again by now.
        """
        self._is_stopped = True
        written = {step_id for step_id, _ in self._ledger.state.begun if self._writes(step_id)}
        for step_id in self._program.graph.steps:
            if self._readiness.is_finished(step_id):
                continue
            if step_id in written or not self._performer.is_finished_earlier(step_id):
                error = _UNCERTAIN_WRITE if step_id in written else None
                ending = StepFinished(
                    at=self._clock.wall(), step=step_id, status="cancelled", error=error, reason=reason
                )
                self._ledger.record(ending)
            self._readiness.mark_finished(step_id, "cancelled")

    def _writes(self, step_id: StepId) -> bool:
        step = self._program.graph.steps.get(step_id)
        tool = None if step is None else self._program.tools.get(step.tool)
        return tool is not None and tool.signature.writes

    def visible(self, step_id: StepId) -> JsonObject:
        """Return the outputs that a step may read."""
        return self._program.visible(step_id, self._readiness.outputs)

    def push(self, call: ScheduledCall, after: float = 0.0) -> None:
        """Let a call start, now or after some seconds."""
        if after > 0:
            self._pool.push_later(call, after)
        else:
            self._pool.push(call)

    def start_background(self, work: Callable[[], Awaitable[None]]) -> None:
        """Let something run beside the calls."""
        self._pool.start_background(work)

    def _settle(self, ending: StepFinished) -> None:
        freed = self._readiness.release_dependents(ending)
        if not self._in_waves:
            self._freed.extend(freed)
        if not self._readiness.remaining:
            self._pool.close()

    def _admit_freed(self) -> None:
        """Push or stop each freed step; a loop and not a recursion, since stopping one frees the next."""
        if self._is_admitting:
            return
        self._is_admitting = True
        while self._freed:
            self._admit(self._freed.popleft())
        self._is_admitting = False

    def _admit(self, step_id: StepId) -> None:
        if self._readiness.is_finished(step_id):
            return
        stop = self._readiness.unrunnable(step_id)
        if stop is not None:
            self._finish_without_call(step_id, stop.status, stop.reason)
            return
        step = self._program.graph.steps[step_id]
        place = self._program.place[step_id]
        self._pool.push(ScheduledCall(step, -self._program.priority[place], place))

    def _start_wave(self, wave: int, steps: Iterable[StepId]) -> None:
        if steps:
            self._ledger.record(WaveStarted(self._clock.wall(), wave, tuple(steps), self._round))
        else:
            self._freed.extend(self._readiness.beyond_limit())
            self._admit_freed()

    def finish_step(self, ending: StepFinished) -> None:
        """Record how a step ended; with the last one of a wave the next begins."""
        self._ledger.record(ending)
        self._note_finished(ending)

    def _note_finished(self, ending: StepFinished) -> None:
        finished_wave = self._readiness.mark_finished(ending.step, ending.status)
        if finished_wave is not None and self._in_waves:
            self._ledger.record(WaveFinished(self._clock.wall(), finished_wave, self._round))
            self._start_wave(finished_wave + 1, self._readiness.wave_after(finished_wave))

    def _finish_without_call(
        self, step_id: StepId, status: Literal["blocked", "cancelled"], reason: str
    ) -> None:
        ending = StepFinished(at=self._clock.wall(), step=step_id, status=status, reason=reason)
        # There is no output that anybody could read too early, so nobody need wait for the commit.
        self._settled_early.add(step_id)
        self.finish_step(ending)
        self._settle(ending)

    def replay_step(self, record: StepFinished) -> None:
        """Take over how a step ended before; it is in the journal already."""
        self._note_finished(record)
        self._settle(record)
        self._admit_freed()
