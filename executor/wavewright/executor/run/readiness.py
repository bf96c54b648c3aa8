"""Which steps may start, and which are blocked or cancelled.

A step is *present* when other steps can read its output: it succeeded and no failed gate blocks it. A step is *blocked*
when a dependency of its own is neither present, nor optional, nor skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from wavewright.executor.events.state import SUCCESSES, blocking_gate
from wavewright.executor.events.types import GateRecord, StepFinished, StepStatus
from wavewright.executor.run.program import NO_WAVE, CompiledPlan
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
            return [step_id for step_id, place in self._place.items() if self._wave_of[place] == NO_WAVE]
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
