"""Which steps may start, and which never will.

A step is *present* when readers see its output: it succeeded and no red gate blocks it. A step is *blocked* when a
dependency of its own is neither present, nor optional, nor skipped. This holds the bookkeeping of one execution;
it starts nothing and writes nothing.

From a program to a journaled run: one scheduler for waves and for dataflow.

A step becomes ready when what it waits for is committed: in `dataflow` its own dependencies, in `waves` every step of
the waves before. Either way each step ends the same, whatever the schedule and the limits; what was finished
before, by this run or in part, is not called again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from wavewright.executor.events.state import SUCCESSES, RunState, blocking_gate
from wavewright.executor.events.types import (
    Event,
    GateRecord,
    StepError,
    StepFinished,
    StepStatus,
    WaveFinished,
    WaveStarted,
)
from wavewright.executor.run.call_executor import CallExecutor
from wavewright.executor.run.ports import Clock, DrainSignal
from wavewright.executor.run.program import NO_WAVE, CompiledPlan
from wavewright.executor.run.recording import EventRecorder, WithheldCheck
from wavewright.executor.run.reuse import ReuseSource
from wavewright.executor.run.scheduled_calls import ScheduledCall
from wavewright.executor.run.step_runner import StepRunner
from wavewright.executor.run.worker_pool import WorkerPool
from wavewright.executor.store.journal import Journal
from wavewright.planner.language.goals import Limits
from wavewright.planner.types import Json, JsonObject, Schedule, StepId


@dataclass(frozen=True, slots=True)
class UnrunnableStep:
    """Why a step is never run."""

    status: Literal["blocked", "cancelled"]
    reason: str


class StepReadiness:
    """Endings and outputs so far, and what they let start."""

    def __init__(self, program: CompiledPlan, max_waves: int) -> None:
        self.outputs: dict[StepId, Json] = {}
        """Of the steps that are present."""
        self.remaining = len(program.graph.steps)
        """Steps that have not settled."""
        self._program = program
        self._graph = program.graph
        self._max_waves = max_waves
        self._place = program.place
        self._wave_of = program.wave_of
        self._missing = [len(program.graph.dependencies[step_id]) for step_id in program.place]
        self._ended: list[StepStatus | None] = [None] * len(program.place)
        self._failed_gates: dict[StepId, GateRecord] = {}
        self._unended_in_wave = [len(wave) for wave in program.graph.waves]

    @property
    def roots(self) -> list[StepId]:
        """The steps that wait for nothing."""
        return [step_id for step_id, place in self._place.items() if self._missing[place] == 0]

    @property
    def unordered(self) -> list[StepId]:
        """The steps that no wave holds, because a cycle keeps them from ever being ready."""
        if self._graph.cycles:
            return [step_id for step_id, place in self._place.items() if self._wave_of[place] == NO_WAVE]
        return []

    def release_dependents(self, ending: StepFinished) -> Iterable[StepId]:
        """Take a step's ending as final; return the steps that waited for it last."""
        self.remaining -= 1
        if ending.status in SUCCESSES:
            red = blocking_gate(ending.gates) if ending.gates else None
            if red is None:
                self.outputs[ending.step] = ending.output
            else:
                self._failed_gates[ending.step] = red
        missing, places = self._missing, self._place
        freed: list[StepId] = []
        for waiting in self._graph.dependants[ending.step]:
            place = places[waiting]
            missing[place] -= 1
            if missing[place] == 0:
                freed.append(waiting)
        return freed

    def is_finished(self, step_id: StepId) -> bool:
        """Whether the step's ending is on record."""
        return self._ended[self._place[step_id]] is not None

    def mark_finished(self, step_id: StepId, status: StepStatus) -> int | None:
        """Note how a step ended; return the number of its wave where it was the last one of it."""
        place = self._place[step_id]
        self._ended[place] = status
        wave = self._wave_of[place]
        if wave == NO_WAVE or wave >= self._max_waves:
            return None
        self._unended_in_wave[wave] -= 1
        return None if self._unended_in_wave[wave] else wave

    def wave_after(self, wave: int) -> Sequence[StepId]:
        """Return the steps of the next wave; none where there is none, or where the limit is reached."""
        following = wave + 1
        return (
            self._graph.waves[following] if following < min(len(self._graph.waves), self._max_waves) else ()
        )

    def beyond_limit(self) -> Iterable[StepId]:
        """Yield the steps of the waves that the limit cuts off."""
        for wave in self._graph.waves[self._max_waves :]:
            yield from wave

    def unrunnable(self, step_id: StepId) -> UnrunnableStep | None:
        """Return why a step whose dependencies have all ended is not run, if it is not."""
        wave = self._wave_of[self._place[step_id]]
        if wave >= self._max_waves:
            return UnrunnableStep(
                "cancelled",
                f"it is in wave {wave + 1}, and a run has at most {self._max_waves} waves (max_waves)",
            )
        outputs = self.outputs
        for name in self._graph.dependencies[step_id]:
            if name not in outputs:
                return self._blocked(step_id)
        return None

    def _blocked(self, step_id: StepId) -> UnrunnableStep | None:
        steps = self._graph.steps
        for name in self._program.own_dependencies(steps[step_id]):
            status = self._ended[self._place[name]]
            if name in self.outputs or steps[name].optional or status == "skipped":
                continue
            red = self._failed_gates.get(name)
            if red is not None:
                return UnrunnableStep("blocked", f"gate {red.gate!r} on {name!r} is red")
            return UnrunnableStep("blocked", f"{name!r} {_STATUS_PHRASES[status or 'cancelled']}")
        return None


_STATUS_PHRASES = {"failed": "failed", "blocked": "was blocked", "cancelled": "was cancelled"}


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
