"""A checked plan as a test looks at it: its shape, not its text.

A *plan view* is only ever of a sound plan: an unsound one fails the test that loads it, with its diagnostics.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import cached_property

from wavewright.engine.testing.claims import Claim, unknown_name
from wavewright.planner.diagnostics import Diagnostic
from wavewright.planner.goals import Goal
from wavewright.planner.graph import PlanGraph
from wavewright.planner.models import Plan, Step
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.types import StepId


@dataclass(frozen=True, eq=False, repr=False)
class PlanView:
    """A plan, bound to its goal and found sound."""

    plan: Plan
    """As a run follows it: with the goal's inputs and gates."""
    goal: Goal
    signatures: dict[str, ToolSignature] = field(default_factory=dict[str, ToolSignature])
    """Of the tools that the goal allows."""
    warnings: tuple[Diagnostic, ...] = ()

    @cached_property
    def graph(self) -> PlanGraph:
        """Who waits for whom."""
        return PlanGraph.of(self.plan)

    @property
    def name(self) -> str:
        """Of the job."""
        return self.goal.job

    @property
    def steps(self) -> tuple[str, ...]:
        """Ids of the steps, in the plan's order."""
        return tuple(step.id for step in self.plan.steps)

    @property
    def tools(self) -> frozenset[str]:
        """Names of the tools that the steps call."""
        return frozenset(step.tool for step in self.plan.steps)

    @property
    def gates(self) -> tuple[str, ...]:
        """Ids of the gates, the goal template's included."""
        return tuple(gate.id for gate in self.plan.gates)

    @property
    def waves(self) -> tuple[tuple[str, ...], ...]:
        """Ids of the steps, wave by wave."""
        return tuple(tuple(wave) for wave in self.graph.waves)

    @property
    def width(self) -> int:
        """How many steps the widest wave has."""
        return self.graph.width

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """Pairs of a step and one that waits for it."""
        return tuple(self.graph.edges)

    def step(self, step_id: str) -> Step:
        """Return a step."""
        __tracebackhide__ = True
        return self.graph.steps[self._known(step_id)]

    def depends(self, step_id: str, *, on: str, directly: bool = False) -> Claim:
        """Return whether a step waits for another one: at any distance, or `directly`."""
        __tracebackhide__ = True
        step, wanted = self._known(step_id), self._known(on)
        path = self._path(step, wanted)
        waits_for = ", ".join(map(repr, self.graph.dependencies[step])) or "no step"
        if path is None:
            return Claim(False, f"{step!r} does not depend on {wanted!r}: it waits for {waits_for}")
        shown = " → ".join(path)
        if directly and len(path) > 2:
            return Claim(False, f"{step!r} depends on {wanted!r} only through others: {shown}")
        return Claim(True, f"{step!r} depends on {wanted!r}: {shown}")

    def __repr__(self) -> str:
        shape = " | ".join(", ".join(wave) for wave in self.waves)
        return f"<plan {self.name!r}: {shape}>"

    def _known(self, step_id: str) -> StepId:
        __tracebackhide__ = True
        found = StepId(step_id)
        if found not in self.graph.steps:
            raise unknown_name(step_id, self.steps, what="step", of=f"plan {self.name!r}")
        return found

    def _path(self, step: StepId, wanted: StepId) -> list[StepId] | None:
        """Return the shortest way from a step that is waited for to the one that waits."""
        waiting = deque([[step]])
        seen = {step}
        while waiting:
            path = waiting.popleft()
            for before in self.graph.dependencies[path[0]]:
                if before == wanted:
                    return [before, *path]
                if before not in seen:
                    seen.add(before)
                    waiting.append([before, *path])
        return None
