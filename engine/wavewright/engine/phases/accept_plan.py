"""The plan that the run follows from here on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wavewright.engine.context import Ports, RunContext
from wavewright.engine.pipeline import PhaseResult, proceed
from wavewright.engine.recording import diagnostics_json, record
from wavewright.executor.events import PlanAccepted
from wavewright.planner.hashing import plan_hash


@dataclass(frozen=True, slots=True)
class AcceptPlan:
    """Journal the plan, its hash and the rung that made it; the run follows it from here on."""

    ports: Ports
    name: str = "accept_plan"

    async def run(self, context: RunContext) -> PhaseResult[RunContext]:
        """Make the candidate the run's plan."""
        plan, patch = context.candidate, context.patch
        assert plan is not None
        first = context.draft.rung if context.draft is not None else "given"
        accepted = PlanAccepted(
            at=self.ports.clock().timestamp(),
            plan=plan.model_dump(mode="json", by_alias=True, exclude_unset=True),
            plan_hash=plan_hash(plan),
            rung="patch" if patch is not None else first,
            round=context.state.round + (1 if patch is not None else 0),
            warnings=tuple(diagnostics_json(context.diagnostics)),
            patch=patch.model_dump(mode="json") if patch is not None else None,
        )
        context = await record(self.ports, context, accepted)
        return proceed(replace(context, plan=plan, candidate=None, patch=None, side_effects=(), draft=None))
