"""A plan for the goal."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wavewright.config.documents import Source
from wavewright.engine.context import Ports, RunContext
from wavewright.engine.jobs import no_plan
from wavewright.engine.pipeline import StepResult, go_on
from wavewright.engine.recording import record
from wavewright.executor.events import RunFinished
from wavewright.planner.binding import bind_plan


@dataclass(frozen=True, slots=True)
class MakePlan:
    """Take the job's plan, or else the goal template's own, and bind it to the goal."""

    ports: Ports
    name: str = "make_plan"

    async def run(self, context: RunContext) -> StepResult[RunContext]:
        """Bind the plan: inputs, the goal's gates and caps, what terminal steps are given."""
        assert context.goal is not None
        if context.draft is None:
            error = no_plan(context.goal, Source(str(context.request.job_file), ""))
            ended = RunFinished(self.ports.clock().timestamp(), "failed", "there is no plan")
            await record(self.ports, context, ended)
            raise error
        candidate = bind_plan(context.draft.plan, context.goal, context.signatures)
        return go_on(replace(context, candidate=candidate))
