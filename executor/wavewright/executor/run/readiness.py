"""Which steps may start, and which never will.

A step is *present* when readers see its output: it succeeded and no failed gate blocks it. A step is *blocked* when a
dependency of its own is neither present, nor optional, nor skipped. This holds the bookkeeping of one execution;
it starts nothing and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from wavewright.executor.events.state import SUCCESSES, blocking_gate
from wavewright.executor.events.types import GateRecord, StepFinished, StepStatus
from wavewright.executor.run.program import NO_WAVE, CompiledPlan
from wavewright.planner.types import Json, StepId


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
